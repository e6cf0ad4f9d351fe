//! Makes a [`View`] of each snapshot and those before it: rates, growth of tables, and what changed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use telemetry::{
    CoreCounts, CoreSnapshot, FunctionCounts, FunctionSnapshot, InterfaceSnapshot, RuleSnapshot, Snapshot,
    UNKNOWN,
};

use crate::log::Log;
use crate::rules::Rules;
use crate::view::{
    CoreView, DropView, EventView, FunctionView, InterfaceView, Point, RulesView, StrategyView, TableView,
    Verdict, View, tenths,
};
use crate::warnings;

/// Snapshots that are kept: growth of tables is seen over so many periods.
const RECENT: usize = 10;

/// Points that are kept: ten minutes, one a second.
const POINTS: usize = 600;

/// Rates of a shorter time are noise: the one before is looked at then, and of a run that has just begun there are none.
const SHORTEST_SECONDS: f64 = 0.5;

/// A table that takes longer to be full is not said to become so.
const FAR_SECONDS: f64 = 86_400.0;

/// Follows a run. What it keeps is bounded, however long the run is.
#[derive(Debug, Default)]
pub struct Watch {
    /// The newest last.
    recent: VecDeque<Snapshot>,
    points: VecDeque<Point>,
    log: Log,
    rules: Rules,
}

impl Watch {
    /// The state at a new snapshot. Its `points` are the newest one alone.
    pub fn look(&mut self, now: Snapshot) -> View {
        let elapsed = now.elapsed.as_secs_f64();
        let is_before = |before: &&Snapshot| elapsed - before.elapsed.as_secs_f64() >= SHORTEST_SECONDS;
        let rates = Rates::new(self.recent.iter().rev().find(is_before), &now);
        let growth = Rates::new(self.recent.front(), &now);
        let mut view = view(&rates, &growth, &now);
        let warnings = warnings::find(&view);
        view.headline = warnings::headline(&view);
        self.log.compare(self.recent.back(), &now, &warnings);
        view.warnings = warnings.into_iter().map(|warning| warning.text).collect();
        view.log = self.log.entries();
        view.rules = self.rules.view.clone();
        if rates.seconds > 0.0 {
            if self.points.len() == POINTS {
                self.points.pop_front();
            }
            self.points.extend(view.points.iter().copied());
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        view
    }

    /// From now on views have what rules had decided by now.
    pub fn look_at_rules(&mut self, now: Duration, rules: Vec<RuleSnapshot>) {
        self.rules.look(now, rules);
    }

    /// Rates so far, for a client that begins to listen.
    pub fn points(&self) -> Vec<Point> {
        self.points.iter().copied().collect()
    }
}

/// Rates between two snapshots; since the run began where there is one alone, and none where that was just now.
struct Rates<'a> {
    before: Option<&'a Snapshot>,
    seconds: f64,
}

impl<'a> Rates<'a> {
    fn new(before: Option<&'a Snapshot>, now: &Snapshot) -> Rates<'a> {
        let begin = before.map_or(0.0, |before| before.elapsed.as_secs_f64());
        let seconds = now.elapsed.as_secs_f64() - begin;
        Rates { before, seconds: if seconds < SHORTEST_SECONDS { 0.0 } else { seconds } }
    }

    /// Counters that a reload began anew count from there.
    fn of(&self, before: u64, now: u64) -> f64 {
        let count = if now < before { now } else { now - before };
        self.per_s(count as f64)
    }

    fn per_s(&self, count: f64) -> f64 {
        if self.seconds > 0.0 { tenths(count / self.seconds) } else { 0.0 }
    }

    fn core(&self, core: usize) -> Option<&'a CoreSnapshot> {
        self.before?.cores.get(core)
    }

    fn counts(&self, core: usize) -> CoreCounts {
        self.core(core).map_or_else(CoreCounts::default, |core| core.counts)
    }

    fn function(&self, core: usize, function: usize) -> FunctionSnapshot {
        self.core(core).and_then(|core| core.functions.get(function)).cloned().unwrap_or_default()
    }
}

fn view(rates: &Rates<'_>, growth: &Rates<'_>, now: &Snapshot) -> View {
    let cores: Vec<CoreView> =
        now.cores.iter().enumerate().map(|(core, now)| core_view(rates, core, &now.counts)).collect();
    let drops = drops(rates, now);
    let point = Point {
        seconds: tenths(now.elapsed.as_secs_f64()),
        packets_per_s: tenths(cores.iter().map(|core| core.packets_per_s).sum()),
        drops_per_s: tenths(cores.iter().map(|core| core.drops_per_s).sum()),
        busiest: cores.iter().map(|core| core.busy).fold(0.0, f64::max),
    };
    View {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        chain: now.layout.chain.clone(),
        strategy: now.layout.strategy.clone(),
        seconds: tenths(now.elapsed.as_secs_f64()),
        has_ended: false,
        offers: Vec::new(),
        headline: String::new(),
        warnings: Vec::new(),
        packets: sum(now, |counts| counts.packets),
        packets_per_s: point.packets_per_s,
        bits_per_s: tenths(cores.iter().map(|core| core.bits_per_s).sum()),
        verdicts: verdicts(rates, now),
        interfaces: now.interfaces.iter().map(|interface| interface_view(rates, interface)).collect(),
        drops,
        functions: (0..now.layout.functions.len())
            .map(|function| function_view(rates, growth, now, function))
            .collect(),
        rules: RulesView::default(),
        cores,
        told: told(now),
        events: events(rates, now),
        log: Vec::new(),
        points: vec![point],
    }
}

fn sum(snapshot: &Snapshot, of: impl Fn(&CoreCounts) -> u64) -> u64 {
    snapshot.cores.iter().map(|core| of(&core.counts)).sum()
}

/// To four digits: a few flows in a large table are not none.
fn share(number: f64) -> f64 {
    (number.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
}

fn core_view(rates: &Rates<'_>, core: usize, now: &CoreCounts) -> CoreView {
    let before = rates.counts(core);
    let busy = now.busy_ns.saturating_sub(before.busy_ns) as f64 / 1e9;
    CoreView {
        core,
        // Counters are read a moment after the clock.
        busy: if rates.seconds > 0.0 { share(busy / rates.seconds) } else { 0.0 },
        packets_per_s: rates.of(before.packets, now.packets),
        bits_per_s: tenths(8.0 * rates.of(before.bytes, now.bytes)),
        drops_per_s: rates.of(before.dropped(), now.dropped()),
        queue: (now.queue_depth != UNKNOWN).then_some(now.queue_depth),
        moved_in: now.moved_in,
        moved_out: now.moved_out,
    }
}

/// One of the things that a core counts.
type Count = fn(&CoreCounts) -> u64;

fn verdicts(rates: &Rates<'_>, now: &Snapshot) -> Vec<Verdict> {
    let kinds: [(&str, Count); 4] = [
        ("forward", |counts| counts.forward),
        ("transmit-back", |counts| counts.transmit_back),
        ("host", |counts| counts.host),
        ("drop", CoreCounts::dropped),
    ];
    let verdict = |(name, of): (&str, Count)| {
        let total = sum(now, of);
        let before = rates.before.map_or(0, |before| sum(before, of));
        Verdict { verdict: name.to_owned(), per_s: rates.of(before, total), total }
    };
    kinds.into_iter().map(verdict).filter(|verdict| verdict.total > 0).collect()
}

fn interface_view(rates: &Rates<'_>, now: &InterfaceSnapshot) -> InterfaceView {
    let before =
        rates.before.and_then(|before| before.interfaces.iter().find(|other| other.name == now.name));
    let begin = InterfaceSnapshot::default();
    let before = before.unwrap_or(&begin);
    let lost = |interface: &InterfaceSnapshot| interface.lost.iter().map(|(_, count)| count).sum::<u64>();
    let most = now.lost.iter().filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count);
    InterfaceView {
        name: now.name.clone(),
        received_per_s: rates.of(before.received, now.received),
        received_bits_per_s: tenths(8.0 * rates.of(before.received_bytes, now.received_bytes)),
        sent_per_s: rates.of(before.sent, now.sent),
        sent_bits_per_s: tenths(8.0 * rates.of(before.sent_bytes, now.sent_bytes)),
        lost_per_s: rates.of(lost(before), lost(now)),
        lost: lost(now),
        lost_most: most.map(|(why, _)| (*why).to_owned()),
    }
}

/// Counters by who counts them and their name, on all cores.
type Named = BTreeMap<(String, String), u64>;

fn dropped(snapshot: &Snapshot) -> Named {
    let mut named = Named::new();
    let mut add = |by: &str, reason: &str, count: u64| {
        *named.entry((by.to_owned(), reason.to_owned())).or_default() += count;
    };
    for core in &snapshot.cores {
        if snapshot.layout.drops_malformed {
            for (reason, count) in snapshot.layout.malformed.iter().zip(&core.malformed) {
                add("malformed", reason, *count);
            }
        }
        add("engine", "no-room", core.counts.dropped_no_room);
        // Where there are interfaces, these say what they lost.
        if snapshot.interfaces.is_empty() {
            add("engine", "queue-full", core.counts.lost_queue_full);
        }
        for (layout, function) in snapshot.layout.functions.iter().zip(&core.functions) {
            for (reason, count) in layout.drop_reasons.iter().zip(&function.drops) {
                add(&layout.name, reason, *count);
            }
        }
    }
    named
}

fn occurred(snapshot: &Snapshot) -> Named {
    let mut named = Named::new();
    let mut add = |by: &str, event: &str, count: u64| {
        *named.entry((by.to_owned(), event.to_owned())).or_default() += count;
    };
    for core in &snapshot.cores {
        for (event, count) in snapshot.layout.strategy_events.iter().zip(&core.strategy_events) {
            add("strategy", event, *count);
        }
        for (layout, function) in snapshot.layout.functions.iter().zip(&core.functions) {
            for (event, count) in layout.events.iter().zip(&function.events) {
                add(&layout.name, event, *count);
            }
        }
    }
    named
}

/// Those that counted something, the fastest first: names, rate, total.
fn fastest(
    rates: &Rates<'_>,
    of: fn(&Snapshot) -> Named,
    now: &Snapshot,
) -> Vec<((String, String), f64, u64)> {
    let before = rates.before.map(of).unwrap_or_default();
    let counted = of(now).into_iter().filter(|(_, total)| *total > 0);
    let mut counted: Vec<_> = counted
        .map(|(names, total)| {
            let per_s = rates.of(before.get(&names).copied().unwrap_or(0), total);
            (names, per_s, total)
        })
        .collect();
    counted.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.cmp(&a.2)).then_with(|| a.0.cmp(&b.0)));
    counted
}

fn drops(rates: &Rates<'_>, now: &Snapshot) -> Vec<DropView> {
    let drop = |((by, reason), per_s, total)| DropView { by, reason, per_s, total };
    fastest(rates, dropped, now).into_iter().map(drop).collect()
}

fn events(rates: &Rates<'_>, now: &Snapshot) -> Vec<EventView> {
    let event = |((by, event), per_s, total)| EventView { by, event, per_s, total };
    fastest(rates, occurred, now).into_iter().map(event).collect()
}

fn function_view(rates: &Rates<'_>, growth: &Rates<'_>, now: &Snapshot, function: usize) -> FunctionView {
    let of = |core: &CoreSnapshot| core.functions.get(function).cloned().unwrap_or_default();
    let after: Vec<FunctionSnapshot> = now.cores.iter().map(of).collect();
    let before: Vec<FunctionSnapshot> = (0..after.len()).map(|core| rates.function(core, function)).collect();
    let rate = |count: fn(&FunctionSnapshot) -> u64| {
        rates.of(before.iter().map(count).sum(), after.iter().map(count).sum())
    };
    let table = after
        .iter()
        .enumerate()
        .filter(|(_, function)| function.counts.capacity > 0)
        .max_by(|(_, a), (_, b)| a.counts.load().total_cmp(&b.counts.load()))
        .map(|(fullest_core, fullest)| TableView {
            flows: after.iter().map(|function| function.counts.live).sum(),
            fullest_core,
            fullest_flows: fullest.counts.live,
            fullest_capacity: fullest.counts.capacity,
            load: share(fullest.counts.load()),
            full_in_seconds: full_in_seconds(growth, &after, function),
            created_per_s: rate(|function| function.counts.created),
            ended_per_s: rate(|function| function.counts.removed + function.counts.expired),
            evicted_per_s: rate(|function| function.counts.evicted),
            rejected_per_s: rate(|function| function.counts.rejected),
        });
    FunctionView {
        name: now.layout.functions[function].name.clone(),
        packets_per_s: rate(|function| function.counts.packets),
        drops_per_s: rate(|function| function.drops.iter().sum()),
        table,
    }
}

/// Until the first of a function's tables is full, as they grew.
fn full_in_seconds(growth: &Rates<'_>, after: &[FunctionSnapshot], function: usize) -> Option<f64> {
    // From the first look alone nothing is known of how a table grows later.
    growth.before?;
    let until = |(core, after): (usize, &FunctionSnapshot)| {
        let FunctionCounts { live, capacity, .. } = after.counts;
        let before = growth.function(core, function).counts.live;
        let grown = live.checked_sub(before).filter(|grown| *grown > 0 && live < capacity)?;
        Some((capacity - live) as f64 * growth.seconds / grown as f64)
    };
    let soonest = after.iter().enumerate().filter_map(until).fold(f64::INFINITY, f64::min);
    (soonest < FAR_SECONDS).then(|| tenths(soonest))
}

fn told(now: &Snapshot) -> Option<StrategyView> {
    let told = &now.strategy;
    let microseconds = |seconds: f64| tenths(seconds * 1e6);
    (!told.runs.is_empty()).then(|| StrategyView {
        runs: told.runs.clone(),
        cores: told.cores,
        active_cores: told.active_cores,
        looks: told.looks,
        moves: told.moves,
        unit: if told.shards.is_empty() { "entry" } else { "shard" }.to_owned(),
        promotions: told.promotion.map(|promotion| promotion.promotions),
        promoted_share: told.promotion.map(|promotion| share(promotion.share)),
        p99_objective_us: told.objective.map(|objective| microseconds(objective.p99_seconds)),
        p99_measured_us: told
            .objective
            .and_then(|objective| objective.measured_p99_seconds)
            .map(microseconds),
        p99_predicted_us: told
            .objective
            .and_then(|objective| objective.predicted_p99_seconds)
            .map(microseconds),
    })
}

#[cfg(test)]
mod tests;
