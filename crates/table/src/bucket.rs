//! A bucket of the hash index: tags and block numbers in one cache line.

use zerocopy::FromZeros;

/// Entries in a bucket: what fits in one cache line beside the tags.
pub(crate) const ENTRIES: usize = 12;

/// One cache line of tags and block indices.
///
/// `tags[i] == 0` is an empty entry, and a bucket of zeros an empty one. The last four tag bytes are the spilled count, so that one
/// 16-byte comparison serves all entries.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u8; 16],
    blocks: [u32; ENTRIES],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Without entries.
    pub(crate) const EMPTY: Bucket = Bucket { tags: [0; 16], blocks: [0; ENTRIES] };

    /// Bit *i*: entry *i* has this tag.
    #[inline]
    fn mask(&self, tag: u8) -> u32 {
        equal_bytes(&self.tags, tag) & ((1 << ENTRIES) - 1)
    }

    /// The block of the first entry whose tag is `tag`.
    #[inline]
    pub(crate) fn first_match(&self, tag: u8) -> Option<u32> {
        let mask = self.mask(tag);
        (mask != 0).then(|| self.blocks[mask.trailing_zeros() as usize])
    }

    /// The entries whose tag is `tag`, with their blocks.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> impl Iterator<Item = (usize, u32)> {
        let mut mask = self.mask(tag);
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
        let mask = self.mask(0);
        (mask != 0).then(|| mask.trailing_zeros() as usize)
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

/// Bit *i*: byte *i* is `byte`. SSE2 is part of every x86-64, so there is nothing to choose at start.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    use core::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: reads the 16 bytes behind the reference, which need no alignment; every x86-64 has SSE2.
    unsafe {
        let all = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(byte.cast_signed()))) as u32
    }
}

#[inline(always)]
#[cfg(any(not(target_arch = "x86_64"), miri))]
fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    equal_bytes_anywhere(bytes, byte)
}

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn equal_bytes_anywhere(bytes: &[u8; 16], byte: u8) -> u32 {
    bytes.iter().enumerate().fold(0, |mask, (i, candidate)| mask | u32::from(*candidate == byte) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_alike_with_and_without_simd() {
        let mut bytes = [0u8; 16];
        for round in 0..2_000u32 {
            bytes[(round % 16) as usize] = (round * 7 % 5) as u8;
            for byte in 0..6 {
                assert_eq!(equal_bytes(&bytes, byte), equal_bytes_anywhere(&bytes, byte), "{bytes:?}");
            }
        }
    }
}
