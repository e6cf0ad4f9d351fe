//! A port for tests that step batches of their own.

use io::{Closed, Fate, Frame, Port, Received};

/// No packet comes, and what is sent is gone. Says what receiving comes to.
pub(crate) struct NoPackets(pub(crate) fn() -> Received);

impl NoPackets {
    /// There will be none.
    pub(crate) fn ended() -> NoPackets {
        NoPackets(|| Received::End)
    }
}

impl Port for NoPackets {
    fn receive(&mut self, _: &mut Vec<Frame>, _: usize) -> Received {
        (self.0)()
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

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        frames.clear();
        Ok(fates.len())
    }
}
