//! Maglev's consistent hash (Eisenbud et al., NSDI'16, §3.4): a table of fixed size in which each
//! backend has its share of the entries, most of which stay where they are when another one goes.

use alloc::vec;
use alloc::vec::Vec;

use nf::hash_bytes;

/// Entries of a table: a prime, so that every skip visits all of them. The paper's smaller size; more
/// than 100 times the backends, for shares that are off by less than 1%.
pub(super) const ENTRIES: usize = 65_537;

const FREE: u16 = u16::MAX;

/// Seeds of the paper's two hash functions; any two numbers.
const OFFSET_SEED: u64 = 1;
const SKIP_SEED: u64 = 2;

/// A backend that takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// What [`Maglev::at`] gives; below 65,535.
    pub(super) index: u16,
    /// What it is: the same wherever it stands, and nobody else's.
    pub(super) name: &'a [u8],
    /// Its share, relative to the others'; at least 1.
    pub(super) weight: u32,
}

/// The table; empty without candidates.
#[derive(Clone, Debug, Default)]
pub(super) struct Maglev {
    entries: Vec<u16>,
}

impl Maglev {
    /// Lets the candidates take entries in turns, each in the order of a permutation of its own.
    ///
    /// A round gives each its weight as credit, and the heaviest is worth one entry: so entries are
    /// in the ratio of the weights after every round. Takes at most [`ENTRIES`] rounds, and time in
    /// `O(ENTRIES * (candidates + log ENTRIES))`, on average.
    pub(super) fn new(mut candidates: Vec<Candidate<'_>>) -> Maglev {
        let Some(heaviest) = candidates.iter().map(|candidate| candidate.weight).max() else {
            return Maglev::default();
        };
        // Where it stands in the list must not matter.
        candidates.sort_unstable_by_key(|candidate| candidate.name);
        let mut turns: Vec<Turn> = candidates.iter().map(Turn::new).collect();
        let mut entries = vec![FREE; ENTRIES];
        let mut free = ENTRIES;
        loop {
            for turn in &mut turns {
                turn.credit += turn.weight;
                if turn.credit < heaviest {
                    continue;
                }
                turn.credit -= heaviest;
                let entry = turn.next_free(&entries);
                entries[entry] = turn.index;
                free -= 1;
                if free == 0 {
                    return Maglev { entries };
                }
            }
        }
    }

    /// The backend at a hash or any other number; `None` if there is none.
    #[inline]
    pub(super) fn at(&self, hash: u64) -> Option<u16> {
        self.entries.get((hash % ENTRIES as u64) as usize).copied()
    }

    /// The index at every entry.
    #[cfg(test)]
    pub(super) fn entries(&self) -> &[u16] {
        &self.entries
    }
}

/// One backend while the table is filled.
pub(super) struct Turn {
    index: u16,
    weight: u32,
    credit: u32,
    /// The entry of its permutation that it wants next; at first the paper's offset.
    pub(super) next: usize,
    pub(super) skip: usize,
}

impl Turn {
    pub(super) fn new(candidate: &Candidate<'_>) -> Turn {
        let hash = |seed| hash_bytes(candidate.name, seed);
        Turn {
            index: candidate.index,
            weight: candidate.weight,
            credit: 0,
            next: (hash(OFFSET_SEED) % ENTRIES as u64) as usize,
            skip: (hash(SKIP_SEED) % (ENTRIES as u64 - 1)) as usize + 1,
        }
    }

    /// The first entry of the rest of its permutation that nobody has; there must be one.
    fn next_free(&mut self, entries: &[u16]) -> usize {
        loop {
            let entry = self.next;
            self.next = (self.next + self.skip) % ENTRIES;
            if entries[entry] == FREE {
                return entry;
            }
        }
    }
}
