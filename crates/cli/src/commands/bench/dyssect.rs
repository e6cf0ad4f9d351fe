//! `paceline bench dyssect`: what more shards cost on one core, what skew leaves of several cores, how long packets with and without priority
//! wait there (`waits`), how much of an offered load they take (`throughput`), and what a card that looks flows up saves. The shapes stand beside Fig. 1, 4, 5
//! and 6 and Table V of Dyssect (INFOCOM'22).

mod steps;
mod throughput;
mod waits;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Args;
use engine::strategies::{DYSSECT, RSS, RSSPP, Shards, Strategy};
use engine::{Chain, Plan, Registry};
use io::Trace;
use measure::{Bench, Clock, Settings, packets};
use schemars::JsonSchema;
use serde::Serialize;
use traffic::Model;

use self::steps::{PASSES, Steps, WINDOW_NS};
use self::throughput::{LookUps, Throughput, Trials};
use self::waits::{CardShare, Waits};
use crate::args::{generate, number};
use crate::failure::{Failure, INTERRUPTED};
use crate::input::read_chain;
use crate::machine::{Machine, command_line};
use crate::output::{Reports, heading, table};
use crate::progress::{go_on, interruptible};

/// From packet to packet, ns: about what 36 Gbit/s are in packets of 1001 bytes, as in the paper.
const GAP_NS: u64 = 250;

/// How long 99 in 100 packets with priority may wait where throughput is measured, µs: about the paper's p99.5.
const THROUGHPUT_SLO_US: f64 = 500.0;

#[derive(Args)]
pub struct BenchDyssectArgs {
    /// The chain file
    pub chain: PathBuf,
    /// Flows of the traces, which are Zipf; the paper has 1,000,000
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number(1..=10_000_000))]
    pub flows: usize,
    /// Packets of each trace
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1_000..=100_000_000))]
    pub packets: usize,
    /// Cores of the second figure; the paper has 8
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number(2..=32))]
    pub cores: usize,
    /// Runs of each: of numbers of shards the median counts, of look-ups the fastest
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub rounds: usize,
    /// How long packets are offered in each trial of Fig. 4a, in their own time, of which the first quarter is a warm-up: `dyssect`
    /// decides every 100 ms, `rsspp` every 10 ms. With the defaults all trials together take some ten minutes
    #[arg(long, value_name = "MS", default_value_t = 800, value_parser = number(1..=60_000))]
    pub trial_ms: usize,
    /// Trials of Fig. 4a at each rate under each strategy, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=100))]
    pub trials: usize,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What was measured, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct DyssectBench {
    /// Version of Paceline.
    paceline: &'static str,
    /// The command line, to be run again.
    command: String,
    /// Where it was measured.
    machine: Machine,
    /// Name of the chain.
    chain: String,
    /// Flows of each trace.
    flows: usize,
    /// Packets of each trace.
    packets: usize,
    /// Whether all figures were measured; not so after an interruption. Those that were not are empty.
    complete: bool,
    /// One core with more and more shards: Fig. 1.
    shards: Vec<ShardCost>,
    /// Cores of the second figure.
    cores: usize,
    /// More and more skew: Fig. 5 and Table V.
    skew: Vec<Skew>,
    /// More and more packets on virtual cores: Fig. 4.
    waits: Vec<Waits>,
    /// More and more packets on virtual cores, in the time that the chain takes: Fig. 4a.
    throughput: Vec<Throughput>,
    /// Look-ups that a card could take over: Fig. 6.
    card: Option<CardShare>,
    /// One core whose card takes them over: Fig. 6.
    look_ups: Vec<LookUps>,
}

/// One core with so many shards.
#[derive(Serialize, JsonSchema)]
struct ShardCost {
    /// How many; 0: `rss`, with one table.
    shards: usize,
    /// Packets a second, in millions: the median of all rounds.
    mpps: f64,
    /// The least of all rounds.
    least_mpps: f64,
    /// The most.
    most_mpps: f64,
}

/// What skew leaves of several cores, by loads alone: moving and handing packets on costs nothing here.
#[derive(Serialize, JsonSchema)]
struct Skew {
    /// The exponent of the flows' sizes.
    exponent: f64,
    /// Under each strategy.
    strategies: Vec<Spread>,
}

/// How evenly a strategy spreads packets.
#[derive(Serialize, JsonSchema)]
struct Spread {
    /// The strategy.
    strategy: String,
    /// All packets over those of the busiest core of each 10 ms: the rate that is possible, in rates of one core.
    speedup: f64,
    /// Entries or shards that went from core to core.
    moves: u64,
}

pub fn command(args: &BenchDyssectArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&[&args.chain], None, args.json.as_deref())?;
    let chain = read_chain(&args.chain, registry)?;
    let progress = interruptible(None);
    let mut bench = DyssectBench {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        machine: Machine::here(),
        chain: chain.name.clone(),
        flows: args.flows,
        packets: args.packets,
        complete: true,
        shards: Vec::new(),
        cores: args.cores,
        skew: Vec::new(),
        waits: Vec::new(),
        throughput: Vec::new(),
        card: None,
        look_ups: Vec::new(),
    };
    match bench.measure(&chain, args, &progress.stop) {
        // What is whole is reported, if anything is.
        Err(Failure::Interrupted) if !bench.shards.is_empty() => bench.complete = false,
        measured => measured?,
    }
    reports.write(&bench, &render(&bench))?;
    Ok(if bench.complete { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
}

impl DyssectBench {
    /// Measures figure by figure.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] leaves the figures that were whole.
    fn measure(&mut self, chain: &Chain, args: &BenchDyssectArgs, stop: &AtomicBool) -> Result<(), Failure> {
        let of = |exponent: f64| -> Result<Trace, Failure> {
            let (flows, packets) = (args.flows, args.packets);
            let model = format!("zipf:flows={flows},a={exponent},packets={packets},gap-ns={GAP_NS},seed=1");
            generate(&Model::parse(&model).map_err(Failure::usage)?, stop)
        };
        let trace = of(1.1)?;
        self.shards = shard_costs(chain, &trace, args, stop)?;
        for exponent in [0.7, 0.8, 0.9, 1.0, 1.1] {
            let trace = of(exponent)?;
            let mut strategies = Vec::new();
            for strategy in [RSS, RSSPP, DYSSECT] {
                strategies.push(spread(chain, strategy, args.cores, &trace)?);
                go_on(stop)?;
            }
            self.skew.push(Skew { exponent, strategies });
        }
        self.waits = waits::waits(chain, args.cores, &trace, stop)?;
        let chain_of_4 = waits::prioritised(chain, &trace, THROUGHPUT_SLO_US);
        let one_pps = self.shards.first().map_or(1.0, |one| one.mpps) * 1e6;
        let trials = Trials { one_pps, seconds: args.trial_ms as f64 / 1e3, count: args.trials };
        self.throughput = throughput::throughputs(&chain_of_4, args.cores, &trace, trials, stop)?;
        self.card = Some(waits::card_share(chain, &trace));
        self.look_ups = throughput::look_ups(chain, &trace, args.rounds, stop)?;
        Ok(())
    }
}

/// What more shards cost. Numbers of shards take turns, so that what else the machine does meets all alike.
fn shard_costs(
    chain: &Chain,
    trace: &Trace,
    args: &BenchDyssectArgs,
    stop: &AtomicBool,
) -> Result<Vec<ShardCost>, Failure> {
    let counts = [0, 1, 2, 4, 8, 16, 32, 64, 128];
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); counts.len()];
    for _ in 0..args.rounds {
        for (count, rates) in counts.into_iter().zip(&mut rates) {
            rates.push(rate_mpps(chain, count, trace, stop)?);
        }
    }
    let cost = |(shards, mut rates): (usize, Vec<f64>)| {
        rates.sort_by(f64::total_cmp);
        let [least_mpps, mpps, most_mpps] = [0, rates.len() / 2, rates.len() - 1].map(|at| rates[at]);
        ShardCost { shards, mpps, least_mpps, most_mpps }
    };
    Ok(counts.into_iter().zip(rates).map(cost).collect())
}

/// The rate of one core with so many shards, all packets being there at once.
fn rate_mpps(chain: &Chain, shards: usize, trace: &Trace, stop: &AtomicBool) -> Result<f64, Failure> {
    let strategy = if shards == 0 { RSS } else { DYSSECT };
    let mut plan = Plan::new(chain, strategy, 1).map_err(Failure::usage)?;
    plan.shards = plan.shards.map(|default| Shards::new(shards).unwrap_or(default));
    let offered = packets(chain, &plan, trace).map_err(Failure::usage)?;
    let settings = Settings { clock: Clock::Measured, descriptors: 256, is_shaped: false, dispatch_ns: 0 };
    let mut bench = Bench::new(chain, &plan, offered, settings).map_err(Failure::usage)?;
    bench.warm_up(stop).map_err(Failure::of_trial)?;
    let trial = bench.closed_loop(trace.len() as u32, stop).map_err(Failure::of_trial)?;
    Ok(trial.received_pps() / 1e6)
}

fn spread(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    trace: &Trace,
) -> Result<Spread, Failure> {
    let mut steps = Steps::new(chain, strategy, cores, trace)?;
    let count = (PASSES * trace.len()) as u64;
    let (mut of_cores, mut busiest) = (vec![0u64; cores], 0);
    for number in 0..count {
        if (number * GAP_NS).is_multiple_of(WINDOW_NS) {
            busiest += of_cores.iter().max().copied().unwrap_or(0);
            of_cores.fill(0);
        }
        of_cores[steps.next(number * GAP_NS)] += 1;
    }
    busiest += of_cores.iter().max().copied().unwrap_or(0);
    let speedup = count as f64 / busiest.max(1) as f64;
    Ok(Spread { strategy: strategy.name().to_owned(), speedup, moves: steps.moves })
}

/// The figures that were measured, each under its heading.
fn render(bench: &DyssectBench) -> String {
    let DyssectBench { chain, flows, packets, machine, .. } = bench;
    let mut text = format!("{chain}, {packets} packets of {flows} flows, on {}\n", machine.describe());
    let figures = [render_shards, render_skew, render_waits, render_throughput, render_card];
    figures.iter().for_each(|figure| text += &figure(bench).unwrap_or_default());
    if !bench.complete {
        text += "\ninterrupted: these are the figures that were measured so far\n";
    }
    text
}

fn render_shards(bench: &DyssectBench) -> Option<String> {
    let one = bench.shards.iter().find(|cost| cost.shards == 1)?.mpps;
    let row = |cost: &ShardCost| {
        let name = if cost.shards == 0 { "rss, one table".to_owned() } else { cost.shards.to_string() };
        let range = format!("{:.2} to {:.2}", cost.least_mpps, cost.most_mpps);
        vec![name, format!("{:.2}", cost.mpps), range, format!("{:+.1}%", (cost.mpps / one - 1.0) * 100.0)]
    };
    let rows: Vec<_> = bench.shards.iter().map(row).collect();
    let text = heading("Fig. 1: one core with more and more shards, Zipf 1.1")
        + &table(&["shards", "Mpps", "in all rounds", "to one shard"], &rows, 1);
    Some(text + "the paper: -43.3% at 128 shards, with a NAT and 1,000,000 flows\n")
}

fn render_skew(bench: &DyssectBench) -> Option<String> {
    bench.skew.first()?;
    let cores = bench.cores;
    let row = |skew: &Skew| {
        let cells = skew
            .strategies
            .iter()
            .flat_map(|spread| [format!("{:.2}", spread.speedup), spread.moves.to_string()]);
        std::iter::once(format!("{:.1}", skew.exponent)).chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = bench.skew.iter().map(row).collect();
    let text = heading(&format!("Fig. 5 and Table V: {cores} cores by loads alone, in times of one core"))
        + &table(&["Zipf", "rss", "moves", "rsspp", "moves", "dyssect", "moves"], &rows, 1);
    Some(
        text + "handing packets on and moving shards costs nothing here; the paper measured 6.7% to 26% over rss, and 4.1% to \
                19.4% over RSS++\n",
    )
}

fn render_waits(bench: &DyssectBench) -> Option<String> {
    bench.waits.first()?;
    let rows: Vec<_> = bench.waits.iter().map(Waits::row).collect();
    let head = [
        "objective us",
        "Gbit/s",
        "strategy",
        "cores",
        "p99.5 priority us",
        "p99.5 others us",
        "missed",
        "moves",
    ];
    let text = heading(&waits::caption(bench.cores)) + &table(&head, &rows, 3);
    Some(
        text + "virtual: packets wait for their core's queue alone, and rsspp has as many cores as dyssect used. The paper, with a NAT and an IDS: p99.5 of 495 us with priority where RSS++ has \
                728, on as many cores or fewer, with 67 moves of shards where RSS++ has 758\n",
    )
}

fn render_throughput(bench: &DyssectBench) -> Option<String> {
    bench.throughput.first()?;
    let cores = bench.cores;
    let mut text = heading(&format!(
        "Fig. 4a: what {cores} virtual cores take, 99 in 100 with priority wait no longer than {THROUGHPUT_SLO_US} us"
    ));
    let rows: Vec<_> = bench.throughput.iter().map(Throughput::row).collect();
    let head =
        ["offered Gbit/s", "strategy", "Gbit/s", "lost", "in all trials", "cores busy", "moves", "refused"];
    text += &table(&head, &rows, 2);
    text += "the chain's own time on virtual cores, each with a queue of the card for itself; flows are new at first, and a quarter of each \
             trial is a warm-up. Refused is what functions dropped. The paper: as much as RSS++ or more\n";
    for note in bench.throughput.iter().flat_map(Throughput::notes) {
        text += &format!("note: {note}\n");
    }
    Some(text)
}

fn render_card(bench: &DyssectBench) -> Option<String> {
    let mut text = heading("Fig. 6: look-ups in the card") + &bench.card.as_ref()?.text();
    if let Some(first) = bench.look_ups.first() {
        let rows: Vec<_> = bench.look_ups.iter().map(|look_ups| look_ups.row(first.mpps)).collect();
        text += &table(&["flows in the card", "Mpps", "to none"], &rows, 1);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_before_an_interruption_is_reported() {
        let shards = [0, 1].map(|shards| ShardCost { shards, mpps: 2.0, least_mpps: 1.9, most_mpps: 2.1 });
        let mut bench = DyssectBench {
            paceline: "",
            command: String::new(),
            machine: Machine::here(),
            chain: "test".to_owned(),
            flows: 8,
            packets: 64,
            complete: false,
            shards: shards.into(),
            cores: 2,
            skew: Vec::new(),
            waits: Vec::new(),
            throughput: Vec::new(),
            card: None,
            look_ups: Vec::new(),
        };
        let text = render(&bench);
        assert!(text.contains("Fig. 1") && text.contains("rss, one table"), "{text}");
        assert!(!text.contains("Fig. 4") && !text.contains("Fig. 5") && !text.contains("Fig. 6"), "{text}");
        assert!(text.ends_with("interrupted: these are the figures that were measured so far\n"), "{text}");
        bench.shards.clear();
        assert!(!render(&bench).contains("Fig."), "nothing was measured");
        let json = serde_json::to_value(&bench).expect("numbers");
        assert_eq!((&json["complete"], &json["card"]), (&false.into(), &serde_json::Value::Null));
    }
}
