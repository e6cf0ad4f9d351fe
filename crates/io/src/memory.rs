//! A trace in memory, and a port that replays it over and over: what a benchmark receives from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::{LinkType, Stamper};

use crate::capture::{CaptureError, CaptureReader, Record};
use crate::frame::{HEADROOM_BYTES, LINE_BYTES, Place};
use crate::{Closed, Fate, Frame, Port, Received};

/// Packets in memory, back to back.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    bytes: Vec<u8>,
    packets: Vec<TracePacket>,
}

#[derive(Clone, Copy, Debug)]
struct TracePacket {
    offset: usize,
    len: u32,
    wire_len: u32,
    time_ns: u64,
    link: LinkType,
}

impl Trace {
    /// Reads a whole capture.
    ///
    /// # Errors
    /// [`CaptureError`] as the reader gives it.
    pub fn read(mut reader: CaptureReader) -> Result<Trace, CaptureError> {
        let mut trace = Trace::default();
        while let Some(record) = reader.next()? {
            trace.push(&record);
        }
        Ok(trace)
    }

    /// Adds a packet behind the others.
    pub fn push(&mut self, record: &Record<'_>) {
        self.packets.push(TracePacket {
            offset: self.bytes.len(),
            len: record.data.len() as u32,
            wire_len: record.wire_len,
            time_ns: record.time_ns,
            link: record.link,
        });
        self.bytes.extend_from_slice(record.data);
    }

    /// Packet number `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn packet(&self, index: usize) -> Record<'_> {
        let TracePacket { offset, len, wire_len, time_ns, link } = self.packets[index];
        Record { time_ns, wire_len, link, data: &self.bytes[offset..offset + len as usize] }
    }

    /// Packets in the trace.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// From the first packet to the last and a microsecond more: how far a round moves time on.
    fn round_ns(&self) -> u64 {
        let times = self.packets.iter().map(|packet| packet.time_ns);
        let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        last - first + 1_000
    }
}

/// A port that replays packets of a [`Trace`] until it is told to stop. Each packet is copied into a
/// frame of the port's pool, as a card's DMA would leave it; a frame that comes back is the next to be
/// used, while it is still in the cache.
pub struct MemoryPort {
    trace: Arc<Trace>,
    /// The packets of the trace that come to this queue.
    packets: Vec<u32>,
    next: usize,
    rounds: u64,
    /// How far time moves on with each round, so that it never runs back.
    round_ns: u64,
    stamper: Stamper,
    pool: Vec<u8>,
    frame_lines: u16,
    free: Vec<u32>,
    stop: Arc<AtomicBool>,
    /// Frames that came back, forwarded and other.
    forwarded: u64,
}

/// What frames of this kind of port say their pool is: each holds its pool alone.
const POOL: u32 = u32::MAX;

impl MemoryPort {
    /// A queue that receives `packets` of `trace`, indices in order, with `frames` frames in its pool.
    ///
    /// # Panics
    /// If there are no packets or no frames.
    pub fn new(trace: Arc<Trace>, packets: Vec<u32>, frames: usize, stop: Arc<AtomicBool>) -> MemoryPort {
        assert!(!packets.is_empty() && frames > 0, "nothing to replay");
        let longest = packets.iter().map(|index| trace.packets[*index as usize].len).max().unwrap_or(0);
        // An odd number of cache lines, so that frames do not crowd into a few sets of the cache.
        let frame_lines = Place::lines_for(longest as usize) | 1;
        MemoryPort {
            round_ns: trace.round_ns(),
            trace,
            packets,
            next: 0,
            rounds: 0,
            stamper: Stamper::default(),
            pool: vec![0; frame_lines * LINE_BYTES * frames],
            frame_lines: u16::try_from(frame_lines).expect("a packet that a capture can hold"),
            free: (0..frames as u32).rev().map(|frame| frame * frame_lines as u32).collect(),
            stop,
            forwarded: 0,
        }
    }

    /// Packets that were sent forward.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// How often the whole trace was replayed.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        if self.stop.load(Ordering::Relaxed) {
            return Received::End;
        }
        for _ in 0..max {
            let Some(first_line) = self.free.pop() else { break };
            let record = self.trace.packet(self.packets[self.next] as usize);
            let (len, lines) = (record.data.len(), self.frame_lines);
            let place =
                Place { pool: POOL, first_line, lines, offset: HEADROOM_BYTES as u16, len: len as u32 };
            self.pool[place.buffer()][place.data()].copy_from_slice(record.data);
            let time_ns = record.time_ns + self.rounds * self.round_ns;
            let stamp = self.stamper.stamp(time_ns);
            frames.push(Frame { stamp, wire_len: record.wire_len, link: record.link, place });
            self.next += 1;
            if self.next == self.packets.len() {
                self.next = 0;
                self.rounds += 1;
            }
        }
        if frames.is_empty() { Received::Idle } else { Received::Frames }
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        &self.pool[frame.place.buffer()][frame.data()]
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        &mut self.pool[frame.place.buffer()]
    }

    fn send(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<(), Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        self.forwarded += fates.iter().filter(|fate| **fate == Fate::Forward).count() as u64;
        self.free.extend(frames.drain(..).rev().map(|frame| frame.place.first_line));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        let mut trace = Trace::default();
        for (time_ns, data) in [(10, &[1u8, 2, 3][..]), (20, &[4]), (30, &[5, 6])] {
            let wire_len = data.len() as u32;
            trace.push(&Record { time_ns, wire_len, link: LinkType::Ethernet, data });
        }
        trace
    }

    #[test]
    fn it_replays_over_and_over_with_time_running_on() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut port = MemoryPort::new(Arc::new(trace()), vec![0, 2], 3, Arc::clone(&stop));
        let mut frames = Vec::new();
        let mut seen = Vec::new();
        for _ in 0..2 {
            assert_eq!(port.receive(&mut frames, 8), Received::Frames);
            assert_eq!(frames.len(), 3, "as many as the pool holds");
            assert_eq!(port.receive(&mut Vec::new(), 8), Received::Idle, "no frame is free");
            for frame in &mut frames {
                seen.push((frame.stamp.seq, frame.stamp.time_ns, port.bytes(frame).to_vec()));
                // What is written to a frame must not come back with the next round.
                port.buffer_mut(frame).fill(0xee);
            }
            port.send(&mut frames, &[Fate::Forward; 3]).expect("open");
        }
        let round_ns = 20 + 1_000;
        let expected = [
            (0, 10, vec![1, 2, 3]),
            (1, 30, vec![5, 6]),
            (2, 10 + round_ns, vec![1, 2, 3]),
            (3, 30 + round_ns, vec![5, 6]),
            (4, 10 + 2 * round_ns, vec![1, 2, 3]),
            (5, 30 + 2 * round_ns, vec![5, 6]),
        ];
        assert_eq!(seen, expected);
        assert_eq!((port.rounds(), port.forwarded()), (3, 6));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(port.receive(&mut frames, 8), Received::End);
    }
}
