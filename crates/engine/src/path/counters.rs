//! What a core counts: of all its packets, and of each function.

use io::{EngineDrop, Fate};
use wire::Malformed;

use crate::path::batch::Batch;
use crate::path::packets::bits;

/// What one core did.
#[derive(Clone, Debug, Default)]
pub struct CoreCounters {
    /// Packets received.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Batches received.
    pub batches: u64,
    /// Packets that came from outside, in a chain with sides.
    pub from_outside: u64,
    /// Packets forwarded.
    pub forward: u64,
    /// Packets sent back.
    pub transmit_back: u64,
    /// Packets passed to the host.
    pub host: u64,
    /// Packets dropped by a function.
    pub dropped_by_function: u64,
    /// Malformed packets dropped.
    pub dropped_malformed: u64,
    /// Packets dropped because their edits had no room.
    pub dropped_no_room: u64,
    /// Malformed packets, dropped or not, in the order of [`Malformed::ALL`].
    pub malformed: [u64; Malformed::ALL.len()],
    /// Packets that passed although their checksums could not be verified, where they are verified: the capture cut
    /// them, or they are fragments.
    pub unverifiable: u64,
    /// Time spent on packets, ns: from receiving a batch, with history put between its packets, to its edits. Not
    /// waiting for packets, nor for room to send them. By the clock on the wall, so that time for which the system
    /// ran something else counts.
    pub busy_ns: u64,
}

impl CoreCounters {
    /// Before edits change a frame's length.
    pub(super) fn receive(&mut self, batch: &Batch) {
        self.batches += 1;
        self.packets += u64::from(batch.own().count_ones());
        self.bytes += batch.frames.iter().map(|frame| u64::from(frame.wire_len)).sum::<u64>();
    }

    pub(super) fn count(&mut self, batch: &Batch) {
        self.forward += u64::from((batch.live & !batch.history).count_ones());
        for i in bits(batch.ended() & !batch.history) {
            if let Some(reason) = batch.headers[i].malformed() {
                self.malformed[reason as usize - 1] += 1;
            }
            *match batch.fates[i] {
                Fate::Forward => &mut self.forward,
                Fate::TransmitBack => &mut self.transmit_back,
                Fate::Host => &mut self.host,
                Fate::DropBy { .. } => &mut self.dropped_by_function,
                Fate::Drop(EngineDrop::Malformed) => &mut self.dropped_malformed,
                Fate::Drop(EngineDrop::NoRoom) => &mut self.dropped_no_room,
                // These come into no batch.
                Fate::Drop(EngineDrop::NotTaken | EngineDrop::Overtaken) => continue,
            } += 1;
        }
    }
}

/// What a stage counted.
#[derive(Clone, Copy, Debug)]
pub struct StageCounters<'a> {
    /// Packets that the function took as its business.
    pub packets: u64,
    /// Packets among these that were forwarded.
    pub forward: u64,
    /// Packets among these that were sent back.
    pub transmit_back: u64,
    /// Packets among these that were passed to the host.
    pub host: u64,
    /// Packets among these that were dropped, by index of the function's drop reasons; the last entry is for
    /// indices that the function does not name.
    pub drops: &'a [u64],
    /// By index of the function's events.
    pub events: &'a [u64],
    /// By index of the function's rules: how often each decided.
    pub rules: &'a [u64],
    /// A number that the function used without declaring it.
    pub undeclared: Option<Undeclared>,
    /// Flows that came and went.
    pub flows: FlowCounters,
    /// Flows that have a state now, dead ones that were not swept yet included.
    pub live: usize,
    /// Flows that the table can hold; functions with one key share a table. 0: there is none.
    pub capacity: usize,
}

/// A number that a function used without a name for it: a defect of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// The number in a [`Verdict::Drop`](nf::Verdict::Drop), not an index into
    /// [`DROP_REASONS`](nf::About::drop_reasons).
    Drop(u8),
    /// The number in a [`Cx::count`](nf::Cx::count), not an index into [`EVENTS`](nf::About::events).
    Event(usize),
}

/// Flows that came and went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowCounters {
    /// Flows that began.
    pub created: u64,
    /// Flows that ended by a step.
    pub removed: u64,
    /// Flows whose deadline passed.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows refused because the table was full.
    pub rejected: u64,
    /// Flows that came from another core.
    pub moved_in: u64,
    /// Flows that went to another core.
    pub moved_out: u64,
}

impl FlowCounters {
    /// How many more have come than have gone.
    #[inline]
    pub(crate) fn net(&self) -> i64 {
        let gone = self.removed + self.expired + self.evicted + self.moved_out;
        (self.created + self.moved_in) as i64 - gone as i64
    }

    /// The counters of two cores together.
    pub(crate) fn plus(self, other: FlowCounters) -> FlowCounters {
        FlowCounters {
            created: self.created + other.created,
            removed: self.removed + other.removed,
            expired: self.expired + other.expired,
            evicted: self.evicted + other.evicted,
            rejected: self.rejected + other.rejected,
            moved_in: self.moved_in + other.moved_in,
            moved_out: self.moved_out + other.moved_out,
        }
    }

    /// Flows that have a state now. Of one of several cores that share their flows it means nothing: flows
    /// that one core created another may have removed.
    pub fn live(&self) -> usize {
        // Of flows that cores share the counters are read one by one while others count on.
        let gone = self.removed + self.expired + self.evicted + self.moved_out;
        (self.created + self.moved_in).saturating_sub(gone) as usize
    }
}
