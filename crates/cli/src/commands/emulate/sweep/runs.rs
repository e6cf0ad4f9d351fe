//! Runs settings on many threads. A run is on one thread, and what it finds does not depend on the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use pipeline::{EmulateError, Line, Options, Pacing, Report, emulate};

use super::packets::Packets;
use super::settings::{Load, Settings};
use super::traffic::Traffic;
use crate::explain::Code;
use crate::failure::Failure;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Load of the run; 0 if each one that was tried lost too much.
    pub load_percent: u32,
    /// What the model did at that load.
    pub report: Option<Report>,
}

/// What all runs need: the packets of each traffic.
pub struct Loaded(HashMap<Key, Packets>);

/// What the packets of a traffic depend on.
type Key = (Traffic, Option<u64>, Option<u32>, u64);

/// Length and seed make a difference to what is drawn here; a capture is read once.
fn key(point: &Settings) -> Key {
    let Settings { traffic, packets, packet_bytes, seed, .. } = point.clone();
    match traffic {
        Traffic::Spaced(_) => (traffic, packets, packet_bytes, seed),
        _ => (traffic, packets, None, 0),
    }
}

impl Loaded {
    /// Generates and reads what `points` need, each traffic once.
    pub fn for_points(points: &[Settings]) -> Result<Loaded, Failure> {
        let mut loaded = HashMap::new();
        for point in points {
            if let Entry::Vacant(place) = loaded.entry(key(point)) {
                place.insert(Packets::load(point)?);
            }
        }
        Ok(Loaded(loaded))
    }

    fn of(&self, point: &Settings) -> &Packets {
        &self.0[&key(point)]
    }
}

/// Whether model, program and options go together.
///
/// # Errors
/// Says what does not, and where.
pub fn check(point: &Settings) -> Result<(), Failure> {
    let program = pipeline::programs::Synthetic::new(point.stages.max(1));
    let percent = if let Load::At(percent) = point.load { percent } else { 100 };
    pipeline::check(&program, &point.pipeline(), &options(point, percent)).map_err(|error| {
        let what = format!("{}, {} stages of {} cycles", point.model, point.stages, point.stage_cycles);
        Failure::usage(format!("{what}: {error}")).coded(Code::NotEmulated)
    })
}

/// Runs all of `points` on so many threads, each that differs from the others once, in any order. What `stop` cut off
/// is absent. `tell` hears of each run that has ended.
///
/// # Errors
/// A model that got stuck.
pub fn run_all(
    points: &[Settings],
    loaded: &Loaded,
    threads: usize,
    stop: &AtomicBool,
    mut tell: impl FnMut(),
) -> Result<Vec<Option<Found>>, Failure> {
    let next = AtomicUsize::new(0);
    let mut found = vec![None; points.len()];
    let mut failure = None;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.min(points.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index) else { break };
                    let Some(result) = run(point, loaded.of(point), stop).transpose() else { break };
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (index, result) in receiver {
            match result {
                Ok(one) => found[index] = Some(one),
                Err(error) => {
                    next.store(points.len(), Ordering::Relaxed);
                    failure = Some(Failure::defect(format!("{:?}: {error}", points[index])));
                }
            }
            tell();
        }
    });
    failure.map_or(Ok(found), Err)
}

/// One run, or as many as it takes to find the highest load. `None` if it was cut off.
fn run(point: &Settings, packets: &Packets, stop: &AtomicBool) -> Result<Option<Found>, EmulateError> {
    match point.load {
        Load::At(percent) => {
            let report = at_load(point, packets, percent, stop)?;
            Ok(report.map(|report| Found { load_percent: percent, report: Some(report) }))
        }
        Load::Highest { loss } => highest_load(point, packets, loss, stop),
    }
}

/// The highest load in whole percent at which no larger share than `loss` is lost. Loss grows with the load, all but
/// a little: so by bisection.
fn highest_load(
    point: &Settings,
    packets: &Packets,
    loss: f64,
    stop: &AtomicBool,
) -> Result<Option<Found>, EmulateError> {
    let (mut good, mut bad) = (Found { load_percent: 0, report: None }, 101);
    // Many lose nothing at all.
    let mut percent = 100;
    while bad - good.load_percent > 1 {
        let Some(report) = at_load(point, packets, percent, stop)? else { return Ok(None) };
        match report.loss() <= loss {
            true => good = Found { load_percent: percent, report: Some(report) },
            false => bad = percent,
        }
        percent = (good.load_percent + bad) / 2;
    }
    Ok(Some(good))
}

/// A run at a load; `None` if it was cut off.
pub fn at_load(
    point: &Settings,
    packets: &Packets,
    percent: u32,
    stop: &AtomicBool,
) -> Result<Option<Report>, EmulateError> {
    let arrivals = packets.arrivals(point).take_while(|_| !stop.load(Ordering::Relaxed));
    let program = packets.program(point);
    let outcome = emulate(&program, &point.pipeline(), &options(point, percent), arrivals, &mut ())?;
    Ok((!stop.load(Ordering::Relaxed)).then_some(outcome.report))
}

fn options(point: &Settings, percent: u32) -> Options {
    let line = Line { pacing: Pacing::Load { percent }, ..Line::default() };
    let stage_cycles = Some(point.stage_cycles);
    Options { stage_cycles, line, when_full: point.when_full(), ..Options::default() }
}
