//! Cut and damaged captures: whole packets first, then an error that says where; never a panic.

use paceline_io::capture::CaptureError;
use proptest::prelude::*;

use crate::packed::{gzip, zstd};
use crate::{read_bytes, samples};

#[test]
fn a_capture_cut_anywhere_gives_its_whole_packets_and_then_says_where_it_is_cut() {
    for sample in samples::all() {
        for cut in 4..=sample.bytes.len() {
            let (records, error) = read_bytes(&sample.bytes[..cut]);
            let border = sample.borders.iter().rev().find(|(end, _)| *end <= cut);
            let (start, whole) = *border.unwrap_or(&(0, 0));
            assert_eq!(records, sample.records[..whole], "{} cut at {cut}", sample.name);

            if start == cut {
                assert!(error.is_none(), "{} cut at the border {cut}: {error:?}", sample.name);
                continue;
            }
            let Some(CaptureError::Truncated { at, needed, present, records, .. }) = error else {
                panic!("{} cut at {cut}: {error:?}", sample.name)
            };
            assert_eq!((at.offset, at.unpacked), (start as u64, false), "{} cut at {cut}", sample.name);
            assert_eq!((present, records), ((cut - start) as u64, whole as u64));
            assert!(needed > present && start + needed as usize <= sample.bytes.len());
        }
    }
}

#[test]
fn a_capture_cut_within_its_first_four_bytes_is_none() {
    for sample in samples::all() {
        assert!(matches!(read_bytes(&[]).1, Some(CaptureError::Empty { .. })));
        for cut in 1..4 {
            let error = read_bytes(&sample.bytes[..cut]).1;
            assert!(matches!(error, Some(CaptureError::NotACapture { .. })), "{error:?}");
        }
    }
}

#[test]
fn a_packed_capture_cut_anywhere_gives_whole_packets_and_always_an_error() {
    for sample in samples::all() {
        for packed in [gzip(&sample.bytes), zstd(&sample.bytes)] {
            for cut in 1..packed.len() {
                let (records, error) = read_bytes(&packed[..cut]);
                assert!(error.is_some(), "{} cut at {cut}", sample.name);
                assert!(sample.records.starts_with(&records));
            }
        }
    }
}

/// Every value of every byte of every sample.
#[test]
fn one_damaged_byte_never_panics() {
    for sample in samples::all() {
        for at in 0..sample.bytes.len() {
            for value in 0..=255 {
                let mut bytes = sample.bytes.clone();
                bytes[at] = value;
                let (records, error) = read_bytes(&bytes);
                assert!(records.len() <= bytes.len());
                check_places(error, bytes.len());
            }
        }
    }
}

/// An error never names a place outside the capture.
fn check_places(error: Option<CaptureError>, len: usize) {
    match error {
        Some(CaptureError::Truncated { at, needed, present, .. }) => {
            assert_eq!(at.offset + present, len as u64);
            assert!(needed > present);
        }
        Some(CaptureError::Corrupt { at, .. } | CaptureError::LinkType { at, .. }) => {
            assert!(at.offset < len as u64);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damage_never_panics(
        which in 0..4_usize,
        packing in 0..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let [a, b, c, d] = samples::all();
        let mut bytes = [a.bytes, b.bytes, c.bytes, d.bytes][which].clone();
        bytes = match packing {
            0 => bytes,
            1 => gzip(&bytes),
            _ => zstd(&bytes),
        };
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend(tail);
        let (_, error) = read_bytes(&bytes);
        if packing == 0 {
            check_places(error, bytes.len());
        }
    }

    #[test]
    fn noise_after_a_file_header_never_panics(
        which in 0..4_usize,
        noise in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(6), Just(28), any::<u8>()], 0..400),
    ) {
        let [a, b, c, d] = samples::all();
        let sample = &[a, b, c, d][which];
        let mut bytes = sample.bytes[..sample.borders[1].0].to_vec();
        bytes.extend(noise);
        let len = bytes.len();
        check_places(read_bytes(&bytes).1, len);
    }
}
