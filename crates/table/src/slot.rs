use zerocopy::{Immutable, IntoBytes};

/// A block, by its number. It stays its flow's until [`FlowTable::maintain`](crate::FlowTable::maintain),
/// [`FlowTable::settle`](crate::FlowTable::settle) or [`FlowTable::make_room`](crate::FlowTable::make_room) is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// No block.
    pub const NONE: Slot = Slot(u32::MAX);

    /// The block with this number, if there is one: for whoever was told of it, and checks. No table has so many that
    /// `u32::MAX` is one.
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

    /// The same as it is told on.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }
}
