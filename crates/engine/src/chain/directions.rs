//! A chain with sides: packets from inside meet the functions in the order of the chain, packets from outside in
//! reverse.

use std::sync::Arc;

use io::Port;
use wire::Marks;

use super::{Chain, ChainCore, MalformedPolicy, Place};
use crate::Batch;
use crate::batch::bits;
use crate::ingress::Checks;
use crate::run::Laps;
use crate::stage::{Group, StageSpec};

impl Chain {
    /// The chain on a core, from its groups.
    pub(super) fn core_of(&self, groups: Vec<Box<dyn Group>>, places: Vec<Place>) -> ChainCore {
        let is_between = |index: usize| {
            let functions = self.functions.iter().zip(&places);
            let mut here = functions.filter(|(_, place)| place.group == index);
            here.any(|(spec, _)| spec.function.sides().is_some())
        };
        let between: Vec<bool> = (0..groups.len()).map(is_between).collect();
        // One function, and each packet its business: there is one order.
        let has_order = self.sides.is_some() && (places.len() > 1 || between.contains(&true));
        let between = if has_order { between } else { Vec::new() };
        let drop_malformed = self.malformed == MalformedPolicy::Drop;
        ChainCore { drop_malformed, checks: Checks::of(self), groups, between, places }
    }

    /// Whether some function stands between the sides, such as a NAT.
    pub(crate) fn has_between(&self) -> bool {
        self.functions.iter().any(|spec| spec.function.sides().is_some())
    }

    /// What a function on a core is made from.
    pub(super) fn spec(&self, index: usize) -> StageSpec {
        // With sides, the first function is the last one for packets from outside.
        let is_last = match self.sides {
            None => index + 1 == self.functions.len(),
            Some(_) => self.functions.len() == 1,
        };
        StageSpec { index: index as u8, is_last, seed: self.seed }
    }
}

impl ChainCore {
    /// Notes in the headers of a core's own packets which side they come from; says how many come from outside.
    #[inline]
    pub(crate) fn mark_sides(&self, batch: &mut Batch) -> u64 {
        let Some(sides) = &self.checks.sides else { return 0 };
        let mut from_outside = 0;
        for packet in bits(batch.own()) {
            sides.mark(&mut batch.headers[packet]);
            from_outside += u64::from(batch.headers[packet].marks.contains(Marks::FROM_OUTSIDE));
        }
        from_outside
    }

    /// Takes a batch through a chain with sides, in runs of packets from one side: every function steps packets in
    /// the order in which they came, so that nothing depends on where batches are cut. A live port receives from one
    /// interface, which is one run.
    pub(super) fn process_both_ways(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        debug_assert!(batch.runs.is_empty(), "only history of a function alone is put together");
        let Some(sides) = self.checks.sides.as_ref().map(Arc::clone) else { return };
        let (outside, crossing) = sides.of(batch);
        let mut rest = batch.live;
        while rest != 0 {
            let is_outside = outside >> rest.trailing_zeros() & 1 == 1;
            let others = rest & if is_outside { !outside } else { outside };
            let run = rest & (others & others.wrapping_neg()).wrapping_sub(1);
            rest &= !run;
            batch.is_reversed = is_outside;
            for index in 0..self.groups.len() {
                let index = if is_outside { self.groups.len() - 1 - index } else { index };
                // What stays on its side does not come to a function between the two.
                let theirs = if self.between[index] { run & crossing } else { run };
                let aside = batch.live & !theirs;
                batch.live &= theirs;
                self.groups[index].process(batch, port, laps);
                batch.live |= aside;
            }
        }
        batch.is_reversed = false;
    }
}
