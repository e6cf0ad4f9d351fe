//! 99,223 packets of real applications: parsed as etherparse parses them, and edited without a
//! checksum being better or worse than before.

use crate::invariants;
use crate::oracle;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use wire::{LinkType, Marks, parse};

#[test]
fn every_packet_reads_as_etherparse_reads_it() {
    let Some(frames) = capture() else { return };
    let mut exempt = BTreeMap::<&str, usize>::new();
    let mut malformed = BTreeMap::<&str, usize>::new();
    for (index, frame) in frames.iter().enumerate() {
        // etherparse knows no snap length: it gets zeros for what was cut off.
        let mut whole = frame.bytes.clone();
        whole.resize(frame.bytes.len().max(frame.wire_len as usize), 0);
        match oracle::compare(LinkType::Ethernet, &whole) {
            Ok(None) => {}
            Ok(Some(reason)) => *exempt.entry(reason).or_default() += 1,
            Err(difference) => panic!("packet {}: {difference}", index + 1),
        }
        let headers =
            invariants::check_snapped(LinkType::Ethernet, &whole, frame.bytes.len(), frame.wire_len);
        if let Some(reason) = headers.malformed() {
            *malformed.entry(reason.name()).or_default() += 1;
        }
    }
    println!("{} packets; exempt: {exempt:?}; malformed: {malformed:?}", frames.len());
    // An oracle that is excused too often shows nothing.
    assert!(exempt.values().sum::<usize>() * 1_000 < frames.len());
}

#[test]
fn headers_that_the_snap_length_leaves_whole_read_the_same() {
    let Some(frames) = capture() else { return };
    let mut truncated = 0;
    for frame in &frames {
        for snap_len in [96, 54, 34] {
            let captured = frame.bytes.len().min(snap_len);
            let headers =
                invariants::check_snapped(LinkType::Ethernet, &frame.bytes, captured, frame.wire_len);
            truncated += usize::from(!headers.is_well_formed());
        }
    }
    println!("{truncated} of {} cuts went through a header", frames.len() * 3);
    assert!(truncated > frames.len() / 2, "34 bytes hold no TCP header");
}

#[test]
fn every_packet_can_be_edited() {
    let Some(frames) = capture() else { return };
    let mut plan = [0; invariants::PLAN_LEN];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut ip = 0;
    for frame in &frames {
        for byte in &mut plan {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *byte = random as u8;
        }
        let headers = parse(LinkType::Ethernet, &frame.bytes, frame.wire_len);
        ip += usize::from(headers.marks.intersects(Marks::IPV4 | Marks::IPV6));
        let edits = invariants::edits_of(&plan, headers.marks.contains(Marks::IPV4));
        invariants::check_edits(&edits, LinkType::Ethernet, &frame.bytes, frame.wire_len, (8, 0));
    }
    assert!(ip > frames.len() * 9 / 10);
}

struct Frame {
    /// What was captured.
    bytes: Vec<u8>,
    wire_len: u32,
}

/// The frames of the capture that lies beside the project, if it does.
fn capture() -> Option<Vec<Frame>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures/apps-mix.pcap.gz");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: {} absent", path.display());
        return None;
    };
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a gzip file");
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "a little-endian nanosecond pcap");
    // 16 bytes before each packet: seconds, nanoseconds, captured length, length on the wire.
    let mut frames = Vec::new();
    let mut rest = &bytes[24..];
    while let Some((record, following)) = rest.split_first_chunk::<16>() {
        let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        let (frame, following) = following.split_at(number(8) as usize);
        frames.push(Frame { bytes: frame.to_vec(), wire_len: number(12) });
        rest = following;
    }
    Some(frames)
}
