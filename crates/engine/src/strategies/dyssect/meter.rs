//! What cores tell the controller of their time, where it has to know.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of each power of two, as a power of two: a wait is known to an eighth.
const PARTS_LOG2: u32 = 3;
const PARTS: usize = 1 << PARTS_LOG2;
/// Classes of waits, up to 2^64 ns.
const WAITS: usize = (64 - PARTS_LOG2 as usize + 1) * PARTS;

/// Busy time and packets of all cores since the run began, and how long packets waited in the period at hand.
#[derive(Debug)]
pub(super) struct Meter {
    busy_ns: AtomicU64,
    packets: AtomicU64,
    /// By class of the wait, packets.
    waits: Box<[AtomicU64; WAITS]>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            busy_ns: AtomicU64::default(),
            packets: AtomicU64::default(),
            waits: Box::new([const { AtomicU64::new(0) }; WAITS]),
        }
    }
}

impl Meter {
    /// What a packet takes in the mean, ns; `None` before the first.
    pub(super) fn service_ns(&self) -> Option<f64> {
        let (busy_ns, packets) = (self.busy_ns.load(Ordering::Relaxed), self.packets.load(Ordering::Relaxed));
        (packets > 0).then(|| busy_ns as f64 / packets as f64)
    }

    pub(super) fn add(&self, busy_ns: u64, packets: u64) {
        self.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        self.packets.fetch_add(packets, Ordering::Relaxed);
    }

    /// So many packets waited no longer than this.
    pub(super) fn add_wait(&self, wait_ns: u64, packets: u64) {
        self.waits[class_of(wait_ns)].fetch_add(packets, Ordering::Relaxed);
    }

    /// How long 99 in 100 packets waited at most since this was asked last, µs, rounded up to an eighth; `None` where no wait is
    /// known.
    pub(super) fn take_p99_us(&self) -> Option<f64> {
        let waits: Vec<u64> = self.waits.iter().map(|wait| wait.swap(0, Ordering::Relaxed)).collect();
        let beyond = waits.iter().sum::<u64>() / 100;
        let mut left = waits.iter().sum::<u64>();
        let class = waits.iter().position(|packets| {
            left -= packets;
            *packets > 0 && left <= beyond
        })?;
        Some(longest_of(class) as f64 / 1e3)
    }
}

fn class_of(wait_ns: u64) -> usize {
    // Waits below are classes of their own.
    let Some(log2) = wait_ns.checked_ilog2().filter(|log2| *log2 >= PARTS_LOG2) else {
        return wait_ns as usize;
    };
    let part = (wait_ns >> (log2 - PARTS_LOG2)) as usize;
    (log2 - PARTS_LOG2) as usize * PARTS + part
}

/// The longest wait of a class, ns.
fn longest_of(class: usize) -> u64 {
    match class.checked_sub(PARTS) {
        None => class as u64,
        Some(above) => {
            let (shift, part) = (above / PARTS, (above % PARTS + PARTS) as u128);
            (((part + 1) << shift) - 1) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_p99_is_of_the_period_and_by_packets() {
        let meter = Meter::default();
        assert_eq!(meter.take_p99_us(), None);
        meter.add_wait(1_000, 98);
        meter.add_wait(900_000, 2);
        assert_eq!(meter.take_p99_us(), Some(917.503));
        meter.add_wait(1_000, 99);
        meter.add_wait(900_000, 1);
        assert_eq!(meter.take_p99_us(), Some(1.023));
        assert_eq!(meter.take_p99_us(), None, "another period");
    }

    proptest! {
        #[test]
        fn a_wait_is_known_to_an_eighth(wait_ns in prop_oneof![0u64..64, any::<u64>()]) {
            let longest = longest_of(class_of(wait_ns));
            prop_assert!(longest >= wait_ns && longest - wait_ns <= wait_ns / 8, "{wait_ns} {longest}");
            prop_assert!(class_of(longest) == class_of(wait_ns) && class_of(wait_ns) < WAITS);
            prop_assert!(longest == u64::MAX || class_of(longest + 1) == class_of(wait_ns) + 1);
        }
    }
}
