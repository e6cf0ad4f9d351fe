//! Who sends packets to the cores.

use io::{Closed, Feeder, Frame, Reference};
use strategy::{Assign, Move};
use wire::{Headers, Stamp};

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

/// What stands beside and before the chains of cores that have ports of their own, where a card or a program in front of the ports spreads
/// packets by a table of which entries move.
pub struct OwnTeam {
    /// Moves entries.
    pub rebalancer: Box<dyn Rebalancer>,
    /// By core, what stands before its chain.
    pub intakes: Vec<Box<dyn Intake>>,
}

/// Moves entries of a table, and has their flows follow. Called on a thread beside the cores.
pub trait Rebalancer: Send {
    /// Whether no entry is on its way.
    fn is_settled(&self) -> bool;

    /// Looks at the loads, and begins to move entries if it is time to. Called when all is settled. `time_ns` is the time,
    /// ns since 1970.
    ///
    /// # Errors
    /// [`TableError`] if the table could not be changed.
    fn look(&mut self, time_ns: u64, table: &mut dyn Table) -> Result<(), TableError>;

    /// Begins to move all entries to the cores that they had at first, and says whether there are any to move. Called when
    /// all is settled.
    ///
    /// # Errors
    /// As [`Rebalancer::look`].
    fn go_home(&mut self, time_ns: u64, table: &mut dyn Table) -> Result<bool, TableError>;
}

/// The table by which a card or a program in front of the ports of cores spreads packets.
pub trait Table: Send {
    /// Gives entries to other cores. When it returns, all packets that went by the table before are in the queues of their
    /// core's port, and no more will come there.
    ///
    /// # Errors
    /// [`TableError`] says why the table could not be changed.
    fn give(&mut self, moves: &[Move]) -> Result<(), TableError>;
}

/// Why a table could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entries of the indirection table could not be moved: {0}")]
pub struct TableError(pub String);

/// Those behind a card that steers: it sends packets that all cores are told of to a sequencer, and all others to their core.
/// A core has two queues then (see [`io::Port::receive_beside`]), and the sequencer's dispatcher sees no other packets.
pub struct SteeredTeam {
    /// The card's table, and who changes it.
    pub card: Box<dyn Steer>,
    /// The sequencer's. It is told of the hash: frames have the entry that their packet's hash points to.
    pub sequencer: Box<dyn Dispatcher>,
    /// By core, what stands before its chain.
    pub intakes: Vec<Box<dyn Intake>>,
}

/// A card that steers, and who decides on changes of its table, of which the others are told ahead.
pub trait Steer: Send {
    /// Where the next packet goes, in order of arrival: its stamp has the number of its arrival. `sent` says by core how many packets
    /// came to its queue.
    fn steer(&mut self, entry: u16, stamp: Stamp, sent: &[u64]) -> Steered;
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// The core whose queue it comes to; or to the sequencer, with its number among the entries that are promoted.
    pub place: Result<usize, u16>,
    /// Whether something was decided ahead of it.
    pub is_decided: bool,
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

    /// Whether a card looks up the flows of packets ahead of it.
    fn refers(&self) -> bool {
        false
    }

    /// What that card says of the next packet's flow. `headers` are of the packet as it was received.
    fn refer(&mut self, headers: &Headers) -> Reference {
        let _ = headers;
        Reference::NONE
    }

    /// Carries out what a card that [steers](Steer) was told of. All packets with lower numbers than this stamp's, which is no later
    /// than now, have come or never will. Called between two batches, also where no packets come.
    fn attend(&mut self, stamp: Stamp) {
        let _ = stamp;
    }

    /// Tells other cores of the next packets, at most [`BATCH_PACKETS`](crate::BATCH_PACKETS), ahead of the first of them.
    /// `headers` are of the packets as they were received.
    ///
    /// # Errors
    /// [`Closed`] if the cores take no packets any more. Then nothing was told of these packets.
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

/// Waits until the cores have made room.
///
/// # Errors
/// [`Closed`] if they take no packets any more.
#[inline]
pub(crate) fn wait_for_room(queues: &dyn Queues, mut has_room: impl FnMut() -> bool) -> Result<(), Closed> {
    while !has_room() {
        if queues.is_closed() {
            return Err(Closed);
        }
        io::give_way();
    }
    Ok(())
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
