//! Endpoints inside and outside, and what a mapping has of them.

use wire::protocol;

/// The protocols that have ports of their own at each external address.
pub(super) const PROTOCOLS: [u8; 3] = [protocol::UDP, protocol::TCP, protocol::ICMP];

/// An external port, for one protocol: an external address by its index, and a port. ICMP's ports are the
/// identifiers of its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct External {
    pub(super) address: u8,
    pub(super) protocol: u8,
    pub(super) port: u16,
}

/// An inside address and a port there.
pub(super) type Inside = ([u8; 4], u16);

/// What a new mapping got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) external: External,
    /// Tells this mapping from others that had the port before it.
    pub(super) generation: u8,
}
