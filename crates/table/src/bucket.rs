/// Entries in a bucket: what fits in one cache line beside the tags.
pub(crate) const ENTRIES: usize = 12;

/// One cache line of tags and block indices.
///
/// `tags[i] == 0` is an empty entry. The last four tag bytes are the spilled count, so that one
/// 16-byte comparison serves all entries.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u8; 16],
    blocks: [u32; ENTRIES],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    pub(crate) const EMPTY: Bucket = Bucket { tags: [0; 16], blocks: [0; ENTRIES] };

    /// The block indices of entries whose tag is `tag`.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> impl Iterator<Item = (usize, u32)> {
        let mut mask = 0u32;
        for (i, candidate) in self.tags.iter().enumerate() {
            mask |= u32::from(*candidate == tag) << i;
        }
        mask &= (1 << ENTRIES) - 1;
        core::iter::from_fn(move || {
            (mask != 0).then(|| {
                let entry = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                (entry, self.blocks[entry])
            })
        })
    }

    /// The first empty entry.
    pub(crate) fn vacant(&self) -> Option<usize> {
        self.tags[..ENTRIES].iter().position(|tag| *tag == 0)
    }

    pub(crate) fn get(&self, entry: usize) -> (u8, u32) {
        (self.tags[entry], self.blocks[entry])
    }

    pub(crate) fn set(&mut self, entry: usize, tag: u8, block: u32) {
        debug_assert!(tag != 0);
        self.tags[entry] = tag;
        self.blocks[entry] = block;
    }

    pub(crate) fn clear(&mut self, entry: usize) {
        self.tags[entry] = 0;
    }

    /// How many flows that belong here first live in their other bucket. While it is 0, a look-up
    /// that finds nothing here is over.
    #[inline]
    pub(crate) fn spilled(&self) -> u32 {
        let [.., a, b, c, d] = self.tags;
        u32::from_le_bytes([a, b, c, d])
    }

    pub(crate) fn set_spilled(&mut self, count: u32) {
        self.tags[ENTRIES..].copy_from_slice(&count.to_le_bytes());
    }
}
