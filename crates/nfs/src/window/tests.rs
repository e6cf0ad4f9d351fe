//! Tests of sliding counts, against a log of all that came.

use proptest::prelude::*;

use super::*;
use crate::test_util::{Log, arrivals, ms};

#[test]
fn counts_that_leave_64_bits_saturate_upwards() {
    let full = SlidingCount { start_ns: 0, previous: u64::MAX, current: u64::MAX };
    assert!(full.exceeds(u64::MAX, 0, u64::MAX));
    let mut sum = full;
    sum.add(1);
    assert_eq!(sum, full);
    // A window that is never over: only one, from the first packet on.
    sum.roll(u64::MAX - 1, u64::MAX);
    assert_eq!(sum, full);
    sum.roll(u64::MAX, 1);
    assert_eq!(sum, SlidingCount::starting_at(u64::MAX));
}

#[test]
fn a_clock_that_stepped_back_ends_no_window() {
    let mut count = SlidingCount { start_ns: 500, previous: 3, current: 2 };
    count.roll(400, 100);
    assert_eq!(count, SlidingCount { start_ns: 500, previous: 3, current: 2 });
    assert!(count.exceeds(4, 400, 100) && !count.exceeds(5, 400, 100));
}

proptest! {
    /// Against a log of all that came; and the bounds on the error that the type's page gives.
    #[test]
    fn agrees_with_a_log_and_errs_by_no_more_than_it_says(
        times in arrivals(), window in 1_u64..60, limit in 1_u64..2000, amounts: [u16; 8],
    ) {
        let window_ns = ms(window);
        let mut count = SlidingCount::starting_at(times[0]);
        let mut log = Log::new(window_ns);
        for (i, &now_ns) in times.iter().enumerate() {
            let amount = u64::from(amounts[i % 8] % 500);
            count.roll(now_ns, window_ns);
            count.add(amount);
            log.add(now_ns, amount);
            let estimate = log.estimate_by_window(now_ns);
            prop_assert_eq!(count.exceeds(limit, now_ns, window_ns), estimate > limit * window_ns);

            let exact = log.between((now_ns + 1).saturating_sub(window_ns), u64::MAX) * window_ns;
            let elapsed_ns = log.elapsed_ns(now_ns);
            prop_assert!(estimate <= exact + log.previous() * (window_ns - elapsed_ns));
            prop_assert!(estimate + log.previous() * elapsed_ns >= exact);
        }
    }
}
