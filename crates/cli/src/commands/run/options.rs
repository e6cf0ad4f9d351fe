//! What `paceline run` takes.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Arg, Args, ValueEnum};
use engine::report::{Detail, RunReport};
use engine::strategies::Strategy;
use engine::{ChainInterface, Egress, Speed};
use wire::Side;

use super::web::WebArgs;
use crate::args::{Address, CardArgs, ChainArgs, HistoryArgs, ReloadArgs, StrategyArg, TableArgs};
use crate::failure::Failure;
use crate::output::fitted;

const LIVE: &str = "Network interfaces, in place of --pcap";

/// Options that say where packets come from, in place of a capture.
pub const PLACES: [&str; 4] = ["inside", "outside", "mirror", "on"];

const PROGRAM: &str = "The chain of functions, TOML; with --backend xdp a program in P4";

const RUNNING: &str = "Pace, order and watching";

#[derive(Args)]
#[command(mut_arg("chain", |arg| arg.help(PROGRAM)))]
#[command(mut_arg("pcap", |arg| arg.conflicts_with_all(PLACES)), mut_args(live_alone))]
pub struct RunArgs {
    #[command(flatten)]
    pub chain: ChainArgs,
    /// How packets are spread over cores
    #[arg(long, default_value = StrategyArg::Single.0.name(), value_parser = strategies())]
    pub strategy: RunStrategy,
    /// Write the packets that leave (forwarded or sent back), in the order of --egress, to this pcap; `-` is
    /// standard output, and the report then goes to standard error. A run that does not reach the end
    /// of its input leaves them in OUT.pcap.partial
    #[arg(long, value_name = "OUT.pcap")]
    pub out: Option<PathBuf>,
    /// Show the whole report: all rows and columns, and what would not fit 40 lines
    #[arg(short, long)]
    pub verbose: bool,
    /// Write the report as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with time lines of the run: cores in use, their load, what went from core to core. One file that needs no
    /// other, with the report's JSON in it
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Write a line of JSON for each connection to this file, with the names of Zeek's conn.log, at the end of the run; `-` is
    /// standard output. NAME.ipfix is a file of IPFIX messages, and udp:HOST:PORT a collector that they are sent to. For chains
    /// whose `conntrack` has `records`
    #[arg(long, value_name = "CONN.jsonl")]
    pub connections: Option<PathBuf>,
    /// In which order packets leave. On interfaces, cores with sockets of their own keep the order of each flow alone, under
    /// scr-turns with as-ready none; --front restores all of it
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
    #[command(flatten, next_help_heading = RUNNING)]
    pub web: WebArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub drops: DropsArgs,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub card: CardArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
    #[command(flatten)]
    pub reload: ReloadArgs,
    #[command(flatten)]
    pub tables: TableArgs,
}

impl RunArgs {
    /// The report as people read it.
    pub fn text(&self, report: &RunReport, written: Option<&str>) -> String {
        fitted(&report.text(written, if self.verbose { Detail::Full } else { Detail::Summary }))
    }
}

/// What a program in the kernel takes; all other options would be taken and mean nothing.
const IN_KERNEL: [&str; 17] = [
    "chain",
    "strategy",
    "cores",
    "inside",
    "on",
    "mirror",
    "outside",
    "backend",
    "json",
    "duration",
    "recovery",
    "metrics",
    "control",
    "on_death",
    "pins",
    "entries",
    "sequencer",
];

/// Over a capture, options of live runs would be taken and mean nothing. Names of interfaces have errors of their own.
fn live_alone(arg: Arg) -> Arg {
    let arg = match IN_KERNEL.contains(&arg.get_id().as_str()) {
        true => arg,
        false => arg.conflicts_with("backend"),
    };
    match arg.get_help_heading() == Some(LIVE) && !PLACES.contains(&arg.get_id().as_str()) {
        true => arg.conflicts_with_all(["pcap", "pcap_dir"]),
        false => arg,
    }
}

/// A strategy on the command line: of chains, or that of XDP programs which no chain has.
#[derive(Clone, Copy)]
pub enum RunStrategy {
    Chain(StrategyArg),
    Sharded,
}

/// The name of [`RunStrategy::Sharded`].
const SHARDED: &str = "sharded";

/// All strategies by their names.
fn strategies() -> impl TypedValueParser<Value = RunStrategy> {
    let chains = StrategyArg::value_variants().iter().filter_map(StrategyArg::to_possible_value);
    let help = "With --backend xdp: each CPU has the flows whose keys hash to it";
    PossibleValuesParser::new(chains.chain([PossibleValue::new(SHARDED).help(help)])).try_map(|name| {
        match name.as_str() {
            SHARDED => Ok(RunStrategy::Sharded),
            name => StrategyArg::from_str(name, false).map(RunStrategy::Chain),
        }
    })
}

impl RunStrategy {
    /// For a chain.
    pub fn of_chain(self) -> Result<&'static dyn Strategy, Failure> {
        match self {
            RunStrategy::Chain(StrategyArg(strategy)) => Ok(strategy),
            RunStrategy::Sharded => Err(Failure::usage(
                "`sharded` is a strategy of P4 programs in the kernel\nUse --strategy rss for a chain, or add --backend xdp.",
            )),
        }
    }

    /// For a program in the kernel.
    pub fn in_kernel(self) -> Result<xdp::Strategy, Failure> {
        let name = match self {
            RunStrategy::Chain(StrategyArg(strategy)) => strategy.name(),
            RunStrategy::Sharded => SHARDED,
        };
        name.parse().map_err(|error| Failure::usage(format!("--strategy {name} with --backend xdp: {error}")))
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

#[derive(Args)]
#[command(next_help_heading = "A look at single packets")]
pub struct TraceArgs {
    /// Show the way of packets that match through the chain: key, state before and after, verdict, edits. FILTER is an
    /// expression of pcap-filter(7), as tcpdump takes it; '' is all packets. On interfaces: `paceline ctl trace`
    #[arg(long, value_name = "FILTER")]
    pub trace: Option<String>,
    /// How many of them: the first ones
    #[arg(long, value_name = "N", requires = "trace", default_value_t = 100, value_parser = RangedU64ValueParser::<usize>::new().range(1..=TRACE_MAX))]
    pub trace_limit: usize,
    /// Write them as lines of JSON to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub trace_json: Option<PathBuf>,
}

#[derive(Args)]
pub struct DropsArgs {
    /// Write dropped packets, as they came in, to this pcapng, each with the function and its reason as comment; `-` is
    /// standard output. On interfaces: `paceline ctl drops`
    #[arg(long, value_name = "DROPS.pcapng", help_heading = "A look at single packets")]
    pub drops: Option<PathBuf>,
    /// The most of them that are written for each second, by the time stamps of packets
    #[arg(
        long,
        value_name = "N",
        requires = "drops",
        default_value_t = 1_000,
        help_heading = "A look at single packets"
    )]
    pub drops_per_second: u64,
    /// Write what rules with `log` drop to this file: a line of JSON a packet, with the rule and both ends; `-` is standard
    /// output. On interfaces: `paceline ctl drops`, which names the rule
    #[arg(long, value_name = "LOG.jsonl", help_heading = "A look at single packets")]
    pub log: Option<PathBuf>,
    /// The most lines of it for each second, by the time stamps of packets
    #[arg(
        long,
        value_name = "N",
        requires = "log",
        default_value_t = 100,
        help_heading = "A look at single packets"
    )]
    pub log_per_second: u64,
}

/// The most packets that are traced at once.
const TRACE_MAX: u64 = 100_000;

#[derive(Args)]
pub struct LiveArgs {
    /// Stand between interfaces: the one where the hosts are that the chain is for. `tap:NAME` is a TAP interface, made
    /// if there is none of that name. With --mode route it may be repeated. Without it and --outside those are taken that the
    /// chain file names in [[interface]]; with both, they stand in for those, in the order of the file
    #[arg(long, value_name = "IF", requires = "outside", help_heading = LIVE)]
    pub inside: Vec<String>,
    /// The one where everybody else is
    #[arg(long, value_name = "IF", requires = "inside", help_heading = LIVE)]
    pub outside: Option<String>,
    /// How packets go between them
    #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["mirror", "on"], default_value = "bridge", help_heading = LIVE)]
    pub mode: ModeArg,
    /// What runs instead of a chain on threads of this program: a P4 program in the kernel. It takes --strategy, --cores,
    /// --sequencer, --recovery, --json, --duration, --metrics, --control, --on-death, --pins and --entries beside the interfaces. Under scr it gets the packets that come by
    /// the one inside alone
    #[arg(long, value_enum, value_name = "WHERE", help_heading = LIVE)]
    pub backend: Option<BackendArg>,
    /// Look at what an interface receives, and send nothing
    #[arg(long, value_name = "IF", conflicts_with_all = ["inside", "on"], help_heading = LIVE)]
    pub mirror: Option<String>,
    /// Stand beside the way, with one interface: packets are routed, and leave by it again
    #[arg(long, value_name = "IF", conflicts_with = "inside", help_heading = LIVE)]
    pub on: Option<String>,
    /// Leave packets to this host's own addresses and this port to it, such as `tcp/22`; may be repeated. AF_XDP only:
    /// AF_PACKET leaves it all packets
    #[arg(long, value_name = "PORT", help_heading = LIVE)]
    pub pass_to_host: Vec<String>,
    /// Who gets packets to this host's own addresses, in route mode and with one arm
    #[arg(long, value_enum, value_name = "WHO", default_value = "kernel", help_heading = LIVE)]
    pub host: HostArg,
    /// Write the packets that come in to this pcap, with the times that the chain goes by: `paceline run --pcap` gives
    /// again what --out has of the packets that leave. IN.pcapng also says by which interface each came, for
    /// --inside-interface: so a chain with two sides drops again what was spoofed. Slows a run down
    #[arg(long, value_name = "IN.pcap|IN.pcapng", help_heading = LIVE)]
    pub record: Option<PathBuf>,
    /// Have one thread receive and send for all cores, though each could have sockets of its own: then packets leave in the
    /// order in which they came, and `paceline ctl cores` parks cores (under rsspp also without). A line at the start says
    /// which of the two it is
    #[arg(long, help_heading = LIVE)]
    pub front: bool,
    /// By which sockets
    #[arg(long, value_enum, value_name = "KIND", default_value = "auto", help_heading = LIVE)]
    pub socket: SocketArg,
    /// What to do while no packets arrive
    #[arg(long, value_enum, value_name = "HOW", default_value = "adaptive", help_heading = LIVE)]
    pub poll: PollArg,
    /// Have cards with several queues hash as the chain asks, with Paceline's key, until the end; without it they hash as
    /// they do. AF_XDP only. It changes no answer: a packet's core follows from Paceline's own hash
    #[arg(long, help_heading = LIVE)]
    pub card_rss: bool,
    /// With --backend xdp: entries of the program's tables ahead of the first packet, in lines as test files have them
    #[arg(long, value_name = "FILE", requires = "backend", help_heading = LIVE)]
    pub entries: Option<PathBuf>,
    /// What becomes of packets when this program dies, by `kill -9` too: by default as `pass`, but for what is said at start
    #[arg(long, value_enum, value_name = "WHAT", help_heading = LIVE)]
    pub on_death: Option<OnDeathArg>,
    /// Where --on-death block or keep names what stays at the interfaces: a folder of a BPF file system
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/bpf/paceline", help_heading = LIVE)]
    pub pins: PathBuf,
    /// How many packets are answered a second, at each interface: those that rules of `firewall` `reject`, and pings to a VIP of
    /// `load-balancer`. 0: none
    #[arg(long, value_name = "N", default_value_t = 1_000, help_heading = LIVE)]
    pub answers_per_second: u32,
    /// Answer `paceline ctl` at this socket [default: $XDG_RUNTIME_DIR/paceline.sock, else /run/paceline.sock, if no other
    /// run has it]
    #[arg(long, value_name = "PATH", help_heading = LIVE)]
    pub control: Option<PathBuf>,
    /// End after so many seconds [default: at Ctrl-C, or `kill`]
    #[arg(long, value_name = "SECONDS", help_heading = LIVE)]
    pub duration: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BackendArg {
    /// XDP programs, compiled from a P4 program (see docs/xdp.md)
    Xdp,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ModeArg {
    /// Out of the other one, unchanged but for what the chain edits
    Bridge,
    /// As a router: by this machine's routes and neighbours, as `ip route` and `ip neigh` show them
    Route,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PollArg {
    /// Look again and again: the shortest latency, and all of a processor
    Busy,
    /// Look again and again, and do the driver's work by the way, in place of interrupts (SO_PREFER_BUSY_POLL).
    /// AF_XDP only
    Driver,
    /// Sleep after some 50 us until a packet arrives, which then waits some 20 to 60 us for it
    Adaptive,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnDeathArg {
    /// The kernel gets them: it routes or bridges them if it is set up to
    Pass,
    /// They are dropped, but for those that are this host's own, until the next run, or `paceline ctl unblock`. AF_XDP only
    Block,
    /// The program goes on with them, until the next run, or `paceline ctl unblock`. With --backend xdp alone
    Keep,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SocketArg {
    /// AF_XDP where the kernel and the card allow it, else AF_PACKET
    Auto,
    /// AF_XDP: past the kernel's own stack
    Xdp,
    /// AF_PACKET: with every driver; the kernel's own stack sees packets as well
    Packet,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HostArg {
    /// The kernel, past the chain, whatever that would drop
    Kernel,
    /// The chain, and then the kernel: what the chain drops does not reach this host. The host's answers do not pass the
    /// chain. AF_XDP only
    Chain,
}

/// What stands before the name of a TAP interface.
pub const TAP: &str = "tap:";

/// Interfaces, and how packets go between them.
pub struct Place<'a> {
    pub names: Vec<&'a str>,
    pub way: Way,
    /// By interface, which side of the chain it is on; none where one has packets of both.
    pub sides: Vec<Option<Side>>,
}

/// How packets go between interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Bridge,
    Mirror,
    Route,
}

impl LiveArgs {
    /// Whether interfaces are named.
    pub fn has_names(&self) -> bool {
        self.outside.is_some() || self.mirror.is_some() || self.on.is_some()
    }

    /// Where packets come from, if not from a capture. `interfaces` are those that the chain file names.
    pub fn place<'a>(&'a self, interfaces: &'a [ChainInterface]) -> Result<Option<Place<'a>>, Failure> {
        let LiveArgs { inside, outside, mirror, on, .. } = self;
        if let Some((one, way)) =
            mirror.as_ref().map(|name| (name, Way::Mirror)).or(on.as_ref().map(|name| (name, Way::Route)))
        {
            return Ok(Some(Place { names: vec![one], way, sides: Vec::new() }));
        }
        let given: Vec<(&str, Side)> = match outside {
            None => Vec::new(),
            Some(outside) => {
                let inside = inside.iter().map(|name| (name.as_str(), Side::Inside));
                inside.chain([(outside.as_str(), Side::Outside)]).collect()
            }
        };
        let all = match (&given[..], interfaces) {
            ([], []) => return Ok(None),
            (given, []) => given.to_vec(),
            ([], named) => named.iter().map(|named| (named.name.as_str(), named.direction())).collect(),
            (given, named) => overridden(given, named)?,
        };
        let way = match self.mode {
            ModeArg::Bridge => Way::Bridge,
            ModeArg::Route => Way::Route,
        };
        for (place, (name, _)) in all.iter().enumerate() {
            if all[..place].iter().any(|(before, _)| before == name) {
                return Err(Failure::usage(format!(
                    "inside and outside are one interface, `{name}`\nGive two, or --on {name} for a router with one arm."
                )));
            }
        }
        if way == Way::Bridge && all.len() > 2 {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            return Err(Failure::usage(format!(
                "a bridge has two interfaces, and here are {}: a packet that comes by one would have several ways out\nAdd --mode \
                 route: the kernel's routes say by which a packet leaves.",
                names.join(", ")
            )));
        }
        let (names, sides) = all.into_iter().map(|(name, side)| (name, Some(side))).unzip();
        Ok(Some(Place { names, way, sides }))
    }
}

/// The interfaces of the chain file, in its order, with the names that the command line gives.
fn overridden<'a>(
    given: &[(&'a str, Side)],
    named: &[ChainInterface],
) -> Result<Vec<(&'a str, Side)>, Failure> {
    let mut all = Vec::new();
    for side in [Side::Inside, Side::Outside] {
        let [given, named] = [
            given.iter().filter(|(_, of)| *of == side).count(),
            named.iter().filter(|named| named.direction() == side).count(),
        ];
        if given != named {
            let option = if side == Side::Inside { "--inside" } else { "--outside" };
            return Err(Failure::usage(format!(
                "the chain file names {named} interfaces for {option}, and the command line {given}\nGive as many, in the order of the \
                 file, or leave --inside and --outside out to take the file's."
            )));
        }
    }
    let mut left = given.to_vec();
    for named in named {
        let place = left.iter().position(|(_, side)| *side == named.direction());
        all.extend(place.map(|place| left.remove(place)));
    }
    Ok(all)
}
