use std::time::{Instant, SystemTime, UNIX_EPOCH};

use io::Frame;
use wire::Stamp;

/// Gives packets their stamps: numbers without gaps, and a time that never runs back, whatever is done to the machine's
/// clock meanwhile. It begins at the time of day.
#[derive(Debug)]
pub(crate) struct Clock {
    begin: Instant,
    begin_ns: u64,
    next: u64,
    now_ns: u64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let begin_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Clock { begin: Instant::now(), begin_ns, next: 0, now_ns: begin_ns }
    }

    /// Reads the time: packets that are stamped until the next reading have it.
    #[inline]
    pub(crate) fn read(&mut self) {
        self.now_ns = self.begin_ns + self.begin.elapsed().as_nanos() as u64;
    }

    /// The next packet's stamp.
    #[inline]
    pub(crate) fn stamp(&mut self) -> Stamp {
        let stamp = Stamp { seq: self.next, time_ns: self.now_ns };
        self.next += 1;
        stamp
    }

    /// Hands out up to `max` packets that waited, and says how many. They get their numbers now, since other packets came
    /// in between.
    pub(crate) fn hand_out(
        &mut self,
        waiting: &mut Vec<Frame>,
        max: usize,
        frames: &mut Vec<Frame>,
    ) -> usize {
        let count = waiting.len().min(max);
        frames.extend(waiting.drain(..count).map(|mut frame| {
            frame.stamp = self.stamp();
            frame
        }));
        count
    }

    /// The time as it was read last.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many packets were stamped.
    pub(crate) fn stamped(&self) -> u64 {
        self.next
    }
}
