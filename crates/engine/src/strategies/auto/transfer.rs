//! Flows between two phases: from where one strategy had them to where the next one has them.
//!
//! | from | to | what happens |
//! |---|---|---|
//! | each flow on one core | each flow on one core | flows go to the cores that get their packets |
//! | each flow on one core | replicas | all go to core 0, and others copy it |
//! | replicas | each flow on one core | core 0's are divided, and the other replicas dropped |
//! | each flow on one core | tables by shard | flows go to their cores, and there to the tables of their shards |
//! | tables by shard | each flow on one core | each core's flows go to its one table, and on from there |
//!
//! To know a flow's core its value of the hash is kept with it, under every strategy: the lowest bits are its entry of an
//! indirection table, of whatever size. In a replica that of a flow is known on the core that had the flow's first packet; on the
//! others it is [unknown](crate::path::parcel::UNKNOWN_ENTRY).

use table::OutOfMemory;
use wire::Stamp;

use crate::path::core::ChainCore;
use crate::path::parcel::{Leaving, ShardsHere};
use crate::strategies::succession::{bring_home, end_of};

/// Where flows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flows {
    /// Each on one core.
    Apart,
    /// All on each of the first cores.
    Replicated(usize),
    /// Each on one of the first cores, in the table of its shard. Some may be replicated while packets come, in the second part of
    /// the one shard; none is at the end.
    Shelved { cores: usize, is_partly_replicated: bool },
}

/// Has each flow be on the core that `owners` says for its entry.
pub(super) fn divide(cores: &mut [ChainCore], from: Flows, owners: &[u16], last: Stamp) {
    gather(cores, from, last);
    bring_home(cores, owners, last);
}

/// Has the first `replicas` cores have all flows.
pub(super) fn replicate(
    cores: &mut [ChainCore],
    from: Flows,
    (replicas, entries): (usize, usize),
    last: Stamp,
) {
    gather(cores, from, last);
    if !matches!(from, Flows::Replicated(_)) {
        bring_home(cores, &vec![0; entries], last);
        absorb(cores, false);
    }
    let Some((first, others)) = cores[..replicas].split_first_mut() else { return };
    others.iter_mut().for_each(|other| other.copy_from(first));
}

/// The same as [`divide`] on all these cores, with flows in tables by shard. `owners` begins with the owners of the shards, or where
/// one is `everywhere`, each core has it.
///
/// # Errors
/// [`OutOfMemory`]; then flows are divided, and no core has such tables.
pub(super) fn shelve(
    cores: &mut [ChainCore],
    owners: &[u16],
    (shards, is_everywhere): (usize, bool),
    last: Stamp,
) -> Result<(), OutOfMemory> {
    let add = |(number, core): (usize, &mut ChainCore)| {
        let is_here = |shard: usize| is_everywhere || usize::from(owners[shard]) == number;
        core.shelve(&ShardsHere { shards, is_here: &is_here })
    };
    if let Err(error) = cores.iter_mut().enumerate().try_for_each(add) {
        cores.iter_mut().for_each(ChainCore::unshelve);
        return Err(error);
    }
    let horizon = end_of(last);
    // The lowest bits of a value are the flow's shard.
    let to: Vec<u16> = (0..shards as u16).collect();
    for core in cores {
        for group in 0..core.groups() {
            let (_, packed) = core.pack(group, 0, &mut Leaving::all(&to));
            for (_, shelves) in core.shelves().filter(|(of, _)| *of == group) {
                for (shard, flows) in &packed {
                    let kept = 2 * usize::from(*shard);
                    shelves.unpack_into(kept, flows.clone(), horizon, last.time_ns);
                }
            }
        }
    }
    Ok(())
}

/// Leaves each flow in the one table of a core: of replicas in that of core 0.
fn gather(cores: &mut [ChainCore], from: Flows, last: Stamp) {
    match from {
        Flows::Apart => (),
        Flows::Replicated(replicas) => absorb(&mut cores[..replicas], true),
        Flows::Shelved { cores: shelved, is_partly_replicated } => {
            cores[..shelved].iter_mut().for_each(|core| unshelve(core, is_partly_replicated, last));
        }
    }
}

fn unshelve(core: &mut ChainCore, is_partly_replicated: bool, last: Stamp) {
    let horizon = end_of(last);
    let mut packed = Vec::new();
    for (group, shelves) in core.shelves() {
        for part in shelves.here() {
            // All that was replicated has gone back.
            if !is_partly_replicated || part == 0 {
                let (_, flows) = shelves.pack_from(part, 0, &mut Leaving::all(&[0]));
                packed.extend(flows.into_iter().map(|(_, flows)| (group, flows)));
            }
        }
    }
    core.unshelve();
    packed.into_iter().for_each(|(group, flows)| core.unpack(group, flows, horizon, last.time_ns));
}

fn absorb(cores: &mut [ChainCore], are_replicas: bool) {
    let Some((first, others)) = cores.split_first_mut() else { return };
    others.iter_mut().for_each(|other| first.absorb(other, are_replicas));
}
