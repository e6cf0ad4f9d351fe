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
use wire::Stamp;

use crate::path::batch::Batch;
use crate::path::packets::{BATCH_PACKETS, all_bits};

/// A column of the history, of whatever type.
pub(crate) trait AnyColumn: Send {
    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Copy + Send + Sync + 'static> AnyColumn for Column<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A group's columns.
#[derive(Clone)]
pub(crate) struct KeyColumn {
    pub(crate) wanted: Column<Wanted>,
    /// 1: the packet before has the same key; else 0, and where that is not known.
    pub(crate) repeats: Column<u8>,
}

impl AnyColumn for KeyColumn {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All columns, with one core's end of them.
pub(crate) struct Columns {
    pub(crate) reader: Reader,
    /// When each came, ns.
    pub(crate) times_ns: Column<u64>,
    /// 1: the packet is malformed; else 0.
    pub(crate) malformed: Column<u8>,
    /// By function, of those that begin a group with states.
    pub(crate) keys: Vec<Option<Box<dyn AnyColumn>>>,
    /// By function.
    pub(crate) metas: Vec<Box<dyn AnyColumn>>,
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

/// At most [`BATCH_PACKETS`] packets that follow each other.
pub(crate) struct Items<'a> {
    columns: &'a Columns,
    /// The place of the first in the columns.
    place: usize,
    /// The number of the first.
    pub(crate) first_seq: u64,
    pub(crate) times_ns: &'a [u64],
    /// Bit *i*: item *i* is a packet of the batch.
    pub(crate) own: u64,
    /// Of these, which.
    packets: [u8; BATCH_PACKETS],
    /// Bit *i*: item *i* is well-formed, and nothing has ended the chain for it.
    pub(crate) live: u64,
}

impl<'a> Items<'a> {
    /// Packets from number `first_seq` on, which is at `place` of the columns; those of the batch from its entry `own` on
    /// are among them. Says which entry comes next.
    pub(crate) fn new(
        columns: &'a Columns,
        place: usize,
        count: usize,
        first_seq: u64,
        batch: &Batch,
        mut own: usize,
    ) -> (Items<'a>, usize) {
        let times_ns = columns.times_ns.items(&columns.reader, place, count);
        let malformed = columns.malformed.items(&columns.reader, place, count);
        let malformed =
            if malformed.iter().fold(0, |all, one| all | one) == 0 { 0 } else { set_of(malformed) };
        let live = all_bits(count) & !malformed;
        let mut items =
            Items { columns, place, first_seq, times_ns, own: 0, packets: [0; BATCH_PACKETS], live };
        while let Some(frame) = batch.frames.get(own)
            && let Some(item) = frame.stamp.seq.checked_sub(first_seq)
            && item < count as u64
        {
            items.own |= 1 << item;
            items.packets[item as usize] = own as u8;
            items.sync(item as usize, batch);
            own += 1;
        }
        (items, own)
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
        Stamp { seq: self.first_seq + item as u64, time_ns: self.times_ns[item] }
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
        let column: &KeyColumn = column.as_any().downcast_ref().expect("of a group");
        let (reader, place, count) = (&self.columns.reader, self.place, self.len());
        (column.wanted.items(reader, place, count), set_of(column.repeats.items(reader, place, count)))
    }

    /// What a function reads of the items.
    #[inline]
    pub(crate) fn metas<M: Copy + 'static>(&self, function: usize) -> &'a [Option<M>] {
        let column = self.columns.metas[function].as_any();
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
