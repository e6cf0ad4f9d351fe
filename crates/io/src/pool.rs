//! Frames of one core alone.

use memory::{Array, LINE_BYTES, Line};
use wire::Stamp;
use zerocopy::IntoBytes;

use crate::Frame;
use crate::frame::{HEADROOM_BYTES, Place};
use crate::packets::{Arrival, Packets};

/// What frames of this kind of pool say their pool is: each holds its pool alone.
const POOL: u32 = u32::MAX;

/// Lines before a packet in its frame.
const HEADROOM_LINES: usize = HEADROOM_BYTES / LINE_BYTES;

/// Frames of equal length, each of which holds any packet of the port it is for. A frame that comes back
/// is the next to be used, while it is still in the cache.
pub(crate) struct Pool {
    memory: Array<Line>,
    frame_lines: u16,
    /// First lines of the frames that nobody holds.
    free: Vec<u32>,
}

impl Pool {
    /// `frames` frames for `packets`.
    ///
    /// # Panics
    /// If there are no frames, or no memory for them.
    pub(crate) fn new(packets: &Packets, frames: usize) -> Pool {
        assert!(frames > 0, "no frames to receive into");
        // An odd number of cache lines, so that frames do not crowd into a few sets of the cache.
        let frame_lines =
            u16::try_from((HEADROOM_LINES + packets.longest_lines()) | 1).expect("a packet of a capture");
        let first_lines = (0..frames).map(|frame| (frame * usize::from(frame_lines)) as u32);
        Pool {
            memory: Array::filled(Line::ZERO, usize::from(frame_lines) * frames).expect("memory for frames"),
            frame_lines,
            free: first_lines.rev().collect(),
        }
    }

    /// How many frames nobody holds.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes `count` frames, of which there are so many, to be filled.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: usize) -> Taken<'_, impl Iterator<Item = u32>> {
        let free = self.free.drain(self.free.len() - count..).rev();
        Taken { memory: &mut self.memory, frame_lines: self.frame_lines, free }
    }

    #[inline]
    pub(crate) fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        &self.memory.as_bytes()[frame.place.buffer()][frame.data()]
    }

    #[inline]
    pub(crate) fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        &mut self.memory.as_mut_bytes()[frame.place.buffer()]
    }

    /// Takes all frames back.
    #[inline]
    pub(crate) fn give_back(&mut self, frames: &mut Vec<Frame>) {
        self.free.extend(frames.drain(..).rev().map(|frame| frame.place.first_line));
    }
}

/// Frames about to be filled.
pub(crate) struct Taken<'a, I> {
    memory: &'a mut [Line],
    frame_lines: u16,
    free: I,
}

impl<I: Iterator<Item = u32>> Taken<'_, I> {
    /// A packet in the next frame.
    ///
    /// # Panics
    /// If more are filled than were taken.
    #[inline(always)]
    pub(crate) fn fill(&mut self, packets: &Packets, arrival: &Arrival, stamp: Stamp) -> Frame {
        let first_line = self.free.next().expect("as many frames as were taken");
        packets.copy(arrival, &mut self.memory[first_line as usize + HEADROOM_LINES..]);
        Frame {
            stamp,
            wire_len: arrival.wire_len,
            link: arrival.link,
            entry: arrival.entry,
            refused: None,
            place: Place {
                pool: POOL,
                first_line,
                lines: self.frame_lines,
                offset: HEADROOM_BYTES as u16,
                len: arrival.len,
            },
        }
    }
}
