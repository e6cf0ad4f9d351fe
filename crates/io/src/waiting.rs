//! Waiting for another thread: spin, yield, sleep.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use crossbeam_utils::Backoff;

use crate::simulation::give_turn;

/// How long a waiting thread sleeps once spinning and yielding have not helped, at most. A ring holds about a
/// millisecond's packets at a million a second, so nothing runs empty meanwhile.
const NAP: Duration = Duration::from_micros(50);

/// How long the first time. Each time after that it is twice as long.
const FIRST_NAP: Duration = Duration::from_micros(5);

/// Waiting for another thread: spins first, then yields, then sleeps, so that more threads than
/// processors do not keep each other from working. In a [`Simulation`](crate::Simulation) another task goes on.
#[derive(Debug, Default)]
pub struct Waiting {
    backoff: Backoff,
    /// How long the last nap was.
    nap: Cell<Duration>,
}

impl Waiting {
    /// Waits a moment, longer each time.
    #[inline]
    pub fn wait(&self) {
        if give_turn() {
            return;
        }
        match self.backoff.is_completed() {
            true => {
                self.nap.set((2 * self.nap.get()).clamp(FIRST_NAP, NAP));
                thread::sleep(self.nap.get());
            }
            false => self.backoff.snooze(),
        }
    }

    /// Whether spinning and yielding have not helped: the next wait would sleep.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.backoff.is_completed()
    }

    /// What was waited for has come: the next wait begins short.
    #[inline]
    pub fn over(&self) {
        self.backoff.reset();
        self.nap.set(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_become_longer_until_what_is_waited_for_has_come() {
        let waiting = Waiting::default();
        (0..1_000).take_while(|_| !waiting.is_long()).for_each(|_| waiting.wait());
        let nap = || {
            waiting.wait();
            waiting.nap.get().as_micros()
        };
        assert_eq!([nap(), nap(), nap(), nap(), nap(), nap()], [5, 10, 20, 40, 50, 50]);
        waiting.over();
        (0..1_000).take_while(|_| !waiting.is_long()).for_each(|_| waiting.wait());
        assert_eq!(nap(), 5);
    }
}
