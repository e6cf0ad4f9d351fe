//! The clock by which packets get their times where they arrive.

use std::time::Instant;

/// Tells the time as packets' stamps have it, where they get it as they arrive.
#[derive(Clone, Copy, Debug)]
pub struct StampClock {
    begin: Instant,
    begin_ns: u64,
}

impl StampClock {
    /// At `begin` it was `begin_ns`, ns since 1970.
    pub fn new(begin: Instant, begin_ns: u64) -> StampClock {
        StampClock { begin, begin_ns }
    }

    /// How long a packet that was stamped with `time_ns` had waited by then, ns.
    #[inline]
    pub fn waited_ns(&self, time_ns: u64, until: Instant) -> u64 {
        let now_ns = self.begin_ns + until.saturating_duration_since(self.begin).as_nanos() as u64;
        now_ns.saturating_sub(time_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_is_from_the_stamp_on_and_never_negative() {
        let begin = Instant::now();
        let clock = StampClock::new(begin, 1_000);
        let waited = |time_ns, after| clock.waited_ns(time_ns, begin + Duration::from_nanos(after));
        assert_eq!((waited(1_000, 0), waited(1_200, 500), waited(1_600, 500)), (0, 300, 0));
    }
}
