//! Reads chain files and captures, and says what is wrong with them.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ::io::Trace;
use ::io::capture::{CaptureError, CaptureReader};
use engine::{Chain, Oddities, Registry};

use crate::explain::Code;
use crate::failure::Failure;
use crate::meant;
use crate::progress::go_on;

/// Reads a chain file, whose functions are those of `registry`.
pub fn read_chain(path: &Path, registry: &Registry) -> Result<Chain, Failure> {
    let name = path.display().to_string();
    if is_capture(path) {
        return Err(Failure::usage(format!(
            "{name} is a capture, and a chain was expected, which is a TOML file\n\
             Name the chain first, and the capture with --pcap: `CHAIN.toml --pcap {name}`."
        ))
        .coded(Code::WrongFile));
    }
    if path.extension().is_some_and(|extension| extension == "p4") {
        return Err(Failure::usage(format!(
            "{name} is a P4 program, and a chain was expected, which is a TOML file\n\
             Over a capture: `paceline p4 run {name} --pcap CAPTURE`; on interfaces, in the kernel: `paceline run {name} --backend xdp`."
        ))
        .coded(Code::WrongFile));
    }
    let text = read_text("the chain file", path)?;
    Chain::parse(&name, &text, registry).map_err(|error| Failure::mistake(*error))
}

/// The most bytes of a file that people write, a set of a million addresses among it: more is another one, or a device without
/// an end.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Reads a file that people write; errors call it `what`.
pub fn read_text(what: &str, path: &Path) -> Result<String, Failure> {
    text_of(what, path, fs::File::open(path))
}

/// As [`read_text`]; `-` is standard input.
pub fn read_text_or_stdin(what: &str, path: &Path) -> Result<String, Failure> {
    if path == "-" { text_of(what, path, Ok(io::stdin())) } else { read_text(what, path) }
}

fn text_of(what: &str, path: &Path, file: io::Result<impl Read>) -> Result<String, Failure> {
    let name = name_of_input(path);
    let mut bytes = Vec::new();
    let read = file.and_then(|file| file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let tip = if path.is_dir() { "\nName a file in it.".to_owned() } else { meant::tip(path) };
        Failure::usage(format!("cannot read {what} {name}: {error}{tip}")).coded(Code::CannotRead)
    })?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        let most = MAX_TEXT_BYTES >> 20;
        return Err(Failure::usage(format!("{what} {name} has more than {most} MiB\nIs it another file?"))
            .coded(Code::WrongFile));
    }
    String::from_utf8(bytes).map_err(|error| {
        let whole = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = whole.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::usage(format!("{what} {name} is not UTF-8: line {line} has other bytes\nSave it as UTF-8."))
            .coded(Code::WrongFile)
    })
}

/// What an input is called.
pub fn name_of_input(path: &Path) -> String {
    if path == "-" { "standard input".to_owned() } else { path.display().to_string() }
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

/// Reads a whole capture into memory, and says on standard error what is odd about it. Ends where `stop` is set.
pub fn read_trace(path: &Path, stop: &AtomicBool) -> Result<Trace, Failure> {
    let mut reader = open_capture(path)?;
    let mut trace = Trace::default();
    while let Some(record) = reader.next().map_err(Failure::capture)? {
        go_on(stop)?;
        trace.push(&record);
    }
    tell_remarks(&reader);
    if trace.is_empty() {
        return Err(Failure::nothing_found(format!("{} has no packets", path.display())));
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
    CaptureReader::open(path).map_err(Failure::capture)
}

/// Checks that what is to be read as a capture is there, and is no chain.
pub fn check_capture(path: &Path) -> Result<(), Failure> {
    if path != "-"
        && let Err(source) = fs::metadata(path)
    {
        return Err(Failure::capture(CaptureError::Open { path: path.into(), source }));
    }
    let name = path.display();
    match is_chain(path) {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "{name} is a chain file, and a capture was expected\n\
             Name the chain first, and the capture with --pcap: `{name} --pcap IN.pcap`."
        ))
        .coded(Code::WrongFile)),
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
