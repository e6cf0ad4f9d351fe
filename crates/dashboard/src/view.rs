//! What the page shows, as JSON: a message of `GET /events` is one [`View`].

use schemars::JsonSchema;
use serde::Serialize;

/// Numbers are rounded to a tenth, so that messages are short.
pub(crate) fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// The state of a run at one time. Rates are of the last period, counts of the whole run; what a run does not have is
/// `null` or an empty list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "A message of GET /events")]
pub struct View {
    /// The version of Paceline.
    pub paceline: String,
    /// The chain's name.
    pub chain: String,
    /// The strategy's name.
    pub strategy: String,
    /// Seconds since the run began.
    pub seconds: f64,
    /// Whether the run is over: no message follows.
    pub has_ended: bool,
    /// What the page can ask the run for: `flows` is `GET /flows`, `trace` is `POST /trace`, `reload` is `POST /reload`.
    pub offers: Vec<String>,
    /// Rate, verdict, and what drops most, in a sentence or two.
    pub headline: String,
    /// What is wrong now, a sentence each; none if nothing is.
    pub warnings: Vec<String>,
    /// Packets received.
    pub packets: u64,
    /// Packets received in a second.
    pub packets_per_s: f64,
    /// Bits received in a second.
    pub bits_per_s: f64,
    /// Packets by what became of them.
    pub verdicts: Vec<Verdict>,
    /// The network interfaces, where packets come from some.
    pub interfaces: Vec<InterfaceView>,
    /// Reasons that dropped something, those that drop most now first.
    pub drops: Vec<DropView>,
    /// The functions, in the order of the chain.
    pub functions: Vec<FunctionView>,
    /// What rules of functions decided; none where no function has rules, or nobody looks yet.
    pub rules: RulesView,
    /// The cores.
    pub cores: Vec<CoreView>,
    /// What the strategy says of itself, where it says something.
    pub told: Option<StrategyView>,
    /// What functions and the strategy counted beside packets and flows, what occurs most often now first.
    pub events: Vec<EventView>,
    /// What changed, the newest last.
    pub log: Vec<LogEntry>,
    /// Rates over time: in the first message those so far, then one in each.
    pub points: Vec<Point>,
}

/// Packets of one verdict.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// `forward`, `transmit-back`, `host` or `drop`.
    pub verdict: String,
    /// In a second.
    pub per_s: f64,
    /// In the run.
    pub total: u64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InterfaceView {
    /// Its name.
    pub name: String,
    /// Packets received in a second.
    pub received_per_s: f64,
    /// Bits received in a second.
    pub received_bits_per_s: f64,
    /// Packets sent in a second.
    pub sent_per_s: f64,
    /// Bits sent in a second.
    pub sent_bits_per_s: f64,
    /// Packets lost in a second.
    pub lost_per_s: f64,
    /// Packets lost in the run.
    pub lost: u64,
    /// The reason for which most were lost; `null` if none were.
    pub lost_most: Option<String>,
}

/// A reason for which packets are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DropView {
    /// The function that drops them; `malformed` or `engine` where none does.
    pub by: String,
    /// The reason's name.
    pub reason: String,
    /// In a second.
    pub per_s: f64,
    /// In the run.
    pub total: u64,
}

/// A function of the chain, on all cores together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FunctionView {
    /// What the chain calls it.
    pub name: String,
    /// Packets that reached it in a second.
    pub packets_per_s: f64,
    /// Packets that it dropped in a second.
    pub drops_per_s: f64,
    /// Its table; `null` for a function without states.
    pub table: Option<TableView>,
}

/// A table of flows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TableView {
    /// Flows that have a state, on all cores together.
    pub flows: u64,
    /// The core whose table is the fullest.
    pub fullest_core: usize,
    /// Flows there.
    pub fullest_flows: u64,
    /// Flows that the table there can hold.
    pub fullest_capacity: u64,
    /// How full it is, 0 to 1.
    pub load: f64,
    /// Seconds until a table is full at the rate at which it grew over the last ten seconds; `null` if none grows, or not
    /// within a day.
    pub full_in_seconds: Option<f64>,
    /// Flows that began in a second.
    pub created_per_s: f64,
    /// Flows that ended in a second, by a packet or by time.
    pub ended_per_s: f64,
    /// Flows that made room for others in a second.
    pub evicted_per_s: f64,
    /// Flows refused in a second, since the table was full.
    pub rejected_per_s: f64,
}

/// Rules of functions, of firewalls and access lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RulesView {
    /// Those that decide most, in the order of the chain.
    pub shown: Vec<RuleView>,
    /// How many others there are.
    pub left_out: usize,
}

/// A rule. It decides where it is the first that fits, of the packets for which rules are asked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleView {
    /// The function's name.
    pub function: String,
    /// Its number in the chain file, or `default`.
    pub rule: String,
    /// As the chain file has it.
    pub text: String,
    /// Decisions in a second.
    pub per_s: f64,
    /// Decisions in the run, or since its rules were changed.
    pub decided: u64,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CoreView {
    /// Its number.
    pub core: usize,
    /// The share of its time that it spent on packets, 0 to 1.
    pub busy: f64,
    /// Packets received in a second.
    pub packets_per_s: f64,
    /// Bits received in a second.
    pub bits_per_s: f64,
    /// Packets dropped in a second.
    pub drops_per_s: f64,
    /// Packets that waited in its queue when it last looked; `null` where the port does not say.
    pub queue: Option<u64>,
    /// Entries that came to it in the run.
    pub moved_in: u64,
    /// Entries that left it in the run.
    pub moved_out: u64,
}

/// What a strategy says of itself; counts are of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StrategyView {
    /// What runs now, which under `auto` is another strategy.
    pub runs: String,
    /// On how many cores.
    pub cores: usize,
    /// Cores that get packets; `null` where none can be parked.
    pub active_cores: Option<usize>,
    /// Looks at the loads.
    pub looks: u64,
    /// Entries or shards that were given to other cores.
    pub moves: u64,
    /// What moves: `entry` or `shard`.
    pub unit: String,
    /// Promotions, where something can be promoted.
    pub promotions: Option<u64>,
    /// The share of packets that promoted values had, 0 to 1, where something can be promoted.
    pub promoted_share: Option<f64>,
    /// How long 99 in 100 packets may wait, microseconds, where the chain file says so.
    pub p99_objective_us: Option<f64>,
    /// How long they waited in the last period, microseconds, where that is measured.
    pub p99_measured_us: Option<f64>,
    /// How long they wait by the model, microseconds, where that has an end.
    pub p99_predicted_us: Option<f64>,
}

/// Something that is counted beside packets and flows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventView {
    /// The function that counts it, or `strategy`.
    pub by: String,
    /// Its name.
    pub event: String,
    /// In a second.
    pub per_s: f64,
    /// In the run.
    pub total: u64,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LogEntry {
    /// Its number, from 1.
    pub number: u64,
    /// Seconds since the run began.
    pub seconds: f64,
    /// What changed.
    pub text: String,
}

/// Rates at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Seconds since the run began.
    pub seconds: f64,
    /// Packets received in a second.
    pub packets_per_s: f64,
    /// Packets dropped in a second.
    pub drops_per_s: f64,
    /// Busy share of the busiest core, 0 to 1.
    pub busiest: f64,
}

/// A message of `GET /flows`: the flows with the highest rates, at the end of a look at all of them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "A message of GET /flows")]
pub struct FlowsView {
    /// When the look ended: seconds since the run began.
    pub seconds: f64,
    /// How long it took.
    pub took_seconds: f64,
    /// What it costs until the next one begins, percent of a core: what cores did, and what the page's own thread did.
    pub core_percent: f64,
    /// Flows that were looked at: those of functions that count packets.
    pub seen: u64,
    /// Whether rates are known: they are of the time between two looks.
    pub has_rates: bool,
    /// The first 20 by packets, and the first 20 of the others by bytes; in the order of packets.
    pub flows: Vec<FlowView>,
    /// Why there is no list, or a part of one; `null` if it is whole.
    pub error: Option<String>,
}

/// A flow of a function that counts its packets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlowView {
    /// The function's name.
    pub function: String,
    /// The flow's key, as `ctl flows` has it.
    pub key: String,
    /// The core that has it; `null` where all cores have it, or each has a replica.
    pub core: Option<usize>,
    /// Packets in a second, since the look before; `null` at the first look.
    pub packets_per_s: Option<f64>,
    /// Bits in a second; `null` at the first look, and where the function counts no bytes.
    pub bits_per_s: Option<f64>,
    /// Packets so far.
    pub packets: u64,
    /// Bytes so far; `null` where the function counts none.
    pub bytes: Option<u64>,
}

/// A line of the answer to `POST /trace`; one of its fields is not `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "A line of POST /trace")]
pub struct TraceView {
    /// The trace has begun: its filter, as tcpdump takes it.
    pub began: Option<String>,
    /// A packet's way through the chain, as `ctl trace` shows it.
    pub packet: Option<String>,
    /// Nothing is traced, and why.
    pub refused: Option<String>,
    /// The trace is over.
    pub ended: Option<TraceEndView>,
}

/// What came of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceEndView {
    /// Packets that were shown.
    pub shown: u64,
    /// Packets that matched.
    pub matched: u64,
    /// Those that were not traced, since others had not been read.
    pub missed: u64,
    /// Why it is over: `packets` (as many as are shown), `time`, or `run`.
    pub by: String,
}
