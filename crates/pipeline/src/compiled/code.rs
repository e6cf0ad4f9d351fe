//! What a stage does, as a list of operations over the words of a header vector.

use p4::ir::{Algorithm, Binary, ones};

/// Words of every header vector: which objects the packet has asked, and which it has written, a bit for each.
pub const ASKED: usize = 0;
pub const WRITTEN: usize = 1;
/// The packet's number from 1, and when it came in ns.
pub const NUMBER: usize = 2;
pub const TIME_NS: usize = 3;
/// Where the program's own begin.
pub const FIRST_FREE: usize = 4;

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A word.
    Word(u16),
    /// Two words, the low one first.
    Pair(u16),
    /// A number.
    Constant(u64),
    /// A number of more than 64 bits, by its place in the list of those.
    Wide(u32),
}

/// Where a value goes: one word for up to 64 bits, else two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub word: u16,
    pub width: u16,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub start: u32,
    pub end: u32,
}

impl Range {
    pub fn of<T>(self, list: &[T]) -> &[T] {
        &list[self.start as usize..self.end as usize]
    }
}

/// What is computed: `p4::ir::Compute`, with its operands found.
#[derive(Clone, Copy, Debug)]
pub enum Compute {
    Copy(Source),
    Resize { from: Source, width: u16, signed: bool },
    Not(Source),
    Negate(Source),
    Slice { from: Source, high: u16, low: u16 },
    Insert { into: Source, from: Source, high: u16, low: u16 },
    Binary { by: Binary, a: Source, b: Source, width: u16, b_width: u16 },
    Select { condition: Source, then: Source, otherwise: Source },
}

/// An operation. Jumps lead forward only.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// `to = compute`
    Compute { to: Place, compute: Compute },
    /// Goes there if the value is 0.
    UnlessSet { condition: Source, target: u32 },
    /// Goes there if another action was chosen.
    UnlessChosen { word: u16, action: u32, target: u32 },
    /// Goes there.
    Jump { target: u32 },
    /// Looks a table up: the action goes to `chosen`, plus one.
    LookUp { table: u32, keys: Range, chosen: u16, hit: Option<Place>, action_run: Option<Place> },
    /// These objects are not asked by now.
    ForgetAsked { objects: u64 },
    /// These objects are not written by now.
    ForgetWritten { objects: u64 },
    /// The packet uses an object under this key.
    Ask { object: u16, keys: Range },
    /// Takes what the object holds for the packet; 0 where that is nothing.
    Recall { object: u16, to: Range },
    /// The object is to hold these values.
    Keep { object: u16, values: Range },
    /// Counts the packet.
    Count { object: u16 },
    /// Marks the packet.
    Mark { object: u16, to: Place },
    /// `to = base + hash(data) % max`; the base and max are before the data.
    Hash { algorithm: Algorithm, operands: Range, to: Place },
    /// A checksum over the data.
    Checksum { algorithm: Algorithm, data: Range, to: Place },
    /// `low` to `high`.
    Random { low: Source, high: Source, to: Place },
}

/// Lists that operations refer to.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    pub sources: Vec<Source>,
    /// The bits of each source.
    pub widths: Vec<u16>,
    pub places: Vec<Place>,
    pub wide: Vec<u128>,
}

pub fn pair(phv: &[u64], word: u16) -> u128 {
    let word = usize::from(word);
    u128::from(phv[word + 1]) << 64 | u128::from(phv[word])
}

/// Puts a value where it goes, cut to its bits.
#[inline]
pub fn put(phv: &mut [u64], to: Place, value: u128) {
    let value = value & ones(to.width.into());
    let word = usize::from(to.word);
    phv[word] = value as u64;
    if to.width > 64 {
        phv[word + 1] = (value >> 64) as u64;
    }
}

/// The value at a place.
pub fn get(phv: &[u64], from: Place) -> u128 {
    if from.width > 64 { pair(phv, from.word) } else { u128::from(phv[usize::from(from.word)]) }
}
