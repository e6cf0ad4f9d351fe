//! What a chain goes on with where it takes over from another, under one strategy.

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::chain::keeping::Keeping;
use crate::path::core::ChainCore;
use crate::path::parcel::{Leaving, NOBODY, Shelves};
use crate::strategies::plan::{Plan, States};
use control::Split;
use table::Horizon;
use wire::Stamp;

/// A chain as cores run it.
#[derive(Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) chain: &'a Chain,
    pub(crate) plan: &'a Plan,
    pub(crate) keeping: &'a Keeping<'a>,
}

impl Standing<'_> {
    /// What each function's flows can be, so that every flow is on the core to which its packets come.
    pub(crate) fn inherits(&self, before: &Standing<'_>) -> Inherited {
        let mut inherited = self.chain.inherits(before.chain);
        self.narrow(before, &mut inherited);
        inherited
    }

    /// Takes from `inherited` what cannot be so here.
    pub(crate) fn narrow(&self, before: &Standing<'_>, inherited: &mut Inherited) {
        if let Some(why) = self.plan.scatters(self.chain, before.plan, before.chain) {
            for function in inherited.iter_mut().filter(|function| function.is_ok()) {
                *function = Err(why.to_owned());
            }
        }
        self.chain.inherit_whole_groups(before.chain, self.keeping, before.keeping, inherited);
    }

    /// Goes on where `old`, the cores of the chain before, have ended, with what is `inherited`.
    pub(crate) fn take_over(
        &self,
        cores: &mut [ChainCore],
        before: &Standing<'_>,
        old: &mut [ChainCore],
        inherited: &Inherited,
        last: Stamp,
    ) {
        before.plan.bring_home(old, last);
        let kept = self.chain.kept_groups(before.chain, self.keeping, before.keeping, inherited);
        for (core, old) in cores.iter_mut().zip(old) {
            core.take_over(old, kept.iter().copied());
        }
    }
}

impl Plan {
    /// Brings flows that have gone from core to core back to where the plan has them at first. `last` is the stamp of the
    /// last packet that came.
    pub fn bring_home(&self, cores: &mut [ChainCore], last: Stamp) {
        match (self.owners(), self.shards) {
            (Some(owners), _) if self.is_partly_replicated() => bring_values_home(cores, &owners, last),
            (Some(owners), None) => bring_home(cores, &owners, last),
            (Some(owners), Some(shards)) => {
                bring_shards_home(cores, &owners[..shards.count()], &owners, last)
            }
            (None, _) => (),
        }
    }

    /// Why a flow's packets may come to another core than they did under another plan, or on one core to another shard, if
    /// they may.
    fn scatters(&self, chain: &Chain, before: &Plan, chain_before: &Chain) -> Option<&'static str> {
        let fields = (self.hash_fields, self.entries());
        if (self.strategy.name(), self.cores) != (before.strategy.name(), before.cores) {
            Some("strategy or cores are others")
        } else if self.states != before.states {
            Some("its flows are kept where they were not before")
        } else if self.shards.is_some() && chain.classes != chain_before.classes {
            Some("classes of traffic are others")
        } else if (self.cores == 1 && self.shards.is_none())
            || !matches!(self.states, States::Private | States::Changing | States::PartlyReplicated)
            || self.hash_fields.is_none()
        {
            None
        } else if fields != (before.hash_fields, before.entries()) {
            Some("packets go to cores by a hash of other fields")
        } else if chain.has_between() != chain_before.has_between() || chain.sides != chain_before.sides {
            Some("packets go to cores by another inside")
        } else {
            None
        }
    }
}

/// Brings flows, wherever they are, to where an indirection table that nobody has changed sends their packets.
pub(crate) fn bring_home(cores: &mut [ChainCore], owners: &[u16], last: Stamp) {
    let horizon = end_of(last);
    for core in 0..cores.len() {
        let to: Vec<u16> =
            owners.iter().map(|owner| if usize::from(*owner) == core { NOBODY } else { *owner }).collect();
        for group in 0..cores[core].groups() {
            in_portions(&to, |block, leaving| {
                let (next, packed) = cores[core].pack(group, block, leaving);
                for (owner, flows) in packed {
                    cores[usize::from(owner)].unpack(group, flows, horizon, last.time_ns);
                }
                next
            });
        }
        for (entry, owner) in (0..).zip(owners).filter(|(_, owner)| usize::from(**owner) != core) {
            for (function, pool) in cores[core].take_pools(entry) {
                cores[usize::from(*owner)].put_pool(function, entry, pool);
            }
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

/// Brings shards that have gone from core to core back to their first owners, each with all its flows in its kept part.
fn bring_shards_home(cores: &mut [ChainCore], owners: &[u16], entries: &[u16], last: Stamp) {
    for core in 0..cores.len() {
        let elsewhere = |owner: u16| usize::from(owner) != core;
        for (shard, owner) in owners.iter().enumerate().filter(|(_, owner)| elsewhere(**owner)) {
            for part in [2 * shard, 2 * shard + 1] {
                let tables = cores[core].shelves().map(|(_, shelves)| shelves.take(part)).collect::<Vec<_>>();
                for ((_, shelves), table) in cores[usize::from(*owner)].shelves().zip(tables) {
                    table.into_iter().for_each(|table| shelves.put(part, table));
                }
            }
        }
        for (entry, owner) in (0..).zip(entries).filter(|(_, owner)| elsewhere(**owner)) {
            for (function, pool) in cores[core].take_pools(entry) {
                cores[usize::from(*owner)].put_pool(function, entry, pool);
            }
        }
    }
    let horizon = end_of(last);
    let all = vec![0; entries.len()];
    for (shard, owner) in owners.iter().enumerate() {
        for (_, shelves) in cores[usize::from(*owner)].shelves() {
            let mut leaving = Leaving::all(&all);
            shelves.arrange((2 * shard + 1, 2 * shard), 0, &mut leaving, horizon, last.time_ns);
            shelves.split(shard, Split::NONE);
        }
    }
}

/// Brings flows of values of the hash back to the cores that have these at first. None is replicated at the end.
fn bring_values_home(cores: &mut [ChainCore], owners: &[u16], last: Stamp) {
    let horizon = end_of(last);
    for core in 0..cores.len() {
        let elsewhere = |owner: &u16| if usize::from(*owner) == core { NOBODY } else { *owner };
        let to: Vec<u16> = owners.iter().map(elsewhere).collect();
        let pack = |(group, shelves): (usize, &mut dyn Shelves)| {
            let (_, flows) = shelves.pack_from(0, 0, &mut Leaving::all(&to));
            flows.into_iter().map(move |(owner, flows)| (owner, group, flows)).collect::<Vec<_>>()
        };
        let packed: Vec<_> = cores[core].shelves().flat_map(pack).collect();
        for (owner, group, flows) in packed {
            let to_owner = cores[usize::from(owner)].shelves().find(|(of, _)| *of == group);
            to_owner.into_iter().for_each(|(_, shelves)| {
                shelves.unpack_into(0, flows.clone(), horizon, last.time_ns);
            });
        }
    }
}

/// No packet from before the chain, or the strategy, that takes over comes any more.
pub(crate) fn end_of(last: Stamp) -> Horizon {
    Horizon::claim(last.time_ns)
}
