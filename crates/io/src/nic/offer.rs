//! What is offered to a simulated card in one trial: packets, and when they arrive.

use std::sync::Arc;

use wire::Stamp;

use super::pace::Pace;
use crate::packets::{Arrival, Packets};

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

/// How far ahead of the packets that arrive the trace is asked for.
pub(super) const AHEAD_PACKETS: usize = 64;

impl Packets {
    /// The packet of number `number` of a trial, which goes over the packets round and round.
    #[inline]
    pub(super) fn of_number(&self, number: u32) -> &Arrival {
        let (arrivals, count) = (self.arrivals(), self.len());
        match (number as usize) < count {
            true => &arrivals[number as usize],
            false => &arrivals[number as usize % count],
        }
    }

    /// Asks for what will be read at a trial's numbers some way behind this one, as DMA has it in the cache.
    #[inline]
    pub(super) fn ahead(&self, number: usize) {
        Packets::prefetch_arrival(self.of_number((number + 2 * AHEAD_PACKETS) as u32), 0);
        self.prefetch_bytes(self.of_number((number + AHEAD_PACKETS) as u32), 0);
    }
}
