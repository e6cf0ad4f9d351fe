//! Packets with comments, read by our reader and by another project's.

use std::fs;

use paceline_io::capture::{CaptureReader, CommentedWriter};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader};
use proptest::prelude::*;
use wire::LinkType;

/// Time, length on the wire, interface, bytes, comment.
type Packet = (u64, u32, usize, Vec<u8>, String);

const INTERFACES: [(&str, LinkType); 3] =
    [("eth0", LinkType::Ethernet), ("", LinkType::Ethernet), ("tun0", LinkType::RawIp)];

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let data = prop::collection::vec(any::<u8>(), 0..200);
    let packet = (any::<u64>(), any::<u32>(), 0..INTERFACES.len(), data, ".{0,40}");
    prop::collection::vec(packet, 0..20)
}

fn write(path: &std::path::Path, packets: &[Packet]) {
    let mut writer = CommentedWriter::create(path).unwrap();
    for (time_ns, wire_len, interface, data, comment) in packets {
        writer.write(INTERFACES[*interface], *time_ns, *wire_len, data, comment).unwrap();
    }
    writer.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(packets in packets()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcapng");
        write(&path, &packets);

        let mut reader = CaptureReader::open(&path).unwrap().as_written();
        for (time_ns, wire_len, interface, data, _) in &packets {
            let record = reader.next().unwrap().unwrap();
            prop_assert_eq!(record.link, INTERFACES[*interface].1);
            prop_assert_eq!((record.time_ns, record.data), (*time_ns, &data[..]));
            prop_assert_eq!(record.wire_len, (*wire_len).max(data.len() as u32));
        }
        prop_assert!(reader.next().unwrap().is_none());

        let mut reader = PcapNGReader::new(1 << 20, fs::File::open(&path).unwrap()).unwrap();
        let (mut comments, mut names) = (Vec::new(), Vec::new());
        loop {
            match reader.next() {
                Ok((len, block)) => {
                    match &block {
                        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                            let comment = packet.options.iter().find(|option| option.code == OptionCode::Comment);
                            // Where there is nothing to say there is no comment.
                            let text = comment.map_or(&[][..], |comment| &comment.value[..usize::from(comment.len)]);
                            comments.push(String::from_utf8(text.to_vec()).unwrap());
                        }
                        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                            prop_assert_eq!(interface.if_tsresol, 9);
                            names.push(interface.linktype.0);
                        }
                        _ => {}
                    }
                    reader.consume(len);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
        prop_assert!(comments.iter().eq(packets.iter().map(|(.., comment)| comment)));
        prop_assert!(names.len() <= INTERFACES.len(), "each interface is described once");
    }
}

/// Byte by byte, for one packet.
#[test]
fn golden() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let mut writer = CommentedWriter::create(&path).unwrap();
    writer.write(("lo", LinkType::Ethernet), 0x0000_0001_0000_0002, 9, &[0xaa, 0xbb, 0xcc], "why").unwrap();
    writer.finish().unwrap();
    let hex: String = fs::read(&path).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let section = "0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000";
    let interface = "01000000280000000100000000000400020002006c6f000009000100090000000000000028000000";
    let packet =
        "06000000300000000000000001000000020000000300000009000000aabbcc0001000300776879000000000030000000";
    assert_eq!(hex, format!("{section}{interface}{packet}"));
}

/// Longer comments than a reader would show are cut between two characters.
#[test]
fn long_comments_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    write(&path, &[(1, 1, 0, vec![1], "\u{fc}".repeat(4_000))]);
    assert!(CaptureReader::open(&path).unwrap().next().unwrap().is_some());
    assert!(fs::metadata(&path).unwrap().len() < 2_000);
}
