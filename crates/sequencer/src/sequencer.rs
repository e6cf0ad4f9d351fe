//! The sequencer: stamps packets, assigns them to cores in turn, and writes their history.

use alloc::boxed::Box;
use alloc::vec;

use thiserror::Error;
use wire::{First, Headers, LinkType, Stamp, Stamper};
use zerocopy::IntoBytes;

use crate::form::Layout;
use crate::format::{
    FLUSH, FOLLOWED, HEADER_LEN, MAGIC, MAX_CORES, MAX_RING_ITEMS, PrefixHeader, REFUSED_SHIFT, TableSeed,
    Version, is_told,
};
use crate::layout::ItemLayout;

/// Gives packets their stamps and their cores, and keeps the last of them as history.
///
/// For each packet [`next`](Self::next), then [`prefix`](Self::prefix): the history before that packet. A
/// packet becomes history when the next one comes. When traffic stops, [`flush`](Self::flush), and the
/// prefix to every core.
///
/// The ring stays in place: an item overwrites the oldest one and nothing moves, so that hardware changes
/// one row for each packet (SCR §3.3.2).
#[derive(Clone, Debug)]
pub struct Sequencer<L = ItemLayout> {
    layout: L,
    cores: usize,
    stamper: Stamper,
    /// What the prefix is for: the packet that came last, or a flush.
    front: Front,
    /// The core of the next packet.
    next_core: usize,
    ring: Box<[u8]>,
    /// Items in the ring that are there.
    count: usize,
    /// The slot of the next item: that of the oldest one in a full ring.
    next_slot: usize,
}

#[derive(Clone, Copy, Debug)]
enum Front {
    Packet(Stamp, Headers),
    Flush(Stamp),
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its number and time.
    pub stamp: Stamp,
    /// Its core: by turns.
    pub core: usize,
}

/// A number of cores that no sequencer serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a sequencer serves 1 to {MAX_CORES} cores, not {0}")]
pub struct CoresOutOfRange(pub usize);

impl<L: Layout> Sequencer<L> {
    /// A sequencer for `cores` cores, 1 to [`MAX_CORES`], that has seen no packet. Its history is one item
    /// less than there are cores. Takes all memory that it will need.
    ///
    /// # Errors
    /// [`CoresOutOfRange`].
    pub fn new(layout: L, cores: usize) -> Result<Sequencer<L>, CoresOutOfRange> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(CoresOutOfRange(cores));
        }
        let item_len = layout.form().item_len;
        Ok(Sequencer {
            layout,
            cores,
            stamper: Stamper::default(),
            front: Front::Flush(Stamp::default()),
            next_core: 0,
            ring: vec![0; (cores - 1) * item_len].into(),
            count: 0,
            next_slot: 0,
        })
    }

    /// How items are packed.
    pub fn layout(&self) -> &L {
        &self.layout
    }

    /// How many cores get packets.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Bytes of a prefix, the same for every packet but for [`Sequencer::first_len`].
    #[inline]
    pub fn prefix_len(&self) -> usize {
        self.layout.form().version.header_len() + self.ring.len()
    }

    /// Bytes that follow the prefix before the packet that [`next`](Self::next) took last: what its first fragment says, if it is a later
    /// one of which that is known ([`Headers::is_followed`]).
    #[inline]
    pub fn first_len(&self) -> usize {
        if self.first().is_some() { First::LEN } else { 0 }
    }

    fn first(&self) -> Option<First> {
        match &self.front {
            Front::Packet(_, headers) if headers.is_followed() && headers.is_well_formed() => {
                Some(First::of(headers))
            }
            _ => None,
        }
    }

    /// Takes the next packet, which arrived at `time_ns`: a stamp that never runs back, and a core. If it is malformed for
    /// a reason that other packets make ([`Malformed::is_of_datagrams`](wire::Malformed::is_of_datagrams)), or for a checksum
    /// ([`Malformed::is_of_checksums`](wire::Malformed::is_of_checksums)), the packet's own core is told so, too.
    #[inline(always)]
    pub fn next(&mut self, headers: &Headers, time_ns: u64) -> Placed {
        self.remember();
        let stamp = self.stamper.stamp(time_ns);
        self.front = Front::Packet(stamp, *headers);
        let core = self.next_core;
        self.next_core = if core + 1 == self.cores { 0 } else { core + 1 };
        Placed { stamp, core }
    }

    /// Makes the prefix that of a flush: the history with the last packet, and no packet behind it. Sent to
    /// every core when traffic stops, so that all get to the same state and none waits for what was lost.
    ///
    /// A flush has the number of the packet that comes next and takes none, and the time of the last
    /// packet: nothing has happened since.
    pub fn flush(&mut self) -> Stamp {
        self.remember();
        let (Front::Packet(Stamp { seq, time_ns }, _) | Front::Flush(Stamp { seq, time_ns })) = self.front;
        let seq = seq + u64::from(matches!(self.front, Front::Packet(..)));
        self.front = Front::Flush(Stamp { seq, time_ns });
        Stamp { seq, time_ns }
    }

    /// Writes what goes before the packet that [`next`](Self::next) took last, which begins with `link`, or
    /// what makes up a [`flush`](Self::flush): [`prefix_len`](Self::prefix_len) and [`first_len`](Self::first_len) bytes, and says
    /// how many.
    /// [`outer_ethernet`](crate::outer_ethernet) may go before that.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn prefix(&self, link: LinkType, out: &mut [u8]) -> usize {
        let (form, first) = (self.layout.form(), self.first());
        let (stamp, flags, link) = match self.front {
            Front::Packet(stamp, headers) => {
                // What its receiver finds out itself it is not told.
                let refused = headers.malformed().filter(is_told).map(|why| why as u8);
                let told = refused.or(first.map(|_| FOLLOWED)).unwrap_or(0);
                (stamp, told << REFUSED_SHIFT, link.to_pcap())
            }
            Front::Flush(stamp) => (stamp, FLUSH, 0),
        };
        let header = PrefixHeader {
            magic: MAGIC,
            version: form.version as u8,
            flags,
            link: (link as u16).into(),
            seq: stamp.seq.into(),
            time_ns: stamp.time_ns.into(),
            layout: form.layout.into(),
            item_len: (form.item_len as u16).into(),
            ring_items: (self.ring_items() as u16).into(),
            count: (self.count as u16).into(),
            oldest: (self.oldest() as u16).into(),
        };
        let (prefix, behind) = out.split_at_mut(self.prefix_len());
        let (head, rest) = prefix.split_at_mut(HEADER_LEN);
        head.copy_from_slice(header.as_bytes());
        let (table_seed, ring) = rest.split_at_mut(form.version.header_len() - HEADER_LEN);
        if form.version == Version::Typed {
            table_seed.copy_from_slice(TableSeed::new(form.table_seed).as_bytes());
        }
        ring.copy_from_slice(&self.ring);
        if let Some(first) = first {
            behind[..First::LEN].copy_from_slice(&first.to_bytes());
        }
        self.prefix_len() + self.first_len()
    }

    /// How far arrival times ran back so far, which stamps do not.
    pub fn ran_back(&self) -> wire::RanBack {
        self.stamper.ran_back()
    }

    #[inline]
    fn ring_items(&self) -> usize {
        self.cores - 1
    }

    fn oldest(&self) -> usize {
        let wrap = if self.next_slot < self.count { self.ring_items() } else { 0 };
        self.next_slot + wrap - self.count
    }

    /// Makes the last packet history. One core needs none.
    // Always: else it depends on what else is compiled whether a packet's call is one.
    #[inline(always)]
    fn remember(&mut self) {
        let Front::Packet(stamp, headers) = &self.front else { return };
        if self.ring_items() == 0 {
            return;
        }
        let item_len = self.layout.form().item_len;
        let at = self.next_slot * item_len;
        self.layout.write(headers, stamp.time_ns, &mut self.ring[at..at + item_len]);
        self.count = (self.count + 1).min(self.ring_items());
        self.next_slot = if self.next_slot + 1 == self.ring_items() { 0 } else { self.next_slot + 1 };
    }
}

// One less than cores is what the ring has: a core's own last packet is just older than the ring's items.
const _: () = assert!(MAX_RING_ITEMS + 1 == MAX_CORES && MAX_RING_ITEMS <= u16::MAX as usize);
