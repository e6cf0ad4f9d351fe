//! What a chain goes on with where it takes over from another, under one strategy.

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::chain::keeping::Keeping;
use crate::path::core::ChainCore;
use crate::strategies::plan::{Plan, States};
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
        self.strategy.bring_home(self, cores, last);
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
