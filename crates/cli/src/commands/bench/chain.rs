//! `paceline bench chain`: a chain over packets in memory, without reading or writing anything else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use engine::report::MemoryReport;
use engine::{BATCH_PACKETS, Batch, Chain, ChainCore, Plan, Registry, pin};
use engine::{Lap, Laps, Observer, run};
use io::{MemoryPort, Trace};
use measure::{Clock, Conditions, StealClock, ThreadClock, ThreadTime, crowded};
use schemars::JsonSchema;
use serde::Serialize;
use traffic::{Kind, Model, Options, Sizes};

use crate::args::{StrategyArg, generate, number};
use crate::explain::Code;
use crate::failure::Failure;
use crate::input::{read_chain, read_trace};
use crate::machine::Machine;
use crate::output::{Reports, count, heading, percent, plural, table};
use crate::progress::{go_on, interruptible};

/// How often it is looked whether the end was asked for.
const LOOK: Duration = Duration::from_millis(20);

const GENERATED: &str = "Generated packets";

#[derive(Args)]
pub struct BenchChainArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    /// Replay this capture; without it packets are generated as the options below say
    #[arg(long, value_name = "IN", conflicts_with_all = ["traffic", "flows", "zipf", "uniform", "packets", "frame_bytes"])]
    pub pcap: Option<PathBuf>,
    /// Replay what this model of traffic generates, such as `university:packets=2000000` (see `paceline generate`)
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["flows", "zipf", "uniform", "packets", "frame_bytes", "gap_ns", "seed"])]
    pub traffic: Option<String>,
    /// How packets are spread over cores: one under which flows stay, as all packets are at hand
    #[arg(long, value_enum, default_value_t = StrategyArg::Rss)]
    pub strategy: StrategyArg,
    /// How many cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cores: usize,
    /// How long to measure
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Packets received at a time, at most: a batch of 1 has nothing looked up together, nor asked for ahead of others
    #[arg(long, value_name = "N", default_value_t = BATCH_PACKETS, value_parser = number(1..=BATCH_PACKETS as u64))]
    pub batch: usize,
    /// Have every packet search the states that all cores share, as if no core remembered where they are (FAJITA's auxiliary
    /// tables): for chains with such states
    #[arg(long)]
    pub without_auxiliary_tables: bool,
    /// Flows to draw packets from
    #[arg(long, value_name = "N", default_value_t = 131_072, help_heading = GENERATED, value_parser = number(1..=1 << 26))]
    pub flows: usize,
    /// Draw flows with a Zipf skew of this exponent
    #[arg(long, value_name = "A", conflicts_with = "uniform", value_parser = exponent, help_heading = GENERATED)]
    pub zipf: Option<f64>,
    /// Draw flows evenly [the default]
    #[arg(long, help_heading = GENERATED)]
    pub uniform: bool,
    /// Packets to generate; they are replayed over and over
    #[arg(long, value_name = "N", default_value_t = 1_048_576, help_heading = GENERATED, value_parser = number(1..=1 << 28))]
    pub packets: usize,
    /// Bytes of each generated frame, without the frame check sequence
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = GENERATED, value_parser = number(42..=65_549))]
    pub frame_bytes: usize,
    /// Time from one generated packet to the next, as stamps have it
    #[arg(long, value_name = "NS", default_value_t = 100, help_heading = GENERATED)]
    pub gap_ns: u64,
    /// Seed of the generated packets
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = GENERATED)]
    pub seed: u64,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0.01 to 3600".to_owned()) }
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=10.0).contains(&exponent) { Ok(exponent) } else { Err("must be 0 to 10".to_owned()) }
}

/// Frames in each core's pool: two batches, so that they stay in the first cache.
const POOL_FRAMES: usize = 128;

/// One batch in this many is timed part by part; a prime, so as not to fall in step with anything.
const SAMPLE_EVERY: u64 = 61;

/// The slowest part of the samples, one in this many, is left out: there the system ran something else.
const SLOWEST_LEFT_OUT: usize = 20;

/// A chain's figures, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct ChainBench {
    /// Version of Paceline.
    paceline: &'static str,
    /// Where it was measured.
    machine: Machine,
    /// Name of the chain.
    chain: String,
    /// How packets were spread.
    strategy: &'static str,
    /// Cores.
    cores: usize,
    /// Packets processed while the clock ran, all cores together.
    packets: u64,
    /// How long the clock ran.
    seconds: f64,
    /// Million packets per second, all cores together, measured.
    mpps: f64,
    /// Core time per packet.
    ns_per_packet: f64,
    /// Core time per packet without the time for which the system ran something else; absent where it does not say.
    processor_ns_per_packet: Option<f64>,
    /// Parts of a packet's way, timed on one batch in 61: the mean of these without the slowest 5%.
    stages: Vec<StageTime>,
    /// What a pair of clock readings costs, already subtracted from each stage, per packet of a full batch.
    clock_ns_per_packet: f64,
    /// Functions that share a table, each group in a list of its own: one look-up a packet for each.
    tables: Vec<Vec<String>>,
    /// Flows alive at the end, by function.
    flows: Vec<FunctionFlows>,
    /// The program's memory with its tables and packets.
    memory: MemoryReport,
    /// Packets dropped.
    drops: u64,
    /// Packets dropped by reason, `function/reason`; malformed packets are not among them.
    drop_reasons: BTreeMap<String, u64>,
    /// Why the rate is not to be relied on, a sentence for each reason; empty if it is.
    notes: Vec<String>,
}

/// Time of one part.
#[derive(Clone, Serialize, JsonSchema)]
struct StageTime {
    /// `receive`, `parse`, `locate` (hash, look up, prefetch, compare keys), a function's name (its steps),
    /// `one by one` (new flows, and all packets while a table is full), `sweep`, `edit`, `count`, `send`.
    name: String,
    /// Nanoseconds per packet.
    ns: f64,
}

/// Flows of one function.
#[derive(Serialize, JsonSchema)]
struct FunctionFlows {
    /// What the chain calls the function.
    function: String,
    /// With a block in a table, all cores together.
    live: u64,
    /// Flows of the fullest core over what its table holds, 0 to 1.
    load: f64,
    /// Flows that a full table refused, or evicted for others.
    turned_away: u64,
}

pub fn command(args: &BenchChainArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let inputs: Vec<&Path> =
        [Some(&args.chain), args.pcap.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let reports = Reports::open(&inputs, None, args.json.as_deref())?;
    let chain = read_chain(&args.chain, registry)?;
    let cores = args.cores;
    let plan = Plan::new(&chain, args.strategy.steady()?, cores).map_err(Failure::usage)?;
    if plan.rebalancing.is_some() {
        return Err(Failure::usage(format!(
            "`bench chain` has all packets at hand, and under `{}` flows move as packets arrive\n\
             Use `paceline bench mlffr`, or `--strategy rss`.",
            plan.strategy.name()
        )));
    }
    let plan = Plan { has_auxiliary_tables: !args.without_auxiliary_tables, ..plan };
    if args.without_auxiliary_tables && (plan.shared.is_empty() || plan.is_striped()) {
        return Err(Failure::usage(format!(
            "cores share no states of `{}` under `{}`: there are no auxiliary tables to go without\n\
             They are for chains with keys that no hash keeps on one core, such as `5-tuple` and a source's and a destination's.",
            chain.name,
            plan.strategy.name()
        )));
    }
    let progress = interruptible(None);
    let trace = trace(args, &progress.stop)?;
    let queues = spread(&chain, &plan, &trace);
    if let Some(idle) = queues.iter().position(Vec::is_empty) {
        return Err(Failure::usage(format!(
            "no packet of the trace comes to core {idle} of {cores}\nUse fewer cores, or a trace with more flows."
        )));
    }
    let bench = measure(&chain, &plan, &trace, queues, args, &progress.stop)?;
    reports.write(&bench, &render(&bench))?;
    Ok(ExitCode::SUCCESS)
}

fn trace(args: &BenchChainArgs, stop: &AtomicBool) -> Result<Trace, Failure> {
    if let Some(path) = &args.pcap {
        return read_trace(path, stop);
    }
    generate(&model(args)?, stop)
}

/// The packets to generate.
fn model(args: &BenchChainArgs) -> Result<Model, Failure> {
    if let Some(text) = &args.traffic {
        return Model::parse(text).map_err(Failure::usage);
    }
    let kind = args.zipf.map_or(Kind::Uniform, |exponent| Kind::Zipf { exponent });
    let options = Options {
        packets: args.packets as u64,
        flows: Some(args.flows as u64),
        sizes: Sizes::Fixed(args.frame_bytes as u32),
        gap_ns: args.gap_ns,
        seed: args.seed,
        ..Options::of(kind)
    };
    Model::new(kind, options).map_err(Failure::usage)
}

/// The packets of each core, as a card would spread them.
fn spread(chain: &Chain, plan: &Plan, trace: &Trace) -> Vec<Vec<u32>> {
    let mut assign = plan.assign(chain);
    let mut queues = vec![Vec::new(); plan.cores];
    for index in 0..trace.len() {
        let record = trace.packet(index);
        let headers = chain.headers(record.link, record.data, record.wire_len);
        let entry = assign.entry(&headers);
        queues[assign.core(entry)].push(index as u32);
    }
    queues
}

/// One core's share of the figures.
struct CoreTime {
    packets: u64,
    forwarded: u64,
    time: ThreadTime,
    laps: Sampled,
    chain: ChainCore,
}

fn measure(
    chain: &Chain,
    plan: &Plan,
    trace: &Trace,
    queues: Vec<Vec<u32>>,
    args: &BenchChainArgs,
    asked_to: &AtomicBool,
) -> Result<ChainBench, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let functions = chain.functions.len();
    let chains = plan.cores_of(chain).map_err(|_| {
        Failure::usage("no memory for the tables\nUse fewer cores, or smaller `flows` in the chain file.")
            .coded(Code::Memory)
    })?;
    let steal = StealClock::start();
    let port = |packets: &Vec<u32>| {
        MemoryPort::new(trace, packets, POOL_FRAMES, Arc::clone(&stop)).at_once(args.batch)
    };
    let ports: Vec<MemoryPort> = queues.iter().map(port).collect();
    let cores: Vec<CoreTime> = thread::scope(|scope| {
        let workers: Vec<_> = ports
            .into_iter()
            .zip(chains)
            .enumerate()
            .map(|(core, (port, chain_core))| {
                scope.spawn(move || one_core(core, port, chain_core, functions))
            })
            .collect();
        let (begin, time) = (Instant::now(), Duration::from_secs_f64(args.seconds));
        while begin.elapsed() < time && !asked_to.load(Ordering::Relaxed) {
            thread::sleep(LOOK.min(time.saturating_sub(begin.elapsed())));
        }
        stop.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    go_on(asked_to)?;
    Ok(summarise(chain, plan, &cores, steal.share()))
}

fn one_core(core: usize, mut port: MemoryPort, mut chain: ChainCore, functions: usize) -> CoreTime {
    pin(core);
    let mut laps = Sampled::new(functions);
    let clock = ThreadClock::start();
    let counters = run(&mut port, &mut chain, &mut Batch::new(), &mut laps, &mut ()).unwrap_or_default();
    let time = clock.stop();
    CoreTime { packets: counters.packets, forwarded: port.forwarded(), time, laps, chain }
}

fn summarise(chain: &Chain, plan: &Plan, cores: &[CoreTime], steal_share: Option<f64>) -> ChainBench {
    let packets: u64 = cores.iter().map(|core| core.packets).sum();
    let forwarded: u64 = cores.iter().map(|core| core.forwarded).sum();
    let elapsed: f64 = cores.iter().map(|core| core.time.wall.as_secs_f64()).fold(0.0, f64::max);
    let time = cores.iter().map(|core| core.time).reduce(ThreadTime::and).unwrap_or_default();
    let core_ns = time.wall.as_secs_f64() * 1e9;
    let off_processor_share = time.off_processor_share();
    let conditions = Conditions { off_processor_share, steal_share, slow_batches: 0 };
    let mut all = Sampled::new(chain.functions.len());
    cores.iter().for_each(|core| all.add(&core.laps));
    let flows = |index: usize| {
        let counters = || cores.iter().map(move |core| core.chain.stage(index).counters());
        let load = counters()
            .map(|counters| counters.live as f64 / counters.capacity.max(1) as f64)
            .fold(0.0, f64::max);
        FunctionFlows {
            function: chain.functions[index].name.clone(),
            live: counters().map(|counters| counters.live as u64).sum(),
            load,
            turned_away: counters().map(|counters| counters.flows.rejected + counters.flows.evicted).sum(),
        }
    };
    let clock_ns = clock_ns();
    ChainBench {
        paceline: env!("CARGO_PKG_VERSION"),
        machine: Machine::here(),
        chain: chain.name.clone(),
        strategy: plan.strategy.name(),
        cores: plan.cores,
        packets,
        seconds: elapsed,
        mpps: packets as f64 / elapsed / 1e6,
        ns_per_packet: core_ns / packets.max(1) as f64,
        processor_ns_per_packet: time.processor.map(|time| time.as_nanos() as f64 / packets.max(1) as f64),
        stages: all.stages(chain, clock_ns),
        clock_ns_per_packet: clock_ns / engine::BATCH_PACKETS as f64,
        tables: tables(chain),
        memory: MemoryReport::now(),
        flows: (0..chain.functions.len()).map(flows).collect(),
        drops: packets - forwarded.min(packets),
        drop_reasons: drop_reasons(chain, cores),
        notes: crowded(plan.cores).into_iter().chain(conditions.notes(Clock::Measured)).collect(),
    }
}

/// Dropped packets by function and reason, all cores together.
fn drop_reasons(chain: &Chain, cores: &[CoreTime]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (index, spec) in chain.functions.iter().enumerate() {
        let reasons = spec.function.info().about.drop_reasons;
        for core in cores {
            for (reason, packets) in reasons.iter().zip(core.chain.stage(index).counters().drops) {
                *sums.entry(format!("{}/{reason}", spec.name)).or_insert(0) += packets;
            }
        }
    }
    sums.retain(|_, packets| *packets > 0);
    sums
}

/// The names of the functions that share a table.
fn tables(chain: &Chain) -> Vec<Vec<String>> {
    let names = |range: Range<usize>| chain.functions[range].iter().map(|spec| spec.name.clone()).collect();
    chain.groups().into_iter().map(names).collect()
}

fn render(bench: &ChainBench) -> String {
    let mut text = format!(
        "{}: {:.2} Mpps, {:.1} ns/packet and core (measured), strategy {} on {}, {} in {:.2} s\non {}\n",
        bench.chain,
        bench.mpps,
        bench.ns_per_packet,
        bench.strategy,
        plural(bench.cores as u64, "core"),
        plural(bench.packets, "packet"),
        bench.seconds,
        bench.machine.describe(),
    );
    if let Some(ns) = bench.processor_ns_per_packet {
        text += &format!("{ns:.1} ns/packet of processor time, without what else the system ran\n");
    }
    bench.notes.iter().for_each(|note| text += &format!("note: the rate is not to be relied on: {note}\n"));
    if let Some(memory) = bench.memory.describe() {
        text += &format!("{memory}\n");
    }
    let shared = bench.tables.iter().filter(|names| names.len() > 1);
    for names in shared {
        text += &format!("one table and one look-up for {}\n", names.join(", "));
    }
    let rows: Vec<_> =
        bench.stages.iter().map(|stage| vec![stage.name.clone(), format!("{:.1}", stage.ns)]).collect();
    text += &heading(&format!(
        "Stages, mean of one batch in {SAMPLE_EVERY}, without the slowest 5% and the clock's own time"
    ));
    text += &table(&["stage", "ns/packet"], &rows, 1);
    let row = |flows: &FunctionFlows| vec![flows.function.clone(), count(flows.live), percent(flows.load)];
    let rows: Vec<_> = bench.flows.iter().map(row).collect();
    text += &(heading("Flows") + &table(&["function", "live", "table load"], &rows, 1));
    text += &format!("\n{} dropped\n", plural(bench.drops, "packet"));
    for (reason, packets) in &bench.drop_reasons {
        text += &format!("  {} {reason}\n", count(*packets));
    }
    for flows in bench.flows.iter().filter(|flows| flows.turned_away > 0) {
        text += &format!(
            "note: the table of {} was full, and {} flows were refused or evicted; to measure known flows, raise \
             `flows` in the chain file, or use fewer --flows\n",
            flows.function,
            count(flows.turned_away)
        );
    }
    text
}

/// Times the parts of one batch in [`SAMPLE_EVERY`].
struct Sampled {
    batches: u64,
    /// Packets of the batch at hand.
    packets: u64,
    last: Option<Instant>,
    /// Nanoseconds of the batch at hand, by [`slot`].
    batch_ns: Vec<u64>,
    /// Picoseconds per packet of each batch, by [`slot`].
    samples: Vec<Vec<u32>>,
}

/// Samples that are kept of each part; the memory is taken before the clock starts.
const SAMPLES_MAX: usize = 1 << 16;

/// Parts of a packet's way beside the functions.
const FIXED_LAPS: usize = 8;

/// Where a part's time is kept: the fixed parts first, then the functions.
fn slot(lap: Lap) -> usize {
    match lap {
        Lap::Receive => 0,
        Lap::Parse => 1,
        Lap::Locate => 2,
        Lap::OneByOne => 3,
        Lap::Sweep => 4,
        Lap::Edit => 5,
        Lap::Count => 6,
        Lap::Send => 7,
        Lap::Function(index) => FIXED_LAPS + index,
    }
}

impl Sampled {
    fn new(functions: usize) -> Sampled {
        let parts = FIXED_LAPS + functions;
        let samples = (0..parts).map(|_| Vec::with_capacity(SAMPLES_MAX)).collect();
        Sampled { batches: 0, packets: 1, last: None, batch_ns: vec![0; parts], samples }
    }

    fn add(&mut self, other: &Sampled) {
        self.samples.iter_mut().zip(&other.samples).for_each(|(all, samples)| all.extend(samples));
    }

    /// Nanoseconds per packet of each part, in the order of a packet's way.
    fn stages(&mut self, chain: &Chain, clock_ns: f64) -> Vec<StageTime> {
        let clock_ns = clock_ns / engine::BATCH_PACKETS as f64;
        let mut time = |name: &str, lap: Lap| {
            let samples = &mut self.samples[slot(lap)];
            samples.sort_unstable();
            samples.truncate(samples.len() - samples.len() / SLOWEST_LEFT_OUT);
            let mean_ps = samples.iter().copied().map(f64::from).sum::<f64>() / samples.len().max(1) as f64;
            let ns = (mean_ps / 1e3 - clock_ns).max(0.0);
            StageTime { name: name.to_owned(), ns }
        };
        let before = [("receive", Lap::Receive), ("parse", Lap::Parse), ("locate", Lap::Locate)];
        let mut stages: Vec<_> = before.into_iter().map(|(name, lap)| time(name, lap)).collect();
        for (index, spec) in chain.functions.iter().enumerate() {
            stages.push(time(&spec.name, Lap::Function(index)));
        }
        stages.extend([time("one by one", Lap::OneByOne), time("sweep", Lap::Sweep)]);
        stages.extend([time("edit", Lap::Edit), time("count", Lap::Count), time("send", Lap::Send)]);
        stages
    }
}

impl Observer for Sampled {
    #[inline]
    fn begin(&mut self) {
        self.batches += 1;
        self.last = self.batches.is_multiple_of(SAMPLE_EVERY).then(Instant::now);
    }
}

impl Laps for Sampled {
    #[inline]
    fn lap(&mut self, lap: Lap, batch: &Batch) {
        let Some(last) = self.last else { return };
        let now = Instant::now();
        // A part may come several times in a batch.
        self.batch_ns[slot(lap)] += (now - last).as_nanos() as u64;
        self.last = Some(now);
        let packets = batch.len().max(1) as u64;
        match lap {
            Lap::Send => {
                // The batch is empty now: what it was is known from before.
                for (samples, ns) in self.samples.iter_mut().zip(&mut self.batch_ns) {
                    if samples.len() < SAMPLES_MAX {
                        samples.push((*ns * 1000 / self.packets) as u32);
                    }
                    *ns = 0;
                }
            }
            _ => self.packets = packets,
        }
    }
}

/// What one reading of the clock costs, ns.
fn clock_ns() -> f64 {
    const READINGS: u32 = 1_000;
    let once = |_| {
        let begin = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(Instant::now());
        }
        begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    // The least of several: in the others the system ran something else.
    (0..20).map(once).fold(f64::INFINITY, f64::min)
}
