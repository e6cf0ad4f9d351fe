//! How a socket is opened.

/// How a socket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Entries of the fill ring: chunks that wait for packets. A power of two, as with the other rings.
    pub fill: u32,
    /// Entries of the receive ring.
    pub receive: u32,
    /// Entries of the transmit ring.
    pub transmit: u32,
    /// Entries of the completion ring: chunks that were sent. The kernel sends nothing while it is full.
    pub completion: u32,
    /// With or without zero-copy.
    pub mode: Mode,
    /// Whether a packet that is longer than a chunk comes and goes in several (Linux 6.6): see [`Descriptor::goes_on`].
    /// Without it the kernel drops such packets.
    ///
    /// [`Descriptor::goes_on`]: crate::xdp::Descriptor::goes_on
    pub takes_parts: bool,
    /// Whether the thread that uses the socket also runs the driver's receive and transmit work, in place of
    /// interrupts.
    pub busy_poll: Option<BusyPoll>,
}

/// How packets get from the driver into the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By zero-copy where the driver can, by a copy elsewhere.
    Best,
    /// By zero-copy, or not at all.
    ZeroCopy,
    /// By a copy: every driver can.
    Copy,
}

/// How a socket polls its driver. It helps only if `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface are
/// set, see the kernel's Documentation/networking/napi.rst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long one poll lasts at most, microseconds.
    pub micros: u32,
    /// How many packets one poll takes at most.
    pub budget: u32,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            fill: 4_096,
            receive: 2_048,
            transmit: 2_048,
            completion: 2_048,
            mode: Mode::Best,
            takes_parts: false,
            busy_poll: None,
        }
    }
}
