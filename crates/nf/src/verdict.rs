//! The verdict of a step: forward the packet, or drop it for a reason.

/// What becomes of a packet.
///
/// Any verdict but [`Verdict::Forward`] ends the chain for this packet: later functions do not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Verdict {
    /// On to the next function, and after the last one out of the other side.
    #[default]
    Forward,
    /// Gone; the number indexes the function's [`drop_reasons`](crate::About::drop_reasons).
    Drop(u8),
    /// Back out of the port it came from.
    TransmitBack,
    /// To the host's own network stack.
    Host,
}
