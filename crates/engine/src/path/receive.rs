//! What stands between a core's port and its chain.

use io::{Port, Received};
use wire::Stamp;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::moves::Moves;
use crate::path::packets::BATCH_PACKETS;
use sequencer::Rejected;

/// Stands between a core's port and its chain, and decides which packets the core works on now. A strategy has one
/// for each core: packets wait there for flows that migrate, and history is put between packets.
pub trait Intake: Send {
    /// Fills the batch, which is empty. Called between two batches, when nothing is half done.
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received;

    /// Takes the batch, whose headers are parsed, through the chain, with what else is to be stepped now.
    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        chain.process(batch, port, laps);
    }

    /// The batch that was received last took so long, ns, by a clock that is not this thread's: that of a virtual core.
    fn took(&mut self, busy_ns: u64, packets: u64) {
        let _ = (busy_ns, packets);
    }

    /// What it did so far.
    fn counters(&self) -> IntakeCounters {
        IntakeCounters::default()
    }

    /// Whether a turn without packets may have had work to do, such as packing flows that leave.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether the last turn had such work to do: then the next one may have more, and is not to wait.
    fn has_worked(&self) -> bool {
        false
    }

    /// What it leaves behind at the end of a run.
    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd::default()
    }
}

impl<I: Intake + ?Sized> Intake for &mut I {
    #[inline]
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        (**self).receive(port, chain, batch)
    }

    #[inline]
    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        (**self).step(chain, batch, port, laps);
    }

    fn took(&mut self, busy_ns: u64, packets: u64) {
        (**self).took(busy_ns, packets);
    }

    fn counters(&self) -> IntakeCounters {
        (**self).counters()
    }

    fn is_busy(&self) -> bool {
        (**self).is_busy()
    }

    fn has_worked(&self) -> bool {
        (**self).has_worked()
    }

    fn finish(&mut self) -> IntakeEnd {
        (**self).finish()
    }
}

/// Takes all packets that arrive.
impl Intake for () {
    #[inline]
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        port.receive(&mut batch.frames, BATCH_PACKETS)
    }
}

/// What an [`Intake`] did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeCounters {
    /// What came and went with its flows, and what the strategy counts of its own.
    pub moves: Moves,
    /// Packets of other cores that were stepped here.
    pub replayed: u64,
    /// Own packets that came when the state was past them: see [`io::EngineDrop::Overtaken`].
    pub overtaken: u64,
}

/// What an [`Intake`] leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntakeEnd {
    /// Where the core fell too far behind the history of other cores' packets, if it did.
    pub forgotten: Option<Forgotten>,
    /// What happened to history that came with packets, if any did.
    pub(crate) external: Option<ExternalEnd>,
}

/// A packet's headers are not known any more: the core lagged too far behind. What it steps from then on is not what
/// the others step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Its number.
    pub seq: u64,
}

/// What happened to packets and their history on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounters {
    /// Packets that were dropped because of their history, in the order of [`Rejected::ALL`].
    pub rejected: [u64; Rejected::ALL.len()],
    /// Flushes.
    pub flushes: u64,
    /// Packets of other cores that were stepped here.
    pub replayed: u64,
    /// Without recovery: packets that this core knows nothing of. If another core does, the replicas differ.
    pub missed: u64,
    /// With recovery: packets that this core lost, own and history, and stepped from another's log.
    pub recovered: u64,
    /// With recovery: packets that all cores lost, and none stepped.
    pub lost_to_all: u64,
    /// With recovery: how often this core lagged by more than the others' logs hold, and went on with the state of
    /// one of them.
    pub rebuilt: u64,
    /// Packets that it did not step itself, since that state had them.
    pub skipped: u64,
    /// Its own packets among them that came: they were dropped without a verdict.
    pub overtaken: u64,
}

/// What a core leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExternalEnd {
    pub counters: HistoryCounters,
    /// The stamp of the last step.
    pub last: Stamp,
}
