//! Follows a run while it goes on, from what its cores publish, in memory that has a bound.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::report::{CorePeriod, TimePeriod, TimelineReport};
use telemetry::{Snapshot, Telemetry};

/// The first length of a period.
const PERIOD: Duration = Duration::from_millis(20);

/// The most periods: when there are as many, each two become one.
const PERIODS: usize = 512;

/// Follows a run in a thread of its own, until it is [finished](Timeline::finish) or dropped.
pub struct Timeline {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<TimelineReport>>,
}

impl Timeline {
    /// From now on.
    pub fn follow(telemetry: Arc<Telemetry>) -> Timeline {
        let (end, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            let mut periods = Periods::new(PERIOD, telemetry.snapshot());
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(periods.period) {
                periods.add(telemetry.snapshot());
            }
            periods.add(telemetry.snapshot());
            periods.report()
        });
        Timeline { end: Some(end), thread: Some(thread) }
    }

    /// What was seen up to now.
    pub fn finish(mut self) -> TimelineReport {
        drop(self.end.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Periods so far.
struct Periods {
    period: Duration,
    before: Snapshot,
    all: Vec<TimePeriod>,
}

impl Periods {
    fn new(period: Duration, first: Snapshot) -> Periods {
        Periods { period, before: first, all: Vec::with_capacity(PERIODS) }
    }

    fn add(&mut self, now: Snapshot) {
        let before = mem::replace(&mut self.before, now);
        let seconds = self.before.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        if seconds > 0.0 {
            self.all.push(between(&before, &self.before, seconds));
        }
        if self.all.len() < PERIODS {
            return;
        }
        self.period *= 2;
        let mut all = mem::take(&mut self.all).into_iter();
        self.all.reserve(PERIODS);
        while let Some(first) = all.next() {
            self.all.push(match all.next() {
                Some(second) => first.and(second),
                None => first,
            });
        }
    }

    fn report(self) -> TimelineReport {
        TimelineReport { period_seconds: self.period.as_secs_f64(), periods: self.all }
    }
}

fn between(before: &Snapshot, now: &Snapshot, seconds: f64) -> TimePeriod {
    let (old, new) = (&before.strategy, &now.strategy);
    let cores: Vec<CorePeriod> = now
        .cores
        .iter()
        .zip(&before.cores)
        .map(|(now, before)| CorePeriod {
            packets: now.counts.packets - before.counts.packets,
            busy_seconds: (now.counts.busy_ns - before.counts.busy_ns) as f64 / 1e9,
        })
        .collect();
    let promotions = |told: &telemetry::StrategySnapshot| {
        told.promotion.map_or(0, |promotion| promotion.promotions + promotion.demotions)
    };
    let changes =
        |told: &telemetry::StrategySnapshot| told.choosing.as_ref().map_or(0, |choosing| choosing.changes);
    TimePeriod {
        until_seconds: now.elapsed.as_secs_f64(),
        seconds,
        cores_in_use: cores.iter().filter(|core| core.packets > 0).count(),
        cores,
        strategy: if new.runs.is_empty() { now.layout.strategy.clone() } else { new.runs.clone() },
        moves: new.moves - old.moves,
        promotions: promotions(new) - promotions(old),
        changes: changes(new) - changes(old),
        slo_p99_us: new.objective.map(|objective| objective.p99_seconds * 1e6),
        predicted_p99_us: new
            .objective
            .and_then(|objective| objective.predicted_p99_seconds)
            .map(|seconds| seconds * 1e6),
        measured_p99_us: new
            .objective
            .and_then(|objective| objective.measured_p99_seconds)
            .map(|seconds| seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use telemetry::{CoreCounts, CoreSnapshot, Layout, StrategySnapshot};

    use super::*;

    fn snapshot(period: u64) -> Snapshot {
        let core = |packets: u64| CoreSnapshot {
            counts: CoreCounts { packets, busy_ns: 1_000 * packets, ..CoreCounts::default() },
            ..CoreSnapshot::default()
        };
        Snapshot {
            layout: Arc::new(Layout { strategy: "rsspp".to_owned(), ..Layout::default() }),
            elapsed: PERIOD * period as u32,
            cores: vec![core(10 * period), core(if period > 600 { 7 } else { 0 })],
            interfaces: Vec::new(),
            strategy: StrategySnapshot { moves: 3 * period, ..StrategySnapshot::default() },
            rules: Vec::new(),
        }
    }

    #[test]
    fn a_long_run_takes_no_more_memory_and_loses_no_packet() {
        let mut periods = Periods::new(PERIOD, snapshot(0));
        for period in 1..=5_000 {
            periods.add(snapshot(period));
            assert!(periods.all.len() < PERIODS && periods.all.capacity() <= PERIODS);
        }
        let report = periods.report();
        assert!(report.period_seconds > 0.15, "{}", report.period_seconds);
        let sum = |what: fn(&TimePeriod) -> u64| report.periods.iter().map(what).sum::<u64>();
        assert_eq!(sum(|period| period.cores[0].packets), 50_000);
        assert_eq!(sum(|period| period.cores[1].packets), 7);
        assert_eq!(sum(|period| period.moves), 15_000);
        assert_eq!(report.periods.iter().filter(|period| period.cores_in_use == 2).count(), 1);
        let seconds: f64 = report.periods.iter().map(|period| period.seconds).sum();
        assert!((seconds - 100.0).abs() < 1e-6, "{seconds}");
        assert!(report.periods.is_sorted_by(|a, b| a.until_seconds < b.until_seconds));
    }

    #[test]
    fn a_run_that_says_nothing_has_periods_without_packets() {
        let report = Timeline::follow(Arc::new(Telemetry::new(Layout::default(), 1))).finish();
        assert!(report.periods.iter().all(|period| period.cores_in_use == 0));
    }
}
