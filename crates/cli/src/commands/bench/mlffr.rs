//! `paceline bench mlffr`: the highest rate at which no more than a given share is lost, and latency below it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::{Chain, Plan, Registry};
use measure::{Bench, Clock, LatencyPoint, Mlffr, Point, SequencerLoad};
use schemars::JsonSchema;
use serde::Serialize;

use super::load::{LoadArgs, Shares, shares};
use crate::args::{CardArgs, ReplayArgs, StrategyArg, number};
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::{Machine, command_line};
use crate::output::{Reports, bar, heading, percent, plural, plural_of, table};
use crate::progress::interruptible;

#[derive(Args)]
pub struct BenchMlffrArgs {
    #[command(flatten)]
    replay: ReplayArgs,
    /// How packets are spread over cores
    #[arg(long, value_enum, default_value_t = StrategyArg::Rss)]
    pub strategy: StrategyArg,
    /// How many cores, each a pinned thread; no more than the machine has processors, unless they are virtual
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cores: usize,
    /// Virtual cores: they run in turn on one processor, each with a clock of its own
    #[arg(long = "virtual")]
    pub is_virtual: bool,
    /// Searches, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub searches: usize,
    /// Measure latency at these shares of the rate found; none for `--latency ''`
    #[arg(long, value_name = "SHARE,...", default_value = "0.5,0.8,0.95", value_parser = shares)]
    pub latency: Shares,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub card: CardArgs,
}

/// What was found, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct MlffrBench {
    /// Version of Paceline.
    paceline: &'static str,
    /// The command line, to be run again.
    command: String,
    /// Where it was measured.
    machine: Machine,
    /// Name of the chain.
    chain: String,
    /// How packets were spread.
    strategy: &'static str,
    /// What was replayed.
    source: String,
    /// Share of the packets that may be lost, 0 to 1.
    loss_limit: f64,
    /// Receive descriptors of each queue.
    descriptors: usize,
    /// Whether packets came with the bursts and lulls of the trace.
    shaped: bool,
    /// Packets of each trial, fewer at rates so low that they would take longer than two seconds.
    packets: u32,
    /// Searches asked for.
    searches: usize,
    /// Trials that the searches took.
    trials: usize,
    /// Whether all that was asked for was done; not so after an interruption.
    complete: bool,
    /// Million packets per second where all are there at once and none is dropped.
    closed_loop_mpps: f64,
    /// The lowest and the highest rate that a search found, million packets per second.
    lowest_mpps: f64,
    highest_mpps: f64,
    /// Batches, of all trials, that took so long that the system must have run something else. Virtual cores
    /// count them as usual ones, real cores as they were.
    slow_batches: u64,
    /// The figures.
    point: Point,
}

pub fn command(args: &BenchMlffrArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&args.replay.inputs(), None, args.json.as_deref())?;
    let chain = args.replay.chain(registry)?;
    let (cores, clock) = cores(args);
    let plan = args.card.plan(&chain, args.strategy.steady()?, cores)?;
    let progress = interruptible(None);
    let source = args.replay.source(&progress.stop)?;
    let packets = measure::packets(&chain, &plan, &source.trace).map_err(Failure::usage)?;
    let settings = args.load.settings(clock);
    let mut bench = Bench::new(&chain, &plan, packets, settings).map_err(Failure::usage)?;
    let question = args.load.question(args.searches, &args.latency);
    let found = measure::mlffr(&mut bench, &question, &progress.stop).map_err(Failure::of_trial)?;
    let Some(found) = found else { return Ok(ExitCode::from(INTERRUPTED)) };
    let report = report(args, &chain, &plan, source.name, &found);
    reports.write(&report, &render(&report))?;
    match found.is_interrupted {
        true => Ok(ExitCode::from(INTERRUPTED)),
        false if found.found.is_empty() => Err(no_rate(&args.load)),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// How many cores, and whose time is theirs.
fn cores(args: &BenchMlffrArgs) -> (usize, Clock) {
    (args.cores, if args.is_virtual { Clock::Virtual } else { Clock::Measured })
}

fn no_rate(args: &LoadArgs) -> Failure {
    Failure::nothing_found(format!(
        "no rate was found at which no more than {} of the packets are lost\n\
         Allow more loss, or end what else runs on this machine.",
        percent(args.loss)
    ))
}

fn report(args: &BenchMlffrArgs, chain: &Chain, plan: &Plan, source: String, found: &Mlffr) -> MlffrBench {
    let rates = || found.found.iter().map(|found| found.pps / 1e6);
    MlffrBench {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        machine: Machine::here(),
        chain: chain.name.clone(),
        strategy: plan.strategy.name(),
        source,
        loss_limit: args.load.loss,
        descriptors: args.load.descriptors,
        shaped: args.load.shaped,
        packets: args.load.packets,
        searches: args.searches,
        trials: found.found.iter().map(|found| found.trials).sum(),
        complete: !found.is_interrupted,
        closed_loop_mpps: found.closed_loop.received_pps() / 1e6,
        lowest_mpps: rates().reduce(f64::min).unwrap_or(0.0),
        highest_mpps: rates().reduce(f64::max).unwrap_or(0.0),
        slow_batches: found.totals.slow_batches,
        point: found.point(),
    }
}

fn render(bench: &MlffrBench) -> String {
    let MlffrBench { point, .. } = bench;
    let clock = point.clock.name();
    let mut text = match point.found_mpps.is_empty() {
        true => format!("{}: no rate found", bench.chain),
        false => format!("{}: {:.2} Mpps", bench.chain, point.mpps),
    };
    text += &format!(
        " with no more than {} lost ({clock}), strategy {} on {}\non {}\n",
        percent(bench.loss_limit),
        bench.strategy,
        match point.clock {
            Clock::Measured => plural(point.cores as u64, "core"),
            Clock::Virtual => plural(point.cores as u64, "virtual core"),
        },
        bench.machine.describe(),
    );
    text += &format!(
        "{} in {}, {} to {} Mpps; {} lost at the rate shown\n",
        plural(bench.trials as u64, "trial"),
        plural_of(point.found_mpps.len() as u64, "search", "searches"),
        mpps(bench.lowest_mpps),
        mpps(bench.highest_mpps),
        percent(point.loss),
    );
    text += &format!(
        "{} each, {} a queue, from {}\n",
        plural(u64::from(bench.packets), "packet"),
        plural(bench.descriptors as u64, "descriptor"),
        bench.source
    );
    text += &format!("{} Mpps with all packets there at once, none lost\n", mpps(bench.closed_loop_mpps));
    if !bench.complete {
        text += "INTERRUPTED, this is what was found so far\n";
    }
    if bench.slow_batches > 0 {
        let counted = match point.clock {
            Clock::Virtual => "they count as usual ones",
            Clock::Measured => "what was lost meanwhile counts; on a quiet machine the rate is higher",
        };
        text += &format!(
            "note: {} took so long that the system must have run something else; {counted}\n",
            plural_of(bench.slow_batches, "batch", "batches"),
        );
    }
    point.notes.iter().for_each(|note| text += &format!("note: the rate is not to be relied on: {note}\n"));
    text + &loads(point) + &latency(point)
}

fn loads(point: &Point) -> String {
    if point.loads.is_empty() {
        return String::new();
    }
    let row = |(core, load): (usize, &measure::CoreLoad)| {
        let (bar, lost) = (bar(load.busy), percent(load.loss));
        vec![core.to_string(), bar, percent(load.busy), percent(load.share), lost]
    };
    let mut rows: Vec<_> = point.loads.iter().enumerate().map(row).collect();
    let header = ["core", "", "busy", "of all packets", "lost of its own"];
    let mut text = heading("Cores at that rate");
    if let Some(SequencerLoad { busy, loss, packet_ns }) = point.sequencer {
        rows.insert(0, vec!["sequencer".into(), bar(busy), percent(busy), percent(1.0), percent(loss)]);
        text += &table(&header, &rows, 2);
        let left = match point.is_bound_by_sequencer() {
            true => "it has no time left, and bounds the rate",
            false => "it has time left",
        };
        return text
            + &format!(
                "the sequencer is a core more, in front of the others: {packet_ns:.1} ns a packet; {left}\n"
            );
    }
    text + &table(&header, &rows, 2)
}

fn latency(point: &Point) -> String {
    if point.latency.is_empty() {
        return String::new();
    }
    let row = |point: &LatencyPoint| {
        let LatencyPoint { p50_us, p90_us, p99_us, p999_us, max_us, .. } = *point;
        let mut row = vec![percent(point.load), mpps(point.offered_mpps)];
        row.extend([p50_us, p90_us, p99_us, p999_us, max_us].map(|us| format!("{us:.1}")));
        row
    };
    let rows: Vec<_> = point.latency.iter().map(row).collect();
    let header = ["of the rate", "Mpps", "p50", "p90", "p99", "p99.9", "longest"];
    heading("Latency from arrival to leaving, us") + &table(&header, &rows, 0)
}

fn mpps(mpps: f64) -> String {
    format!("{mpps:.2}")
}
