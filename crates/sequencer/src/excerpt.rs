//! What of a packet's headers others need, where it need not be packed: in the memory that cores share.

use wire::Headers;
use zerocopy::{transmute, transmute_ref};

/// How much a packet is like the one before it, in what a chain reads.
///
/// Found out once, by whoever keeps the history, and spared every core: packets of one key need one look-up, and
/// of those alike in all the headers need not be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Likeness {
    /// Not in the key, or not known.
    #[default]
    None,
    /// In the key, and in whether it is malformed.
    Key,
    /// In all.
    All,
}

const WORDS: usize = size_of::<Headers>() / 8;

/// Which bytes of [`Headers`] a chain reads, and which of them its key is made of.
#[derive(Clone, Debug)]
pub struct Excerpt {
    kept: [u64; WORDS],
    key: [u64; WORDS],
}

impl Excerpt {
    /// Bit *i* of a mask is for byte *i* of [`Headers`]. [`Headers::malformed_code`] is always kept, as in an
    /// [item](crate::ItemLayout), and compared.
    pub fn new(header_bytes: u64, key_bytes: u64) -> Excerpt {
        let key = key_bytes | crate::layout::MALFORMED_CODE;
        Excerpt { kept: words(header_bytes | key), key: words(key) }
    }

    /// The bytes that are kept; 0 in place of all others.
    #[inline]
    pub fn of(&self, headers: &Headers) -> Headers {
        let words: &[u64; WORDS] = transmute_ref!(headers);
        let mut kept = self.kept;
        kept.iter_mut().zip(words).for_each(|(kept, word)| *kept &= word);
        transmute!(kept)
    }

    /// How much an excerpt is like that of the packet before.
    #[inline]
    pub fn likeness(&self, before: &Headers, headers: &Headers) -> Likeness {
        let (a, b): (&[u64; WORDS], &[u64; WORDS]) = (transmute_ref!(before), transmute_ref!(headers));
        let (mut all, mut key) = (0, 0);
        for word in 0..WORDS {
            let differs = a[word] ^ b[word];
            all |= differs;
            key |= differs & self.key[word];
        }
        match (all, key) {
            (0, _) => Likeness::All,
            (_, 0) => Likeness::Key,
            _ => Likeness::None,
        }
    }
}

/// A byte of ones for each bit.
fn words(bytes: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bits) in words.iter_mut().zip(bytes.to_le_bytes()) {
        let of_byte = |byte: usize| u64::from(bits >> byte & 1) * (0xff << (8 * byte));
        *word = u64::from_le((0..8).map(of_byte).sum::<u64>());
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    fn headers(words: &[u16; 32]) -> Headers {
        Headers::read_from_bytes(words.as_bytes()).expect("64 bytes")
    }

    proptest! {
        /// Byte by byte. Of 64 bytes at most three differ, else nothing would ever be alike.
        #[test]
        fn excerpts_are_what_plain_code_makes(
            before in proptest::array::uniform32(any::<u16>()),
            changes in proptest::collection::vec((0..64usize, any::<u8>()), 0..4),
            kept: u64,
            key: u64,
        ) {
            let key = key & kept;
            let mut after = before;
            for (byte, value) in changes {
                after.as_mut_bytes()[byte] = value;
            }
            let excerpt = Excerpt::new(kept, key);
            let (before, after) = (excerpt.of(&headers(&before)), (excerpt.of(&headers(&after)), after));
            let differs = |mask: u64| {
                let bytes = before.as_bytes().iter().zip(after.1.as_bytes()).enumerate();
                bytes.filter(|(i, _)| (mask | 1 << 63) >> i & 1 == 1).any(|(_, (a, b))| a != b)
            };
            for (i, byte) in after.0.as_bytes().iter().enumerate() {
                let is_kept = (kept | 1 << 63) >> i & 1 == 1;
                prop_assert_eq!(*byte, if is_kept { after.1.as_bytes()[i] } else { 0 });
            }
            let expected = match (differs(kept), differs(key)) {
                (false, _) => Likeness::All,
                (_, false) => Likeness::Key,
                _ => Likeness::None,
            };
            prop_assert_eq!(excerpt.likeness(&before, &after.0), expected);
        }
    }
}
