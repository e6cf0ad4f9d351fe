//! The clocks of a trial: the wall's, or a virtual one that is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The time of a trial, ns from its start, as one core sees it.
pub trait Clock: Send {
    /// Whether cores take turns: while one runs, no other does.
    const IS_VIRTUAL: bool;

    /// Now; never less than before.
    fn now_ns(&self) -> u64;
}

/// The clock on the wall.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// When the trial starts; until then it is 0.
    pub start: Instant,
}

impl Clock for WallClock {
    const IS_VIRTUAL: bool = false;

    #[inline]
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A clock that is set from outside: a core that is run in turn with others has its own.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Moves on to `now_ns`; a clock that is later stays.
    #[inline]
    pub fn advance_to(&self, now_ns: u64) {
        self.0.fetch_max(now_ns, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    const IS_VIRTUAL: bool = true;

    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
