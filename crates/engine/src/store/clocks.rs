//! The clocks of cores that share states: how far each core is.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use table::Horizon;

/// How far each core is: cores that share states are not in step.
pub(crate) struct Clocks(Box<[CachePadded<AtomicU64>]>);

impl Clocks {
    pub(crate) fn new(cores: usize) -> Clocks {
        Clocks((0..cores).map(|_| CachePadded::default()).collect())
    }

    /// Says that this core, of all flows that it steps, is past the horizon.
    #[inline]
    pub(crate) fn tick(&self, core: usize, horizon: Horizon) {
        self.0[core].store(horizon.past_ns(), Ordering::Release);
    }

    /// The horizon of all cores together. Reads every core's line: not for each packet.
    pub(crate) fn horizon(&self) -> Horizon {
        let clocks = self.0.iter().map(|clock| clock.load(Ordering::Acquire));
        Horizon::claim(clocks.min().unwrap_or(0))
    }
}
