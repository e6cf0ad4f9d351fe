use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// How far each core is: cores that share states are not in step.
pub(crate) struct Clocks(Box<[CachePadded<AtomicU64>]>);

impl Clocks {
    pub(crate) fn new(cores: usize) -> Clocks {
        Clocks((0..cores).map(|_| CachePadded::default()).collect())
    }

    /// Says that no packet of this core is before `now_ns` any more.
    #[inline]
    pub(crate) fn tick(&self, core: usize, now_ns: u64) {
        self.0[core].store(now_ns, Ordering::Release);
    }

    /// The time before which no core will step. Reads every core's line: not for each packet.
    pub(crate) fn past_ns(&self) -> u64 {
        self.0.iter().map(|clock| clock.load(Ordering::Acquire)).min().unwrap_or(0)
    }
}
