//! What a run leaves behind, or why it has no outcome.

use std::time::Duration;

use io::capture::Remarks;
use table::OutOfMemory;
use thiserror::Error;
use wire::{RanBack, Stamp};

use crate::chain::Chain;
use crate::chain::checksums::ChecksumSample;
use crate::chain::undeclared::UndeclaredError;
use crate::executor::leaving::EgressOutcome;
use crate::executor::reload::Reloaded;
use crate::path::core::ChainCore;
use crate::path::counters::CoreCounters;
use crate::path::moves::Moves;
use crate::path::receive::HistoryCounters;
use crate::strategies::changing::Changes;
use crate::strategies::dispatch::TableError;
use crate::strategies::plan::Plan;
use crate::strategies::scr::outside::arrivals::InputError;

/// What a run leaves behind.
pub struct RunOutcome {
    /// Packets that came out: all that went in.
    pub packets: u64,
    /// From the first packet in to the last packet out.
    pub elapsed: Duration,
    /// The last packet's stamp: the time at which flows are counted and digested.
    pub last: Stamp,
    /// Per core, what it did and its functions with their flows, settled at `last`.
    pub cores: Vec<(CoreCounters, ChainCore)>,
    /// Why the input ended early, if it did. Everything whole before that was processed.
    pub input_error: Option<InputError>,
    /// Whether [`Progress::stop`](crate::Progress::stop) ended the run before the input did.
    pub stopped: bool,
    /// How far arrival times ran back, which stamps do not.
    pub ran_back: RanBack,
    /// What the reader of the input skipped, or could not take as it was.
    pub remarks: Remarks,
    /// Whether any packet that came out is IP, or malformed.
    pub has_ip: bool,
    /// What went from core to core.
    pub moves: Moves,
    /// Whether each core has all flows, and not those of its own packets.
    pub is_replicated: bool,
    /// What became of packets because of their history, where they came with one.
    pub history: Option<HistoryOutcome>,
    /// How packets left.
    pub egress: EgressOutcome,
    /// Whether checksums were verified, and why.
    pub checksums: ChecksumSample,
    /// Where another chain took over: `cores` are the last one's.
    pub reloads: Vec<Reloaded>,
    /// Under a strategy that has others run the chain: which did, one after the other.
    pub changes: Changes,
    /// The chain that ran last and its plan, in a live run.
    pub chain: Option<(Chain, Plan)>,
}

impl RunOutcome {
    /// The outcome of a run that did not begin.
    pub(crate) fn nothing(error: InputError) -> RunOutcome {
        RunOutcome {
            packets: 0,
            elapsed: Duration::ZERO,
            last: Stamp::default(),
            cores: Vec::new(),
            input_error: Some(error),
            stopped: false,
            ran_back: RanBack::default(),
            remarks: Remarks::default(),
            has_ip: false,
            moves: Moves::default(),
            is_replicated: false,
            history: None,
            egress: EgressOutcome::default(),
            checksums: ChecksumSample::default(),
            reloads: Vec::new(),
            changes: Changes::default(),
            chain: None,
        }
    }

    /// Cores that have each flow once.
    pub fn whole(&self) -> &[(CoreCounters, ChainCore)] {
        if self.is_replicated { &self.cores[..1] } else { &self.cores }
    }
}

/// Why a run has no outcome.
#[derive(Debug, Error)]
pub enum RunError<E> {
    /// A core panicked, which is a defect of Paceline or of a function.
    #[error(
        "core {core} panicked after {packets} packets; this is a defect, please report it with the packet that did it"
    )]
    CorePanicked {
        /// Which core.
        core: usize,
        /// Packets that had come out by then.
        packets: u64,
    },
    /// No memory for the tables.
    #[error("no memory for the tables of {cores} cores, one of which takes {} MiB\nUse fewer cores, or smaller `flows` in the chain file.", bytes >> 20)]
    OutOfMemory {
        /// How many cores were asked for.
        cores: usize,
        /// Bytes of the table for which there was no memory.
        bytes: u64,
    },
    /// No memory for the stacks of cores that are simulated.
    #[error("no memory for the stacks of {cores} simulated cores, 2 MiB each\nUse fewer cores.")]
    NoStacks {
        /// How many cores were asked for.
        cores: usize,
    },
    /// A core lagged so far behind that the history of others' packets was overwritten.
    #[error(
        "core {core} lagged behind the others, and the history of packet {seq} was overwritten before it had read it; this is a defect, please report it"
    )]
    Forgotten {
        /// Which core.
        core: usize,
        /// The packet's number, from 0.
        seq: u64,
    },
    /// The table by which packets come to the ports of cores could not be changed.
    #[error(transparent)]
    Table(TableError),
    /// A function used a number that it does not declare.
    #[error(transparent)]
    Undeclared(UndeclaredError),
    /// The caller's `see` said so.
    #[error(transparent)]
    Seen(E),
}

impl<E> RunError<E> {
    pub(crate) fn out_of_memory(cores: usize, OutOfMemory { bytes }: OutOfMemory) -> RunError<E> {
        RunError::OutOfMemory { cores, bytes }
    }
}

/// What became of packets because of their history.
#[derive(Clone, Debug)]
pub struct HistoryOutcome {
    /// Whether cores got from each other what they lost.
    pub has_recovery: bool,
    /// Packets and flushes that were lost on purpose.
    pub lost: u64,
    /// By core.
    pub cores: Vec<HistoryCounters>,
    /// Numbers of packets that came and have no verdict, ascending: see [`HistoryCounters::overtaken`].
    pub overtaken: Vec<u64>,
}
