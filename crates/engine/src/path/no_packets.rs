//! A port for tests that step batches of their own.

use io::{Closed, Fate, Frame, Port, Received, Waiting};

/// No packet comes, and what is sent is gone.
pub(crate) struct NoPackets {
    says: fn() -> Received,
    /// By wait here, whether the core had waited long by then.
    pub(crate) waited_long: Vec<bool>,
}

impl NoPackets {
    /// Says what receiving comes to.
    pub(crate) fn saying(says: fn() -> Received) -> NoPackets {
        NoPackets { says, waited_long: Vec::new() }
    }

    /// There will be none.
    pub(crate) fn ended() -> NoPackets {
        NoPackets::saying(|| Received::End)
    }
}

impl Port for NoPackets {
    fn receive(&mut self, _: &mut Vec<Frame>, _: usize) -> Received {
        (self.says)()
    }

    fn consumed(&self) -> u64 {
        0
    }

    fn bytes<'a>(&'a self, _: &'a Frame) -> &'a [u8] {
        &[]
    }

    fn buffer_mut<'a>(&'a mut self, _: &'a mut Frame) -> &'a mut [u8] {
        &mut []
    }

    fn idle(&mut self, waiting: &Waiting) {
        self.waited_long.push(waiting.is_long());
        waiting.wait();
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        frames.clear();
        Ok(fates.len())
    }
}
