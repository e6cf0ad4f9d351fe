//! Where tables were full, or pools empty: what they turned away on many cores `single` turns away as well, and does all
//! else as it does. See [`turned_away`](crate::path::turned_away).
//!
//! So a full table excuses nothing but its own choice. Replicas have none: their tables are full when the one core's is.

use std::mem;
use std::sync::Arc;

use io::Fate;

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::executor::outcome::RunOutcome;
use crate::executor::seen::Seen;
use crate::path::turned_away::{LeftBy, Notes, Starved, Told};
use crate::strategies::plan::Plan;
use crate::verify::verified::Verified;

/// What full tables and empty pools turned away where a strategy ran chains that took over from each other.
pub(super) struct TurnedAway<'a> {
    /// By chain: from which packet on it ran, and what its tables turned away.
    chains: Vec<(u64, &'a Chain, Arc<Notes>)>,
    starved: Starved,
}

impl<'a> TurnedAway<'a> {
    /// Nothing yet.
    pub(super) fn new(parts: &[(u64, &'a Chain, &Plan)], plans: &[Plan]) -> TurnedAway<'a> {
        let notes = |((after, chain, _), plan): (&(u64, &'a Chain, &Plan), &Plan)| {
            let groups = chain.groups_keeping(&plan.keeping());
            (*after, *chain, Arc::new(Notes::new(chain.functions.len(), &groups, plan.is_striped())))
        };
        TurnedAway { chains: parts.iter().zip(plans).map(notes).collect(), starved: Starved::new() }
    }

    /// Where the tables of each chain note what they turn away.
    pub(super) fn notes(&self) -> impl Iterator<Item = &Arc<Notes>> {
        self.chains.iter().map(|(.., notes)| notes)
    }

    /// Sees each packet of the strategy's run: one for which a pool had nothing is noted.
    pub(super) fn see(&mut self, seen: &Seen<'_>) {
        let Fate::DropBy { function, reason } = seen.fate else { return };
        let seq = seen.stamp.seq;
        let Some((_, chain, _)) = self.chains.iter().rev().find(|(after, ..)| *after <= seq) else { return };
        let empty = chain.functions[usize::from(function)].function.info().pool_empty;
        if empty == Some(reason) {
            self.starved.insert((seq, function.into()), reason);
        }
    }

    /// What `single` is to be told, chain by chain, once the strategy's run is over.
    pub(super) fn told(&mut self, other: &RunOutcome, inherited: &[Inherited]) -> Vec<Arc<Told>> {
        let starved = Arc::new(mem::take(&mut self.starved));
        let mut all: Vec<Arc<Told>> = Vec::new();
        for (number, (.., notes)) in self.chains.iter().enumerate() {
            let is_last = number == other.reloads.len();
            let is_there = |function: usize, key: &[u8]| {
                is_last && other.cores.iter().any(|(_, core)| core.stage(function).group.has_flow(key))
            };
            let left_by = |function: usize| inherited[number].get(function)?.as_ref().ok().copied();
            let before = all.last().map(|told| (&**told, &left_by as LeftBy<'_>));
            let told = Told::new(notes, is_there, before, Arc::clone(&starved), other.packets);
            all.push(Arc::new(told));
        }
        all
    }
}

/// Whether what differs may come from what full tables and empty pools turned away. Nothing excuses packets out of order,
/// flows that cannot be at the same time, or replicas.
pub(super) fn may_explain(verified: &Verified, plan: &Plan) -> bool {
    let was_full = !verified.filled.is_empty() || !verified.exhausted.is_empty();
    let is_excluded = verified.stopped
        || plan.is_replicated()
        || !verified.broken.is_empty()
        || verified.out_of_order.is_some_and(|packets| packets > 0);
    was_full && !is_excluded && !verified.is_same()
}

#[cfg(test)]
mod tests;
