//! A simulated network card: packets arrive at an offered rate, wait in receive descriptors, and are
//! dropped where there are none.
//!
//! A card's queue changes at two kinds of moments: packets arrive, and its core receives. What happens
//! between two receives can be told at the second: those that arrived since then found the descriptors
//! that were free, the first of them, and the others were dropped. So [`NicPort::receive`](crate::Port::receive)
//! works out the arrivals since the last call, and the answer is exactly that of a card that runs beside
//! the core. There is no thread that sends packets, and so
//! - none that takes a processor from what is measured,
//! - none that is late when the system runs something else, so that the rate offered is the rate asked for,
//! - and time may be any clock: the one on the wall, or one that a core has for itself ([`VirtualClock`]).
//!
//! What comes to which queue is settled before a trial: a list of arrivals for each queue, by their number
//! in the trial. A number's time follows from the [`Pace`].
//!
//! Not like a card: a packet is copied into its frame when it is received, by the core, and the copy is in
//! the core's time, a few nanoseconds; the trace is asked for ahead, as DMA would have it in the cache.
//! Sending is free of charge and never waits.

mod clock;
mod pace;
mod queue;

use std::sync::Arc;

use hdrhistogram::Histogram;
use wire::Stamp;

pub use self::clock::{Clock, VirtualClock, WallClock};
pub use self::pace::{Pace, Shape};
use self::queue::Queue;
use crate::pool::Pool;
use crate::{Closed, Fate, Foreign, Frame, Packets, Port, Received};

/// What is offered to a card in one trial, the same for all its queues.
#[derive(Clone)]
pub struct Offer {
    /// The packets, over and over: number *n* is packet *n* modulo how many there are.
    pub packets: Arc<Packets>,
    /// When they arrive.
    pub pace: Pace,
    /// The stamp of number 0.
    pub origin: Stamp,
}

/// One queue of a simulated card.
pub struct NicPort<C> {
    offer: Offer,
    clock: C,
    queue: Queue,
    pool: Pool,
    received: u64,
    latency: Option<Latency>,
}

/// From arrival to leaving, ns.
struct Latency {
    histogram: Histogram<u64>,
    /// Arrival times of what was sent since the clock was read.
    sent_ns: Vec<u64>,
}

/// How far ahead of the packets that arrive the trace is asked for.
const AHEAD_PACKETS: usize = 64;

/// The longest latency told apart, ns; longer ones count as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

impl<C: Clock> NicPort<C> {
    /// A queue to which the packets with the numbers `arrivals`, ascending, come, and where
    /// `descriptors` of them can wait. `frames` is how many can be on their way through the core; when
    /// there is no other, the queue waits.
    ///
    /// # Panics
    /// If there are no descriptors or no frames, or no memory for them.
    pub fn new(offer: Offer, arrivals: Vec<u32>, descriptors: usize, frames: usize, clock: C) -> NicPort<C> {
        let pool = Pool::for_packets(&offer.packets, frames);
        NicPort::in_pool(offer, arrivals, descriptors, pool, clock)
    }

    /// The same with a pool of its own choice, which may share its memory with those of other queues.
    ///
    /// # Panics
    /// If there are no descriptors, or a packet is longer than the frames of the pool.
    pub fn in_pool(offer: Offer, arrivals: Vec<u32>, descriptors: usize, pool: Pool, clock: C) -> NicPort<C> {
        assert!(descriptors > 0, "a queue without descriptors");
        debug_assert!(arrivals.is_sorted());
        pool.assert_fits(&offer.packets);
        let queue = Queue::new(arrivals, descriptors);
        NicPort { offer, clock, queue, pool, received: 0, latency: None }
    }

    /// Records each packet's latency from now on: from its arrival to the first receive after it was sent,
    /// which follows at once.
    #[must_use]
    pub fn with_latency(mut self) -> NicPort<C> {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("bounds in order");
        let sent_ns = Vec::with_capacity(self.pool.frames_of_all());
        self.latency = Some(Latency { histogram, sent_ns });
        self
    }

    /// The clock, to be set before the trial starts.
    pub fn clock_mut(&mut self) -> &mut C {
        &mut self.clock
    }

    /// Packets received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Packets dropped because no descriptor was free.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// When the next packet arrives, ns from the start; `None` if none will.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.queue.next().map(|number| self.offer.pace.arrival_ns(number))
    }

    /// Whether packets wait that had arrived when the queue was last looked at.
    pub fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The latencies of all packets, if they were recorded.
    pub fn into_latency(self) -> Option<Histogram<u64>> {
        self.latency.map(|latency| latency.histogram)
    }

    /// Packets at these positions, for which there are frames.
    fn fill(&mut self, positions: std::ops::Range<usize>, frames: &mut Vec<Frame>) {
        let Offer { packets, pace, origin } = &self.offer;
        let (arrivals, count) = (packets.arrivals(), packets.len());
        let of_number = |number: u32| match (number as usize) < count {
            true => &arrivals[number as usize],
            false => &arrivals[number as usize % count],
        };
        let numbers = self.queue.arrivals();
        let mut taken = self.pool.take(positions.len());
        frames.extend(positions.map(|position| {
            if let Some(ahead) = numbers.get(position + 2 * AHEAD_PACKETS) {
                Packets::prefetch_arrival(of_number(*ahead), 0);
                packets.prefetch_bytes(of_number(numbers[position + AHEAD_PACKETS]), 0);
            }
            let number = numbers[position];
            let stamp = Stamp {
                seq: origin.seq + u64::from(number),
                time_ns: origin.time_ns + pace.arrival_ns(number),
            };
            taken.fill(packets, of_number(number), stamp)
        }));
    }
}

impl Latency {
    #[inline]
    fn record(&mut self, now_ns: u64) {
        for sent_ns in self.sent_ns.drain(..) {
            self.histogram.saturating_record(now_ns.saturating_sub(sent_ns).max(1));
        }
    }
}

impl<C: Clock> Port for NicPort<C> {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let now_ns = self.clock.now_ns();
        if let Some(latency) = &mut self.latency {
            latency.record(now_ns);
        }
        self.queue.arrive(self.offer.pace.is_due(now_ns));
        let mut wanted = max.min(self.pool.free());
        let before = frames.len();
        while let Some(positions) = self.queue.take(wanted) {
            wanted -= positions.len();
            self.fill(positions, frames);
        }
        let received = frames.len() - before;
        self.received += received as u64;
        match received {
            0 if self.queue.is_over() => Received::End,
            0 => Received::Idle,
            _ => Received::Frames,
        }
    }

    /// The queue's position: all arrivals before this one, counted from 0, were received or dropped. Not the
    /// sum of both, since what is dropped at the tail leaves what waits before it.
    #[inline]
    fn consumed(&self) -> u64 {
        self.queue.consumed() as u64
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    #[inline]
    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        if let Some(latency) = &mut self.latency {
            let origin_ns = self.offer.origin.time_ns;
            latency.sent_ns.extend(frames.iter().map(|frame| frame.stamp.time_ns - origin_ns));
        }
        self.pool.give_back(frames.drain(..));
        Ok(fates.len())
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }
}

#[cfg(test)]
mod tests;
