//! Files written by hand, byte by byte, are read as their formats say.

use paceline_io::capture::{CaptureError, CaptureReader};
use wire::LinkType;

use crate::{hex, read_bytes, samples};

#[test]
fn every_sample_is_read_as_written() {
    for sample in samples::all() {
        let (records, error) = read_bytes(&sample.bytes);
        assert!(error.is_none(), "{}: {error:?}", sample.name);
        assert_eq!(records, sample.records, "{}", sample.name);
    }
}

#[test]
fn the_other_magic_numbers_of_pcap() {
    let body = |magic: &str, big: bool| {
        let numbers = match big {
            true => "0002 0004 00000000 00000000 00040000 00000001 00000007 00000009 00000001 00000001 ee",
            false => "0200 0400 00000000 00000000 00000400 01000000 07000000 09000000 01000000 01000000 ee",
        };
        read_bytes(&hex(&format!("{magic} {numbers}"))).0[0].time_ns
    };
    assert_eq!(body("a1b2c3d4", true), 7_000_009_000);
    assert_eq!(body("d4c3b2a1", false), 7_000_009_000);
    assert_eq!(body("a1b23c4d", true), 7_000_000_009);
    assert_eq!(body("4d3cb2a1", false), 7_000_000_009);
}

#[test]
fn link_types_of_pcap_files() {
    let link = |number: u32| {
        let mut bytes = samples::pcap_micro_little().bytes;
        bytes[20..24].copy_from_slice(&number.to_le_bytes());
        read_bytes(&bytes).0.first().map(|record| record.link)
    };
    for (number, expected) in [
        (0, LinkType::Null),
        (1, LinkType::Ethernet),
        (12, LinkType::RawIp),
        (14, LinkType::RawIp),
        (101, LinkType::RawIp),
        (108, LinkType::Loop),
        (113, LinkType::LinuxSll),
        (228, LinkType::RawIp),
        (229, LinkType::RawIp),
        (276, LinkType::LinuxSll2),
        // Ethernet frames that end in a check sequence of 4 bytes.
        (0x2400_0000 | 1, LinkType::Ethernet),
    ] {
        assert_eq!(link(number), Some(expected), "{number}");
    }
    assert_eq!(link(105), None);
}

/// The time of one packet with these ticks, on an interface with these options.
fn pcapng_time_ns(options: &str, ticks: u64) -> u64 {
    let options = hex(options);
    let len = (20 + options.len() as u32).to_le_bytes();
    let mut bytes = hex("0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000");
    bytes.extend(hex("01000000"));
    bytes.extend(len);
    bytes.extend(hex("0100 0000 00000000"));
    bytes.extend(options);
    bytes.extend(len);
    bytes.extend(hex("06000000 20000000 00000000"));
    bytes.extend(((ticks >> 32) as u32).to_le_bytes());
    bytes.extend((ticks as u32).to_le_bytes());
    bytes.extend(hex("00000000 00000000 20000000"));
    let mut reader = CaptureReader::from_bytes(bytes).unwrap();
    reader.next().unwrap().expect("one packet").time_ns
}

#[test]
fn clocks_of_pcapng_interfaces() {
    let second = 1_000_000_000;
    let cases: [(&str, u64, u64); 14] = [
        ("", 5_000_001, 5 * second + 1_000),
        ("0900 0100 06000000", 5_000_001, 5 * second + 1_000),
        ("0900 0100 00000000", 5, 5 * second),
        ("0900 0100 03000000", 5_001, 5 * second + 1_000_000),
        ("0900 0100 09000000", 5, 5),
        ("0900 0100 0c000000", 5_999, 5),
        ("0900 0100 7f000000", u64::MAX, 0),
        ("0900 0100 80000000", 5, 5 * second),
        ("0900 0100 a0000000", 3 << 31, second * 3 / 2),
        ("0900 0100 ff000000", u64::MAX, 0),
        ("0e00 0800 0a00000000000000", 5_000_000, 15 * second),
        // What follows the end of the options is none.
        ("0000 0000 0900 0200 ffffffff", 5_000_000, 5 * second),
        // Before 1970, and after 2554.
        ("0e00 0800 faffffffffffffff", 5_000_000, 0),
        ("0900 0100 00000000", u64::MAX, u64::MAX),
    ];
    for (options, ticks, expected_ns) in cases {
        assert_eq!(pcapng_time_ns(options, ticks), expected_ns, "{options} {ticks}");
    }
    assert_eq!(pcapng_time_ns("0e00 0800 ffffffffffffff7f", u64::MAX), u64::MAX);
    assert_eq!(pcapng_time_ns("0e00 0800 0000000000000080", u64::MAX), 0);
}

#[test]
fn a_packet_as_long_as_the_bound_is_read_and_a_longer_one_is_not() {
    let pcap = |len: usize| {
        let mut bytes = samples::pcap_micro_little().bytes[..24].to_vec();
        bytes.extend([0; 8]);
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend(vec![7; len]);
        bytes
    };
    let (records, error) = read_bytes(&pcap(262_144));
    assert!(error.is_none());
    assert_eq!(records[0].data, vec![7; 262_144]);

    let (records, error) = read_bytes(&pcap(262_145));
    assert!(records.is_empty());
    assert!(matches!(error, Some(CaptureError::Corrupt { at, .. }) if at.offset == 32));
}

#[test]
fn the_bound_holds_also_where_a_block_has_room_for_more() {
    let packet = |captured: u32| {
        let len = (32 + 262_148_u32).to_le_bytes();
        let mut bytes = samples::pcapng_blocks().bytes[..28].to_vec();
        bytes.extend(hex("01000000 14000000 0100 0000 00000000 14000000 06000000"));
        bytes.extend(len);
        bytes.extend([0; 12]);
        bytes.extend(captured.to_le_bytes());
        bytes.extend(captured.to_le_bytes());
        bytes.extend(vec![0; 262_148]);
        bytes.extend(len);
        bytes
    };
    let (records, error) = read_bytes(&packet(262_144));
    assert!(error.is_none() && records[0].data.len() == 262_144);
    let (records, error) = read_bytes(&packet(262_145));
    assert!(records.is_empty());
    assert!(matches!(error, Some(CaptureError::Corrupt { at, .. }) if at.offset == 68));
}

#[test]
fn long_blocks_of_unknown_kind_are_skipped() {
    let mut sample = samples::pcapng_blocks();
    let len = 3_000_000_u32;
    let mut unknown = hex("ef be 00 00");
    unknown.extend(len.to_le_bytes());
    unknown.resize(len as usize - 4, 0x55);
    unknown.extend(len.to_le_bytes());
    sample.bytes.splice(28..28, unknown);
    let (records, error) = read_bytes(&sample.bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records, sample.records);
}
