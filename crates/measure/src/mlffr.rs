//! The highest rate at which a chain loses no more than a given share, several times over, and latency below it. RFC 2544
//! calls it throughput where that share is 0; SCR (NSDI'25, §4.1) allows 4% and calls it MLFFR all the same.

use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;

use crate::disturbance::{self, StealClock, ThreadTime};
use crate::search::{Found, Limits, median_index, search};
use crate::{Bench, Clock, Conditions, LatencyPoint, Point, Trial, TrialError};

/// What to search for.
#[derive(Clone, Debug)]
pub struct Question {
    /// Loss and width.
    pub limits: Limits,
    /// How many searches, at least 1.
    pub searches: usize,
    /// Packets of each trial, at least 1.
    pub packets: u32,
    /// Shares of the rate found at which latency is measured.
    pub latency_loads: Vec<f64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Mlffr {
    /// Whose time it is.
    pub clock: Clock,
    /// All packets at once, none dropped: where the searches began.
    pub closed_loop: Trial,
    /// What each search found, in order; fewer than asked for after an interruption, and where a search found
    /// no rate at all.
    pub found: Vec<Found<Trial>>,
    /// Latency, by load.
    pub latency: Vec<LatencyPoint>,
    /// Totals over all trials, the warm-up included.
    pub totals: Totals,
    /// Share of the processors' time that a hypervisor gave to other machines; `None` where the system does not say.
    pub steal_share: Option<f64>,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
}

/// What adds up over trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Entries that went from core to core.
    pub moves: u64,
    /// Batches that took so long that the system must have run something else.
    pub slow_batches: u64,
    /// Time of the threads that ran them, with a processor and without.
    pub time: ThreadTime,
}

impl Totals {
    fn add(&mut self, trial: &Trial) {
        self.moves += trial.moves;
        self.slow_batches += trial.slow_batches();
        self.time = match self.time.wall.is_zero() {
            true => trial.time,
            false => self.time.and(trial.time),
        };
    }
}

/// The searches begin this much above what the cores can do: what is dropped makes room.
const ABOVE: f64 = 1.1;

/// The longest trial, seconds: at rates far below what a chain can do fewer packets are offered.
const TRIAL_SECONDS_MAX: f64 = 2.0;

/// Packets of each trial at least, if so many were asked for.
const TRIAL_PACKETS_MIN: u32 = 10_000;

impl Question {
    /// Packets of a trial at `pps`.
    fn packets_at(&self, pps: f64) -> u32 {
        let in_time = (pps * TRIAL_SECONDS_MAX) as u32;
        self.packets.min(in_time.max(TRIAL_PACKETS_MIN))
    }
}

/// Warms up, searches, and measures latency. `None` if `stop` came before there was anything to report.
///
/// # Errors
/// [`TrialError`] other than an interruption, which ends the measurement with what was found so far.
pub fn mlffr(bench: &mut Bench, question: &Question, stop: &AtomicBool) -> Result<Option<Mlffr>, TrialError> {
    let (steal, mut totals) = (StealClock::start(), Totals::default());
    let warm_up = bench.warm_up(stop).map(|trial| totals.add(&trial));
    let closed_loop = match warm_up.and_then(|()| bench.closed_loop(question.packets, stop)) {
        Err(TrialError::Interrupted) => return Ok(None),
        closed_loop => closed_loop?,
    };
    totals.add(&closed_loop);
    let mut mlffr = Mlffr {
        clock: bench.clock(),
        closed_loop,
        found: Vec::new(),
        latency: Vec::new(),
        totals,
        steal_share: None,
        is_interrupted: false,
    };
    match mlffr.measure(bench, question, stop) {
        Err(TrialError::Interrupted) => mlffr.is_interrupted = true,
        measured => measured?,
    }
    mlffr.steal_share = steal.share();
    Ok(Some(mlffr))
}

impl Mlffr {
    fn measure(
        &mut self,
        bench: &mut Bench,
        question: &Question,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        let upper_pps = self.closed_loop.received_pps() * ABOVE;
        for _ in 0..question.searches {
            let found = search(upper_pps, question.limits, |pps| -> Result<_, TrialError> {
                let trial = bench.trial(pps, question.packets_at(pps), false, stop)?;
                self.totals.add(&trial);
                Ok((trial.loss(), trial))
            })?;
            self.found.extend(found);
        }
        let Some(median) = self.median() else { return Ok(()) };
        let mlffr_pps = median.pps;
        for load in &question.latency_loads {
            let pps = mlffr_pps * load;
            let trial = bench.trial(pps, question.packets_at(pps), true, stop)?;
            self.totals.add(&trial);
            self.latency.extend(trial.latency.map(|latency| latency_point(*load, pps, &latency)));
        }
        Ok(())
    }

    /// The search in the middle; `None` if none found a rate.
    pub fn median(&self) -> Option<&Found<Trial>> {
        let rates: Vec<f64> = self.found.iter().map(|found| found.pps).collect();
        (!rates.is_empty()).then(|| &self.found[median_index(&rates)])
    }

    /// The figures; a rate of 0 and no loads if no search found a rate.
    pub fn point(&self) -> Point {
        let median = self.median();
        let Totals { moves, slow_batches, time } = self.totals;
        let off_processor_share = time.off_processor_share();
        let mut point = Point {
            cores: self.closed_loop.cores.len(),
            clock: self.clock,
            mpps: median.map_or(0.0, |found| found.pps / 1e6),
            found_mpps: self.found.iter().map(|found| found.pps / 1e6).collect(),
            loss: median.map_or(0.0, |found| found.trial.loss()),
            moves,
            loads: median.map_or_else(Vec::new, |found| found.trial.loads()),
            sequencer: median.and_then(|found| found.trial.sequencer_load()),
            latency: self.latency.clone(),
            conditions: Some(Conditions { off_processor_share, steal_share: self.steal_share, slow_batches }),
            notes: Vec::new(),
        };
        point.notes = disturbance::notes(&point);
        point
    }
}

fn latency_point(load: f64, pps: f64, latency: &Histogram<u64>) -> LatencyPoint {
    let us = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    LatencyPoint {
        load,
        offered_mpps: pps / 1e6,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: latency.max() as f64 / 1e3,
    }
}
