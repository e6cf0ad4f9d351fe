//! What is not TCP: what its packets are to a connection, and how long one is kept.

use wire::protocol;

/// What a packet that is not TCP is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
    /// It is of the connection, from either end.
    Any = 1,
    /// An ICMP request.
    Request = 2,
    /// An ICMP reply.
    Reply = 3,
    /// An ICMP error about a packet of the connection.
    Error = 4,
    /// A later fragment that goes by its first, of any protocol, TCP too.
    Later = 5,
}

/// A packet that is not TCP, as a connection sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    /// That of the connection.
    pub(super) protocol: u8,
    pub(super) part: Part,
}

/// Generic Routing Encapsulation (RFC 2784).
pub(super) const GRE: u8 = 47;

/// The time-outs of what is not TCP, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherTimeouts {
    pub(super) udp_ms: u32,
    pub(super) udp_stream_ms: u32,
    pub(super) icmp_ms: u32,
    pub(super) icmpv6_ms: u32,
    pub(super) gre_ms: u32,
    pub(super) gre_stream_ms: u32,
    pub(super) generic_ms: u32,
}

impl OtherTimeouts {
    /// `is_stream`: it was answered before, and of UDP it lasts.
    pub(super) fn of(&self, protocol: u8, is_stream: bool) -> u32 {
        match (protocol, is_stream) {
            (protocol::UDP, false) => self.udp_ms,
            (protocol::UDP, true) => self.udp_stream_ms,
            (GRE, false) => self.gre_ms,
            (GRE, true) => self.gre_stream_ms,
            (protocol::ICMP, _) => self.icmp_ms,
            (protocol::ICMPV6, _) => self.icmpv6_ms,
            _ => self.generic_ms,
        }
    }
}
