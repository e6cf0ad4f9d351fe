//! `paceline bench egress`: what it costs that packets leave in order, and how far they do not otherwise.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::Args;
use engine::report::{EgressReport, RunReport};
use engine::{
    BATCH_PACKETS, Chain, Egress, Input, Plan, Progress, Registry, RunError, RunOutcome, Seen, replay_capture,
};
use io::capture::CaptureReader;
use io::{Done, Fate, Feeder, Frame, Port, ReplayPort, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{ReplayArgs, StrategyArg, number};
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::{Machine, command_line};
use crate::output::{Reports, count, heading, plural, table};
use crate::progress::interruptible;

#[derive(Args)]
pub struct BenchEgressArgs {
    #[command(flatten)]
    replay: ReplayArgs,
    /// How packets are spread over cores
    #[arg(long, value_enum, default_value_t = StrategyArg::Scr)]
    pub strategy: StrategyArg,
    /// How many cores, each a pinned thread
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub cores: usize,
    /// Runs in each order, which take turns; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub rounds: usize,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What was measured, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct EgressBench {
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
    /// Cores, each a thread, beside one that reads and one that takes packets.
    cores: usize,
    /// What was replayed.
    source: String,
    /// Packets of each run.
    packets: u64,
    /// Runs in each order.
    rounds: usize,
    /// The figures of each order.
    orders: Vec<OrderBench>,
    /// Why the times are not to be relied on, a sentence for each reason; empty if they are.
    notes: Vec<String>,
}

/// Runs in one order.
#[derive(Serialize, JsonSchema)]
struct OrderBench {
    /// The time of each run from the first packet in to the last one out, per packet, nanoseconds, sorted.
    ns_per_packet: Vec<f64>,
    /// Their median.
    median_ns: f64,
    /// Time of the thread that takes packets alone, per packet, nanoseconds: what is ready on all cores is put into its
    /// order, and its memory given back. The median of many times a few hundred packets, which the same thread made
    /// ready before.
    taking_ns: f64,
    /// What measuring their order takes besides; 0 where it is not measured.
    measuring_ns: f64,
    /// How packets left in the run whose time was the median's, or the next above.
    egress: EgressReport,
}

/// What the thread that takes packets spends on one.
struct Alone {
    taking_ns: f64,
    measuring_ns: f64,
}

/// One run.
struct Run {
    ns_per_packet: f64,
    egress: EgressReport,
}

pub fn command(args: &BenchEgressArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&args.replay.inputs(), None, args.json.as_deref())?;
    let chain = args.replay.chain(registry)?;
    let plan = Plan::new(&chain, args.strategy.0, args.cores).map_err(Failure::usage)?;
    let progress = interruptible(None);
    let source = args.replay.source(&progress.stop)?;
    let pcap = as_pcap(&source.trace)?;
    let mut runs = Egress::ALL.map(|_| Vec::new());
    // They take turns, so that a change in the machine's load meets both. The first turn is for caches to fill.
    for round in 0..=args.rounds {
        for (egress, runs) in Egress::ALL.into_iter().zip(&mut runs) {
            let run = run(&chain, &Plan { egress, ..plan.clone() }, &pcap, &progress)?;
            if progress.stop.load(Ordering::Relaxed) {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let [ordered, as_ready, measured] = alone(&source.trace, plan.cores);
    let alone = [
        Alone { taking_ns: ordered, measuring_ns: 0.0 },
        Alone { taking_ns: as_ready, measuring_ns: (measured - as_ready).max(0.0) },
    ];
    let bench = EgressBench {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        machine: Machine::here(),
        chain: chain.name.clone(),
        strategy: plan.strategy.name(),
        cores: plan.cores,
        source: source.name,
        packets: source.trace.len() as u64,
        rounds: args.rounds,
        notes: Vec::new(),
        orders: runs.into_iter().zip(alone).map(|(runs, alone)| summary(runs, alone)).collect(),
    };
    let bench = EgressBench { notes: notes(&bench), ..bench };
    reports.write(&bench, &render(&bench))?;
    Ok(ExitCode::SUCCESS)
}

fn as_pcap(trace: &Trace) -> Result<Vec<u8>, Failure> {
    let one =
        "packets of several link types are not replayed from memory\nSplit the capture by interface first.";
    trace.to_pcap().ok_or_else(|| Failure::usage(one))
}

/// All packets once, over empty tables.
fn run(chain: &Chain, plan: &Plan, pcap: &[u8], progress: &Progress) -> Result<Run, Failure> {
    let input = Input::from(CaptureReader::from_bytes(pcap).map_err(Failure::defect)?);
    let outcome: Result<RunOutcome, RunError<Failure>> =
        replay_capture(chain, plan, input, progress, &mut |_| Ok(()));
    let outcome = outcome.map_err(|error| match error {
        memory @ RunError::OutOfMemory { .. } => Failure::usage(memory),
        error => Failure::defect(error),
    })?;
    let ns_per_packet = outcome.elapsed.as_nanos() as f64 / outcome.packets.max(1) as f64;
    Ok(Run { ns_per_packet, egress: RunReport::new(chain, plan, &outcome).egress })
}

/// Batches of each core that are ready at a time: no more than fit its ring.
const BATCHES_READY: usize = 4;

/// How often packets are made ready and taken.
const TURNS: usize = 1_001;

/// What taking packets costs by itself, ns per packet: in order, as they are ready, and that with measuring. On one thread, so that what others do on this
/// machine is seen by few of the turns. Each core sends whole batches, by turns.
fn alone(trace: &Trace, cores: usize) -> [f64; 3] {
    let taker = |egress: Egress, measured: Egress| {
        let ends = if egress == Egress::Ordered { io::replay(cores) } else { io::replay_as_ready(cores) };
        (ends, engine::Watch::of(measured))
    };
    let mut takers = [
        taker(Egress::Ordered, Egress::Ordered),
        taker(Egress::AsReady, Egress::Ordered),
        taker(Egress::AsReady, Egress::AsReady),
    ];
    let mut ns = [const { Vec::new() }; 3];
    let mut packets = (0..trace.len()).cycle();
    let ready = cores * BATCHES_READY * BATCH_PACKETS;
    for _ in 0..TURNS {
        let turn: Vec<usize> = packets.by_ref().take(ready).collect();
        for (((feeder, ports, collector), watch), ns) in takers.iter_mut().zip(&mut ns) {
            make_ready(trace, &turn, feeder, ports);
            let begin = Instant::now();
            for _ in 0..ready {
                let done = collector.collect().expect("all are ready");
                watch.see(&seen(&done, collector.bytes(&done)));
                black_box(collector.release(done));
            }
            ns.push(begin.elapsed().as_nanos() as f64 / ready as f64);
        }
    }
    ns.map(|mut ns| {
        ns.sort_by(f64::total_cmp);
        ns[TURNS / 2]
    })
}

fn make_ready(trace: &Trace, turn: &[usize], feeder: &mut Feeder, ports: &mut [ReplayPort]) {
    for (index, packet) in turn.iter().enumerate() {
        let sent =
            feeder.take(&trace.packet(*packet)).and_then(|frame| feeder.send(index % ports.len(), frame));
        sent.expect("all ends are here");
    }
    let mut frames = Vec::with_capacity(BATCH_PACKETS);
    for _ in 0..BATCHES_READY {
        for port in &mut *ports {
            port.receive(&mut frames, BATCH_PACKETS);
            let fates = [Fate::Forward; BATCH_PACKETS];
            port.send(&mut frames, &fates).expect("all ends are here");
        }
    }
}

fn seen<'a>(done: &Done, bytes: &'a [u8]) -> Seen<'a> {
    let Done { frame, fate, sent } = done;
    let Frame { stamp, wire_len, link, entry, .. } = *frame;
    Seen { stamp, fate: *fate, bytes, wire_len, link, refused: None, entry, sent: *sent }
}

/// Cores, and a thread before and behind them, that share processors; and runs that differ.
fn notes(bench: &EgressBench) -> Vec<String> {
    let spread = |order: &OrderBench| {
        let what = format!("runs with packets {} took", order.egress.order);
        measure::spread_note(&what, &order.ns_per_packet, "ns per packet")
    };
    measure::crowded(bench.cores + 2).into_iter().chain(bench.orders.iter().filter_map(spread)).collect()
}

/// Sums up the runs of one order, of which there is at least one.
fn summary(mut runs: Vec<Run>, Alone { taking_ns, measuring_ns }: Alone) -> OrderBench {
    runs.sort_by(|a, b| a.ns_per_packet.total_cmp(&b.ns_per_packet));
    let ns_per_packet: Vec<f64> = runs.iter().map(|run| run.ns_per_packet).collect();
    let middle = runs.len() / 2;
    let median_ns = (ns_per_packet[middle] + ns_per_packet[(runs.len() - 1) / 2]) / 2.0;
    OrderBench { ns_per_packet, median_ns, taking_ns, measuring_ns, egress: runs.swap_remove(middle).egress }
}

fn render(bench: &EgressBench) -> String {
    let mut text = format!(
        "{}: strategy {} on {} (measured), {}, {} in each order\non {}\nfrom {}\n",
        bench.chain,
        bench.strategy,
        plural(bench.cores as u64, "core"),
        plural(bench.packets, "packet"),
        plural(bench.rounds as u64, "run"),
        bench.machine.describe(),
        bench.source,
    );
    let row = |order: &OrderBench| {
        let mut row = vec![order.egress.order.clone()];
        let (least, most) = (order.ns_per_packet.first(), order.ns_per_packet.last());
        let ns = [Some(&order.median_ns), least, most].into_iter().flatten();
        row.extend(ns.map(|ns| format!("{ns:.1}")));
        row.push(format!("{:.2}", 1e3 / order.median_ns));
        row.push(count(order.egress.blocked_batches));
        row.extend([order.taking_ns, order.measuring_ns].map(|ns| format!("{ns:.1}")));
        row
    };
    let rows: Vec<_> = bench.orders.iter().map(row).collect();
    let header =
        ["order", "median", "least", "most", "Mpps", "batches that waited", "taking alone", "measuring"];
    text +=
        &(heading("From the first packet in to the last one out, ns per packet") + &table(&header, &rows, 1));
    bench.notes.iter().for_each(|note| text += &format!("note: the times are not to be relied on: {note}\n"));
    let reorderings = bench.orders.iter().filter_map(|order| order.egress.reordering.as_ref());
    text + &reorderings.map(ToString::to_string).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ns_per_packet: f64, blocked_batches: u64) -> Run {
        Run {
            ns_per_packet,
            egress: EgressReport { order: "ordered".to_owned(), blocked_batches, reordering: None },
        }
    }

    fn alone() -> Alone {
        Alone { taking_ns: 2.0, measuring_ns: 1.0 }
    }

    #[test]
    fn the_median_is_shown_with_what_its_run_found() {
        let odd = summary(vec![run(30.0, 3), run(10.0, 1), run(20.0, 2)], alone());
        assert_eq!((odd.median_ns, odd.egress.blocked_batches), (20.0, 2));
        assert_eq!(odd.ns_per_packet, [10.0, 20.0, 30.0]);
        let even = summary(vec![run(30.0, 3), run(10.0, 1)], alone());
        assert_eq!((even.median_ns, even.egress.blocked_batches), (20.0, 3));
    }
}
