//! Stopwatches: how long a batch of a virtual core took.

use std::time::Instant;

/// Says how long a batch of a virtual core took.
pub(crate) trait Meter: Send {
    /// The batch begins.
    fn begin(&mut self);

    /// It is over, and had so many packets.
    fn end(&mut self, packets: u64) -> Spent;
}

/// What a batch took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) ns: u64,
    /// Whether it took much longer, and a usual time stands here.
    pub(crate) is_slow: bool,
}

/// The clock on the wall, less what the system took for others.
///
/// A batch that takes [`CLIP`] times as long as is usual for its size was interrupted: no packet costs
/// that much more than others. It counts as a usual one, and is counted.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    begin: Instant,
    /// By the logarithm of the packets in a batch, those of other cores included.
    usual: [Usual; SIZES],
}

/// How many times the usual is too much.
const CLIP: f64 = 20.0;

/// Sizes of batches told apart: larger ones count as the largest.
const SIZES: usize = 16;

/// Batches before what is usual is known.
const LEARNING: u32 = 32;

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch { begin: Instant::now(), usual: Default::default() }
    }
}

impl Meter for Stopwatch {
    #[inline]
    fn begin(&mut self) {
        self.begin = Instant::now();
    }

    #[inline]
    fn end(&mut self, packets: u64) -> Spent {
        let ns = self.begin.elapsed().as_nanos() as u64;
        self.spent(ns, packets)
    }
}

impl Stopwatch {
    /// What a batch of so many packets, by the clock on the wall `ns`, took.
    #[inline]
    pub(crate) fn spent(&mut self, ns: u64, packets: u64) -> Spent {
        let size = packets.max(1).ilog2() as usize;
        self.usual[size.min(SIZES - 1)].spent(ns.max(1))
    }
}

/// An estimate of a median that needs no memory: each value moves it a little towards itself, so that it
/// rests where as many are above as below.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    median_ns: f64,
    seen: u32,
}

/// How far a value moves the estimate.
const MOVE: f64 = 1.0 / 32.0;

impl Usual {
    #[inline]
    fn spent(&mut self, ns: u64) -> Spent {
        let is_slow = self.seen >= LEARNING && ns as f64 > CLIP * self.median_ns;
        let spent = Spent { ns: if is_slow { self.median_ns as u64 } else { ns }, is_slow };
        match self.seen {
            0 => self.median_ns = ns as f64,
            _ if ns as f64 > self.median_ns => self.median_ns *= 1.0 + MOVE,
            _ => self.median_ns *= 1.0 - MOVE,
        }
        self.seen = self.seen.saturating_add(1);
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batch_far_beyond_the_usual_is_slow() {
        let mut usual = Usual::default();
        // The first is far off: a page that was not there yet.
        assert_eq!(usual.spent(100_000), Spent { ns: 100_000, is_slow: false });
        for i in 0..1_000 {
            let ns = 900 + i % 200;
            assert_eq!(usual.spent(ns), Spent { ns, is_slow: false });
        }
        assert_eq!(usual.spent(15_000), Spent { ns: 15_000, is_slow: false }, "slow, not impossible");
        let clipped = usual.spent(30_000);
        assert!(clipped.is_slow && (900..1_200).contains(&clipped.ns), "{clipped:?}");
        // What has become usual is no longer clipped.
        let clipped = (0..1_000).filter(|_| usual.spent(30_000).is_slow).count();
        assert!((1..50).contains(&clipped), "{clipped}");
    }
}
