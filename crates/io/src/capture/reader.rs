use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{At, CaptureError, Fault};
use super::packing::Input;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::record::{Packet, Record};
use super::window::Window;
use crate::Trace;

/// Reads a pcap or pcapng capture, packet by packet, in file order.
///
/// gzip and zstd are unpacked on the way, whatever the file's name. After `open`, memory is
/// bounded, and nothing is allocated unless a packet is longer than all before, or packets are looked at ahead.
pub struct CaptureReader {
    path: PathBuf,
    window: Window,
    format: Format,
    size_bytes: Option<u64>,
    records: u64,
    failed: bool,
    ahead: Box<Ahead>,
}

/// Packets that were read before they were asked for.
#[derive(Default)]
struct Ahead {
    packets: Trace,
    /// How many of them were asked for since.
    taken: usize,
    /// What came after them.
    error: Option<CaptureError>,
}

/// What a reader came across and read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Packets that were skipped, by the number of their link type in the pcap registry: pcapng files may have
    /// interfaces of several, and not all are supported.
    pub skipped: BTreeMap<u32, u64>,
    /// Packets whose time stamp lies past the year 2554, where 64 bits of nanoseconds end. They count as of then.
    pub too_late: u64,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Box<Pcapng>),
}

impl CaptureReader {
    /// Opens a capture file, or standard input if `path` is `-`. Pipes are read as they fill.
    ///
    /// # Errors
    /// The file cannot be opened, is no capture, or its header is cut, damaged or of an
    /// unsupported link type.
    pub fn open(path: impl AsRef<Path>) -> Result<CaptureReader, CaptureError> {
        let path = path.as_ref();
        if path == "-" {
            return CaptureReader::start("standard input".into(), None, Box::new(io::stdin()));
        }
        let failed = |source| CaptureError::Open { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(CaptureError::Directory { path: path.into() });
        }
        let size_bytes = metadata.is_file().then_some(metadata.len());
        CaptureReader::start(path.into(), size_bytes, Box::new(file))
    }

    /// Reads a capture held in memory.
    ///
    /// # Errors
    /// As [`open`](CaptureReader::open), without those of opening.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<CaptureReader, CaptureError> {
        let bytes = bytes.into();
        let size_bytes = bytes.len() as u64;
        CaptureReader::start("capture in memory".into(), Some(size_bytes), Box::new(Cursor::new(bytes)))
    }

    /// Reads a capture from any source of bytes, front to back.
    ///
    /// # Errors
    /// As [`open`](CaptureReader::open), without those of opening.
    pub fn from_reader(source: impl Read + Send + 'static) -> Result<CaptureReader, CaptureError> {
        CaptureReader::start("capture stream".into(), None, Box::new(source))
    }

    /// The next packet; `None` at the end of the capture, and after an error.
    ///
    /// # Errors
    /// The capture is cut or damaged here, or all of its packets are of unsupported link types. Every whole
    /// packet before was returned; those of an unsupported link type among others are skipped, see
    /// [`remarks`](CaptureReader::remarks). In a packed file damage may show only some way behind it: gzip
    /// and zstd keep their checksums at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "a record borrows the reader, an iterator's item cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ahead.taken < self.ahead.packets.len() {
            self.ahead.taken += 1;
            return Ok(Some(self.ahead.packets.packet(self.ahead.taken - 1)));
        }
        if let Some(error) = self.ahead.error.take() {
            return Err(error);
        }
        if !self.ahead.packets.is_empty() {
            *self.ahead = Ahead::default();
        }
        self.read()
    }

    /// Looks at packets ahead of [`next`](CaptureReader::next), which gives them all the same: at most so many packets,
    /// and bytes of them in memory. Waits for them where they come from a pipe.
    pub fn look_ahead(&mut self, packets: usize, bytes: usize, see: &mut dyn FnMut(&Record<'_>)) {
        let mut ahead = std::mem::take(&mut self.ahead);
        let (mut seen, mut seen_bytes) = (0, 0);
        while seen < packets && seen_bytes < bytes {
            let at = ahead.taken + seen;
            if at == ahead.packets.len() {
                match self.read() {
                    _ if ahead.error.is_some() => break,
                    Ok(Some(record)) => ahead.packets.push(&record),
                    Ok(None) => break,
                    Err(error) => {
                        ahead.error = Some(error);
                        break;
                    }
                }
            }
            let record = ahead.packets.packet(at);
            see(&record);
            (seen, seen_bytes) = (seen + 1, seen_bytes + record.data.len());
        }
        self.ahead = ahead;
    }

    fn read(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.failed {
            return Ok(None);
        }
        let packet = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window),
        };
        match packet {
            Ok(None) => self.end(),
            Ok(Some(Packet { time_ns, wire_len, link, data })) => {
                self.records += 1;
                Ok(Some(Record { time_ns, wire_len, link, data: self.window.bytes(data) }))
            }
            Err(fault) => {
                self.failed = true;
                Err(name(fault, &self.path, &self.window, self.records))
            }
        }
    }

    /// The end of the capture, which is an error if all that is in it was skipped.
    fn end(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        let skipped = match &self.format {
            Format::Pcapng(pcapng) if self.records == 0 => pcapng.first_skipped,
            _ => None,
        };
        let Some((offset, number)) = skipped else { return Ok(None) };
        self.failed = true;
        Err(name(Fault::LinkType { offset, number }, &self.path, &self.window, 0))
    }

    /// What was skipped or had to be bent so far.
    pub fn remarks(&self) -> Remarks {
        match &self.format {
            Format::Pcap(_) => Remarks::default(),
            Format::Pcapng(pcapng) => Remarks { skipped: pcapng.skipped.clone(), too_late: pcapng.too_late },
        }
    }

    /// How far the file has been read, in bytes on disk, also for a packed file.
    pub fn position_bytes(&self) -> u64 {
        self.window.file_offset()
    }

    /// The file's size in bytes on disk; `None` for a pipe or stream.
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    fn start(
        path: PathBuf,
        size_bytes: Option<u64>,
        source: Box<dyn Read + Send>,
    ) -> Result<CaptureReader, CaptureError> {
        let input = Input::new(source).map_err(|source| CaptureError::Open { path: path.clone(), source })?;
        let mut window = Window::new(input);
        match recognise(&mut window) {
            Ok(Ok(format)) => Ok(CaptureReader {
                path,
                window,
                format,
                size_bytes,
                records: 0,
                failed: false,
                ahead: Box::default(),
            }),
            Ok(Err(found)) if found.is_empty() => Err(CaptureError::Empty { path }),
            Ok(Err(found)) => Err(CaptureError::NotACapture { path, found: describe(&found) }),
            Err(fault) => Err(name(fault, &path, &window, 0)),
        }
    }
}

/// The capture's format, or the first bytes of what is none.
fn recognise(window: &mut Window) -> Result<Result<Format, Vec<u8>>, Fault> {
    const SHOWN_BYTES: usize = 16;
    let first = window.peek(SHOWN_BYTES)?;
    match first.first_chunk::<4>() {
        Some(magic) if pcap::is_pcap(*magic) => Ok(Ok(Format::Pcap(Pcap::read_header(window)?))),
        Some(magic) if pcapng::is_pcapng(*magic) => Ok(Ok(Format::Pcapng(Box::new(Pcapng::new())))),
        _ => Ok(Err(first.to_vec())),
    }
}

/// What the first bytes of a file that is no capture look like.
fn describe(first: &[u8]) -> String {
    let packed = [
        (&b"\xfd7zXZ"[..], "xz", "xz -d"),
        (b"BZh", "bzip2", "bzip2 -d"),
        (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
        (b"PK\x03\x04", "zip", "unzip"),
    ];
    if let Some((_, format, command)) = packed.iter().find(|(magic, ..)| first.starts_with(magic)) {
        return format!("it is packed with {format}, unpack it first with `{command}`");
    }
    if first.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        return format!("it begins with text, \"{}\"", first.escape_ascii());
    }
    let hex: Vec<String> = first.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("it begins with the bytes {}", hex.join(" "))
}

/// The error for a fault, with all that a reader of it wants to know.
fn name(fault: Fault, path: &Path, window: &Window, records: u64) -> CaptureError {
    let path = path.to_path_buf();
    let at = |offset| At { offset, unpacked: window.unpacks() };
    match fault {
        Fault::Truncated { offset, item, needed, present } => {
            CaptureError::Truncated { path, at: at(offset), item, needed, present, records }
        }
        Fault::Corrupt { offset, expected, found } => {
            CaptureError::Corrupt { path, at: at(offset), expected, found, records }
        }
        Fault::LinkType { offset, number } => CaptureError::LinkType { path, at: at(offset), number },
        Fault::Dialect(found) => CaptureError::Dialect { path, found },
        Fault::Input(source) => CaptureError::Read { path, at: at(window.read_offset()), records, source },
    }
}
