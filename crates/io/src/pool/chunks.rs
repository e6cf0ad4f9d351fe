//! Frames that a kernel or a card fills and sends by itself: they are lent to it, by their addresses.
//!
//! ```text
//!              lend ───► lent ───► receive_lent ───► a frame  (append: what goes on in a second one)
//!   free  ◄── take_back ── lent ◄─── lend_frame ◄───────┘
//! ```
//!
//! An address is an offset in the memory, bytes. The pool knows which chunks are lent: what comes back that is not is
//! refused, so a kernel that errs cannot make two tokens for a buffer.
//!
//! Cores with sockets of their own have [peers](Pool::peers): what one lent another may receive or take back, since the
//! kernel's rings of a queue are common to all of them. Free chunks that a peer does not need at once lie in a bank that all
//! of them draw from, so that no core runs dry while another has more than it needs.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory::{Array, LINE_BYTES, Line};
use ring::ring;
use wire::{LinkType, Stamp};

use super::{AT_HAND, Bank, Link, Memory, Pool};
use crate::frame::{Place, new_pool_id};
use crate::{Frame, Note};

/// The smallest memory that begins on a page: a huge one.
const LEAST_BYTES: usize = 2 << 20;

/// In place of a borrower's number, for a chunk that is not lent.
const AT_HOME: u16 = u16::MAX;

/// Locks the bank. No thread panics while it has it.
fn lock(bank: &Bank) -> MutexGuard<'_, Vec<u32>> {
    bank.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As many marks as there are chunks, all of them at home.
fn all_at_home(frames: usize) -> Arc<[AtomicU16]> {
    (0..frames).map(|_| AtomicU16::new(AT_HOME)).collect()
}

/// A packet in a lent chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lent {
    /// Where it begins in the memory, bytes.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
}

impl Pool {
    /// A pool of `frames` chunks of `chunk_bytes`, a power of two, in memory that begins on a page; and `guests` pools
    /// without frames, for ports that step frames of the first.
    ///
    /// There are more frames than asked for where they would fill less than 2 MiB.
    ///
    /// # Panics
    /// If a chunk is not a power of two from 128 to 65,536 bytes, or there is no memory.
    pub fn chunks(frames: usize, chunk_bytes: usize, guests: usize) -> (Pool, Vec<Pool>) {
        let is_chunk = chunk_bytes.is_power_of_two() && (128..=1 << 16).contains(&chunk_bytes);
        assert!(is_chunk, "chunks of {chunk_bytes} bytes");
        let frames = frames.max(LEAST_BYTES / chunk_bytes);
        let frame_lines = chunk_bytes / LINE_BYTES;
        let pool_lines = frame_lines * frames;
        assert!(u32::try_from(pool_lines).is_ok(), "less than 256 GiB of frames");
        let mut lines = Array::filled(Line::ZERO, pool_lines).expect("memory for frames");
        let start = NonNull::from(&mut *lines).cast::<Line>();
        let memory = Arc::new(Memory { id: new_pool_id(), _lines: lines, pool_lines });
        let mut free: Vec<u32> = (0..pool_lines as u32).step_by(frame_lines).collect();
        free.reverse();
        let pool = |number: usize, free: Vec<u32>, links: Vec<Option<Link>>| Pool {
            id: memory.id,
            start,
            frame_lines: frame_lines as u16,
            free,
            number,
            foreign: 0,
            links,
            lent: all_at_home(if number == 0 { frames } else { 0 }),
            bank: None,
            memory: Arc::clone(&memory),
        };
        let mut links = vec![None];
        let mut all_guests = Vec::new();
        for number in 1..=guests {
            let (home, at_home) = ring(frames);
            // Nothing goes this way: a guest has no frames.
            let (away, back) = ring(1);
            links.push(Some(Link { home: away, back: at_home }));
            all_guests.push(pool(number, Vec::new(), vec![Some(Link { home, back })]));
        }
        let links = if guests == 0 { Vec::new() } else { links };
        (pool(0, free, links), all_guests)
    }

    /// So many pools of the same `frames` chunks, each for a core with sockets of its own: see the module. Frames may go
    /// from one to another.
    ///
    /// # Panics
    /// As [`Pool::chunks`], and if there are no pools.
    pub fn peers(frames: usize, chunk_bytes: usize, pools: usize) -> Vec<Pool> {
        let (mut first, _) = Pool::chunks(frames, chunk_bytes, 0);
        let bank = Arc::new(Mutex::new(std::mem::take(&mut first.free)));
        let frames = first.frames();
        first.free.reserve(frames);
        first.bank = Some(Arc::clone(&bank));
        let others: Vec<Pool> = (1..pools)
            .map(|_| Pool {
                free: Vec::with_capacity(frames),
                links: Vec::new(),
                lent: Arc::clone(&first.lent),
                bank: Some(Arc::clone(&bank)),
                memory: Arc::clone(&first.memory),
                ..first
            })
            .collect();
        assert!(pools > 0, "no pools");
        std::iter::once(first).chain(others).collect()
    }

    /// All frames of the memory, in whichever port or core they are.
    pub fn frames(&self) -> usize {
        self.memory.pool_lines / usize::from(self.frame_lines)
    }

    /// Puts chunks that are not needed at once into the bank, where there is one: said once a batch. Does not wait.
    #[inline]
    pub fn deposit(&mut self) {
        if self.free.len() > 2 * AT_HAND
            && let Some(bank) = &self.bank
            && let Ok(mut bank) = bank.try_lock()
        {
            bank.extend(self.free.drain(AT_HAND..));
        }
    }

    /// Chunks in the bank.
    pub fn in_bank(&self) -> usize {
        self.bank.as_ref().map_or(0, |bank| lock(bank).len())
    }

    /// Draws from the bank until `most` chunks are free here, as far as there are so many.
    pub(super) fn draw(&mut self, most: usize) {
        if let Some(bank) = &self.bank
            && let Some(missing) = most.checked_sub(self.free.len())
        {
            let mut bank = lock(bank);
            let from = bank.len().saturating_sub(missing);
            self.free.extend(bank.drain(from..));
        }
    }

    /// Where the memory of all frames begins, and its bytes: to be told to a kernel or a card. It is there as long as
    /// [`Pool::owner`] is.
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        (self.start.cast(), self.memory.pool_lines * LINE_BYTES)
    }

    /// Keeps the memory.
    pub fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        let memory: Arc<Memory> = Arc::clone(&self.memory);
        memory
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        usize::from(self.frame_lines) * LINE_BYTES
    }

    /// Lends up to `most` free chunks to the borrower with this number: appends their addresses.
    pub fn lend(&mut self, to: u8, most: usize, chunks: &mut Vec<u64>) {
        self.draw(most);
        let count = most.min(self.free());
        for line in self.free.drain(self.free.len() - count..).rev() {
            // Whichever peer takes it back sees what was done to it before.
            self.lent[line as usize / usize::from(self.frame_lines)].store(to.into(), Ordering::Release);
            chunks.push(u64::from(line) * LINE_BYTES as u64);
        }
    }

    /// A packet that was received into a lent chunk, as a frame; `None` if it is in no chunk that is lent, or reaches
    /// out of it.
    #[inline]
    pub fn receive_lent(
        &mut self,
        stamp: Stamp,
        link: LinkType,
        Lent { address, len }: Lent,
    ) -> Option<Frame> {
        let (first_line, offset) = self.end_loan(address, len)?;
        let place = Place { pool: self.id, first_line, lines: self.frame_lines, offset, len };
        Some(Frame { stamp, wire_len: len, link, entry: 0, note: Note::default(), place })
    }

    /// Lends a frame of this pool to the borrower with this number, to be sent.
    ///
    /// # Panics
    /// If it is another pool's.
    #[inline]
    pub fn lend_frame(&mut self, to: u8, frame: Frame) -> Lent {
        let Place { pool, first_line, offset, len, .. } = frame.place;
        assert!(pool == self.id, "a frame of another port");
        self.lent[first_line as usize / usize::from(self.frame_lines)].store(to.into(), Ordering::Release);
        Lent { address: u64::from(first_line) * LINE_BYTES as u64 + u64::from(offset), len }
    }

    /// A lent chunk comes back, by any address in it; `false` if it was not lent.
    #[inline]
    pub fn take_back(&mut self, address: u64) -> bool {
        let Some((first_line, _)) = self.end_loan(address, 0) else { return false };
        self.free.push(first_line);
        true
    }

    /// Takes back whatever is lent to a borrower that has let go of it all: of a socket that was closed nothing
    /// comes back by itself. Says how many chunks those were. O(chunks).
    pub fn recall(&mut self, from: u8) -> usize {
        let before = self.free.len();
        for (chunk, lent) in self.lent.iter().enumerate() {
            // Only one thread ends a loan and gets the chunk, as in `end_loan`.
            if lent.compare_exchange(from.into(), AT_HOME, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            self.free.push(chunk as u32 * u32::from(self.frame_lines));
        }
        self.free.len() - before
    }

    /// Puts the bytes of a second frame of this pool behind a packet's own, and takes that frame back. `false` if there is no
    /// room for them: the packet is as it was then.
    ///
    /// # Panics
    /// If one of them is another pool's.
    pub fn append(&mut self, frame: &mut Frame, part: Frame) -> bool {
        let (data, from, to) = (frame.data(), self.region(&part.place), self.region(&frame.place));
        let (offset, len) = (usize::from(part.place.offset), part.len());
        let fits = len <= frame.place.buffer_bytes() - data.end;
        if fits {
            // SAFETY: both regions lie in the memory with all their bytes, and `part` lies in its own. They are of two
            // tokens, so they do not overlap, and this function has both to itself.
            unsafe { from.add(offset).copy_to_nonoverlapping(to.add(data.end), len) };
            frame.set_data(data.start..data.end + len);
        }
        self.give_back([part].into_iter());
        fits
    }

    /// The number of a frame's chunk, from 0, among those of its memory.
    #[inline]
    pub fn chunk_of(&self, frame: &Frame) -> usize {
        // A power of two, but the compiler does not know.
        frame.place.first_line as usize >> self.frame_lines.trailing_zeros()
    }

    /// How many chunks are lent. O(chunks).
    pub fn lent(&self) -> usize {
        self.lent.iter().filter(|lent| lent.load(Ordering::Relaxed) != AT_HOME).count()
    }

    /// How many chunks are lent to the borrower with this number. O(chunks).
    pub fn lent_to(&self, to: u8) -> usize {
        self.lent.iter().filter(|lent| lent.load(Ordering::Relaxed) == u16::from(to)).count()
    }

    #[inline]
    fn end_loan(&mut self, address: u64, len: u32) -> Option<(u32, u16)> {
        // A power of two, but the compiler does not know.
        let shift = (usize::from(self.frame_lines) * LINE_BYTES).trailing_zeros();
        let (index, offset) = (address >> shift, address & ((1 << shift) - 1));
        if offset + u64::from(len) > 1 << shift {
            return None;
        }
        let lent = self.lent.get(usize::try_from(index).ok()?)?;
        // In one step: of peers that end one loan at once, one gets the chunk. It sees what was done to it before it was lent.
        let is_lent = lent.swap(AT_HOME, Ordering::Acquire) != AT_HOME;
        is_lent.then(|| (index as u32 * u32::from(self.frame_lines), offset as u16))
    }
}
