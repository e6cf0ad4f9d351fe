//! Flows go back to the cores that an indirection table has for them at first.

use table::Watermark;
use wire::Stamp;

use crate::path::core::ChainCore;
use crate::path::parcel::{Leaving, NOBODY};

/// Brings flows, wherever they are, to where an indirection table that nobody has changed sends their packets.
pub(crate) fn bring_home(cores: &mut [ChainCore], owners: &[u16], last: Stamp) {
    let watermark = end_of(last);
    for core in 0..cores.len() {
        let to = owners_elsewhere(core, owners);
        for group in 0..cores[core].groups() {
            in_portions(&to, |block, leaving| {
                let (next, packed) = cores[core].pack(group, block, leaving);
                for (owner, flows) in packed {
                    cores[usize::from(owner)].unpack(group, flows, watermark, last.time_ns);
                }
                next
            });
        }
        bring_pools_home(cores, core, owners);
    }
}

/// By entry, the core that has it at first; [`NOBODY`] where that is `core`, whose flows stay.
pub(crate) fn owners_elsewhere(core: usize, owners: &[u16]) -> Vec<u16> {
    owners.iter().map(|owner| if usize::from(*owner) == core { NOBODY } else { *owner }).collect()
}

/// Brings pools of entries that `core` has back to the cores that have these entries at first.
pub(crate) fn bring_pools_home(cores: &mut [ChainCore], core: usize, owners: &[u16]) {
    for (entry, owner) in (0..).zip(owners).filter(|(_, owner)| usize::from(**owner) != core) {
        for (function, pool) in cores[core].take_pools(entry) {
            cores[usize::from(*owner)].put_pool(function, entry, pool);
        }
    }
}

/// Flows that go from table to table at once: what holds them on their way stays in the caches. Memory for all of them would have to be
/// had from the system, page by page.
const FLOWS_AT_ONCE: usize = 1024;

/// Has `go` move flows that are to go `to` other tables, from a block on, and say where to go on; again and again, until all have
/// gone.
pub(crate) fn in_portions(to: &[u16], mut go: impl FnMut(usize, &mut Leaving<'_>) -> Option<usize>) {
    let mut from = Some(0);
    while let Some(block) = from {
        from = go(block, &mut Leaving { flows_left: FLOWS_AT_ONCE, ..Leaving::all(to) });
    }
}

/// No packet from before the chain, or the strategy, that takes over comes any more.
pub(crate) fn end_of(last: Stamp) -> Watermark {
    Watermark::claim(last.time_ns)
}
