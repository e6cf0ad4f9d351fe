//! Notes in each frame the entry of its packet, whatever strategy dispatches it.

use io::{Closed, Frame};
use strategy::Assign;
use wire::Headers;

use crate::strategies::dispatch::{Dispatcher, Queues};

/// Between packets and the dispatcher of a phase.
pub(super) struct Noting {
    pub(super) inner: Box<dyn Dispatcher>,
    pub(super) entries: Box<dyn Assign>,
}

impl Dispatcher for Noting {
    fn tells_headers(&self) -> bool {
        self.inner.tells_headers()
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        self.inner.tell(headers, frames, queues)
    }

    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        let core = self.inner.dispatch(headers, frame, queues)?;
        frame.entry = self.entries.entry(headers);
        Ok(core)
    }
}
