//! The way of a packet, on one core.
//!
//! ```text
//!  receive -> parse -> key by key:  hash -> locate (bulk, prefetch) -> step, function by function
//!                                                                                   |
//!                                                  apply edits -> send  <-----------+
//! ```
//!
//! Packets arrive stamped and already on the right core: a port's business (see `io`) with a
//! strategy's advice (see `strategy`). The middle of the path, from project to step, is `group.rs`.

use std::time::Instant;

use io::{Closed, EngineDrop, Fate, Port, Queue, Received, Waiting};
use wire::{Checksums, Malformed};

use crate::batch::bits;
use crate::chain::ChainCore;
use crate::external::ExternalEnd;
use crate::fragments::Fragments;
use crate::ingress::Checks;
use crate::replicate::Forgotten;
use crate::{BATCH_PACKETS, Batch};

/// Takes packets from `port` through `chain` until the port ends. Allocates nothing; `batch` is empty
/// before and after. `laps` observes the parts of a batch's way, and `intake` decides which packets the core works
/// on now; `&mut ()` for the first costs nothing, for the second it takes all that arrive.
///
/// # Errors
/// [`Closed`] if nobody takes the packets back.
pub fn run(
    port: &mut impl Port,
    chain: &mut ChainCore,
    batch: &mut Batch,
    laps: &mut impl Laps,
    intake: &mut dyn Intake,
) -> Result<CoreCounters, Closed> {
    let mut counters = CoreCounters::default();
    let idle = Waiting::default();
    loop {
        match turn(port, chain, batch, laps, intake, &mut counters)? {
            Received::End => return Ok(counters),
            Received::Idle => idle.wait(),
            Received::Frames => idle.over(),
        }
    }
}

/// One batch of [`run`], or none: says what was received. For whoever runs several cores in turn.
///
/// # Errors
/// As [`run`].
#[inline]
pub fn turn(
    port: &mut impl Port,
    chain: &mut ChainCore,
    batch: &mut Batch,
    laps: &mut impl Laps,
    intake: &mut dyn Intake,
    counters: &mut CoreCounters,
) -> Result<Received, Closed> {
    laps.begin();
    let received = intake.receive(port, chain, batch);
    if received == Received::Frames {
        laps.lap(Lap::Receive, batch);
        counters.receive(batch);
        let begin = Instant::now();
        parse(port, batch);
        if chain.checks.is_needed() {
            check(port, &chain.checks, batch, counters);
        }
        counters.from_outside += chain.mark_sides(batch);
        laps.lap(Lap::Parse, batch);
        chain.process(batch, port, laps);
        apply_edits(port, batch);
        laps.lap(Lap::Edit, batch);
        counters.count(batch);
        counters.busy_ns += begin.elapsed().as_nanos() as u64;
        laps.lap(Lap::Count, batch);
        batch.send(port)?;
        laps.lap(Lap::Send, batch);
    }
    laps.turned(&Turn { received, counters, chain, queue: port.queue(), moves: intake.counters().moves });
    Ok(received)
}

fn parse(port: &impl Port, batch: &mut Batch) {
    let parsed = batch.history | batch.parsed;
    batch.live = 0;
    for (i, (frame, headers)) in batch.frames.iter().zip(&mut *batch.headers).enumerate() {
        // Of history the headers are here.
        if parsed >> i & 1 == 0 {
            wire::parse_into(frame.link, port.bytes(frame), frame.wire_len, headers);
        }
        batch.live |= u64::from(headers.is_well_formed()) << i;
    }
}

/// Finds packets malformed that could be parsed. Of history this was done where it was written.
#[inline(never)]
fn check(port: &impl Port, checks: &Checks, batch: &mut Batch, counters: &mut CoreCounters) {
    if checks.fragments != Fragments::Pass {
        for i in bits(batch.live & !batch.history) {
            checks.refuse(batch.frames[i].refused, &mut batch.headers[i]);
            batch.live &= !(u64::from(!batch.headers[i].is_well_formed()) << i);
        }
    }
    if checks.verifies_checksums {
        verify_checksums(port, batch, counters);
    }
}

fn verify_checksums(port: &impl Port, batch: &mut Batch, counters: &mut CoreCounters) {
    for i in bits(batch.live & !batch.history) {
        let (frame, headers) = (&batch.frames[i], &mut batch.headers[i]);
        match wire::verify_into(port.bytes(frame), headers) {
            Checksums::Wrong { .. } => batch.live &= !(1 << i),
            Checksums::Unverifiable => counters.unverifiable += 1,
            Checksums::Right | Checksums::Absent => {}
        }
    }
}

fn apply_edits(port: &mut impl Port, batch: &mut Batch) {
    for i in 0..batch.len() {
        if batch.edits[i].is_empty() {
            continue;
        }
        if batch.is_own(i) && !matches!(batch.fates[i], Fate::Drop(_) | Fate::DropBy { .. }) {
            let frame = &mut batch.frames[i];
            let (before, link) = (frame.data(), frame.link);
            let mut data = before.clone();
            let buffer = port.buffer_mut(frame);
            match wire::apply(&batch.edits[i], &batch.headers[i], link, buffer, &mut data) {
                // Only a VLAN tag moves the borders.
                Ok(()) if data == before => (),
                Ok(()) => frame.set_data(data),
                Err(wire::ApplyError::NoRoom) => batch.end(i, Fate::Drop(EngineDrop::NoRoom)),
            }
        }
        batch.edits[i].clear();
    }
}

/// Stands between a core's port and its chain, and decides which packets the core works on now. A strategy has one
/// for each core: packets wait there for flows that migrate, and history is put between packets.
pub trait Intake: Send {
    /// Fills the batch, which is empty. Called between two batches, when nothing is half done.
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received;

    /// What it did so far.
    fn counters(&self) -> IntakeCounters {
        IntakeCounters::default()
    }

    /// Whether a turn without packets may have had work to do, such as packing flows that leave.
    fn is_busy(&self) -> bool {
        false
    }

    /// What it leaves behind at the end of a run.
    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd::default()
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
    /// Entries and packets of flows that migrate.
    pub moves: Moves,
    /// Packets of other cores that were stepped here.
    pub replayed: u64,
    /// Own packets that came when the state was past them: see [`EngineDrop::Overtaken`].
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

/// Parts of a batch's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// From the port.
    Receive,
    /// To headers.
    Parse,
    /// To the blocks of the packets' flows: hashed, looked up, prefetched, keys compared.
    Locate,
    /// Through the function with this index in the chain: packets of known flows.
    Function(usize),
    /// Packet by packet through a group of functions: new flows, and all in a full table.
    OneByOne,
    /// Past some blocks to see whether their flows are dead, once in a while.
    Sweep,
    /// Edits applied, checksums mended.
    Edit,
    /// Counted.
    Count,
    /// Back to the port.
    Send,
}

/// What a strategy that moves entries of the indirection table moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Entries that came to this core.
    pub entries_in: u64,
    /// Entries that went to another.
    pub entries_out: u64,
    /// Packets that wait here now for an entry which is on its way.
    pub held_packets: u64,
    /// Packets that had to wait so far, those included.
    pub waited_packets: u64,
}

impl Moves {
    /// Of two cores together.
    pub fn plus(self, other: Moves) -> Moves {
        Moves {
            entries_in: self.entries_in + other.entries_in,
            entries_out: self.entries_out + other.entries_out,
            held_packets: self.held_packets + other.held_packets,
            waited_packets: self.waited_packets + other.waited_packets,
        }
    }
}

/// A turn that is over, and how the core stands after it.
pub struct Turn<'a> {
    /// What was received.
    pub received: Received,
    /// What the core did so far.
    pub counters: &'a CoreCounters,
    /// The functions.
    pub chain: &'a ChainCore,
    /// The receive queue.
    pub queue: Queue,
    /// What moved.
    pub moves: Moves,
}

/// Someone who follows a core at its work: times the parts of a batch's way, or tells how far it is.
pub trait Laps {
    /// A batch is about to be received.
    fn begin(&mut self) {}

    /// A part is behind it. After [`Lap::Send`] the batch is empty.
    fn lap(&mut self, _lap: Lap, _batch: &Batch) {}

    /// A turn is over, with a batch or without; after [`Received::End`] none follows.
    fn turned(&mut self, _turn: &Turn<'_>) {}
}

impl Laps for () {}

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
    /// Time spent on packets, without waiting for them or for room to send them, ns: by the clock on the
    /// wall, so that time for which the system ran something else counts.
    pub busy_ns: u64,
}

impl CoreCounters {
    /// Before edits change a frame's length.
    fn receive(&mut self, batch: &Batch) {
        self.batches += 1;
        self.packets += u64::from(batch.own().count_ones());
        self.bytes += batch.frames.iter().map(|frame| u64::from(frame.wire_len)).sum::<u64>();
    }

    fn count(&mut self, batch: &Batch) {
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
