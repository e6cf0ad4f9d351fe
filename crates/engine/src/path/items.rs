//! What a core is told of packets, its own and those of other cores, in the order of their numbers: all that their
//! steps need (SCR §3.1, *f(p)*).
//!
//! ```text
//!            packet  0  1  2  3  4  5  6  7
//!   times, malformed
//!   wanted           columns of a group:     what the packet is looked up by, and whether it repeats the last
//!   metas            one column a function:  its meta, if the packet is its business
//!   own              .  .  1  .  .  1  .  .     these are in the batch as well
//! ```

use std::any::Any;

use nf::Verdict;
use ring::{Column, Reader};
use table::Wanted;
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::packets::{BATCH_PACKETS, all_bits};
use crate::path::parcel::UNKNOWN_ENTRY;

/// A column of the history: only the function that wrote it knows its type.
pub(crate) type AnyColumn = dyn Any + Send;

/// A group's columns.
#[derive(Clone)]
pub(crate) struct KeyColumn {
    pub(crate) wanted: Column<Wanted>,
    /// 1: the packet before has the same key; else 0, and where that is not known.
    pub(crate) repeats: Column<u8>,
}

/// All columns, with one core's end of them.
pub(crate) struct Columns {
    pub(crate) reader: Reader,
    /// When each came, ns.
    pub(crate) times_ns: Column<u64>,
    /// 1: the packet is malformed; else 0.
    pub(crate) malformed: Column<u8>,
    /// By function, of those that begin a group with states.
    pub(crate) keys: Vec<Option<Box<AnyColumn>>>,
    /// By function.
    pub(crate) metas: Vec<Box<AnyColumn>>,
    /// In place of keys and metas, where these are not known ahead of the steps.
    pub(crate) headers: Option<Column<Headers>>,
}

/// The set of at most 64 items that have a 1, where the others have a 0.
#[inline]
fn set_of(ones: &[u8]) -> u64 {
    // The product moves the lowest bit of byte *i* to bit 56 + *i*; nothing is carried.
    let eight = |ones: [u8; 8]| u64::from_le_bytes(ones).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let (eights, rest) = ones.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let set = eights.iter().rev().fold(0, |set, ones| set << 8 | eight(*ones));
    if rest.is_empty() { set } else { set | eight(last) << (8 * eights.len()) }
}

/// The numbers of at most [`BATCH_PACKETS`] items.
#[derive(Clone, Copy)]
pub(crate) struct Seqs<'a> {
    first: u64,
    behind: &'a [u64; BATCH_PACKETS],
}

/// How far each of some packets that follow each other is behind the first.
static BEHIND: [u64; BATCH_PACKETS] = {
    let mut behind = [0; BATCH_PACKETS];
    let mut item = 0;
    while item < BATCH_PACKETS {
        behind[item] = item as u64;
        item += 1;
    }
    behind
};

impl<'a> Seqs<'a> {
    /// Packets that follow each other.
    pub(crate) fn following(first: u64) -> Seqs<'static> {
        Seqs { first, behind: &BEHIND }
    }

    /// Any packets, in the order of their numbers.
    pub(crate) fn of(seqs: &'a [u64; BATCH_PACKETS]) -> Seqs<'a> {
        Seqs { first: 0, behind: seqs }
    }

    #[inline(always)]
    pub(crate) fn seq(self, item: usize) -> u64 {
        self.first + self.behind[item]
    }
}

/// At most [`BATCH_PACKETS`] packets whose places in the columns follow each other.
pub(crate) struct Items<'a> {
    columns: &'a Columns,
    /// The place of the first in the columns.
    place: usize,
    pub(crate) seqs: Seqs<'a>,
    /// By packet whose flow may go to another table: the entry of the indirection table that brings it.
    entries: Option<&'a [u16; BATCH_PACKETS]>,
    pub(crate) times_ns: &'a [u64],
    /// Bit *i*: item *i* is a packet of the batch.
    pub(crate) own: u64,
    /// By item that is a packet of the batch, which packet.
    packets: [u8; BATCH_PACKETS],
    /// Bit *i*: item *i* is well-formed, and nothing has ended the chain for it.
    pub(crate) live: u64,
}

impl<'a> Items<'a> {
    /// Those that are from `place` of the columns on.
    #[inline]
    pub(crate) fn new(columns: &'a Columns, place: usize, count: usize, seqs: Seqs<'a>) -> Items<'a> {
        let times_ns = columns.times_ns.items(&columns.reader, place, count);
        let malformed = columns.malformed.items(&columns.reader, place, count);
        let malformed =
            if malformed.iter().fold(0, |all, one| all | one) == 0 { 0 } else { set_of(malformed) };
        let live = all_bits(count) & !malformed;
        Items { columns, place, seqs, entries: None, times_ns, own: 0, packets: [0; BATCH_PACKETS], live }
    }

    /// These items, with the entry of each.
    #[inline]
    pub(crate) fn with_entries(self, entries: &'a [u16; BATCH_PACKETS]) -> Items<'a> {
        Items { entries: Some(entries), ..self }
    }

    /// The item is this packet of the batch.
    #[inline]
    pub(crate) fn mark_own(&mut self, item: usize, packet: usize, batch: &Batch) {
        debug_assert_eq!(batch.frames[packet].stamp, self.stamp(item), "the packet that was told of");
        self.own |= 1 << item;
        self.packets[item] = packet as u8;
        self.sync(item, batch);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.times_ns.len()
    }

    #[inline(always)]
    pub(crate) fn is_own(&self, item: usize) -> bool {
        self.own >> item & 1 == 1
    }

    /// Which entry of the batch an own item is.
    #[inline(always)]
    pub(crate) fn packet(&self, item: usize) -> usize {
        self.packets[item].into()
    }

    /// Its number and its time.
    #[inline(always)]
    pub(crate) fn stamp(&self, item: usize) -> Stamp {
        Stamp { seq: self.seqs.seq(item), time_ns: self.times_ns[item] }
    }

    /// The entry that brings it.
    #[inline]
    pub(crate) fn entry(&self, item: usize) -> u16 {
        self.entries.map_or(UNKNOWN_ENTRY, |entries| entries[item])
    }

    /// Ends the chain for an item of another core, if that is the verdict on it.
    #[inline(always)]
    pub(crate) fn conclude(&mut self, item: usize, verdict: Verdict) {
        self.live &= !(u64::from(verdict != Verdict::Forward) << item);
    }

    /// An own item lives as long as its entry of the batch does.
    #[inline(always)]
    pub(crate) fn sync(&mut self, item: usize, batch: &Batch) {
        let is_live = batch.live >> self.packet(item) & 1;
        self.live = self.live & !(1 << item) | is_live << item;
    }

    /// What the group that begins with this function looks the items up by, and which of them repeat the one before.
    #[inline]
    pub(crate) fn wanted(&self, function: usize) -> (&'a [Wanted], u64) {
        let column = self.columns.keys[function].as_ref().expect("the group has a column");
        let column: &KeyColumn = column.downcast_ref().expect("of a group");
        let (reader, place, count) = (&self.columns.reader, self.place, self.len());
        (column.wanted.items(reader, place, count), set_of(column.repeats.items(reader, place, count)))
    }

    /// What a function reads of the items.
    #[inline]
    pub(crate) fn metas<M: Copy + 'static>(&self, function: usize) -> &'a [Option<M>] {
        let column = &*self.columns.metas[function];
        let column: &Column<Option<M>> = column.downcast_ref().expect("of this meta");
        column.items(&self.columns.reader, self.place, self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_ones() {
        let mut ones = [0; BATCH_PACKETS];
        for item in 0..BATCH_PACKETS {
            ones[item] = u8::from(item * 7 % 5 < 2);
            for count in item + 1..=BATCH_PACKETS {
                let expected = (0..count).fold(0, |set, item| set | u64::from(ones[item]) << item);
                assert_eq!(set_of(&ones[..count]), expected);
            }
        }
    }
}
