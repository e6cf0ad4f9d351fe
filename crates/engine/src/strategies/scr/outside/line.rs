//! The line on which cores hear how far the sequencer is, beside their packets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// What cores hear beside their packets.
///
/// A sequencer that has nothing to send flushes its cores again and again, so that none waits for what will not come.
/// Where packets are read from files, or lost on purpose, that would be lost time: here cores are told what a flush
/// would tell them.
pub(crate) struct Line {
    /// By core: no item of a lower number comes to it behind what is in its queue.
    floors: Box<[CachePadded<AtomicU64>]>,
    /// A core is gone before its time, so that nobody must wait for it.
    is_down: AtomicBool,
}

impl Line {
    pub(crate) fn new(cores: usize) -> Line {
        let floors = (0..cores).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Line { floors, is_down: AtomicBool::new(false) }
    }

    /// Told ahead of the next packet to any core, and behind those before.
    pub(crate) fn raise(&self, core: usize, floor: u64) {
        self.floors[core].store(floor, Ordering::Release);
    }

    /// Asked before a look into the queue: what is in it now is before what this says.
    pub(crate) fn floor(&self, core: usize) -> u64 {
        self.floors[core].load(Ordering::Acquire)
    }

    pub(crate) fn go_down(&self) {
        self.is_down.store(true, Ordering::Release);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Acquire)
    }
}
