//! The clocks of cores that share states: how far each core is.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use table::Watermark;

/// How far each core is: cores that share states are not in step.
pub(crate) struct Clocks(Box<[CachePadded<AtomicU64>]>);

impl Clocks {
    pub(crate) fn new(cores: usize) -> Clocks {
        Clocks((0..cores).map(|_| CachePadded::default()).collect())
    }

    /// Says that this core, of all flows that it steps, is past the watermark.
    #[inline]
    pub(crate) fn tick(&self, core: usize, watermark: Watermark) {
        self.0[core].store(watermark.past_ns(), Ordering::Release);
    }

    /// The watermark of all cores together. Reads every core's line: not for each packet.
    pub(crate) fn watermark(&self) -> Watermark {
        let clocks = self.0.iter().map(|clock| clock.load(Ordering::Acquire));
        Watermark::claim(clocks.min().unwrap_or(0))
    }
}
