//! One interface of a port: its link, its counters, and the frames that wait to be sent.

use std::time::{Duration, Instant};

use io::{Frame, Pool};

use crate::Interface;
use crate::counters::{InterfaceCounters, Lost};
use crate::link::Link;

/// Frames that wait for an interface, at most. More of them keep the port from taking any.
pub(crate) const STAGED: usize = 256;
/// How long an interface may take no packet before those that wait for it are dropped.
pub(crate) const STALL: Duration = Duration::from_millis(10);

/// An interface of a port, and what waits for it.
pub(crate) struct Side {
    pub(crate) interface: Interface,
    pub(crate) link: Box<dyn Link>,
    staged: Vec<Frame>,
    /// How many frames were ever put there.
    put: u64,
    /// What that was when it was noted last.
    mark: u64,
    /// Since when it has taken nothing, though something waits.
    stalled: Option<Instant>,
    /// What the port counts beside the link, and what links before this one counted.
    pub(crate) lost: InterfaceCounters,
}

impl Side {
    pub(crate) fn new(interface: &Interface, link: Box<dyn Link>) -> Side {
        let (interface, staged) = (interface.clone(), Vec::with_capacity(STAGED));
        Side { interface, link, staged, put: 0, mark: 0, stalled: None, lost: InterfaceCounters::default() }
    }

    /// Everything that it counts.
    pub(crate) fn counters(&mut self) -> InterfaceCounters {
        let mut counters = self.link.counters();
        counters.add(&self.lost);
        counters
    }

    /// Goes on with another link, or without one, and closes the one before. Counters go on.
    pub(crate) fn replace(&mut self, mut link: Box<dyn Link>, number: u8, pool: &mut Pool) {
        self.lost = self.counters();
        std::mem::swap(&mut self.link, &mut link);
        link.close(pool);
        // What other cores' sockets still have is theirs: the last one to let go recalls all of it.
        let is_last = link.let_go();
        drop(link);
        if is_last {
            pool.recall(number);
        }
        self.stalled = None;
    }

    /// Puts a frame behind those that wait.
    #[inline]
    pub(crate) fn stage(&mut self, frame: Frame) {
        self.staged.push(frame);
        self.put += 1;
    }

    /// Whether no frame waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Notes which frames are to leave, or wait to.
    pub(crate) fn mark(&mut self) {
        self.mark = self.put;
    }

    /// Whether all of those are with the interface, or lost: none waits here, or where the interface takes them from.
    pub(crate) fn is_past_mark(&mut self) -> bool {
        let waiting = self.staged.len() + self.link.unsent();
        self.put.saturating_sub(waiting as u64) >= self.mark
    }

    /// Frames that may still come to wait.
    pub(crate) fn room(&self) -> usize {
        STAGED.saturating_sub(self.staged.len())
    }

    /// Sends what waits. If the interface has taken nothing for some time, that is dropped: packets for others go on.
    pub(crate) fn flush(&mut self, pool: &mut Pool) {
        if !self.staged.is_empty() {
            let before = self.staged.len();
            self.link.send(pool, &mut self.staged);
            match self.staged.len() {
                0 => self.stalled = None,
                left if left < before => self.stalled = Some(Instant::now()),
                _ => {
                    let since = *self.stalled.get_or_insert_with(Instant::now);
                    if since.elapsed() > STALL {
                        self.give_up(pool);
                    }
                }
            }
        }
        self.link.turn(pool);
    }

    /// What waits is lost.
    pub(crate) fn give_up(&mut self, pool: &mut Pool) {
        self.lost.lost[Lost::RingFull as usize] += self.staged.len() as u64;
        pool.give_back(self.staged.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;

    use wire::{LinkType, Stamp};

    use super::*;
    use crate::clock::Clock;

    /// An interface that takes nothing.
    struct Full;

    impl Link for Full {
        fn receive(&mut self, _: &mut Pool, _: &mut Clock, _: usize, _: &mut Vec<Frame>) {}

        fn send(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}

        fn descriptors(&self) -> Vec<RawFd> {
            Vec::new()
        }

        fn shares_with_host(&self) -> bool {
            false
        }

        fn counters(&mut self) -> InterfaceCounters {
            InterfaceCounters::default()
        }

        fn describe(&self) -> String {
            String::new()
        }
    }

    /// Packets that wait where a run ends are in a counter, and their frames in the pool.
    #[test]
    fn what_waits_at_the_end_is_counted_as_lost() {
        let (mut pool, _) = Pool::chunks(8, 2_048, 0);
        let frames = pool.free();
        let interface = Interface {
            name: "full".to_owned(),
            index: 1,
            mtu: 1_500,
            address: [0; 6],
            driver: String::new(),
            queues: 1,
        };
        let mut side = Side::new(&interface, Box::new(Full));
        for _ in 0..3 {
            let frame = pool.fill(Stamp::default(), LinkType::Ethernet, 60, &[0; 60]);
            side.stage(frame.expect("a frame is free"));
        }
        side.flush(&mut pool);
        assert_eq!((pool.free(), side.is_empty()), (frames - 3, false), "they wait");
        side.give_up(&mut pool);
        assert_eq!((pool.free(), side.is_empty()), (frames, true));
        let counters = side.counters();
        assert_eq!(counters.lost[Lost::RingFull as usize], 3);
    }
}
