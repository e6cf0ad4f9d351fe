//! Reads captures of any format, packet by packet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Side;

use super::error::{At, CaptureError, Fault};
use super::leaps::{HeldStamps, Leaps};
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
///
/// A time stamp more than a second ahead of the packets before it is held if most of the next three packets lie as far
/// behind it: the packet counts as of the one before it, and [`remarks`](CaptureReader::remarks) say so. So one damaged stamp
/// does not stop the time of a run. From a pipe, a packet behind a pause is given when two more are there, or the end.
pub struct CaptureReader {
    path: PathBuf,
    window: Window,
    format: Format,
    size_bytes: Option<u64>,
    records: u64,
    failed: bool,
    ahead: Box<Ahead>,
    leaps: Leaps,
    /// What is known beside the packet that was given last.
    beside: Beside,
}

/// What is known of a packet beside its record.
#[derive(Clone, Copy, Default)]
struct Beside {
    side: Option<Side>,
    /// Where its bytes begin in the capture, after unpacking.
    offset: u64,
}

/// Packets that were read before they were asked for.
#[derive(Default)]
struct Ahead {
    packets: Trace,
    beside: Vec<Beside>,
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
    /// Packets of which a file claims to have captured more than was on the wire. The rest is left out.
    pub overlong: u64,
    /// Packets whose time stamp lies far ahead of all others.
    pub held: HeldStamps,
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
            return Ok(Some(self.next_ahead()));
        }
        if let Some(error) = self.ahead.error.take() {
            return Err(error);
        }
        self.ahead.clear();
        let Some(packet) = self.read()? else { return Ok(None) };
        if self.leaps.leaps(packet.time_ns) {
            self.ahead.push(&self.window, packet);
            return Ok(Some(self.next_ahead()));
        }
        self.leaps.believe(packet.time_ns);
        self.beside = Beside::of(&self.window, &packet);
        Ok(Some(record(&self.window, &packet)))
    }

    /// The next of the packets that were read ahead, of which there is one.
    fn next_ahead(&mut self) -> Record<'_> {
        let at = self.ahead.taken;
        let time_ns = self.ahead.packets.packet(at).time_ns;
        let mut leaps = std::mem::take(&mut self.leaps);
        let time_ns = match leaps.leaps(time_ns) {
            true => leaps.judge(time_ns, |witness| self.time_ahead(at + 1 + witness)),
            false => leaps.believe(time_ns),
        };
        self.leaps = leaps;
        self.ahead.taken += 1;
        self.beside = self.ahead.beside[at];
        Record { time_ns, ..self.ahead.packets.packet(at) }
    }

    /// The reader that gives packets their times as the file has them, also those that lie far ahead of all others.
    pub fn as_written(mut self) -> CaptureReader {
        self.leaps.believes_all = true;
        self
    }

    /// The side of the interface by which the packet came that [`next`](CaptureReader::next) gave last, where
    /// [`has_inside`](CaptureReader::has_inside) was told which one is inside.
    #[inline]
    pub fn side(&self) -> Option<Side> {
        self.beside.side
    }

    /// Where the bytes of the packet begin that [`next`](CaptureReader::next) gave last: an offset in the file, or in what
    /// it unpacks to.
    #[inline]
    pub fn offset_bytes(&self) -> u64 {
        self.beside.offset
    }

    /// Whether the file is unpacked on the way.
    pub fn is_packed(&self) -> bool {
        self.window.unpacks()
    }

    /// Has the interface of this name, or with this number in its section of a pcapng file, be inside, and all others be
    /// outside. For a reader of which no packet was asked for yet.
    ///
    /// # Errors
    /// The capture is pcap, which does not name interfaces. That a pcapng file has no such interface is an error where its
    /// first packet is read.
    pub fn has_inside(&mut self, interface: &str) -> Result<(), CaptureError> {
        match &mut self.format {
            Format::Pcapng(pcapng) => {
                pcapng.has_inside(interface);
                Ok(())
            }
            Format::Pcap(_) => {
                let fault = Fault::Interface { wanted: interface.to_owned(), known: String::new() };
                Err(name(fault, &self.path, &self.window, 0))
            }
        }
    }

    /// Looks at packets ahead of [`next`](CaptureReader::next), which gives them all the same: at most so many packets,
    /// and bytes of them in memory. Waits for them where they come from a pipe.
    pub fn look_ahead(&mut self, packets: usize, bytes: usize, see: &mut dyn FnMut(&Record<'_>)) {
        let (mut seen, mut seen_bytes) = (0, 0);
        while seen < packets && seen_bytes < bytes {
            let at = self.ahead.taken + seen;
            if at == self.ahead.packets.len() && !self.read_ahead() {
                break;
            }
            let record = self.ahead.packets.packet(at);
            see(&record);
            (seen, seen_bytes) = (seen + 1, seen_bytes + record.data.len());
        }
    }

    /// The time of a packet among those read ahead, or of the next one behind them, as the file has it.
    fn time_ahead(&mut self, at: usize) -> Option<u64> {
        let is_there = at < self.ahead.packets.len() || self.read_ahead();
        is_there.then(|| self.ahead.packets.packet(at).time_ns)
    }

    /// Reads one more packet ahead, and says whether there was one.
    fn read_ahead(&mut self) -> bool {
        if self.ahead.error.is_some() {
            return false;
        }
        match self.read() {
            Ok(Some(packet)) => {
                self.ahead.push(&self.window, packet);
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.ahead.error = Some(error);
                false
            }
        }
    }

    fn read(&mut self) -> Result<Option<Packet>, CaptureError> {
        if self.failed {
            return Ok(None);
        }
        let packet = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window),
        };
        match packet {
            Ok(None) => self.end(),
            Ok(Some(packet)) => {
                self.records += 1;
                Ok(Some(packet))
            }
            Err(fault) => {
                self.failed = true;
                Err(name(fault, &self.path, &self.window, self.records))
            }
        }
    }

    /// The end of the capture, which is an error if all that is in it was skipped.
    fn end(&mut self) -> Result<Option<Packet>, CaptureError> {
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
        let held = self.leaps.held;
        match &self.format {
            Format::Pcap(pcap) => Remarks { overlong: pcap.overlong, held, ..Remarks::default() },
            Format::Pcapng(pcapng) => {
                let Pcapng { skipped, too_late, overlong, .. } = &**pcapng;
                Remarks { skipped: skipped.clone(), too_late: *too_late, overlong: *overlong, held }
            }
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
                leaps: Leaps::default(),
                beside: Beside::default(),
            }),
            Ok(Err(found)) if found.is_empty() => Err(CaptureError::Empty { path }),
            Ok(Err(found)) => Err(CaptureError::NotACapture { path, found: describe(&found) }),
            Err(fault) => Err(name(fault, &path, &window, 0)),
        }
    }
}

impl Beside {
    #[inline]
    fn of(window: &Window, packet: &Packet) -> Beside {
        Beside { side: packet.side, offset: window.offset_of(&packet.data) }
    }
}

impl Ahead {
    fn push(&mut self, window: &Window, packet: Packet) {
        self.packets.push(&record(window, &packet));
        self.beside.push(Beside::of(window, &packet));
    }

    /// Forgets packets that were asked for.
    #[inline]
    fn clear(&mut self) {
        if self.taken > 0 {
            self.packets.clear();
            self.beside.clear();
            self.taken = 0;
        }
    }
}

/// A packet that the window has.
#[inline]
fn record<'a>(window: &'a Window, packet: &Packet) -> Record<'a> {
    let Packet { time_ns, wire_len, link, data, .. } = packet;
    Record { time_ns: *time_ns, wire_len: *wire_len, link: *link, data: window.bytes(data.clone()) }
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
        Fault::Interface { wanted, known } => CaptureError::Interface { path, wanted, known },
        Fault::Input(source) => CaptureError::Read { path, at: at(window.read_offset()), records, source },
    }
}
