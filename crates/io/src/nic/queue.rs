//! The receive queue of a simulated card: descriptors, and drops where none is free.

use std::collections::VecDeque;
use std::ops::Range;

/// Receive descriptors and what waits in them: a first-in, first-out queue that drops at its tail.
///
/// Arrivals go by their position in the order in which they come to this queue.
pub(super) struct Queue {
    /// The number of each arrival among those to all queues, ascending.
    arrivals: Vec<u32>,
    descriptors: usize,
    /// Arrivals so far, dropped or not.
    arrived: usize,
    /// What waits, as runs without a gap; between two runs arrivals were dropped.
    waiting: VecDeque<Range<usize>>,
    outstanding: usize,
    dropped: u64,
}

/// Runs for which there is room from the beginning: as many as the descriptors of most cards.
const RUNS: usize = 4096;

impl Queue {
    pub(super) fn new(arrivals: Vec<u32>, descriptors: usize) -> Queue {
        let waiting = VecDeque::with_capacity(descriptors.min(RUNS));
        Queue { arrivals, descriptors, arrived: 0, waiting, outstanding: 0, dropped: 0 }
    }

    /// Takes in what has arrived since the last call: those for which `is_due`, which holds for the first
    /// so many. Nothing was taken out meanwhile, so the first of them found the descriptors that were
    /// free, and the others none. O(log of how many).
    #[inline]
    pub(super) fn arrive(&mut self, is_due: impl Fn(u32) -> bool) {
        let due = count_first(&self.arrivals[self.arrived..], is_due);
        let accepted = due.min(self.descriptors - self.outstanding);
        let run = self.arrived..self.arrived + accepted;
        match self.waiting.back_mut() {
            _ if accepted == 0 => {}
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.waiting.push_back(run),
        }
        self.outstanding += accepted;
        self.dropped += (due - accepted) as u64;
        self.arrived += due;
    }

    /// Takes out the next up to `max`, as positions; `None` where nothing waits or `max` is 0.
    #[inline]
    pub(super) fn take(&mut self, max: usize) -> Option<Range<usize>> {
        let first = self.waiting.front_mut().filter(|_| max > 0)?;
        let taken = first.start..first.end.min(first.start + max);
        match taken.end == first.end {
            true => drop(self.waiting.pop_front()),
            false => first.start = taken.end,
        }
        self.outstanding -= taken.len();
        Some(taken)
    }

    #[inline]
    pub(super) fn arrivals(&self) -> &[u32] {
        &self.arrivals
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether nothing waits and nothing more will come.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.outstanding == 0 && self.arrived == self.arrivals.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outstanding == 0
    }

    /// The first position that still waits or is yet to arrive: all before it were taken out or dropped.
    #[inline]
    pub(super) fn consumed(&self) -> usize {
        self.waiting.front().map_or(self.arrived, |run| run.start)
    }

    /// The number of the next that arrives.
    pub(super) fn next(&self) -> Option<u32> {
        self.arrivals.get(self.arrived).copied()
    }
}

/// How many at the front `hold`, where none does behind one that does not: in steps that double, then by
/// halves, so that a few among millions are found in a few steps.
#[inline]
fn count_first(numbers: &[u32], hold: impl Fn(u32) -> bool) -> usize {
    let mut bound = 1;
    while bound <= numbers.len() && hold(numbers[bound - 1]) {
        bound *= 2;
    }
    let first = bound / 2;
    first + numbers[first..numbers.len().min(bound)].partition_point(|number| hold(*number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Event by event, as a card does it: each arrival asks for a descriptor.
    #[derive(Default)]
    struct Plain {
        waiting: VecDeque<usize>,
        next: usize,
        dropped: u64,
    }

    impl Plain {
        fn arrive(&mut self, arrivals: &[u32], due: u32, descriptors: usize) {
            while self.next < arrivals.len() && arrivals[self.next] < due {
                match self.waiting.len() < descriptors {
                    true => self.waiting.push_back(self.next),
                    false => self.dropped += 1,
                }
                self.next += 1;
            }
        }

        fn take(&mut self, max: usize) -> Vec<usize> {
            self.waiting.drain(..max.min(self.waiting.len())).collect()
        }

        fn consumed(&self) -> usize {
            self.waiting.front().copied().unwrap_or(self.next)
        }
    }

    fn take_all(queue: &mut Queue, mut max: usize) -> Vec<usize> {
        let mut all = Vec::new();
        while let Some(run) = queue.take(max) {
            max -= run.len();
            all.extend(run);
        }
        all
    }

    proptest! {
        #[test]
        fn it_drops_what_a_card_drops(
            gaps in proptest::collection::vec(1u32..4, 0..300),
            descriptors in 1usize..12,
            receives in proptest::collection::vec((0u32..30, 0usize..9), 0..100),
        ) {
            let arrivals: Vec<u32> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut queue = Queue::new(arrivals.clone(), descriptors);
            let mut plain = Plain::default();
            let mut due = 0;
            for (later, max) in receives {
                due += later;
                queue.arrive(|number| number < due);
                plain.arrive(&arrivals, due, descriptors);
                prop_assert_eq!(queue.consumed(), plain.consumed());
                prop_assert_eq!(take_all(&mut queue, max), plain.take(max));
                prop_assert_eq!(queue.dropped(), plain.dropped);
                prop_assert_eq!(queue.consumed(), plain.consumed());
                prop_assert_eq!(queue.next(), arrivals.get(plain.next).copied());
                prop_assert_eq!(queue.is_empty(), plain.waiting.is_empty());
            }
        }

        #[test]
        fn the_first_that_hold_are_counted(numbers in proptest::collection::btree_set(0u32..500, 0..200), due in 0u32..600) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let plain = numbers.iter().filter(|number| **number < due).count();
            prop_assert_eq!(count_first(&numbers, |number| number < due), plain);
        }
    }

    /// Two descriptors, arrivals at 0, 1, 2, ... 7. At 3: 0 and 1 wait, 2 and 3 were dropped. One is taken,
    /// so that of 4 and 5 one finds room.
    #[test]
    fn two_descriptors_by_hand() {
        let mut queue = Queue::new((0..8).collect(), 2);
        queue.arrive(|number| number <= 3);
        assert_eq!((queue.dropped(), queue.consumed()), (2, 0));
        assert_eq!(queue.take(1), Some(0..1));
        queue.arrive(|number| number <= 5);
        assert_eq!((queue.dropped(), queue.consumed()), (3, 1));
        assert_eq!(queue.take(8), Some(1..2), "a run ends where something was dropped");
        assert_eq!(queue.consumed(), 4);
        assert_eq!(queue.take(8), Some(4..5));
        assert_eq!((queue.take(8), queue.consumed(), queue.is_over()), (None, 6, false));
        queue.arrive(|_| true);
        assert_eq!((queue.take(8), queue.dropped(), queue.is_over()), (Some(6..8), 3, true));
    }
}
