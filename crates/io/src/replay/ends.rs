use std::collections::{HashMap, VecDeque};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use ring::{Consumer, Producer, ring};
use wire::{RanBack, Stamp, Stamper};

use super::arena::{Arena, Taker};
use crate::capture::{MAX_PACKET_BYTES, Record};
use crate::{Closed, Done, Fate, Frame, Port, Queue, Received, Waiting};

/// Bytes of all frames between feeder and collector.
const ARENA_BYTES: usize = 8 << 20;

/// Frames on their way to one queue, and on their way back from it: descriptors of a common card.
const RING_FRAMES: usize = 1024;

/// The most frames of one queue that can be between feeder and collector, beside those that its core has in hand.
pub const QUEUE_FRAMES_MAX: usize = 2 * RING_FRAMES;

/// Makes the three ends of a port with `queues` queues, each of which sends packets in the order in which it gets
/// them.
pub fn replay(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    sized(queues, Arena::new(ARENA_BYTES, MAX_PACKET_BYTES), RING_FRAMES)
}

/// The same where a queue may send packets in any order.
pub fn replay_in_any_order(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    let (feeder, ports, mut collector) = replay(queues);
    collector.early = Early::Numbers(VecDeque::new());
    (feeder, ports, collector)
}

/// The same where, besides, stamps are not the feeder's when frames are sent: they come out in the order in which
/// they were taken in.
pub fn replay_restamped(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    let (feeder, ports, mut collector) = replay(queues);
    collector.early = Early::Places(HashMap::new());
    (feeder, ports, collector)
}

fn sized(
    queues: usize,
    (taker, arena): (Taker, Arc<Arena>),
    ring_frames: usize,
) -> (Feeder, Vec<ReplayPort>, Collector) {
    let mut to_queues = Vec::new();
    let mut from_queues = Vec::new();
    let mut ports = Vec::new();
    let broken = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(CachePadded::new(AtomicU64::new(0)));
    for _ in 0..queues {
        let (to_queue, receive) = ring(ring_frames);
        let (send, from_queue) = ring(ring_frames);
        to_queues.push(to_queue);
        from_queues.push(from_queue);
        let (arena, broken) = (Arc::clone(&arena), Arc::clone(&broken));
        let sent = Arc::clone(&sent);
        ports.push(ReplayPort { arena, broken, receive, send, held: 0, received: 0, sent, waited: 0 });
    }
    let feeder = Feeder {
        taker,
        arena: Arc::clone(&arena),
        broken: Arc::clone(&broken),
        stamper: Stamper::default(),
        sent: vec![0; queues],
        to_queues,
    };
    (feeder, ports, Collector { arena, broken, from_queues, next_seq: 0, likely: 0, early: Early::Never })
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
            place,
        })
    }

    /// The packet's bytes.
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.arena.bytes(&frame.place)
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
        self.sent[queue] += 1;
        push(&mut self.to_queues[queue], &mut iter::once(frame), &self.broken)
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
    /// packet will never come out, and whoever waits for it must not.
    broken: Arc<AtomicBool>,
    /// Frames received and not sent.
    held: usize,
    received: u64,
    /// Frames that all queues have sent.
    sent: Arc<CachePadded<AtomicU64>>,
    /// Frames that were in the ring at the last look.
    waited: usize,
    receive: Consumer<Frame>,
    send: Producer<Done>,
}

impl Port for ReplayPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        // In this order: what was sent before the feeder left is seen after seeing it leave.
        let last = self.receive.is_abandoned();
        self.waited = self.receive.len();
        let ready = self.receive.pop_into(frames, self.waited.min(max));
        self.held += ready;
        self.received += ready as u64;
        match (ready, last) {
            (0, true) => Received::End,
            (0, false) => Received::Idle,
            _ => Received::Frames,
        }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.arena.bytes(&frame.place)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.arena.buffer_mut(&mut frame.place)
    }

    fn send(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<(), Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        // Of two threads of which one waits for the other, the earlier's numbers are the lower.
        let first = self.sent.fetch_add(frames.len() as u64, Ordering::Relaxed);
        let done = |(index, (frame, fate)): (usize, (Frame, &Fate))| Done {
            frame,
            fate: *fate,
            sent: first + index as u64,
        };
        let mut done = frames.drain(..).zip(fates).enumerate().map(done);
        let outcome = push(&mut self.send, &mut done, &self.broken);
        // What was not sent dies here, and stays counted, so that those who wait for it hear of it.
        self.held -= fates.len() - done.len();
        outcome
    }

    /// Nothing is lost: whoever feeds the port waits while the queue is full.
    fn queue(&self) -> Queue {
        Queue { depth: Some(self.waited as u32), lost: 0 }
    }
}

impl Drop for ReplayPort {
    fn drop(&mut self) {
        let all_taken = self.receive.is_abandoned() && self.receive.is_empty();
        if self.held > 0 || !all_taken {
            self.broken.store(true, Ordering::Release);
        }
    }
}

/// Where packets leave, in the order in which they entered.
pub struct Collector {
    arena: Arc<Arena>,
    broken: Arc<AtomicBool>,
    from_queues: Vec<Consumer<Done>>,
    next_seq: u64,
    /// The queue that had the last packet: packets come in trains.
    likely: usize,
    early: Early,
}

/// What came ahead of its turn, where queues send in any order.
enum Early {
    /// They do not.
    Never,
    /// From the next packet on.
    Numbers(VecDeque<Option<Done>>),
    /// By the place in memory, of which each frame has one of its own.
    Places(HashMap<u32, Done>),
}

impl Collector {
    /// The next packet, in order; waits for it. `None` when every queue has ended.
    ///
    /// A queue that went away with packets in its hands ends the collection there, since its packets
    /// will never come: the count of packets tells.
    pub fn collect(&mut self) -> Option<Done> {
        let waiting = Waiting::default();
        loop {
            if let Some(done) = self.pop_next() {
                self.next_seq += 1;
                return Some(done);
            }
            let is_broken = self.broken.load(Ordering::Acquire);
            let ended = is_broken || self.from_queues.iter().all(Consumer::is_abandoned);
            if ended {
                // What the last queue sent just before it ended.
                let done = self.pop_next()?;
                self.next_seq += 1;
                return Some(done);
            }
            waiting.wait();
        }
    }

    /// The packet's bytes.
    pub fn bytes<'a>(&'a self, done: &'a Done) -> &'a [u8] {
        self.arena.bytes(&done.frame.place)
    }

    /// Gives the packet's memory back.
    pub fn release(&mut self, done: Done) -> (Stamp, Fate) {
        let Done { frame, fate, .. } = done;
        self.arena.give_back(frame.place);
        (frame.stamp, fate)
    }

    fn pop_next(&mut self) -> Option<Done> {
        match &mut self.early {
            Early::Never => self.pop_from_queue(),
            Early::Numbers(early) => {
                for queue in &mut self.from_queues {
                    while let Some(done) = queue.pop() {
                        let ahead = (done.frame.stamp.seq - self.next_seq) as usize;
                        if early.len() <= ahead {
                            early.resize_with(ahead + 1, || None);
                        }
                        early[ahead] = Some(done);
                    }
                }
                early.front_mut()?.take().inspect(|_| {
                    early.pop_front();
                })
            }
            Early::Places(early) => {
                for queue in &mut self.from_queues {
                    while let Some(done) = queue.pop() {
                        early.insert(done.frame.place.first_line, done);
                    }
                }
                early.remove(&self.arena.next_back())
            }
        }
    }

    fn pop_from_queue(&mut self) -> Option<Done> {
        let queues = self.from_queues.len();
        for queue in (self.likely..queues).chain(0..self.likely) {
            let is_next = |done: &Done| done.frame.stamp.seq == self.next_seq;
            if self.from_queues[queue].peek().is_some_and(is_next) {
                self.likely = queue;
                return self.from_queues[queue].pop();
            }
        }
        None
    }
}

/// Pushes all, as many at a time as fit, waiting while the ring is full. What is left when there is no
/// more use in waiting stays in the iterator.
fn push<T>(
    ring: &mut Producer<T>,
    items: &mut impl ExactSizeIterator<Item = T>,
    broken: &AtomicBool,
) -> Result<(), Closed> {
    let waiting = Waiting::default();
    while items.len() > 0 {
        if ring.is_abandoned() {
            return Err(Closed);
        }
        if ring.push_from(items) > 0 {
            waiting.over();
            continue;
        }
        if broken.load(Ordering::Acquire) {
            return Err(Closed);
        }
        waiting.wait();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
