//! Flows between two phases: from where one strategy had them to where the next one has them.
//!
//! | from | to | what happens |
//! |---|---|---|
//! | each flow on one core | each flow on one core | flows go to the cores that get their packets |
//! | each flow on one core | replicas | all go to core 0, and others copy it |
//! | replicas | each flow on one core | core 0's are divided, and the other replicas dropped |
//! | each flow on one core | `hybrid` | flows go to their cores, each of which keeps its table and has an empty replica beside it |
//! | each flow on one core | `dyssect` | flows go to the tables of their shards, on whichever core these are |
//! | `dyssect` | each flow on one core | flows of all shards go to the cores that get their packets |
//!
//! To know a flow's core its value of the hash is kept with it, under every strategy: the lowest bits are its entry of an
//! indirection table, of whatever size. In a replica that of a flow is known on the core that had the flow's first packet; on the
//! others it is [unknown](crate::path::parcel::UNKNOWN_ENTRY).

use wire::Stamp;

use crate::path::core::ChainCore;
use crate::path::parcel::NOBODY;
use crate::strategies::auto::spares::Spares;
use crate::strategies::home::{bring_home, end_of, in_portions};

/// Where flows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Each on one core.
    Apart,
    /// All on each of the first cores.
    Replicated(usize),
    /// Each on one of the first cores, which have empty replicas beside it. Some may be replicated while packets come; none is
    /// at the end.
    Beside(usize),
    /// Each on one of the first cores, in the table of its shard.
    Sharded { cores: usize, shards: usize },
}

/// The flows of a run, and tables that they can go to.
pub(super) struct Flows {
    place: Place,
    spares: Spares,
}

impl Flows {
    /// Each flow is on the core that gets its packets.
    pub(super) fn new(spares: Spares) -> Flows {
        Flows { place: Place::Apart, spares }
    }

    /// Has each flow be on the core that `owners` says for its entry.
    pub(super) fn divide(&mut self, cores: &mut [ChainCore], owners: &[u16], last: Stamp) {
        if !self.gather(cores, owners, last) {
            bring_home(cores, owners, last);
        }
    }

    /// Has the first `replicas` cores have all flows. `entries` are those of the indirection table.
    pub(super) fn replicate(
        &mut self,
        cores: &mut [ChainCore],
        (replicas, entries): (usize, usize),
        last: Stamp,
    ) {
        match self.place {
            // All of core 0's.
            Place::Replicated(before) => absorb(&mut cores[..before], true),
            _ => {
                self.divide(cores, &vec![0; entries], last);
                absorb(cores, false);
            }
        }
        if let Some((first, others)) = cores[..replicas].split_first_mut() {
            others.iter_mut().for_each(|other| other.copy_from(first));
        }
        self.place = Place::Replicated(replicas);
    }

    /// Divides as [`Flows::divide`] does, on all these cores, which have empty replicas beside their own flows.
    pub(super) fn divide_beside_replicas(
        &mut self,
        cores: &mut [ChainCore],
        owners: &[u16],
        used: usize,
        last: Stamp,
    ) {
        self.divide(cores, owners, last);
        cores[..used].iter_mut().for_each(|core| self.spares.of_hybrid.split_by_shard(core));
        self.place = Place::Beside(used);
    }

    /// Has each flow be in the table of its shard, on the core that `owners` says for it: they begin with those of the shards.
    pub(super) fn shard(
        &mut self,
        cores: &mut [ChainCore],
        owners: &[u16],
        (used, shards): (usize, usize),
        last: Stamp,
    ) {
        self.gather(cores, owners, last);
        let owner = |shard: usize| usize::from(owners[shard]);
        cores[..used].iter_mut().for_each(|core| core.split_by_shard(shards));
        for part in 0..2 * shards {
            self.spares.of_shards.put(&mut cores[owner(part / 2)], part);
        }
        // The lowest bits of a value are the flow's shard.
        let to: Vec<u16> = (0..shards as u16).collect();
        let watermark = end_of(last);
        for core in 0..cores.len() {
            for group in 0..cores[core].groups() {
                in_portions(&to, |block, leaving| {
                    let (next, packed) = cores[core].pack(group, block, leaving);
                    for (shard, flows) in packed {
                        let shard = usize::from(shard);
                        if let Some(by_shard) = cores[owner(shard)].shard_tables_of(group) {
                            by_shard.unpack_into(2 * shard, flows, watermark, last.time_ns);
                        }
                    }
                    next
                });
            }
        }
        self.place = Place::Sharded { cores: used, shards };
    }

    /// Leaves each flow in the one table of some core: of replicas in that of core 0. Says whether each is on the core that `owners`
    /// says.
    fn gather(&mut self, cores: &mut [ChainCore], owners: &[u16], last: Stamp) -> bool {
        let mut is_divided = false;
        match self.place {
            Place::Apart => (),
            Place::Replicated(replicas) => absorb(&mut cores[..replicas], true),
            Place::Beside(used) => {
                cores[..used].iter_mut().for_each(|core| self.spares.of_hybrid.join_shards(core));
            }
            Place::Sharded { cores: used, shards } => {
                for core in 0..used {
                    unshard(cores, core, owners, last);
                    (0..2 * shards).for_each(|part| self.spares.of_shards.take(&mut cores[core], part));
                }
                cores[..used].iter_mut().for_each(ChainCore::join_shards);
                is_divided = true;
            }
        }
        self.place = Place::Apart;
        is_divided
    }
}

/// Has flows in a core's tables by shard be in the one table of the core that `owners` says.
fn unshard(cores: &mut [ChainCore], core: usize, owners: &[u16], last: Stamp) {
    debug_assert!(!owners.contains(&NOBODY), "an entry has an owner");
    let watermark = end_of(last);
    for group in 0..cores[core].groups() {
        let parts = cores[core].shard_tables_of(group).map_or_else(Vec::new, |by_shard| by_shard.here());
        for part in parts {
            in_portions(owners, |block, leaving| {
                let (next, packed) = cores[core].shard_tables_of(group)?.pack_from(part, block, leaving);
                for (owner, flows) in packed {
                    cores[usize::from(owner)].unpack(group, flows, watermark, last.time_ns);
                }
                next
            });
        }
    }
}

fn absorb(cores: &mut [ChainCore], are_replicas: bool) {
    let Some((first, others)) = cores.split_first_mut() else { return };
    others.iter_mut().for_each(|other| first.absorb(other, are_replicas));
}
