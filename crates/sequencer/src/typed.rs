//! The layout of items of version 2: keys and metas of a chain's functions in place of headers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use thiserror::Error;

use crate::form::{Form, TIME_LEN};
use crate::format::Version;

/// Where the parts of a typed item are: one for the key of each group of functions that keeps states, one for what each
/// function reads.
///
/// ```text
///  0          8         8 + M                                item_len
///  | time_ns  | M marks | part 0 | part 1 | ... | part n - 1 |
///
///  marks:  bit 0  malformed      bit 1 + i  of part i           M = (1 + n) bits in whole bytes
///  a key:    | hash, 4 | short, 16 |                             its mark: short holds all of the key
///  a meta:   | as the function has it in memory |                its mark: the packet is the function's business
/// ```
///
/// Parts are in the order of the chain, a group's key ahead of its functions. A part whose mark says that there is
/// nothing is zeros, and so are all parts of a malformed packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedLayout {
    form: Form,
    places: Box<[Place]>,
}

/// A part of typed items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The key of a group.
    Key {
        /// The header fields that it is made of, as bits.
        fields: u32,
        /// Whether both directions have one.
        is_symmetric: bool,
        /// Its bytes, where it is whole.
        bytes: usize,
    },
    /// What a function reads.
    Meta {
        /// The function's name.
        function: &'a str,
        /// The header fields that it reads, as bits.
        reads: u32,
        /// Its bytes.
        bytes: usize,
    },
}

/// Where a part is in each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of its first byte in an item.
    pub at: usize,
    /// How many bytes it has.
    pub len: usize,
    /// The number of its mark, from the first byte's lowest bit on.
    pub mark: usize,
}

/// Items that would be longer than any sequencer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an item of {0} bytes, where the longest have {max}", max = TypedLayout::MAX_ITEM_LEN)]
pub struct TooLong(pub usize);

/// Bytes of a hash.
const HASH_LEN: usize = 4;

/// Bytes of what stands for a key, hash included.
const KEY_LEN: usize = HASH_LEN + 16;

impl TypedLayout {
    /// Bytes of the longest item.
    pub const MAX_ITEM_LEN: usize = 1024;

    /// For these parts. `program` names who packs them, and its version: both ends must be alike, since a function's
    /// meta is what that program has in memory.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(program: &str, parts: &[Part<'_>], table_seed: u64) -> Result<TypedLayout, TooLong> {
        let mut end = TIME_LEN + (1 + parts.len()).div_ceil(8);
        let place = |(index, part): (usize, &Part<'_>)| {
            let len = match part {
                Part::Key { .. } => KEY_LEN,
                Part::Meta { bytes, .. } => *bytes,
            };
            end += len;
            Place { at: end - len, len, mark: 1 + index }
        };
        let places = parts.iter().enumerate().map(place).collect();
        if end > Self::MAX_ITEM_LEN {
            return Err(TooLong(end));
        }
        let layout = hash(described(program, parts).as_bytes());
        Ok(TypedLayout { form: Form { version: Version::Typed, layout, item_len: end, table_seed }, places })
    }

    /// What the fixed header says of the items.
    #[inline]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Where the parts are, in their order.
    #[inline]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where the first part begins, behind time and marks.
    #[inline]
    pub fn parts_at(&self) -> usize {
        TIME_LEN + (1 + self.places.len()).div_ceil(8)
    }

    /// Begins an item: its time, whether the packet is malformed, and zeros.
    ///
    /// # Panics
    /// If `item` is of another length.
    #[inline]
    pub fn begin(&self, time_ns: u64, is_malformed: bool, item: &mut [u8]) {
        assert_eq!(item.len(), self.form.item_len);
        item[TIME_LEN..].fill(0);
        item[..TIME_LEN].copy_from_slice(&time_ns.to_le_bytes());
        item[TIME_LEN] = u8::from(is_malformed);
    }

    /// Whether the packet of an item is malformed.
    #[inline]
    pub fn is_malformed(item: &[u8]) -> bool {
        item[TIME_LEN] & 1 == 1
    }
}

impl Place {
    /// The bytes of the part.
    #[inline]
    pub fn of<'a>(&self, item: &'a [u8]) -> &'a [u8] {
        &item[self.at..self.at + self.len]
    }

    /// The part's bytes in `item`, to be written.
    #[inline]
    pub fn of_mut<'a>(&self, item: &'a mut [u8]) -> &'a mut [u8] {
        &mut item[self.at..self.at + self.len]
    }

    /// Whether the part's mark is set.
    #[inline]
    pub fn is_marked(&self, item: &[u8]) -> bool {
        item[TIME_LEN + self.mark / 8] >> (self.mark % 8) & 1 == 1
    }

    /// Sets the part's mark, or leaves it.
    #[inline]
    pub fn mark(&self, is_set: bool, item: &mut [u8]) {
        item[TIME_LEN + self.mark / 8] |= u8::from(is_set) << (self.mark % 8);
    }

    /// The hash and the 16 bytes that stand for a key.
    ///
    /// # Panics
    /// If the part is no key.
    #[inline]
    pub fn key(&self, item: &[u8]) -> (u32, u128) {
        let (hash, short) = self.of(item).split_at(HASH_LEN);
        let hash = u32::from_le_bytes(hash.try_into().expect("4 bytes"));
        (hash, u128::from_le_bytes(short.try_into().expect("16 bytes")))
    }
}

/// Writes the part of a key: its hash, and what stands for it.
///
/// # Panics
/// If `part` is not as long.
#[inline]
pub fn write_key(hash: u32, short: u128, part: &mut [u8]) {
    let (hash_bytes, short_bytes) = part.split_at_mut(HASH_LEN);
    hash_bytes.copy_from_slice(&hash.to_le_bytes());
    short_bytes.copy_from_slice(&short.to_le_bytes());
}

/// What a layout's number is the hash of: a line for the program, and one for each part.
fn described(program: &str, parts: &[Part<'_>]) -> String {
    let mut text = format!("{program}\n");
    for part in parts {
        let written = match part {
            Part::Key { fields, is_symmetric, bytes } => {
                writeln!(text, "key {fields:x} {} {bytes}", u8::from(*is_symmetric))
            }
            Part::Meta { function, reads, bytes } => writeln!(text, "meta {function} {reads:x} {bytes}"),
        };
        written.expect("a string takes all");
    }
    text
}

/// FNV-1a of 64 bits: three lines in any language, and asked once for a chain.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const KEY: Part<'_> = Part::Key { fields: 1, is_symmetric: false, bytes: 16 };
    const META: Part<'_> = Part::Meta { function: "ddos", reads: 0x8001, bytes: 16 };

    #[test]
    fn parts_follow_each_other_behind_their_marks() {
        let layout = TypedLayout::new("a", &[KEY, META], 7).expect("short");
        let places = [Place { at: 9, len: 20, mark: 1 }, Place { at: 29, len: 16, mark: 2 }];
        assert_eq!((layout.places(), layout.form().item_len, layout.parts_at()), (&places[..], 45, 9));
        let eight = TypedLayout::new("a", &[META; 8], 7).expect("short");
        assert_eq!((eight.parts_at(), eight.places()[7].mark, eight.form().item_len), (10, 8, 10 + 8 * 16));
        let mut item = [0xee; 138];
        eight.begin(5, false, &mut item);
        eight.places()[7].mark(true, &mut item);
        assert_eq!(item[..11], [5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let marked = eight.places().iter().filter(|place| place.is_marked(&item));
        assert_eq!(marked.count(), 1);
    }

    #[test]
    fn layouts_are_told_apart() {
        let number =
            |program, parts: &[Part<'_>]| TypedLayout::new(program, parts, 7).expect("short").form().layout;
        let ours = number("a", &[KEY, META]);
        for other in [
            number("b", &[KEY, META]),
            number("a", &[META, KEY]),
            number("a", &[META]),
            number("a", &[KEY, META, META]),
            number("a", &[Part::Key { fields: 2, is_symmetric: false, bytes: 16 }, META]),
            number("a", &[Part::Key { fields: 1, is_symmetric: true, bytes: 16 }, META]),
            number("a", &[Part::Key { fields: 1, is_symmetric: false, bytes: 32 }, META]),
            number("a", &[KEY, Part::Meta { function: "policer", reads: 0x8001, bytes: 16 }]),
            number("a", &[KEY, Part::Meta { function: "ddos", reads: 0x8003, bytes: 16 }]),
        ] {
            assert_ne!(other, ours);
        }
        assert_eq!(described("a", &[KEY, META]), "a\nkey 1 0 16\nmeta ddos 8001 16\n");
        // http://www.isthe.com/chongo/tech/comp/fnv/
        assert_eq!((hash(b""), hash(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }

    proptest! {
        /// Against plain code, which puts them behind each other: keys and metas, marked or not.
        #[test]
        fn parts_are_where_they_are_said_to_be(
            parts in vec((prop::option::of(0..20_usize), any::<(bool, u32, u128)>()), 0..20),
            time_ns: u64,
            is_malformed: bool,
        ) {
            let kinds = parts.iter().map(|(meta, _)| match meta {
                Some(bytes) => Part::Meta { function: "ddos", reads: 1, bytes: *bytes },
                None => KEY,
            });
            let layout = TypedLayout::new("a", &kinds.collect::<Vec<_>>(), 7).expect("short");
            let mut item = std::vec![0xee; layout.form().item_len];
            layout.begin(time_ns, is_malformed, &mut item);
            let (mut marks, mut behind) = (u64::from(is_malformed), Vec::new());
            for (index, ((meta, (is_marked, hash, short)), place)) in parts.iter().zip(layout.places()).enumerate() {
                place.mark(*is_marked, &mut item);
                marks |= u64::from(*is_marked) << (1 + index);
                if let Some(bytes) = meta {
                    place.of_mut(&mut item).fill(*hash as u8);
                    behind.resize(behind.len() + bytes, *hash as u8);
                } else {
                    write_key(*hash, *short, place.of_mut(&mut item));
                    behind.extend([&hash.to_le_bytes()[..], &short.to_le_bytes()].concat());
                }
            }
            let marks = &marks.to_le_bytes()[..layout.parts_at() - 8];
            prop_assert_eq!(marks.len(), parts.len() / 8 + 1);
            prop_assert_eq!(&item, &[&time_ns.to_le_bytes(), marks, &behind].concat());
            prop_assert_eq!(TypedLayout::is_malformed(&item), is_malformed);
            for ((meta, (is_marked, hash, short)), place) in parts.iter().zip(layout.places()) {
                prop_assert_eq!(place.is_marked(&item), *is_marked);
                match meta {
                    Some(bytes) => prop_assert_eq!(place.of(&item), &std::vec![*hash as u8; *bytes]),
                    None => prop_assert_eq!(place.key(&item), (*hash, *short)),
                }
            }
        }
    }

    #[test]
    fn the_longest_items() {
        let meta = |bytes| TypedLayout::new("a", &[Part::Meta { function: "long", reads: 0, bytes }], 0);
        assert_eq!(meta(1015).expect("just").form().item_len, TypedLayout::MAX_ITEM_LEN);
        assert_eq!(meta(1016), Err(TooLong(1025)));
    }
}
