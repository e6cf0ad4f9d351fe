//! What a run has to tell, as data: the JSON of `paceline run --json`. Documented by
//! `docs/run.schema.json`; fields are added, never renamed or removed.

mod changes;
mod columns;
mod drops;
mod flow;
mod history;
mod moves;
mod of_run;
mod section;
mod seed;
mod text;
mod timeline;
mod trace;
mod why;
pub mod words;

pub use changes::{ChangesReport, DecisionReport, LeftOut, PhaseReport};
pub use drops::{DroppedPacket, LoggedRule, WhyDropped};
pub use flow::FlowReport;
pub use history::{CoreHistory, EgressReport, HistoryReport, ReorderingReport};
pub use moves::MovesReport;
pub use section::{Detail, Rank, SUMMARY_LINES, Section};
pub use seed::SeedReport;
pub use timeline::{CorePeriod, TimePeriod, TimelineReport};
pub use trace::{
    FieldEdit, FieldValue, FlowState, StateField, TraceReport, TracedFunction, has_ports, protocol_name,
};
pub use why::{FlowPlace, WhyReport};

use std::collections::BTreeMap;

use io::capture::{Remarks, link_name};
use nf::FunctionReport;
use schemars::JsonSchema;
use serde::Serialize;
use wire::RanBack;

use crate::chain::checksums::ChecksumSample;
use crate::executor::reload::Reloaded;
use crate::path::checks::Fragments;
use crate::strategies::limits::kib;

/// A run of a chain over packets.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunReport {
    /// Version of Paceline.
    pub paceline: String,
    /// Name of the chain.
    pub chain: String,
    /// How packets were spread: `single`, `rss`, `shared`.
    pub strategy: String,
    /// Header fields that picked the core; empty where none did.
    pub hash_fields: Vec<String>,
    /// Functions whose states all cores shared: under `shared` all that have any; else those whose keys no hash
    /// keeps on one core, mostly none.
    pub shared_functions: Vec<SharedFunction>,
    /// What functions drew from; of the last chain, where others took over.
    pub seed: SeedReport,
    /// The two sides of the chain; null if it has one direction.
    pub sides: Option<SidesReport>,
    /// Packets processed.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// From the first packet in to the last packet out, reading and writing files included.
    pub seconds: f64,
    /// Million packets per second of that time.
    pub mpps: f64,
    /// Packets by verdict; they add up to `packets`.
    pub verdicts: Verdicts,
    /// Dropped packets by reason: `function/reason`, `malformed/reason`, `engine/no-room`. Reasons
    /// that dropped nothing are left out.
    pub drops: BTreeMap<String, u64>,
    /// Malformed packets by reason, dropped or not. Reasons that did not occur are left out.
    pub malformed: BTreeMap<String, u64>,
    /// Whether packets with wrong checksums counted as malformed.
    pub checksums: ChecksumReport,
    /// Which fragments counted as malformed.
    pub fragments: FragmentReport,
    /// Each interface, of a run on interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// What became of forwarded packets by routes; null unless the run was a router.
    pub routing: Option<RoutingReport>,
    /// What the senders of rejected packets were told; null where no packet was rejected.
    pub answers: Option<AnswersReport>,
    /// Each core.
    pub cores: Vec<CoreReport>,
    /// Each function, all cores together, in the order of the chain.
    pub functions: Vec<FunctionSummary>,
    /// Hash of all functions' live flows at the last packet's time, hexadecimal: the same under
    /// every strategy, unless there are `shared_functions`.
    pub digest: String,
    /// Packets whose own time lay before an earlier packet's; their stamps have the earlier time.
    pub time_ran_back: TimeRanBack,
    /// Whether any packet is IP, or malformed.
    pub has_ip: bool,
    /// What is odd about the input, in sentences.
    pub oddities: Vec<String>,
    /// Packets that were skipped since their link type is not supported, by its name.
    pub skipped: BTreeMap<String, u64>,
    /// What became of packets because of their history; null unless they came with one.
    pub history: Option<HistoryReport>,
    /// What went from core to core; null where flows stay.
    pub moves: Option<MovesReport>,
    /// What ran the chain; null unless the strategy has others run it.
    pub changes: Option<ChangesReport>,
    /// How the run went on; null unless a page of it was asked for.
    pub timeline: Option<TimelineReport>,
    /// How packets left.
    pub egress: EgressReport,
    /// The program's memory while the tables were there.
    pub memory: MemoryReport,
    /// Where another chain took over; all else is told of the last chain, whose functions' counters begin with it unless
    /// they went on.
    pub reloads: Vec<ReloadReport>,
    /// Whether the whole input was processed.
    pub complete: bool,
    /// Why it was not, if so.
    pub error: Option<String>,
}

/// Another chain took over.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReloadReport {
    /// Packets that came before it.
    pub after: u64,
    /// The chain's name.
    pub chain: String,
    /// Each of its functions, in order.
    pub functions: Vec<ReloadedFunction>,
    /// For how long no packet was worked on, in a run on interfaces; packets waited meanwhile.
    pub pause_seconds: f64,
    /// How many flows were removed by hand (`ctl flows --kill`): the chain took over from itself without them. Absent of any other
    /// reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_flows: Option<u64>,
}

/// A function of a chain that took over.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReloadedFunction {
    /// What the chain calls it.
    pub function: String,
    /// How many flows it went on with; null if it began anew.
    pub kept_flows: Option<u64>,
    /// Why it began anew; null if it went on.
    pub why: Option<String>,
}

impl ReloadReport {
    /// What became of functions.
    pub fn new(reloaded: &Reloaded) -> ReloadReport {
        let function = |(name, kept): &(String, Result<u64, String>)| ReloadedFunction {
            function: name.clone(),
            kept_flows: kept.as_ref().ok().copied(),
            why: kept.as_ref().err().cloned(),
        };
        ReloadReport {
            after: reloaded.after,
            chain: reloaded.chain.clone(),
            functions: reloaded.functions.iter().map(function).collect(),
            pause_seconds: reloaded.pause.as_secs_f64(),
            removed_flows: reloaded.removed,
        }
    }

    /// For people, in lines: `after 1,000 packets edge took over`, and each function.
    pub fn text(&self) -> String {
        let after = words::plural(self.after, "packet");
        let mut text = match self.removed_flows {
            None => format!("after {after} {} took over", self.chain),
            Some(removed) => format!("after {after} {} removed by hand", words::plural(removed, "flow")),
        };
        if self.pause_seconds > 0.0 {
            text += &format!("; packets waited for {:.1} ms", 1e3 * self.pause_seconds);
        }
        if self.removed_flows.is_some() {
            return text + "\n";
        }
        for ReloadedFunction { function, kept_flows, why } in &self.functions {
            text += &match (kept_flows, why) {
                (_, Some(why)) => format!("\n  {function} begins anew, because {why}"),
                (flows, None) => {
                    format!("\n  {function} goes on with {}", words::plural(flows.unwrap_or(0), "flow"))
                }
            };
        }
        text + "\n"
    }
}

/// The two sides of a chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SidesReport {
    /// Prefixes of the hosts inside, as a list with commas.
    pub inside: String,
    /// Packets from outside, which met the functions in reverse; all others came from inside.
    pub packets_from_outside: u64,
}

/// Whether checksums were verified, why, and what came of it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ChecksumReport {
    /// What decided.
    #[serde(flatten)]
    pub sample: ChecksumSample,
    /// Packets with wrong checksums, which are among the malformed; 0 unless they were verified.
    pub refused: u64,
    /// Packets that passed although their checksums could not be verified: the capture cut them, or they are fragments.
    pub unverifiable: u64,
}

/// What became of fragments.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct FragmentReport {
    /// What the chain file says.
    pub policy: Fragments,
    /// Fragments that are among the malformed for being what they are.
    pub refused: u64,
}

/// A function whose states all cores shared.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SharedFunction {
    /// What the chain calls it.
    pub function: String,
    /// What holds of it all the same: `totals`, its records add up as on one core; `bound`, no key gets
    /// more than the function allows; `none`, nothing but that each step is whole.
    pub promise: String,
}

/// Memory of this program, MiB.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct MemoryReport {
    /// What it has; absent where the system does not say.
    pub resident_mib: Option<u64>,
    /// The part of `resident_mib` that is on huge pages, as tables ask for: random access to small ones costs a
    /// page walk each.
    pub huge_pages_mib: Option<u64>,
}

impl MemoryReport {
    /// As the system says now.
    pub fn now() -> MemoryReport {
        let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let mib = |name: &str| kib(&smaps, name).map(|kib| kib >> 10);
        MemoryReport { resident_mib: mib("Rss:"), huge_pages_mib: mib("AnonHugePages:") }
    }

    /// `410 of 521 MiB on huge pages`.
    pub fn describe(&self) -> Option<String> {
        Some(format!("{} of {} MiB on huge pages", self.huge_pages_mib?, self.resident_mib?))
    }
}

/// How far arrival times ran back.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct TimeRanBack {
    /// Packets behind an earlier one's time.
    pub packets: u64,
    /// The furthest of them.
    pub furthest_seconds: f64,
    /// The number, from 1, of the packet that it lies so far behind; null if there is none.
    pub ahead_packet: Option<u64>,
}

impl TimeRanBack {
    /// What was counted, for people.
    pub fn new(ran_back: RanBack) -> TimeRanBack {
        TimeRanBack {
            packets: ran_back.packets,
            furthest_seconds: ran_back.furthest_ns as f64 / 1e9,
            ahead_packet: (ran_back.packets > 0).then_some(ran_back.ahead_seq + 1),
        }
    }
}

/// Skipped packets by the name of their link type.
pub fn skipped(remarks: &Remarks) -> BTreeMap<String, u64> {
    let mut skipped = BTreeMap::new();
    for (number, packets) in &remarks.skipped {
        skipped.insert(format!("{} ({number})", link_name(*number)), *packets);
    }
    skipped
}

/// Packets by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdicts {
    /// Forwarded.
    pub forward: u64,
    /// Dropped.
    pub drop: u64,
    /// Sent back out of the port they came from.
    pub transmit_back: u64,
    /// Passed to the host's network stack.
    pub host: u64,
}

/// A network interface.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// The kind of socket, and what was chosen.
    pub socket: String,
    /// Packets received.
    pub received: u64,
    /// Their bytes, without the check sequence.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received packets of which a checksum was left to a card, and was computed here; each segment counts where a packet was
    /// segmented.
    pub completed: u64,
    /// Packets that were not received, or not sent, by reason. Reasons that lost nothing are left out.
    pub lost: BTreeMap<String, u64>,
}

/// What a router did with packets that the chain forwarded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RoutingReport {
    /// Packets sent on.
    pub sent: u64,
    /// Packets among `sent` that left by the interface that they came by.
    pub hairpins: u64,
    /// Packets for the host itself.
    pub host: u64,
    /// Packets dropped, by reason. Reasons that dropped nothing are left out.
    pub dropped: BTreeMap<String, u64>,
    /// ICMP errors sent about dropped packets.
    pub icmp_errors: u64,
    /// ICMP errors that a rate limit held back.
    pub icmp_errors_limited: u64,
}

/// What the senders of rejected packets, and of pings that the chain answers, were told. Over a capture: what --out has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswersReport {
    /// TCP resets sent.
    pub resets: u64,
    /// ICMP and ICMPv6 errors sent: administratively prohibited.
    pub icmp_errors: u64,
    /// Echo replies sent, by a `load-balancer` for its VIPs.
    pub echo_replies: u64,
    /// Packets that are not to be answered, such as resets, errors, later fragments, and those to groups.
    pub unanswerable: u64,
    /// Packets without an answer, as their interface had sent as many as it may.
    pub limited: u64,
}

/// One core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreReport {
    /// Its number, from 0.
    pub core: usize,
    /// Packets received.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// The core's share of all packets, 0 to 1.
    pub share: f64,
    /// Time spent on packets, without waiting for them; by the clock on the wall.
    pub busy_seconds: f64,
    /// Packets by verdict.
    pub verdicts: Verdicts,
    /// Live flows over all functions, less those whose states cores shared.
    pub flows: u64,
}

/// One function of the chain, over all cores.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionSummary {
    /// What the chain calls it.
    pub name: String,
    /// Packets that were its business and reached it.
    pub packets: u64,
    /// These packets by verdict.
    pub verdicts: Verdicts,
    /// Its drops by reason.
    pub drops: BTreeMap<String, u64>,
    /// What it counted.
    pub events: BTreeMap<String, u64>,
    /// Its flows.
    pub flows: Flows,
    /// Hash of its live flows, hexadecimal.
    pub digest: String,
    /// What else it has to tell.
    pub reports: Vec<Report>,
    /// What its counts suggest to do otherwise, if anything.
    pub hint: Option<String>,
}

/// The flows of one function, over all cores.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Flows {
    /// Alive at the last packet's time.
    pub live: u64,
    /// Created.
    pub created: u64,
    /// Ended by a packet.
    pub removed: u64,
    /// Ended by time.
    pub expired: u64,
    /// Ended to make room.
    pub evicted: u64,
    /// Refused because the table was full.
    pub rejected: u64,
    /// What each core's table holds; of `shared_functions`, what all cores' holds.
    pub capacity_per_core: u64,
    /// Live flows of the fullest core over `capacity_per_core`, 0 to 1.
    pub load: f64,
}

/// A small table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// Column names, units last.
    pub columns: Vec<String>,
    /// Rows as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// A digest as reports write it.
pub fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

impl Verdicts {
    fn plus(self, other: Verdicts) -> Verdicts {
        Verdicts {
            forward: self.forward + other.forward,
            drop: self.drop + other.drop,
            transmit_back: self.transmit_back + other.transmit_back,
            host: self.host + other.host,
        }
    }
}

impl From<FunctionReport> for Report {
    fn from(report: FunctionReport) -> Report {
        let FunctionReport { title, columns, rows } = report;
        Report { title, columns: columns.into_iter().map(str::to_owned).collect(), rows }
    }
}
