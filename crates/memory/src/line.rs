//! A cache line of plain bytes, the unit in which memory is laid out and copied.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// A cache line of plain bytes. Copying one takes a few moves and no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Line(pub [u8; LINE_BYTES]);

impl Line {
    /// All bytes 0.
    pub const ZERO: Line = Line([0; LINE_BYTES]);
}
