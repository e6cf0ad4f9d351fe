//! A stateful table: keys and states.

use std::collections::BTreeMap;

/// Exact match on 64-bit keys, of fixed capacity.
///
/// A key is the index of the flow's state, such as the hash of its header fields (RAPID §4.2). Memory is
/// taken once; a look-up is O(1).
#[derive(Clone, Debug)]
pub struct StateTable<State> {
    /// Linear probing, at most half full.
    cells: Vec<Cell<State>>,
    len: usize,
    capacity: usize,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cell<State> {
    key: u64,
    state: Option<State>,
}

impl<State: Copy + Default> StateTable<State> {
    /// An empty table.
    pub fn new(capacity: usize) -> Self {
        let slots = (capacity * 2).next_power_of_two().max(2);
        StateTable { cells: vec![Cell { key: 0, state: None }; slots], len: 0, capacity, refused: 0 }
    }

    /// The key's state; the default where it was never written.
    #[inline]
    pub fn get(&self, key: u64) -> State {
        self.cells[self.find(key)].state.unwrap_or_default()
    }

    /// Sets the key's state. A new key in a full table is refused and counted.
    #[inline]
    pub fn set(&mut self, key: u64, state: State) {
        let at = self.find(key);
        if self.cells[at].state.is_none() {
            if self.len == self.capacity {
                self.refused += 1;
                return;
            }
            self.len += 1;
        }
        self.cells[at] = Cell { key, state: Some(state) };
    }

    /// New keys that the full table refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// All that was written, by key.
    pub fn contents(&self) -> BTreeMap<u64, State> {
        self.cells.iter().filter_map(|cell| Some((cell.key, cell.state?))).collect()
    }

    #[inline]
    fn find(&self, key: u64) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & mask;
        while self.cells[at].state.is_some() && self.cells[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let mut table = StateTable::new(2);
        for key in [5, 6, 7, 6] {
            table.set(key, key * 10 + table.get(key));
        }
        assert_eq!(table.contents(), BTreeMap::from([(5, 50), (6, 120)]));
        assert_eq!((table.refused(), table.get(7)), (1, 0));
    }
}
