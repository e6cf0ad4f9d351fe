//! Version 3 of the format: items are named fields of a program, for programs in P4. Writer and reader.
//!
//! Versions 1 and 2 are read on the hot path of chains, and hold what Rust has in memory. This one is for programs that are compiled
//! for elsewhere: its items have no time of their own (a program that reads one has it as a field), no hash, and nothing of Rust's.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt::Write;

use wire::{RanBack, Stamp, Stamper};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::{FLUSH, MAGIC, MAX_CORES, MAX_RING_ITEMS, PrefixHeader, header_offset};
use crate::rejected::Rejected;
use crate::sequencer::{CoresOutOfRange, Placed};
use crate::typed::hash;

/// The version whose items are named fields.
pub const NAMED_VERSION: u8 = 3;

/// Bytes of the header before the ring of items.
pub const NAMED_HEADER_LEN: usize = size_of::<Header>();

/// What `link` says of a packet: Ethernet. 0 in a flush.
const ETHERNET: u16 = 1;

/// What the history begins with, numbers in network order.
///
/// ```text
///  0                              40     42     44     48
///  | as in the other versions ... | core | port | turn | ring ...
/// ```
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    common: PrefixHeader,
    core: U16,
    port: U16,
    turn: U32,
}

const _: () = assert!(NAMED_HEADER_LEN == 48);

/// What an item holds: fields in an order, each in whole bytes, big-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLayout {
    parts: Box<[NamedPart]>,
    item_len: usize,
    number: u64,
}

/// A field of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    /// Its name in the program.
    pub name: String,
    /// Its bits, 128 at most.
    pub width: u32,
    /// Where it is in an item.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
}

impl NamedLayout {
    /// An item of these fields, by name and bits. One without fields has a byte: that a packet came is something, too.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, u32)>) -> NamedLayout {
        let mut end = 0;
        let part = |(name, width): (&str, u32)| {
            let len = width.div_ceil(8) as usize;
            end += len;
            NamedPart { name: name.into(), width, at: end - len, len }
        };
        let parts: Box<[NamedPart]> = fields.into_iter().map(part).collect();
        let number = hash(text(&parts).as_bytes());
        NamedLayout { parts, item_len: end.max(1), number }
    }

    /// The fields, in their order.
    pub fn parts(&self) -> &[NamedPart] {
        &self.parts
    }

    /// Bytes of an item.
    pub fn item_len(&self) -> usize {
        self.item_len
    }

    /// The layout in words: `hdr.ipv4.src_addr:32 hdr.tcp.dst_port:16`.
    pub fn text(&self) -> String {
        text(&self.parts)
    }

    /// The layout's number in the header: FNV-1a of 64 bits over its text.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Writes an item of these values, one for each field; bits past a field's bytes are cut off.
    ///
    /// # Panics
    /// If `item` is shorter than one.
    pub fn write(&self, values: impl IntoIterator<Item = u128>, item: &mut [u8]) {
        item[..self.item_len].fill(0);
        for (NamedPart { at, len, .. }, value) in self.parts.iter().zip(values) {
            item[*at..at + len].copy_from_slice(&value.to_be_bytes()[16 - len..]);
        }
    }

    /// The values of an item's fields.
    ///
    /// # Panics
    /// If `item` is shorter than one.
    pub fn read<'a>(&'a self, item: &'a [u8]) -> impl Iterator<Item = u128> + 'a {
        let value = |part: &NamedPart| {
            item[part.at..part.at + part.len].iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
        };
        self.parts.iter().map(value)
    }
}

fn text(parts: &[NamedPart]) -> String {
    let mut text = String::new();
    for (at, NamedPart { name, width, .. }) in parts.iter().enumerate() {
        let space = if at == 0 { "" } else { " " };
        write!(text, "{space}{name}:{width}").expect("a string takes all");
    }
    text
}

/// Where a packet stands, and who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFront {
    /// Its number and time; of a flush, the number of the packet that comes next.
    pub stamp: Stamp,
    /// The core that gets it.
    pub core: u16,
    /// The port by which it came.
    pub port: u16,
    /// Its number among those of its core, the lower 32 bits.
    pub turn: u32,
    /// Whether no packet follows.
    pub is_flush: bool,
}

impl NamedFront {
    /// Writes header and ring: `ring` has its slots one after the other, `count` of them valid. Gives the bytes that it wrote.
    ///
    /// # Panics
    /// If `out` is shorter than both, or the ring is no whole number of items.
    pub fn write(&self, layout: &NamedLayout, ring: &[u8], count: usize, out: &mut [u8]) -> usize {
        assert!(ring.len().is_multiple_of(layout.item_len) && count <= ring.len() / layout.item_len);
        self.write_items((layout.number, layout.item_len), ring, count, out)
    }

    /// Writes the header alone, for a packet that needs no history: its items have no bytes.
    pub fn write_bare(&self, layout: u64, out: &mut [u8]) -> usize {
        self.write_items((layout, 0), &[], 0, out)
    }

    fn write_items(
        &self,
        (layout, item_len): (u64, usize),
        ring: &[u8],
        count: usize,
        out: &mut [u8],
    ) -> usize {
        let slots = ring.len().checked_div(item_len).unwrap_or_default();
        let oldest = self.stamp.seq.saturating_sub(count as u64).checked_rem(slots as u64);
        let header = Header {
            common: PrefixHeader {
                magic: MAGIC,
                version: NAMED_VERSION,
                flags: if self.is_flush { FLUSH } else { 0 },
                link: if self.is_flush { 0 } else { ETHERNET }.into(),
                seq: self.stamp.seq.into(),
                time_ns: self.stamp.time_ns.into(),
                layout: layout.into(),
                item_len: (item_len as u16).into(),
                ring_items: (slots as u16).into(),
                count: (count as u16).into(),
                oldest: (oldest.unwrap_or_default() as u16).into(),
            },
            core: self.core.into(),
            port: self.port.into(),
            turn: self.turn.into(),
        };
        let len = NAMED_HEADER_LEN + ring.len();
        let (head, rest) = out[..len].split_at_mut(NAMED_HEADER_LEN);
        head.copy_from_slice(header.as_bytes());
        rest.copy_from_slice(ring);
        len
    }
}

/// Stamps packets, gives them to cores in turn, and keeps their items: what a sequencer of version 3 does.
#[derive(Clone, Debug)]
pub struct NamedSequencer {
    layout: NamedLayout,
    cores: usize,
    stamper: Stamper,
    ring: Box<[u8]>,
    /// The number of the next packet.
    next: u64,
    /// When the last one came.
    time_ns: u64,
}

impl NamedSequencer {
    /// A sequencer for 1 to [`MAX_CORES`] cores that has seen no packet. Takes all memory that it will need.
    ///
    /// # Errors
    /// [`CoresOutOfRange`].
    pub fn new(layout: NamedLayout, cores: usize) -> Result<NamedSequencer, CoresOutOfRange> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(CoresOutOfRange(cores));
        }
        let ring = vec![0; (cores - 1) * layout.item_len].into();
        Ok(NamedSequencer { layout, cores, stamper: Stamper::default(), ring, next: 0, time_ns: 0 })
    }

    /// How items are packed.
    pub fn layout(&self) -> &NamedLayout {
        &self.layout
    }

    /// How many cores get packets.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Bytes of a prefix, the same for every packet.
    pub fn prefix_len(&self) -> usize {
        NAMED_HEADER_LEN + self.ring.len()
    }

    /// The stamp that a packet which comes now gets: a program whose item has the time computes it from that.
    pub fn stamp(&self, time_ns: u64) -> Stamp {
        Stamp { seq: self.next, time_ns: time_ns.max(self.time_ns) }
    }

    /// Takes the next packet, which came by `port`: writes what goes before it, then keeps its item.
    ///
    /// # Panics
    /// If `out` is shorter than [`prefix_len`](Self::prefix_len), or `item` than an item.
    pub fn next(&mut self, time_ns: u64, port: u16, item: &[u8], out: &mut [u8]) -> Placed {
        let (seq, cores) = (self.next, self.cores as u64);
        let stamp = self.stamper.stamp(time_ns);
        let core = (seq % cores) as usize;
        let turn = (seq / cores) as u32;
        let front = NamedFront { stamp, core: core as u16, port, turn, is_flush: false };
        front.write(&self.layout, &self.ring, self.count(), out);
        if let Some(slot) = seq.checked_rem(cores - 1) {
            let (at, len) = (slot as usize * self.layout.item_len, self.layout.item_len);
            self.ring[at..at + len].copy_from_slice(&item[..len]);
        }
        self.next = seq + 1;
        self.time_ns = stamp.time_ns;
        Placed { stamp, core }
    }

    /// Writes a flush for a core: the history with the last packet, and no packet behind it. It takes no number.
    ///
    /// # Panics
    /// If `out` is shorter than [`prefix_len`](Self::prefix_len).
    pub fn flush(&self, core: usize, out: &mut [u8]) -> Stamp {
        let stamp = Stamp { seq: self.next, time_ns: self.time_ns };
        let front = NamedFront { stamp, core: core as u16, port: 0, turn: 0, is_flush: true };
        front.write(&self.layout, &self.ring, self.count(), out);
        stamp
    }

    /// How far arrival times ran back so far, which stamps do not.
    pub fn ran_back(&self) -> RanBack {
        self.stamper.ran_back()
    }

    fn count(&self) -> usize {
        self.next.min(self.cores as u64 - 1) as usize
    }
}

/// The history that a packet came with, checked, and read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct NamedHistory<'a> {
    /// Where the packet stands.
    pub front: NamedFront,
    item_len: usize,
    ring: &'a [u8],
    count: usize,
    oldest: usize,
    packet_offset: usize,
}

impl<'a> NamedHistory<'a> {
    /// Reads a prefix, behind an outer Ethernet header or without one. Nothing is copied.
    ///
    /// # Errors
    /// [`Rejected`], for the first thing that is wrong in the order of its variants.
    pub fn parse(bytes: &'a [u8], layout: &NamedLayout) -> Result<NamedHistory<'a>, Rejected> {
        let Some(start) = header_offset(bytes) else {
            let is_cut = MAGIC.starts_with(bytes);
            return Err(if is_cut { Rejected::HeaderTruncated } else { Rejected::NotHistory });
        };
        let read = Header::ref_from_prefix(&bytes[start..]);
        let (Header { common, core, port, turn }, rest) = read.map_err(|_| Rejected::HeaderTruncated)?;
        let [item_len, ring_items, count, oldest] =
            [common.item_len, common.ring_items, common.count, common.oldest]
                .map(|number| usize::from(number.get()));
        let is_flush = common.flags == FLUSH;
        let seq = common.seq.get();
        let checks = [
            (common.version == NAMED_VERSION, Rejected::Version),
            (common.flags & !FLUSH == 0, Rejected::Flags),
            (common.link.get() == if is_flush { 0 } else { ETHERNET }, Rejected::LinkType),
            (common.layout.get() == layout.number, Rejected::OtherLayout),
            (item_len == layout.item_len, Rejected::ItemLength),
            (ring_items <= MAX_RING_ITEMS, Rejected::RingTooLarge),
            (rest.len() >= ring_items * item_len, Rejected::RingTruncated),
            (count <= ring_items, Rejected::CountBeyondRing),
            (count as u64 <= seq, Rejected::CountBeyondSequence),
            (oldest < ring_items.max(1), Rejected::OldestBeyondRing),
        ];
        if let Some((_, why)) = checks.into_iter().find(|(holds, _)| !holds) {
            return Err(why);
        }
        if oldest as u64 != (seq - count as u64).checked_rem(ring_items as u64).unwrap_or_default() {
            return Err(Rejected::OldestMisplaced);
        }
        let (ring, behind) = rest.split_at(ring_items * item_len);
        // Ethernet pads short frames with zeros.
        if is_flush && behind.iter().any(|byte| *byte != 0) {
            return Err(Rejected::FlushWithPacket);
        }
        let stamp = Stamp { seq, time_ns: common.time_ns.get() };
        let front = NamedFront { stamp, core: core.get(), port: port.get(), turn: turn.get(), is_flush };
        let packet_offset = start + NAMED_HEADER_LEN + ring.len();
        Ok(NamedHistory { front, item_len, ring, count, oldest, packet_offset })
    }

    /// Where the packet begins in the bytes that were parsed; it goes to their end.
    pub fn packet_offset(&self) -> usize {
        self.packet_offset
    }

    /// Items in the ring, valid or not: one less than the cores that the sequencer serves.
    pub fn ring_items(&self) -> usize {
        self.ring.len() / self.item_len
    }

    /// The valid items, oldest first, each with its packet's number.
    pub fn items(&self) -> impl ExactSizeIterator<Item = (u64, &'a [u8])> + use<'a> {
        let NamedHistory { front, item_len, ring, count, oldest, .. } = *self;
        let first = front.stamp.seq - count as u64;
        (0..count).map(move |number| {
            let at = (oldest + number) % (ring.len() / item_len) * item_len;
            (first + number as u64, &ring[at..at + item_len])
        })
    }
}
