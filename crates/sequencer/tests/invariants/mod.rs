//! What must hold for any bytes that are read as history. Shared by the property tests and the fuzz target.
//!
//! The plain reader is written from `docs/history-format.md` alone, byte by byte and with a division for
//! every index: what it reads is what the crate has to read.

use sequencer::{Form, History, ItemLayout, Layout, Version};
use wire::{Headers, Stamp};
use zerocopy::IntoBytes;

/// What a packet with history says, by the plain reader; items as they are.
#[derive(Debug, PartialEq)]
pub struct Raw {
    pub stamp: Stamp,
    pub is_flush: bool,
    pub refused: u8,
    /// What a first fragment says, of a later one.
    pub first: Vec<u8>,
    pub items: Vec<(Stamp, Vec<u8>)>,
    pub packet_offset: usize,
}

/// What a packet with history says, by the plain reader.
#[derive(Debug, PartialEq)]
pub struct Plain {
    pub stamp: Stamp,
    pub is_flush: bool,
    pub refused: u8,
    /// What a first fragment says, of a later one.
    pub first: Vec<u8>,
    pub items: Vec<(Stamp, Headers)>,
    pub packet_offset: usize,
}

/// Reads `bytes` of version 1; `None` if anything in them is not as the format has it.
pub fn plain(bytes: &[u8], mask: u64) -> Option<Plain> {
    let item_len = 8 + mask.count_ones() as usize;
    let form = Form { version: Version::Headers, layout: mask, item_len, table_seed: 0 };
    let Raw { stamp, is_flush, refused, first, items, packet_offset } = raw(bytes, form)?;
    let headers = |item: &[u8]| {
        let mut headers = Headers::default();
        let mut packed = item[8..].iter();
        for (i, byte) in headers.as_mut_bytes().iter_mut().enumerate() {
            if mask >> i & 1 == 1 {
                *byte = *packed.next().unwrap();
            }
        }
        headers
    };
    let items = items.iter().map(|(stamp, item)| (*stamp, headers(item))).collect();
    Some(Plain { stamp, is_flush, refused, first, items, packet_offset })
}

/// Reads `bytes` of either version.
pub fn raw(bytes: &[u8], form: Form) -> Option<Raw> {
    let has_ethernet = !bytes.starts_with(b"PLHI");
    if has_ethernet && bytes.get(12..14)? != [0x88, 0xb5] {
        return None;
    }
    let start = if has_ethernet { 14 } else { 0 };
    let big_endian = |at: usize, len: usize| {
        let number = bytes.get(start + at..start + at + len)?.iter();
        Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let [magic, version, flags, link] = [(0, 4), (4, 1), (5, 1), (6, 2)].map(|(at, len)| big_endian(at, len));
    let is_flush = flags? == 1;
    let refused = flags? as u8 >> 1;
    // Reasons that other packets make, and only of a packet.
    let is_told = matches!(refused, 0 | 11 | 19..=22 | 24..=30 | 127) && (refused == 0 || flags? & 1 == 0);
    let number = if form.version == Version::Headers { 1 } else { 2 };
    let is_known = magic? == 0x504c_4849 && version? == number && is_told;
    let (seq, time_ns, layout) = (big_endian(8, 8)?, big_endian(16, 8)?, big_endian(24, 8)?);
    let item_len = big_endian(32, 2)? as usize;
    let [ring_items, count, oldest] = [34, 36, 38].map(|at| big_endian(at, 2));
    let (ring_items, count, oldest) = (ring_items?, count?, oldest?);
    let is_ours = layout == form.layout && item_len == form.item_len && ring_items <= 63;
    if !is_known || wire::LinkType::from_pcap(link? as u32).is_none() || !is_ours {
        return None;
    }
    let ring = start + if number == 1 { 40 } else { 48 };
    if number == 2 && big_endian(40, 8)? != form.table_seed {
        return None;
    }
    let behind_ring = ring + ring_items as usize * item_len;
    let first_len = if refused == 127 { 16 } else { 0 };
    let mut first = bytes.get(behind_ring..behind_ring + first_len)?.to_vec();
    // Of the shape half a byte counts, and nothing behind it.
    first.iter_mut().skip(13).zip([0x0f, 0, 0]).for_each(|(byte, counts)| *byte &= counts);
    let refused = if refused == 127 { 0 } else { refused };
    let packet_offset = behind_ring + first_len;
    let packet = bytes.get(packet_offset..)?;
    let has_slots = ring_items > 0;
    let is_placed = count <= ring_items
        && count <= seq
        && if has_slots { oldest < ring_items && (seq - count) % ring_items == oldest } else { oldest == 0 };
    if !is_placed || is_flush && packet.iter().any(|byte| *byte != 0) {
        return None;
    }
    let item = |number: u64| {
        let slot = (oldest + number) % ring_items;
        let item = &bytes[ring + slot as usize * item_len..][..item_len];
        let time_ns = u64::from_le_bytes(item[..8].try_into().unwrap());
        (Stamp { seq: seq - count + number, time_ns }, item.to_vec())
    };
    let items: Vec<_> = (0..count).map(item).collect();
    let stamp = Stamp { seq, time_ns };
    let times: Vec<_> = items.iter().map(|(stamp, _)| stamp.time_ns).chain([time_ns]).collect();
    times.is_sorted().then_some(Raw { stamp, is_flush, refused, first, items, packet_offset })
}

/// The crate takes what the plain reader takes and reads the same in it, from every item on.
pub fn check_bytes(bytes: &[u8], layout: &ItemLayout) -> Result<(), String> {
    let plain = plain(bytes, layout.header_bytes());
    let (history, plain) = match (History::parse(bytes, layout), plain) {
        (Ok(history), Some(plain)) => (history, plain),
        (Err(_), None) => return Ok(()),
        (read, plain) => return Err(format!("{read:?}, and the plain reader says {plain:?}")),
    };
    let read = Plain {
        stamp: history.stamp(),
        is_flush: history.is_flush(),
        refused: history.refused().map_or(0, |reason| reason as u8),
        first: history.first().map_or(Vec::new(), |first| first.to_bytes().to_vec()),
        items: history.items().collect(),
        packet_offset: history.packet_offset(),
    };
    if read != plain || history.count() != plain.items.len() {
        return Err(format!("{read:?}, and the plain reader says {plain:?}"));
    }
    for known in 0..=history.count() + 1 {
        let rest = &plain.items[known.min(plain.items.len())..];
        if !history.items_after(known).eq(rest.iter().copied()) {
            return Err(format!("{history:?}: another rest after {known} items"));
        }
    }
    Ok(())
}

/// Checks the invariants of one layout, with the items that `bytes` make.
pub fn check_items<L: Layout>(bytes: &[u8], layout: &L) -> Result<(), String> {
    let plain = raw(bytes, layout.form());
    let (history, plain) = match (History::parse(bytes, layout), plain) {
        (Ok(history), Some(plain)) => (history, plain),
        (Err(_), None) => return Ok(()),
        (Ok(_), None) => return Err("taken, and the plain reader does not".to_owned()),
        (Err(reason), Some(plain)) => return Err(format!("{reason}, and the plain reader says {plain:?}")),
    };
    let item = |index| {
        let item: &[u8] = history.item_bytes(index);
        let stamp = Stamp { seq: history.first_seq() + index as u64, time_ns: sequencer::time_ns(item) };
        (stamp, item.to_vec())
    };
    let read = Raw {
        stamp: history.stamp(),
        is_flush: history.is_flush(),
        refused: history.refused().map_or(0, |reason| reason as u8),
        first: history.first().map_or(Vec::new(), |first| first.to_bytes().to_vec()),
        items: (0..history.count()).map(item).collect(),
        packet_offset: history.packet_offset(),
    };
    if read == plain { Ok(()) } else { Err(format!("{read:?}, and the plain reader says {plain:?}")) }
}
