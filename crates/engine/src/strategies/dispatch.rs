//! Who sends packets to the cores.

use io::{Closed, Feeder, Frame};
use strategy::Assign;
use wire::Headers;

use crate::path::receive::Intake;

/// Those beside and before the chains of a run: one dispatcher, and an intake for each core.
pub struct Team {
    /// Sends packets to the cores.
    pub dispatcher: Box<dyn Dispatcher>,
    /// By core, what stands before its chain.
    pub intakes: Vec<Box<dyn Intake>>,
}

impl Team {
    /// Packets go where `assign` says, and each core takes what comes.
    pub fn plain(assign: Box<dyn Assign>, cores: usize) -> Team {
        let intakes = (0..cores).map(|_| -> Box<dyn Intake> { Box::new(()) }).collect();
        Team { dispatcher: Box::new(assign), intakes }
    }
}

/// Sends packets to cores, one by one in order of arrival, and tells cores what they must know ahead of a packet.
/// Dropped at the end of the packets, before the cores' queues end.
///
/// Packets that arrive together are told of together, and then sent one by one:
///
/// ```text
///   arrived: 0 1 2 3   tell(0 1 2 3)   dispatch(0), send   dispatch(1), send   ...
/// ```
pub trait Dispatcher: Send {
    /// Whether it looks at headers; if not, nobody need parse for it.
    fn reads_headers(&self) -> bool {
        true
    }

    /// Whether it tells other cores what the headers are, so that it must know of wrong checksums.
    fn tells_headers(&self) -> bool {
        false
    }

    /// Tells other cores of the next packets, at most [`BATCH_PACKETS`](crate::BATCH_PACKETS), ahead of the first of them.
    /// `headers` are of the packets as they were received.
    ///
    /// # Errors
    /// [`Closed`] if the cores take no packets any more.
    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        let _ = (headers, frames, queues);
        Ok(())
    }

    /// Picks the core of the next packet, of which others were told, and notes in the frame to which entry of the indirection table its hash
    /// points. `headers` are of the packet as it was received.
    ///
    /// # Errors
    /// [`Closed`] if the cores take no packets any more.
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed>;
}

/// The cores' queues, as far as a dispatcher has to know them.
pub trait Queues {
    /// Packets that were sent to a core so far.
    fn sent(&self, core: usize) -> u64;

    /// Whether the cores take no packets any more.
    fn is_closed(&self) -> bool;

    /// Has a core that sleeps look at what it was told beside packets.
    fn wake(&self, core: usize) {
        let _ = core;
    }
}

impl Queues for Feeder {
    fn sent(&self, core: usize) -> u64 {
        Feeder::sent(self, core)
    }

    fn is_closed(&self) -> bool {
        Feeder::is_closed(self)
    }
}

/// Packets go where it says.
impl Dispatcher for Box<dyn Assign> {
    fn reads_headers(&self) -> bool {
        (**self).reads_headers()
    }

    #[inline]
    fn dispatch(&mut self, headers: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        frame.entry = self.entry(headers);
        Ok(self.core(frame.entry))
    }
}
