//! The number of a flow's block.

use zerocopy::{Immutable, IntoBytes};

/// A block, by its number. It stays its flow's until [`FlowTable::maintain`](crate::FlowTable::maintain),
/// [`FlowTable::settle`](crate::FlowTable::settle) or [`FlowTable::make_room`](crate::FlowTable::make_room) is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// No block.
    pub const NONE: Slot = Slot(u32::MAX);

    /// The block with this number, which came from elsewhere: a table may have no such block, and the caller
    /// checks. `u32::MAX` gives [`Slot::NONE`], since no table has so many blocks.
    #[inline]
    pub fn of_number(number: u32) -> Slot {
        Slot(number)
    }

    /// Whether this is a block.
    #[inline]
    pub fn is_some(self) -> bool {
        self != Slot::NONE
    }

    /// The block's number, below the table's capacity: for what is kept beside the table.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The number of the block as other cores get it: what [`Slot::of_number`] reads.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }
}
