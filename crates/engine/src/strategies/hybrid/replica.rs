//! Flows between the two tables of a core: its own, and its replica of those that are promoted.
//!
//! The tables are the two parts of one shard (see `store/tables_by_shard.rs`): an entry below [`SLOTS`] is in the part of the replica.

use std::sync::Arc;

use control::{Change, Split};
use table::Watermark;

use crate::path::core::ChainCore;
use crate::path::parcel::{Leaving, NOBODY, PackedFlows};
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::plan::HASH_VALUES;

/// A core's own flows.
const OWN: usize = 0;
/// Its replica of promoted flows.
const REPLICA: usize = 1;

/// The flows of one value of the hash: by group, what was packed. Clones are the same flows.
pub(super) type Flows = Arc<Vec<(usize, Vec<PackedFlows>)>>;

/// Moves flows between the tables.
pub(super) struct Tables {
    /// By entry: 0 if its flows are to be packed.
    leaving: Box<[u16]>,
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables { leaving: vec![NOBODY; HASH_VALUES].into() }
    }

    /// Has entries below [`SLOTS`] be in the replica. On one core alone what happens to its flows `counts`.
    pub(super) fn lay_out(chain: &mut ChainCore, counts: bool) {
        // Own packets are stepped in order, and so is what is told: flows come to either table between two of its packets.
        chain.note_since(0, true);
        for (_, by_shard) in chain.shard_tables() {
            by_shard.split(0, Split { buckets: SLOTS as u8, mask: 0 });
            if !counts {
                by_shard.silence(REPLICA);
            }
        }
    }

    /// Takes the flows of an entry that is promoted from this core's own.
    pub(super) fn copy(&mut self, change: &Change, chain: &mut ChainCore) -> Flows {
        Arc::new(self.pack(OWN, change.entry, chain))
    }

    /// Puts them into the replica.
    pub(super) fn take_in(change: &Change, flows: &Flows, chain: &mut ChainCore) {
        unpack(REPLICA, change.slot, change, flows, chain);
    }

    /// Takes an entry's flows from the replica, and if they are to `stay` puts them among this core's own.
    pub(super) fn demote(&mut self, change: &Change, stay: bool, chain: &mut ChainCore) {
        let flows = self.pack(REPLICA, change.slot, chain);
        if stay {
            unpack(OWN, change.entry, change, &flows, chain);
        }
    }

    /// All flows of an entry, which are looked for in the whole table.
    fn pack(&mut self, part: usize, entry: u16, chain: &mut ChainCore) -> Vec<(usize, Vec<PackedFlows>)> {
        self.leaving[usize::from(entry)] = 0;
        let mut packed = Vec::new();
        for (group, by_shard) in chain.shard_tables() {
            let mut leaving = Leaving { only: Some(entry), ..Leaving::all(&self.leaving) };
            let (_, flows) = by_shard.pack_from(part, 0, &mut leaving);
            packed.push((group, flows.into_iter().map(|(_, flows)| flows).collect()));
        }
        self.leaving[usize::from(entry)] = NOBODY;
        packed
    }
}

/// Packets of the entry come to this table from the change on: none that comes here is older.
fn unpack(
    part: usize,
    entry: u16,
    Change { since_seq, since_ns, .. }: &Change,
    flows: &[(usize, Vec<PackedFlows>)],
    chain: &mut ChainCore,
) {
    for (group, by_shard) in chain.shard_tables() {
        let of_group = flows.iter().filter(|(of, _)| *of == group);
        for packed in of_group.flat_map(|(_, packed)| packed) {
            let mut flows = packed.clone();
            flows.entries.fill(entry);
            flows.since_seq = Some(*since_seq);
            by_shard.unpack_into(part, flows, Watermark::claim(*since_ns), *since_ns);
        }
    }
}
