//! Strategies side by side, as data: the JSON of `paceline bench compare --json`, and what its page is drawn
//! from. `paceline bench report` reads it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One chain over one trace, under several strategies on several numbers of cores.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of Paceline.
    pub paceline: String,
    /// The command line, to be run again.
    pub command: String,
    /// Processor, logical cores, operating system, in one line.
    pub machine: String,
    /// Name of the chain.
    pub chain: String,
    /// The functions' names in the order of the chain.
    pub functions: Vec<String>,
    /// What was replayed.
    pub trace: TraceSummary,
    /// Share of the packets that may be lost at the rates found, 0 to 1.
    pub loss_limit: f64,
    /// Receive descriptors of each queue.
    pub descriptors: usize,
    /// Searches of which each point is the median.
    pub searches: usize,
    /// The strategies in the order asked for.
    pub series: Vec<Series>,
    /// What could not run, and why.
    pub refused: Vec<Refused>,
    /// What the figures say, in whole sentences.
    pub findings: Vec<String>,
    /// Whether all that was asked for was done; not so after an interruption: points are missing then, and the last one may
    /// be of fewer searches. A file of an older version does not say, and is taken for complete.
    #[serde(default = "complete")]
    pub complete: bool,
}

fn complete() -> bool {
    true
}

impl Comparison {
    /// All points, each with the name of its strategy.
    pub fn points(&self) -> impl Iterator<Item = (&str, &Point)> {
        self.series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| (series.strategy.as_str(), point)))
    }

    /// Rate of a point over that of `single` on one core. `None` where there is none, or whose time is not the point's:
    /// rates of different clocks have no ratio.
    pub fn over_single(&self, point: &Point) -> Option<f64> {
        self.over(point, "single", 1)
    }

    /// Rate of a point over that of `rss` on as many cores; `None` as for [`Comparison::over_single`].
    pub fn over_rss(&self, point: &Point) -> Option<f64> {
        self.over(point, "rss", point.cores)
    }

    fn over(&self, point: &Point, strategy: &str, cores: usize) -> Option<f64> {
        let is_it = |(name, other): &(&str, &Point)| {
            *name == strategy && other.cores == cores && other.clock == point.clock
        };
        let (_, other) = self.points().find(is_it)?;
        let ratio = point.mpps / other.mpps;
        (other.mpps > 0.0 && ratio.is_finite()).then_some(ratio)
    }
}

/// What was replayed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TraceSummary {
    /// The file, or the model that it was generated from with its options.
    pub source: String,
    /// Packets.
    pub packets: u64,
    /// Flows by 5-tuple, directed.
    pub flows: u64,
    /// Mean length on the wire, bytes.
    pub mean_bytes: f64,
    /// Share of the packets of the biggest flow, 0 to 1.
    pub top1_share: f64,
    /// Share of the packets of the ten biggest flows, 0 to 1.
    pub top10_share: f64,
    /// Share of the packets of the fullest entry of the indirection table, 0 to 1.
    pub top_entry_share: f64,
    /// The packets that no hash of the chain can spread over several cores; absent where no hash serves the chain, and
    /// in comparisons of older versions.
    #[serde(default)]
    pub top_key: Option<TopKey>,
    /// A hash of all bytes and times, hexadecimal: the same for the same seed and command.
    pub digest: String,
}

/// The heaviest value of the header fields that a card hashes for a chain. Both directions of a connection have the same
/// hash and count as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopKey {
    /// What such a value is: `connection`, `pair of addresses`, `source address`.
    pub what: String,
    /// Its share of the packets, 0 to 1.
    pub share: f64,
}

/// One strategy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Its name, as command lines have it.
    pub strategy: String,
    /// By number of cores, ascending.
    pub points: Vec<Point>,
}

/// One strategy on one number of cores.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Cores.
    pub cores: usize,
    /// Whose time it is.
    pub clock: Clock,
    /// The highest rate found with a loss within the limit, million packets per second: the median of `found_mpps`.
    pub mpps: f64,
    /// What each search found, in order.
    pub found_mpps: Vec<f64>,
    /// Share of the packets lost at that rate, 0 to 1.
    pub loss: f64,
    /// Entries that went from core to core, with their flows, from the warm-up to the last trial. Once loads are even,
    /// hardly any does: most belong to the first trials.
    pub moves: u64,
    /// Each core in that trial.
    pub loads: Vec<CoreLoad>,
    /// The core in front of these in that trial; absent where the strategy has none, and in comparisons of older versions.
    #[serde(default)]
    pub sequencer: Option<SequencerLoad>,
    /// Latency at given shares of the rate found; empty where it was not asked for.
    pub latency: Vec<LatencyPoint>,
    /// What else the system did meanwhile; absent in comparisons of older versions.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    /// Why the rate is not to be relied on, a sentence for each reason; empty if it is.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A core that works for this share of the time has none left for more packets.
const NO_TIME_LEFT: f64 = 0.9;

impl Point {
    /// Whether the core in front has no time left: then no core more behind it raises the rate. How busy these are says less,
    /// since a core that polls takes fewer packets at a time, and spends more on each, before it is ever idle.
    pub fn is_bound_by_sequencer(&self) -> bool {
        self.sequencer.is_some_and(|sequencer| sequencer.busy >= NO_TIME_LEFT)
    }
}

/// What the system did while something was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Share of the time in which the measuring threads had no processor, since the system ran others or a quota was
    /// used up, 0 to 1; absent where the system does not say.
    pub off_processor_share: Option<f64>,
    /// Share of all processors' time that a hypervisor gave to other machines (steal), 0 to 1; absent where the system
    /// does not say.
    pub steal_share: Option<f64>,
    /// Batches that took so long that the system must have run something else.
    pub slow_batches: u64,
}

/// Whose time a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Real threads on real processors.
    Measured,
    /// Cores run in turn on one processor, each with a clock of its own.
    Virtual,
}

impl Clock {
    /// The one that this is not.
    pub(crate) fn other(self) -> Clock {
        match self {
            Clock::Measured => Clock::Virtual,
            Clock::Virtual => Clock::Measured,
        }
    }

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Measured => "measured",
            Clock::Virtual => "virtual",
        }
    }
}

/// What one core did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CoreLoad {
    /// Share of the trial's packets that came to its queue, 0 to 1.
    pub share: f64,
    /// Share of the time in which it worked on packets, 0 to 1.
    pub busy: f64,
    /// Packets dropped because its queue was full, over those that came to it.
    pub loss: f64,
}

/// What the core did that takes all packets from the card, writes their history, and passes each on to another core. It is
/// not among the cores of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequencerLoad {
    /// Share of the time in which it worked on packets, 0 to 1. Waiting for a core whose queue is full is not in it.
    pub busy: f64,
    /// Packets dropped because its queue was full, over those that came to it: all that the trial lost.
    pub loss: f64,
    /// Its time for a packet, ns: parsing, choosing a core, writing the history, passing it on.
    pub packet_ns: f64,
}

/// Latency at one offered rate: from a packet's arrival at the card to its leaving, microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPoint {
    /// Share of the rate found, 0 to 1.
    pub load: f64,
    /// What was offered, million packets per second.
    pub offered_mpps: f64,
    /// Median.
    pub p50_us: f64,
    /// 90 of 100 packets are below.
    pub p90_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// What could not run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// The strategy.
    pub strategy: String,
    /// Cores.
    pub cores: usize,
    /// Why, in words.
    pub reason: String,
}
