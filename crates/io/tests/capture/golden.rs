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

/// As tshark does: what a file claims to have captured behind the end of a packet is no part of it.
#[test]
fn what_is_captured_behind_the_end_of_a_packet_is_left_out() {
    let pcap = hex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000 \
                    07000000 09000000 04000000 02000000 aabbccdd 08000000 00000000 01000000 01000000 ee");
    let pcapng = hex("0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000 \
                      01000000 14000000 0100 0000 00000000 14000000 \
                      06000000 24000000 00000000 00000000 40420f00 04000000 02000000 aabbccdd 24000000 \
                      06000000 24000000 00000000 00000000 80841e00 01000000 01000000 ee000000 24000000");
    for bytes in [pcap, pcapng] {
        let (records, error) = read_bytes(&bytes);
        assert!(error.is_none(), "{error:?}");
        let lengths: Vec<_> = records.iter().map(|record| (record.wire_len, record.data.len())).collect();
        assert_eq!((lengths, records[0].data.clone()), (vec![(2, 2), (1, 1)], vec![0xaa, 0xbb]));
        let mut reader = CaptureReader::from_bytes(bytes).unwrap();
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.remarks().overlong, 1);
    }
}

/// A capture of packets at these seconds.
fn at_seconds(times: &[u32]) -> Vec<u8> {
    let mut bytes = hex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000");
    for time in times {
        bytes.extend(time.to_le_bytes());
        bytes.extend(hex("00000000 01000000 01000000 ee"));
    }
    bytes
}

#[test]
fn one_stamp_far_ahead_is_held_whether_packets_were_looked_at_ahead_or_not() {
    let times = [100, 101, 4_000_000_000, 102, 103, 900, 901];
    for ahead in 0..=times.len() {
        let mut reader = CaptureReader::from_bytes(at_seconds(&times)).unwrap();
        let mut seen = 0;
        reader.look_ahead(ahead, usize::MAX, &mut |_| seen += 1);
        let mut told = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            told.push(record.time_ns / 1_000_000_000);
        }
        assert_eq!((seen, told), (ahead, vec![100, 101, 101, 102, 103, 900, 901]), "{ahead}");
        let held = reader.remarks().held;
        assert_eq!((held.packets, held.furthest, held.furthest_ns), (1, 2, 3_999_999_899_000_000_000));
    }
}

/// An error behind packets that were asked for their time comes where it would have come, with as many packets before it.
#[test]
fn a_cut_behind_a_leap_comes_behind_the_packets_before_it() {
    let mut bytes = at_seconds(&[100, 900, 901]);
    bytes.truncate(bytes.len() - 1);
    let (records, error) = read_bytes(&bytes);
    assert_eq!(records.len(), 2);
    assert_eq!(error.expect("cut").whole_packets(), 2);
}

#[test]
fn sides_of_packets_are_those_of_interfaces() {
    use wire::Side::{Inside, Outside};
    // Two interfaces, `lan` and `wan`, and a packet of each; a second section in which they change places.
    let section = |first: &str, second: &str| {
        let interface = |name: &str| {
            format!("01000000 20000000 0100 0000 00000000 0200 0300 {name} 00 0000 0000 20000000")
        };
        let packet = |id| {
            format!("06000000 24000000 0{id}000000 00000000 40420f00 01000000 01000000 ee000000 24000000")
        };
        let header = "0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000";
        format!("{header} {} {} {} {}", interface(first), interface(second), packet(0), packet(1))
    };
    let (lan, wan) = ("6c616e", "77616e");
    let bytes = hex(&format!("{} {}", section(lan, wan), section(wan, lan)));
    let sides = |inside: Option<&str>| {
        let mut reader = CaptureReader::from_bytes(bytes.clone()).unwrap();
        inside.map_or(Ok(()), |inside| reader.has_inside(inside)).unwrap();
        let mut sides = Vec::new();
        while reader.next()?.is_some() {
            sides.push(reader.side());
        }
        Ok::<_, CaptureError>(sides)
    };
    assert_eq!(sides(None).unwrap(), [None; 4]);
    assert_eq!(sides(Some("lan")).unwrap(), [Inside, Outside, Outside, Inside].map(Some));
    assert_eq!(sides(Some("1")).unwrap(), [Outside, Inside, Outside, Inside].map(Some));
    let error = sides(Some("eth0")).expect_err("there is none").to_string();
    assert!(
        error.contains("no interface is called or numbered `eth0`; there are 0 (lan), 1 (wan)"),
        "{error}"
    );
    let mut pcap = CaptureReader::from_bytes(at_seconds(&[1])).unwrap();
    let error = pcap.has_inside("lan").expect_err("pcap has no names").to_string();
    assert!(error.contains("a pcap file does not say by which interface packets came"), "{error}");
}
