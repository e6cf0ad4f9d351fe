//! Tables that are looked up: by all bits, by the longest prefix, by masks and ranges.

use std::collections::{BTreeMap, HashMap};

use crate::ir::{ActionCall, KeySet, MatchKind, Matching, MuTable, Table, has_priorities, ones};

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// What each key is held against.
    pub keys: Vec<KeySet>,
    /// The lower comes first. It decides only in a table where a key is matched by a mask, a range or as an option.
    pub priority: u32,
    /// What is done.
    pub call: ActionCall,
}

/// A table's entries, in the order in which they match.
#[derive(Clone, Debug)]
pub struct Entries {
    entries: Vec<TableEntry>,
    /// Where all keys are matched by all bits: values to the entry's place.
    exact: Option<HashMap<Vec<u128>, usize>>,
    /// The key by whose prefix the longest matches; nothing where priorities decide.
    lpm: Option<usize>,
    has_priorities: bool,
    /// What is done where nothing matches.
    pub default: ActionCall,
}

impl Entries {
    /// What a table begins with.
    pub fn new(table: &Table) -> Entries {
        let is_exact = !table.keys.is_empty() && table.keys.iter().all(|key| key.kind == MatchKind::Exact);
        let has_priorities = has_priorities(&table.keys);
        let lpm = table.keys.iter().position(|key| key.kind == MatchKind::Lpm && !has_priorities);
        let exact = is_exact.then(HashMap::new);
        let default = table.default.clone();
        let mut entries = Entries { entries: Vec::new(), exact, lpm, has_priorities, default };
        for (priority, entry) in table.entries.iter().enumerate() {
            let (keys, call) = (entry.keys.clone(), entry.call.clone());
            entries.insert(TableEntry { keys, priority: priority as u32, call });
        }
        entries
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is an entry with these keys, and this priority where priorities decide.
    pub fn has(&self, entry: &TableEntry) -> bool {
        match &self.exact {
            Some(exact) => exact.contains_key(&exact_values(entry)),
            None => self.position(entry).is_some(),
        }
    }

    fn position(&self, entry: &TableEntry) -> Option<usize> {
        let is_same = |other: &TableEntry| {
            other.keys == entry.keys && (!self.has_priorities || other.priority == entry.priority)
        };
        self.entries.iter().position(is_same)
    }

    /// Adds an entry; one that is [there](Entries::has) already is replaced.
    pub fn insert(&mut self, entry: TableEntry) {
        if let Some(exact) = &mut self.exact {
            let values = exact_values(&entry);
            match exact.get(&values) {
                Some(at) => self.entries[*at] = entry,
                None => {
                    exact.insert(values, self.entries.len());
                    self.entries.push(entry);
                }
            }
            return;
        }
        let rank = self.rank(&entry);
        if let Some(same) = self.position(&entry) {
            self.entries[same] = entry;
            return;
        }
        let at = self.entries.partition_point(|other| self.rank(other) <= rank);
        self.entries.insert(at, entry);
    }

    /// Low priorities first; long prefixes first where priorities do not decide.
    fn rank(&self, entry: &TableEntry) -> (u32, u32) {
        let prefix = self.lpm.and_then(|at| entry.keys.get(at)).map_or(0, prefix_bits);
        (u32::MAX - prefix, entry.priority)
    }

    /// All of them, in the order in which they match.
    pub fn all(&self) -> &[TableEntry] {
        &self.entries
    }

    /// Removes an entry with these keys, and this priority where priorities decide; whether it was there.
    pub fn remove(&mut self, entry: &TableEntry) -> bool {
        let found = match &self.exact {
            Some(exact) => exact.get(&exact_values(entry)).copied(),
            None => self.position(entry),
        };
        let Some(at) = found else { return false };
        self.entries.remove(at);
        if let Some(exact) = &mut self.exact {
            *exact = self.entries.iter().zip(0..).map(|(entry, at)| (exact_values(entry), at)).collect();
        }
        true
    }

    /// What an entry says, if one matches.
    pub fn look_up(&self, values: &[u128]) -> Option<&ActionCall> {
        if let Some(exact) = &self.exact {
            return exact.get(values).map(|at| &self.entries[*at].call);
        }
        // A table without keys has nothing to match.
        let is_match = |entry: &&TableEntry| {
            !values.is_empty() && entry.keys.iter().zip(values).all(|(key, value)| key.contains(*value))
        };
        self.entries.iter().find(is_match).map(|entry| &entry.call)
    }
}

impl KeySet {
    /// Whether the value is in it.
    pub fn contains(&self, value: u128) -> bool {
        match self {
            KeySet::Masked { value: wanted, mask } => value & mask.value == wanted.value & mask.value,
            KeySet::Range { low, high } => (low.value..=high.value).contains(&value),
        }
    }
}

fn exact_values(entry: &TableEntry) -> Vec<u128> {
    entry.keys.iter().map(exact_value).collect()
}

fn exact_value(key: &KeySet) -> u128 {
    match key {
        KeySet::Masked { value, .. } => value.value,
        KeySet::Range { low, .. } => low.value,
    }
}

fn prefix_bits(key: &KeySet) -> u32 {
    match key {
        KeySet::Masked { mask, .. } => mask.value.count_ones(),
        KeySet::Range { .. } => 0,
    }
}

/// Value and mask of each key, and the values.
type Masked = (Vec<(u128, u128)>, Vec<u128>);

/// The entries of a muTable.
#[derive(Clone, Debug)]
pub struct MuEntries {
    /// By all bits of the keys.
    pub exact: BTreeMap<Vec<u128>, Vec<u128>>,
    /// With masks, as the control plane added them: value and mask of each key.
    pub masked: Vec<Masked>,
    /// Writes that found no room.
    pub full: u64,
}

impl MuEntries {
    /// None.
    pub fn new() -> MuEntries {
        MuEntries { exact: BTreeMap::new(), masked: Vec::new(), full: 0 }
    }

    /// Entries in all.
    pub fn len(&self) -> usize {
        self.exact.len() + self.masked.len()
    }

    /// Which of the masked entries a key matches: the first, or with `lpm` that of the longest prefix.
    pub fn masked_match(&self, table: &MuTable, keys: &[u128]) -> Option<usize> {
        let is_match = |(_, (entry, _)): &(usize, &Masked)| {
            entry.iter().zip(keys).all(|((value, mask), key)| key & mask == value & mask)
        };
        let mut found = self.masked.iter().enumerate().filter(is_match);
        match table.matching {
            Matching::Lpm => {
                let bits =
                    |entry: &[(u128, u128)]| entry.iter().map(|(_, mask)| mask.count_ones()).sum::<u32>();
                found.max_by_key(|(at, (entry, _))| (bits(entry), usize::MAX - at)).map(|(at, _)| at)
            }
            _ => found.next().map(|(at, _)| at),
        }
    }

    /// The values, or `None` where there is no entry.
    pub fn read(&self, table: &MuTable, keys: &[u128]) -> Option<&[u128]> {
        if let Some(values) = self.exact.get(keys) {
            return Some(values);
        }
        self.masked_match(table, keys).map(|at| &self.masked[at].1[..])
    }

    /// Sets the values of the entry that the keys match, or of a new one for just these keys.
    pub fn write(&mut self, table: &MuTable, keys: &[u128], values: Vec<u128>) {
        if let Some(entry) = self.exact.get_mut(keys) {
            *entry = values;
        } else if let Some(at) = self.masked_match(table, keys) {
            self.masked[at].1 = values;
        } else if table.matching == Matching::Direct
            && keys.first().is_none_or(|key| *key >= u128::from(table.size))
        {
            // Past the end of an array nothing is written.
        } else if self.len() >= table.size as usize {
            self.full += 1;
        } else {
            self.exact.insert(keys.to_vec(), values);
        }
    }

    /// Adds or replaces an entry with masks.
    pub fn insert(&mut self, table: &MuTable, keys: Vec<(u128, u128)>, values: Vec<u128>) {
        let is_whole = |((_, mask), column): (&(u128, u128), &crate::ir::Column)| *mask == ones(column.width);
        if keys.iter().zip(&table.keys).all(is_whole) {
            self.exact.insert(keys.into_iter().map(|(value, _)| value).collect(), values);
            return;
        }
        match self.masked.iter_mut().find(|(other, _)| *other == keys) {
            Some(entry) => entry.1 = values,
            None => self.masked.push((keys, values)),
        }
    }
}
