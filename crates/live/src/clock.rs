//! The clock of a live port: stamps that never run back, from the time of day at start and the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use io::{Frame, StampClock};
use wire::Stamp;

/// Gives packets their stamps: numbers without gaps, and a time that never runs back, whatever is done to the machine's
/// clock meanwhile. It begins at the time of day.
///
/// Cores with ports of their own have a clock each that tell the same time. Numbers are without gaps over all of them, and
/// those of one core ascend.
#[derive(Debug)]
pub(crate) struct Clock {
    begin: Instant,
    begin_ns: u64,
    next: u64,
    now_ns: u64,
    /// The next number of all cores, where there are several.
    common: Option<Arc<AtomicU64>>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let begin_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Clock { begin: Instant::now(), begin_ns, next: 0, now_ns: begin_ns, common: None }
    }

    /// For each of several cores.
    pub(crate) fn for_cores(cores: usize) -> Vec<Clock> {
        let common = (cores > 1).then(Arc::<AtomicU64>::default);
        let Clock { begin, begin_ns, now_ns, .. } = Clock::new();
        (0..cores).map(|_| Clock { begin, begin_ns, next: 0, now_ns, common: common.clone() }).collect()
    }

    /// Numbers packets that were just stamped among those of all cores, once a batch.
    #[inline]
    pub(crate) fn number(&self, frames: &mut [Frame]) {
        if let Some(common) = &self.common {
            let first = common.fetch_add(frames.len() as u64, Ordering::Relaxed);
            (first..).zip(frames).for_each(|(number, frame)| frame.stamp.seq = number);
        }
    }

    /// Takes back the numbers of so many packets that were stamped just now, of which these are left.
    #[cold]
    pub(crate) fn take_back(&mut self, gone: usize, left: &mut [Frame]) {
        self.next -= gone as u64;
        let first = self.next - left.len() as u64;
        (first..).zip(left).for_each(|(number, frame)| frame.stamp.seq = number);
    }

    /// A clock that tells how long packets have waited since their stamps.
    pub(crate) fn of_stamps(&self) -> StampClock {
        StampClock::new(self.begin, self.begin_ns)
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

    /// How many packets were stamped here.
    pub(crate) fn stamped(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use io::Pool;
    use wire::LinkType;

    use super::*;

    #[test]
    fn numbers_of_two_cores_have_no_gap_and_none_is_given_twice() {
        let mut pool = Pool::new(64, 60);
        let mut clocks = Clock::for_cores(2);
        let mut all = Vec::new();
        for (core, count) in [(0, 3), (1, 5), (1, 1), (0, 2)] {
            let clock = &mut clocks[core];
            clock.read();
            let mut frames: Vec<Frame> = (0..count)
                .map(|_| pool.fill(clock.stamp(), LinkType::Ethernet, 60, &[0; 60]).expect("room"))
                .collect();
            clock.number(&mut frames);
            all.extend(frames.iter().map(|frame| frame.stamp.seq));
            pool.give_back(frames.into_iter());
        }
        assert_eq!(all, (0..11).collect::<Vec<_>>());
        assert_eq!((clocks[0].stamped(), clocks[1].stamped()), (5, 6));
    }
}
