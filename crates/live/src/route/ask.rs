//! What forwarders ask of the control thread.

use wire::Addr;

/// A neighbour that packets are waiting for, or that is in use: the kernel is to look after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    /// Index of the interface.
    pub(super) interface: u32,
    /// The neighbour's address.
    pub(super) neighbour: Addr,
}

/// How many wait in the ring from a forwarder to the control thread.
pub(super) const RING_ASKS: usize = 256;
