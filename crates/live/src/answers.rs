//! Answers to packets that the chain rejects, and to pings: how many may leave by an interface, and how many did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of packets that the chain rejected, and of pings that it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounters {
    /// TCP resets that were sent.
    pub resets: u64,
    /// ICMP errors that were sent.
    pub errors: u64,
    /// Echo replies that were sent.
    pub pings: u64,
    /// Packets that are not to be answered, such as errors.
    pub unanswerable: u64,
    /// Packets without an answer, as their interface had sent as many as it may.
    pub limited: u64,
}

impl AnswerCounters {
    pub(crate) fn plus(self, other: AnswerCounters) -> AnswerCounters {
        AnswerCounters {
            resets: self.resets + other.resets,
            errors: self.errors + other.errors,
            pings: self.pings + other.pings,
            unanswerable: self.unanswerable + other.unanswerable,
            limited: self.limited + other.limited,
        }
    }
}

/// How many answers may leave by each interface, whichever core sends them: a bucket of tokens that come at a rate.
#[derive(Clone, Debug)]
pub(crate) struct AnswerLimit {
    /// Between two tokens; 0 if none ever comes.
    interval_ns: u64,
    /// By interface: when the bucket is full again.
    full_at_ns: Arc<[AtomicU64]>,
}

impl AnswerLimit {
    /// As many as Linux has for its errors (`icmp_msgs_burst`).
    const BURST: u64 = 50;

    pub(crate) fn new(interfaces: usize, per_second: u32) -> AnswerLimit {
        let interval_ns = 1_000_000_000_u64.checked_div(per_second.into()).map_or(0, |ns| ns.max(1));
        AnswerLimit { interval_ns, full_at_ns: (0..interfaces).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether there is a token: a look alone, ahead of the work for which it is.
    #[inline]
    pub(crate) fn has_one(&self, interface: usize, now_ns: u64) -> bool {
        self.after_one(self.full_at_ns[interface].load(Ordering::Relaxed), now_ns).is_some()
    }

    /// Takes a token, if there is one still.
    pub(crate) fn take(&self, interface: usize, now_ns: u64) -> bool {
        let next = |full_at_ns| self.after_one(full_at_ns, now_ns);
        self.full_at_ns[interface].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// When the bucket is full again once a token was taken now; `None` if there is none. A clock that ran back brings no tokens.
    fn after_one(&self, full_at_ns: u64, now_ns: u64) -> Option<u64> {
        let next = full_at_ns.max(now_ns).checked_add(self.interval_ns)?;
        let is_there = next - now_ns <= self.interval_ns.saturating_mul(AnswerLimit::BURST);
        (self.interval_ns > 0 && is_there).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks once a tick of 0.1 ms for a second; returns how many tokens there were.
    fn second(limit: &AnswerLimit, interface: usize, from_ns: u64) -> usize {
        let ticks = (0..10_000).map(|tick| from_ns + tick * 100_000);
        ticks.filter(|now_ns| limit.has_one(interface, *now_ns) && limit.take(interface, *now_ns)).count()
    }

    #[test]
    fn answers_leave_at_a_rate_by_each_interface() {
        let limit = AnswerLimit::new(2, 1_000);
        // Of another core.
        let same = limit.clone();
        assert_eq!(second(&limit, 0, 5_000_000_000), 50 + 999, "the burst, and the rate");
        assert_eq!(second(&same, 0, 6_000_000_000), 1_000, "one bucket for all cores");
        assert_eq!(second(&same, 1, 6_000_000_000), 50 + 999, "another interface");
        assert_eq!(second(&AnswerLimit::new(1, 0), 0, 1), 0, "none at all");
        assert_eq!(second(&AnswerLimit::new(1, u32::MAX), 0, 1), 10_000, "as many as are asked for");
    }

    #[test]
    fn a_clock_that_runs_back_brings_no_answers() {
        let limit = AnswerLimit::new(1, 1_000);
        let times = [u64::MAX - 1, 5, 0, u64::MAX, 1, u64::MAX - 9];
        let taken = times.iter().cycle().take(6_000).filter(|now| limit.take(0, **now)).count();
        assert!(taken <= 50, "{taken}");
    }
}
