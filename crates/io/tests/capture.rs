//! Captures are read and written exactly, and no file, however cut or damaged, loses a whole packet
//! in silence, or makes the reader panic, hang or take memory without bound.

#[path = "capture/commented.rs"]
mod commented;
#[path = "capture/cut.rs"]
mod cut;
#[path = "capture/golden.rs"]
mod golden;
#[path = "capture/mistakes.rs"]
mod mistakes;
#[path = "capture/packed.rs"]
mod packed;
#[path = "capture/places.rs"]
mod places;
#[path = "capture/real.rs"]
mod real;
#[path = "capture/samples.rs"]
mod samples;
#[path = "capture/writer.rs"]
mod writer;

use paceline_io::capture::{CaptureError, CaptureReader};
use wire::LinkType;

/// A record that outlives its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    time_ns: u64,
    wire_len: u32,
    link: LinkType,
    data: Vec<u8>,
}

/// All records up to the end or the first error. Checks that nothing follows either.
fn read_all(reader: Result<CaptureReader, CaptureError>) -> (Vec<Owned>, Option<CaptureError>) {
    let mut records = Vec::new();
    let mut reader = match reader {
        Ok(reader) => reader.as_written(),
        Err(error) => return (records, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                let (time_ns, wire_len, link, data) =
                    (record.time_ns, record.wire_len, record.link, record.data.to_vec());
                assert!(wire_len as usize >= data.len());
                records.push(Owned { time_ns, wire_len, link, data });
            }
            end => {
                let error = end.err();
                assert!(matches!(reader.next(), Ok(None)), "after the end comes nothing");
                return (records, error);
            }
        }
    }
}

fn read_bytes(bytes: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    read_all(CaptureReader::from_bytes(bytes))
}

/// Bytes written as hex digits; whitespace is for the reader, and so is what follows `;` on a line.
fn hex(text: &str) -> Vec<u8> {
    let digits: String =
        text.lines().flat_map(|line| line.split(';').next()).flat_map(str::split_whitespace).collect();
    assert!(digits.len().is_multiple_of(2));
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}
