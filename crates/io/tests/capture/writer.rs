//! What is written is read back the same, and a failed run costs nothing that was there before.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use paceline_io::capture::{CaptureError, CaptureReader, CaptureWriter, MAX_PACKET_BYTES};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned};
use proptest::prelude::*;
use wire::LinkType;

use crate::{Owned, read_all};

const LINKS: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Loop,
    LinkType::RawIp,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

fn packets(link: LinkType) -> impl Strategy<Value = Vec<Owned>> {
    let time_ns = prop_oneof![any::<u64>(), 1_600_000_000_000_000_000..1_800_000_000_000_000_000_u64];
    let data = prop::collection::vec(any::<u8>(), 0..2_000);
    let packet = (time_ns, any::<u32>(), data).prop_map(move |(time_ns, wire_len, data)| Owned {
        // pcap ends in 2106.
        time_ns: time_ns.min(4_294_967_295_999_999_999),
        wire_len: wire_len.max(data.len() as u32),
        link,
        data,
    });
    prop::collection::vec(packet, 0..20)
}

fn write_all(path: &Path, link: LinkType, packets: &[Owned]) {
    let mut writer = CaptureWriter::create(path, link).unwrap();
    for packet in packets {
        writer.write(packet.time_ns, packet.wire_len, &packet.data).unwrap();
    }
    writer.finish().unwrap();
}

/// Reads a capture with another project's reader.
fn read_elsewhere(path: &Path, link: LinkType) -> Vec<Owned> {
    let mut records = Vec::new();
    let mut reader = LegacyPcapReader::new(1 << 20, fs::File::open(path).unwrap()).unwrap();
    loop {
        match reader.next() {
            Ok((len, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        assert!(header.is_nanosecond_precision() && !header.is_bigendian());
                        assert_eq!(header.network.0 as u32, link.to_pcap());
                        assert_eq!(header.snaplen as usize, MAX_PACKET_BYTES);
                    }
                    PcapBlockOwned::Legacy(record) => records.push(Owned {
                        time_ns: u64::from(record.ts_sec) * 1_000_000_000 + u64::from(record.ts_usec),
                        wire_len: record.origlen,
                        link,
                        data: record.data.to_vec(),
                    }),
                    PcapBlockOwned::NG(_) => panic!("not pcapng"),
                }
                reader.consume(len);
            }
            Err(pcap_parser::PcapError::Eof) => return records,
            Err(pcap_parser::PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_is_written_is_read_back_here_and_elsewhere(
        (link, packets) in prop::sample::select(&LINKS[..]).prop_flat_map(|link| (Just(link), packets(link))),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcap");
        write_all(&path, link, &packets);
        let (records, error) = read_all(CaptureReader::open(&path));
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&records, &packets);
        prop_assert_eq!(&read_elsewhere(&path, link), &packets);
    }
}

#[test]
fn the_bytes_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcap");
    let mut writer = CaptureWriter::create(&path, LinkType::LinuxSll).unwrap();
    writer.write(1_000_000_002, 64, b"\xaa\xbb").unwrap();
    writer.write(u64::MAX, 0, b"\xcc").unwrap();
    writer.finish().unwrap();
    let expected = crate::hex(
        "4d3cb2a1 0200 0400 00000000 00000000 00000400 71000000
         01000000 02000000 02000000 40000000 aabb
         ffffffff ffc99a3b 01000000 01000000 cc ; the last time that pcap can hold",
    );
    assert_eq!(fs::read(&path).unwrap(), expected);
    assert_eq!(names(dir.path()), ["out.pcap"]);
}

#[test]
fn packets_of_the_longest_length_are_written_and_longer_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcap");
    let mut writer = CaptureWriter::create(&path, LinkType::Ethernet).unwrap();
    let long = vec![3; MAX_PACKET_BYTES + 1];
    for _ in 0..5 {
        writer.write(0, 0, &long[..MAX_PACKET_BYTES]).unwrap();
        let error = writer.write(0, 0, &long).unwrap_err();
        assert!(matches!(error, CaptureError::TooLong { len: 262_145, .. }), "{error}");
    }
    writer.finish().unwrap();
    let (records, error) = read_all(CaptureReader::open(&path));
    assert!(
        error.is_none()
            && records.len() == 5
            && records.iter().all(|record| record.data == long[..MAX_PACKET_BYTES])
    );
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn one_packet(time_ns: u64) -> Vec<Owned> {
    vec![Owned { time_ns, wire_len: 3, link: LinkType::Ethernet, data: b"abc".to_vec() }]
}

#[test]
fn an_interrupted_run_keeps_the_older_output_and_its_own_packets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcap");
    write_all(&path, LinkType::Ethernet, &one_packet(1));

    for time_ns in [2, 3] {
        let mut writer = CaptureWriter::create(&path, LinkType::Ethernet).unwrap();
        writer.write(time_ns, 3, b"abc").unwrap();
        drop(writer);
    }
    // A run that came to no packet leaves nothing.
    drop(CaptureWriter::create(&path, LinkType::Ethernet).unwrap());

    assert_eq!(names(dir.path()), ["out.pcap", "out.pcap.partial", "out.pcap.partial2"]);
    for (name, time_ns) in [("out.pcap", 1), ("out.pcap.partial", 2), ("out.pcap.partial2", 3)] {
        let (records, error) = read_all(CaptureReader::open(dir.path().join(name)));
        assert!(error.is_none());
        assert_eq!(records, one_packet(time_ns));
    }
}

#[test]
fn what_is_flushed_can_be_read_while_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcap");
    let mut writer = CaptureWriter::create(&path, LinkType::Ethernet).unwrap();
    writer.write(7, 3, b"abc").unwrap();
    writer.flush().unwrap();
    assert_eq!(read_all(CaptureReader::open(dir.path().join("out.pcap.partial"))).0, one_packet(7));
}

#[test]
fn a_full_disk_is_an_error_that_names_the_output() {
    let mut writer = CaptureWriter::create("/dev/full", LinkType::Ethernet).unwrap();
    writer.write(0, 3, b"abc").unwrap();
    let error = writer.flush().unwrap_err().to_string();
    assert!(error.contains("cannot write /dev/full: No space left"), "{error}");
    writer.write(0, 3, b"abc").unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("an earlier write failed"), "{error}");
}

#[test]
fn outputs_that_are_no_files_are_written_as_they_are() {
    let mut writer = CaptureWriter::create("/dev/null", LinkType::Ethernet).unwrap();
    writer.write(0, 3, b"abc").unwrap();
    writer.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(!PathBuf::from("/dev/null.partial").exists());
}

#[test]
fn an_output_that_is_a_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (link, target) = (dir.path().join("link.pcap"), dir.path().join("target.pcap"));
    fs::write(&target, "older").unwrap();
    symlink(&target, &link).unwrap();
    write_all(&link, LinkType::Ethernet, &one_packet(1));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read_all(CaptureReader::open(&target)).0, one_packet(1));
}

#[test]
fn outputs_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let error = |path: &Path| CaptureWriter::create(path, LinkType::Ethernet).err().unwrap().to_string();
    assert!(error(dir.path()).contains("is a directory; name a capture file"));
    let missing = error(&dir.path().join("no/out.pcap"));
    assert!(missing.contains("cannot create") && missing.contains("check the name"), "{missing}");
}
