//! Notes in each frame its packet's value of the hash, whatever strategy dispatches it; counts packets by entry of the indirection
//! table, and ends epochs.

use std::sync::{Arc, Mutex, PoisonError};

use io::{Closed, Frame};
use strategy::{Assign, Schedule};
use wire::{Headers, Stamp};

use crate::strategies::auto::deciding::Deciding;
use crate::strategies::changing::Until;
use crate::strategies::dispatch::{Dispatcher, Queues};

/// Between packets and the dispatcher of a phase.
pub(super) struct Noting {
    pub(super) inner: Box<dyn Dispatcher>,
    /// Values of the hash: their lowest bits are entries.
    pub(super) values: Box<dyn Assign>,
    /// Whether frames are to have them, and not what the strategy notes.
    pub(super) notes: bool,
    /// The epochs of a phase that ends when it is decided so.
    pub(super) epochs: Option<Epochs>,
}

/// Ends epochs.
pub(super) struct Epochs {
    pub(super) schedule: Schedule,
    /// Packets of this epoch, by entry: a power of two.
    pub(super) loads: Vec<u64>,
    pub(super) deciding: Arc<Mutex<Deciding>>,
    pub(super) until: Until,
}

impl Epochs {
    #[inline]
    fn count(&mut self, value: u16, stamp: Stamp) {
        if self.schedule.is_due(stamp.time_ns) {
            self.end(stamp.seq);
        }
        self.schedule.count();
        let entry = usize::from(value) & (self.loads.len() - 1);
        self.loads[entry] += 1;
    }

    /// The packet with this number is the first of the next epoch.
    #[cold]
    fn end(&mut self, seq: u64) {
        let mut deciding = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        if deciding.end_epoch(&self.loads) {
            self.until.lower(seq + 1);
        }
        self.loads.fill(0);
    }
}

impl Dispatcher for Noting {
    fn tells_headers(&self) -> bool {
        self.inner.tells_headers()
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        self.inner.tell(headers, frames, queues)
    }

    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        let core = self.inner.dispatch(headers, frame, queues)?;
        let value = self.values.entry(headers);
        if self.notes {
            frame.entry = value;
        }
        if let Some(epochs) = &mut self.epochs {
            epochs.count(value, frame.stamp);
        }
        Ok(core)
    }
}
