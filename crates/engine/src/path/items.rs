//! What a core is told of packets, its own and those of other cores, in the order of their numbers: all that their
//! steps need (SCR §3.1, *f(p)*).
//!
//! ```text
//!            packet  0  1  2  3  4  5  6  7
//!   heads            time, well-formed
//!   keys             one column a group:     what stands for the key, its hash
//!   metas            one column a function:  its meta, if the packet is its business
//!   own              .  .  1  .  .  1  .  .     these are in the batch as well
//! ```

use std::any::Any;

use nf::Short;
use ring::Subscriber;

use crate::path::batch::Batch;
use crate::path::packets::{BATCH_PACKETS, all_bits};

/// What is known of every packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// When it came, ns.
    pub(crate) time_ns: u64,
    /// Malformed packets up to here, this one included: where two have the same number, none is malformed behind the
    /// first up to the other.
    pub(crate) malformed: u64,
}

/// What a group looks a packet up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyItem {
    /// Low and high half of what stands for the key.
    short: [u64; 2],
    pub(crate) hash: u32,
    is_exact: bool,
}

impl KeyItem {
    /// Of no packet.
    pub(crate) const NONE: KeyItem = KeyItem { short: [0; 2], hash: 0, is_exact: false };

    #[inline]
    pub(crate) fn new(short: Short, hash: u32) -> KeyItem {
        KeyItem { short: [short.bits as u64, (short.bits >> 64) as u64], hash, is_exact: short.is_exact }
    }

    #[inline(always)]
    pub(crate) fn short(&self) -> Short {
        let [low, high] = self.short;
        Short { bits: u128::from(low) | u128::from(high) << 64, is_exact: self.is_exact }
    }

    /// Whether both are certainly of one key.
    #[inline(always)]
    pub(crate) fn is_same(&self, other: &KeyItem) -> bool {
        self.short == other.short && self.is_exact & other.is_exact
    }
}

/// One core's end of a column of the history.
pub(crate) trait Column: Send {
    /// Looks at how much there is now.
    fn refresh(&mut self);

    /// Gives items back.
    fn release(&mut self, below: usize);

    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Copy + Send + Sync + 'static> Column for Subscriber<T> {
    fn refresh(&mut self) {
        self.published();
    }

    fn release(&mut self, below: usize) {
        Subscriber::release(self, below);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A group's column.
pub(crate) struct KeyColumn<K> {
    pub(crate) items: Subscriber<KeyItem>,
    /// The keys, for new flows and for those that are not exact.
    pub(crate) keys: Subscriber<K>,
}

impl<K: Copy + Send + Sync + 'static> Column for KeyColumn<K> {
    fn refresh(&mut self) {
        self.items.published();
        self.keys.published();
    }

    fn release(&mut self, below: usize) {
        self.items.release(below);
        self.keys.release(below);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All columns of one core.
pub(crate) struct Columns {
    pub(crate) heads: Subscriber<Head>,
    /// By function, of those that begin a group with states.
    pub(crate) keys: Vec<Option<Box<dyn Column>>>,
    /// By function.
    pub(crate) metas: Vec<Box<dyn Column>>,
}

impl Columns {
    /// How many packets are told of.
    pub(crate) fn refresh(&mut self) -> usize {
        // The heads are written last.
        let published = self.heads.published();
        self.keys.iter_mut().flatten().chain(&mut self.metas).for_each(|column| column.refresh());
        published
    }

    /// Gives items back. The heads go last: where one of these has room, all have.
    pub(crate) fn release(&mut self, below: usize) {
        self.keys.iter_mut().flatten().chain(&mut self.metas).for_each(|column| column.release(below));
        self.heads.release(below);
    }
}

/// Which packets are malformed.
#[inline]
fn malformed(heads: &[Head], before: u64) -> u64 {
    if heads.last().is_none_or(|last| last.malformed == before) {
        return 0;
    }
    let mut malformed = 0;
    heads.iter().enumerate().fold(before, |before, (item, head)| {
        malformed |= u64::from(head.malformed != before) << item;
        head.malformed
    });
    malformed
}

/// At most [`BATCH_PACKETS`] packets that follow each other.
pub(crate) struct Items<'a> {
    columns: &'a Columns,
    /// The place of the first in the columns.
    place: usize,
    /// The number of the first.
    pub(crate) first_seq: u64,
    pub(crate) heads: &'a [Head],
    /// Bit *i*: item *i* is a packet of the batch.
    pub(crate) own: u64,
    /// Of these, which.
    packets: [u8; BATCH_PACKETS],
    /// Bit *i*: item *i* is well-formed, and nothing has ended the chain for it.
    pub(crate) live: u64,
}

impl<'a> Items<'a> {
    /// Packets from number `first_seq` on, which is at `place` of the columns; those of the batch from its entry `own` on
    /// are among them. Says which entry comes next. Before them `malformed_before` packets were malformed.
    pub(crate) fn new(
        columns: &'a Columns,
        place: usize,
        count: usize,
        first_seq: u64,
        malformed_before: u64,
        batch: &Batch,
        mut own: usize,
    ) -> (Items<'a>, usize) {
        let heads = columns.heads.items(place, count);
        let live = all_bits(heads.len()) & !malformed(heads, malformed_before);
        let mut items = Items { columns, place, first_seq, heads, own: 0, packets: [0; BATCH_PACKETS], live };
        while let Some(frame) = batch.frames.get(own)
            && let Some(item) = frame.stamp.seq.checked_sub(first_seq)
            && item < heads.len() as u64
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
        self.heads.len()
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

    /// An own item lives as long as its entry of the batch does.
    #[inline(always)]
    pub(crate) fn sync(&mut self, item: usize, batch: &Batch) {
        let is_live = batch.live >> self.packet(item) & 1;
        self.live = self.live & !(1 << item) | is_live << item;
    }

    /// What the group that begins with this function looks the items up by.
    #[inline]
    pub(crate) fn keys<K: Copy + 'static>(&self, function: usize) -> (&'a [KeyItem], &'a [K]) {
        let column = self.columns.keys[function].as_ref().expect("the group has a column");
        let column: &KeyColumn<K> = column.as_any().downcast_ref().expect("of this key");
        (column.items.items(self.place, self.len()), column.keys.items(self.place, self.len()))
    }

    /// What a function reads of the items.
    #[inline]
    pub(crate) fn metas<M: Copy + 'static>(&self, function: usize) -> &'a [Option<M>] {
        let column = self.columns.metas[function].as_any();
        let column: &Subscriber<Option<M>> = column.downcast_ref().expect("of this meta");
        column.items(self.place, self.len())
    }
}
