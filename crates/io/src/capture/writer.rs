//! Writes pcap files, under the name of a partial file until they are whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use wire::LinkType;

use super::MAX_PACKET_BYTES;
use super::error::CaptureError;
use super::pcap::{HEADER_LEN, MAGIC_NANO, RECORD_LEN};

/// Bytes gathered before they are written out.
const BUFFER_BYTES: usize = 512 * 1024;

/// The most unfinished outputs kept beside one output.
const MAX_PARTIALS: usize = 1000;

const _: () = assert!(HEADER_LEN + RECORD_LEN + MAX_PACKET_BYTES <= BUFFER_BYTES, "any packet fits");

/// Writes a pcap: little-endian, nanoseconds.
///
/// Packets go to `NAME.partial` beside the output; [`finish`](CaptureWriter::finish) renames it.
/// So a run that fails or is interrupted leaves an older output untouched, and what it wrote in the
/// partial file, a capture that can be read: packets are written out whole (only a full disk cuts
/// the last one), and dropping the writer writes the rest. A partial file is never overwritten, the
/// next one is `NAME.partial2`; one without packets is removed when the writer is dropped.
///
/// An output that is not a regular file (a pipe, `/dev/null`, or `-` for standard output) is
/// written as it is.
pub struct CaptureWriter {
    path: PathBuf,
    sink: Sink,
    /// Whole packets only, so that what is on disk ends with one.
    buffer: Vec<u8>,
    records: u64,
    /// Finished or failed: nothing more may be written.
    closed: bool,
}

enum Sink {
    /// Renamed to the output at the end.
    Partial {
        file: File,
        path: PathBuf,
    },
    Direct(Box<dyn Write + Send>),
}

impl CaptureWriter {
    /// Creates a capture of packets that begin with `link`. `-` is standard output.
    ///
    /// # Errors
    /// The output is a directory, or its directory cannot be written.
    pub fn create(path: impl AsRef<Path>, link: LinkType) -> Result<CaptureWriter, CaptureError> {
        CaptureWriter::begin(path.as_ref(), &file_header(link))
    }

    /// Creates a capture, of any format, that begins with `header`.
    pub(super) fn begin(path: &Path, header: &[u8]) -> Result<CaptureWriter, CaptureError> {
        let (path, sink) = open_sink(path)?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        buffer.extend_from_slice(header);
        Ok(CaptureWriter { path, sink, buffer, records: 0, closed: false })
    }

    /// Adds a packet: when it was captured, in nanoseconds since 1970, its length on the wire, and
    /// the bytes captured. Times past the year 2106 are written as the last that pcap can hold; a
    /// `wire_len` below the captured length is raised to it.
    ///
    /// # Errors
    /// The packet is longer than [`MAX_PACKET_BYTES`] and was left out; or the disk is full, or the
    /// like: then later calls fail too, and the partial file holds what could be written.
    pub fn write(&mut self, time_ns: u64, wire_len: u32, data: &[u8]) -> Result<(), CaptureError> {
        let len = data.len();
        if len > MAX_PACKET_BYTES {
            return Err(CaptureError::TooLong { path: self.path.clone(), len });
        }
        self.append(&[&record_header(time_ns, wire_len, len as u32), data])
    }

    /// Adds the parts of a record, written out as a whole.
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Result<(), CaptureError> {
        if self.buffer.len() + parts.iter().map(|part| part.len()).sum::<usize>() > BUFFER_BYTES {
            self.flush()?;
        }
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        self.records += 1;
        Ok(())
    }

    /// Where packets are until [`finish`](CaptureWriter::finish); `None` if they go straight to the output.
    pub fn partial(&self) -> Option<&Path> {
        match &self.sink {
            Sink::Partial { path, .. } => Some(path),
            Sink::Direct(_) => None,
        }
    }

    /// Writes out all packets added so far, for readers that follow the output as it grows.
    ///
    /// # Errors
    /// As [`write`](CaptureWriter::write).
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        let written = match &mut self.sink {
            _ if self.closed => Err(io::Error::other("an earlier write failed")),
            Sink::Partial { file, .. } => file.write_all(&self.buffer),
            Sink::Direct(to) => to.write_all(&self.buffer).and_then(|()| to.flush()),
        };
        self.buffer.clear();
        written.map_err(|source| self.fail("write", source))
    }

    /// Writes out the rest and gives the output its name.
    ///
    /// # Errors
    /// The disk is full or the like; the partial file is left, and an older output too.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        self.flush()?;
        if let Sink::Partial { file, path } = &self.sink {
            // The data must be on disk before the name is, or a power cut could lose both outputs.
            let renamed = file.sync_all().and_then(|()| fs::rename(path, &self.path));
            renamed.map_err(|source| self.fail("complete", source))?;
        }
        self.closed = true;
        Ok(())
    }

    fn fail(&mut self, action: &'static str, source: io::Error) -> CaptureError {
        self.closed = true;
        let remedy = match &self.sink {
            Sink::Partial { path, .. } => format!("the packets written so far are in {}", path.display()),
            Sink::Direct(_) => "the packets written so far were passed on".into(),
        };
        CaptureError::Write { path: self.path.clone(), action, remedy, source }
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        match &self.sink {
            Sink::Partial { path, .. } if self.records == 0 => drop(fs::remove_file(path)),
            _ => drop(self.flush()),
        }
    }
}

/// The path to complete in the end, links followed, and where to write until then.
fn open_sink(path: &Path) -> Result<(PathBuf, Sink), CaptureError> {
    if path == "-" {
        return Ok(("standard output".into(), Sink::Direct(Box::new(io::stdout()))));
    }
    let failed = |source| CaptureError::Write {
        path: path.into(),
        action: "create",
        remedy: "check the name, the directory's permissions and the space left".into(),
        source,
    };
    let target = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(CaptureError::Directory { path: path.into() }),
        Ok(found) if !found.is_file() => {
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok((path.into(), Sink::Direct(Box::new(file))));
        }
        Ok(_) => fs::canonicalize(path).map_err(failed)?,
        Err(_) => path.into(),
    };
    let (file, partial) = create_partial(&target).map_err(failed)?;
    Ok((target, Sink::Partial { file, path: partial }))
}

/// A new file beside the output, so that it can be renamed to it.
fn create_partial(target: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1..=MAX_PARTIALS {
        let mut name = target.as_os_str().to_owned();
        name.push(".partial");
        if number > 1 {
            name.push(number.to_string());
        }
        let partial = PathBuf::from(name);
        match File::create_new(&partial) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, partial)),
        }
    }
    Err(io::Error::other(format!("{MAX_PARTIALS} partial files are beside it already, remove some")))
}

/// The layout is drawn in the `pcap` module.
pub(super) fn file_header(link: LinkType) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[0..4].copy_from_slice(&MAGIC_NANO.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&(MAX_PACKET_BYTES as u32).to_le_bytes());
    header[20..24].copy_from_slice(&link.to_pcap().to_le_bytes());
    header
}

pub(super) fn record_header(time_ns: u64, wire_len: u32, captured: u32) -> [u8; RECORD_LEN] {
    const NS_PER_S: u64 = 1_000_000_000;
    const LATEST_NS: u64 = u32::MAX as u64 * NS_PER_S + NS_PER_S - 1;
    let time_ns = time_ns.min(LATEST_NS);
    let fields = [(time_ns / NS_PER_S) as u32, (time_ns % NS_PER_S) as u32, captured, wire_len.max(captured)];
    let mut header = [0; RECORD_LEN];
    for (bytes, field) in header.chunks_exact_mut(4).zip(fields) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    header
}
