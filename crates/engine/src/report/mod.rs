//! What a run has to tell, as data: the JSON of `paceline run --json`. Documented by
//! `docs/run.schema.json`; fields are added, never renamed or removed.

mod text;
pub mod words;

use std::collections::BTreeMap;

use io::capture::{Remarks, link_name};
use nf::{FunctionReport, WhenShared};
use schemars::JsonSchema;
use sequencer::Rejected;
use serde::Serialize;
use wire::{Malformed, RanBack};

use crate::chain::checksums::ChecksumSample;
use crate::chain::{Chain, FunctionSpec};
use crate::executor::leaving::EgressOutcome;
use crate::executor::oddities::Oddities;
use crate::executor::outcome::{HistoryOutcome, RunOutcome};
use crate::executor::publish::UNNAMED;
use crate::executor::reordering::Reordered;
use crate::path::checks::Fragments;
use crate::path::core::ChainCore;
use crate::path::counters::{CoreCounters, StageCounters};
use crate::path::group::Stage;
use crate::path::receive::HistoryCounters;
use crate::strategies::limits::kib;
use crate::strategies::plan::Plan;

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
    /// How packets left.
    pub egress: EgressReport,
    /// The program's memory while the tables were there.
    pub memory: MemoryReport,
    /// Whether the whole input was processed.
    pub complete: bool,
    /// Why it was not, if so.
    pub error: Option<String>,
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
    /// Of this on huge pages, as tables ask for: random access to small ones costs a page walk each.
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

/// What became of packets that came with their history from a sequencer outside.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryReport {
    /// Whether cores got from each other what they lost.
    pub recovery: bool,
    /// Packets and flushes that were lost on purpose, between sequencer and cores.
    pub lost: u64,
    /// Packets that were dropped because their history could not be taken, by reason as `docs/history-format.md` has
    /// them; they are not among `packets`. Reasons that dropped nothing are left out.
    pub rejected: BTreeMap<String, u64>,
    /// Each core.
    pub cores: Vec<CoreHistory>,
}

/// What one core did with histories.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CoreHistory {
    /// Its number, from 0.
    pub core: usize,
    /// Packets of other cores that it stepped.
    pub replayed: u64,
    /// Packets dropped because of their history.
    pub rejected: u64,
    /// Flushes that it got.
    pub flushes: u64,
    /// With recovery: packets that it lost and got from another core.
    pub recovered: u64,
    /// With recovery: packets that all cores lost, and none stepped.
    pub lost_to_all: u64,
    /// With recovery: how often it lagged by more than the others' logs hold, and went on with the state of another.
    pub rebuilt: u64,
    /// Packets that it did not step itself, since that state had them.
    pub skipped: u64,
    /// Its own packets among them that came: dropped without a verdict, and not among `packets`.
    pub overtaken: u64,
    /// Without recovery: packets that it knows nothing of. If another core does, the replicas differ.
    pub missed: u64,
}

impl HistoryReport {
    /// What `outcome` tells.
    pub fn new(outcome: &HistoryOutcome) -> HistoryReport {
        let rejected =
            |reason: &Rejected| outcome.cores.iter().map(|core| core.rejected[*reason as usize]).sum::<u64>();
        let by_reason = Rejected::ALL.iter().map(|reason| (reason.name().to_owned(), rejected(reason)));
        let core = |(core, counters): (usize, &HistoryCounters)| CoreHistory {
            core,
            replayed: counters.replayed,
            rejected: counters.rejected.iter().sum(),
            flushes: counters.flushes,
            recovered: counters.recovered,
            lost_to_all: counters.lost_to_all,
            rebuilt: counters.rebuilt,
            skipped: counters.skipped,
            overtaken: counters.overtaken,
            missed: counters.missed,
        };
        HistoryReport {
            recovery: outcome.has_recovery,
            lost: outcome.lost,
            rejected: by_reason.filter(|(_, packets)| *packets > 0).collect(),
            cores: outcome.cores.iter().enumerate().map(core).collect(),
        }
    }
}

/// How packets left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EgressReport {
    /// In which order: `ordered`, as they came; `as-ready`, as cores were done with them.
    pub order: String,
    /// Batches that had to wait on their core since the way out was full: for an earlier packet of another core, where
    /// packets leave in order, or for whoever takes packets.
    pub blocked_batches: u64,
    /// How far packets left out of the order in which they came; null where they were put into it.
    pub reordering: Option<ReorderingReport>,
}

/// How far packets left out of order, by the metrics of RFC 4737. Those are counted that leave: forwarded, or sent back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReorderingReport {
    /// Packets that left.
    pub packets: u64,
    /// Packets that left after one that had come later (section 3.3).
    pub reordered: u64,
    /// Their share of all that left, 0 to 1 (section 4.1).
    pub ratio: f64,
    /// Packets that left after one of their own flow that had come later; flows by the 5-tuple with which packets leave.
    pub reordered_in_flow: u64,
    /// Reordering extent (section 4.2.2): from the first packet that overtook a reordered one to that, in packets that
    /// left. Half of the reordered packets have at most this one, to three digits.
    pub extent_p50: u64,
    /// 99 of 100 have at most this one, to three digits.
    pub extent_p99: u64,
    /// The largest.
    pub extent_max: u64,
    /// Packets whose extent may be larger than it was counted; 0 for all packets that come from a capture.
    pub extent_at_least: u64,
    /// For n of 1, 2, and so on: packets that are n-reordered, the n that left just before having come later (section 5).
    /// A TCP sender takes packets of its flow for lost from n = 3 on.
    pub n_reordered: Vec<u64>,
}

impl EgressReport {
    fn new(outcome: &EgressOutcome) -> EgressReport {
        EgressReport {
            order: outcome.egress.name().to_owned(),
            blocked_batches: outcome.blocked_batches,
            reordering: outcome.reordered.as_ref().map(ReorderingReport::new),
        }
    }
}

impl ReorderingReport {
    /// What `reordered` tells.
    pub fn new(reordered: &Reordered) -> ReorderingReport {
        ReorderingReport {
            packets: reordered.packets,
            reordered: reordered.reordered,
            ratio: reordered.reordered as f64 / reordered.packets.max(1) as f64,
            reordered_in_flow: reordered.in_flow,
            extent_p50: reordered.extent_p50,
            extent_p99: reordered.extent_p99,
            extent_max: reordered.extent_max,
            extent_at_least: reordered.extent_at_least,
            n_reordered: reordered.n_reordered.to_vec(),
        }
    }
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

/// One core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreReport {
    /// Its number, from 0.
    pub core: usize,
    /// Packets received.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of all packets, 0 to 1.
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
    /// Of these, by verdict.
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

impl RunReport {
    /// What `outcome` tells. Takes a pass over every table.
    pub fn new(chain: &Chain, plan: &Plan, outcome: &RunOutcome) -> RunReport {
        let cores: Vec<CoreReport> = core_reports(plan, outcome);
        let digests = function_digests(chain, outcome);
        let summary = |(index, digest): (usize, &u64)| function_summary(chain, outcome, index, *digest);
        let functions: Vec<FunctionSummary> = digests.iter().enumerate().map(summary).collect();
        let counted = |count: fn(&CoreCounters) -> u64| -> u64 {
            outcome.cores.iter().map(|(counters, _)| count(counters)).sum()
        };
        let seconds = outcome.elapsed.as_secs_f64();
        let malformed = malformed(outcome);
        let mut drops = BTreeMap::new();
        for function in &functions {
            for (reason, count) in &function.drops {
                drops.insert(format!("{}/{reason}", function.name), *count);
            }
        }
        if counted(|core| core.dropped_malformed) > 0 {
            drops.extend(malformed.iter().map(|(reason, count)| (format!("malformed/{reason}"), *count)));
        }
        let no_room = counted(|core| core.dropped_no_room);
        if no_room > 0 {
            drops.insert("engine/no-room".to_owned(), no_room);
        }
        let error = match (&outcome.input_error, outcome.stopped) {
            (Some(error), _) => Some(error.to_string()),
            (None, true) => Some("interrupted".to_owned()),
            (None, false) => None,
        };
        RunReport {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            chain: chain.name.clone(),
            strategy: plan.strategy.name().to_owned(),
            hash_fields: plan
                .hash_fields
                .map(|fields| fields.fields().names().map(str::to_owned).collect())
                .unwrap_or_default(),
            shared_functions: plan.shared.iter().map(|index| shared_function(chain, *index)).collect(),
            sides: chain.sides.as_ref().map(|sides| SidesReport {
                inside: sides.inside(),
                packets_from_outside: counted(|core| core.from_outside),
            }),
            packets: outcome.packets,
            bytes: counted(|core| core.bytes),
            seconds,
            mpps: if seconds > 0.0 { outcome.packets as f64 / seconds / 1e6 } else { 0.0 },
            verdicts: cores.iter().fold(Verdicts::default(), |sum, core| sum.plus(core.verdicts)),
            drops,
            checksums: ChecksumReport {
                sample: outcome.checksums,
                refused: malformed.iter().filter(|(why, _)| why.ends_with("-checksum")).map(|(_, n)| n).sum(),
                unverifiable: counted(|core| core.unverifiable),
            },
            fragments: FragmentReport {
                policy: chain.fragments,
                refused: malformed.iter().filter(|(why, _)| why.contains("fragment")).map(|(_, n)| n).sum(),
            },
            malformed,
            cores,
            digest: hex(combined(&digests)),
            functions,
            time_ran_back: TimeRanBack::new(outcome.ran_back),
            has_ip: outcome.has_ip,
            oddities: Oddities::of(outcome).sentences(),
            skipped: skipped(&outcome.remarks),
            history: outcome.history.as_ref().map(HistoryReport::new),
            egress: EgressReport::new(&outcome.egress),
            memory: MemoryReport::now(),
            complete: error.is_none(),
            error,
        }
    }
}

/// The digest of each function's flows, over all cores.
fn function_digests(chain: &Chain, outcome: &RunOutcome) -> Vec<u64> {
    let of = |index| whole(outcome, index).map(|stage| stage.digest(outcome.last)).fold(0, u64::wrapping_add);
    (0..chain.functions.len()).map(of).collect()
}

/// One number for the digests of all functions, in order.
fn combined(digests: &[u64]) -> u64 {
    digests.iter().fold(0, |seed, digest| nf::hash_bytes(&digest.to_le_bytes(), seed))
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

/// The stages that have each flow once.
fn whole(outcome: &RunOutcome, index: usize) -> impl Iterator<Item = Stage<'_>> {
    outcome.whole().iter().map(move |(_, chain): &(_, ChainCore)| chain.stage(index))
}

fn stages(outcome: &RunOutcome, index: usize) -> impl Iterator<Item = Stage<'_>> {
    outcome.cores.iter().map(move |(_, chain): &(_, ChainCore)| chain.stage(index))
}

fn shared_function(chain: &Chain, index: usize) -> SharedFunction {
    let FunctionSpec { name, function, .. } = &chain.functions[index];
    let promise = match function.info().when_shared {
        Some(WhenShared::Bound { .. }) => "bound",
        Some(WhenShared::Totals) => "totals",
        None => "none",
    };
    SharedFunction { function: name.clone(), promise: promise.to_owned() }
}

fn core_reports(plan: &Plan, outcome: &RunOutcome) -> Vec<CoreReport> {
    let flows = |chain: &ChainCore| {
        let own = chain.stages().enumerate().filter(|(index, _)| !plan.shared.contains(index));
        own.map(|(_, stage)| stage.counters().live as u64).sum()
    };
    let report = |(core, (counters, chain)): (usize, &(CoreCounters, ChainCore))| CoreReport {
        core,
        packets: counters.packets,
        bytes: counters.bytes,
        share: counters.packets as f64 / outcome.packets.max(1) as f64,
        busy_seconds: counters.busy_ns as f64 / 1e9,
        verdicts: Verdicts {
            forward: counters.forward,
            drop: counters.dropped_by_function + counters.dropped_malformed + counters.dropped_no_room,
            transmit_back: counters.transmit_back,
            host: counters.host,
        },
        flows: flows(chain),
    };
    outcome.cores.iter().enumerate().map(report).collect()
}

fn malformed(outcome: &RunOutcome) -> BTreeMap<String, u64> {
    let count = |reason: &Malformed| -> u64 {
        outcome.cores.iter().map(|(counters, _)| counters.malformed[*reason as usize - 1]).sum()
    };
    let counts = Malformed::ALL.iter().map(|reason| (reason.name().to_owned(), count(reason)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn function_summary(chain: &Chain, outcome: &RunOutcome, index: usize, digest: u64) -> FunctionSummary {
    let FunctionSpec { name, function, .. } = &chain.functions[index];
    let info = function.info();
    let mut verdicts = Verdicts::default();
    let mut flows = Flows::default();
    let mut packets = 0;
    let mut drops = BTreeMap::new();
    let mut events = BTreeMap::new();
    for stage in stages(outcome, index) {
        let counters = stage.counters();
        packets += counters.packets;
        verdicts = verdicts.plus(Verdicts {
            forward: counters.forward,
            drop: counters.drops.iter().sum(),
            transmit_back: counters.transmit_back,
            host: counters.host,
        });
        let reasons = info.drop_reasons.iter().copied().chain([UNNAMED]);
        add_named(&mut drops, reasons, counters.drops);
        add_named(&mut events, info.events.iter().copied(), counters.events);
    }
    whole(outcome, index).for_each(|stage| add_flows(&mut flows, &stage.counters()));
    let hint = function.hint(packets, &drops);
    drops.retain(|_, count| *count > 0);
    let all: Vec<Stage<'_>> = whole(outcome, index).collect();
    let reports = function.report(&all, outcome.last).into_iter().map(Report::from).collect();
    FunctionSummary {
        name: name.clone(),
        packets,
        verdicts,
        drops,
        events,
        flows,
        digest: hex(digest),
        reports,
        hint,
    }
}

fn add_named<'a>(sums: &mut BTreeMap<String, u64>, names: impl Iterator<Item = &'a str>, counts: &[u64]) {
    for (name, count) in names.zip(counts) {
        *sums.entry(name.to_owned()).or_default() += count;
    }
}

fn add_flows(flows: &mut Flows, counters: &StageCounters<'_>) {
    flows.live += counters.live as u64;
    flows.created += counters.flows.created;
    flows.removed += counters.flows.removed;
    flows.expired += counters.flows.expired;
    flows.evicted += counters.flows.evicted;
    flows.rejected += counters.flows.rejected;
    flows.capacity_per_core = counters.capacity as u64;
    flows.load = flows.load.max(counters.live as f64 / counters.capacity.max(1) as f64);
}

impl From<FunctionReport> for Report {
    fn from(report: FunctionReport) -> Report {
        let FunctionReport { title, columns, rows } = report;
        Report { title, columns: columns.into_iter().map(str::to_owned).collect(), rows }
    }
}
