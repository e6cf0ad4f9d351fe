//! Sequences a capture: puts the history that a chain needs before each packet.

use io::capture::Record;
use sequencer::{CoresOutOfRange, ETHERNET_LEN, Layout, Sequencer, Version, outer_ethernet};
use thiserror::Error;
use wire::{LinkType, RanBack, Stamp};

use crate::chain::Chain;
use crate::strategies::ingress::Ingress;
use crate::strategies::scr::outside::items::HistoryItems;

/// Puts the history that a chain needs before each packet of a capture: what a card or a switch would do.
///
/// ```text
///  | outer Ethernet, if asked for | header, ring of items | the packet, as it was captured |
/// ```
pub struct Sequencing {
    sequencer: Sequencer<HistoryItems>,
    ingress: Ingress,
    has_ethernet: bool,
    /// What was put together last, and for whom.
    frame: Vec<u8>,
    core: usize,
    stamp: Stamp,
    wire_len: u32,
}

/// Why packets cannot be sequenced so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SequencingError {
    /// So many cores have no sequencer.
    #[error(transparent)]
    Cores(#[from] CoresOutOfRange),
    /// Version 2 of the history was asked for.
    #[error(
        "this chain has no history of version 2: a function changes what a later one reads, the chain has two sides, \
         or items would be too long\nUse version 1, which holds headers."
    )]
    NotTyped,
}

/// A packet with its history.
#[derive(Clone, Copy, Debug)]
pub struct Sequenced<'a> {
    /// Which core gets it.
    pub core: usize,
    /// Its number and time; of a flush, the next packet's number.
    pub stamp: Stamp,
    /// As it goes over the wire. The link type is Ethernet, also where no outer header is.
    pub record: Record<'a>,
}

impl Sequencing {
    /// For `cores` cores that run `chain`, with history of the newest version that the chain can have; with an outer
    /// Ethernet header before it or without. Checksums are verified only if the chain says `verify`; what
    /// [`Checksums::decide`](crate::Checksums::decide) made of `auto` is put there before. Prefixes say which are wrong.
    ///
    /// # Errors
    /// [`CoresOutOfRange`].
    pub fn new(chain: &Chain, cores: usize, has_ethernet: bool) -> Result<Sequencing, CoresOutOfRange> {
        Sequencing::of(chain, chain.newest_items(), cores, has_ethernet)
    }

    /// A sequencing with history of this version.
    ///
    /// # Errors
    /// [`SequencingError`].
    pub fn with_version(
        chain: &Chain,
        version: Version,
        cores: usize,
        has_ethernet: bool,
    ) -> Result<Sequencing, SequencingError> {
        let items = chain.history_items(version).ok_or(SequencingError::NotTyped)?;
        Ok(Sequencing::of(chain, items, cores, has_ethernet)?)
    }

    fn of(
        chain: &Chain,
        items: HistoryItems,
        cores: usize,
        has_ethernet: bool,
    ) -> Result<Sequencing, CoresOutOfRange> {
        let sequencer = Sequencer::new(items, cores)?;
        let (frame, stamp) = (Vec::new(), Stamp::default());
        let ingress = Ingress::telling(chain, true);
        let (core, wire_len) = (0, 0);
        Ok(Sequencing { sequencer, ingress, has_ethernet, frame, core, stamp, wire_len })
    }

    /// Bytes of an item of history.
    pub fn item_bytes(&self) -> usize {
        self.sequencer.layout().item_len()
    }

    /// The version of the history.
    pub fn version(&self) -> Version {
        self.sequencer.layout().form().version
    }

    /// Bytes before each packet, the outer header included; before a later fragment that follows its first 16 more.
    pub fn prefix_bytes(&self) -> usize {
        self.ethernet_bytes() + self.sequencer.prefix_len()
    }

    /// Cores that get packets.
    pub fn cores(&self) -> usize {
        self.sequencer.cores()
    }

    /// The next packet.
    pub fn next(&mut self, record: &Record<'_>) -> Sequenced<'_> {
        let Record { link, data, wire_len, time_ns } = *record;
        // As the sequencer will stamp it. Why the packet is refused goes into its prefix.
        let (headers, _) = self.ingress.headers(link, data, wire_len, time_ns.max(self.stamp.time_ns));
        let placed = self.sequencer.next(&headers, time_ns);
        (self.core, self.stamp) = (placed.core, placed.stamp);
        self.put_together(link, data);
        let before = self.prefix_bytes() + self.sequencer.first_len();
        self.wire_len = wire_len.saturating_add(before as u32);
        self.last()
    }

    /// What `core` gets when traffic stops: the history with the last packet, and no packet.
    pub fn flush(&mut self, core: usize) -> Sequenced<'_> {
        (self.core, self.stamp) = (core, self.sequencer.flush());
        self.put_together(LinkType::Ethernet, &[]);
        self.wire_len = self.frame.len() as u32;
        self.last()
    }

    /// What [`Sequencing::next`] or [`Sequencing::flush`] gave last.
    pub fn last(&self) -> Sequenced<'_> {
        let Sequencing { frame, core, stamp, wire_len, .. } = self;
        let (time_ns, link) = (stamp.time_ns, LinkType::Ethernet);
        let record = Record { time_ns, wire_len: *wire_len, link, data: frame };
        Sequenced { core: *core, stamp: *stamp, record }
    }

    /// How far arrival times ran back so far.
    pub fn ran_back(&self) -> RanBack {
        self.sequencer.ran_back()
    }

    fn ethernet_bytes(&self) -> usize {
        if self.has_ethernet { ETHERNET_LEN } else { 0 }
    }

    #[inline(always)]
    fn put_together(&mut self, link: LinkType, packet: &[u8]) {
        let ethernet = self.ethernet_bytes();
        self.frame.clear();
        self.frame.extend_from_slice(&outer_ethernet(self.core as u16)[..ethernet]);
        self.frame.resize(self.prefix_bytes() + self.sequencer.first_len(), 0);
        self.sequencer.prefix(link, &mut self.frame[ethernet..]);
        self.frame.extend_from_slice(packet);
    }
}
