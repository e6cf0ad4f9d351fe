//! A received packet: the frame that stands for its buffer, and what is known of it beside its bytes.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use memory::LINE_BYTES;
use wire::{LinkType, Malformed, Side, Stamp};

/// Room before each packet for headers to grow, bytes: whole lines, so that packets, too, begin on one.
pub(crate) const HEADROOM_BYTES: usize = LINE_BYTES;

/// One received packet: where its bytes are, and what is known of it beside them.
///
/// A frame is a token: its holder has its bytes to himself, and hands both on with it. The
/// bytes stay in the pool of the port that received it, and go back there: see [`Port`](crate::Port).
#[derive(Debug)]
pub struct Frame {
    /// Order and time, given where packets enter.
    pub stamp: Stamp,
    /// Bytes on the wire, at least as many as are here; more where the capture cut the packet.
    pub wire_len: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    /// The entry of the indirection table that its hash points to; 0 where nobody hashed it.
    pub entry: u16,
    /// What else is known of it, which its bytes do not say.
    pub note: Note,
    pub(crate) place: Place,
}

/// What is known of a packet beside its bytes: the side of the interface by which it came; and whether it was refused, may
/// have to be quoted as it was received, or is a later fragment whose flow is known. One of the three is enough: what was refused is not
/// edited, and no error quotes a later fragment (RFC 1122 §3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note(u8);

impl Note {
    /// Bits of the number of a [`Malformed`], or of [`Note::FOLLOWED`], [`Note::INSIDE`], [`Note::QUOTABLE`] or [`Note::EDITED`];
    /// above them 0, or one more than the number of a [`Side`].
    const REASON: u8 = 0x3f;
    const SIDE_SHIFT: u32 = 6;
    const FOLLOWED: u8 = 0x3c;
    const INSIDE: u8 = 0x3d;
    const QUOTABLE: u8 = 0x3e;
    const EDITED: u8 = 0x3f;

    /// A packet that came by an interface on this side.
    pub const fn by(side: Option<Side>) -> Note {
        match side {
            None => Note(0),
            Some(Side::Inside) => Note(1 << Note::SIDE_SHIFT),
            Some(Side::Outside) => Note(2 << Note::SIDE_SHIFT),
        }
    }

    /// The side of the interface by which it came, if interfaces have sides.
    #[inline]
    pub fn side(self) -> Option<Side> {
        match self.0 >> Note::SIDE_SHIFT {
            0 => None,
            1 => Some(Side::Inside),
            _ => Some(Side::Outside),
        }
    }

    /// Why the packet was refused, for a reason that its core does not look for, as that other packets make: it is malformed
    /// then, whatever its own bytes say.
    #[inline]
    pub fn refused(self) -> Option<Malformed> {
        Malformed::from_code(self.0 & Note::REASON)
    }

    /// A packet that was refused for this reason. Without a reason the note stays as it is.
    #[inline]
    pub fn with_refused(self, reason: Option<Malformed>) -> Note {
        reason.map_or(self, |reason| self.with(reason as u8))
    }

    /// A packet that its port may have to quote as it was received: an edit keeps what it was
    /// ([`Unedited`](crate::Unedited)).
    #[inline]
    pub const fn quotable(self) -> Note {
        self.with(Note::QUOTABLE)
    }

    /// Whether the packet is [quotable](Note::quotable), and has not been edited.
    #[inline]
    pub fn is_quotable(self) -> bool {
        self.0 & Note::REASON == Note::QUOTABLE
    }

    /// A quotable packet that has been edited: what it was lies before it.
    #[inline]
    pub fn edited(self) -> Note {
        self.with(Note::EDITED)
    }

    /// Whether what the packet was lies before it.
    #[inline]
    pub fn is_edited(self) -> bool {
        self.0 & Note::REASON == Note::EDITED
    }

    /// A quotable packet that went into a tunnel as it was received.
    #[inline]
    pub fn inside_a_tunnel(self) -> Note {
        self.with(Note::INSIDE)
    }

    /// Whether the packet that was received lies inside the one that leaves.
    #[inline]
    pub fn is_inside_a_tunnel(self) -> bool {
        self.0 & Note::REASON == Note::INSIDE
    }

    /// A later fragment; what its first says lies before it ([`Followed`](crate::Followed)).
    #[inline]
    pub fn followed(self) -> Note {
        self.with(Note::FOLLOWED)
    }

    /// Whether what its first says lies before the packet.
    #[inline]
    pub fn is_followed(self) -> bool {
        self.0 & Note::REASON == Note::FOLLOWED
    }

    const fn with(self, reason: u8) -> Note {
        Note(self.0 & !Note::REASON | reason)
    }
}

const _: () = assert!(Malformed::ALL.len() < Note::FOLLOWED as usize);

// Tokens move from array to ring to array.
const _: () = assert!(size_of::<Frame>() <= 40);

/// Where a frame's bytes are in its port's pool.
#[derive(Debug)]
pub(crate) struct Place {
    /// The pool, so that a frame is not looked up in another's.
    pub(crate) pool: u32,
    /// Where the writable buffer begins in the pool's memory, in lines.
    pub(crate) first_line: u32,
    /// How long the buffer is, in lines.
    pub(crate) lines: u16,
    /// Where the packet begins in the buffer, bytes.
    pub(crate) offset: u16,
    /// How long the packet is, bytes.
    pub(crate) len: u32,
}

/// A number for memory of frames, which no other of this process has, had, or will have.
///
/// # Panics
/// After four billion: counting round would give a number twice.
pub(crate) fn new_pool_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| (id + 1 < Place::NOWHERE).then_some(id + 1));
    next.expect("fewer than four billion pools")
}

impl Place {
    /// No pool's number.
    pub(crate) const NOWHERE: u32 = u32::MAX;

    /// The lines that a packet of `len` bytes needs with the room before it.
    #[inline]
    pub(crate) fn lines_for(len: usize) -> usize {
        (HEADROOM_BYTES + len).div_ceil(LINE_BYTES)
    }

    /// How long the buffer is, bytes.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        usize::from(self.lines) * LINE_BYTES
    }

    /// The packet, as offsets in the buffer.
    #[inline]
    pub(crate) fn data(&self) -> Range<usize> {
        let start = usize::from(self.offset);
        start..start + self.len as usize
    }
}

impl Frame {
    /// Stands for a packet whose bytes are not here, and which no port takes.
    #[inline]
    pub fn without_bytes(stamp: Stamp) -> Frame {
        let place = Place { pool: Place::NOWHERE, first_line: 0, lines: 0, offset: 0, len: 0 };
        Frame { stamp, wire_len: 0, link: LinkType::default(), entry: 0, note: Note::default(), place }
    }

    /// Stands for the packet of the arrival that has this number: in place of a buffer it has the number.
    #[inline]
    pub(crate) fn of_arrival(stamp: Stamp, number: u32) -> Frame {
        let frame = Frame::without_bytes(stamp);
        Frame { place: Place { first_line: number, ..frame.place }, ..frame }
    }

    /// A second token for a buffer, which there must never be.
    #[cfg(test)]
    pub(crate) fn copied(&self) -> Frame {
        let Place { pool, first_line, lines, offset, len } = self.place;
        Frame { place: Place { pool, first_line, lines, offset, len }, ..Frame::without_bytes(self.stamp) }
    }

    /// Bytes of the packet that are here.
    #[inline]
    pub fn len(&self) -> usize {
        self.place.len as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Where the packet is in the buffer that [`Port::buffer_mut`](crate::Port::buffer_mut) gives.
    #[inline]
    pub fn data(&self) -> Range<usize> {
        self.place.data()
    }

    /// Moves the borders of the packet in its buffer, after a header was added or removed there.
    ///
    /// # Panics
    /// If `data` reaches outside the buffer, or begins more than 65,535 bytes into it.
    #[inline]
    pub fn set_data(&mut self, data: Range<usize>) {
        let place = &mut self.place;
        let is_inside = data.start <= data.end && data.end <= place.buffer_bytes();
        assert!(is_inside && data.start <= usize::from(u16::MAX), "{data:?} outside the frame's buffer");
        // A tag that was pushed or popped was so on the wire, too. A capture may claim any length.
        let rest = self.wire_len.saturating_sub(place.len);
        place.offset = data.start as u16;
        place.len = data.len() as u32;
        self.wire_len = rest.saturating_add(place.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_and_reason_are_kept_apart() {
        for side in [None, Some(Side::Inside), Some(Side::Outside)] {
            let (came, quotable) = (Note::by(side), Note::by(side).quotable());
            let states = |note: Note| {
                let which =
                    [note.is_quotable(), note.is_edited(), note.is_followed(), note.is_inside_a_tunnel()];
                (note.side(), note.refused(), which)
            };
            assert_eq!(states(came), (side, None, [false; 4]));
            assert_eq!(states(quotable), (side, None, [true, false, false, false]));
            assert_eq!(states(quotable.edited()), (side, None, [false, true, false, false]));
            assert_eq!(states(quotable.followed()), (side, None, [false, false, true, false]));
            assert_eq!(states(quotable.inside_a_tunnel()), (side, None, [false, false, false, true]));
            assert_eq!(quotable.with_refused(None), quotable);
            for reason in Malformed::ALL.map(Some) {
                for note in [came, quotable, came.followed()] {
                    assert_eq!(states(note.with_refused(reason)), (side, reason, [false; 4]));
                }
            }
        }
    }
}
