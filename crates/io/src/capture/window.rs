//! A sliding buffer over a capture's bytes.

use std::io::{self, Read};
use std::ops::Range;

use super::packing::Input;

/// Bytes read at a time: few system calls, and small enough to stay in a core's own cache.
const CHUNK_BYTES: usize = 256 * 1024;

/// A buffer that slides over a capture's bytes.
///
/// ```text
///   base            at                 end
///    | taken bytes  | bytes to come    | room |      buffer
/// ```
pub(super) struct Window {
    input: Input,
    buffer: Vec<u8>,
    /// Offset in the capture of the buffer's first byte.
    base: u64,
    at: usize,
    end: usize,
    ended: bool,
}

impl Window {
    pub fn new(input: Input) -> Window {
        Window { input, buffer: vec![0; CHUNK_BYTES], base: 0, at: 0, end: 0, ended: false }
    }

    /// The next `len` bytes, fewer only if the capture ends before; takes none of them.
    ///
    /// `len` is also what may be allocated: callers bound it.
    pub fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.end - self.at < len {
            self.refill(len)?;
        }
        Ok(&self.buffer[self.at..self.end.min(self.at + len)])
    }

    /// Takes `len` bytes that [`peek`](Window::peek) showed. The range is good until the next peek.
    pub fn take(&mut self, len: usize) -> Range<usize> {
        let start = self.at;
        self.at += len;
        assert!(self.at <= self.end, "taken without a peek");
        start..self.at
    }

    /// Takes up to `len` bytes without keeping them; fewer only if the capture ends before.
    pub fn skip(&mut self, len: u64) -> io::Result<u64> {
        let mut skipped = 0;
        while skipped < len {
            let step = (len - skipped).min(CHUNK_BYTES as u64) as usize;
            let present = self.peek(step)?.len();
            self.take(present);
            skipped += present as u64;
            if present < step {
                break;
            }
        }
        Ok(skipped)
    }

    /// Bytes that a taken range stands for.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Offset in the capture of a taken range, after unpacking.
    pub fn offset_of(&self, range: &Range<usize>) -> u64 {
        self.base + range.start as u64
    }

    /// Offset in the capture of the next byte, after unpacking.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Offset in the capture up to which bytes could be read.
    pub fn read_offset(&self) -> u64 {
        self.base + self.end as u64
    }

    /// How far the file has been read, in bytes on disk.
    pub fn file_offset(&self) -> u64 {
        self.input.packed_bytes().unwrap_or_else(|| self.offset())
    }

    /// Whether the bytes are unpacked on the way.
    pub fn unpacks(&self) -> bool {
        self.input.packed_bytes().is_some()
    }

    #[cold]
    fn refill(&mut self, len: usize) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.buffer.len() < len {
            self.buffer.resize(len.next_multiple_of(CHUNK_BYTES), 0);
        }
        while self.end < len && !self.ended {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }
}
