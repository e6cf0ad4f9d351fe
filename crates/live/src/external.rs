//! Which addresses of this host are the chain's: external addresses of a NAT. Another chain may have others.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long whoever changes them waits until the change is in force, at most, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

/// Which of this host's addresses the chain has, so that packets to them are not left to the host. Clones are the same one.
#[derive(Clone)]
pub struct ExternalAddresses(Arc<Shared>);

struct Shared {
    has: Mutex<Box<dyn Fn(IpAddr) -> bool + Send>>,
    /// How often they were changed, and which of the changes interfaces go by.
    changes: AtomicU64,
    in_force: AtomicU64,
}

impl fmt::Debug for ExternalAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAddresses").field("changes", &self.0.changes).finish_non_exhaustive()
    }
}

impl ExternalAddresses {
    /// Those of which `has` says so.
    pub fn new(has: impl Fn(IpAddr) -> bool + Send + 'static) -> ExternalAddresses {
        let (changes, in_force) = (AtomicU64::new(0), AtomicU64::new(0));
        ExternalAddresses(Arc::new(Shared { has: Mutex::new(Box::new(has)), changes, in_force }))
    }

    /// From here on they are those of which `has` says so. Returns when the interfaces of the port go by it, after some 50 ms;
    /// after a second at most. Says whether they do.
    pub fn change(&self, has: impl Fn(IpAddr) -> bool + Send + 'static) -> bool {
        let change = {
            let mut before = self.lock();
            *before = Box::new(has);
            // With the lock, so that nobody takes the ones before for this change.
            self.0.changes.fetch_add(1, Ordering::Relaxed) + 1
        };
        let begin = Instant::now();
        while self.0.in_force.load(Ordering::Relaxed) < change {
            if begin.elapsed() > PATIENCE {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Those of `addresses` that the chain has, and the others.
    pub fn split(&self, addresses: &[IpAddr]) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let has = self.lock();
        addresses.iter().copied().partition(|address| has(*address))
    }

    /// How often they were changed.
    pub(crate) fn changes(&self) -> u64 {
        let _has = self.lock();
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Interfaces go by this change.
    pub(crate) fn are_in_force(&self, change: u64) {
        self.0.in_force.store(change, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Fn(IpAddr) -> bool + Send>> {
        self.0.has.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_waited_for() {
        let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let external = ExternalAddresses::new(move |address| address == a);
        assert_eq!(external.split(&[a, b]), (vec![a], vec![b]));
        thread::scope(|scope| {
            let changing = scope.spawn(|| external.change(move |address| address == b));
            while external.changes() == 0 {
                thread::sleep(LOOK);
            }
            assert_eq!(external.split(&[a, b]), (vec![b], vec![a]));
            external.are_in_force(1);
            assert!(changing.join().expect("no panic"));
        });
        assert!(!external.change(|_| false), "nobody goes by it");
    }
}
