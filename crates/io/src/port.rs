use crate::Frame;

/// One receive and transmit queue of something packets come from: one core's, and nobody else's.
///
/// Frames live in a pool that the port owns. Receiving moves tokens, not bytes; so does sending. A
/// network card's ring, an AF_XDP socket's shared memory and a capture's replay fit alike.
pub trait Port: Send {
    /// Appends up to `max` frames that have arrived, in order of arrival. Does not wait.
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received;

    /// How many packets of this queue have been received so far, or were dropped before they could be.
    fn consumed(&self) -> u64;

    /// The packet's bytes.
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8];

    /// The buffer around the packet, with room for headers to grow; the packet is at
    /// [`Frame::data`].
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8];

    /// Takes all frames back, in order, and leaves `frames` empty; `fates[i]` is what is to become of
    /// the *i*-th. Waits where the other side is slow.
    ///
    /// # Errors
    /// [`Closed`] if nobody will ever take frames again. `frames` is empty then, too.
    ///
    /// # Panics
    /// If there are not as many fates as frames.
    fn send(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<(), Closed>;

    /// How it stands with the receive queue, as [`Port::receive`] found it last.
    fn queue(&self) -> Queue {
        Queue::default()
    }
}

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

/// What becomes of a frame at its port: the verdict on it, and for a drop by whom and why.
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
