//! gzip and zstd, recognised by their first bytes, become plain bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest zstd window that is accepted, in bytes: what the zstd program accepts by default.
pub const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// Bytes asked of gzip at a time. When its data turns out damaged, the last so many bytes before
/// the damage are lost, so this is kept small.
const GZIP_STEP_BYTES: usize = 16 * 1024;

const MAGIC_LEN: u64 = 4;
const PACKED_BUFFER_BYTES: usize = 64 * 1024;

type Source = Box<dyn Read + Send>;

/// The bytes of a capture, unpacked on the way if need be.
pub(super) enum Input {
    Plain(Source),
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
    Zstd(Box<Zstd<BufReader<Counted>>>),
}

impl Input {
    /// Reads the first bytes to see how the rest is packed.
    ///
    /// # Errors
    /// The source's own.
    pub fn new(mut source: Source) -> io::Result<Input> {
        let mut magic = Vec::new();
        source.by_ref().take(MAGIC_LEN).read_to_end(&mut magic)?;
        let gzip = magic.starts_with(&[0x1f, 0x8b]);
        let zstd = matches!(*magic, [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18]);

        let source: Source = Box::new(Cursor::new(magic).chain(source));
        if !gzip && !zstd {
            return Ok(Input::Plain(source));
        }
        let packed = BufReader::with_capacity(PACKED_BUFFER_BYTES, Counted { source, bytes: 0 });
        Ok(match gzip {
            true => Input::Gzip(Box::new(MultiGzDecoder::new(packed))),
            false => Input::Zstd(Box::new(Zstd::new(packed))),
        })
    }

    /// Bytes taken from the packed file so far; `None` if it is not packed.
    pub fn packed_bytes(&self) -> Option<u64> {
        let packed = match self {
            Input::Plain(_) => return None,
            Input::Gzip(gzip) => gzip.get_ref(),
            Input::Zstd(zstd) => &zstd.packed,
        };
        Some(packed.get_ref().bytes - packed.buffer().len() as u64)
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Plain(source) => source.read(into),
            Input::Gzip(gzip) => {
                let step = into.len().min(GZIP_STEP_BYTES);
                gzip.read(&mut into[..step]).map_err(|cause| damaged("gzip", cause))
            }
            Input::Zstd(zstd) => zstd.read(into),
        }
    }
}

/// Counts the bytes that pass, and reads on when a signal interrupts: the unpackers would not.
pub(super) struct Counted {
    source: Source,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = loop {
            match self.source.read(into) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.bytes += len as u64;
        Ok(len)
    }
}

/// Unpacks zstd frames one after the other, checks their checksums, skips skippable ones.
pub(super) struct Zstd<R> {
    packed: R,
    decoder: FrameDecoder,
    in_frame: bool,
    failure: Option<io::Error>,
}

impl<R: BufRead> Zstd<R> {
    fn new(packed: R) -> Zstd<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW_BYTES);
        Zstd { packed, decoder, in_frame: false, failure: None }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin_frame(&mut self) -> io::Result<bool> {
        if self.packed.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.packed) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let skipped = io::copy(&mut self.packed.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < u64::from(length) {
                    return Err(damaged("zstd", "a skippable frame is cut short"));
                }
            }
            Err(cause) => return Err(damaged("zstd", cause)),
        }
        Ok(true)
    }

    /// Decodes one block. On damage, everything decoded before it is still given out.
    fn decode_block(&mut self) {
        if let Err(cause) = self.decoder.decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
        {
            self.failure = Some(damaged("zstd", cause));
            // The decoder holds back one window until it sees the frame's end. So show it one: an
            // empty last block, and a checksum that is not looked at.
            const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
            let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match self.decoder.get_checksum_from_data() {
            Some(sum) if Some(sum) != self.decoder.get_calculated_checksum() => {
                Err(damaged("zstd", "the checksum of a frame does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame && self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if let Some(failure) = self.failure.take() {
                self.in_frame = false;
                return Err(failure);
            }
            if !self.in_frame {
                if !self.begin_frame()? {
                    return Ok(0);
                }
            } else if self.decoder.is_finished() {
                self.end_frame()?;
            } else {
                self.decode_block();
            }
        }
    }
}

fn damaged(packing: &str, cause: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{packing} data is damaged or cut short: {cause}"))
}
