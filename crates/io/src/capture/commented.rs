//! Packets with comments: a pcapng, which Wireshark and tshark show comments of.
//!
//! ```text
//!  section header      0a0d0d0a  len  1a2b3c4d  1.0  length unknown  len
//!  interface           1  len  u16 link type, 0  longest  | name 2 | resolution 9: 10^-9 s | end |  len
//!  enhanced packet     6  len  interface  time high, low  captured  on the wire  bytes, padded  | comment 1 | end |  len
//! ```
//! An option is a u16 code, a u16 length, and bytes padded to a multiple of 4 (draft-ietf-opsawg-pcapng).

use std::path::Path;

use wire::LinkType;

use super::error::CaptureError;
use super::writer::CaptureWriter;
use super::{MAX_PACKET_BYTES, pcapng};

/// The most bytes of a comment, and of an interface's name: longer ones are cut.
const TEXT_MAX: usize = 1_000;

const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
/// Ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;

/// Writes a pcapng in which each packet has a comment. Files are treated as those of [`CaptureWriter`].
pub struct CommentedWriter {
    writer: CaptureWriter,
    path: std::path::PathBuf,
    /// By number: name and link type.
    interfaces: Vec<(String, LinkType)>,
}

impl CommentedWriter {
    /// Creates a capture. `-` is standard output.
    ///
    /// # Errors
    /// As [`CaptureWriter::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<CommentedWriter, CaptureError> {
        let mut section = Vec::new();
        section.extend_from_slice(&pcapng::BYTE_ORDER_MAGIC.to_le_bytes());
        section.extend_from_slice(&1_u16.to_le_bytes());
        section.extend_from_slice(&0_u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        let path = path.as_ref();
        let writer = CaptureWriter::begin(path, &block(pcapng::SECTION_HEADER, &section))?;
        Ok(CommentedWriter { writer, path: path.into(), interfaces: Vec::new() })
    }

    /// Describes an interface ahead of all packets, also if none comes by it.
    ///
    /// # Errors
    /// As [`CaptureWriter::write`].
    pub fn describe(&mut self, interface: &str, link: LinkType) -> Result<(), CaptureError> {
        self.interface(interface, link).map(|_| ())
    }

    /// Adds a packet that came in by `interface`, which may be empty: when, in nanoseconds since 1970, its length on the
    /// wire, the bytes captured, and what there is to say of it.
    ///
    /// # Errors
    /// As [`CaptureWriter::write`].
    pub fn write(
        &mut self,
        (interface, link): (&str, LinkType),
        time_ns: u64,
        wire_len: u32,
        data: &[u8],
        comment: &str,
    ) -> Result<(), CaptureError> {
        if data.len() > MAX_PACKET_BYTES {
            return Err(CaptureError::TooLong { path: self.path.clone(), len: data.len() });
        }
        let number = self.interface(interface, link)?;
        let captured = data.len() as u32;
        let fields = [number, (time_ns >> 32) as u32, time_ns as u32, captured, wire_len.max(captured)];
        let mut body: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        body.extend_from_slice(data);
        pad(&mut body);
        if !comment.is_empty() {
            option(&mut body, OPTION_COMMENT, cut(comment).as_bytes());
        }
        option(&mut body, 0, &[]);
        self.writer.append(&[&block(pcapng::ENHANCED_PACKET, &body)])
    }

    /// As [`CaptureWriter::partial`].
    pub fn partial(&self) -> Option<&Path> {
        self.writer.partial()
    }

    /// Writes out all packets added so far.
    ///
    /// # Errors
    /// As [`CaptureWriter::flush`].
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.writer.flush()
    }

    /// Writes out the rest and gives the output its name.
    ///
    /// # Errors
    /// As [`CaptureWriter::finish`].
    pub fn finish(self) -> Result<(), CaptureError> {
        self.writer.finish()
    }

    /// The interface's number; describes it ahead of its first packet.
    fn interface(&mut self, name: &str, link: LinkType) -> Result<u32, CaptureError> {
        let known =
            self.interfaces.iter().position(|(of, its_link)| (of.as_str(), *its_link) == (name, link));
        if let Some(number) = known {
            return Ok(number as u32);
        }
        let mut body = Vec::new();
        body.extend_from_slice(&(link.to_pcap() as u16).to_le_bytes());
        body.extend_from_slice(&0_u16.to_le_bytes());
        body.extend_from_slice(&(MAX_PACKET_BYTES as u32).to_le_bytes());
        if !name.is_empty() {
            option(&mut body, OPTION_NAME, cut(name).as_bytes());
        }
        option(&mut body, OPTION_RESOLUTION, &[NANOSECONDS]);
        option(&mut body, 0, &[]);
        self.writer.append(&[&block(pcapng::INTERFACE, &body)])?;
        self.interfaces.push((name.to_owned(), link));
        Ok((self.interfaces.len() - 1) as u32)
    }
}

/// As much of a text as is written.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

/// A block around a body whose length is a multiple of 4.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 12) as u32;
    let (kind, len) = (kind.to_le_bytes(), len.to_le_bytes());
    [&kind, &len, body, &len].concat()
}
