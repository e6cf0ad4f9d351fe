//! gzip and zstd, whatever the file's name.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_io::capture::{CaptureError, CaptureReader};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{hex, read_all, read_bytes, samples};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn every_sample_is_read_when_packed() {
    for sample in samples::all() {
        for packed in [gzip(&sample.bytes), zstd(&sample.bytes)] {
            let (records, error) = read_bytes(&packed);
            assert!(error.is_none(), "{}: {error:?}", sample.name);
            assert_eq!(records, sample.records, "{}", sample.name);
        }
    }
}

#[test]
fn members_and_frames_follow_each_other_and_skippable_frames_are_skipped() {
    for sample in samples::all() {
        let (first, second) = sample.bytes.split_at(30);
        let skippable = hex("5f2a4d18 03000000 616263");
        for packed in [
            [gzip(first), gzip(b""), gzip(second)].concat(),
            [zstd(first), zstd(second)].concat(),
            [skippable.clone(), zstd(first), skippable.clone(), zstd(second), skippable.clone()].concat(),
        ] {
            let (records, error) = read_bytes(&packed);
            assert!(error.is_none(), "{}: {error:?}", sample.name);
            assert_eq!(records, sample.records, "{}", sample.name);
        }
    }
}

/// Written by the zstd program, with a checksum of the content.
#[test]
fn checksums_of_zstd_frames_are_checked() {
    let golden = hex(ZSTD_SAMPLE);
    let sample = samples::pcap_micro_little();
    let (records, error) = read_bytes(&golden);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records, sample.records);

    let mut damaged = golden;
    *damaged.last_mut().unwrap() ^= 1;
    let (records, error) = read_bytes(&damaged);
    assert_eq!(records, sample.records);
    let error = error.unwrap().to_string();
    assert!(error.contains("zstd data is damaged or cut short: the checksum of a frame"), "{error}");
    assert!(error.contains("past byte 79 of the unpacked capture"), "{error}");
}

const ZSTD_SAMPLE: &str =
    "28b52ffd 04688d01 00224309 11e02d07 3ae4718d eb0094c0 6296afec 9d022280 03919cf2 f0da4a37
    1f0f0707 c73120c5 5c0300af 1102e46d 800be752 4862";

/// Packets of noise, so that the packed data has several blocks.
fn noise() -> (Vec<u8>, usize) {
    let mut bytes = samples::pcap_micro_little().bytes[..24].to_vec();
    let packets = 4_000;
    let mut random = 1_u64;
    for _ in 0..packets {
        bytes.extend([0; 8]);
        bytes.extend([200, 0, 0, 0, 200, 0, 0, 0]);
        bytes.extend((0..200).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        }));
    }
    (bytes, packets)
}

/// Nothing whole is lost: not even what a decoder holds back for later references.
#[test]
fn all_that_can_be_unpacked_from_a_cut_file_is_given_out() {
    let (plain, packets) = noise();
    for (packed, block) in [(gzip(&plain), 0), (zstd(&plain), 128 * 1024)] {
        for tenths in 1..10 {
            let (records, error) = read_bytes(&packed[..packed.len() * tenths / 10]);
            let Some(CaptureError::Read { at, records: counted, .. }) = error else { panic!("{error:?}") };
            assert!(at.unpacked);
            assert_eq!(counted, records.len() as u64);
            // Noise does not shrink, so a share of the packed file is a share of the packets.
            let expected = (packets * tenths / 10).saturating_sub(block / 216 + 200);
            assert!(records.len() >= expected, "{} of {expected}", records.len());
        }
    }
}

#[test]
fn progress_is_that_in_the_file_also_when_it_is_packed() {
    let (plain, _) = noise();
    for file in [plain.clone(), gzip(&plain), zstd(&plain)] {
        let mut reader = CaptureReader::from_bytes(file.clone()).unwrap();
        assert_eq!(reader.size_bytes(), Some(file.len() as u64));
        let mut last = reader.position_bytes();
        while reader.next().unwrap().is_some() {
            assert!(reader.position_bytes() >= last);
            last = reader.position_bytes();
            assert!(last <= file.len() as u64);
        }
        assert_eq!(reader.position_bytes(), file.len() as u64);
    }
}

/// A source that gives one byte at a time, and is interrupted in between.
struct Drip(std::io::Cursor<Vec<u8>>, bool);

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let len = into.len().min(1);
        self.0.read(&mut into[..len])
    }
}

#[test]
fn a_slow_pipe_is_read_like_a_file() {
    for sample in samples::all() {
        for bytes in [sample.bytes.clone(), gzip(&sample.bytes), zstd(&sample.bytes)] {
            let source = Drip(std::io::Cursor::new(bytes), false);
            let (records, error) = read_all(CaptureReader::from_reader(source));
            assert!(error.is_none(), "{}: {error:?}", sample.name);
            assert_eq!(records, sample.records);
        }
    }
}

#[test]
fn a_zstd_window_beyond_the_bound_is_refused() {
    // A frame header that asks for a window of 256 MiB, and one that asks for one segment of 4 GiB.
    for header in ["28b52ffd 00 90 010000", "28b52ffd a0 ffffffff 010000"] {
        let error = read_bytes(&hex(header)).1.unwrap().to_string();
        assert!(error.contains("zstd data is damaged") && error.to_lowercase().contains("window"), "{error}");
    }
}

#[test]
fn a_packed_file_of_nothing_is_empty() {
    for packed in [gzip(b""), zstd(b"")] {
        assert!(matches!(read_bytes(&packed).1, Some(CaptureError::Empty { .. })));
    }
}
