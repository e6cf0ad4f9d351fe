//! Follows one core's packets: which history items are new to it, and which packets it missed.

use core::ops::Range;

use crate::form::Layout;
use crate::history::History;
use crate::rejected::Rejected;

/// Follows the packets of one core: which of their history is new to it, and what never came.
///
/// A replica has stepped every packet up to some number. A packet's history goes back to the core's own last
/// packet, unless that was lost, or others came in between.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The number of the newest packet that the core knows of, its own or another's.
    newest: Option<u64>,
}

/// What a packet with history brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Packets that came neither themselves nor as history: the replica lacks them, and has to get them
    /// elsewhere before it goes on (SCR §3.4). Empty as a rule.
    pub lost: Range<u64>,
    /// How many items, from the oldest, the core has seen: to be left out by
    /// [`History::items_after`], or the first of [`History::item_bytes`].
    pub known: usize,
}

impl Receiver {
    /// For a replica that has stepped every packet before number `seq`; 0 for an empty one.
    pub fn starting_at(seq: u64) -> Receiver {
        Receiver { newest: seq.checked_sub(1) }
    }

    /// Takes the next packet of this core, or a flush, and goes on behind it.
    ///
    /// # Errors
    /// [`Rejected::SequenceGoesBack`] for a number that is not above every number before, where nothing
    /// changes. A flush may come again before the next packet does: it tells nothing new.
    #[inline]
    pub fn accept<L: Layout>(&mut self, history: &History<'_, L>) -> Result<Arrival, Rejected> {
        let seq = history.stamp().seq;
        if self.newest.is_some_and(|newest| seq <= newest) {
            return Err(Rejected::SequenceGoesBack);
        }
        let expected = self.expected();
        let first = history.first_seq();
        // A flush tells of the packets before it, and leaves its number to the next packet.
        self.newest = if history.is_flush() { seq.checked_sub(1) } else { Some(seq) };
        let known = expected.saturating_sub(first).min(history.count() as u64) as usize;
        Ok(Arrival { lost: expected..first.max(expected), known })
    }

    /// The number of the first packet that the core has not seen.
    #[inline]
    pub fn expected(&self) -> u64 {
        self.newest.map_or(0, |newest| newest.saturating_add(1))
    }
}
