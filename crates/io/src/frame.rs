use std::ops::Range;

use wire::{LinkType, Stamp};

/// One received packet: where its bytes are, and what is known of it beside them.
///
/// A frame is a token: whoever holds it has its bytes to himself, and hands both on with it. The
/// bytes stay in the pool of the port that received it.
#[derive(Debug)]
pub struct Frame {
    /// Order and time, given where packets enter.
    pub stamp: Stamp,
    /// Bytes on the wire, at least as many as are here; more where the capture cut the packet.
    pub wire_len: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    pub(crate) place: Place,
}

/// Where a frame's bytes are in its port's pool.
#[derive(Debug)]
pub(crate) struct Place {
    /// The pool, so that a frame is not looked up in another's.
    pub(crate) pool: u32,
    /// Where the frame's share of the pool begins: the pool's own count of bytes.
    pub(crate) begin: u64,
    /// Where the writable buffer begins and ends, as offsets in the pool's memory.
    pub(crate) buffer: Range<usize>,
    /// The packet in the buffer, relative to the buffer's begin.
    pub(crate) data: Range<usize>,
}

impl Frame {
    /// Bytes of the packet that are here.
    #[inline]
    pub fn len(&self) -> usize {
        self.place.data.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.place.data.is_empty()
    }

    /// Where the packet is in the buffer that [`Port::buffer_mut`](crate::Port::buffer_mut) gives.
    #[inline]
    pub fn data(&self) -> Range<usize> {
        self.place.data.clone()
    }

    /// Moves the borders of the packet in its buffer, after a header was added or removed there.
    ///
    /// # Panics
    /// If `data` reaches outside the buffer.
    #[inline]
    pub fn set_data(&mut self, data: Range<usize>) {
        let Place { buffer, data: old, .. } = &mut self.place;
        assert!(data.start <= data.end && data.end <= buffer.len(), "{data:?} outside the frame's buffer");
        // A tag that was pushed or popped was so on the wire, too. A capture may claim any length.
        let rest = self.wire_len.saturating_sub(old.len() as u32);
        self.wire_len = rest.saturating_add(data.len() as u32);
        *old = data;
    }
}
