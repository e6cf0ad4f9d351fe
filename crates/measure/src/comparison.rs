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
    /// A hash of all bytes and times, hexadecimal: the same for the same seed and command.
    pub digest: String,
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
    /// Entries that went from core to core, with their flows, in the last trial at that rate.
    pub moves: u64,
    /// Each core in that trial.
    pub loads: Vec<CoreLoad>,
    /// Latency at given shares of the rate found; empty where it was not asked for.
    pub latency: Vec<LatencyPoint>,
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
