//! A port that replays a trace over and over: what a benchmark receives from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::Stamp;

use crate::packets::Packets;
use crate::pool::Pool;
use crate::{Closed, Fate, Foreign, Frame, Port, Received, Reference, Trace};

/// A port that replays packets of a [`Trace`] until it is told to stop. Each packet is copied into a
/// frame of the port's pool, in whole cache lines, as a card's DMA would leave it; a frame that comes back
/// is the next to be used, while it is still in the cache.
pub struct MemoryPort {
    /// In the order in which they come.
    packets: Packets,
    /// The next packet.
    next: usize,
    /// Packets received so far: the next one's sequence number.
    received: u64,
    rounds: u64,
    /// How far time moves on with each round, so that it never runs back.
    round_ns: u64,
    pool: Pool,
    stop: Arc<AtomicBool>,
    /// Packets that are received at a time, at most.
    at_once: usize,
    /// Frames that came back, forwarded and other.
    forwarded: u64,
}

/// How far ahead of the packets that arrive the trace is asked for: a batch of short packets, so that
/// what a card would have put into the cache is there when the next batch is received.
const AHEAD_LINES: usize = 64;
const AHEAD_PACKETS: usize = 64;

impl MemoryPort {
    /// A queue that receives `packets` of `trace`, indices in order, with `frames` frames in its pool.
    ///
    /// # Panics
    /// If there are no packets or no frames, or no memory for them.
    pub fn new(trace: &Trace, packets: &[u32], frames: usize, stop: Arc<AtomicBool>) -> MemoryPort {
        let packets = Packets::new(trace, packets, |_| 0);
        let pool = Pool::for_packets(&packets, frames);
        MemoryPort::assembled(trace.round_ns(), packets, pool, stop)
    }

    /// A queue that receives `packets` of `trace` into frames of `pool`, which may share its memory with those of
    /// other ports.
    ///
    /// # Panics
    /// If there are no packets, or one is longer than the frames of the pool.
    pub fn in_pool(trace: &Trace, packets: &[u32], pool: Pool, stop: Arc<AtomicBool>) -> MemoryPort {
        let packets = Packets::new(trace, packets, |_| 0);
        pool.assert_fits(&packets);
        MemoryPort::assembled(trace.round_ns(), packets, pool, stop)
    }

    fn assembled(round_ns: u64, packets: Packets, pool: Pool, stop: Arc<AtomicBool>) -> MemoryPort {
        MemoryPort {
            round_ns,
            next: 0,
            received: 0,
            rounds: 0,
            pool,
            packets,
            stop,
            at_once: usize::MAX,
            forwarded: 0,
        }
    }

    /// Has at most `packets` received at a time, at least one: batches are no larger.
    pub fn at_once(self, packets: usize) -> MemoryPort {
        MemoryPort { at_once: packets.max(1), ..self }
    }

    /// Packets that were sent forward.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// How often the whole trace was replayed.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The next `count` packets of the trace, of which there are so many, into frames of which there are.
    fn arrive(&mut self, count: usize, frames: &mut Vec<Frame>) {
        let later_ns = self.rounds * self.round_ns;
        let packets = &self.packets;
        let arrivals = &packets.arrivals()[self.next..self.next + count];
        let mut taken = self.pool.take(count);
        frames.extend(arrivals.iter().zip(self.received..).map(move |(arrival, seq)| {
            Packets::prefetch_arrival(arrival, AHEAD_PACKETS);
            packets.prefetch_bytes(arrival, AHEAD_LINES);
            taken.fill(packets, arrival, Stamp { seq, time_ns: arrival.time_ns + later_ns })
        }));
        self.received += count as u64;
        self.next += count;
        if self.next == self.packets.len() {
            self.next = 0;
            self.rounds += 1;
        }
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        if self.stop.load(Ordering::Relaxed) {
            return Received::End;
        }
        let mut wanted = max.min(self.at_once).min(self.pool.free());
        while wanted > 0 {
            let count = wanted.min(self.packets.len() - self.next);
            self.arrive(count, frames);
            wanted -= count;
        }
        if frames.is_empty() { Received::Idle } else { Received::Frames }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    #[inline]
    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.pool.references(frames, references);
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    #[inline]
    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        self.forwarded += fates.iter().filter(|fate| **fate == Fate::Forward).count() as u64;
        self.pool.give_back(frames.drain(..));
        Ok(fates.len())
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }
}

#[cfg(test)]
mod tests {
    use wire::LinkType;

    use super::*;
    use crate::capture::Record;
    use crate::contract::{Lab, port_contract};

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
        let mut port = MemoryPort::new(&trace(), &[0, 2], 3, Arc::clone(&stop));
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

    /// Whatever the length, and whatever was in the frame before; times that run back do not.
    #[test]
    fn packets_of_all_lengths_arrive_whole() {
        let lengths = [0usize, 1, 63, 64, 65, 128, 129, 1514, 64, 0];
        let content = |i: usize| (0..lengths[i]).map(|at| (at * 7 + i + 1) as u8).collect::<Vec<u8>>();
        let mut trace = Trace::default();
        for i in 0..lengths.len() {
            let (time_ns, data) = (1_000 - i as u64 % 3, content(i));
            trace.push(&Record { time_ns, wire_len: 2_000, link: LinkType::RawIp, data: &data });
        }
        let indices: Vec<u32> = (0..lengths.len() as u32).collect();
        // So few frames that batches end anywhere in the trace.
        let mut port = MemoryPort::new(&trace, &indices, 3, Arc::default());
        let (mut frames, mut next, mut last) = (Vec::new(), 0u64, Stamp::default());
        for _ in 0..20 {
            assert_eq!(port.receive(&mut frames, 64), Received::Frames);
            for frame in &mut frames {
                assert_eq!(port.bytes(frame), content(next as usize % lengths.len()));
                assert_eq!((frame.stamp.seq, frame.wire_len, frame.link), (next, 2_000, LinkType::RawIp));
                assert!(frame.stamp.time_ns >= last.time_ns);
                port.buffer_mut(frame).fill(0xee);
                (next, last) = (next + 1, frame.stamp);
            }
            let fates = [Fate::Forward, Fate::Host, Fate::Forward];
            port.send(&mut frames, &fates).expect("open");
        }
        assert_eq!((port.rounds(), port.forwarded()), (6, 40));
    }

    struct Pair([MemoryPort; 2]);

    impl Lab for Pair {
        fn port(&mut self, number: usize) -> &mut dyn Port {
            &mut self.0[number]
        }

        /// They always do.
        fn arrive(&mut self, _: usize, _: usize) {}

        fn left(&mut self) -> u64 {
            self.0.iter().map(MemoryPort::forwarded).sum()
        }

        fn frames(&self) -> usize {
            8
        }
    }

    #[test]
    fn it_keeps_the_contract() {
        port_contract(|| {
            let pools = <[Pool; 2]>::try_from(Pool::shared(2, 8, 64)).map_err(drop).expect("two pools");
            Pair(pools.map(|pool| MemoryPort::in_pool(&trace(), &[0, 1, 2], pool, Arc::default())))
        });
    }
}
