use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::strategies::{RSS, RSSPP, SCR, SHARED, SINGLE, Strategy};
use engine::{Egress, LossShare, MAX_CORES, Speed};
use strategy::{Every, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Rebalancing};

use crate::address::Address;
use crate::bench::Figure;
use crate::tables::TableArgs;

/// Stateful packet processing on many cores, proved equal to one core.
///
/// A chain of network functions is a TOML file (see examples/). `run` takes a capture through it,
/// `verify` shows that many cores give the answer of one.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  paceline run examples/edge.toml --pcap captures/edge.pcap
  paceline run examples/edge.toml --pcap captures/edge.pcap --strategy rss --cores 2 --out out.pcap
  paceline verify examples/edge.toml --pcap captures/edge.pcap --strategy rss --cores 4
  paceline sweep captures --chains examples/edge.toml examples/nat.toml --mutate 20 --out sweep
  paceline run examples/edge.toml --pcap captures/edge.pcap --speed 1 --metrics 127.0.0.1:9100
  paceline top 127.0.0.1:9100
  paceline inspect --pcap captures/edge.pcap
  paceline generate datacenter --packets 100000 --out dc.pcap
  paceline sequence examples/perimeter.toml --pcap captures/edge.pcap --cores 4 --out-dir cores
  paceline verify examples/perimeter.toml --pcap-dir cores --strategy scr --sequencer external --loss 0.01
  paceline nfs conntrack
  paceline plan examples/ddos.toml --traffic university --cores 16
  paceline p4 run examples/p4/port_knocking.p4 --stf examples/p4/port_knocking.stf

Exit status:
  0    fine
  1    a difference: verify found one, or a test file or the reference expects something else
  2    wrong usage or configuration, an input of which nothing can be read, or an output that cannot
       be written
  3    nothing was compared: the input has no packets, or nothing is promised of this chain under this
       strategy; or no rate was found
  4    the input is cut short or damaged after whole packets; what the report says is of these, and
       verify found no difference in them
  101  a defect of Paceline: please report it
  130  interrupted, by Ctrl-C or a request to terminate";

#[derive(Subcommand)]
pub enum Command {
    /// Run a chain over a capture
    Run(RunArgs),
    /// Show that a strategy on many cores gives the answer of a single core
    Verify(VerifyArgs),
    /// Verify over many captures, chains, strategies and table sizes, and make each difference small
    Sweep(Box<crate::sweep::SweepArgs>),
    /// Watch a run that was started with --metrics, on a terminal
    Top(TopArgs),
    /// Show what is in a capture: flows, skew, and how often packets of one flow come close
    Inspect(InspectArgs),
    /// Generate traffic by a model: skewed flows, whole TCP connections, attacks
    Generate(Box<GenerateArgs>),
    /// Put history before the packets of a capture, for replicas: one file for each core
    Sequence(SequenceArgs),
    /// List the network functions with their options, keys and sizes
    Nfs(NfsArgs),
    /// Say which strategy to use on how many cores: measures what a packet costs here, and predicts
    Plan(PlanArgs),
    /// Check, compile and run programs in P4-16 with tables that the data plane writes
    P4(crate::p4::P4Args),
    /// Emulate stateful pipelines in hardware, cycle by cycle
    Emulate(Box<crate::emulate::EmulateArgs>),
    /// Measure on this machine
    Bench(BenchArgs),
}

#[derive(Args)]
pub struct ChainArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input, which `verify` cannot take
    #[arg(long, value_name = "IN", required_unless_present = "pcap_dir", conflicts_with = "pcap_dir")]
    pub pcap: Option<PathBuf>,
    /// How many cores [default: 1 for single, else all processors; with --pcap-dir one for each file]
    #[arg(long, value_name = "N")]
    pub cores: Option<usize>,
}

/// How replicas get the history of packets that other cores have, and what gets lost on the way.
#[derive(Args, Clone)]
#[command(next_help_heading = "History (strategy scr)")]
pub struct HistoryArgs {
    /// Who sprays packets over the cores of scr: a core, which leaves the history where all can read it; or somebody
    /// outside, who puts it before each packet [default: core]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub sequencer: Option<SequencerArg>,
    /// Read what `paceline sequence` wrote, one file for each core. With --pcap and --sequencer external the capture
    /// is sequenced on the way
    #[arg(long, value_name = "DIR")]
    pub pcap_dir: Option<PathBuf>,
    /// Lose this share of the packets between an external sequencer and the cores; 0.01 is 1%
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<LossShare>,
    /// What losses are drawn from [default: 1]
    #[arg(long, value_name = "N", requires = "loss")]
    pub loss_seed: Option<u64>,
    /// Whether cores get from each other what they lost [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub recovery: Option<OnOff>,
}

/// Where the sequencer is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SequencerArg {
    /// In this program: the core that dispatches
    Core,
    /// Before the cards: packets come with their history
    External,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

/// How a card spreads packets over cores, and how often that changes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Card, and flows that move (strategies rss, rsspp)")]
pub struct CardArgs {
    /// Entries of the card's indirection table: 128 or 512
    #[arg(long, value_name = "N", default_value_t = INDIRECTION_ENTRIES, value_parser = indirection_size)]
    pub indirection_entries: usize,
    /// How often rsspp looks at the loads and moves flows, in the packets' own time [default: 10]
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub rebalance_ms: Option<f64>,
    /// How long it takes from rsspp's decision until the card acts by it, in the packets' own time [default: 0]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub update_latency_ms: Option<f64>,
    /// Have rsspp move a quarter of the flows, drawn at random, every N packets, whatever the loads: to show that
    /// it does no harm
    #[arg(long, value_name = "N", conflicts_with = "rebalance_ms", value_parser = clap::value_parser!(u64).range(1..))]
    pub move_every: Option<u64>,
}

impl CardArgs {
    /// What was asked for, if anything was.
    pub fn rebalancing(&self) -> Option<Rebalancing> {
        let CardArgs { rebalance_ms, update_latency_ms, move_every, .. } = self;
        if rebalance_ms.is_none() && update_latency_ms.is_none() && move_every.is_none() {
            return None;
        }
        let ns = |ms: f64| (ms * 1e6) as u64;
        let default = Rebalancing::default();
        let every = match (move_every, rebalance_ms) {
            (Some(packets), _) => Every::Packets(*packets),
            (None, Some(ms)) => Every::Period(ns(*ms).max(1)),
            (None, None) => default.every,
        };
        let update_latency_ns = update_latency_ms.map_or(default.update_latency_ns, ns);
        Some(Rebalancing { every, update_latency_ns })
    }
}

fn indirection_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| INDIRECTION_SIZES.contains(size));
    size.ok_or_else(|| "cards' tables have 128 or 512 entries".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let ms = milliseconds(text)?;
    if ms > 0.0 { Ok(ms) } else { Err("must be above 0".to_owned()) }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms: f64 = text.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    if (0.0..=1e9).contains(&ms) { Ok(ms) } else { Err("must be 0 to 1000000000".to_owned()) }
}

const RUNNING: &str = "Pace, order and watching";

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub chain: ChainArgs,
    /// How packets are spread over cores
    #[arg(long, value_enum, default_value_t = StrategyArg::Single)]
    pub strategy: StrategyArg,
    /// Write the packets that leave (forwarded or sent back), in the order of --egress, to this pcap; `-` is
    /// standard output, and the report then goes to standard error. A run that does not reach the end
    /// of its input leaves them in OUT.pcap.partial
    #[arg(long, value_name = "OUT.pcap")]
    pub out: Option<PathBuf>,
    /// Write the report as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// In which order packets leave
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = EgressArg::default(), help_heading = RUNNING)]
    pub egress: EgressArg,
    /// Replay in the capture's own time (1), or so many times as fast, 0.001 to 1000 [default: as fast as it
    /// goes]
    #[arg(long, value_name = "X", help_heading = RUNNING)]
    pub speed: Option<Speed>,
    /// Tell Prometheus and `paceline top` how the run goes on, at http://HOST:PORT/metrics, while it does;
    /// port 0 is any that is free
    #[arg(long, value_name = "HOST:PORT", help_heading = RUNNING)]
    pub metrics: Option<Address>,
    #[command(flatten)]
    pub card: CardArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
}

#[derive(Args)]
pub struct TopArgs {
    /// Where the run tells its metrics: what it was given as --metrics
    #[arg(value_name = "HOST:PORT")]
    pub address: Address,
    /// Time between two looks
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = interval_seconds)]
    pub interval: f64,
    /// Look once, and write what is seen to standard output as plain text
    #[arg(long)]
    pub once: bool,
}

fn interval_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=60.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0.1 to 60".to_owned()) }
}

#[derive(Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub chain: ChainArgs,
    /// The strategy to compare with a single core
    #[arg(long, value_enum, default_value_t = StrategyArg::Rss)]
    pub strategy: StrategyArg,
    /// Write the result as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub tables: TableArgs,
    #[command(flatten)]
    pub card: CardArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
}

#[derive(Args)]
pub struct InspectArgs {
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: PathBuf,
    /// Packets of one flow conflict if fewer than this many cycles apart, one packet a cycle
    #[arg(long, short = 'n', value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// Write the result as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const MODELS: &str = "\
Models:
  uniform      UDP; each flow as likely as any other
  zipf         UDP; flows by Zipf's law: --exponent
  elephant     UDP; one flow has a --share of the packets, the others the rest
  datacenter   TCP connections, both directions; sizes of a web search's flows (DCTCP)
  backbone     TCP flows, one direction; skewed as CAIDA's traces of a backbone link are
  university   TCP connections, both directions; skewed as those of a university's data centre are
  single-flow  one TCP connection; --one-way leaves out what the server sends
  syn-flood    SYNs from random sources to one service, with a --legit share of connections
  port-scan    a --share of probes from some --scanners, among connections

A model can also be written in one argument, as the summary shows it and --traffic of other commands takes it:
  zipf:flows=100000,a=1.1,packets=1000000,seed=1

The same model gives the same bytes, on every machine. Connections begin and end within the trace, so that it
can be replayed over and over; there are at least as many packets as asked for, up to the end of the last
connection. Sources and fits are in docs/traffic.md.";

const PACKETS: &str = "Packets";
const OWN: &str = "Options of one model";

#[derive(Args)]
#[command(after_help = MODELS)]
pub struct GenerateArgs {
    /// The model: a name, or a name with options, such as zipf:flows=1000,a=1.1
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Write the packets to this pcap; `-` is standard output, and the summary then goes to standard error
    #[arg(long, value_name = "OUT.pcap")]
    pub out: PathBuf,
    /// Packets [default: 1000000]
    #[arg(long, value_name = "N")]
    pub packets: Option<String>,
    /// Flows to draw packets from [default: 100000], or connections, made bigger or smaller by one factor to
    /// give the packets [default: as many as give them by themselves]
    #[arg(long, value_name = "N")]
    pub flows: Option<String>,
    /// What all draws begin with [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
    /// Bytes of each frame without the frame check sequence; of connections, of those with data. The same as
    /// --sizes fixed:N
    #[arg(long, value_name = "N", conflicts_with = "sizes", help_heading = PACKETS)]
    pub frame_bytes: Option<String>,
    /// How long frames are: fixed:N, imix, or lengths with weights such as 60x7+590x4+1514 [default: fixed:60
    /// for UDP, fixed:1514 or a mix for connections]
    #[arg(long, value_name = "SIZES", help_heading = PACKETS)]
    pub sizes: Option<String>,
    /// Mean time from a packet to the next [default: 100]
    #[arg(long, value_name = "NS", help_heading = PACKETS)]
    pub gap_ns: Option<String>,
    /// Mean length of the trains in which a flow sends its packets back to back [default: 1, for
    /// university 3]
    #[arg(long, value_name = "PACKETS", help_heading = PACKETS)]
    pub burst: Option<String>,
    /// Share of the flows that are IPv6 [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = PACKETS)]
    pub ipv6_share: Option<String>,
    /// Connections alive at one time, at most [default: a tenth of them, 16 to 1000]
    #[arg(long, value_name = "N", help_heading = PACKETS)]
    pub concurrent: Option<String>,
    /// zipf: the exponent [default: 1.1]
    #[arg(long, value_name = "A", help_heading = OWN)]
    pub exponent: Option<String>,
    /// elephant, port-scan: share of the packets that are the elephant's [default: 0.5] or the scan's [default:
    /// 0.1]
    #[arg(long, value_name = "SHARE", help_heading = OWN)]
    pub share: Option<String>,
    /// single-flow: only what the client sends
    #[arg(long, help_heading = OWN)]
    pub one_way: bool,
    /// syn-flood: share of the packets of connections that mean it [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = OWN)]
    pub legit: Option<String>,
    /// syn-flood: sources to draw from [default: a new one with each SYN]
    #[arg(long, value_name = "N", help_heading = OWN)]
    pub sources: Option<String>,
    /// port-scan: sources that scan [default: 4]
    #[arg(long, value_name = "N", help_heading = OWN)]
    pub scanners: Option<String>,
    /// Write the summary as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct SequenceArgs {
    /// The chain whose functions need the history, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: PathBuf,
    /// Cores that get packets, by turns; each packet has the history of one less
    #[arg(long, value_name = "N")]
    pub cores: usize,
    /// Write core-00.pcap and so on into this folder, which is made if it is not there. Where the input ends
    /// early, packets are left in core-00.pcap.partial and so on
    #[arg(long, value_name = "DIR")]
    pub out_dir: PathBuf,
    /// Put an Ethernet header before the history, for cards and tools that look for one
    #[arg(long)]
    pub ethernet: bool,
    /// Write the summary as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct NfsArgs {
    /// Only this function
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Write the list as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const MODEL: &str = "\
The model is State-Compute Replication's (NSDI'25, App. A): k cores take k / (d + c1 + (k - 1) c2) packets under scr,
where d is receiving and sending a packet, c1 the chain on it, and c2 stepping it on a core that does not have it.
Where packets are sharded, the busiest core is the bound. docs/scr.md says more.";

#[derive(Args)]
#[command(after_help = MODEL)]
pub struct PlanArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Time that receiving and sending a packet takes beside what it takes here, from memory: that of the backend to
    /// plan for
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
    /// Predict up to this many cores, and name the fastest strategy on as many
    #[arg(long = "cores", alias = "max-cores", value_name = "N", default_value_t = 32,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_CORES as u64))]
    pub max_cores: usize,
    /// Entries of the card's indirection table: 128 or 512
    #[arg(long, value_name = "N", default_value_t = INDIRECTION_ENTRIES, value_parser = indirection_size)]
    pub indirection_entries: usize,
    /// Packets of each measurement
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub packets: u32,
    /// How often each is measured; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,
    /// Write the figures and the advice as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Measure a chain over packets in memory: rate, and time of each stage
    Chain(BenchChainArgs),
    /// Measure what it costs that packets leave in order, and how far they do not otherwise
    Egress(BenchEgressArgs),
    /// Find the highest rate at which a chain behind a simulated card loses no more than --loss of its packets, and
    /// latency below it
    Mlffr(BenchMlffrArgs),
    /// Compare strategies: that rate on several numbers of cores, with a page of charts
    Compare(BenchCompareArgs),
    /// Measure the flow table alone: insert, look-up, look-up with a line of state, remove
    Table(BenchTableArgs),
    /// Measure what the figures of State-Compute Replication (NSDI'25) show: scr beside the other strategies
    Scr(BenchScrArgs),
    /// Render a saved comparison of strategies again: summary, page, rows for a spreadsheet
    Report(BenchReportArgs),
}

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
    /// How packets are spread over cores
    #[arg(long, value_enum, default_value_t = StrategyArg::Rss)]
    pub strategy: StrategyArg,
    /// How many cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cores: usize,
    /// How long to measure
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Flows to draw packets from
    #[arg(long, value_name = "N", default_value_t = 131_072, help_heading = GENERATED,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1 << 26))]
    pub flows: usize,
    /// Draw flows with a Zipf skew of this exponent
    #[arg(long, value_name = "A", conflicts_with = "uniform", value_parser = exponent, help_heading = GENERATED)]
    pub zipf: Option<f64>,
    /// Draw flows evenly [the default]
    #[arg(long, help_heading = GENERATED)]
    pub uniform: bool,
    /// Packets to generate; they are replayed over and over
    #[arg(long, value_name = "N", default_value_t = 1_048_576, help_heading = GENERATED,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1 << 28))]
    pub packets: usize,
    /// Bytes of each generated frame, without the frame check sequence
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = GENERATED,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(42..=65_549))]
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

#[derive(Args)]
pub struct BenchMlffrArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    #[command(flatten)]
    pub source: SourceArgs,
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
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
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

#[derive(Args)]
pub struct BenchEgressArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    #[command(flatten)]
    pub source: SourceArgs,
    /// How packets are spread over cores
    #[arg(long, value_enum, default_value_t = StrategyArg::Scr)]
    pub strategy: StrategyArg,
    /// How many cores, each a pinned thread
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub cores: usize,
    /// Runs in each order, which take turns; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct BenchCompareArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Strategies to compare [default: all]
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',')]
    pub strategies: Vec<StrategyArg>,
    /// Numbers of cores; virtual ones beyond the machine's processors, where the strategy allows
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub cores: Vec<usize>,
    /// Virtual cores wherever the strategy allows: all figures have one clock
    #[arg(long = "virtual")]
    pub is_virtual: bool,
    /// Searches for each point, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub searches: usize,
    /// Measure latency at these shares of the rate found; none for `--latency ''`
    #[arg(long, value_name = "SHARE,...", default_value = "0.5,0.8,0.95", value_parser = shares)]
    pub latency: Shares,
    /// Write a page with charts and all figures, which needs no other file; `-` is standard output, which
    /// then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write all figures as JSON, which `paceline bench report` reads; `-` as with --html
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a row for each strategy and number of cores; `-` as with --html
    #[arg(long, value_name = "OUT.csv")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub card: CardArgs,
}

/// What is replayed.
#[derive(Args)]
pub struct SourceArgs {
    /// Replay this capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN", conflicts_with = "traffic")]
    pub pcap: Option<PathBuf>,
    /// Replay what this model of traffic generates, such as `university:packets=2000000` (see `paceline generate`)
    #[arg(long, value_name = "MODEL", default_value = "uniform:packets=1048576,flows=131072")]
    pub traffic: String,
}

/// What is offered, and what may be lost of it.
#[derive(Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Share of the packets that may be lost at the rate found, 4% as in SCR (NSDI'25, §4.1); 0 for a rate without loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.04, value_parser = loss)]
    pub loss: f64,
    /// Receive descriptors of each queue of the simulated card
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    pub descriptors: usize,
    /// Packets of each trial
    #[arg(long, value_name = "N", default_value_t = 1_048_576, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub packets: u32,
    /// Let packets come with the bursts and lulls of the trace, and not at one distance
    #[arg(long)]
    pub shaped: bool,
    /// Time that each packet a core receives takes beside what is done with it: to see what a strategy gives on a
    /// backend whose dispatch costs so much more
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
}

/// Shares of a rate.
#[derive(Clone, Debug)]
pub struct Shares(pub Vec<f64>);

fn shares(text: &str) -> Result<Shares, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let share = |word: &str| match word.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("{word}: a share must be above 0 and no more than 1")),
    };
    words.map(share).collect::<Result<_, _>>().map(Shares)
}

fn loss(text: &str) -> Result<f64, String> {
    let loss: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..1.0).contains(&loss) {
        true => Ok(loss),
        false => Err("must be 0 or more, and below 1; 4% is 0.04".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0.01 to 3600".to_owned()) }
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=10.0).contains(&exponent) { Ok(exponent) } else { Err("must be 0 to 10".to_owned()) }
}

#[derive(Args)]
pub struct BenchTableArgs {
    /// Sizes of the table, entries
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "131072,1048576,4194304",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1 << 26))]
    pub entries: Vec<usize>,
    /// Rounds of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct BenchScrArgs {
    /// Figures of the paper [default: all]
    #[arg(long = "figure", value_name = "N,...", value_enum, value_delimiter = ',')]
    pub figures: Vec<Figure>,
    /// Numbers of cores, virtual ones where the strategy allows [default: the paper's, up to 14]
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_CORES as u64))]
    pub cores: Vec<usize>,
    /// A few programs, traces and numbers of cores, and one short search for each: less than a minute instead of many
    #[arg(long = "quick")]
    pub is_quick: bool,
    /// Time that each packet a core receives takes beside what is done with it: 60 and 90 make about 75
    /// and 105 ns in all, near the least and the most in the paper's Table 4
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
    /// Packets of each trace and of each trial [default: 262144, with --quick 32768]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=1 << 26))]
    pub packets: Option<u32>,
    /// Write a page with the charts, which needs no other file; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write all figures as JSON; `-` as with --html
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl BenchScrArgs {
    /// Packets of each trial.
    pub fn trial_packets(&self) -> u32 {
        self.packets.unwrap_or(if self.is_quick { 32_768 } else { 262_144 })
    }

    /// Packets of each trace.
    pub fn trace_packets(&self) -> usize {
        self.trial_packets() as usize
    }

    /// Searches for each point.
    pub fn searches(&self) -> usize {
        if self.is_quick { 1 } else { 3 }
    }
}

#[derive(Args)]
pub struct BenchReportArgs {
    /// What `paceline bench compare --json` wrote; `-` is standard input
    #[arg(value_name = "FILE.json")]
    pub comparison: PathBuf,
    /// Write a page with charts and all figures, which needs no other file; `-` is standard output, which
    /// then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write a row for each strategy and number of cores; `-` as with --html
    #[arg(long, value_name = "OUT.csv")]
    pub csv: Option<PathBuf>,
}

/// [`Strategy`] as clap sees it.
#[derive(Clone, Copy)]
pub struct StrategyArg(pub &'static dyn Strategy);

#[allow(non_upper_case_globals, reason = "read as the variants they stand for")]
impl StrategyArg {
    pub const Single: StrategyArg = StrategyArg(SINGLE);
    pub const Rss: StrategyArg = StrategyArg(RSS);
    pub const RssPlusPlus: StrategyArg = StrategyArg(RSSPP);
    pub const Shared: StrategyArg = StrategyArg(SHARED);
    pub const Scr: StrategyArg = StrategyArg(SCR);
}

impl ValueEnum for StrategyArg {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            StrategyArg::Single,
            StrategyArg::Shared,
            StrategyArg::Rss,
            StrategyArg::RssPlusPlus,
            StrategyArg::Scr,
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()).help(self.0.summary()))
    }
}

/// [`Egress`] as clap sees it.
#[derive(Clone, Copy, Default)]
pub struct EgressArg(pub Egress);

impl ValueEnum for EgressArg {
    fn value_variants<'a>() -> &'a [Self] {
        const { &[EgressArg(Egress::ALL[0]), EgressArg(Egress::ALL[1])] }
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()).help(self.0.summary()))
    }
}
