//! Which addresses of this host are the chain's: external addresses of a NAT. Another chain may have others.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a change of addresses waits until it is in force, at most, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

/// Which of this host's addresses the chain has, so that packets to them are not left to the host. Clones are the same one.
#[derive(Clone)]
pub struct ExternalAddresses(Arc<Shared>);

struct Shared {
    asked: Mutex<Asked>,
    /// The change that interfaces go by.
    in_force: AtomicU64,
}

/// What interfaces are to go by.
struct Asked {
    has: Box<dyn Fn(IpAddr) -> bool + Send>,
    /// How often it was changed.
    changes: u64,
}

impl fmt::Debug for ExternalAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAddresses").field("changes", &self.changes()).finish_non_exhaustive()
    }
}

impl ExternalAddresses {
    /// Those of which `has` says so.
    pub fn new(has: impl Fn(IpAddr) -> bool + Send + 'static) -> ExternalAddresses {
        let asked = Mutex::new(Asked { has: Box::new(has), changes: 0 });
        ExternalAddresses(Arc::new(Shared { asked, in_force: AtomicU64::new(0) }))
    }

    /// From here on they are those of which `has` says so. Returns when the interfaces of the port go by it, after some 50 ms;
    /// after a second at most. Says whether they do.
    pub fn change(&self, has: impl Fn(IpAddr) -> bool + Send + 'static) -> bool {
        let change = {
            let mut asked = self.lock();
            let changes = asked.changes + 1;
            *asked = Asked { has: Box::new(has), changes };
            changes
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
        let asked = self.lock();
        addresses.iter().copied().partition(|address| (asked.has)(*address))
    }

    /// How often they were changed.
    pub(crate) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Interfaces go by this change.
    pub(crate) fn are_in_force(&self, change: u64) {
        self.0.in_force.store(change, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
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
