//! Which shard and which bucket a packet is of: the lowest bits of its hash.

use strategy::{Assign, HashFields, SYMMETRIC_KEY, Toeplitz};
use wire::Headers;

use crate::strategies::plan::Plan;

/// A packet's entry is the lowest bits of the hash with which a card picks a queue: the lowest of these are its shard, as
/// in the card's indirection table (§II-A), the others its bucket.
#[derive(Clone)]
pub(super) struct ShardHash {
    toeplitz: Toeplitz,
    fields: HashFields,
    /// By entry.
    owners: Box<[u16]>,
}

impl ShardHash {
    /// Packets of each entry go to its owner; there is a power of two of them.
    ///
    /// # Panics
    /// If the plan's strategy does not hash.
    pub(super) fn new(plan: &Plan, owners: Vec<u16>) -> ShardHash {
        let fields = plan.hash_fields.expect("a layout of `hashing`");
        ShardHash { toeplitz: Toeplitz::new(&SYMMETRIC_KEY), fields, owners: owners.into() }
    }
}

impl Assign for ShardHash {
    #[inline]
    fn entry(&self, headers: &Headers) -> u16 {
        let mut input = [0; 36];
        let len = self.fields.input(headers, &mut input);
        (self.toeplitz.hash(&input[..len]) as usize & (self.owners.len() - 1)) as u16
    }

    #[inline]
    fn core(&mut self, entry: u16) -> usize {
        usize::from(self.owners[usize::from(entry)])
    }
}
