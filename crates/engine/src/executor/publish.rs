//! Publishes what a core and its functions count, for telemetry.

use std::sync::Arc;

use io::Received;
use telemetry::{
    CoreCounts, CoreWriter, FunctionCounts, FunctionLayout, Layout, StrategySnapshot, Telemetry, UNKNOWN,
    UpdateSnapshot,
};
use wire::Malformed;

use crate::chain::{Chain, FunctionSpec, MalformedPolicy};
use crate::path::core::ChainCore;
use crate::path::counters::{CoreCounters, StageCounters};
use crate::path::laps::Laps;
use crate::path::moves::Moves;
use crate::path::run::Observer;
use crate::path::run::Turn;
use crate::strategies::plan::Plan;
use crate::strategies::rsspp::updates::UpdateTimes;

/// Batches between two times that a busy core tells what its functions count, which are ten times as many
/// numbers as its own. At a million packets a second that is a millisecond.
const BATCHES_PER_FUNCTIONS: u32 = 16;

/// Tells what a core counts while it works: its own counters after every turn, those of its functions every
/// few batches and whenever there is nothing to do. Allocates nothing and never waits.
#[derive(Debug)]
pub struct Publisher {
    writer: CoreWriter,
    /// Batches since the functions' counters were told.
    batches: u32,
    /// Whether the functions are those that the metrics were laid out for.
    has_layout: bool,
    /// What the core counted under strategies that ran before: a counter never runs back.
    before: Moves,
}

impl Publisher {
    /// For core number `core`; `None` if there is no such core, or if it has a publisher.
    pub fn new(telemetry: &Telemetry, core: usize) -> Option<Publisher> {
        Some(Publisher {
            writer: telemetry.writer(core)?,
            batches: 0,
            has_layout: true,
            before: Moves::default(),
        })
    }

    /// Another chain takes over. Metrics tell of its functions if they are called the same as those before; else they tell
    /// from here on of the core alone.
    pub(crate) fn goes_on(&mut self, chain: &Chain, before: &Chain) {
        let names =
            |chain: &Chain| -> Vec<String> { chain.functions.iter().map(|spec| spec.name.clone()).collect() };
        self.has_layout &= names(chain) == names(before);
    }

    /// The core goes on with a strategy or chain that counts from 0: it has counted `before` so far.
    pub(crate) fn goes_on_from(&mut self, before: Moves) {
        self.before = before;
    }

    /// Tells what functions count, and malformed packets by reason.
    pub fn functions(&mut self, chain: &ChainCore, counters: &CoreCounters) {
        self.batches = 0;
        self.writer.malformed(&counters.malformed);
        if !self.has_layout {
            return;
        }
        for (index, stage) in chain.stages().enumerate() {
            let counted = stage.counters();
            self.writer.function(index, &function_counts(&counted), counted.drops, counted.events);
        }
    }
}

/// Nobody wants to know: one comparison per turn.
impl Laps for Option<Publisher> {}

impl Observer for Option<Publisher> {
    #[inline]
    fn turned(&mut self, turn: &Turn<'_>) {
        if let Some(publisher) = self {
            publisher.turned(turn);
        }
    }
}

impl Laps for Publisher {}

impl Observer for Publisher {
    fn turned(&mut self, turn: &Turn<'_>) {
        let moves = self.before.plus(turn.intake.counters().moves);
        self.writer.core(&core_counts(turn, &moves));
        let is_due = match turn.received {
            Received::Frames => {
                self.batches += 1;
                self.batches == BATCHES_PER_FUNCTIONS
            }
            Received::Idle | Received::End => self.batches > 0,
        };
        if is_due {
            self.functions(turn.chain, turn.counters);
            self.writer.strategy(|name| moves.own.of(name));
        }
    }
}

fn core_counts(turn: &Turn<'_>, moves: &Moves) -> CoreCounts {
    let Turn { counters, queue, .. } = turn;
    CoreCounts {
        packets: counters.packets,
        bytes: counters.bytes,
        batches: counters.batches,
        busy_ns: counters.busy_ns,
        forward: counters.forward,
        transmit_back: counters.transmit_back,
        host: counters.host,
        dropped_by_function: counters.dropped_by_function,
        dropped_malformed: counters.dropped_malformed,
        dropped_no_room: counters.dropped_no_room,
        lost_queue_full: queue.lost,
        moved_in: moves.entries_in,
        moved_out: moves.entries_out,
        held: moves.held_packets,
        queue_depth: queue.depth.map_or(UNKNOWN, u64::from),
    }
}

fn function_counts(counted: &StageCounters<'_>) -> FunctionCounts {
    FunctionCounts {
        packets: counted.packets,
        forward: counted.forward,
        transmit_back: counted.transmit_back,
        host: counted.host,
        created: counted.flows.created,
        removed: counted.flows.removed,
        expired: counted.flows.expired,
        evicted: counted.flows.evicted,
        rejected: counted.flows.rejected,
        live: counted.live as u64,
        capacity: counted.capacity as u64,
    }
}

impl Plan {
    /// Room for what the cores of `chain` count while they run: see [`Publisher`].
    pub fn telemetry(&self, chain: &Chain) -> Telemetry {
        let function = |FunctionSpec { name, function, .. }: &FunctionSpec| {
            let info = function.info();
            FunctionLayout {
                name: name.clone(),
                drop_reasons: owned(info.about.drop_reasons.iter().copied().chain([UNNAMED])),
                events: owned(info.about.events.iter().copied()),
            }
        };
        let layout = Layout {
            chain: chain.name.clone(),
            strategy: self.strategy.name().to_owned(),
            strategy_events: owned(self.strategy.info().counters.iter().map(|counter| counter.name)),
            malformed: owned(Malformed::ALL.iter().map(|reason| reason.name())),
            drops_malformed: chain.malformed == MalformedPolicy::Drop,
            functions: chain.functions.iter().map(function).collect(),
        };
        let telemetry = Telemetry::new(layout, self.cores);
        let (account, updates, active) =
            (Arc::clone(&self.account), Arc::clone(&self.updates), self.active.clone());
        let parks = self.rebalancing.is_some() && self.strategy.info().parking.is_ok();
        let moves_entries = self.moves_entries();
        telemetry.tell_strategy(move || StrategySnapshot {
            active_cores: parks.then(|| active.get()),
            updates: moves_entries.then(|| update_snapshot(updates.times())),
            ..account.told().snapshot()
        });
        telemetry
    }
}

fn update_snapshot(UpdateTimes { entries, sum, longest, .. }: UpdateTimes) -> UpdateSnapshot {
    UpdateSnapshot { entries, seconds: sum.as_secs_f64(), longest_seconds: longest.as_secs_f64() }
}

/// What reports call a drop reason that the function does not name.
pub(crate) const UNNAMED: &str = "unnamed";

fn owned<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
