//! How much of each resource the parts of a program take.
//!
//! | part | SRAM | TCAM | hash units | stateful ALUs | tables | key bits |
//! |---|---|---|---|---|---|---|
//! | table, all keys `exact` | key, action, its data | | 1 | | 1 | the key's |
//! | table with other keys | action, its data | key; twice the bits of a `range` | | | 1 | the key's |
//! | table without keys | | | | | 1 | |
//! | register | the value | | | a word each | 1 | the index's |
//! | meter | 4 words of 64 bits | | | 1 | 1 | the index's |
//! | counter | 64 bits a count | | | | 1 | the index's |
//! | muTable, `exact` | key, values | | 1 | a word of the values each | 1 | the key's |
//! | muTable, `direct` | values | | | a word of the values each | 1 | the index's |
//! | muTable, `ternary`, `lpm` | values | key | | a word of the values each | 1 | the key's |
//! | hash, checksum | | | 1 | | | |
//!
//! An entry has [`ENTRY_BITS`] bits more. Memories are as full as their size: no room is kept free for a hash. What is read under a
//! second key is there twice. A muTable that is written from a later stage takes no ALUs: the ring writes it.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::{Amounts, Memory, Profile, Resource};
use crate::ir::{
    Algorithm, MatchKind, Matching, Object, Program, SourcePlace, StatementKind, Table, Unit, visit_numbered,
};

/// Bits of an entry that is looked up by its key, beside what the program has in it: whether it is there, and a version.
pub const ENTRY_BITS: u64 = 4;

/// Bits of the state of a meter: two buckets, each with its time.
const METER_BITS: u64 = 4 * 64;

/// Something that is in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A table: an index in `Program::tables`. It may be in several stages.
    Table(u32),
    /// What keeps state.
    Object(Object),
    /// A hash or checksum: its number among the statements of [`Program::bodies`], those that others hold after them.
    Hash(u32),
}

/// What a part takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which part.
    pub part: Part,
    /// What it takes in each stage in which it is.
    pub fixed: Amounts,
    /// Its entries, if it may be split.
    pub entries: Option<Entries>,
}

/// Entries that may be in several stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// How many, 1 or more.
    pub number: u64,
    /// Blocks of SRAM side by side for the bits of an entry, and rows of each.
    pub sram: (u64, u64),
    /// Blocks of TCAM side by side, and rows of each.
    pub tcam: (u64, u64),
}

impl Entries {
    /// Blocks of SRAM and of TCAM for so many of them.
    pub fn blocks(&self, number: u64) -> [u64; 2] {
        [self.sram, self.tcam].map(|(side_by_side, rows)| side_by_side * number.div_ceil(rows))
    }

    /// How many there is room for in so many blocks of SRAM and TCAM.
    pub fn room(&self, sram: u64, tcam: u64) -> u64 {
        let room = |(side_by_side, rows): (u64, u64), blocks: u64| {
            blocks.checked_div(side_by_side).map_or(u64::MAX, |blocks| blocks * rows)
        };
        room(self.sram, sram).min(room(self.tcam, tcam))
    }
}

impl Need {
    /// What it takes in a stage with so many of its entries.
    pub fn with(&self, entries: u64) -> Amounts {
        let mut amounts = self.fixed;
        if let Some(all) = &self.entries {
            let [sram, tcam] = all.blocks(entries);
            amounts[Resource::Sram as usize] += sram;
            amounts[Resource::Tcam as usize] += tcam;
        }
        amounts
    }

    /// What it takes where all of it is in one stage.
    pub fn whole(&self) -> Amounts {
        self.with(self.entries.map_or(0, |entries| entries.number))
    }
}

/// What all parts take that the ingress and egress use, in the order of [`Part`]. `twice` has what is read under a second key, and
/// `over_the_ring` the muTables that are written from a later stage.
pub fn needs(
    program: &Program,
    profile: &Profile,
    twice: &BTreeSet<Object>,
    over_the_ring: &BTreeSet<u32>,
) -> Vec<Need> {
    let mut index_bits = BTreeMap::new();
    let mut parts = BTreeSet::new();
    visit_numbered(program.bodies(), &mut |at, statement| match &statement.kind {
        StatementKind::Apply { table, .. } => _ = parts.insert(Part::Table(*table)),
        StatementKind::Hash { algorithm, .. } | StatementKind::Checksum { algorithm, .. }
            if *algorithm != Algorithm::Identity =>
        {
            parts.insert(Part::Hash(at));
        }
        kind => {
            if let Some(object) = Object::of(kind) {
                parts.insert(Part::Object(object));
                let bits: u64 = kind.state_keys().iter().map(|key| u64::from(program.width(*key))).sum();
                let most = index_bits.entry(object).or_default();
                *most = bits.max(*most);
            }
        }
    });
    let need = |part| match part {
        Part::Table(at) => table(&program.tables[at as usize], program, profile),
        Part::Object(object) => {
            let bits = index_bits.get(&object).copied().unwrap_or_default();
            let copies = if twice.contains(&object) { 2 } else { 1 };
            let is_on_ring = matches!(object, Object::MuTable(at) if over_the_ring.contains(&at));
            (state(object, program, profile, bits, copies, is_on_ring), None)
        }
        Part::Hash(_) => (amounts(&[(Resource::Hash, 1)]), None),
    };
    let with_part = |part| {
        let (fixed, entries) = need(part);
        Need { part, fixed, entries }
    };
    parts.into_iter().map(with_part).collect()
}

fn amounts(of: &[(Resource, u64)]) -> Amounts {
    let mut amounts = Amounts::default();
    of.iter().for_each(|(resource, amount)| amounts[*resource as usize] += amount);
    amounts
}

/// Blocks side by side for so many bits, and rows of each.
fn side_by_side(bits: u64, memory: &Memory) -> (u64, u64) {
    (bits.div_ceil(memory.bits.number.into()), memory.rows.number.into())
}

fn table(table: &Table, program: &Program, profile: &Profile) -> (Amounts, Option<Entries>) {
    let bits = |key: &crate::ir::TableKey| u64::from(program.width(key.value));
    let key_bits: u64 = table.keys.iter().map(bits).sum();
    let mut fixed = amounts(&[(Resource::Table, 1), (Resource::Key, key_bits)]);
    if table.keys.is_empty() {
        return (fixed, None);
    }
    let data = |action: &u32| {
        let parameters = &program.actions[*action as usize].parameters;
        parameters.iter().map(|field| u64::from(program.fields[*field as usize].width)).sum::<u64>()
    };
    let most: u64 = table.actions.iter().map(data).max().unwrap_or_default();
    let actions = u64::from(usize::BITS - table.actions.len().saturating_sub(1).leading_zeros());
    let declared = table.entries.len() as u64;
    let number = if table.is_const { declared } else { declared.max(table.size.into()) }.max(1);
    let is_exact = table.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let matched = |key| bits(key) * if key.kind == MatchKind::Range { 2 } else { 1 };
    let (in_sram, in_tcam) = match is_exact {
        true => (key_bits + ENTRY_BITS + actions + most, 0),
        false => (actions + most, table.keys.iter().map(matched).sum::<u64>() + ENTRY_BITS),
    };
    fixed[Resource::Hash as usize] = u64::from(is_exact);
    let sram = side_by_side(in_sram, &profile.stage.sram);
    let tcam = side_by_side(in_tcam, &profile.stage.tcam);
    (fixed, Some(Entries { number, sram, tcam }))
}

fn state(
    object: Object,
    program: &Program,
    profile: &Profile,
    index_bits: u64,
    copies: u64,
    is_on_ring: bool,
) -> Amounts {
    let stage = &profile.stage;
    let blocks = |bits: u64, size: u32, memory: &Memory| {
        let (blocks, rows) = side_by_side(bits, memory);
        blocks * u64::from(size).div_ceil(rows) * copies
    };
    let words = |bits: u64| bits.div_ceil(stage.alu_bits.number.into());
    let mut taken = amounts(&[(Resource::Table, copies), (Resource::Key, index_bits * copies)]);
    let mut more =
        |of: &[(Resource, u64)]| of.iter().for_each(|(resource, n)| taken[*resource as usize] += n);
    match object {
        Object::Register(at) => {
            let register = &program.registers[at as usize];
            let bits = register.width.into();
            more(&[(Resource::Sram, blocks(bits, register.size, &stage.sram)), (Resource::Alu, words(bits))]);
        }
        Object::Counter(at) => {
            let counter = &program.counters[at as usize];
            let bits = if counter.unit == Unit::PacketsAndBytes { 128 } else { 64 };
            more(&[(Resource::Sram, blocks(bits, counter.size, &stage.sram))]);
        }
        Object::Meter(at) => {
            let sram = blocks(METER_BITS, program.meters[at as usize].size, &stage.sram);
            more(&[(Resource::Sram, sram), (Resource::Alu, 1)]);
        }
        Object::MuTable(at) => {
            let table = &program.mu_tables[at as usize];
            let bits = |columns: &[crate::ir::Column]| {
                columns.iter().map(|column| u64::from(column.width)).sum::<u64>()
            };
            let (keys, values) = (bits(&table.keys), bits(&table.values));
            let (in_sram, in_tcam, hashes) = match table.matching {
                Matching::Exact => (keys + values + ENTRY_BITS, 0, copies),
                Matching::Direct => (values, 0, 0),
                Matching::Ternary | Matching::Lpm => (values, keys + ENTRY_BITS, 0),
            };
            more(&[
                (Resource::Sram, blocks(in_sram, table.size, &stage.sram)),
                (Resource::Tcam, blocks(in_tcam, table.size, &stage.tcam)),
                (Resource::Hash, hashes),
                (Resource::Alu, if is_on_ring { 0 } else { words(values) }),
            ]);
        }
    }
    taken
}

/// What a part is, its name in the program, and where that declares or applies it.
pub fn describe(part: Part, program: &Program) -> String {
    let at = |place: Option<&SourcePlace>| place.map_or(String::new(), |place| format!(" ({place})"));
    match part {
        Part::Object(object) => object.describe(program),
        Part::Table(table) => {
            let is_it =
                |kind: &StatementKind| matches!(kind, StatementKind::Apply { table: at, .. } if *at == table);
            format!(
                "table {}{}",
                program.tables[table as usize].name,
                at(place(program, &mut |_, kind| is_it(kind)))
            )
        }
        Part::Hash(number) => format!("a hash{}", at(place(program, &mut |at, _| at == number))),
    }
}

/// The name without what it is and where.
pub fn name(part: Part, program: &Program) -> String {
    match part {
        Part::Table(at) => program.tables[at as usize].name.clone(),
        Part::Object(Object::MuTable(at)) => program.mu_tables[at as usize].name.clone(),
        Part::Object(Object::Register(at)) => program.registers[at as usize].name.clone(),
        Part::Object(Object::Counter(at)) => program.counters[at as usize].name.clone(),
        Part::Object(Object::Meter(at)) => program.meters[at as usize].name.clone(),
        Part::Hash(number) => match place(program, &mut |at, _| at == number) {
            Some(place) => format!("line {}", place.line),
            None => format!("statement {number}"),
        },
    }
}

/// What a part is.
pub fn kind(part: Part) -> &'static str {
    match part {
        Part::Table(_) => "table",
        Part::Object(Object::MuTable(_)) => "muTable",
        Part::Object(Object::Register(_)) => "register",
        Part::Object(Object::Counter(_)) => "counter",
        Part::Object(Object::Meter(_)) => "meter",
        Part::Hash(_) => "hash",
    }
}

/// Where the first statement is written of which this is so.
fn place<'a>(
    program: &'a Program,
    is_it: &mut dyn FnMut(u32, &StatementKind) -> bool,
) -> Option<&'a SourcePlace> {
    let mut found = None;
    visit_numbered(program.bodies(), &mut |number, statement| {
        if found.is_none() && is_it(number, &statement.kind) {
            found = Some(statement.place);
        }
    });
    let found = found?;
    program.places.get(found as usize).map(|written| &written.place).filter(|place| place.line > 0)
}
