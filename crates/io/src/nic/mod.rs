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
//! in the trial. A number's time follows from the [`Pace`]. Or all packets come to the queue of one core that stands in
//! front of the others and passes them on ([`Front`]); or to one queue from which all cores take them ([`Common`]). Where a dispatcher's
//! decisions depend on what cores do meanwhile, the card deals packets as they arrive ([`dealing`]).
//!
//! Not like a card: a packet is copied into its frame when it is received, by the core, and the copy is in
//! the core's time, a few nanoseconds; the trace is asked for ahead, as DMA would have it in the cache.
//! Sending is free of charge and never waits.

mod clock;
mod common;
mod dealt;
mod front;
mod offer;
mod pace;
mod queue;

use hdrhistogram::Histogram;
use wire::Stamp;

pub use self::clock::{Clock, VirtualClock, WallClock};
pub use self::common::Common;
pub use self::dealt::{Dealt, Early, dealing};
use self::front::Passed;
pub use self::front::{BEHIND_PACKETS, Behind, Front, Full, front, steered_front};
use self::offer::AHEAD_PACKETS;
pub use self::offer::Offer;
pub use self::pace::{Pace, Shape};
use self::queue::Queue;
use crate::pool::Pool;
use crate::{Closed, Fate, Foreign, Frame, Packets, Port, Received, Reference};

/// One queue of a simulated card.
pub struct NicPort<C> {
    offer: Offer,
    clock: C,
    source: Source,
    /// What a front passes on beside what comes from the card, where there are both.
    beside: Option<(Behind, Vec<Passed>)>,
    /// Whether packets get the references that a front passes on with them.
    has_references: bool,
    pool: Pool,
    received: u64,
    latency: Option<Latency>,
}

/// Where a queue's packets come from.
enum Source {
    /// The card, at times that the pace says.
    Card(Queue),
    /// A core in front, with those that were taken from it last.
    Front(Behind, Vec<Passed>),
    /// The card, which deals packets as they arrive, with those that were taken last.
    Dealt(Dealt, Vec<Passed>),
    /// A queue that other ports have as well; one of them counts what the card drops.
    Common { common: Common, counts: bool },
}

/// From arrival to leaving, ns.
struct Latency {
    histogram: Histogram<u64>,
    /// Packets that arrived before this time, ns, are not recorded.
    from_ns: u64,
    /// Arrival times of what was sent since the clock was read.
    sent_ns: Vec<u64>,
}

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

    /// A queue whose frames are of `pool`, which may share its memory with those of other queues.
    ///
    /// # Panics
    /// If there are no descriptors, or a packet is longer than the frames of the pool.
    pub fn in_pool(offer: Offer, arrivals: Vec<u32>, descriptors: usize, pool: Pool, clock: C) -> NicPort<C> {
        assert!(descriptors > 0, "a queue without descriptors");
        debug_assert!(arrivals.is_sorted());
        pool.assert_fits(&offer.packets);
        NicPort::from(Source::Card(Queue::new(arrivals, descriptors)), offer, pool, clock)
    }

    /// A queue to which a core in front passes packets on; `offer` and `frames` as above.
    ///
    /// # Panics
    /// If there are no frames, or no memory for them.
    pub fn behind(offer: Offer, behind: Behind, frames: usize, clock: C) -> NicPort<C> {
        let pool = Pool::for_packets(&offer.packets, frames);
        NicPort::from(Source::Front(behind, Vec::with_capacity(frames)), offer, pool, clock)
    }

    /// A queue behind a front, whose frames are of `pool`, which may share its memory with those of other queues,
    /// and with the references that the front puts before packets.
    ///
    /// # Panics
    /// If a packet is longer than the frames of the pool.
    pub fn behind_in_pool(offer: Offer, behind: Behind, pool: Pool, clock: C) -> NicPort<C> {
        pool.assert_fits(&offer.packets);
        let passed = Vec::with_capacity(pool.frames_of_all());
        let port = NicPort::from(Source::Front(behind, passed), offer, pool, clock);
        NicPort { has_references: true, ..port }
    }

    /// A queue of a card that deals packets as they arrive, with a pool of its own choice, and with the references that the card puts before
    /// packets.
    ///
    /// # Panics
    /// If a packet is longer than the frames of the pool.
    pub fn dealt(offer: Offer, dealt: Dealt, pool: Pool, clock: C) -> NicPort<C> {
        pool.assert_fits(&offer.packets);
        let taken = Vec::with_capacity(pool.frames_of_all());
        let port = NicPort::from(Source::Dealt(dealt, taken), offer, pool, clock);
        NicPort { has_references: true, ..port }
    }

    /// A queue that other ports have as well; `offer` and `frames` as above. What the card drops is counted where `counts`.
    ///
    /// # Panics
    /// If there are no frames, or no memory for them.
    pub fn common(offer: Offer, common: Common, counts: bool, frames: usize, clock: C) -> NicPort<C> {
        let pool = Pool::for_packets(&offer.packets, frames);
        NicPort::from(Source::Common { common, counts }, offer, pool, clock)
    }

    fn from(source: Source, offer: Offer, pool: Pool, clock: C) -> NicPort<C> {
        let (beside, has_references, received, latency) = (None, false, 0, None);
        NicPort { offer, clock, source, beside, has_references, pool, received, latency }
    }

    /// With a second queue, which [`Port::receive_beside`] takes from: what a core in front passes on.
    #[must_use]
    pub fn beside(mut self, behind: Behind) -> NicPort<C> {
        self.beside = Some((behind, Vec::with_capacity(self.pool.frames_of_all())));
        self
    }

    /// Packets that came by the second queue.
    pub fn received_beside(&self) -> u64 {
        self.beside.as_ref().map_or(0, |(behind, _)| behind.taken)
    }

    /// Whether a core in front may pass something on at any time.
    pub fn has_beside(&self) -> bool {
        self.beside.as_ref().is_some_and(|(behind, _)| !behind.end.is_abandoned())
    }

    /// Records the latency of each packet that arrives at `from_ns` of the trial or later: from its arrival to the first receive
    /// after it was sent, which follows at once.
    #[must_use]
    pub fn with_latency(mut self, from_ns: u64) -> NicPort<C> {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("bounds in order");
        let sent_ns = Vec::with_capacity(self.pool.frames_of_all());
        self.latency = Some(Latency { histogram, from_ns, sent_ns });
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
        match &self.source {
            Source::Card(queue) => queue.dropped(),
            Source::Dealt(dealt, _) => dealt.dropped(),
            Source::Common { common, counts: true } => common.dropped(),
            Source::Front(..) | Source::Common { .. } => 0,
        }
    }

    /// What came in the warm-up, where a card deals ([`Dealt::warm_until`]).
    pub fn early(&self) -> Early {
        match &self.source {
            Source::Dealt(dealt, _) => dealt.early(),
            Source::Card(_) | Source::Front(..) | Source::Common { .. } => Early::default(),
        }
    }

    /// Has what has come by now take descriptors, or be dropped, where a card deals. The card does that beside the core: it is no part of
    /// the core's time. Called ahead of each turn of the core, also where that receives nothing.
    pub fn arrive(&mut self) {
        if let Source::Dealt(dealt, _) = &mut self.source {
            dealt.arrive(self.clock.now_ns());
        }
    }

    /// When the next packet comes, ns from the start; `None` if none will, and where only the core in front knows.
    pub fn next_arrival_ns(&mut self) -> Option<u64> {
        let beside = self.beside.as_mut().and_then(|(behind, _)| behind.next_ns());
        let next = match &mut self.source {
            Source::Card(queue) => queue.next().map(|number| self.offer.pace.arrival_ns(number)),
            Source::Front(behind, _) => behind.next_ns(),
            Source::Dealt(dealt, _) => dealt.next_ns(),
            Source::Common { common, .. } => common.next_ns(&self.offer),
        };
        next.into_iter().chain(beside).min()
    }

    /// Whether packets wait that had come when the queue was last looked at.
    pub fn is_waiting(&mut self) -> bool {
        let now_ns = self.clock.now_ns();
        let is_ready = |behind: &mut Behind| behind.next_ns().is_some_and(|ready_ns| ready_ns <= now_ns);
        let waits_beside = self.beside.as_mut().is_some_and(|(behind, _)| is_ready(behind));
        waits_beside
            || match &mut self.source {
                Source::Card(queue) => !queue.is_empty(),
                Source::Front(behind, _) => is_ready(behind),
                Source::Dealt(dealt, _) => !dealt.is_empty(),
                Source::Common { common, .. } => common.is_waiting(now_ns),
            }
    }

    /// The latencies of all packets, if they were recorded.
    pub fn into_latency(self) -> Option<Histogram<u64>> {
        self.latency.map(|latency| latency.histogram)
    }

    fn count(&mut self, received: usize, may_come: bool) -> Received {
        self.received += received as u64;
        match received {
            0 if may_come => Received::Idle,
            0 => Received::End,
            _ => Received::Frames,
        }
    }

    /// Takes up to `max` of those that wait, as far as there are frames; says whether more may come.
    fn take(&mut self, frames: &mut Vec<Frame>, max: usize, now_ns: u64) -> bool {
        let NicPort { offer, source, pool, has_references, .. } = self;
        let mut wanted = max.min(pool.free());
        match source {
            Source::Card(queue) => {
                queue.arrive(offer.pace.is_due(now_ns));
                while let Some(positions) = queue.take(wanted) {
                    wanted -= positions.len();
                    fill(offer, pool, queue.arrivals(), positions, frames);
                }
                !queue.is_over()
            }
            Source::Common { common, .. } => {
                common.take(offer, wanted, (now_ns, C::IS_VIRTUAL), |number, stamp| {
                    offer.packets.prefetch_bytes(offer.packets.of_number(number), 0);
                    frames.push(Frame::of_arrival(stamp, number));
                })
            }
            Source::Front(behind, passed) => {
                take_passed(offer, (pool, *has_references), (behind, passed), frames, wanted, now_ns)
            }
            Source::Dealt(dealt, taken) => {
                dealt.arrive(now_ns);
                dealt.take(taken, wanted);
                fill_referred(offer, (pool, *has_references), taken, frames);
                !dealt.is_over()
            }
        }
    }
}

/// Takes up to `max` of those that a front has passed on, with references or without; says whether more may come.
fn take_passed(
    offer: &Offer,
    (pool, has_references): (&mut Pool, bool),
    (behind, passed): (&mut Behind, &mut Vec<Passed>),
    frames: &mut Vec<Frame>,
    max: usize,
    now_ns: u64,
) -> bool {
    // Asked before: a front that is gone has passed on all that it will.
    let may_come = !behind.end.is_abandoned();
    behind.take(passed, max, now_ns);
    fill_referred(offer, (pool, has_references), passed, frames);
    may_come || !behind.end.is_empty()
}

/// Packets that a front has passed on, for which there are frames, with references or without.
fn fill_referred(
    offer: &Offer,
    (pool, has_references): (&mut Pool, bool),
    passed: &mut Vec<Passed>,
    frames: &mut Vec<Frame>,
) {
    let before = frames.len();
    fill_passed(offer, pool, passed, frames);
    if has_references {
        for (frame, passed) in frames[before..].iter_mut().zip(&*passed) {
            pool.refer(frame, passed.reference);
        }
    }
    passed.clear();
}

/// Packets at these positions, for which there are frames.
fn fill(
    Offer { packets, pace, origin }: &Offer,
    pool: &mut Pool,
    numbers: &[u32],
    positions: std::ops::Range<usize>,
    frames: &mut Vec<Frame>,
) {
    let mut taken = pool.take(positions.len());
    frames.extend(positions.map(|position| {
        if let Some(ahead) = numbers.get(position + 2 * AHEAD_PACKETS) {
            Packets::prefetch_arrival(packets.of_number(*ahead), 0);
            packets.prefetch_bytes(packets.of_number(numbers[position + AHEAD_PACKETS]), 0);
        }
        let number = numbers[position];
        let stamp =
            Stamp { seq: origin.seq + u64::from(number), time_ns: origin.time_ns + pace.arrival_ns(number) };
        taken.fill(packets, packets.of_number(number), stamp)
    }));
}

/// Packets that a front has passed on, for which there are frames.
fn fill_passed(Offer { packets, .. }: &Offer, pool: &mut Pool, passed: &[Passed], frames: &mut Vec<Frame>) {
    // The front's core has them in its cache, not this one.
    passed.iter().for_each(|passed| packets.prefetch_bytes(packets.of_number(passed.number), 0));
    let mut taken = pool.take(passed.len());
    frames.extend(passed.iter().map(|Passed { stamp, number, entry, note, .. }| Frame {
        entry: *entry,
        note: *note,
        ..taken.fill(packets, packets.of_number(*number), *stamp)
    }));
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
        let before = frames.len();
        let may_come = self.take(frames, max, now_ns);
        self.count(frames.len() - before, may_come)
    }

    fn receive_beside(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let now_ns = self.clock.now_ns();
        let before = frames.len();
        let Some((behind, passed)) = &mut self.beside else { return Received::End };
        let max = max.min(self.pool.free());
        let may_come =
            take_passed(&self.offer, (&mut self.pool, false), (behind, passed), frames, max, now_ns);
        self.count(frames.len() - before, may_come)
    }

    /// The packets of a queue that others have as well come to this core.
    fn fetch(&mut self, frames: &mut [Frame]) {
        let NicPort { offer: Offer { packets, .. }, source: Source::Common { .. }, pool, .. } = self else {
            return;
        };
        let mut taken = pool.take(frames.len());
        for frame in frames {
            *frame = taken.fill(packets, packets.of_number(frame.place.first_line), frame.stamp);
        }
    }

    /// The queue's position: all arrivals before this one, counted from 0, were received or dropped. Not the
    /// sum of both, since what is dropped at the tail leaves what waits before it.
    #[inline]
    fn consumed(&self) -> u64 {
        match &self.source {
            Source::Card(queue) => queue.consumed() as u64,
            Source::Front(behind, _) => behind.taken,
            Source::Dealt(dealt, _) => dealt.consumed(),
            Source::Common { .. } => self.received,
        }
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    #[inline]
    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.pool.references(frames, references);
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
            let arrived = frames.iter().map(|frame| frame.stamp.time_ns - origin_ns);
            latency.sent_ns.extend(arrived.filter(|arrived_ns| *arrived_ns >= latency.from_ns));
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
