//! Parses the history that a packet carries, and reads its items where they lie.

use core::iter::FusedIterator;

use wire::{First, Headers, LinkType, Malformed, Stamp};
use zerocopy::FromBytes;
use zerocopy::big_endian::U16;

use crate::form::{Form, Layout, time_ns};
use crate::format::{
    FLUSH, FOLLOWED, MAGIC, MAX_RING_ITEMS, PrefixHeader, REFUSED_SHIFT, TableSeed, Version, header_offset,
    is_told,
};
use crate::layout::ItemLayout;
use crate::rejected::Rejected;

/// The history that a packet came with, checked, and read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct History<'a, L = ItemLayout> {
    layout: &'a L,
    item_len: usize,
    stamp: Stamp,
    /// The packet's link type; a flush has any.
    link: LinkType,
    refused: Option<Malformed>,
    first: Option<First>,
    is_flush: bool,
    ring: &'a [u8],
    count: usize,
    oldest: usize,
    packet_offset: usize,
}

impl<'a, L: Layout> History<'a, L> {
    /// Reads what [`Sequencer::prefix`](crate::Sequencer::prefix) wrote, behind an outer Ethernet header or
    /// without one. Every item's time is looked at, nothing is copied. Of the versions it takes that of the layout.
    ///
    /// # Errors
    /// [`Rejected`], for the first thing that is wrong in the order of its variants. What is not wrong may
    /// still be false: the format has no checksum of its own, Ethernet's is around it.
    pub fn parse(bytes: &'a [u8], layout: &'a L) -> Result<History<'a, L>, Rejected> {
        let Some(start) = header_offset(bytes) else {
            return Err(if MAGIC.starts_with(bytes) {
                Rejected::HeaderTruncated
            } else {
                Rejected::NotHistory
            });
        };
        let (header, rest) =
            PrefixHeader::ref_from_prefix(&bytes[start..]).map_err(|_| Rejected::HeaderTruncated)?;
        let form = layout.form();
        check_version(header, rest, &form)?;
        let (link, refused, is_followed) = check_kind(header)?;
        check_items(header, &form)?;
        let rest = check_seed(rest, &form)?;
        let ring_len = check_ring(header, &form)?;
        let (ring, behind) = rest.split_at_checked(ring_len).ok_or(Rejected::RingTruncated)?;
        let first = if is_followed {
            let bytes = behind.first_chunk().ok_or(Rejected::RingTruncated)?;
            Some(First::from_bytes(bytes))
        } else {
            None
        };
        let first_len = if is_followed { First::LEN } else { 0 };
        check_place(header)?;
        let history = History {
            layout,
            item_len: form.item_len,
            stamp: Stamp { seq: header.seq.get(), time_ns: header.time_ns.get() },
            link,
            refused,
            first,
            is_flush: header.flags & FLUSH != 0,
            ring,
            count: header.count.get().into(),
            oldest: header.oldest.get().into(),
            packet_offset: start + form.version.header_len() + ring_len + first_len,
        };
        history.check_times()?;
        // Ethernet pads short frames with zeros.
        if history.is_flush && behind.iter().any(|byte| *byte != 0) {
            return Err(Rejected::FlushWithPacket);
        }
        Ok(history)
    }

    /// The packet's own stamp; of a flush, the number of the packet that comes next.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether this is history alone, and no packet follows.
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.is_flush
    }

    /// What the packet begins with.
    #[inline]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Why the sequencer refused the packet, for a reason that its receiver cannot know: it is malformed then.
    #[inline]
    pub fn refused(&self) -> Option<Malformed> {
        self.refused
    }

    /// What the first fragment of the packet's datagram says, if the packet is a later one and the sequencer knows.
    #[inline]
    pub fn first(&self) -> Option<First> {
        self.first
    }

    /// Where the packet begins in the bytes that were parsed; it goes to their end.
    #[inline]
    pub fn packet_offset(&self) -> usize {
        self.packet_offset
    }

    /// How many items there are: those of the packets just before this one.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of the oldest item; the packet's own where there are no items.
    #[inline]
    pub fn first_seq(&self) -> u64 {
        self.stamp.seq - self.count as u64
    }

    /// The bytes of an item, counted from the oldest, as its layout wrote them.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn item_bytes(&self, index: usize) -> &'a [u8] {
        assert!(index < self.count, "item {index} of {}", self.count);
        let at = (self.oldest + index) * self.item_len;
        let at = if at >= self.ring.len() { at - self.ring.len() } else { at };
        &self.ring[at..at + self.item_len]
    }

    /// How many items the ring has room for: one less than the cores that the sequencer serves.
    #[inline]
    pub fn ring_items(&self) -> usize {
        self.ring.len() / self.item_len
    }

    fn check_times(&self) -> Result<(), Rejected> {
        let mut latest_ns = 0;
        let mut runs_back = false;
        let mut at = self.oldest * self.item_len;
        for _ in 0..self.count {
            let time_ns = time_ns(&self.ring[at..]);
            runs_back |= time_ns < latest_ns;
            latest_ns = time_ns;
            at += self.item_len;
            at = if at == self.ring.len() { 0 } else { at };
        }
        if runs_back || self.stamp.time_ns < latest_ns { Err(Rejected::TimeRunsBack) } else { Ok(()) }
    }
}

impl<'a> History<'a> {
    /// The items, oldest first.
    #[inline]
    pub fn items(&self) -> Items<'a> {
        self.items_after(0)
    }

    /// The items without the oldest `known`, which a core has seen: see
    /// [`Arrival::known`](crate::Arrival::known).
    #[inline]
    pub fn items_after(&self, known: usize) -> Items<'a> {
        let known = known.min(self.count);
        // Known items may go over the ring's end.
        let first = (self.oldest + known) * self.item_len;
        let at = if first >= self.ring.len() { first - self.ring.len() } else { first };
        let (before, after) = self.ring.split_at(at);
        let seq = self.first_seq() + known as u64;
        Items { layout: self.layout, seq, left: self.count - known, now: after, then: before }
    }
}

/// The header is of the version that is read here, and its rest is there.
#[inline]
fn check_version(header: &PrefixHeader, rest: &[u8], form: &Form) -> Result<(), Rejected> {
    if header.version != form.version as u8 {
        return Err(Rejected::Version);
    }
    let missing = form.version.header_len() - size_of::<PrefixHeader>();
    if rest.len() < missing { Err(Rejected::HeaderTruncated) } else { Ok(()) }
}

/// What the packet begins with, why it was refused, and whether what its first says stands before it.
#[inline]
fn check_kind(header: &PrefixHeader) -> Result<(LinkType, Option<Malformed>, bool), Rejected> {
    let mut is_followed = false;
    let refused = match header.flags {
        0 | FLUSH => None,
        flags if flags == FOLLOWED << REFUSED_SHIFT => {
            is_followed = true;
            None
        }
        flags => {
            let reason = Malformed::from_code(flags >> REFUSED_SHIFT).filter(is_told);
            Some(reason.filter(|_| flags & FLUSH == 0).ok_or(Rejected::Flags)?)
        }
    };
    let link = LinkType::from_pcap(header.link.get().into()).ok_or(Rejected::LinkType)?;
    Ok((link, refused, is_followed))
}

/// Items hold what the receiver expects.
#[inline]
fn check_items(header: &PrefixHeader, form: &Form) -> Result<(), Rejected> {
    if header.layout.get() != form.layout {
        return Err(Rejected::OtherLayout);
    }
    if usize::from(header.item_len.get()) != form.item_len {
        return Err(Rejected::ItemLength);
    }
    Ok(())
}

/// What is behind the fixed header, if the hashes in the items, where there are any, have the receiver's seed.
#[inline]
fn check_seed<'a>(rest: &'a [u8], form: &Form) -> Result<&'a [u8], Rejected> {
    if form.version == Version::Headers {
        return Ok(rest);
    }
    let (table_seed, rest) = TableSeed::ref_from_prefix(rest).map_err(|_| Rejected::HeaderTruncated)?;
    if table_seed.get() == form.table_seed { Ok(rest) } else { Err(Rejected::OtherSeed) }
}

/// Bytes of the ring.
#[inline]
fn check_ring(header: &PrefixHeader, form: &Form) -> Result<usize, Rejected> {
    let items = usize::from(header.ring_items.get());
    if items > MAX_RING_ITEMS { Err(Rejected::RingTooLarge) } else { Ok(items * form.item_len) }
}

/// The items that are said to be in the ring are in it, and where their numbers put them.
#[inline]
fn check_place(header: &PrefixHeader) -> Result<(), Rejected> {
    let [ring_items, count, oldest] = [header.ring_items, header.count, header.oldest].map(U16::get);
    if count > ring_items {
        return Err(Rejected::CountBeyondRing);
    }
    let Some(first_seq) = header.seq.get().checked_sub(count.into()) else {
        return Err(Rejected::CountBeyondSequence);
    };
    // A ring without items has no slots, and its index is 0.
    if oldest >= ring_items.max(1) {
        return Err(Rejected::OldestBeyondRing);
    }
    let slot = first_seq % u64::from(ring_items.max(1));
    if slot == u64::from(oldest) { Ok(()) } else { Err(Rejected::OldestMisplaced) }
}

/// The items of a [`History`], oldest first.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    layout: &'a ItemLayout,
    seq: u64,
    left: usize,
    /// The ring from here to its end, and then from its beginning.
    now: &'a [u8],
    then: &'a [u8],
}

impl Items<'_> {
    /// The next item, with its headers written where they have their place already.
    #[inline]
    pub fn next_into(&mut self, headers: &mut Headers) -> Option<Stamp> {
        self.left = self.left.checked_sub(1)?;
        if self.now.is_empty() {
            self.now = self.then;
        }
        let (item, rest) = self.now.split_at(self.layout.item_len());
        self.now = rest;
        let stamp = Stamp { seq: self.seq, time_ns: self.layout.read_into(item, headers) };
        self.seq += 1;
        Some(stamp)
    }
}

impl Iterator for Items<'_> {
    type Item = (Stamp, Headers);

    #[inline]
    fn next(&mut self) -> Option<(Stamp, Headers)> {
        let mut headers = Headers::default();
        let stamp = self.next_into(&mut headers)?;
        Some((stamp, headers))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}
impl FusedIterator for Items<'_> {}
