//! The layout of items of version 1: which bytes of the headers an item holds.

use core::fmt;

use wire::Headers;
use zerocopy::{transmute_mut, transmute_ref};

use crate::form::{Form, Layout, TIME_LEN, load};
use crate::format::Version;

/// Bytes of [`Headers`] in 8-byte words.
const WORDS: usize = size_of::<Headers>() / 8;

/// Every second byte of every word: no mask has more runs.
const MAX_RUNS: usize = WORDS * 4;

/// The bit of [`Headers::malformed_code`], the last byte.
pub(crate) const MALFORMED_CODE: u64 = 1 << 63;

// The format is little-endian where it holds bytes of `Headers`; elsewhere these would not be the same.
const _: () =
    assert!(cfg!(target_endian = "little"), "history is read in place on little-endian machines only");

/// Which bytes of [`Headers`] an item of history holds, and how an item is packed.
///
/// ```text
///  0          8                                     item_len
///  | time_ns  | the bytes that the mask has, in ascending order |
/// ```
///
/// All of it is little-endian, which is how `Headers` lies in memory. Items are not padded: a word is
/// moved with one unaligned load, and bytes that say nothing would be sent with every packet.
#[derive(Clone)]
pub struct ItemLayout {
    mask: u64,
    item_len: usize,
    runs: [Run; MAX_RUNS],
    run_count: usize,
}

/// Neighbouring bytes within one word of [`Headers`], moved by one load and one store.
///
/// The 8 bytes of the item that *end* where the run ends are loaded. So the last run reads nothing behind
/// the item, and the first reads at worst a part of the time stamp.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The run's bytes within the word.
    mask: u64,
    /// Where the 8 bytes begin in the item.
    at: u8,
    /// Which word of the headers.
    word: u8,
    /// Bits between the run's end and the end of its word.
    rotate: u8,
}

impl ItemLayout {
    /// Bytes of the longest item.
    pub const MAX_ITEM_LEN: usize = TIME_LEN + size_of::<Headers>();

    /// The layout of items with these bytes of [`Headers`]: bit *i* of the mask stands for byte *i*.
    ///
    /// The last byte, [`Headers::malformed_code`], is in every item, whatever the mask says: a replica has
    /// to know that no function saw a packet.
    pub fn new(header_bytes: u64) -> ItemLayout {
        let mask = header_bytes | MALFORMED_CODE;
        let item_len = TIME_LEN + mask.count_ones() as usize;
        let mut layout = ItemLayout { mask, item_len, runs: [Run::default(); MAX_RUNS], run_count: 0 };
        let mut end = TIME_LEN as u32;
        for word in 0..WORDS as u8 {
            let mut left = mask.to_le_bytes()[usize::from(word)];
            while left != 0 {
                let first = left.trailing_zeros();
                let bytes = (left >> first).trailing_ones();
                end += bytes;
                layout.runs[layout.run_count] = Run {
                    mask: u64::MAX >> (64 - 8 * bytes) << (8 * first),
                    at: (end - 8) as u8,
                    word,
                    rotate: (8 * (8 - bytes - first)) as u8,
                };
                layout.run_count += 1;
                left &= !(u8::MAX >> (8 - bytes) << first);
            }
        }
        layout
    }

    /// The bytes of [`Headers`] that items have, [`Headers::malformed_code`] included. Two layouts are the
    /// same if their masks are.
    pub fn header_bytes(&self) -> u64 {
        self.mask
    }

    /// Bytes of an item: 9 to [`ItemLayout::MAX_ITEM_LEN`].
    #[inline]
    pub fn item_len(&self) -> usize {
        self.item_len
    }

    /// Writes an item. `item` is [`item_len`](Self::item_len) bytes long.
    ///
    /// # Panics
    /// If `item` is of another length.
    #[inline]
    pub fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        assert_eq!(item.len(), self.item_len);
        let words: &[u64; WORDS] = transmute_ref!(headers);
        // From the last: what a run spills before itself is overwritten by those before it.
        for run in self.runs().iter().rev() {
            let word = words[usize::from(run.word) % WORDS].rotate_left(run.rotate.into());
            let at = usize::from(run.at);
            item[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        item[..8].copy_from_slice(&time_ns.to_le_bytes());
    }

    /// Reads an item's headers, with all bytes 0 that it does not hold, and its time.
    ///
    /// # Panics
    /// If `item` is not [`item_len`](Self::item_len) bytes long.
    #[inline]
    pub fn read(&self, item: &[u8]) -> (Headers, u64) {
        let mut headers = Headers::default();
        let time_ns = self.read_into(item, &mut headers);
        (headers, time_ns)
    }

    /// Reads an item into headers that have their place already, which saves moving 64 bytes. Returns what `read`
    /// returns beside them.
    ///
    /// # Panics
    /// If `item` is not [`item_len`](Self::item_len) bytes long.
    #[inline]
    pub fn read_into(&self, item: &[u8], headers: &mut Headers) -> u64 {
        assert_eq!(item.len(), self.item_len);
        let words: &mut [u64; WORDS] = transmute_mut!(headers);
        *words = [0; WORDS];
        for run in self.runs() {
            let word = load(item, run.at.into()).rotate_right(run.rotate.into());
            words[usize::from(run.word) % WORDS] |= word & run.mask;
        }
        load(item, 0)
    }

    #[inline]
    fn runs(&self) -> &[Run] {
        &self.runs[..self.run_count]
    }
}

impl Layout for ItemLayout {
    #[inline]
    fn form(&self) -> Form {
        Form { version: Version::Headers, layout: self.mask, item_len: self.item_len, table_seed: 0 }
    }

    #[inline]
    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        ItemLayout::write(self, headers, time_ns, item);
    }
}

impl PartialEq for ItemLayout {
    fn eq(&self, other: &ItemLayout) -> bool {
        self.mask == other.mask
    }
}

impl Eq for ItemLayout {}

impl fmt::Debug for ItemLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemLayout({:#018x}, {} bytes)", self.mask, self.item_len)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::vec::Vec;
    use wire::Addr;
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    /// What an item has to hold, in plain code: byte by byte.
    fn packed(headers: &Headers, time_ns: u64, mask: u64) -> Vec<u8> {
        let kept = headers.as_bytes().iter().enumerate().filter(|(i, _)| (mask | 1 << 63) >> i & 1 == 1);
        time_ns.to_le_bytes().into_iter().chain(kept.map(|(_, byte)| *byte)).collect()
    }

    #[test]
    fn a_source_and_a_port_are_packed_as_drawn() {
        let headers = Headers {
            src: Addr::v4([192, 0, 2, 1]),
            src_port: 9,
            dst_port: 0x0102,
            malformed_code: 3,
            ..Headers::default()
        };
        // The last four bytes of the source, and the destination port.
        let layout = ItemLayout::new(0xf << 12 | 0b11 << 46);
        let mut item = [0xee; 15];
        layout.write(&headers, 0x0807_0605_0403_0201, &mut item);
        assert_eq!(item, [1, 2, 3, 4, 5, 6, 7, 8, 192, 0, 2, 1, 2, 1, 3]);
        let (read, time_ns) = layout.read(&item);
        assert_eq!(time_ns, 0x0807_0605_0403_0201);
        let mut src = Addr::UNSPECIFIED;
        src.0[12..].copy_from_slice(&[192, 0, 2, 1]);
        assert_eq!(read, Headers { src, src_port: 0, ..headers });
    }

    #[test]
    fn the_shortest_and_the_longest() {
        assert_eq!(ItemLayout::new(0).item_len(), 9);
        assert_eq!(ItemLayout::new(u64::MAX).item_len(), ItemLayout::MAX_ITEM_LEN);
        let most_runs = ItemLayout::new(0x5555_5555_5555_5555);
        // Byte 63 joins byte 62.
        assert_eq!((most_runs.runs().len(), most_runs.item_len()), (MAX_RUNS, 8 + 33));
    }

    #[test]
    fn layouts_are_the_same_with_the_same_bytes() {
        let (all, none) = (ItemLayout::new(u64::MAX), ItemLayout::new(0));
        assert!(none == ItemLayout::new(MALFORMED_CODE) && none != all, "the last byte is in every item");
        assert_eq!(std::format!("{none:?}"), "ItemLayout(0x8000000000000000, 9 bytes)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn items_are_what_plain_code_makes(
            bytes in proptest::array::uniform32(any::<u16>()),
            time_ns: u64,
            mask in prop_oneof![any::<u64>(), any::<u64>().prop_map(|m| m & m >> 7 & m >> 13)],
        ) {
            let headers = Headers::read_from_bytes(bytes.as_bytes()).unwrap();
            let layout = ItemLayout::new(mask);
            let mut item = std::vec![0; layout.item_len()];
            layout.write(&headers, time_ns, &mut item);
            prop_assert_eq!(&item, &packed(&headers, time_ns, mask));

            let mut left = headers;
            let kept = left.as_mut_bytes().iter_mut().enumerate();
            kept.for_each(|(i, byte)| *byte *= (layout.header_bytes() >> i & 1) as u8);
            prop_assert_eq!(layout.read(&item), (left, time_ns));
        }
    }
}
