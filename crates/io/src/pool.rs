//! Frames of equal length: the memory that a port receives into.
//!
//! Several ports may have pools in one memory. Then a frame that one of them received is worked on and sent by another
//! without a copy, and its buffer finds its way home: each pool has a ring to each other pool.

#![allow(unsafe_code)]

mod chunks;

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU16;
use std::sync::{Arc, Mutex};

use memory::{Array, LINE_BYTES, Line};
use ring::{Consumer, Producer, ring};
use wire::{LinkType, Stamp};

use crate::frame::{HEADROOM_BYTES, Place, new_pool_id};
use crate::packets::{Arrival, Packets};
use crate::{Foreign, Frame, Note, Reference};

pub use chunks::Lent;

/// Free chunks, by their first lines, of pools that are peers.
type Bank = Arc<Mutex<Vec<u32>>>;

/// Chunks that a peer keeps at hand when it puts others into the bank.
const AT_HAND: usize = 64;

/// Lines before a packet in its frame.
const HEADROOM_LINES: usize = HEADROOM_BYTES / LINE_BYTES;

/// The frames of one port. What comes back last is used first, while it is still in the cache.
///
/// A pool belongs to one port, and so to one thread. [`Pool::shared`] makes pools for ports that send each other's
/// frames.
pub struct Pool {
    memory: Arc<Memory>,
    /// As the memory has them: here, so that a frame is found with one look.
    id: u32,
    start: NonNull<Line>,
    frame_lines: u16,
    /// First lines of frames that nobody holds.
    free: Vec<u32>,
    /// Its number among the pools of the memory.
    number: usize,
    /// Frames of other pools that its port holds.
    foreign: usize,
    /// To and from each other pool of the memory, by number; a pool that is alone has none.
    links: Vec<Option<Link>>,
    /// By chunk, the number of its borrower, as [`Pool::lend`] was told; `AT_HOME` if it is not lent. Empty where
    /// nothing is lent.
    lent: Arc<[AtomicU16]>,
    /// Free chunks of all peers, where there are such.
    bank: Option<Bank>,
}

// SAFETY: `start` points into the memory, which is shared as `Memory` says.
unsafe impl Send for Pool {}

/// Between a pool and another one: buffers that go home, by their first lines.
struct Link {
    /// Buffers of the other pool, which this one's port sent.
    home: Producer<u32>,
    /// Buffers of this pool, which the other one's port sent.
    back: Consumer<u32>,
}

/// The memory of pools.
struct Memory {
    /// No other memory of frames has it.
    id: u32,
    _lines: Array<Line>,
    /// Lines of all frames of a pool.
    pool_lines: usize,
}

impl Pool {
    /// `frames` frames for packets of up to `longest_bytes`.
    ///
    /// # Panics
    /// If there are no frames, no memory for them, or a frame is longer than 4 MiB.
    pub fn new(frames: usize, longest_bytes: usize) -> Pool {
        Pool::shared(1, frames, longest_bytes).remove(0)
    }

    /// Pools of `frames` frames each, for ports that take over each other's frames.
    ///
    /// # Panics
    /// As [`Pool::new`], and if there are no pools.
    pub fn shared(pools: usize, frames: usize, longest_bytes: usize) -> Vec<Pool> {
        assert!(frames > 0 && pools > 0, "no frames to receive into");
        // An odd number of cache lines, so that frames do not crowd into a few sets of the cache.
        let frame_lines = (HEADROOM_LINES + longest_bytes.div_ceil(LINE_BYTES).max(1)) | 1;
        let frame_lines = u16::try_from(frame_lines).expect("a frame of less than 4 MiB");
        let pool_lines = usize::from(frame_lines) * frames;
        assert!(u32::try_from(pool_lines * pools).is_ok(), "less than 256 GiB of frames");
        let mut lines = Array::filled(Line::ZERO, pool_lines * pools).expect("memory for frames");
        let start = NonNull::from(&mut *lines).cast::<Line>();
        let memory = Arc::new(Memory { id: new_pool_id(), _lines: lines, pool_lines });
        let pool = |number: usize| {
            let first_lines = (number * pool_lines..).step_by(usize::from(frame_lines)).take(frames);
            let mut free: Vec<u32> = first_lines.map(|line| line as u32).collect();
            free.reverse();
            let (memory, id) = (Arc::clone(&memory), memory.id);
            let links = if pools == 1 { Vec::new() } else { (0..pools).map(|_| None).collect() };
            Pool {
                memory,
                id,
                start,
                frame_lines,
                free,
                number,
                foreign: 0,
                links,
                lent: Arc::new([]),
                bank: None,
            }
        };
        let mut all: Vec<Pool> = (0..pools).map(pool).collect();
        for a in 0..pools {
            for b in 0..a {
                // Each has room for all frames that there are of the pool that it leads to.
                let (to_b, at_b) = ring(frames);
                let (to_a, at_a) = ring(frames);
                all[a].links[b] = Some(Link { home: to_b, back: at_a });
                all[b].links[a] = Some(Link { home: to_a, back: at_b });
            }
        }
        all
    }

    /// A pool for packets of a trace.
    ///
    /// # Panics
    /// As [`Pool::new`].
    pub(crate) fn for_packets(packets: &Packets, frames: usize) -> Pool {
        Pool::new(frames, packets.longest_lines() * LINE_BYTES)
    }

    /// Pools for packets of a trace, for ports that take over each other's frames.
    ///
    /// # Panics
    /// As [`Pool::shared`].
    pub fn shared_for(packets: &Packets, pools: usize, frames: usize) -> Vec<Pool> {
        Pool::shared(pools, frames, packets.longest_lines() * LINE_BYTES)
    }

    /// # Panics
    /// If a packet is longer than a frame.
    pub(crate) fn assert_fits(&self, packets: &Packets) {
        let longest = packets.longest_lines() * LINE_BYTES;
        assert!(
            longest <= self.longest_bytes(),
            "packets of {longest} bytes, frames of {}",
            self.longest_bytes()
        );
    }

    /// The longest packet that a frame holds, bytes: at least what was asked for.
    pub fn longest_bytes(&self) -> usize {
        (usize::from(self.frame_lines) - HEADROOM_LINES) * LINE_BYTES
    }

    /// Frames of all pools in the memory: no port can have more in its hands.
    pub(crate) fn frames_of_all(&self) -> usize {
        self.links.len().max(1) * (self.memory.pool_lines / usize::from(self.frame_lines))
    }

    /// How many frames nobody holds.
    #[inline]
    pub fn free(&mut self) -> usize {
        if !self.links.is_empty() {
            self.collect();
        }
        self.free.len()
    }

    /// Takes in what other ports sent of this pool's frames.
    #[inline(never)]
    fn collect(&mut self) {
        for Link { back, .. } in self.links.iter_mut().flatten() {
            let ready = back.len();
            back.pop_into(&mut self.free, ready);
        }
    }

    /// A received packet, copied into a frame; `None` if no frame is free, or the packet is longer than a frame.
    pub fn fill(&mut self, stamp: Stamp, link: LinkType, wire_len: u32, data: &[u8]) -> Option<Frame> {
        if data.len() > self.longest_bytes() {
            return None;
        }
        if self.free() == 0 {
            self.draw(AT_HAND);
        }
        let first_line = self.free.pop()?;
        let place = self.place(first_line, data.len() as u32);
        let mut frame = Frame { stamp, wire_len, link, entry: 0, note: Note::default(), place };
        let at = frame.data();
        self.buffer_mut(&mut frame)[at].copy_from_slice(data);
        Some(frame)
    }

    /// Takes `count` frames, of which there are so many, to be filled.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: usize) -> Taken<impl Iterator<Item = u32>> {
        let Pool { id, start, frame_lines, .. } = *self;
        let free = self.free.drain(self.free.len() - count..).rev();
        let packet_lines = usize::from(frame_lines) - HEADROOM_LINES;
        // SAFETY: within the memory's first frame, which is longer than its headroom.
        let first_packet = unsafe { start.add(HEADROOM_LINES) };
        Taken { id, first_packet, packet_lines, frame_lines, free }
    }

    /// The packet's bytes.
    ///
    /// # Panics
    /// If the frame's bytes are not in this pool's memory.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        &self.buffer(&frame.place)[frame.data()]
    }

    /// See [`Port::references`](crate::Port::references).
    ///
    /// # Panics
    /// As [`Pool::bytes`].
    #[inline]
    pub fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        for (frame, reference) in frames.iter().zip(references) {
            *reference = Reference::read(self.buffer(&frame.place), frame.place.data().start);
        }
    }

    /// Puts a card's reference before a packet that was just received.
    ///
    /// # Panics
    /// As [`Pool::bytes`].
    #[inline]
    pub fn refer(&mut self, frame: &mut Frame, reference: Reference) {
        let start = frame.place.data().start;
        reference.write(self.buffer_mut(frame), start);
    }

    /// The whole buffer around the packet.
    ///
    /// # Panics
    /// As [`Pool::bytes`].
    #[inline]
    pub fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = self.region(&frame.place);
        // SAFETY: as in `buffer`; the exclusive borrow of the only token keeps everyone else away.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), frame.place.buffer_bytes()) }
    }

    #[inline]
    fn buffer<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        let start = self.region(place);
        // SAFETY: the region lies in the memory, see `region`, which was filled before. There is one token for a
        // region between being taken and being given back, and regions of two tokens do not overlap: first lines
        // come from `free` and go back there or to another pool's `free` of the same memory. The shared borrow of
        // the token keeps everyone from writing for as long as `'a`.
        unsafe { slice::from_raw_parts(start.as_ptr(), place.buffer_bytes()) }
    }

    /// Where the region of a frame begins.
    #[inline]
    fn region(&self, place: &Place) -> NonNull<u8> {
        assert!(place.pool == self.id, "a frame of another port");
        // SAFETY: places with this id are made by pools of this memory alone, within it.
        unsafe { self.start.add(place.first_line as usize).cast() }
    }

    /// Its port holds these frames of other pools from now on.
    ///
    /// # Errors
    /// [`Foreign`] if the bytes of one are not in this pool's memory; none is taken over then.
    pub fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        if frames.iter().any(|frame| frame.place.pool != self.id) {
            return Err(Foreign);
        }
        self.foreign += self.count_foreign(frames);
        Ok(())
    }

    /// Its port does not hold these frames any more: another one takes them over.
    pub fn hand_over(&mut self, frames: &[Frame]) {
        self.foreign = self.foreign.saturating_sub(self.count_foreign(frames));
    }

    fn count_foreign(&self, frames: &[Frame]) -> usize {
        frames.iter().filter(|frame| self.home(frame.place.first_line) != self.number).count()
    }

    /// The number of the pool that a frame is of.
    fn home(&self, first_line: u32) -> usize {
        first_line as usize / self.memory.pool_lines
    }

    /// Takes frames back that were sent or dropped: each buffer goes to the pool that it is of.
    ///
    /// # Panics
    /// If the bytes of one are not in this pool's memory.
    #[inline]
    pub fn give_back(&mut self, frames: impl DoubleEndedIterator<Item = Frame>) {
        if self.foreign > 0 {
            return self.send_home(frames);
        }
        let mut returned = Returned { free: &mut self.free, others: 0 };
        let (id, Returned { free, others }) = (self.id, &mut returned);
        // Together, not each: half the instructions.
        free.extend(frames.rev().map(|frame| {
            *others |= frame.place.pool ^ id;
            frame.place.first_line
        }));
        assert!(returned.others == 0, "a frame of another port");
    }

    #[cold]
    fn send_home(&mut self, frames: impl DoubleEndedIterator<Item = Frame>) {
        for frame in frames.rev() {
            assert!(frame.place.pool == self.id, "a frame of another port");
            let line = frame.place.first_line;
            let home = self.home(line);
            match &mut self.links[home] {
                None => self.free.push(line),
                Some(link) => {
                    // There is room for all. If the other pool is gone, nobody misses it.
                    let pushed = link.home.push(line);
                    debug_assert!(
                        pushed.is_ok() || link.home.is_abandoned(),
                        "room for all frames of a pool"
                    );
                    self.foreign = self.foreign.saturating_sub(1);
                }
            }
        }
    }

    fn place(&self, first_line: u32, len: u32) -> Place {
        place(self.id, first_line, self.frame_lines, len)
    }
}

/// Frames that come back. However that ends, a panic of who gives them included: where one is of another memory none counts as
/// free, and none is filled any more.
struct Returned<'a> {
    free: &'a mut Vec<u32>,
    /// Other than 0 if one is of another memory.
    others: u32,
}

impl Drop for Returned<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.others != 0 {
            self.free.clear();
        }
    }
}

#[inline(always)]
fn place(pool: u32, first_line: u32, lines: u16, len: u32) -> Place {
    Place { pool, first_line, lines, offset: HEADROOM_BYTES as u16, len }
}

/// Frames about to be filled.
pub(crate) struct Taken<I> {
    id: u32,
    /// Where a packet begins in a frame that begins at the memory's start.
    first_packet: NonNull<Line>,
    /// Lines of a frame behind its headroom.
    packet_lines: usize,
    frame_lines: u16,
    free: I,
}

impl<I: Iterator<Item = u32>> Taken<I> {
    /// A packet in the next frame.
    ///
    /// # Panics
    /// If more are filled than were taken.
    #[inline(always)]
    pub(crate) fn fill(&mut self, packets: &Packets, arrival: &Arrival, stamp: Stamp) -> Frame {
        let first_line = self.free.next().expect("as many frames as were taken");
        // SAFETY: the frame at `first_line` lies in the memory with all its lines, which were filled before; it comes
        // from a pool's `free`, so nobody else has a token for it.
        let to = unsafe {
            slice::from_raw_parts_mut(self.first_packet.add(first_line as usize).as_ptr(), self.packet_lines)
        };
        packets.copy(arrival, to);
        Frame {
            stamp,
            wire_len: arrival.wire_len,
            link: arrival.link,
            entry: arrival.entry,
            note: Note::default(),
            place: place(self.id, first_line, self.frame_lines, arrival.len),
        }
    }
}

#[cfg(test)]
mod tests;
