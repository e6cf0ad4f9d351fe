//! How two runs' answers compare.

use io::Fate;
use io::capture::CaptureError;
use nf::{FiveTuple, WhenShared};
use thiserror::Error;
use wire::Fields;

use crate::executor::oddities::Oddities;
use crate::executor::outcome::{HistoryOutcome, RunError};
use crate::executor::reload::Reloaded;
use crate::path::receive::Moves;
use crate::strategies::changing::Changes;
use crate::strategies::refusal::PlanError;
use crate::strategies::scr::outside::arrivals::InputError;

/// How two strategies' answers compare.
#[derive(Debug)]
pub struct Verified {
    /// Packets compared.
    pub packets: u64,
    /// Packets whose answers differ.
    pub different: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// Functions whose states all cores share, each with what it promises then and whether that is so:
    /// instead of `digests`. With them those that nobody can compare. Empty if the runs were stopped.
    pub shared: Vec<SharedCheck>,
    /// Functions that take header fields from a pool, with these fields: answers are compared without them.
    pub allocated: Vec<(String, Fields)>,
    /// Events that count what was taken from a pool, and differ: see [`nf::Pooled::allocation_events`]. They are no
    /// difference.
    pub allocation_events: Vec<AllocationEvent>,
    /// What must hold between the flows of a function and does not, in either run.
    pub broken: Vec<Broken>,
    /// Per function: name, and under `single` and the other strategy a hash of its live flows, of when
    /// they will die, of how every other flow left, and of what it counted. Of replicas, the first that
    /// differs, if one does. Empty if the runs were stopped, each at a packet of its own.
    pub digests: Vec<(String, u64, u64)>,
    /// Functions whose table was full at some time: then strategies may differ, because each core
    /// has a table of its own. Replicas may not.
    pub filled: Vec<String>,
    /// Functions whose pool had nothing left to give at some time, such as a NAT without free ports: then
    /// strategies may differ, because each core has its share. Replicas may not.
    pub exhausted: Vec<String>,
    /// Packets that left after a later one of their flow; `None` where the strategy promises no order. Checked by
    /// entry of the indirection table, each of which all packets of a flow share.
    pub out_of_order: Option<u64>,
    /// What went from core to core.
    pub moves: Moves,
    /// Where another chain took over.
    pub reloads: Vec<Reloaded>,
    /// Under a strategy that has others run the chain: which did, one after the other.
    pub changes: Changes,
    /// Why the input ended early, if it did. What came before is compared.
    pub input_error: Option<InputError>,
    /// Whether [`Progress::stop`](crate::Progress::stop) ended it.
    pub stopped: bool,
    /// What became of packets because of their history, where they came with one.
    pub history: Option<HistoryCheck>,
    /// What is odd about the input.
    pub oddities: Oddities,
}

impl Verified {
    /// Stopped before the second run: nothing was compared.
    pub(crate) fn stopped() -> Verified {
        Verified {
            packets: 0,
            different: 0,
            first: None,
            shared: Vec::new(),
            allocated: Vec::new(),
            allocation_events: Vec::new(),
            broken: Vec::new(),
            digests: Vec::new(),
            filled: Vec::new(),
            exhausted: Vec::new(),
            out_of_order: None,
            moves: Moves::default(),
            reloads: Vec::new(),
            changes: Changes::default(),
            input_error: None,
            stopped: true,
            history: None,
            oddities: Oddities::default(),
        }
    }

    /// Whether there was anything that has to be the same: some function's answers, or what it promises.
    pub fn has_compared(&self) -> bool {
        self.shared.is_empty()
            || !self.digests.is_empty()
            || self.shared.iter().any(|check| check.promise.is_some())
    }

    /// Whether every answer, every function's flows and all that is promised of shared states are as they
    /// have to be, over the whole input.
    pub fn holds(&self) -> bool {
        self.has_compared() && self.is_same() && self.input_error.is_none() && !self.stopped
    }

    /// The same for as much of the input as there was.
    pub fn is_same(&self) -> bool {
        self.different == 0
            && self.digests.iter().all(|(_, single, other)| single == other)
            && self.shared.iter().all(|check| check.failure.is_none())
            && self.broken.is_empty()
            && self.out_of_order.unwrap_or(0) == 0
            && self.history.as_ref().is_none_or(|history| history.diverged() == 0)
    }
}

/// A function whose states all cores share, or that comes behind one whose edits nobody can tell, and what it
/// promises.
#[derive(Debug)]
pub struct SharedCheck {
    /// What the chain calls the function.
    pub function: String,
    /// What it promises; `None`: it was not compared.
    pub promise: Option<WhenShared>,
    /// The function before it whose edits nobody can tell, if that is why.
    pub behind: Option<String>,
    /// Why that does not hold, if so.
    pub failure: Option<String>,
}

/// How often an event was counted that depends on what was taken from a pool.
#[derive(Debug)]
pub struct AllocationEvent {
    /// What the chain calls the function.
    pub function: String,
    /// Its name in [`nf::About::events`].
    pub event: &'static str,
    /// How often under `single`.
    pub single: u64,
    /// How often under the other strategy.
    pub other: u64,
}

/// Flows that cannot be at the same time: see [`nf::Guarantees::invariant`].
#[derive(Debug)]
pub struct Broken {
    /// What the chain calls the function.
    pub function: String,
    /// In which run.
    pub strategy: &'static str,
    /// Which flows.
    pub message: String,
}

/// One packet with two answers.
#[derive(Debug)]
pub struct Mismatch {
    /// The packet's number in the capture, from 1.
    pub number: u64,
    /// Its flow; `None` if it is not IP or could not be parsed.
    pub flow: Option<FiveTuple>,
    /// What `single` answers.
    pub single: Answer,
    /// What the other strategy answers.
    pub other: Answer,
}

/// The answer for one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of it.
    pub fate: Fate,
    /// Its bytes with all edits applied.
    pub bytes: Vec<u8>,
}

/// Why there was nothing to compare.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The chain cannot run so.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The input cannot be read at all.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A core panicked.
    #[error(transparent)]
    Run(RunError<std::convert::Infallible>),
    /// The runs do not have the same packets: the input changed in between, or packets were lost.
    #[error(
        "`single` saw {single} packets and `{strategy}` {other}: the input changed in between, or packets were lost"
    )]
    Packets {
        /// The other strategy.
        strategy: &'static str,
        /// Packets under `single`.
        single: u64,
        /// Packets under the other.
        other: u64,
    },
}

impl From<CaptureError> for VerifyError {
    fn from(error: CaptureError) -> VerifyError {
        VerifyError::Input(error.into())
    }
}

/// What became of packets because of their history, beside what one core that got all of them would have had.
#[derive(Clone, Debug)]
pub struct HistoryCheck {
    /// What the cores counted.
    pub outcome: HistoryOutcome,
    /// Packets that no core got, neither themselves nor in another's history.
    pub lost_to_all: u64,
}

impl HistoryCheck {
    /// Packets that some replica missed and another did not, each as often as it was missed.
    pub fn diverged(&self) -> u64 {
        if self.outcome.has_recovery {
            return 0;
        }
        let missed = self.outcome.cores.iter().map(|core| core.missed);
        missed.map(|missed| missed.saturating_sub(self.lost_to_all)).sum()
    }
}
