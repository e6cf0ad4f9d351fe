//! One phase after the other.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use nf::hash_bytes;
use strategy::{ActiveCores, Every, Rebalancing};
use telemetry::Telemetry;
use wire::Stamp;

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::strategies::auto::candidates::{Candidate, Candidates, owners};
use crate::strategies::auto::noting::Noting;
use crate::strategies::auto::transfer::{Flows, divide, replicate};
use crate::strategies::changing::{Change, Changing, Decided, Phase, Until};
use crate::strategies::dispatch::Team;
use crate::strategies::plan::{Layout, Plan};

/// Has candidates run a chain.
pub(super) struct Phases {
    chain: Chain,
    plan: Plan,
    candidates: Candidates,
    /// What runs now.
    now: Candidate,
    flows: Flows,
    changes: Vec<Change>,
}

impl Phases {
    pub(super) fn new(chain: &Chain, plan: &Plan) -> Phases {
        let candidates = Candidates::new(chain, plan);
        let now = candidates.all[0];
        let (chain, plan) = (chain.clone(), plan.clone());
        Phases { chain, plan, candidates, now, flows: Flows::Apart, changes: Vec::new() }
    }

    fn every(&self) -> Every {
        self.plan.rebalancing.unwrap_or_default().every
    }

    /// The plan under which a candidate runs, with cores that the run has.
    fn plan_of(&self, Candidate { strategy, cores }: Candidate, first: u64) -> Plan {
        let layout = strategy.layout(&self.chain, cores);
        let Layout { states, hash_fields, shared, rebalancing, shards } =
            layout.unwrap_or_else(|error| unreachable!("it is a candidate: {error}"));
        let rebalancing = rebalancing.map(|rebalancing| Rebalancing {
            every: match self.every() {
                // Entries move within a phase, too.
                Every::Packets(packets) => Every::Packets((packets / 3).max(1)),
                Every::Period(_) | Every::Never => rebalancing.every,
            },
            update_latency_ns: self.plan.rebalancing.map_or(0, |of_run| of_run.update_latency_ns),
        });
        let active = ActiveCores::new(cores);
        Plan {
            strategy,
            cores,
            states,
            hash_fields,
            shared,
            rebalancing,
            shards,
            active,
            first,
            ..self.plan.clone()
        }
    }

    /// Another candidate than that which runs, drawn at random.
    fn draw(&self, first: u64) -> Candidate {
        let others: Vec<_> = self.candidates.all.iter().filter(|candidate| **candidate != self.now).collect();
        let draw = hash_bytes(&first.to_le_bytes(), 0) as usize;
        others.get(draw % others.len().max(1)).map_or(self.now, |candidate| **candidate)
    }

    /// Has flows be where the candidate wants them.
    fn transfer(&mut self, to: &Plan, cores: &mut [ChainCore], last: Stamp) {
        if to.is_replicated() {
            replicate(cores, self.flows, (to.cores, to.indirection_entries), last);
            self.flows = Flows::Replicated(to.cores);
        } else {
            divide(cores, self.flows, &owners(&self.plan, to.cores), last);
            self.flows = Flows::Apart;
        }
    }

    /// The phase that ran is over.
    fn close(&mut self, packets: u64) {
        if let Some(change) = self.changes.last_mut() {
            change.packets = packets - change.after;
        }
    }
}

impl Changing for Phases {
    fn observe(&mut self, _: &Arc<Telemetry>) {}

    fn observes(&self) -> bool {
        false
    }

    fn begin(&mut self, cores: &mut [ChainCore], first: u64, last: Stamp) -> Phase {
        let since = Instant::now();
        self.close(first);
        let why = match (self.every(), self.changes.is_empty()) {
            (Every::Packets(_), _) => {
                self.now = self.draw(first);
                Decided::Drawn
            }
            _ => Decided::First,
        };
        let plan = self.plan_of(self.now, first);
        self.transfer(&plan, cores, last);
        let Team { dispatcher, intakes } = plan.team(&self.chain);
        let dispatcher = Box::new(Noting { inner: dispatcher, entries: self.plan.assign(&self.chain) });
        self.changes.push(Change {
            after: first,
            strategy: plan.strategy.name(),
            cores: plan.cores,
            packets: 0,
            pause_ns: since.elapsed().as_nanos() as u64,
            why,
        });
        let until = match self.every() {
            Every::Packets(packets) => (first / packets + 1).saturating_mul(packets),
            Every::Period(_) | Every::Never => u64::MAX,
        };
        Phase { team: Team { dispatcher, intakes }, ends: plan.ends(), until: Until::packet(until) }
    }

    fn end(&mut self, cores: &mut [ChainCore], packets: u64, last: Stamp) -> Vec<Change> {
        self.close(packets);
        divide(cores, self.flows, &owners(&self.plan, self.plan.cores), last);
        self.flows = Flows::Apart;
        let mut changes = mem::take(&mut self.changes);
        // The packets may have ended where a phase was to begin.
        changes.pop_if(|last| last.packets == 0 && last.after > 0);
        changes
    }
}
