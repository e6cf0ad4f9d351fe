//! When prefixes leave the sets of a chain, and who may change the chain now.

use std::collections::BTreeMap;
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

    /// What is to leave its set by now: by set, so that each is changed once.
    pub(super) fn due(&self, now: Instant) -> BTreeMap<String, Vec<Prefix>> {
        let mut due: BTreeMap<String, Vec<Prefix>> = BTreeMap::new();
        for Expiry { set, prefix, .. } in self.0.iter().filter(|expiry| expiry.at <= now) {
            due.entry(set.clone()).or_default().push(*prefix);
        }
        due
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Times of two sets that take turns: a set that came twice would lack the second time what left it the first.
    #[test]
    fn what_is_due_comes_once_for_each_set() {
        let (changes, now) = (Changes::default(), Instant::now());
        let prefix = |last: u8| (IpAddr::from([192, 0, 2, last]), 32);
        let expiry = |set: &str, last, at| Expiry { at, set: set.to_owned(), prefix: prefix(last) };
        let later = now + Duration::from_secs(1);
        let all = [expiry("a", 1, now), expiry("b", 2, now), expiry("a", 3, now), expiry("b", 4, later)];
        changes.begin().0.extend(all);
        let due = changes.begin().due(now);
        let expected = [("a", vec![prefix(1), prefix(3)]), ("b", vec![prefix(2)])];
        assert_eq!(due, expected.map(|(set, prefixes)| (set.to_owned(), prefixes)).into());
    }
}
