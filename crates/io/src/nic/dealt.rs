//! A queue of a card whose table is a dispatcher's: where a packet goes is known only when it arrives.
//!
//! ```text
//!   Front (the card) ──► descriptors of core 0 ──► NicPort::dealt
//!                  │          (drops)
//!                  └───► descriptors of core 1 ──► NicPort::dealt
//! ```
//!
//! It drops what a [`Queue`](super::queue::Queue) drops that knew all arrivals ahead: what is between two receives is told at the second, by
//! the packets' times. What is between card and queue has not been looked at yet, and is bounded by how far their clocks are apart alone.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::clock::Clock;
use super::front::{BEHIND_PACKETS, Front, Passed, front};
use super::offer::Offer;

/// A queue of the card for one core alone.
pub struct Dealt {
    wire: Receiver<Passed>,
    /// The first that has not been looked at.
    next: Option<Passed>,
    /// Whether the card has dealt all that it will.
    is_closed: bool,
    descriptors: usize,
    /// The time stamp at the trial's start.
    origin_ns: u64,
    /// Each with its position among this queue's arrivals.
    waiting: VecDeque<(u64, Passed)>,
    /// Arrivals so far, dropped or not.
    arrived: u64,
    dropped: u64,
    /// Packets that arrive ahead of this, ns from the start, are told apart.
    warm_ns: u64,
    early: Early,
}

/// What came to a queue in the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// Packets that came, dropped or not.
    pub arrived: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A card to which the first `count` packets of `offer` come, and which deals each to one of `cores` queues of its own, where
/// `descriptors` packets can wait in each.
///
/// # Panics
/// If there are no descriptors or no memory.
pub fn dealing<C: Clock>(
    offer: Offer,
    count: u32,
    descriptors: usize,
    cores: usize,
    clock: C,
) -> (Front<C>, Vec<Dealt>) {
    assert!(descriptors > 0, "a queue without descriptors");
    let origin_ns = offer.origin.time_ns;
    let (front, _) = front(offer, count, usize::MAX, (cores, BEHIND_PACKETS), clock);
    let (front, wires) = front.dealing();
    let queue = |wire| Dealt {
        wire,
        next: None,
        is_closed: false,
        descriptors,
        origin_ns,
        waiting: VecDeque::with_capacity(descriptors),
        arrived: 0,
        dropped: 0,
        warm_ns: 0,
        early: Early::default(),
    };
    (front, wires.into_iter().map(queue).collect())
}

impl Dealt {
    /// Tells packets apart that arrive ahead of `warm_ns`, ns from the start.
    #[must_use]
    pub fn warm_until(self, warm_ns: u64) -> Dealt {
        Dealt { warm_ns, ..self }
    }

    /// Takes in what has arrived since the last call: the first of them found the descriptors that were free, and the others none.
    pub(super) fn arrive(&mut self, now_ns: u64) {
        while self.next_ns().is_some_and(|arrival_ns| arrival_ns <= now_ns) {
            let Some(passed) = self.next.take() else { return };
            let is_early = u64::from(passed.stamp.time_ns < self.origin_ns + self.warm_ns);
            let is_dropped = u64::from(self.waiting.len() >= self.descriptors);
            if is_dropped == 0 {
                self.waiting.push_back((self.arrived, passed));
            }
            self.arrived += 1;
            self.dropped += is_dropped;
            self.early.arrived += is_early;
            self.early.dropped += is_early * is_dropped;
        }
    }

    /// Takes out the next up to `max`.
    #[inline]
    pub(super) fn take(&mut self, passed: &mut Vec<Passed>, max: usize) {
        let count = max.min(self.waiting.len());
        passed.extend(self.waiting.drain(..count).map(|(_, passed)| passed));
    }

    /// When the next arrives, ns from the start, as far as the card has dealt.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        if self.next.is_none() {
            match self.wire.try_recv() {
                Ok(passed) => self.next = Some(passed),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.is_closed = true,
            }
        }
        self.next.map(|passed| passed.stamp.time_ns - self.origin_ns)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether nothing waits and nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.next.is_none() && self.waiting.is_empty()
    }

    /// The first position that still waits or is yet to arrive: all before it were taken out or dropped.
    #[inline]
    pub(super) fn consumed(&self) -> u64 {
        self.waiting.front().map_or(self.arrived, |(position, _)| *position)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn early(&self) -> Early {
        self.early
    }
}
