//! The wire format of history: versions, limits, and the fixed header of a prefix.

use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Cores that one sequencer serves, at most. History per packet grows with their number.
pub const MAX_CORES: usize = 64;

/// Items in a ring, at most: a core has seen its own packet, and needs those of the others.
pub const MAX_RING_ITEMS: usize = MAX_CORES - 1;

/// What a prefix begins with: `PLHI`.
pub const MAGIC: [u8; 4] = *b"PLHI";

/// A version of the format, by the number that its header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// Items hold bytes of `Headers`. The number stands for the layout of these, too.
    Headers = 1,
    /// Items hold what the functions of a chain read of a packet, key and hash included.
    Typed = 2,
}

impl Version {
    /// Bytes of the fixed header.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            Version::Headers => HEADER_LEN,
            Version::Typed => HEADER_LEN + size_of::<TableSeed>(),
        }
    }

    #[inline]
    fn of(number: u8) -> Option<Version> {
        [Version::Headers, Version::Typed].into_iter().find(|version| *version as u8 == number)
    }
}

/// Bytes of the fixed header of version 1, with which that of version 2 begins.
pub const HEADER_LEN: usize = size_of::<PrefixHeader>();

/// Bytes of the outer Ethernet header.
pub const ETHERNET_LEN: usize = 14;

/// The outer header's type: local experimental ethertype 1 (IEEE 802).
pub const ETHERTYPE: u16 = 0x88b5;

/// History and no packet.
pub(crate) const FLUSH: u8 = 1;

/// How far left in the flags the reason is for which the sequencer refused the packet; 0 if it did not.
pub(crate) const REFUSED_SHIFT: u32 = 1;

/// In place of a reason: the packet is a later fragment, and what its first says stands between the ring and the packet
/// ([`wire::First`]).
pub(crate) const FOLLOWED: u8 = u8::MAX >> REFUSED_SHIFT;

// The reason's number has the seven bits that the flush leaves.
const _: () = assert!(wire::Malformed::ALL.len() < FOLLOWED as usize);

/// Whether a receiver is told of a reason: it cannot find those that other packets make, and does not verify checksums.
pub(crate) fn is_told(why: &wire::Malformed) -> bool {
    why.is_of_datagrams() || why.is_of_checksums()
}

/// What the history begins with, numbers in network order.
///
/// ```text
///  0       4         5       6      8     16        24       32         34           36      38       40
///  | magic | version | flags | link | seq | time_ns | layout | item_len | ring_items | count | oldest |
/// ```
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PrefixHeader {
    pub magic: [u8; 4],
    pub version: u8,
    pub flags: u8,
    /// What the packet begins with, by its number in the pcap link-type registry; 0 in a flush.
    pub link: U16,
    pub seq: U64,
    pub time_ns: U64,
    /// [`Form::layout`](crate::Form::layout).
    pub layout: U64,
    pub item_len: U16,
    pub ring_items: U16,
    pub count: U16,
    pub oldest: U16,
}

const _: () = assert!(HEADER_LEN == 40);

/// What follows in version 2: the seed of the hashes in the items.
///
/// ```text
///  40           48
///  | table_seed |
/// ```
pub(crate) type TableSeed = U64;

/// What a frame says of itself before anything in it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The version of its history.
    pub version: Version,
    /// The seed of the hashes in its items; 0 where these have none.
    pub table_seed: u64,
}

impl Kind {
    /// Reads the kind from a frame that begins with history of a version that is read here, or with an outer
    /// Ethernet header and then that. `None` for other frames. It serves to set up a receiver for what comes.
    pub fn of(frame: &[u8]) -> Option<Kind> {
        let (header, rest) = PrefixHeader::ref_from_prefix(&frame[header_offset(frame)?..]).ok()?;
        let version = Version::of(header.version)?;
        let table_seed = match version {
            Version::Headers => 0,
            Version::Typed => TableSeed::read_from_prefix(rest).ok()?.0.get(),
        };
        Some(Kind { version, table_seed })
    }
}

/// The outer Ethernet header of a packet for `core`, for sequencers outside of the card (SCR §3.3.1).
///
/// The destination, `02:00:00:00` and the core's number, is what a card steers by. Both addresses are
/// locally administered.
pub fn outer_ethernet(core: u16) -> [u8; ETHERNET_LEN] {
    let ([core_high, core_low], [type_high, type_low]) = (core.to_be_bytes(), ETHERTYPE.to_be_bytes());
    [2, 0, 0, 0, core_high, core_low, 2, 0, 0, 0, 0xff, 0xff, type_high, type_low]
}

/// Where the fixed header begins: behind the outer Ethernet header, if there is one.
#[inline]
pub(crate) fn header_offset(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(&MAGIC) {
        return Some(0);
    }
    let (ethernet, rest) = bytes.split_at_checked(ETHERNET_LEN)?;
    (ethernet.ends_with(&ETHERTYPE.to_be_bytes()) && rest.starts_with(&MAGIC)).then_some(ETHERNET_LEN)
}
