//! The three ends of a replay port: a feeder, a port for each core, and a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use memory::LINE_BYTES;
use ring::{Producer, ring};
use wire::{First, RanBack, Stamper};

use super::arena::{Arena, Taker};
use super::collector::{Collector, Order};
use crate::capture::{MAX_PACKET_BYTES, Record};
use crate::receive::Receive;
use crate::simulation::give_turn;
use crate::{Closed, Done, Fate, Followed, Foreign, Frame, Note, Port, Queue, Received, Reference, Waiting};

/// Bytes of all frames between feeder and collector.
const ARENA_BYTES: usize = 8 << 20;

/// Frames on their way to one queue, and on their way back from it: descriptors of a common card.
const RING_FRAMES: usize = 1024;

/// The most frames of one queue that can be between feeder and collector, beside those that its core has in hand.
pub const QUEUE_FRAMES_MAX: usize = 2 * RING_FRAMES;

/// The most packets that can be between feeder and collector, whatever their lengths: what is read as the bound on how
/// far one packet gets ahead of another.
pub const REPLAY_FRAMES_MAX: usize = ARENA_BYTES / LINE_BYTES;

/// Makes the three ends of a port with `queues` queues, each of which sends packets in the order in which it gets
/// them.
pub fn replay(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    sized(queues, queues, Arena::new(ARENA_BYTES, MAX_PACKET_BYTES), RING_FRAMES)
}

/// Makes the three ends of a port with one queue, from which `ports` ports take packets: each the next that nobody
/// has.
pub fn replay_one_queue(ports: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    sized(1, ports, Arena::new(ARENA_BYTES, MAX_PACKET_BYTES), RING_FRAMES)
}

/// Makes the three ends of a port as [`replay`] does, where a queue may send packets in any order.
pub fn replay_in_any_order(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    ordered(replay(queues), Order::by_number)
}

/// Makes the three ends of a port whose queues may send in any order, and restamp: packets come out in the order in
/// which they were taken in.
pub fn replay_restamped(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    ordered(replay(queues), Order::by_place)
}

/// Makes the three ends of a port from which packets come out in the order in which queues send them. Queues may
/// send in any order, and restamp.
pub fn replay_as_ready(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    as_ready(replay(queues))
}

/// These ends where packets come out in the order in which they are sent.
pub fn as_ready(ends: (Feeder, Vec<ReplayPort>, Collector)) -> (Feeder, Vec<ReplayPort>, Collector) {
    ordered(ends, Order::as_ready)
}

/// With packets that come out in another order.
fn ordered(
    (feeder, ports, collector): (Feeder, Vec<ReplayPort>, Collector),
    order: fn(&Arc<Arena>) -> Order,
) -> (Feeder, Vec<ReplayPort>, Collector) {
    (feeder, ports, collector.in_order(order))
}

/// With a queue for each of the ports, or one for all of them.
fn sized(
    queues: usize,
    ports: usize,
    (taker, arena): (Taker, Arc<Arena>),
    ring_frames: usize,
) -> (Feeder, Vec<ReplayPort>, Collector) {
    let (to_queues, receives): (Vec<_>, Vec<_>) = (0..queues).map(|_| ring(ring_frames)).unzip();
    let receives: Vec<Receive> = match queues == ports {
        true => receives.into_iter().map(Receive::Own).collect(),
        false => receives.into_iter().flat_map(|queue| Receive::common(queue, ports)).collect(),
    };
    let (mut from_queues, mut ends) = (Vec::new(), Vec::new());
    let broken = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(CachePadded::new(AtomicU64::new(0)));
    let blocked = Arc::new(AtomicU64::new(0));
    for receive in receives {
        let (send, from_queue) = ring(ring_frames);
        from_queues.push(from_queue);
        let (arena, broken) = (Arc::clone(&arena), Arc::clone(&broken));
        let (sent, blocked) = (Arc::clone(&sent), Arc::clone(&blocked));
        ends.push(ReplayPort {
            arena,
            broken,
            receive,
            send,
            held: 0,
            received: 0,
            sent,
            blocked,
            is_blocked: false,
            waited: 0,
        });
    }
    let feeder = Feeder {
        taker,
        arena: Arc::clone(&arena),
        broken: Arc::clone(&broken),
        stamper: Stamper::default(),
        sent: vec![0; queues],
        to_queues,
    };
    (feeder, ends, Collector::new(arena, broken, from_queues, blocked))
}

/// Where packets enter: copies them into the arena as a card's DMA would, stamps them, and sends
/// each to a queue.
pub struct Feeder {
    taker: Taker,
    arena: Arc<Arena>,
    broken: Arc<AtomicBool>,
    stamper: Stamper,
    to_queues: Vec<Producer<Frame>>,
    /// By queue.
    sent: Vec<u64>,
}

impl Feeder {
    /// Takes a packet in. Waits while there is no room.
    ///
    /// # Errors
    /// [`Closed`] if a queue or the collector is gone.
    ///
    /// # Panics
    /// If the record is longer than any that a capture may hold.
    pub fn take(&mut self, record: &Record<'_>) -> Result<Frame, Closed> {
        assert!(record.data.len() <= self.taker.longest_bytes(), "{} bytes in one record", record.data.len());
        let waiting = Waiting::default();
        let mut place = loop {
            if let Some(place) = self.taker.take(record.data.len()) {
                break place;
            }
            if self.is_closed() {
                return Err(Closed);
            }
            waiting.wait();
        };
        let data = place.data();
        self.arena.buffer_mut(&mut place)[data].copy_from_slice(record.data);
        Ok(Frame {
            stamp: self.stamper.stamp(record.time_ns),
            wire_len: record.wire_len,
            link: record.link,
            entry: 0,
            note: Note::default(),
            place,
        })
    }

    /// Goes on with the stamps of a feeder whose packets came before.
    pub fn going_on(self, stamper: Stamper) -> Feeder {
        Feeder { stamper, ..self }
    }

    /// What the next packet's stamp depends on, for a feeder that goes on.
    pub fn stamper(&self) -> &Stamper {
        &self.stamper
    }

    /// The packet's bytes.
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.arena.bytes(&frame.place)
    }

    /// Puts a card's reference before a packet that was just taken in.
    pub fn refer(&mut self, frame: &mut Frame, reference: Reference) {
        let start = frame.place.data().start;
        reference.write(self.arena.buffer_mut(&mut frame.place), start);
    }

    /// Puts what its first fragment says before a packet that was just taken in: see [`Followed`].
    pub fn follow(&mut self, frame: &mut Frame, first: &First) -> bool {
        let start = frame.place.data().start;
        Followed::write(first, self.arena.buffer_mut(&mut frame.place), start)
    }

    /// How far the packets' times ran back.
    pub fn ran_back(&self) -> RanBack {
        self.stamper.ran_back()
    }

    /// Sends a packet to a queue. Frames are sent in the order in which they were taken. Waits while
    /// the queue is full.
    ///
    /// # Errors
    /// [`Closed`] if the queue is gone.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn send(&mut self, queue: usize, frame: Frame) -> Result<(), Closed> {
        give_turn();
        self.sent[queue] += 1;
        let (ring, waiting) = (&mut self.to_queues[queue], Waiting::default());
        let mut frame = frame;
        loop {
            if ring.is_abandoned() {
                return Err(Closed);
            }
            frame = match ring.push(frame) {
                Ok(()) => return Ok(()),
                Err(frame) => frame,
            };
            if self.broken.load(Ordering::Acquire) {
                return Err(Closed);
            }
            waiting.wait();
        }
    }

    /// Packets sent to a queue so far.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn sent(&self, queue: usize) -> u64 {
        self.sent[queue]
    }

    /// Whether a queue or the collector is gone, so that no packet comes through any more.
    pub fn is_closed(&self) -> bool {
        self.broken.load(Ordering::Acquire) || self.to_queues.iter().any(Producer::is_abandoned)
    }
}

/// One queue of the port.
pub struct ReplayPort {
    arena: Arc<Arena>,
    /// Set when a port goes away with packets in its hands, or before it has taken all: then some
    /// packet will never come out, and a wait for it would never end.
    broken: Arc<AtomicBool>,
    /// Frames received or taken over, and neither sent nor handed over.
    held: usize,
    received: u64,
    /// Frames that all queues have sent.
    sent: Arc<CachePadded<AtomicU64>>,
    /// Batches that any queue could not send at once.
    blocked: Arc<AtomicU64>,
    /// Whether the batch that waits here is counted.
    is_blocked: bool,
    /// Frames that were in the ring at the last look.
    waited: usize,
    receive: Receive,
    send: Producer<Done>,
}

impl Port for ReplayPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        give_turn();
        // In this order: what was sent before the feeder left is seen after seeing it leave.
        let (last, waited, ready) = self.receive.with(|queue| {
            let (last, waited) = (queue.is_abandoned(), queue.len());
            (last, waited, queue.pop_into(frames, waited.min(max)))
        });
        self.waited = waited;
        self.held += ready;
        self.received += ready as u64;
        match (ready, last) {
            (0, true) => Received::End,
            (0, false) => Received::Idle,
            _ => Received::Frames,
        }
    }

    /// In a simulation others are ahead with later packets of the same queue now and then.
    fn fetch(&mut self, _: &mut [Frame]) {
        give_turn();
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.arena.bytes(&frame.place)
    }

    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        for (frame, reference) in frames.iter().zip(references) {
            *reference = Reference::read(self.arena.buffer(&frame.place), frame.place.data().start);
        }
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.arena.buffer_mut(&mut frame.place)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        give_turn();
        if self.send.is_abandoned() {
            return Err(Closed);
        }
        let taken = frames.len().min(self.send.room_for(frames.len()));
        if taken < frames.len() {
            self.block(taken)?;
        } else {
            self.is_blocked = false;
        }
        // Of two threads of which one waits for the other, the earlier's numbers are the lower.
        let first = self.sent.fetch_add(taken as u64, Ordering::Relaxed);
        let done = |(index, (frame, fate)): (usize, (Frame, &Fate))| Done {
            frame,
            fate: *fate,
            sent: first + index as u64,
        };
        self.send.push_from(&mut frames.drain(..taken).zip(fates).enumerate().map(done));
        self.held = self.held.saturating_sub(taken);
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        if !frames.iter().all(|frame| self.arena.holds(&frame.place)) {
            return Err(Foreign);
        }
        self.held += frames.len();
        Ok(())
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.held = self.held.saturating_sub(frames.len());
    }

    /// Nothing is lost: the feeder waits while the queue is full.
    fn queue(&self) -> Queue {
        Queue { depth: Some(self.waited as u32), lost: 0 }
    }
}

impl ReplayPort {
    /// The ring takes fewer frames than there are: whether that can change, and a batch that is counted.
    #[cold]
    fn block(&mut self, taken: usize) -> Result<(), Closed> {
        if taken == 0 && self.broken.load(Ordering::Acquire) {
            return Err(Closed);
        }
        if !self.is_blocked {
            self.is_blocked = true;
            self.blocked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for ReplayPort {
    fn drop(&mut self) {
        let all_taken = self.receive.with(|queue| queue.is_abandoned() && queue.is_empty());
        if self.held > 0 || !all_taken {
            self.broken.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
