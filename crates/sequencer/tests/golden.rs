//! Prefixes written out by hand from `docs/history-format.md`, and one packet for each reason to reject one.

extern crate paceline_sequencer as sequencer;

mod invariants;

use nf::Hasher;
use sequencer::{
    CoresOutOfRange, Form, History, ItemLayout, Kind, Layout, Part, Receiver, Rejected, Sequencer,
    TypedLayout, Version, outer_ethernet, write_key,
};
use wire::{Addr, First, Headers, LinkType, Malformed, Marks, Stamp};

/// Bytes from hexadecimal digits; white space is free.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The last four bytes of the source, the destination port, and why a packet is malformed.
const MASK: u64 = 0x8000_c000_0000_f000;

fn packet(number: u8, dst_port: u16, malformed_code: u8) -> Headers {
    Headers { src: Addr::v4([10, 0, 0, number]), dst_port, malformed_code, ..Headers::default() }
}

/// Three cores, five packets; the third arrives, by its own time, before the second.
const PACKETS: [(u8, u16, u8, u64); 5] =
    [(1, 22, 0, 1000), (2, 53, 0, 2000), (3, 80, 0, 1500), (4, 443, 12, 4000), (5, 8080, 0, 5000)];

/// Before packet 0: nothing has come.
const BEFORE_0: &str = "
    504c4849 01 00 0001 0000000000000000 00000000000003e8 8000c0000000f000 000f 0002 0000 0000
    0000000000000000 00000000 0000 00
    0000000000000000 00000000 0000 00";

/// Before packet 1: the ring has one item.
const BEFORE_1: &str = "
    504c4849 01 00 0001 0000000000000001 00000000000007d0 8000c0000000f000 000f 0002 0001 0000
    e803000000000000 0a000001 1600 00
    0000000000000000 00000000 0000 00";

/// Before packet 2, whose time is that of packet 1: the ring is full.
const BEFORE_2: &str = "
    504c4849 01 00 0001 0000000000000002 00000000000007d0 8000c0000000f000 000f 0002 0002 0000
    e803000000000000 0a000001 1600 00
    d007000000000000 0a000002 3500 00";

/// Before packet 3: packet 2 is in the slot of packet 0, the oldest is packet 1 in slot 1.
const BEFORE_3: &str = "
    504c4849 01 00 0001 0000000000000003 0000000000000fa0 8000c0000000f000 000f 0002 0002 0001
    d007000000000000 0a000003 5000 00
    d007000000000000 0a000002 3500 00";

/// Before packet 4: packet 3 is malformed, and history says so.
const BEFORE_4: &str = "
    504c4849 01 00 0001 0000000000000004 0000000000001388 8000c0000000f000 000f 0002 0002 0000
    d007000000000000 0a000003 5000 00
    a00f000000000000 0a000004 bb01 0c";

/// A flush after packet 4: the number of packet 5, the time of packet 4.
const FLUSH: &str = "
    504c4849 01 01 0000 0000000000000005 0000000000001388 8000c0000000f000 000f 0002 0002 0001
    8813000000000000 0a000005 901f 00
    a00f000000000000 0a000004 bb01 0c";

#[test]
fn prefixes_are_as_drawn() {
    let mut sequencer = Sequencer::new(ItemLayout::new(MASK), 3).unwrap();
    let mut out = [0xee; 71];
    let expected = [BEFORE_0, BEFORE_1, BEFORE_2, BEFORE_3, BEFORE_4];
    for (number, ((src, dst_port, code, time_ns), before)) in PACKETS.into_iter().zip(expected).enumerate() {
        let placed = sequencer.next(&packet(src, dst_port, code), time_ns);
        assert_eq!((placed.stamp.seq, placed.core), (number as u64, number % 3));
        assert_eq!(sequencer.prefix(LinkType::Ethernet, &mut out), 70);
        assert_eq!(out[..70], hex(before), "before packet {number}");
        assert_eq!(out[70], 0xee, "nothing is written behind the prefix");
    }
    assert_eq!(sequencer.ran_back().packets, 1);
    for _ in 0..2 {
        assert_eq!(sequencer.flush(), Stamp { seq: 5, time_ns: 5000 });
        sequencer.prefix(LinkType::Ethernet, &mut out);
        assert_eq!(out[..70], hex(FLUSH));
    }
    let next = sequencer.next(&packet(6, 1, 0), 6000);
    assert_eq!((next.stamp.seq, next.core), (5, 2), "a flush takes no number and no turn");
}

/// A fragment that overlaps another (28): its own core is told so, which cannot know it.
#[test]
fn a_packet_that_was_refused_says_why() {
    let refused = "
        504c4849 01 38 0001 0000000000000001 00000000000007d0 8000c0000000f000 000f 0002 0001 0000
        e803000000000000 0a000001 1600 00
        0000000000000000 00000000 0000 00";
    let layout = ItemLayout::new(MASK);
    let mut sequencer = Sequencer::new(layout.clone(), 3).unwrap();
    let mut out = [0; 70];
    sequencer.next(&packet(1, 22, 0), 1000);
    sequencer.next(&packet(2, 53, Malformed::FragmentOverlap as u8), 2000);
    sequencer.prefix(LinkType::Ethernet, &mut out);
    assert_eq!(out[..], hex(refused));
    let history = History::parse(&out, &layout).unwrap();
    assert_eq!((history.refused(), history.is_flush()), (Some(Malformed::FragmentOverlap), false));
    for reason in Malformed::ALL {
        sequencer.next(&packet(3, 80, reason as u8), 3000);
        sequencer.prefix(LinkType::Ethernet, &mut out);
        let told = History::parse(&out, &layout).unwrap().refused();
        let is_told = reason.is_of_datagrams() || reason.is_of_checksums();
        assert_eq!(told, Some(reason).filter(|_| is_told));
        invariants::check_bytes(&out, &layout).unwrap();
    }
    sequencer.flush();
    sequencer.prefix(LinkType::Ethernet, &mut out);
    assert_eq!(History::parse(&out, &layout).unwrap().refused(), None);
}

/// A later fragment that has what its first said stands behind 16 bytes of that, which its own core cannot know.
#[test]
fn a_later_fragment_brings_what_its_first_said() {
    let followed = "
        504c4849 01 fe 0001 0000000000000001 00000000000007d0 8000c0000000f000 000f 0002 0001 0000
        e803000000000000 0a000001 1600 00
        0000000000000000 00000000 0000 00
        00000000 00000000 a00f 3500 11 00 0000";
    let layout = ItemLayout::new(MASK);
    let mut sequencer = Sequencer::new(layout.clone(), 3).unwrap();
    let of_udp = Headers { protocol: 17, src_port: 4_000, ..packet(2, 53, 0) };
    let first = First::of(&Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..of_udp });
    let mut later = Headers { marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..packet(2, 0, 0) };
    sequencer.next(&packet(1, 22, 0), 1000);
    later.follow(&first);
    sequencer.next(&later, 2000);
    let mut out = [0; 86];
    assert_eq!((sequencer.prefix_len(), sequencer.first_len()), (70, 16));
    assert_eq!(sequencer.prefix(LinkType::Ethernet, &mut out), 86);
    assert_eq!(out[..], hex(followed));
    let frame = [&out[..], &hex("aabbcc")].concat();
    let history = History::parse(&frame, &layout).unwrap();
    assert_eq!((history.refused(), history.first()), (None, Some(first)));
    assert_eq!(history.packet_offset(), 86);
    invariants::check_bytes(&frame, &layout).unwrap();
    // Cut in the middle of it.
    assert!(History::parse(&out[..85], &layout).is_err());
    invariants::check_bytes(&out[..85], &layout).unwrap();
    // The next packet has none of it, and its item has the port.
    sequencer.next(&packet(3, 80, 0), 3000);
    assert_eq!(sequencer.first_len(), 0);
    sequencer.prefix(LinkType::Ethernet, &mut out);
    assert_eq!(History::parse(&out[..70], &layout).unwrap().items().last().unwrap().1.dst_port, 53);
}

#[test]
fn a_packet_behind_an_outer_ethernet_header() {
    let frame = [&outer_ethernet(0x0102)[..], &hex(BEFORE_3), &hex("aabbcc")].concat();
    assert_eq!(frame[..14], hex("020000000102 02000000ffff 88b5"));
    let layout = ItemLayout::new(MASK);
    let history = History::parse(&frame, &layout).unwrap();
    assert_eq!(history.stamp(), Stamp { seq: 3, time_ns: 4000 });
    assert_eq!((history.count(), history.first_seq(), history.link()), (2, 1, LinkType::Ethernet));
    assert_eq!(frame[history.packet_offset()..], [0xaa, 0xbb, 0xcc]);
    let mut src = Addr::UNSPECIFIED;
    src.0[12..].copy_from_slice(&[10, 0, 0, 2]);
    let (stamp, headers) = history.items().next().unwrap();
    assert_eq!(stamp, Stamp { seq: 1, time_ns: 2000 });
    assert_eq!(headers, Headers { src, dst_port: 53, ..Headers::default() });
}

#[test]
fn one_core_needs_no_history() {
    let layout = ItemLayout::new(MASK);
    let mut sequencer = Sequencer::new(layout.clone(), 1).unwrap();
    let mut receiver = Receiver::starting_at(0);
    let mut out = [0; 40];
    for seq in 0..3 {
        assert_eq!(sequencer.next(&packet(1, 2, 0), 7).core, 0);
        assert_eq!(sequencer.prefix(LinkType::RawIp, &mut out), 40);
        let history = History::parse(&out, &layout).unwrap();
        assert_eq!((history.stamp().seq, history.count(), history.link()), (seq, 0, LinkType::RawIp));
        assert_eq!(receiver.accept(&history).unwrap().lost, seq..seq);
    }
    // Ethernet pads a flush that is this short.
    sequencer.flush();
    sequencer.prefix(LinkType::RawIp, &mut out);
    let padded = [&outer_ethernet(0)[..], &out, &[0; 6]].concat();
    assert!(History::parse(&padded, &layout).is_ok());
}

#[test]
fn cores_are_bounded() {
    for cores in [0, 65, usize::MAX] {
        assert_eq!(Sequencer::new(ItemLayout::new(0), cores).unwrap_err(), CoresOutOfRange(cores));
    }
    let sequencer = Sequencer::new(ItemLayout::new(u64::MAX), 64).unwrap();
    assert_eq!(sequencer.prefix_len(), 40 + 63 * 72);
}

/// For each reason, what is changed in a prefix to see it: offset and new bytes.
const CHANGES: [(Rejected, &str, usize, &str); 22] = [
    (Rejected::NotHistory, BEFORE_3, 3, "4a"),
    (Rejected::NotHistory, BEFORE_3, 0, ""),
    (Rejected::HeaderTruncated, BEFORE_3, 39, ""),
    (Rejected::HeaderTruncated, BEFORE_3, 2, ""),
    (Rejected::Version, BEFORE_3, 4, "02"),
    (Rejected::Flags, BEFORE_3, 5, "02"),
    // Reasons that a packet's own core finds; that there are not; of a flush.
    (Rejected::Flags, BEFORE_3, 5, "2e"),
    (Rejected::Flags, BEFORE_3, 5, "3e"),
    (Rejected::Flags, FLUSH, 5, "37"),
    (Rejected::LinkType, BEFORE_3, 6, "0002"),
    (Rejected::OtherLayout, BEFORE_3, 31, "01"),
    (Rejected::ItemLength, BEFORE_3, 33, "10"),
    (Rejected::RingTooLarge, BEFORE_3, 34, "0040"),
    (Rejected::RingTruncated, BEFORE_3, 69, ""),
    (Rejected::RingTruncated, BEFORE_3, 34, "0003"),
    (Rejected::CountBeyondRing, BEFORE_3, 36, "0003"),
    (Rejected::CountBeyondSequence, BEFORE_3, 15, "01"),
    (Rejected::OldestBeyondRing, BEFORE_3, 38, "0002"),
    (Rejected::OldestMisplaced, BEFORE_3, 38, "0000"),
    (Rejected::TimeRunsBack, BEFORE_4, 40, "a10f"),
    (Rejected::TimeRunsBack, BEFORE_4, 22, "0f9f"),
    (Rejected::FlushWithPacket, FLUSH, 70, "01"),
];

#[test]
fn each_reason_to_reject() {
    let layout = ItemLayout::new(MASK);
    for (reason, prefix, at, change) in CHANGES {
        let mut bytes = hex(prefix);
        assert!(History::parse(&bytes, &layout).is_ok());
        match hex(change) {
            cut if cut.is_empty() && reason == Rejected::NotHistory => bytes = hex("0200"),
            cut if cut.is_empty() => bytes.truncate(at),
            change => {
                bytes.resize(bytes.len().max(at + change.len()), 0);
                bytes[at..at + change.len()].copy_from_slice(&change);
            }
        }
        assert_eq!(History::parse(&bytes, &layout).unwrap_err(), reason, "{at}: {change}");
        assert_eq!(invariants::plain(&bytes, MASK), None, "{at}: {change}");
        invariants::check_bytes(&hex(prefix), &layout).unwrap();
        // The same behind an outer header.
        if reason != Rejected::HeaderTruncated && reason != Rejected::NotHistory {
            let frame = [&outer_ethernet(0)[..], &bytes].concat();
            assert_eq!(History::parse(&frame, &layout).unwrap_err(), reason, "{at}: {change}");
        }
    }
    let tried: Vec<_> = CHANGES.iter().map(|(reason, ..)| *reason).collect();
    let missing = Rejected::ALL.iter().filter(|reason| !tried.contains(reason));
    // Of version 2, and the receiver's: see below.
    assert_eq!(missing.collect::<Vec<_>>(), [&Rejected::OtherSeed, &Rejected::SequenceGoesBack]);
}

#[test]
fn a_receiver_tells_what_is_new_and_what_is_lost() {
    let layout = ItemLayout::new(MASK);
    let frames = [BEFORE_0, BEFORE_1, BEFORE_2, BEFORE_3, BEFORE_4, FLUSH].map(hex);
    let histories = frames.each_ref().map(|frame| History::parse(frame, &layout).unwrap());
    let mut receiver = Receiver::starting_at(0);
    let mut accept = |frame: usize| {
        let arrival = receiver.accept(&histories[frame]);
        (arrival.map(|arrival| (arrival.lost, arrival.known)), receiver.expected())
    };
    assert_eq!(accept(0), (Ok((0..0, 0)), 1));
    assert_eq!(accept(0), (Err(Rejected::SequenceGoesBack), 1), "again");
    // Packet 4 has 2 and 3 with it: 1 is lost.
    assert_eq!(accept(4), (Ok((1..2, 0)), 5));
    assert_eq!(accept(3), (Err(Rejected::SequenceGoesBack), 5), "back");
    // The flush has 3 and 4, both known; it may come again, with the number of the packet after it.
    assert_eq!(accept(5), (Ok((5..5, 2)), 5));
    assert_eq!(accept(5), (Ok((5..5, 2)), 5));

    let mut joins = Receiver::starting_at(2);
    let arrival = joins.accept(&histories[3]).unwrap();
    assert_eq!((arrival.lost, arrival.known), (2..2, 1), "packet 1 is in the state that it starts from");
}

/// The chain of the example of version 2: one function by source address, which reads that address.
#[derive(Debug)]
struct Typed(TypedLayout);

/// The seed of the example's tables.
const SEED: u64 = 0x0123_4567_89ab_cdef;

impl Typed {
    fn new() -> Typed {
        let key = Part::Key { fields: 1, is_symmetric: false, bytes: 16 };
        let meta = Part::Meta { function: "ddos", reads: 0x8_0001, bytes: 16 };
        Typed(TypedLayout::new("paceline 0.1.0", &[key, meta], SEED).unwrap())
    }
}

impl Layout for Typed {
    fn form(&self) -> Form {
        self.0.form()
    }

    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        self.0.begin(time_ns, !headers.is_well_formed(), item);
        if headers.is_well_formed() {
            let [key, meta] = self.0.places() else { panic!("two parts") };
            let short = u128::from_le_bytes(headers.src.0);
            write_key(Hasher::new(SEED).hash_u128(short) as u32, short, key.of_mut(item));
            key.mark(true, item);
            meta.of_mut(item).copy_from_slice(&headers.src.0);
            meta.mark(true, item);
        }
    }
}

/// Before packet 3: as [`BEFORE_3`].
const TYPED_BEFORE_3: &str = "
    504c4849 02 00 0001 0000000000000003 0000000000000fa0 8f86eea0af92c56f 002d 0002 0002 0001 0123456789abcdef
    d007000000000000 06 85fa007a 00000000000000000000ffff0a000003 00000000000000000000ffff0a000003
    d007000000000000 06 caf5c5f2 00000000000000000000ffff0a000002 00000000000000000000ffff0a000002";

/// The flush after packet 4: packet 3 is malformed.
const TYPED_FLUSH: &str = "
    504c4849 02 01 0000 0000000000000005 0000000000001388 8f86eea0af92c56f 002d 0002 0002 0001 0123456789abcdef
    8813000000000000 06 4005cc58 00000000000000000000ffff0a000005 00000000000000000000ffff0a000005
    a00f000000000000 01 00000000 00000000000000000000000000000000 00000000000000000000000000000000";

#[test]
fn typed_prefixes_are_as_drawn() {
    let layout = Typed::new();
    let mut sequencer = Sequencer::new(Typed::new(), 3).unwrap();
    let mut out = [0xee; 139];
    for (number, (src, dst_port, code, time_ns)) in PACKETS.into_iter().enumerate() {
        sequencer.next(&packet(src, dst_port, code), time_ns);
        assert_eq!(sequencer.prefix(LinkType::Ethernet, &mut out), 138);
        invariants::check_items(&out[..138], &layout).unwrap();
        if number == 3 {
            assert_eq!(digits(&out[..138]), digits(&hex(TYPED_BEFORE_3)));
        }
    }
    sequencer.flush();
    sequencer.prefix(LinkType::Ethernet, &mut out);
    assert_eq!(digits(&out[..138]), digits(&hex(TYPED_FLUSH)));
    assert_eq!(out[138], 0xee, "nothing is written behind the prefix");
    assert_eq!(Kind::of(&out), Some(Kind { version: Version::Typed, table_seed: SEED }));
    assert_eq!(Kind::of(&hex(BEFORE_3)), Some(Kind { version: Version::Headers, table_seed: 0 }));
    assert_eq!(Kind::of(&[&outer_ethernet(1)[..], &out].concat()).unwrap().version, Version::Typed);
    assert_eq!((Kind::of(&out[..47]), Kind::of(&hex("00")), Kind::of(&[])), (None, None, None));
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the other version has not, and what is elsewhere in it; the rest is the same code.
#[test]
fn each_reason_to_reject_typed_items() {
    let layout = Typed::new();
    let changes = [
        (Rejected::Version, 4, "01"),
        (Rejected::HeaderTruncated, 47, ""),
        (Rejected::HeaderTruncated, 39, ""),
        (Rejected::OtherLayout, 31, "00"),
        (Rejected::ItemLength, 33, "2c"),
        (Rejected::OtherSeed, 47, "ee"),
        (Rejected::RingTooLarge, 34, "0040"),
        (Rejected::RingTruncated, 137, ""),
        (Rejected::OldestMisplaced, 38, "0000"),
        // The older of the two is one later.
        (Rejected::TimeRunsBack, 48 + 45, "d107"),
    ];
    let before = hex(TYPED_BEFORE_3);
    assert!(History::parse(&before, &layout).is_ok());
    for (reason, at, change) in changes {
        let mut bytes = before.clone();
        match hex(change) {
            cut if cut.is_empty() => bytes.truncate(at),
            change => bytes[at..at + change.len()].copy_from_slice(&change),
        }
        assert_eq!(History::parse(&bytes, &layout).unwrap_err(), reason, "{at}: {change}");
        invariants::check_items(&bytes, &layout).unwrap();
    }
    // Neither version is taken for the other.
    assert_eq!(History::parse(&before, &ItemLayout::new(MASK)).unwrap_err(), Rejected::Version);
    assert_eq!(History::parse(&hex(BEFORE_3), &layout).unwrap_err(), Rejected::Version);
}
