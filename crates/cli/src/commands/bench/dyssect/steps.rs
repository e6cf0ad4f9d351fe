//! Which core steps each packet, as strategies decide by loads alone: nothing is run, and moving and handing on costs nothing.

use engine::strategies::{ShardController, Strategy};
use engine::{Chain, Plan};
use io::Trace;
use strategy::{Assign, Schedule};
use wire::Stamp;

use crate::failure::Failure;

/// How often a trace is gone through: one pass takes no more than a few periods of the controller.
pub(super) const PASSES: usize = 10;

/// Length of the windows in which the busiest core is looked for, and cores are counted, ns.
pub(super) const WINDOW_NS: u64 = 10_000_000;

/// A strategy that follows the packets of a trace.
pub(super) struct Steps {
    assign: Box<dyn Assign>,
    /// Who decides under `dyssect`; under others `assign` does.
    controller: Option<(ShardController, Schedule)>,
    cores: usize,
    /// The entry of each of the trace's packets.
    entries: Vec<u16>,
    /// Packets so far.
    count: usize,
    /// Entries or shards that went from core to core.
    pub(super) moves: u64,
}

impl Steps {
    /// From the first packet on, with as much time from one decision to the next as in a run.
    pub(super) fn new(
        chain: &Chain,
        strategy: &'static dyn Strategy,
        cores: usize,
        trace: &Trace,
    ) -> Result<Steps, Failure> {
        let plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
        let every = plan.rebalancing.unwrap_or_default().every;
        let controller = plan.shards.map(|_| (ShardController::new(chain, &plan), Schedule::new(every)));
        let assign = plan.assign(chain);
        let entry = |number| {
            let record = trace.packet(number);
            assign.entry(&chain.headers(record.link, record.data, record.wire_len))
        };
        let entries = (0..trace.len()).map(entry).collect();
        Ok(Steps { assign, controller, cores, entries, count: 0, moves: 0 })
    }

    /// The core that steps the next packet of the trace.
    pub(super) fn next(&mut self, time_ns: u64) -> usize {
        let stamp = Stamp { seq: self.count as u64, time_ns };
        let entry = self.entries[self.count % self.entries.len()];
        self.count += 1;
        let Some((controller, schedule)) = &mut self.controller else {
            self.moves += self.assign.moves(stamp).len() as u64;
            return self.assign.core(entry);
        };
        if schedule.is_due(time_ns) {
            let decision = controller.decide(self.cores, stamp.seq);
            let before = controller.put_in_force(decision);
            let owners = before.owners.iter().zip(&controller.placement().owners);
            self.moves += owners.filter(|(then, now)| then != now).count() as u64;
        }
        controller.count(entry);
        controller.stepped_by(entry)
    }

    /// A packet took so long.
    pub(super) fn took(&self, ns: u64) {
        if let Some((controller, _)) = &self.controller {
            controller.add_time(ns, 1);
        }
    }
}
