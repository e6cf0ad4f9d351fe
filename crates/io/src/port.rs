//! The contract of a port: one queue that packets are received from and sent to in batches.

use wire::AnswerTo;

use crate::{Frame, Reference, StampClock, Waiting};

/// One receive and transmit queue of something packets come from: one core's, and nobody else's.
///
/// A network card's ring, an AF_XDP socket's shared memory and a capture's replay fit alike. To write one, put its
/// frames into a [`Pool`](crate::Pool), which keeps the rules for buffers, and hold it to [`port_contract`].
///
/// # The contract
///
/// A [`Frame`] is a token for a buffer. Receiving moves tokens, not bytes; so does sending.
///
/// 1. **One holder.** There is one token for each buffer that is out. Who holds it may read and write the buffer, and
///    nobody else does. The *port that holds* a frame is the one that received it or took it over last.
/// 2. **Each frame leaves once.** A frame that [`transmit`](Port::transmit) took leaves once, or is dropped once, as its
///    fate says. The port lets go of it then.
/// 3. **Back-pressure.** `transmit` takes frames from the front, as many as there is room for, and says how many. The
///    others stay in the list, in order, and the caller still holds them: it tries again, or holds on to them.
///    A port never drops a frame for want of room.
/// 4. **Buffers go home.** A buffer goes back to the pool that it came from, whichever port sends the frame: at once, or
///    when the packet has left. A pool is as large after a run as before.
/// 5. **Foreign frames.** A frame that one port received may be stepped and sent by another, on the same core or on
///    another one. The first [hands it over](Port::hand_over), the second [takes it over](Port::take_over): frames that
///    arrive at one interface and leave by another go this way, and frames whose core gives them to another core. Ports
///    take over only frames whose bytes they can reach, those of pools that [share memory](crate::Pool::shared);
///    others they refuse.
/// 6. **A port that is gone.** [`Closed`] means that no frame will ever be taken. The caller still holds those that were
///    not, and can hand them over to the port that they came from and send them there, to be dropped.
/// 7. **The data path.** No method allocates, locks or prints, and only [`send`](Port::send) and [`idle`](Port::idle)
///    wait.
///
/// [`port_contract`]: crate::contract::port_contract
pub trait Port: Send {
    /// Appends up to `max` frames that have arrived, in order of arrival. Does not wait.
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received;

    /// Receives as [`Port::receive`] does, from the queue beside this one, where a core has two: packets that a
    /// sequencer in front of it passes on come there.
    fn receive_beside(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let _ = (frames, max);
        Received::End
    }

    /// How many packets of this queue have been received so far, or were dropped before they could be.
    fn consumed(&self) -> u64;

    /// Notes how far this port's queues have come: to what is in them now. Says the number of the mark. For ports that
    /// [several](crate::Pool::peers) cores have beside each other, of a run in which flows go from one to another.
    fn mark(&mut self) -> u64 {
        1
    }

    /// The last [mark](Port::mark) up to which all packets were received, and left if they were to. Asked between two
    /// batches. A port that has no marks never comes to one.
    fn passed(&mut self) -> u64 {
        0
    }

    /// The bytes of a packet that the port holds.
    ///
    /// # Panics
    /// If the port cannot reach them: see [`Port::take_over`].
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8];

    /// What a card said of the flows of packets that the port holds, as they were received: `references[i]` is of `frames[i]`. Asked
    /// only where there may be such a card. Any answer does no harm; what a port says that has no room for it is none.
    ///
    /// # Panics
    /// As [`Port::bytes`].
    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        references[..frames.len()].fill(Reference::NONE);
    }

    /// The buffer around the packet, with room for headers to grow; the packet is at
    /// [`Frame::data`].
    ///
    /// # Panics
    /// As [`Port::bytes`].
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8];

    /// Takes frames that the port holds, from the front, and says how many; `fates[i]` is what is to become of the
    /// *i*-th. Those that it did not take stay in `frames`, in order. Does not wait.
    ///
    /// # Errors
    /// [`Closed`] if nobody will ever take frames again. `frames` is as it was.
    ///
    /// # Panics
    /// If there are not as many fates as frames.
    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed>;

    /// [Transmits](Port::transmit) all frames, and leaves `frames` empty. Waits where the other side is slow.
    ///
    /// # Errors
    /// [`Closed`] if nobody will ever take frames again. `frames` is empty then, too.
    ///
    /// # Panics
    /// As [`Port::transmit`].
    #[inline]
    fn send(&mut self, frames: &mut Vec<Frame>, mut fates: &[Fate]) -> Result<(), Closed> {
        let waiting = Waiting::default();
        while !frames.is_empty() {
            match self.transmit(frames, fates) {
                Ok(0) => waiting.wait(),
                Ok(taken) => {
                    fates = &fates[taken..];
                    waiting.over();
                }
                Err(Closed) => {
                    frames.clear();
                    return Err(Closed);
                }
            }
        }
        Ok(())
    }

    /// Takes over frames that another port [handed over](Port::hand_over): this one holds them from now on. Said once
    /// for each frame, before anything else is done with it here.
    ///
    /// # Errors
    /// [`Foreign`] if the port cannot reach the bytes of one of them; it takes over none then. The ports that a core
    /// has are known at start, so this is a mistake in how they were made. It is what a port says that takes no
    /// foreign frames.
    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        if frames.is_empty() { Ok(()) } else { Err(Foreign) }
    }

    /// Lets go of frames that another port takes over. In between no port holds them: the core that carries them
    /// has to notice when the core that was to take them over is gone.
    fn hand_over(&mut self, frames: &[Frame]) {
        let _ = frames;
    }

    /// Nothing has arrived: waits a moment, longer each time, or until something arrives; some milliseconds at most, since
    /// the caller has other things to look after. `waiting` knows how often it was so.
    fn idle(&mut self, waiting: &Waiting) {
        waiting.wait();
    }

    /// Does ahead of [`Port::receive`] what need not be done while others wait to receive from the same queue.
    /// Cores that receive in turns call it; a port with a queue of its own does all of it in `receive`.
    fn prepare(&mut self) {}

    /// Does with frames just received what need not be done while others wait to receive from the same queue. Cores
    /// that receive in turns call it once for them, ahead of all else; a port with a queue of its own has nothing
    /// left to do.
    fn fetch(&mut self, frames: &mut [Frame]) {
        let _ = frames;
    }

    /// The clock that stamps packets as they arrive, where one does; the packets of a capture bring their times along.
    fn clock(&self) -> Option<StampClock> {
        None
    }

    /// Says what is to be done about which drops, from the next packet on. A port that sends no answers and has no log does
    /// nothing about it. Allocates: not for the data path.
    fn mark_drops(&mut self, drops: &MarkedDrops) {
        let _ = drops;
    }

    /// How it stands with the receive queue, as [`Port::receive`] found it last.
    fn queue(&self) -> Queue {
        Queue::default()
    }
}

/// A port cannot reach the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the frame's bytes are in memory that this port cannot reach: make the pools of both by Pool::shared"
)]
pub struct Foreign;

/// The receive queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Queue {
    /// Packets that waited when they were last received, those included that were received then; `None`
    /// where the port does not know.
    pub depth: Option<u32>,
    /// Packets lost so far because the queue was full.
    pub lost: u64,
}

/// What [`Port::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one frame.
    Frames,
    /// Nothing now.
    Idle,
    /// Nothing, ever again.
    End,
}

/// A frame that has been worked on, as it comes out of a [`Collector`](crate::Collector).
#[derive(Debug)]
pub struct Done {
    /// The frame.
    pub frame: Frame,
    /// What becomes of it.
    pub fate: Fate,
    /// How many packets were sent before it, from all queues: the order in which they left.
    pub sent: u64,
}

/// What becomes of a frame at its port: the verdict on it, and for a drop the function and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Fate {
    /// Out of the other side.
    #[default]
    Forward,
    /// Back out of the port it came from.
    TransmitBack,
    /// To the host's own network stack.
    Host,
    /// Gone: reason `reason` of function number `function` in the chain.
    DropBy {
        /// Index into the chain.
        function: u8,
        /// Index into the function's drop reasons.
        reason: u8,
    },
    /// Gone, by the engine itself.
    Drop(EngineDrop),
}

/// Which of a chain's drops mean more than that a packet is gone: those whose sender is [answered](wire::AnswerTo), and those that
/// a rule asks to have in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedDrops {
    /// By function, a bit for each reason.
    rejected: Box<[u64]>,
    pings: Box<[u64]>,
    logged: Box<[u64]>,
}

impl MarkedDrops {
    /// Those of a chain with so many functions; reasons from 64 on are never marked.
    pub fn new(
        functions: usize,
        answer_to: impl Fn(usize, u8) -> Option<AnswerTo>,
        is_logged: impl Fn(usize, u8) -> bool,
    ) -> MarkedDrops {
        let masks = |is_marked: &dyn Fn(usize, u8) -> bool| {
            let bit = |function, reason| u64::from(is_marked(function, reason)) << reason;
            (0..functions)
                .map(|function| (0..64).fold(0, |mask, reason| mask | bit(function, reason)))
                .collect()
        };
        let are = |wanted| masks(&|function, reason| answer_to(function, reason) == Some(wanted));
        MarkedDrops {
            rejected: are(AnswerTo::Rejected),
            pings: are(AnswerTo::Ping),
            logged: masks(&is_logged),
        }
    }

    /// What the sender of a packet with this fate is told, if anything.
    #[inline]
    pub fn answer_to(&self, fate: Fate) -> Option<AnswerTo> {
        match has(&self.rejected, fate) {
            true => Some(AnswerTo::Rejected),
            false => has(&self.pings, fate).then_some(AnswerTo::Ping),
        }
    }

    /// Whether a rule asks to have a packet with this fate in a log.
    #[inline]
    pub fn is_logged(&self, fate: Fate) -> bool {
        has(&self.logged, fate)
    }
}

#[inline]
fn has(masks: &[u64], fate: Fate) -> bool {
    let Fate::DropBy { function, reason } = fate else { return false };
    let mask = masks.get(usize::from(function)).copied().unwrap_or_default();
    mask.checked_shr(reason.into()).is_some_and(|rest| rest & 1 == 1)
}

/// Why the engine drops a packet before or after any function saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineDrop {
    /// Malformed, and the chain says `malformed = "drop"`.
    Malformed,
    /// Its edits need room that its buffer does not have.
    NoRoom,
    /// It came with a history that could not be taken, or as a history without a packet: no function was to see it.
    NotTaken,
    /// Its core lagged so far behind that it went on with the state of another, which was past this packet: that has
    /// stepped it, and nobody can tell the verdict.
    Overtaken,
}

/// The other side of a port is gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side of the port is gone")]
pub struct Closed;
