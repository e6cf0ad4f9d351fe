//! How long it takes until an update of the indirection table acts: from the table's change until the new core has the
//! entry's flows, and steps its packets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is measured of entries that go from core to core. The dispatcher and the cores write, anybody reads; an entry costs
/// two readings of the clock.
#[derive(Debug)]
pub struct Updates {
    begin: Instant,
    /// By entry, when it was given away last, in ns since the beginning.
    given: Box<[AtomicU64]>,
    acted: AtomicU64,
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// How long updates took to act, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateTimes {
    /// Entries that have come to another core with their flows.
    pub entries: u64,
    /// Until they had, all together.
    pub sum: Duration,
    /// Until they had, on average.
    pub mean: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Updates {
    pub(crate) fn new(entries: usize) -> Updates {
        Updates {
            begin: Instant::now(),
            given: (0..entries).map(|_| AtomicU64::new(0)).collect(),
            acted: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// The table has another core for the entry from now on.
    pub(crate) fn give(&self, entry: u16) {
        if let Some(given) = self.given.get(usize::from(entry)) {
            given.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// The entry's new core has its flows.
    pub(crate) fn act(&self, entry: u16) {
        let Some(given) = self.given.get(usize::from(entry)) else { return };
        // It may have been given away again since: then this is too short, by no more than the other one takes.
        let took_ns = self.now_ns().saturating_sub(given.load(Ordering::Relaxed));
        self.acted.fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// What was measured so far.
    pub fn times(&self) -> UpdateTimes {
        let [entries, sum_ns, longest_ns] =
            [&self.acted, &self.sum_ns, &self.longest_ns].map(|number| number.load(Ordering::Relaxed));
        UpdateTimes {
            entries,
            sum: Duration::from_nanos(sum_ns),
            mean: Duration::from_nanos(sum_ns.checked_div(entries).unwrap_or(0)),
            longest: Duration::from_nanos(longest_ns),
        }
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}
