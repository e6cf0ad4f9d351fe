//! Prefetches the buckets of a table that another thread may hold locked.

use std::ptr;

use memory::prefetch_lines;

use crate::bucket::Bucket;

/// Where a table's buckets are, for one that lies behind a lock: so that they are on their way when the lock
/// is taken. Nothing is read.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// An address and no pointer: nobody may follow it. Buckets never move.
    buckets: usize,
    mask: usize,
}

impl Ahead {
    pub(crate) fn new(buckets: &[Bucket]) -> Ahead {
        Ahead { buckets: buckets.as_ptr().addr(), mask: buckets.len() - 1 }
    }

    /// As [`FlowTable::prefetch_bucket`](crate::FlowTable::prefetch_bucket).
    #[inline]
    pub fn prefetch_bucket(&self, hash: u32) {
        let offset = (hash as usize & self.mask) * size_of::<Bucket>();
        prefetch_lines(ptr::without_provenance(self.buckets.wrapping_add(offset)), 1);
    }
}
