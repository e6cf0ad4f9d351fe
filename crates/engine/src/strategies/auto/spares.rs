//! Tables by shard that no phase uses. They are made before the first packet comes: making one takes longer than packets can wait, and
//! phases hand them on.

use table::OutOfMemory;

use crate::path::core::ChainCore;
use crate::path::parcel::{ShardsHere, Table};

/// What phases under `hybrid` and `dyssect` have beside the one table of each core.
#[derive(Default)]
pub(super) struct Spares {
    pub(super) of_hybrid: OfHybrid,
    /// One for each part of each shard, of `dyssect`.
    pub(super) of_shards: Set,
}

/// A core's own table keeps its flows.
#[derive(Default)]
pub(super) struct OfHybrid {
    /// For each core a replica, all of them alike.
    replicas: Set,
    /// For each core a small one that is at hand between two batches.
    at_hand: Set,
}

/// Tables as new, by group.
#[derive(Default)]
pub(super) struct Set(Vec<Vec<Table>>);

/// The part of a core's own flows under `hybrid`.
const OWN: usize = 0;
/// That of its replica.
const REPLICA: usize = 1;

impl OfHybrid {
    /// For all these cores.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn new(cores: &[ChainCore]) -> Result<OfHybrid, OutOfMemory> {
        let (replicas, at_hand) =
            (Set::new(cores, cores.len(), &|flows| flows)?, Set::new(cores, cores.len(), &|_| 1)?);
        Ok(OfHybrid { replicas, at_hand })
    }

    /// A core's flows are its own from here on, and it has an empty replica beside them. O(1).
    pub(super) fn split_by_shard(&mut self, core: &mut ChainCore) {
        core.split_by_shard(1);
        self.at_hand.put(core, OWN);
        self.replicas.put(core, REPLICA);
        core.shard_tables().for_each(|(_, by_shard)| by_shard.exchange(OWN));
    }

    /// The core has its own flows in its one table again, where all that was replicated has gone back. O(1).
    pub(super) fn join_shards(&mut self, core: &mut ChainCore) {
        core.shard_tables().for_each(|(_, by_shard)| by_shard.exchange(OWN));
        self.at_hand.take(core, OWN);
        self.replicas.take(core, REPLICA);
        core.join_shards();
    }
}

impl Set {
    /// So many of each group, each for as many flows as `flows` says of those that a core's table holds.
    fn new(cores: &[ChainCore], count: usize, flows: &dyn Fn(usize) -> usize) -> Result<Set, OutOfMemory> {
        let mut set = Set::default();
        for core in cores.first().into_iter().cycle().take(count) {
            for (group, table) in core.spares(flows)? {
                set.add(group, table);
            }
        }
        Ok(set)
    }

    /// One for each part of so many shards.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn of_shards(cores: &[ChainCore], shards: usize) -> Result<Set, OutOfMemory> {
        Set::new(cores, 2 * shards, &|flows| ShardsHere::flows_of_each(shards, flows))
    }

    fn add(&mut self, group: usize, table: Table) {
        self.0.resize_with(self.0.len().max(group + 1), Vec::new);
        self.0[group].push(table);
    }

    /// Puts a table of each group into a part.
    pub(super) fn put(&mut self, core: &mut ChainCore, part: usize) {
        for (group, by_shard) in core.shard_tables() {
            let table = self.0.get_mut(group).and_then(Vec::pop);
            by_shard.put(part, table.expect("there are as many as a phase takes"));
        }
    }

    /// Takes it back as if it was new. Replicas of one phase may be of different phases before: where one has kept the place of its
    /// next sweep, a flow dies in it at another packet than in the others.
    pub(super) fn take(&mut self, core: &mut ChainCore, part: usize) {
        for (group, by_shard) in core.shard_tables() {
            if let Some(table) = by_shard.take_as_new(part) {
                self.add(group, table);
            }
        }
    }
}
