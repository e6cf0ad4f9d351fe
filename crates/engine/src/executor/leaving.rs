//! How packets left.

use io::{Fate, REPLAY_FRAMES_MAX};
use nf::{FiveTuple, FlowKey, hash_bytes};
use zerocopy::IntoBytes;

use crate::executor::reordering::{Reordered, Reordering};
use crate::executor::seen::Seen;
use crate::strategies::egress::Egress;

/// How packets left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EgressOutcome {
    /// In which order.
    pub egress: Egress,
    /// Batches that had to wait on their core since the way out was full: for an earlier packet, or for the thread that
    /// takes packets.
    pub blocked_batches: u64,
    /// How far packets that left, forwarded or sent back, did so out of order; `None` where they were put into it.
    ///
    /// Exact: no more frames fit into the port's memory than [`Reordering`] has a window, and a packet that is in it
    /// keeps those behind it from leaving it.
    pub reordered: Option<Reordered>,
}

/// Looks at packets as they leave, where that is worth a look.
pub struct Watch(Option<Reordering>);

impl Watch {
    /// For packets that leave so.
    pub fn of(egress: Egress) -> Watch {
        Watch((egress == Egress::AsReady).then(|| Reordering::new(REPLAY_FRAMES_MAX)))
    }

    /// A packet leaves, or is dropped and does not count.
    #[inline]
    pub fn see(&mut self, seen: &Seen<'_>) {
        let Watch(Some(reordering)) = self else { return };
        if matches!(seen.fate, Fate::Forward | Fate::TransmitBack) {
            reordering.leave(seen.stamp.seq, flow(seen));
        }
    }

    /// What there is to tell.
    pub fn reordered(&self) -> Option<Reordered> {
        self.0.as_ref().map(Reordering::reordered)
    }
}

/// A hash of the 5-tuple with which a packet leaves: the flow that its receiver sees.
fn flow(seen: &Seen<'_>) -> Option<u64> {
    let headers = wire::parse(seen.link, seen.bytes, seen.wire_len);
    let is_flow = headers.is_ip() && headers.is_well_formed();
    is_flow.then(|| hash_bytes(FiveTuple::of(&headers).as_bytes(), 0))
}
