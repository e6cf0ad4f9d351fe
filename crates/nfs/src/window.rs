//! How much came in the last window of time, from two counters.

use zerocopy::{Immutable, IntoBytes};

/// A sliding window counter: what came in the current window, and in the one before it.
///
/// The windows of a flow follow each other from its first packet on. The estimate of what came in
/// the last `window_ns` weighs the previous window by the part of it that still lies within:
///
/// ```text
///      |<---- previous ---->|<---- current ...      estimate = current + previous (window - e) / window
///                  |<------- window ------>|
///                           |<---- e ----->| now
/// ```
///
/// (J. Desgats, *How we built rate limiting capable of scaling to millions of domains*, Cloudflare,
/// 2017.) Of the previous window anything between nothing and all may lie within the last
/// `window_ns`, so the estimate is above the exact count by at most `previous * (1 - e / window)`
/// and below it by at most `previous * e / window`; for even traffic it is right to within one
/// packet. All arithmetic is exact, on integers: nothing is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct SlidingCount {
    /// When the current window began, ns.
    pub start_ns: u64,
    /// What came in the window before it.
    pub previous: u64,
    /// What came in the current window.
    pub current: u64,
}

impl SlidingCount {
    /// Nothing came yet; the first window begins now.
    #[inline]
    pub(crate) fn starting_at(now_ns: u64) -> SlidingCount {
        SlidingCount { start_ns: now_ns, previous: 0, current: 0 }
    }

    /// Goes on to the window that `now_ns` is in. After a pause of a whole window, windows begin anew
    /// at `now_ns`, as for a flow not seen before.
    #[inline]
    pub(crate) fn roll(&mut self, now_ns: u64, window_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        if elapsed_ns < window_ns {
            return;
        }
        *self = if elapsed_ns - window_ns < window_ns {
            SlidingCount { start_ns: self.start_ns + window_ns, previous: self.current, current: 0 }
        } else {
            SlidingCount::starting_at(now_ns)
        };
    }

    /// Adds what came in the current window: call [`SlidingCount::roll`] before.
    #[inline]
    pub(crate) fn add(&mut self, amount: u64) {
        self.current = self.current.saturating_add(amount);
    }

    /// Goes on to the window that `now_ns` is in and adds what came, if the estimate is then at most `limit`; else nothing
    /// changes. Returns whether it did.
    #[inline]
    pub(crate) fn add_within(&mut self, amount: u64, limit: u64, now_ns: u64, window_ns: u64) -> bool {
        let current = self.current.saturating_add(amount);
        let is_within =
            self.has(now_ns, window_ns) && self.exceeds_throughout(limit, current, current) == Some(false);
        if is_within {
            self.current = current;
        }
        is_within || self.roll_and_add_within(amount, limit, now_ns, window_ns)
    }

    /// Adds what came within `limit` as [`SlidingCount::add_within`] does, for the few packets of which one window
    /// alone does not tell.
    #[inline(never)]
    fn roll_and_add_within(&mut self, amount: u64, limit: u64, now_ns: u64, window_ns: u64) -> bool {
        let mut count = *self;
        count.roll(now_ns, window_ns);
        count.add(amount);
        let is_within = !count.exceeds(limit, now_ns, window_ns);
        if is_within {
            *self = count;
        }
        is_within
    }

    /// Whether `now_ns` is in the current window.
    #[inline]
    pub(crate) fn has(&self, now_ns: u64, window_ns: u64) -> bool {
        now_ns.saturating_sub(self.start_ns) < window_ns
    }

    /// What [`SlidingCount::exceeds`] says all through a window in which the count goes from `first` to `last`, as far
    /// as that does not depend on when: yes if the window alone is above the limit, no if it is not with all of the one
    /// before.
    #[inline]
    pub(crate) fn exceeds_throughout(&self, limit: u64, first: u64, last: u64) -> Option<bool> {
        if first > limit {
            return Some(true);
        }
        self.previous.checked_add(last).is_some_and(|most| most <= limit).then_some(false)
    }

    /// Whether the estimate for the `window_ns` that end now is more than `limit`. A window is longer than nothing.
    #[inline]
    pub(crate) fn exceeds(&self, limit: u64, now_ns: u64, window_ns: u64) -> bool {
        if let Some(answer) = self.exceeds_throughout(limit, self.current, self.current) {
            return answer;
        }
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let remaining_ns = window_ns.saturating_sub(elapsed_ns);
        // All three multiplied by the window: u64 by u64 fits in u128, the sum of two may not.
        let previous = u128::from(self.previous) * u128::from(remaining_ns);
        let current = u128::from(self.current) * u128::from(window_ns);
        previous.saturating_add(current) > u128::from(limit) * u128::from(window_ns)
    }
}

#[cfg(test)]
mod tests;
