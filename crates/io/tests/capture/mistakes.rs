//! What a user may get wrong, and what is said then: the file, the cause, the remedy.

use std::fs;

use paceline_io::capture::{CaptureError, CaptureReader};

use crate::{hex, read_bytes, samples};

fn open_error(path: impl AsRef<std::path::Path>) -> String {
    CaptureReader::open(path).err().expect("not a capture").to_string()
}

#[test]
fn files_that_are_no_captures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.pcap");
    let missing = open_error(&path);
    assert!(missing.contains("some.pcap: No such file") && missing.contains("check the name"), "{missing}");

    let directory = open_error(dir.path());
    assert!(directory.contains("is a directory; name a capture file"), "{directory}");

    fs::write(&path, "").unwrap();
    let empty = open_error(&path);
    assert!(empty.contains("some.pcap is empty"), "{empty}");

    for (bytes, said) in [
        (&b"No.,Time,Source\n1,0.0,10.0.0.1\n"[..], "begins with text, \"No.,Time,Source\\n\""),
        (b"\x7fELF\x02\x01\x01", "begins with the bytes 7f 45 4c 46 02 01 01"),
        (b"\xfd7zXZ\x00\x00", "packed with xz, unpack it first with `xz -d`"),
        (b"BZh91AY", "packed with bzip2"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = open_error(&path);
        assert!(error.contains("some.pcap is not a capture") && error.contains(said), "{error}");
        assert!(error.contains("editcap -F pcapng"), "{error}");
    }
}

#[test]
fn an_unsupported_link_type_is_named_and_so_are_the_supported() {
    let mut bytes = samples::pcap_micro_little().bytes;
    bytes[20] = 127;
    let error = CaptureReader::from_bytes(bytes).err().unwrap().to_string();
    assert!(error.contains("link type 127 (IEEE 802.11 with radiotap header) at byte 20"), "{error}");
    assert!(error.contains("Ethernet (1), raw IP (12, 14, 101, 228, 229), BSD loopback (0, 108)"), "{error}");

    let mut bytes = samples::pcap_micro_little().bytes;
    bytes[21] = 0xff;
    let error = CaptureReader::from_bytes(bytes).err().unwrap().to_string();
    assert!(error.contains("link type 65281 (unknown)"), "{error}");
}

/// The supported list in the message is the one that the parser accepts.
#[test]
fn the_supported_link_types_are_listed_in_full() {
    let mut bytes = samples::pcap_micro_little().bytes;
    bytes[20] = 127;
    let error = CaptureReader::from_bytes(bytes).err().unwrap().to_string();
    let (_, list) = error.split_once("supported are ").unwrap();
    let listed: Vec<u32> = list.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let accepted: Vec<u32> = (0..=0xffff).filter(|n| wire::LinkType::from_pcap(*n).is_some()).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, accepted);
}

/// A pcapng may well have interfaces that Paceline cannot parse: their packets are skipped and counted, and no other.
#[test]
fn packets_of_an_unsupported_interface_are_skipped() {
    let mut sample = samples::pcapng_blocks();
    let (interface_1, interface_2) = (sample.borders[1].0, sample.borders[2].0);
    sample.bytes[interface_1 + 8] = 220;
    let mut reader = CaptureReader::from_bytes(sample.bytes.clone()).unwrap();
    let mut records = 0;
    while reader.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, 3);
    assert_eq!(reader.remarks().skipped, [(220, 1)].into());
    let (records, error) = read_bytes(&sample.bytes);
    assert!(error.is_none() && records[1..] == sample.records[2..], "{error:?}");

    sample.bytes[interface_2 + 8] = 189;
    let mut reader = CaptureReader::from_bytes(sample.bytes).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.remarks().skipped, [(220, 1), (189, 1)].into());
}

/// As a pcap of an unsupported link type, which has nothing to read either.
#[test]
fn a_pcapng_of_unsupported_packets_alone_is_refused() {
    let mut sample = samples::pcapng_sections();
    let interface = sample.borders[0].0;
    sample.bytes[interface + 9] = 220;
    sample.bytes[interface + 8] = 0;
    let end = sample.borders[3].0;
    let (records, error) = read_bytes(&sample.bytes[..end]);
    let Some(CaptureError::LinkType { at, number: 220, .. }) = error else { panic!("{error:?}") };
    assert_eq!((at.offset as usize, records.len()), (sample.borders[1].0, 0));
}

/// Ticks of microseconds beyond 2^64 ns.
#[test]
fn times_past_2554_are_counted() {
    let mut bytes = samples::pcapng_blocks().bytes[..48].to_vec();
    bytes.extend(hex("06000000 24000000 00000000 ffffffff ffffffff 04000000 04000000 01020304 24000000"));
    bytes.extend(hex("06000000 24000000 00000000 00000000 01000000 04000000 04000000 01020304 24000000"));
    let mut reader = CaptureReader::from_bytes(bytes).unwrap().as_written();
    assert_eq!(reader.next().unwrap().unwrap().time_ns, u64::MAX);
    assert_eq!(reader.next().unwrap().unwrap().time_ns, 1_000);
    assert_eq!(reader.remarks().too_late, 1);
}

#[test]
fn dialects_are_named() {
    for (bytes, said) in [
        ("34cdb2a1 0200 0400 00000000 00000000 00000400 01000000", "\"modified\" pcap"),
        ("d4c3b2a1 0200 0300 00000000 00000000 00000400 01000000", "pcap of version 2.3"),
        ("0a0d0d0a 1c000000 4d3c2b1a 0200 0000 ffffffffffffffff 1c000000", "pcapng of version 2.0"),
    ] {
        let error = read_bytes(&hex(bytes)).1.unwrap().to_string();
        assert!(error.contains(said) && error.contains("convert it"), "{error}");
    }
}

#[test]
fn damage_is_described() {
    let cut = "is cut short: a packet record at byte 24 needs 20 bytes and 18 are there; no packet";
    assert_eq!(described(samples::pcap_micro_little().bytes[..42].to_vec(), &[]), cut);

    let pcap = samples::pcap_micro_little();
    let captured = pcap.borders[0].0 + 8;
    assert_eq!(
        described(pcap.bytes, &[(captured, 0xff), (captured + 3, 0xff)]),
        "is damaged at byte 32: expected a captured length of at most 262144, found 4278190335; no packet"
    );

    let sample = samples::pcapng_blocks();
    let (header, packet) = (sample.borders[0].0, sample.borders[4].0);
    let bytes = || sample.bytes.clone();
    for (changes, expected) in [
        (vec![(8, 0)], "at byte 8: expected the byte-order magic 1a2b3c4d, found 003c2b1a"),
        (
            vec![(header + 4, 8)],
            "at byte 32: expected a block length of at least 12 and a multiple of 4, found 8",
        ),
        (
            vec![(header + 4, 22)],
            "at byte 32: expected a block length of at least 12 and a multiple of 4, found 22",
        ),
        (vec![(header + 16, 24)], "at byte 44: expected the block's length, 20, again, found 24"),
        (
            vec![(packet + 6, 0xff)],
            "at byte 148: expected a block of type 6 with a length of 32 to 1048576, found 16711732",
        ),
        (
            vec![(packet + 8, 3)],
            "at byte 144: expected a packet of one of the section's 3 interfaces, found interface 3",
        ),
        (vec![(packet + 21, 1)], "at byte 164: expected a captured length of at most 20, found 261"),
    ] {
        let expected = format!("is damaged {expected}; no packet");
        assert_eq!(described(bytes(), &changes), expected);
    }
}

/// The error of a capture with some bytes changed, without the file's name and the remedy.
fn described(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> String {
    for (at, value) in changes {
        bytes[*at] = *value;
    }
    let error = read_bytes(&bytes).1.expect("damaged").to_string();
    let error = error.strip_prefix("capture in memory ").expect(&error);
    let (what, remedy) = error.split_once(" before it ").expect(error);
    assert!(remedy.contains("copy"), "{remedy}");
    what.to_string()
}

#[test]
fn a_claim_of_gigabytes_is_refused_or_found_missing_without_allocating_them() {
    let mut bytes = samples::pcapng_blocks().bytes[..28].to_vec();
    bytes.extend(hex("ad0b0000 fcffffff 00000000"));
    let (_, error) = read_bytes(&bytes);
    let Some(CaptureError::Truncated { needed, present: 12, .. }) = error else { panic!("{error:?}") };
    assert_eq!(needed, 0xffff_fffc);
}

#[test]
fn more_interfaces_than_the_bound_are_refused() {
    let mut bytes = samples::pcapng_blocks().bytes[..28].to_vec();
    let interface = hex("01000000 14000000 0100 0000 00000000 14000000");
    bytes.extend(interface.repeat(65_536));
    assert!(read_bytes(&bytes).1.is_none());
    bytes.extend(interface);
    let error = read_bytes(&bytes).1.unwrap().to_string();
    assert!(error.contains("expected at most 65536 interfaces"), "{error}");
}

#[test]
fn options_of_an_interface_that_are_cut_or_malformed_are_refused() {
    for (options, expected) in [
        ("0900 0200 09090000", "a time resolution (if_tsresol) of 1 byte, found 2 bytes"),
        ("0e00 0400 00000000", "a time offset (if_tsoffset) of 8 bytes, found 4 bytes"),
        ("0200 ff00 00000000", "an option that ends within its block, found one of 255 bytes"),
    ] {
        let mut bytes = samples::pcapng_blocks().bytes[..28].to_vec();
        bytes.extend(hex(&format!("01000000 1c000000 0100 0000 00000000 {options} 1c000000")));
        let error = read_bytes(&bytes).1.unwrap().to_string();
        assert!(error.contains("at byte 44") && error.contains(expected), "{error}");
    }
}
