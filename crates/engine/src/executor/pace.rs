//! The speed at which a capture's time goes by.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// How fast a capture's time goes by: 1 is its own time, 10 ten times as fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(f64);

/// The slowest speed, and one over the fastest: a day for a minute and a half, or the other way round.
const SLOWEST: f64 = 0.001;

/// A speed that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a speed is a number from 0.001 to 1000: 1 is the capture's own time, 10 ten times as fast")]
pub struct SpeedError;

impl Speed {
    /// `times` as fast as the capture.
    ///
    /// # Errors
    /// [`SpeedError`] if it is not 0.001 to 1000.
    pub fn new(times: f64) -> Result<Speed, SpeedError> {
        (SLOWEST..=1.0 / SLOWEST).contains(&times).then_some(Speed(times)).ok_or(SpeedError)
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Speed, SpeedError> {
        Speed::new(text.parse().map_err(|_| SpeedError)?)
    }
}

/// When each packet of a capture is due.
pub(crate) struct Pace {
    speed: Speed,
    /// When the first packet came, and its time in the capture, ns.
    begin: Option<(Instant, u64)>,
}

/// The longest time without a look whether waiting still makes sense.
const NAP: Duration = Duration::from_millis(20);

impl Pace {
    pub(crate) fn new(speed: Speed) -> Pace {
        Pace { speed, begin: None }
    }

    /// Waits until a packet of this time is due, or until `is_over`.
    pub(crate) fn wait_for(&mut self, time_ns: u64, is_over: impl Fn() -> bool) {
        let due = self.due(time_ns, Instant::now());
        loop {
            let left = due.map_or(NAP, |due| due.saturating_duration_since(Instant::now()));
            if left.is_zero() || is_over() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// When a packet of this time is due; the first is due `now`. `None` for the end of days.
    fn due(&mut self, time_ns: u64, now: Instant) -> Option<Instant> {
        let (begin, first_ns) = *self.begin.get_or_insert((now, time_ns));
        // A packet from before the first comes at once.
        let seconds = time_ns.saturating_sub(first_ns) as f64 / 1e9 / self.speed.0;
        begin.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn packets_are_due_in_the_captures_time() {
        let now = Instant::now();
        let after = |seconds| Some(now + Duration::from_secs_f64(seconds));
        for (speed, expected) in [(1.0, 3.0), (2.0, 1.5), (0.5, 6.0), (1000.0, 0.003)] {
            let mut pace = Pace::new(Speed::new(speed).expect("a speed"));
            let first_ns = 1_700_000_000 * SECOND_NS;
            assert_eq!(pace.due(first_ns, now), after(0.0));
            // However late it is asked.
            let later = now + Duration::from_secs(2);
            assert_eq!(pace.due(first_ns + 3 * SECOND_NS, later), after(expected));
            assert_eq!(pace.due(first_ns - SECOND_NS, later), after(0.0), "time ran back");
        }
    }

    #[test]
    fn waiting_ends_when_the_run_does() {
        let mut pace = Pace::new(Speed::new(SLOWEST).expect("a speed"));
        pace.wait_for(0, || false);
        pace.wait_for(u64::MAX, || true);
    }

    #[test]
    fn speeds_are_numbers_in_their_range() {
        assert_eq!("2.5".parse(), Ok(Speed(2.5)));
        for text in ["", "x", "0", "-1", "0.0009", "1001", "inf", "NaN"] {
            assert_eq!(text.parse::<Speed>(), Err(SpeedError), "{text}");
        }
    }
}
