//! Strategies side by side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::strategies::{RSS, SCR, SINGLE, Strategy};
use engine::{Chain, Plan};
use io::{Packets, Trace};
use strategy::{INDIRECTION_SIZES, Rebalancing};
use traffic::{Analysis, Digest};

use crate::bench::{hands_on, is_sequenced};
use crate::findings::draw_conclusions;
use crate::top_key::top_key;
use crate::trial::share;
use crate::{
    Bench, BenchError, Clock, Comparison, InPackets, Point, Question, Refused, Series, Settings,
    TraceSummary, TrialError, check_virtual, mlffr, packets, packets_with_history,
};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Contest {
    /// In the order to be shown.
    pub strategies: Vec<&'static dyn Strategy>,
    /// Numbers of cores. `single` runs on one, whatever they are.
    pub cores: Vec<usize>,
    /// Virtual cores also where there are processors enough.
    pub prefers_virtual: bool,
    /// Entries of the indirection table.
    pub indirection_entries: usize,
    /// When flows go from core to core under strategies that move them; `None`: as they have it.
    pub rebalancing: Option<Rebalancing>,
    /// Receive descriptors of each queue.
    pub descriptors: usize,
    /// Whether packets come with the trace's bursts and lulls.
    pub is_shaped: bool,
    /// See [`Settings::dispatch_ns`].
    pub dispatch_ns: u64,
    /// Under `scr`, also on one core, whether packets bring their history along, and how; `None`: it is in a log that
    /// all cores read.
    pub history: Option<InPackets>,
    /// What is searched for at each point.
    pub question: Question,
}

/// What a comparison is of, in words for its readers.
#[derive(Clone, Debug)]
pub struct Labels {
    /// Version of Paceline.
    pub paceline: String,
    /// The command line.
    pub command: String,
    /// Processor, logical cores, operating system, in one line.
    pub machine: String,
    /// The capture or the model.
    pub source: String,
}

/// Measures each strategy on each number of cores, and tells each point as it comes. What cannot run is
/// in the answer with the reason. `stop` ends it with what was found so far.
///
/// # Errors
/// [`BenchError::Empty`] and [`BenchError::NoIp`], of the trace.
pub fn compare(
    chain: &Chain,
    trace: &Trace,
    contest: &Contest,
    labels: Labels,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&'static dyn Strategy, &Point),
) -> Result<Comparison, BenchError> {
    let mut comparison = Comparison {
        paceline: labels.paceline,
        command: labels.command,
        machine: labels.machine,
        chain: chain.name.clone(),
        functions: chain.functions.iter().map(|spec| spec.name.clone()).collect(),
        trace: summary(chain, trace, contest.indirection_entries, labels.source)?,
        loss_limit: contest.question.limits.loss,
        descriptors: contest.descriptors,
        searches: contest.question.searches,
        series: Vec::new(),
        refused: Vec::new(),
        findings: Vec::new(),
        complete: true,
    };
    for strategy in &contest.strategies {
        let mut points = Vec::new();
        for (cores, clock) in places(chain, *strategy, contest) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match point(chain, trace, *strategy, cores, clock, contest, stop) {
                Ok(None) => {}
                Ok(Some(point)) => {
                    tell(*strategy, &point);
                    points.push(point);
                }
                Err(reason) => {
                    let strategy = strategy.name().to_owned();
                    comparison.refused.push(Refused { strategy, cores, reason });
                }
            }
        }
        comparison.series.push(Series { strategy: strategy.name().to_owned(), points });
    }
    comparison.complete = !stop.load(Ordering::Relaxed);
    draw_conclusions(&mut comparison);
    Ok(comparison)
}

/// Numbers of cores, ascending, each once, and where the clock is not the one that they have by themselves. `single` has
/// one core on each clock that another strategy has, so that each rate has something to be compared with.
fn places(chain: &Chain, strategy: &'static dyn Strategy, contest: &Contest) -> Vec<(usize, Option<Clock>)> {
    let mut cores = contest.cores.clone();
    cores.sort_unstable();
    cores.dedup();
    if strategy != SINGLE {
        return cores.into_iter().map(|cores| (cores, None)).collect();
    }
    let others = contest.strategies.iter().filter(|other| **other != SINGLE);
    let clocks =
        others.flat_map(|other| cores.iter().filter_map(|cores| clock_of(chain, *other, *cores, contest)));
    let clocks: Vec<Clock> = clocks.collect();
    let preferred = if contest.prefers_virtual { Clock::Virtual } else { Clock::Measured };
    let mut each = [preferred, preferred.other()].to_vec();
    each.retain(|clock| clocks.contains(clock));
    match each.is_empty() {
        true => vec![(1, Some(preferred))],
        false => each.into_iter().map(|clock| (1, Some(clock))).collect(),
    }
}

/// The clock that a point will have; `None` where it cannot run.
fn clock_of(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    contest: &Contest,
) -> Option<Clock> {
    clock(chain, &Plan::new(chain, strategy, cores).ok()?, contest).ok()
}

/// One strategy on one number of cores; `None` after an interruption before there was a rate.
fn point(
    chain: &Chain,
    trace: &Trace,
    strategy: &'static dyn Strategy,
    cores: usize,
    fixed: Option<Clock>,
    contest: &Contest,
    stop: &AtomicBool,
) -> Result<Option<Point>, String> {
    let plan = Plan::new(chain, strategy, cores).map_err(in_one_line)?;
    let plan = Plan {
        indirection_entries: contest.indirection_entries,
        rebalancing: plan.rebalancing.map(|rebalancing| contest.rebalancing.unwrap_or(rebalancing)),
        ..plan
    };
    let clock = match fixed {
        Some(clock) => clock,
        None => clock(chain, &plan, contest).map_err(in_one_line)?,
    };
    let packets = match contest.history {
        Some(how) if strategy == SCR => packets_with_history(chain, &plan, trace, how),
        _ => packets(chain, &plan, trace),
    };
    let packets = packets.map_err(in_one_line)?;
    let settings = Settings {
        clock,
        descriptors: contest.descriptors,
        is_shaped: contest.is_shaped,
        dispatch_ns: contest.dispatch_ns,
    };
    let mut bench = Bench::new(chain, &plan, packets, settings).map_err(in_one_line)?;
    match mlffr(&mut bench, &contest.question, stop) {
        Ok(Some(found)) if !found.found.is_empty() => Ok(Some(found.point())),
        Ok(Some(found)) if !found.is_interrupted => {
            Err("no rate was found at which so little is lost".to_owned())
        }
        Ok(_) | Err(TrialError::Interrupted) => Ok(None),
        Err(error) if error.is_defect() => Err(error.to_string()),
        Err(error) => Err(in_one_line(error)),
    }
}

/// Real cores while there are processors for them, and for a sequencer, unless others are preferred and would do.
fn clock(chain: &Chain, plan: &Plan, contest: &Contest) -> Result<Clock, BenchError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let in_packets = contest.history.is_some() && plan.strategy == SCR;
    let has_sequencer = !in_packets && is_sequenced(chain, plan);
    // Real cores hand no packets to each other behind a simulated card.
    let has_processors = !hands_on(plan) && plan.cores + usize::from(has_sequencer) <= processors;
    match check_virtual(chain, plan) {
        Ok(()) if contest.prefers_virtual || !has_processors => Ok(Clock::Virtual),
        _ if has_processors => Ok(Clock::Measured),
        Ok(()) => Ok(Clock::Virtual),
        Err(error) => Err(error),
    }
}

pub(crate) fn in_one_line(error: impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn summary(
    chain: &Chain,
    trace: &Trace,
    indirection_entries: usize,
    source: String,
) -> Result<TraceSummary, BenchError> {
    let mut analysis = Analysis::new(1);
    let mut digest = Digest::default();
    for index in 0..trace.len() {
        let record = trace.packet(index);
        let headers = wire::parse(record.link, record.data, record.wire_len);
        analysis.packet(&headers, record.wire_len, record.time_ns);
        digest.packet(record.time_ns, record.data);
    }
    let profile = analysis.profile();
    // Where no hash serves the chain there is no table.
    let (top_entry_share, top_key) = match Plan::new(chain, RSS, 1) {
        Ok(plan) => {
            let plan = Plan { indirection_entries, ..plan };
            let top_key = top_key(chain, &plan, trace);
            (top_entry_share(packets(chain, &plan, trace)?.packets()), top_key)
        }
        Err(_) => (0.0, None),
    };
    Ok(TraceSummary {
        source,
        packets: profile.packets,
        flows: profile.flows.five_tuple,
        mean_bytes: profile.packet_sizes.mean_bytes,
        top1_share: profile.top10.first().map_or(0.0, |flow| flow.share),
        top10_share: profile.top10_share,
        top_entry_share,
        top_key,
        digest: digest.to_string(),
    })
}

fn top_entry_share(packets: &Packets) -> f64 {
    let mut counts = vec![0u64; INDIRECTION_SIZES[INDIRECTION_SIZES.len() - 1]];
    (0..packets.len()).for_each(|index| counts[usize::from(packets.entry(index))] += 1);
    share(counts.into_iter().max().unwrap_or(0), packets.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{chain, trace};
    use crate::search::Limits;

    /// On one and two virtual cores, and stopped after so many points.
    fn compared(stop_after: usize) -> Comparison {
        let contest = Contest {
            strategies: vec![SINGLE, RSS],
            cores: vec![1, 2],
            prefers_virtual: true,
            indirection_entries: 128,
            rebalancing: None,
            descriptors: 256,
            is_shaped: false,
            dispatch_ns: 0,
            history: None,
            question: Question {
                limits: Limits::default(),
                searches: 1,
                packets: 2_000,
                latency_loads: Vec::new(),
            },
        };
        let labels = Labels {
            paceline: String::new(),
            command: String::new(),
            machine: String::new(),
            source: String::new(),
        };
        let (stop, mut points) = (AtomicBool::new(false), 0);
        let trace = trace("uniform:packets=2000,flows=100,sizes=fixed:60");
        compare(&chain("heavy-hitters"), &trace, &contest, labels, &stop, &mut |_, _| {
            points += 1;
            stop.store(points == stop_after, Ordering::Relaxed);
        })
        .expect("it is compared")
    }

    #[test]
    fn a_comparison_that_was_stopped_is_not_complete() {
        let whole = compared(usize::MAX);
        assert!(whole.complete && whole.points().count() == 3, "{whole:?}");
        let stopped = compared(2);
        assert!(!stopped.complete && stopped.points().count() == 2, "{stopped:?}");
    }
}
