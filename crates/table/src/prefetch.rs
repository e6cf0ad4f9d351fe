//! A table asks for lines ahead of their use: of one bucket or block, where no batch is looked up.

use memory::{Reach, prefetch_lines_to};
use nf::FlowKey;

use crate::blocks::Parcel;
use crate::slot::Slot;
use crate::table::FlowTable;

impl<K: FlowKey> FlowTable<K> {
    /// Asks for the line of a hash's bucket.
    #[inline(always)]
    pub fn prefetch_bucket(&self, hash: u32) {
        match Reach::here() {
            Reach::Near => self.prefetch_bucket_to::<{ Reach::NEAR }>(hash),
            Reach::Far => self.prefetch_bucket_to::<{ Reach::FAR }>(hash),
            Reach::Off => self.prefetch_bucket_to::<{ Reach::OFF }>(hash),
        }
    }

    /// As [`FlowTable::prefetch_bucket`], for loops that were chosen by [`Reach::here`](memory::Reach::here).
    #[inline(always)]
    pub fn prefetch_bucket_to<const REACH: u8>(&self, hash: u32) {
        prefetch_lines_to::<REACH>(self.buckets.as_ptr().wrapping_add(self.primary(hash)).cast(), 1);
    }

    /// Takes the place of the first pass for a packet that comes with the number of its flow's block: asks for that
    /// block, for loops that were chosen by [`Reach::here`](memory::Reach::here). There need be no such block.
    #[inline(always)]
    pub fn prefetch_block_to<const REACH: u8>(&self, said: Slot) {
        self.blocks.prefetch::<REACH>(said.0);
    }

    /// Asks for the line of the bucket of a block's flow, if one has it.
    #[inline]
    pub fn prefetch_bucket_of(&self, slot: Slot) {
        if self.is_taken(slot) {
            self.prefetch_bucket(self.blocks.hash(slot.0));
        }
    }

    /// Prefetches the bucket of flow number `index` of a parcel, if there is one, for [`FlowTable::unpack`].
    #[inline]
    pub fn prefetch_bucket_for(&self, parcel: &Parcel<K>, index: usize) {
        if index < parcel.len() {
            self.prefetch_bucket(self.blocks.packed_hash(parcel, index));
        }
    }
}
