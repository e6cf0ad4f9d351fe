//! Reads chain files and captures, and says what is wrong with them.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use engine::{Chain, Oddities, Registry};
use io::Trace;
use io::capture::{CaptureError, CaptureReader};

use crate::failure::Failure;
use crate::progress::go_on;

/// Reads a chain file, whose functions are those of `registry`.
pub fn read_chain(path: &Path, registry: &Registry) -> Result<Chain, Failure> {
    let name = path.display().to_string();
    if is_capture(path) {
        return Err(Failure::usage(format!(
            "{name} is a capture, and a chain was expected, which is a TOML file\n\
             Name the chain first, and the capture with --pcap: `CHAIN.toml --pcap {name}`."
        )));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the chain file {name}: {error}")))?;
    Chain::parse(&name, &text, registry).map_err(|error| Failure::mistake(*error))
}

/// Whether a file begins as a capture does, whole or not. A pipe is left alone: it can be read but once.
pub fn is_capture(path: &Path) -> bool {
    use CaptureError::{Directory, Empty, NotACapture, Open, Read};
    path.is_file()
        && !matches!(
            CaptureReader::open(path),
            Err(Open { .. } | Directory { .. } | Empty { .. } | NotACapture { .. } | Read { .. })
        )
}

/// Reads a whole capture into memory, and says on standard error what of it is odd. Ends where `stop` is set.
pub fn read_trace(path: &Path, stop: &AtomicBool) -> Result<Trace, Failure> {
    let mut reader = open_capture(path)?;
    let mut trace = Trace::default();
    while let Some(record) = reader.next().map_err(Failure::capture)? {
        go_on(stop)?;
        trace.push(&record);
    }
    tell_remarks(&reader);
    if trace.is_empty() {
        return Err(Failure::usage(format!("{} has no packets", path.display())));
    }
    Ok(trace)
}

/// Says on standard error what a reader skipped or could not take as it was, for commands whose reports do not.
pub fn tell_remarks(reader: &CaptureReader) {
    let oddities = Oddities { remarks: reader.remarks(), has_ip: true, ..Oddities::default() };
    oddities.sentences().iter().for_each(|oddity| eprintln!("note: {oddity}"));
}

/// Opens the capture.
pub fn open_capture(path: &Path) -> Result<CaptureReader, Failure> {
    check_capture(path)?;
    CaptureReader::open(path).map_err(Failure::usage)
}

/// Checks that what is to be read as a capture is no chain.
pub fn check_capture(path: &Path) -> Result<(), Failure> {
    let name = path.display();
    match is_chain(path) {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "{name} is a chain file, and a capture was expected\n\
             Name the chain first, and the capture with --pcap: `{name} --pcap IN.pcap`."
        ))),
    }
}

/// Whether a file is text in which a function begins as in a chain. Looks at its first kilobytes.
fn is_chain(path: &Path) -> bool {
    const LOOKED_AT_BYTES: u64 = 1 << 14;
    let mut begin = Vec::new();
    path.is_file()
        && fs::File::open(path).is_ok_and(|file| file.take(LOOKED_AT_BYTES).read_to_end(&mut begin).is_ok())
        && String::from_utf8_lossy(&begin).lines().any(|line| line.trim() == "[[function]]")
}
