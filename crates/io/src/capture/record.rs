//! A packet of a capture: where it was found, and what is told of it.

use std::ops::Range;

use wire::LinkType;

/// One captured packet. Borrows the reader's buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970, UTC; times before are 0, times past 2554 are `u64::MAX`.
    ///
    /// A pcapng Simple Packet Block has no time: it gets that of the packet before it, or 0.
    pub time_ns: u64,
    /// The packet's length on the wire, in bytes; never less than `data.len()`.
    pub wire_len: u32,
    /// What `data` begins with.
    pub link: LinkType,
    /// The captured bytes, at most [`MAX_PACKET_BYTES`](super::MAX_PACKET_BYTES).
    pub data: &'a [u8],
}

/// A packet found in the window.
pub(super) struct Packet {
    pub time_ns: u64,
    pub wire_len: u32,
    pub link: LinkType,
    pub data: Range<usize>,
}
