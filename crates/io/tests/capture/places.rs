//! Where packets are in a file, as the reader says: a caller that has mapped the file finds their bytes there.

use std::fs;
use std::path::Path;

use paceline_io::capture::{CaptureReader, CaptureWriter, CommentedWriter};
use wire::LinkType;

/// Reads a capture, and compares each packet with the bytes at its place.
fn check(path: &Path) -> usize {
    let file = fs::read(path).expect("a file");
    let mut reader = CaptureReader::open(path).expect("a capture");
    assert!(!reader.is_packed());
    let mut packets = 0;
    while let Some(record) = reader.next().expect("whole packets") {
        let data = record.data.to_vec();
        let from = reader.offset_bytes() as usize;
        assert!(file[from..from + data.len()] == data, "packet {packets} of {}", path.display());
        packets += 1;
    }
    packets
}

#[test]
fn packets_are_where_the_reader_says() {
    let captures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures"));
    for name in ["edge.pcap", "gateway.pcap"] {
        // More than the reader's window holds, so that it has moved.
        assert!(check(&captures.join(name)) > 1000);
    }
}

/// Packets behind a leap of time are read ahead of being asked for.
#[test]
fn packets_that_were_read_ahead_are_where_the_reader_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let times = [0, 1, 2, 3_600, 4, 5, 6, 7, 7_200, 7_201, 7_202, 7_203];
    let bytes = |at: usize| vec![at as u8; 20 + at];
    let pcap = folder.path().join("leaps.pcap");
    let mut writer = CaptureWriter::create(&pcap, LinkType::Ethernet).expect("a file");
    let pcapng = folder.path().join("leaps.pcapng");
    let mut commented = CommentedWriter::create(&pcapng).expect("a file");
    for (at, time_s) in times.iter().enumerate() {
        let (data, time_ns) = (bytes(at), time_s * 1_000_000_000);
        writer.write(time_ns, data.len() as u32, &data).expect("written");
        commented
            .write(("eth0", LinkType::Ethernet), time_ns, data.len() as u32, &data, "why")
            .expect("written");
    }
    writer.finish().expect("whole");
    commented.finish().expect("whole");
    assert_eq!([check(&pcap), check(&pcapng)], [times.len(); 2]);
}

/// In a packed file places are those of what it unpacks to.
#[test]
fn places_in_packed_files_are_behind_unpacking() {
    let capture = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/edge.pcap"));
    let file = fs::read(capture).expect("a file");
    let mut packed = flate2::read::GzEncoder::new(&file[..], flate2::Compression::fast());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut packed, &mut bytes).expect("packed");
    let mut reader = CaptureReader::from_bytes(bytes).expect("a capture");
    assert!(reader.is_packed());
    while let Some(record) = reader.next().expect("whole packets") {
        let data = record.data.to_vec();
        let from = reader.offset_bytes() as usize;
        assert!(file[from..from + data.len()] == data);
    }
}
