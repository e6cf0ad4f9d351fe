//! What a core does beside its moves where it has a port of its own: nobody in front of it has looked at packets, so it
//! finds out itself to which entry each of them belongs, and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io::{Frame, Port};
use strategy::Assign;

use crate::path::batch::Batch;
use crate::path::checks::Checks;
use crate::path::packets::all_bits;

/// Packets by entry that a core has received: the core writes, the balancing thread reads.
pub(crate) type Loads = Arc<[AtomicU64]>;

/// See the module.
pub(crate) struct Own {
    assign: Box<dyn Assign>,
    loads: Loads,
    /// Whether the port has ended: nothing will come that has not.
    pub(crate) has_ended: bool,
}

impl Own {
    /// Packets belong to entries as `assign` says.
    pub(crate) fn new(assign: Box<dyn Assign>, loads: Loads) -> Own {
        Own { assign, loads, has_ended: false }
    }

    /// Parses the packets of a batch from the one with this index on, which were just received, and notes their entries.
    #[inline]
    pub(crate) fn note(&mut self, port: &dyn Port, checks: &Checks, batch: &mut Batch, from: usize) {
        let Batch { frames, headers, .. } = batch;
        checks.parse_batch(&frames[from..], &mut headers[from..], |frame| port.bytes(frame));
        for (frame, headers) in frames[from..].iter_mut().zip(&headers[from..]) {
            frame.entry = self.assign.entry(headers);
            let load = &self.loads[usize::from(frame.entry)];
            // There is no other writer.
            load.store(load.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        batch.parsed = all_bits(batch.len()) & !all_bits(from);
    }

    /// Packets that have waited for their flows are stepped as of now. The core that had the flows has stepped earlier
    /// packets of them as of when it received those, which may have been after these came here.
    pub(crate) fn have_come_now(released: &mut [Frame], now_ns: u64) {
        released.iter_mut().for_each(|frame| frame.stamp.time_ns = frame.stamp.time_ns.max(now_ns));
    }
}
