//! What became of packets because of their history, and how packets left.

use schemars::JsonSchema;
use sequencer::Rejected;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::executor::leaving::EgressOutcome;
use crate::executor::outcome::HistoryOutcome;
use crate::executor::reordering::Reordered;
use crate::path::receive::HistoryCounters;

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
    /// packets leave in order, or for the thread that takes packets.
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
    pub(super) fn new(outcome: &EgressOutcome) -> EgressReport {
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
