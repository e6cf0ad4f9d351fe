//! A capture of real traffic, where it is at hand.

use std::path::{Path, PathBuf};

use paceline_io::capture::{CaptureReader, CaptureWriter};
use wire::LinkType;

fn apps_mix() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures/apps-mix.pcap.gz");
    let found = path.exists().then_some(path);
    if found.is_none() {
        println!("skipped: absent");
    }
    found
}

#[test]
fn the_real_capture_is_read_whole_and_written_back_the_same() {
    let Some(path) = apps_mix() else { return };
    let copy = std::env::temp_dir().join(format!("paceline-apps-mix-{}.pcap", std::process::id()));
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut writer = CaptureWriter::create(&copy, LinkType::Ethernet).unwrap();
    let (mut packets, mut bytes, mut last_ns) = (0, 0, 0);
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record.link, LinkType::Ethernet);
        assert!(record.time_ns >= last_ns, "the capture is in time order");
        last_ns = record.time_ns;
        packets += 1;
        bytes += record.data.len();
        writer.write(record.time_ns, record.wire_len, record.data).unwrap();
    }
    assert_eq!(packets, 99_223);
    assert_eq!(last_ns, 1_700_000_059_724_108_868);
    assert_eq!(Some(reader.position_bytes()), reader.size_bytes());
    writer.finish().unwrap();

    let mut reader = CaptureReader::open(&path).unwrap();
    let mut again = CaptureReader::open(&copy).unwrap();
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(again.next().unwrap(), Some(record));
    }
    assert_eq!(again.next().unwrap(), None);
    std::fs::remove_file(&copy).unwrap();
    println!("{packets} packets, {bytes} bytes");
}
