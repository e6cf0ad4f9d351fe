//! The errors of reading and writing captures.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::link_names;

/// Why a capture could not be read or written, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file is missing, or may not be read.
    #[error("cannot open {}: {source}; check the name and its permissions", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory where a file was expected.
    #[error("{} is a directory; name a capture file", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// Not one byte.
    #[error("{} is empty; the program that recorded it wrote nothing, so record it again", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Neither pcap nor pcapng.
    #[error(
        "{} is not a capture: {found}; Paceline reads pcap and pcapng, plain or packed with gzip or zstd \
         (`editcap -F pcapng IN OUT` converts other captures)",
        path.display()
    )]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// What its first bytes look like.
        found: String,
    },
    /// A capture, in a version or dialect that is not read.
    #[error("{} is {found}, which Paceline does not read; convert it with `editcap -F pcapng IN OUT`", path.display())]
    Dialect {
        /// The file.
        path: PathBuf,
        /// The version or dialect.
        found: String,
    },
    /// Packets of a link type that cannot be parsed.
    #[error(
        "{}: link type {number} ({}) at {at} is not supported; supported are {}; record or convert to one of these",
        path.display(), link_names::of(*number), link_names::SUPPORTED
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Where the first packet of that type, or the pcap header that announces it, begins.
        at: At,
        /// The number in the pcap link-type registry.
        number: u32,
    },
    /// An interface of the capture was asked for by a name or number that none has, before the first packet.
    #[error(
        "{}: no interface is called or numbered `{wanted}`; {known}",
        path.display(), known = interfaces(wanted, known)
    )]
    Interface {
        /// The file.
        path: PathBuf,
        /// The name or number.
        wanted: String,
        /// Those of the interfaces that there are, with commas between; empty if there are none.
        known: String,
    },
    /// The capture ends inside a record. All records before it were returned.
    #[error(
        "{} is cut short: {item} at {at} needs {needed} bytes and {present} are there; \
         {}, copy the file again for the rest",
        path.display(), before(*records, ["is", "are"], "whole")
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the cut record begins.
        at: At,
        /// What is cut.
        item: &'static str,
        /// Bytes needed, from `at`.
        needed: u64,
        /// Bytes present, from `at`.
        present: u64,
        /// Packets returned before.
        records: u64,
    },
    /// Bytes that the format forbids. All records before them were returned.
    #[error(
        "{} is damaged at {at}: expected {expected}, found {found}; \
         {}, copy or record the file again for the rest",
        path.display(), before(*records, ["was", "were"], "read")
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the field in question begins.
        at: At,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
        /// Packets returned before.
        records: u64,
    },
    /// The bytes could not be read, or the gzip or zstd data is damaged or cut short.
    #[error(
        "cannot read {} past {at}: {source}; {}, copy the file again for the rest",
        path.display(), before(*records, ["was", "were"], "read")
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// How far the capture could be read.
        at: At,
        /// Packets returned before.
        records: u64,
        /// What the system or the unpacker said.
        source: io::Error,
    },
    /// The output could not be created, written or renamed. What was there before is untouched.
    #[error("cannot {action} {}: {source}; {remedy}", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// What failed.
        action: &'static str,
        /// What to do, and where the packets written so far are.
        remedy: String,
        /// What the system said.
        source: io::Error,
    },
    /// A packet that no reader would accept. Nothing was written.
    #[error(
        "cannot write a packet of {len} bytes to {}: a capture holds at most {} bytes a packet; cut it to that",
        path.display(), super::MAX_PACKET_BYTES
    )]
    TooLong {
        /// The output.
        path: PathBuf,
        /// The packet's length in bytes.
        len: usize,
    },
}

impl CaptureError {
    /// How many whole packets were read before the error; 0 if it is not one of reading packets.
    pub fn whole_packets(&self) -> u64 {
        match self {
            CaptureError::Truncated { records, .. }
            | CaptureError::Corrupt { records, .. }
            | CaptureError::Read { records, .. } => *records,
            _ => 0,
        }
    }
}

/// What the packets before a place are.
fn before(records: u64, [is, are]: [&str; 2], what: &str) -> String {
    match records {
        0 => format!("no packet before it {is} {what}"),
        1 => format!("the packet before it {is} {what}"),
        _ => format!("the {records} packets before it {are} {what}"),
    }
}

/// Which interfaces a capture has, and what to do where it has none.
fn interfaces(wanted: &str, known: &str) -> String {
    let near = names::nearest(wanted, known.split(", "));
    let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    match known {
        "" => "a pcap file does not say by which interface packets came: give a pcapng file (`dumpcap -i IF -i IF`), or \
               leave the option out, and sides go by source addresses"
            .to_owned(),
        known => format!("{near}there are {known}; name one of these"),
    }
}

/// A place in a capture. Shown as `byte 24`, or `byte 24 of the unpacked capture`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Bytes from the start of the capture, after unpacking.
    pub offset: u64,
    /// Whether the file is packed, so that its own offsets differ.
    pub unpacked: bool,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}{}", self.offset, if self.unpacked { " of the unpacked capture" } else { "" })
    }
}

/// What a format reader reports; [`CaptureReader`](super::CaptureReader) adds the file.
pub(super) enum Fault {
    Truncated { offset: u64, item: &'static str, needed: u64, present: u64 },
    Corrupt { offset: u64, expected: String, found: String },
    LinkType { offset: u64, number: u32 },
    Dialect(String),
    Interface { wanted: String, known: String },
    Input(io::Error),
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Fault {
        Fault::Input(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_before_a_place_are_told_by_how_many_they_are() {
        let were = |records| before(records, ["was", "were"], "read");
        assert_eq!(were(0), "no packet before it was read");
        assert_eq!(were(1), "the packet before it was read");
        assert_eq!(were(2), "the 2 packets before it were read");
    }
}
