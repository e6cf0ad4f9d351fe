//! How two runs' answers compare.

use io::Fate;
use io::capture::CaptureError;
use nf::{FiveTuple, WhenShared};
use thiserror::Error;
use wire::Fields;

use crate::executor::oddities::Oddities;
use crate::executor::outcome::{HistoryOutcome, RunError};
use crate::executor::reload::Reloaded;
use crate::path::moves::Moves;
use crate::strategies::changing::Changes;
use crate::strategies::refusal::PlanError;
use crate::strategies::scr::outside::arrivals::InputError;
use crate::verify::answering::Answered;

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
    /// Functions that allocate header fields and were judged in each run, and those that were not, with why.
    pub judged: Vec<Judged>,
    /// What must hold between the flows of a function and does not, in either run.
    pub broken: Vec<Broken>,
    /// Per function: name, and under `single` and the other strategy a hash of its live flows, of when
    /// they will die, of how every other flow left, and of what it counted. Of replicas, the first that
    /// differs, if one does. Empty if the runs were stopped, each at a packet of its own.
    pub digests: Vec<(String, u64, u64)>,
    /// Functions whose states differ and need not be the same, since packets judged alone came to them: see
    /// [`Judged::alone`]. They are not among the digests.
    pub uncompared: Vec<Uncompared>,
    /// Functions whose table was full at some time. Which flows it turns away is its own choice, of which each core has
    /// one: see [`Verified::is_told`]. Replicas have no choice.
    pub filled: Vec<String>,
    /// Functions whose pool had nothing left to give at some time, such as a NAT without free ports: each core has its
    /// share.
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
    /// How many packets were answered under the other strategy, where each run was answered in its own endpoints.
    pub answered: Option<Answered>,
    /// Whether `single` had no full tables and empty pools of its own, but turned away the packets and flows that were
    /// turned away under the other strategy: then all that is compared is so given that choice. So it is where
    /// `single` as it is came to something else, and where cores share states.
    pub is_told: bool,
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
            judged: Vec::new(),
            broken: Vec::new(),
            digests: Vec::new(),
            uncompared: Vec::new(),
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
            answered: None,
            is_told: false,
        }
    }

    /// How the runs agree: the one rule of `verify` and `sweep`.
    pub fn agreement(&self) -> Agreement {
        if self.stopped {
            return Agreement::Stopped;
        }
        if !self.is_same() {
            return Agreement::Different;
        }
        if self.packets == 0 || !self.has_compared() {
            return Agreement::NothingCompared;
        }
        let is_excused = self.shared.iter().any(|check| check.excused.is_some());
        let kinds = [
            (UpTo::FullTables, self.is_told && !self.filled.is_empty() || is_excused),
            (UpTo::EmptyPools, self.is_told && !self.exhausted.is_empty()),
            (UpTo::Allocation, self.is_up_to_allocation()),
            (UpTo::Shared, !self.shared.is_empty()),
        ];
        let up_to: Vec<UpTo> = kinds.into_iter().filter(|(_, is_so)| *is_so).map(|(kind, _)| kind).collect();
        if up_to.is_empty() { Agreement::Equal } else { Agreement::EqualUpTo(up_to) }
    }

    /// Whether every answer, byte and state was compared, and none left out or excused. What full tables and empty pools
    /// turned away is compared, too, where `single` was told of it: it has to do the same then.
    pub fn is_exact(&self) -> bool {
        match self.agreement() {
            Agreement::Equal => true,
            Agreement::EqualUpTo(up_to) => up_to.iter().all(|kind| match kind {
                UpTo::FullTables | UpTo::EmptyPools => true,
                UpTo::Allocation => self.allocated.is_empty() && self.judged.iter().all(Judged::is_whole),
                UpTo::Shared => false,
            }),
            Agreement::NothingCompared | Agreement::Different | Agreement::Stopped => false,
        }
    }

    /// Whether there was anything that has to be the same: some function's answers, or what it promises.
    pub fn has_compared(&self) -> bool {
        self.shared.is_empty()
            || !self.digests.is_empty()
            || self.shared.iter().any(|check| check.promise.is_some())
    }

    /// Whether runs were alike up to what they took from pools, and not byte by byte.
    pub fn is_up_to_allocation(&self) -> bool {
        let others = |judged: &Judged| judged.renamed + judged.alone + judged.in_flight > 0;
        !self.allocated.is_empty() || self.judged.iter().any(others)
    }

    /// Whether every answer, every function's flows and all that is promised of shared states are as they
    /// have to be, over the whole input.
    pub fn holds(&self) -> bool {
        self.has_compared() && self.is_same() && self.input_error.is_none() && !self.stopped
    }

    /// Whether what was compared is as it has to be, for as much of the input as there was.
    pub fn is_same(&self) -> bool {
        self.different == 0
            && self.digests.iter().all(|(_, single, other)| single == other)
            && self.shared.iter().all(|check| check.failure.is_none())
            && self.broken.is_empty()
            && self.judged.iter().all(|judged| judged.wrong.is_empty())
            && self.out_of_order.unwrap_or(0) == 0
            && self.history.as_ref().is_none_or(|history| history.diverged() == 0)
    }
}

/// How two runs agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Everything is the same.
    Equal,
    /// Everything that has to be the same is.
    EqualUpTo(Vec<UpTo>),
    /// The input has no packets, or nothing is promised.
    NothingCompared,
    /// Something differs that has to be the same.
    Different,
    /// Stopped before the end.
    Stopped,
}

/// What need not be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpTo {
    /// Which flows a full table turns away: given that, all else is the same.
    FullTables,
    /// For whom a pool has nothing left: given that, all else is the same.
    EmptyPools,
    /// What functions take from pools.
    Allocation,
    /// What functions make of states that cores share.
    Shared,
}

impl UpTo {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            UpTo::FullTables => "which flows full tables turn away",
            UpTo::EmptyPools => "who gets nothing from empty pools",
            UpTo::Allocation => "allocation",
            UpTo::Shared => "what cores share",
        }
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
    /// Why the promise does not hold where it need not, since the function's own table was full.
    pub excused: Option<String>,
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

/// A function that takes header fields from a pool, such as a NAT, before the judge that it brings:
/// [`nf::Pooled::judge`]. Packets of both runs are compared with what was taken renamed to what it stands for.
#[derive(Debug, Default)]
pub struct Judged {
    /// What the chain calls the function.
    pub function: String,
    /// Why it was not judged, if so: then answers are compared without the fields that it takes.
    pub not_judged: Option<String>,
    /// Packets that have the same answer but for what was taken.
    pub renamed: u64,
    /// Packets that mean another allocation in the other run, or none: of the capture, for an external endpoint which is another's,
    /// or nobody's, there; answers of a backend to which the same client has a connection of its own. The judge of each run alone
    /// says whether its answer is right.
    pub alone: u64,
    /// Packets that were answered otherwise, or sent by another allocation, behind packets judged alone that came for the same
    /// inside end: what other functions know of it may be something else. They are not compared.
    pub touched: u64,
    /// Packets whose answer only the order in which cores came to packets in flight allows. They are not compared.
    pub in_flight: u64,
    /// Packets that one run refused since its pool was empty, and the other did not.
    pub refused: u64,
    /// Packets of which nobody can tell whether they came to the function: they were not judged.
    pub unattributed: u64,
    /// What a judge found wrong, by run.
    pub wrong: Vec<Wrong>,
}

impl Judged {
    /// Whether all its packets were judged, and compared with what was taken renamed.
    pub fn is_whole(&self) -> bool {
        self.not_judged.is_none() && self.alone + self.touched + self.in_flight + self.unattributed == 0
    }
}

/// A function whose states differ and need not be the same.
#[derive(Debug)]
pub struct Uncompared {
    /// What the chain calls the function.
    pub function: String,
    /// Packets judged alone, or not compared on account of such.
    pub packets: u64,
}

/// Answers of a run that its judge found wrong.
#[derive(Debug)]
pub struct Wrong {
    /// In which run.
    pub strategy: &'static str,
    /// How many.
    pub count: u64,
    /// The first, with the packet's number in the capture, from 1.
    pub first: String,
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
    /// Nothing can be answered.
    #[error("there is nothing to answer: {why}")]
    Unanswered {
        /// Why.
        why: String,
    },
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

#[cfg(test)]
mod tests;
