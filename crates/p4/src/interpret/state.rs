//! What a program keeps from packet to packet, and how it is controlled.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::ir::{ActionCall, Matching, Program};

use super::meter::{Marker, Rates};
use super::table::{Entries, MuEntries, TableEntry};

/// Tables, muTables, registers, counters, meters, groups of ports.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) tables: Vec<Entries>,
    pub(super) mu_tables: Vec<MuEntries>,
    /// As long as the highest place that was written.
    pub(super) registers: Vec<Vec<u128>>,
    /// Packets and bytes.
    pub(super) counters: Vec<BTreeMap<u32, (u64, u64)>>,
    pub(super) meters: Vec<BTreeMap<u32, Marker>>,
    pub(super) multicast: BTreeMap<u16, Vec<u16>>,
}

/// What cannot be done to a table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ControlError {
    /// Its entries are `const`.
    #[error("the entries of `{0}` are const")]
    Const(String),
    /// Its default action is `const`.
    #[error("the default action of `{0}` is const")]
    ConstDefault(String),
    /// It has an entry with the same keys, and the same priority where priorities decide.
    #[error("`{0}` has an entry with these keys already")]
    Duplicate(String),
    /// It has no entry with these keys, and this priority where priorities decide.
    #[error("`{0}` has no entry with these keys, and this priority where priorities decide")]
    Absent(String),
    /// It is full.
    #[error("`{name}` is full with {size} entries")]
    Full {
        /// Its name.
        name: String,
        /// Its size.
        size: u32,
    },
    /// A number that an array does not have.
    #[error("`{name}` has {size} places, and {index} is past them")]
    PastEnd {
        /// Its name.
        name: String,
        /// Its size.
        size: u32,
        /// What was asked for.
        index: u128,
    },
}

impl State {
    /// What a program begins with.
    pub fn new(program: &Program) -> State {
        State {
            tables: program.tables.iter().map(Entries::new).collect(),
            mu_tables: program.mu_tables.iter().map(|_| MuEntries::new()).collect(),
            registers: program.registers.iter().map(|_| Vec::new()).collect(),
            counters: program.counters.iter().map(|_| BTreeMap::new()).collect(),
            meters: program.meters.iter().map(|_| BTreeMap::new()).collect(),
            multicast: BTreeMap::new(),
        }
    }

    /// Adds an entry to a table.
    ///
    /// # Errors
    /// The table's entries are const, it has an entry with the same keys, or it is full.
    pub fn add(&mut self, program: &Program, table: u32, entry: TableEntry) -> Result<(), ControlError> {
        let declared = &program.tables[table as usize];
        let entries = &mut self.tables[table as usize];
        if declared.is_const {
            return Err(ControlError::Const(declared.name.clone()));
        }
        if entries.has(&entry) {
            return Err(ControlError::Duplicate(declared.name.clone()));
        }
        if entries.len() >= declared.size as usize {
            return Err(ControlError::Full { name: declared.name.clone(), size: declared.size });
        }
        entries.insert(entry);
        Ok(())
    }

    /// Removes the entry of a table with these keys, and this priority where priorities decide.
    ///
    /// # Errors
    /// The table's entries are const, or there is none.
    pub fn remove(&mut self, program: &Program, table: u32, entry: &TableEntry) -> Result<(), ControlError> {
        let declared = &program.tables[table as usize];
        if declared.is_const {
            return Err(ControlError::Const(declared.name.clone()));
        }
        match self.tables[table as usize].remove(entry) {
            true => Ok(()),
            false => Err(ControlError::Absent(declared.name.clone())),
        }
    }

    /// The entries of a table, in the order in which they match.
    pub fn entries(&self, table: u32) -> &[TableEntry] {
        self.tables[table as usize].all()
    }

    /// What a table does where nothing matches.
    pub fn default_call(&self, table: u32) -> &ActionCall {
        &self.tables[table as usize].default
    }

    /// Says what is done where nothing matches.
    ///
    /// # Errors
    /// That is const.
    pub fn set_default(
        &mut self,
        program: &Program,
        table: u32,
        call: ActionCall,
    ) -> Result<(), ControlError> {
        let declared = &program.tables[table as usize];
        if declared.is_default_const {
            return Err(ControlError::ConstDefault(declared.name.clone()));
        }
        self.tables[table as usize].default = call;
        Ok(())
    }

    /// Adds an entry to a muTable from the control plane; each key is a value and a mask.
    ///
    /// # Errors
    /// It is full, or the key of a direct one is past its end.
    pub fn add_mu(
        &mut self,
        program: &Program,
        table: u32,
        keys: Vec<(u128, u128)>,
        values: Vec<u128>,
    ) -> Result<(), ControlError> {
        let declared = &program.mu_tables[table as usize];
        let entries = &mut self.mu_tables[table as usize];
        let (name, size) = (declared.name.clone(), declared.size);
        if let (Matching::Direct, Some((index, _))) = (declared.matching, keys.first())
            && *index >= u128::from(size)
        {
            return Err(ControlError::PastEnd { name, size, index: *index });
        }
        if entries.len() >= size as usize {
            return Err(ControlError::Full { name, size });
        }
        entries.insert(declared, keys, values);
        Ok(())
    }

    /// The values of a muTable's entry that these keys match.
    pub fn read_mu(&self, program: &Program, table: u32, keys: &[u128]) -> Option<Vec<u128>> {
        let found = self.mu_tables[table as usize].read(&program.mu_tables[table as usize], keys);
        found.map(<[u128]>::to_vec)
    }

    /// What a table says of these keys, and whether an entry matched.
    #[inline]
    pub fn look_up(&self, table: u32, keys: &[u128]) -> (bool, &ActionCall) {
        let entries = &self.tables[table as usize];
        let found = entries.look_up(keys);
        (found.is_some(), found.unwrap_or(&entries.default))
    }

    /// The entries of a muTable that have all bits of their keys: keys and values.
    pub fn mu_entries(&self, table: u32) -> impl Iterator<Item = (&[u128], &[u128])> {
        let entries = &self.mu_tables[table as usize];
        entries.exact.iter().map(|(keys, values)| (&keys[..], &values[..]))
    }

    /// The values of the entries with masks, in the order in which they were added.
    pub fn masked_mu_entries(&self, table: u32) -> impl ExactSizeIterator<Item = &[u128]> {
        self.mu_tables[table as usize].masked.iter().map(|(_, values)| &values[..])
    }

    /// Which of the entries with masks these keys find, if no other has all their bits.
    pub fn masked_match(&self, program: &Program, table: u32, keys: &[u128]) -> Option<usize> {
        let entries = &self.mu_tables[table as usize];
        match entries.exact.contains_key(keys) {
            true => None,
            false => entries.masked_match(&program.mu_tables[table as usize], keys),
        }
    }

    /// The places of a register that were written, from 0 on.
    pub fn register_values(&self, register: u32) -> &[u128] {
        &self.registers[register as usize]
    }

    /// Places of a counter that have counted: packets and bytes.
    pub fn counts(&self, counter: u32) -> impl Iterator<Item = (u32, (u64, u64))> {
        self.counters[counter as usize].iter().map(|(at, counts)| (*at, *counts))
    }

    /// The markers of a meter that have rates.
    pub fn markers(&self, meter: u32) -> impl Iterator<Item = (u32, &Marker)> {
        self.meters[meter as usize].iter().map(|(at, marker)| (*at, marker))
    }

    /// The value of a register; 0 where nothing was written.
    pub fn register(&self, register: u32, index: u32) -> u128 {
        self.registers[register as usize].get(index as usize).copied().unwrap_or_default()
    }

    /// Packets and bytes that a counter has counted.
    pub fn counter(&self, counter: u32, index: u32) -> (u64, u64) {
        self.counters[counter as usize].get(&index).copied().unwrap_or_default()
    }

    /// Gives a meter its rates; without any it marks green.
    ///
    /// # Errors
    /// The index is past the meter's end.
    pub fn set_meter(
        &mut self,
        program: &Program,
        meter: u32,
        index: u32,
        rates: Rates,
    ) -> Result<(), ControlError> {
        let declared = &program.meters[meter as usize];
        if index >= declared.size {
            let (name, size) = (declared.name.clone(), declared.size);
            return Err(ControlError::PastEnd { name, size, index: index.into() });
        }
        self.meters[meter as usize].insert(index, Marker::new(rates));
        Ok(())
    }

    /// Says which ports a group is.
    pub fn set_group(&mut self, group: u16, ports: Vec<u16>) {
        self.multicast.insert(group, ports);
    }

    /// All that packets have changed, in a fixed order.
    pub fn dump(&self, program: &Program) -> Dump {
        let hexes = |values: &[u128]| values.iter().map(|value| format!("{value:#x}")).collect::<Vec<_>>();
        let mu_tables = program.mu_tables.iter().zip(&self.mu_tables).map(|(declared, found)| {
            let exact = found
                .exact
                .iter()
                .map(|(keys, values)| DumpedEntry { keys: hexes(keys), values: hexes(values) });
            let masked = found.masked.iter().map(|(keys, values)| {
                let keys = keys.iter().map(|(value, mask)| format!("{value:#x}&&&{mask:#x}")).collect();
                DumpedEntry { keys, values: hexes(values) }
            });
            DumpedTable {
                name: declared.name.clone(),
                entries: exact.chain(masked).collect(),
                refused_writes: found.full,
            }
        });
        let registers = program.registers.iter().zip(&self.registers).map(|(declared, values)| {
            let written = (0u32..).zip(values).filter(|(_, value)| **value != 0);
            DumpedArray {
                name: declared.name.clone(),
                values: written.map(|(at, value)| (at, format!("{value:#x}"))).collect(),
            }
        });
        let counters = program.counters.iter().zip(&self.counters).map(|(declared, counts)| {
            let values = counts
                .iter()
                .map(|(at, (packets, bytes))| (*at, format!("{packets} packets, {bytes} bytes")));
            DumpedArray { name: declared.name.clone(), values: values.collect() }
        });
        Dump { mu_tables: mu_tables.collect(), registers: registers.collect(), counters: counters.collect() }
    }
}

/// State that packets have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dump {
    /// muTables with their entries.
    pub mu_tables: Vec<DumpedTable>,
    /// Registers, where they are not 0.
    pub registers: Vec<DumpedArray>,
    /// Counters, where they have counted.
    pub counters: Vec<DumpedArray>,
}

/// A muTable's entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DumpedTable {
    /// Its name.
    pub name: String,
    /// In the order of their keys.
    pub entries: Vec<DumpedEntry>,
    /// Writes that found the table full.
    pub refused_writes: u64,
}

/// An entry, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DumpedEntry {
    /// Its keys.
    pub keys: Vec<String>,
    /// Its values.
    pub values: Vec<String>,
}

/// Places of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DumpedArray {
    /// Its name.
    pub name: String,
    /// Where, and what is there.
    pub values: Vec<(u32, String)>,
}
