//! Which key of an object is its second: packets read under it, and write under the first only.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::Operand;

/// Most pairs of keys that are looked at.
const MAX_PAIRS: usize = 1_024;

/// Number of a value.
pub type Value = u32;

/// What an object is asked under: numbers of values.
pub type Key = Vec<Value>;

/// The keys under which packets use an object.
#[derive(Debug, Default)]
pub struct Keys {
    /// How each is written, by the first use.
    used: BTreeMap<Key, Written>,
    /// Two that one packet may use, in the order in which it does.
    met: BTreeSet<(Key, Key)>,
}

#[derive(Debug, Default)]
struct Written {
    /// The operands.
    operands: BTreeSet<Vec<Operand>>,
    /// Whether packets write under it.
    is_written: bool,
    /// Whether it is read behind a write.
    is_behind_write: bool,
}

/// Why an object cannot have all its keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are too many.
    Ports,
    /// A second read port does not see what the same packet writes.
    ReadBehindWrite,
}

impl Keys {
    /// One packet may use both, this one first.
    pub fn meet(&mut self, first: &Key, then: &Key) {
        if !self.is_full() {
            self.met.insert((first.clone(), then.clone()));
        }
    }

    /// Whether there are more than can be told apart; such an object is refused.
    pub fn is_full(&self) -> bool {
        self.met.len() == MAX_PAIRS
    }

    /// A use.
    pub fn note(&mut self, key: &Key, operands: &[Operand], is_write: bool, is_behind_write: bool) {
        let used = self.used.entry(key.clone()).or_default();
        used.operands.insert(operands.to_vec());
        used.is_written |= is_write;
        used.is_behind_write |= !is_write && is_behind_write;
    }
}

/// How the second key is written, in all forms that the program has; none if there is none.
pub fn second_key(keys: &Keys) -> Result<Vec<Vec<Operand>>, Refused> {
    if keys.is_full() {
        return Err(Refused::Ports);
    }
    let is_written = |key: &Key| keys.used.get(key).is_some_and(|used| used.is_written);
    let mut second: BTreeSet<&Key> = BTreeSet::new();
    for (first, then) in &keys.met {
        match (is_written(first), is_written(then)) {
            (true, true) => return Err(Refused::Ports),
            (false, true) => second.insert(first),
            (true, false) => second.insert(then),
            // Where nothing is written that comes first which is read first.
            (false, false) => second.insert(then),
        };
    }
    if keys.met.iter().any(|(first, then)| second.contains(first) == second.contains(then)) {
        return Err(Refused::Ports);
    }
    let operands = |is_second: bool| -> BTreeSet<&Vec<Operand>> {
        let used = keys.used.iter().filter(|(key, _)| second.contains(key) == is_second);
        used.flat_map(|(_, used)| &used.operands).collect()
    };
    let seconds = operands(true);
    if !seconds.is_disjoint(&operands(false)) {
        return Err(Refused::Ports);
    }
    if keys.used.iter().any(|(key, used)| second.contains(key) && used.is_behind_write) {
        return Err(Refused::ReadBehindWrite);
    }
    Ok(seconds.into_iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pairs_than_are_looked_at_are_refused() {
        let mut keys = Keys::default();
        for other in 0..10_000 {
            keys.meet(&vec![0], &vec![other + 1]);
        }
        assert!(keys.is_full() && keys.met.len() == MAX_PAIRS);
        assert_eq!(second_key(&keys), Err(Refused::Ports));
    }
}
