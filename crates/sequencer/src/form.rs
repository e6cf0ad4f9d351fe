//! The layout of history items as a trait, and the form that a prefix's fixed header states.

use wire::Headers;

use crate::format::Version;

/// Bytes of the time that each item begins with.
pub(crate) const TIME_LEN: usize = 8;

/// What the items of a history hold, and how they are packed: [`ItemLayout`](crate::ItemLayout) in version 1, and in
/// version 2 what knows a chain's functions, with the places that a [`TypedLayout`](crate::TypedLayout) gives these.
pub trait Layout {
    /// What the fixed header says of the items.
    fn form(&self) -> Form;

    /// Writes the item of a packet, [`Form::item_len`] bytes: little-endian, `time_ns` first.
    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]);
}

/// What the fixed header says of the items, which a receiver has to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// What they hold.
    pub version: Version,
    /// Stands for what is in them: the bytes of `Headers` as a mask, or the layout of typed items as a hash.
    pub layout: u64,
    /// Bytes of an item: at most 65,535.
    pub item_len: usize,
    /// What the hashes in the items are seeded with; 0 in version 1, which has none.
    pub table_seed: u64,
}

/// An item's time, whatever the version.
///
/// # Panics
/// If `item` is shorter than a time.
#[inline]
pub fn time_ns(item: &[u8]) -> u64 {
    load(item, 0)
}

#[inline]
pub(crate) fn load(item: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(item[at..at + TIME_LEN].try_into().expect("8 bytes"))
}
