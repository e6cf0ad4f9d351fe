//! When prefixes leave the sets of a chain, and who may change the chain now.

use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A prefix: its first address, and its length.
pub type Prefix = (IpAddr, u32);

/// Changes of sets, one at a time.
#[derive(Debug, Default)]
pub struct Changes {
    expiries: Mutex<Vec<Expiry>>,
    /// Whether the run is over.
    pub(super) is_over: Mutex<bool>,
    /// Told where there is another expiry, or the run is over.
    pub(super) changed: Condvar,
}

/// When a prefix is to leave its set.
#[derive(Clone, Debug)]
pub(super) struct Expiry {
    pub(super) at: Instant,
    pub(super) set: String,
    pub(super) prefix: Prefix,
}

/// What is kept of expiries while a chain is changed, so that nobody else changes it.
pub(super) struct Changing<'a>(pub(super) MutexGuard<'a, Vec<Expiry>>);

impl Changing<'_> {
    /// Forgets all: the sets are those of another chain.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets one, if there is one.
    pub(super) fn forget(&mut self, set: &str, prefix: Prefix) {
        self.0.retain(|expiry| expiry.set != set || expiry.prefix != prefix);
    }
}

impl Changes {
    /// Has the thread look that takes prefixes out, and end if the run is over.
    pub(super) fn wake(&self, run_is_over: bool) {
        // With the lock: so it either has not looked yet, or waits already.
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over |= run_is_over;
        self.changed.notify_all();
    }

    /// Waits until nobody else changes the chain.
    pub(super) fn begin(&self) -> Changing<'_> {
        Changing(self.expiries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
