//! A packet of a capture: where it was found, and what is told of it.

use std::ops::Range;

use wire::{LinkType, Side};

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
    /// Where the interface that captured it is, if the reader was told which one is inside.
    pub side: Option<Side>,
    pub data: Range<usize>,
}

impl Packet {
    /// Leaves out what a file claims to have captured behind the packet's end, as other readers do. Says whether there was
    /// such.
    pub(super) fn end_on_the_wire(&mut self) -> bool {
        let is_over = self.data.len() > self.wire_len as usize;
        if is_over {
            self.data.end = self.data.start + self.wire_len as usize;
        }
        is_over
    }
}
