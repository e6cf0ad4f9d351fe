//! Names in C for what a program names: as near to those of the P4 source as C allows.

use std::collections::HashSet;

use p4::ir::{FieldId, Program};

/// Names that mean something in C or in the headers beside the program.
const TAKEN: [&str; 12] = [
    "int", "long", "short", "char", "float", "double", "register", "volatile", "auto", "static", "signed",
    "unsigned",
];

/// Structures of the program in C that are no object's.
const STRUCTURES: [&str; 15] = [
    "items",
    "outside",
    "packet",
    "halves",
    "state",
    "progress",
    "history",
    "item",
    "log",
    "sequencer",
    "witness",
    "order",
    "gap",
    "turns",
    "bpf_spin_lock",
];

/// A name in C for each field, header, state, action and object.
pub struct Names {
    fields: Vec<String>,
    /// A name for each parser state.
    pub states: Vec<String>,
    /// A name for each action.
    pub actions: Vec<String>,
    /// A name for each table.
    pub tables: Vec<String>,
    /// A name for each table as an object that holds entries.
    pub controls: Vec<String>,
    /// A name for each muTable.
    pub mu_tables: Vec<String>,
    /// A name for each register.
    pub registers: Vec<String>,
    /// A name for each counter.
    pub counters: Vec<String>,
    /// A name for each header.
    pub headers: Vec<String>,
}

impl Names {
    /// The names of a program; no two of one kind are equal.
    pub fn of(program: &Program) -> Names {
        let mut objects = HashSet::from(STRUCTURES.map(str::to_owned));
        let mut object = |name: &str| unique(name, &mut objects);
        let mu_tables = program.mu_tables.iter().map(|table| object(&table.name)).collect();
        let registers = program.registers.iter().map(|register| object(&register.name)).collect();
        let counters = program.counters.iter().map(|counter| object(&counter.name)).collect();
        let controls =
            program.tables.iter().map(|table| object(&format!("{}.entries", table.name))).collect();
        Names {
            controls,
            fields: all(program.fields.iter().map(|field| &*field.name)),
            states: all(program.parser.iter().map(|state| &*state.name)),
            actions: all(program.actions.iter().map(|action| &*action.name)),
            tables: all(program.tables.iter().map(|table| &*table.name)),
            headers: all(program.headers.iter().map(|header| &*header.name)),
            mu_tables,
            registers,
            counters,
        }
    }

    /// The member of `struct packet` that holds a field.
    pub fn field(&self, field: FieldId) -> &str {
        &self.fields[field as usize]
    }
}

/// Names in C for names of P4, no two of them equal.
pub fn all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    names.map(|name| unique(name, &mut taken)).collect()
}

fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let plain = plain(name);
    let mut candidate = plain.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{plain}_{number}");
        number += 1;
    }
    candidate
}

fn plain(name: &str) -> String {
    // Temporaries are `%55`.
    let name = name.replace('%', "t");
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let name: String = letters.collect();
    match name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() || TAKEN.contains(&&*name)
    {
        true => format!("n_{name}"),
        false => name,
    }
}
