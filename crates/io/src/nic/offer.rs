//! What comes to a queue of the card.

use std::sync::Arc;

use wire::Stamp;

use super::pace::Pace;
use crate::Packets;

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
