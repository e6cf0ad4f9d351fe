//! Flows between two phases: from where one strategy had them to where the next one has them.
//!
//! | from | to | what happens |
//! |---|---|---|
//! | each flow on one core | each flow on one core | flows go to the cores that get their packets |
//! | each flow on one core | replicas | all go to core 0, and others copy it |
//! | replicas | each flow on one core | core 0's are divided, and the other replicas dropped |
//!
//! To know a flow's core its entry is kept with it, under every strategy. In a replica that of a flow is known on the core that
//! had the flow's first packet; on the others it is [unknown](crate::path::parcel::UNKNOWN_ENTRY).

use wire::Stamp;

use crate::path::core::ChainCore;
use crate::strategies::succession::bring_home;

/// Where flows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flows {
    /// Each on one core.
    Apart,
    /// All on each of the first cores.
    Replicated(usize),
}

/// Has each flow be on the core that `owners` says for its entry.
pub(super) fn divide(cores: &mut [ChainCore], from: Flows, owners: &[u16], last: Stamp) {
    if let Flows::Replicated(replicas) = from {
        drop_replicas(cores, replicas);
    }
    bring_home(cores, owners, last);
}

/// Has the first `replicas` cores have all flows.
pub(super) fn replicate(
    cores: &mut [ChainCore],
    from: Flows,
    (replicas, entries): (usize, usize),
    last: Stamp,
) {
    match from {
        Flows::Replicated(before) => drop_replicas(cores, before),
        Flows::Apart => {
            bring_home(cores, &vec![0; entries], last);
            absorb(cores, false);
        }
    }
    let Some((first, others)) = cores[..replicas].split_first_mut() else { return };
    others.iter_mut().for_each(|other| other.copy_from(first));
}

/// Leaves all flows on core 0.
fn drop_replicas(cores: &mut [ChainCore], replicas: usize) {
    absorb(&mut cores[..replicas], true);
}

fn absorb(cores: &mut [ChainCore], are_replicas: bool) {
    let Some((first, others)) = cores.split_first_mut() else { return };
    others.iter_mut().for_each(|other| first.absorb(other, are_replicas));
}
