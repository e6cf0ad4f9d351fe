//! One waiting time for many flows, with two clocks: RAPID Fig. 7.

/// Flows wait equally long and so are due in the order in which they began. It is enough to know how long the
/// first one still waits, and by how much each follows the one before it.
#[derive(Clone, Debug)]
pub struct Timers {
    /// T, in heartbeats.
    wait: u32,
    /// D.clk: what the first flow still waits.
    decrease: u32,
    /// I.clk: heartbeats since the last flow began, T at most.
    increase: u32,
}

impl Timers {
    /// Clocks for flows that wait for `wait` heartbeats.
    pub fn new(wait: u32) -> Timers {
        Timers { wait, decrease: 0, increase: wait }
    }

    /// A flow begins to wait; `is_first` if no other does. Returns its offset: by how much it follows the flow before.
    pub fn start(&mut self, is_first: bool) -> u32 {
        let offset = if is_first { self.wait } else { self.increase };
        if is_first {
            self.decrease = self.wait;
        }
        self.increase = 0;
        offset
    }

    /// A heartbeat came.
    #[inline]
    pub fn beat(&mut self) {
        self.decrease = self.decrease.saturating_sub(1);
        self.increase = (self.increase + 1).min(self.wait);
    }

    /// Whether the first flow has waited long enough; if there is one.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.decrease == 0
    }

    /// D.clk and I.clk.
    pub fn clocks(&self) -> [u64; 2] {
        [self.decrease.into(), self.increase.into()]
    }

    /// The first flow is gone, and the one with this offset is first.
    pub fn next(&mut self, offset: u32) {
        self.decrease = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// As in Fig. 7: f2 begins Δ cycles after f1, and is due Δ cycles after it.
    #[test]
    fn the_example_of_the_paper() {
        let mut timers = Timers::new(10);
        assert_eq!(timers.start(true), 10);
        (0..4).for_each(|_| timers.beat());
        let delta = timers.start(false);
        assert_eq!(delta, 4);
        (0..6).for_each(|_| timers.beat());
        assert!(timers.is_due());
        timers.next(delta);
        (0..3).for_each(|_| timers.beat());
        assert!(!timers.is_due());
        timers.beat();
        assert!(timers.is_due());
    }

    /// By turn, whether the first flow is due: of the clocks, and of a timer for each flow.
    fn both(wait: u32, turns: &[(bool, bool)]) -> Vec<(bool, bool)> {
        let mut timers = Timers::new(wait);
        let mut offsets: VecDeque<u32> = VecDeque::new();
        let mut waiting: VecDeque<u32> = VecDeque::new();
        let mut dues = Vec::new();
        for &(begins, beats) in turns {
            if begins {
                offsets.push_back(timers.start(offsets.is_empty()));
                waiting.push_back(wait);
            }
            if beats {
                timers.beat();
                waiting.iter_mut().for_each(|left| *left = left.saturating_sub(1));
            }
            let due = !offsets.is_empty() && timers.is_due();
            dues.push((due, waiting.front() == Some(&0)));
            if due {
                waiting.pop_front();
                offsets.pop_front();
                if let Some(offset) = offsets.front() {
                    timers.next(*offset);
                }
            }
        }
        dues
    }

    proptest! {
        #[test]
        fn two_clocks_are_as_good_as_many(
            wait in 1_u32..30, begins in prop::collection::vec(any::<bool>(), 1..400),
        ) {
            let turns: Vec<_> = begins.into_iter().map(|begins| (begins, true)).collect();
            for (due, right) in both(wait, &turns) {
                prop_assert_eq!(due, right);
            }
        }

        /// Where heartbeats fail to come several flows are due at once, and one in each cycle goes: they may be
        /// late then, and never early.
        #[test]
        fn without_heartbeats_nobody_is_early(
            wait in 1_u32..30, turns in prop::collection::vec((any::<bool>(), any::<bool>()), 1..400),
        ) {
            for (due, right) in both(wait, &turns) {
                prop_assert!(!due || right);
            }
        }
    }
}
