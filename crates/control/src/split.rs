//! Which buckets of a shard are offloaded.

/// Buckets of a shard: the ratio of a shard's traffic that is offloaded is so many of these.
pub const BUCKETS: u8 = 64;

/// Which buckets of a shard are in its offloaded part: the first so many, in the order that `mask` puts them in.
///
/// Bucket *b* has place *b* xor `mask`. So any bucket can be the first or the last one, and what is offloaded can be all but the bucket
/// of a large flow, or that bucket alone. In a fixed order a large flow could be offloaded only with all buckets before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// How many buckets.
    pub buckets: u8,
    /// What makes a bucket's place of its number.
    pub mask: u8,
}

impl Split {
    /// Nothing is offloaded.
    pub const NONE: Split = Split { buckets: 0, mask: 0 };

    /// The place of a bucket, which is the bucket of a place, too.
    #[inline]
    pub fn place(self, bucket: u8) -> u8 {
        bucket ^ self.mask
    }

    /// Whether a bucket is in the offloaded part.
    #[inline]
    pub fn has(self, bucket: u8) -> bool {
        self.place(bucket) < self.buckets
    }

    /// The buckets of the offloaded part.
    pub fn buckets(self) -> impl Iterator<Item = u8> {
        (0..self.buckets).map(move |place| self.place(place))
    }

    /// Every order in which the first `offloadable` buckets, a power of two, are the first ones, too.
    pub(crate) fn masks(offloadable: u8) -> std::ops::Range<u8> {
        debug_assert!(offloadable.is_power_of_two() && offloadable <= BUCKETS, "{offloadable} buckets");
        0..offloadable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_part_are_those_that_it_has() {
        for (mask, buckets) in
            Split::masks(BUCKETS).flat_map(|mask| (0..=BUCKETS).map(move |buckets| (mask, buckets)))
        {
            let split = Split { buckets, mask };
            let mut listed: Vec<u8> = split.buckets().collect();
            listed.sort_unstable();
            assert!(listed.iter().copied().eq((0..BUCKETS).filter(|bucket| split.has(*bucket))), "{split:?}");
            assert_eq!(listed.len(), usize::from(buckets));
            assert!((0..BUCKETS).all(|bucket| split.place(split.place(bucket)) == bucket));
        }
        // The first 16 are the first ones in each of their orders, and another bucket comes first in each.
        let firsts: Vec<u8> =
            Split::masks(16).map(|mask| Split { buckets: 1, mask }.buckets().sum()).collect();
        assert_eq!(firsts, (0..16).collect::<Vec<u8>>());
        assert!(Split::masks(16).all(|mask| (0..16).all(|bucket| Split { buckets: 16, mask }.has(bucket))));
    }
}
