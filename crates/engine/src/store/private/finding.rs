//! A group finds its packets' blocks: what is asked for ahead, and what one packet finds.

use nf::FlowKey;
use table::{Reach, Slot};

use crate::path::batch::Batch;
use crate::store::member::Located;
use crate::store::private::KeyGroup;

impl<K: FlowKey> KeyGroup<K> {
    /// Finds the keys, asks for their buckets.
    #[inline]
    pub(in crate::store) fn hash(&mut self, packets: u64, batch: &Batch) {
        match Reach::here() {
            Reach::Near => self.hash_to::<{ Reach::NEAR }>(packets, batch),
            Reach::Far => self.hash_to::<{ Reach::FAR }>(packets, batch),
            Reach::Off => self.hash_to::<{ Reach::OFF }>(packets, batch),
        }
    }

    #[inline(always)]
    fn hash_to<const REACH: u8>(&mut self, packets: u64, batch: &Batch) {
        let Self { table, located, .. } = self;
        located.find_keys::<K>(packets, batch, |short, headers| {
            let hash = table.hash(short, || K::of(headers));
            table.prefetch_bucket_to::<REACH>(hash);
            hash
        });
    }

    /// The block of one packet, which may have come or gone since the batch was looked up.
    #[inline]
    pub(in crate::store) fn locate(&self, packet: usize, batch: &Batch) -> Slot {
        let Located { wanted, slots } = &*self.located;
        self.table.confirm(slots[packet], &wanted[packet], || K::of(&batch.headers[packet]))
    }
}
