//! Version 3: prefixes written out by hand from `docs/history-format.md`, a plain reader beside the crate's, and one packet for each
//! reason to reject one.

extern crate paceline_sequencer as sequencer;

use proptest::collection::vec;
use proptest::prelude::*;
use sequencer::{
    CoresOutOfRange, ETHERNET_LEN, Kind, NAMED_HEADER_LEN, NamedHistory, NamedLayout, NamedSequencer,
    Rejected, outer_ethernet,
};

/// Bytes from hexadecimal digits; white space is free.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn layout() -> NamedLayout {
    NamedLayout::new([("hdr.ipv4.src_addr", 32), ("hdr.tcp.$valid", 1), ("hdr.tcp.dst_port", 16)])
}

/// Source, whether it is TCP, destination port, when it comes, by which port. The third comes, by its own time, before the second.
const PACKETS: [(u128, u128, u128, u64, u16); 5] = [
    (0x0a00_0001, 1, 22, 1000, 0),
    (0x0a00_0002, 1, 53, 2000, 0),
    (0x0a00_0003, 1, 80, 1500, 1),
    (0x0a00_0004, 0, 0, 4000, 0),
    (0x0a00_0005, 1, 8080, 5000, 0),
];

/// Before packet 0: nothing has come.
const BEFORE_0: &str = "
    504c4849 03 00 0001 0000000000000000 00000000000003e8 d6684b284884a940 0007 0002 0000 0000 0000 0000 00000000
    00000000 00 0000
    00000000 00 0000";

/// Before packet 2, whose time is that of packet 1, and which came by port 1: the ring is full.
const BEFORE_2: &str = "
    504c4849 03 00 0001 0000000000000002 00000000000007d0 d6684b284884a940 0007 0002 0002 0000 0002 0001 00000000
    0a000001 01 0016
    0a000002 01 0035";

/// Before packet 4, the second of core 1: packet 2 is in slot 0, packet 3, which is no TCP, in slot 1.
const BEFORE_4: &str = "
    504c4849 03 00 0001 0000000000000004 0000000000001388 d6684b284884a940 0007 0002 0002 0000 0001 0000 00000001
    0a000003 01 0050
    0a000004 00 0000";

/// The flush for core 2 after packet 4: the number of packet 5, the time of packet 4.
const FLUSH: &str = "
    504c4849 03 01 0000 0000000000000005 0000000000001388 d6684b284884a940 0007 0002 0002 0001 0002 0000 00000000
    0a000005 01 1f90
    0a000004 00 0000";

/// The prefix of each packet, and the flush for core 2.
fn prefixes() -> Vec<Vec<u8>> {
    let mut sequencer = NamedSequencer::new(layout(), 3).unwrap();
    let mut all = Vec::new();
    for (number, (src, is_tcp, port, time_ns, by)) in PACKETS.into_iter().enumerate() {
        let (mut item, mut out) = ([0xee; 7], vec![0xee; sequencer.prefix_len()]);
        layout().write([src, is_tcp, port], &mut item);
        let placed = sequencer.next(time_ns, by, &item, &mut out);
        assert_eq!((placed.stamp.seq, placed.core), (number as u64, number % 3));
        all.push(out);
    }
    assert_eq!(sequencer.ran_back().packets, 1);
    let mut out = vec![0xee; sequencer.prefix_len()];
    assert_eq!(sequencer.flush(2, &mut out).seq, 5);
    all.push(out);
    all
}

#[test]
fn prefixes_are_as_drawn() {
    let prefixes = prefixes();
    for (number, drawn) in [(0, BEFORE_0), (2, BEFORE_2), (4, BEFORE_4), (5, FLUSH)] {
        assert_eq!(prefixes[number], hex(drawn), "{number}");
    }
    assert_eq!(layout().text(), "hdr.ipv4.src_addr:32 hdr.tcp.$valid:1 hdr.tcp.dst_port:16");
    assert_eq!(NamedSequencer::new(layout(), 65).unwrap_err(), CoresOutOfRange(65));
    // Receivers of chains are set up for other versions.
    assert_eq!(Kind::of(&prefixes[4]), None);
}

#[test]
fn what_was_written_is_read() {
    let layout = layout();
    let frame = [&outer_ethernet(1)[..], &hex(BEFORE_4), b"the fifth packet"].concat();
    let history = NamedHistory::parse(&frame, &layout).unwrap();
    assert_eq!(&frame[history.packet_offset()..], b"the fifth packet");
    assert_eq!(
        (history.front.core, history.front.port, history.front.turn, history.ring_items()),
        (1, 0, 1, 2)
    );
    let items: Vec<(u64, Vec<u128>)> =
        history.items().map(|(number, item)| (number, layout.read(item).collect())).collect();
    assert_eq!(items, [(2, vec![0x0a00_0003, 1, 80]), (3, vec![0x0a00_0004, 0, 0])]);
    let flush = hex(FLUSH);
    let flush = NamedHistory::parse(&flush, &layout).unwrap();
    assert!(flush.front.is_flush);
    assert_eq!(flush.items().map(|(number, _)| number).collect::<Vec<_>>(), [3, 4]);
    // An item without fields says that a packet came.
    assert_eq!(NamedLayout::new([]).item_len(), 1);
}

#[test]
fn what_is_wrong_is_rejected() {
    let layout = layout();
    let of = |bytes: &[u8]| NamedHistory::parse(bytes, &layout).map(|_| ()).unwrap_err();
    let changed = |at: usize, value: u8| {
        let mut bytes = hex(BEFORE_4);
        bytes[at] = value;
        of(&bytes)
    };
    for (at, value, why) in [
        (0, b'p', Rejected::NotHistory),
        (4, 2, Rejected::Version),
        (5, 2, Rejected::Flags),
        (7, 0, Rejected::LinkType),
        (31, 0, Rejected::OtherLayout),
        (33, 8, Rejected::ItemLength),
        (35, 64, Rejected::RingTooLarge),
        (35, 3, Rejected::RingTruncated),
        (37, 3, Rejected::CountBeyondRing),
        (15, 1, Rejected::CountBeyondSequence),
        (39, 2, Rejected::OldestBeyondRing),
        (39, 1, Rejected::OldestMisplaced),
    ] {
        assert_eq!(changed(at, value), why, "byte {at}");
    }
    assert_eq!(of(&hex(BEFORE_4)[..47]), Rejected::HeaderTruncated);
    assert_eq!(of(&hex(BEFORE_4)[..61]), Rejected::RingTruncated);
    assert_eq!(of(b"PL"), Rejected::HeaderTruncated);
    let padded = [hex(FLUSH), vec![0; 20]].concat();
    assert!(NamedHistory::parse(&padded, &layout).is_ok());
    assert_eq!(of(&[&padded[..], b"x"].concat()), Rejected::FlushWithPacket);
}

/// The items before a packet, from the page alone: a division for every index.
fn plain(bytes: &[u8], item_len: u64) -> Vec<(u64, Vec<u8>)> {
    let number =
        |at: usize, len: usize| bytes[at..at + len].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (seq, ring_items, count) = (number(8, 8), number(34, 2), number(36, 2));
    let item = |of: u64| {
        let at = (48 + of % ring_items * item_len) as usize;
        (of, bytes[at..at + item_len as usize].to_vec())
    };
    (seq - count..seq).map(item).collect()
}

proptest! {
    /// Each packet has the items of the packets before it, as many as there are cores but its own, whatever fields there are.
    #[test]
    fn packets_have_the_items_before_them(
        widths in vec(1..=128_u32, 0..6),
        cores in 1..12_usize,
        seeds in vec(any::<u128>(), 1..40),
    ) {
        let names: Vec<String> = (0..widths.len()).map(|at| format!("f{at}")).collect();
        let layout = NamedLayout::new(names.iter().map(String::as_str).zip(widths.iter().copied()));
        let mut sequencer = NamedSequencer::new(layout.clone(), cores).unwrap();
        let mut items: Vec<Vec<u8>> = Vec::new();
        for (number, seed) in seeds.iter().enumerate() {
            let values: Vec<u128> = widths.iter().map(|width| seed.rotate_left(*width) >> (128 - width)).collect();
            let mut item = vec![0xee; layout.item_len()];
            layout.write(values.iter().copied(), &mut item);
            prop_assert_eq!(layout.read(&item).collect::<Vec<_>>(), values);
            let mut out = vec![0xee; sequencer.prefix_len()];
            let placed = sequencer.next(number as u64, 3, &item, &mut out);
            prop_assert_eq!(placed.core, number % cores);
            let first = number.saturating_sub(cores - 1);
            let expected: Vec<(u64, Vec<u8>)> = (first..number).map(|at| (at as u64, items[at].clone())).collect();
            let history = NamedHistory::parse(&out, &layout).unwrap();
            let read: Vec<_> = history.items().map(|(of, item)| (of, item.to_vec())).collect();
            prop_assert_eq!(&read, &expected);
            prop_assert_eq!(plain(&out, layout.item_len() as u64), expected);
            prop_assert_eq!(history.front.turn as usize, number / cores);
            items.push(item);
        }
    }

    /// No bytes make a reader panic, and what is taken is within them.
    #[test]
    fn any_bytes_are_read_or_rejected(
        mut bytes in vec(any::<u8>(), 0..200),
        edits in vec((0..62_usize, any::<u8>()), 0..4),
        is_whole: bool,
    ) {
        let layout = layout();
        if is_whole {
            let mut frame = hex(BEFORE_4);
            edits.into_iter().for_each(|(at, value)| frame[at] = value);
            bytes = [frame, bytes].concat();
        }
        if let Ok(history) = NamedHistory::parse(&bytes, &layout) {
            prop_assert!(history.packet_offset() <= bytes.len());
            prop_assert!(history.packet_offset() >= NAMED_HEADER_LEN || history.packet_offset() >= ETHERNET_LEN);
            prop_assert!(history.items().all(|(number, item)| number < history.front.stamp.seq && item.len() == 7));
        }
    }
}
