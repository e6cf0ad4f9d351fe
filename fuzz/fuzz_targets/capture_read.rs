//! Any bytes as a capture: no panic, no endless loop, memory within the reader's bounds.
//!
//! Seeds are the samples of crates/io/tests/capture, plain and packed: `./x fuzz` has a test write them to fuzz/corpus.
#![no_main]

use io::capture::{CaptureReader, MAX_PACKET_BYTES};
use libfuzzer_sys::fuzz_target;

/// A few packed bytes may stand for gigabytes of empty records. That is not what is looked for.
const MAX_RECORDS: usize = 100_000;

fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = CaptureReader::from_bytes(file) else { return };
    for _ in 0..MAX_RECORDS {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(record.data.len() <= MAX_PACKET_BYTES);
                assert!(record.wire_len as usize >= record.data.len());
            }
            end => {
                if let Err(error) = end {
                    assert!(!error.to_string().is_empty());
                }
                assert!(matches!(reader.next(), Ok(None)), "after the end comes nothing");
                assert!(reader.position_bytes() <= file.len() as u64);
                return;
            }
        }
    }
});
