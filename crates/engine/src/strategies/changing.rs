//! What a strategy is that has other strategies run the chain, one after the other.
//!
//! ```text
//!   packets   0 1 2 ...        | 600 601 ...       | 900 ...
//!   phase     rss on 4 cores   | scr on 3 cores    | single
//! ```
//!
//! All cores end a phase behind the same packet, with nothing half done. Then their flows go where the next phase has them,
//! and its packets come. Each core keeps its tables, its pools and its counters all the while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use control::Decision;
use telemetry::Telemetry;
use wire::Stamp;

use crate::path::core::ChainCore;
use crate::strategies::dispatch::Team;
use crate::strategies::egress::Replayed;

/// Has other strategies run a chain. The executor asks it for one phase after the other.
pub trait Changing: Send {
    /// Where cores publish what they count, by which it may decide; told before the first phase.
    fn observe(&mut self, _telemetry: &Arc<Telemetry>) {}

    /// The next phase. `at` is the number of its first packet, and the stamp of the packet before. `since` is when no more
    /// packets of the phase before were received. `cores` are all cores of the run, as the phase before has left them.
    fn begin(&mut self, cores: &mut [ChainCore], at: (u64, Stamp), since: Instant) -> Phase;

    /// After the last phase: leaves each flow on one core, where the plan of the run has it at first. Says what ran, and
    /// why. `packets` is the number of the next packet.
    fn end(&mut self, cores: &mut [ChainCore], packets: u64, last: Stamp) -> Changes;
}

/// Packets that one strategy runs.
pub struct Phase {
    /// Who sends them, and what stands before the chain of each core that gets some: the first ones.
    pub team: Team,
    /// How packets of a capture come to these cores, and leave them.
    pub queues: Replayed,
    /// The number of the first packet that is not of this phase.
    pub until: Until,
    /// Whether each core has a replica of all states.
    pub is_replicated: bool,
}

/// The number of the first packet that is not sent any more: who dispatches may lower it.
#[derive(Clone, Debug)]
pub struct Until(Arc<AtomicU64>);

impl Until {
    /// Packets up to this number.
    pub fn packet(seq: u64) -> Until {
        Until(Arc::new(AtomicU64::new(seq)))
    }

    /// None from this number on.
    pub fn lower(&self, seq: u64) {
        self.0.fetch_min(seq, Ordering::Relaxed);
    }

    /// The number.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What ran a chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Phase by phase.
    pub phases: Vec<Change>,
    /// Strategies that could not take part, and why.
    pub left_out: Vec<(&'static str, String)>,
}

impl Changes {
    /// With what ran the chain that took over.
    pub(crate) fn followed_by(&mut self, later: Changes) {
        self.phases.extend(later.phases);
        self.left_out = later.left_out;
    }
}

/// A phase that began, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Packets that came before it.
    pub after: u64,
    /// What ran from then on.
    pub strategy: &'static str,
    /// On how many cores.
    pub cores: usize,
    /// Packets of the phase.
    pub packets: u64,
    /// For how long no packet was received while cores worked off those that they had, and flows went to their cores.
    pub pause: Duration,
    /// Why.
    pub why: Decided,
    /// The rate at which the busiest core would have had no pause in the first epoch, million packets per second; `None`
    /// where it was not measured.
    pub measured_mpps: Option<f64>,
}

/// Why a phase began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decided {
    /// The run, or its chain, began with it.
    First,
    /// It was drawn at random: `--move-every`.
    Drawn,
    /// It promised more.
    Better(Decision),
}
