use std::thread;
use std::time::Duration;

use crossbeam_utils::Backoff;

/// How long a waiting thread sleeps once spinning and yielding have not helped. A ring holds about a
/// millisecond's packets at a million a second, so nothing runs empty meanwhile.
const NAP: Duration = Duration::from_micros(50);

/// Waiting for another thread: spins first, then yields, then sleeps, so that more threads than
/// processors do not keep each other from working.
#[derive(Debug, Default)]
pub struct Waiting(Backoff);

impl Waiting {
    /// Waits a moment, longer each time.
    #[inline]
    pub fn wait(&self) {
        match self.0.is_completed() {
            true => thread::sleep(NAP),
            false => self.0.snooze(),
        }
    }

    /// Whether spinning and yielding have not helped: the next wait would sleep.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.0.is_completed()
    }

    /// What was waited for has come: the next wait begins short.
    #[inline]
    pub fn over(&self) {
        self.0.reset();
    }
}
