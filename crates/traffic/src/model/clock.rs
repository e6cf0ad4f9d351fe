//! When the packets of a generated trace leave.

use super::draw::{Dice, Stream};

/// When packets leave: trains of some packets, the next train so much later that the mean time between
/// packets is kept.
pub(super) struct Clock {
    gap_ns: u64,
    burst: u64,
    dice: Dice,
    packets: u64,
    /// When the train at hand began, and how many packets of it there were.
    train: (u64, u64),
}

/// Packets of a train follow each other in this part of the mean time.
const TRAIN_PACE: u64 = 10;

impl Clock {
    pub fn new(gap_ns: u64, burst: u32, seed: u64) -> Clock {
        Clock {
            gap_ns,
            burst: u64::from(burst),
            dice: Dice::new(seed, Stream::Train),
            packets: 0,
            train: (0, 0),
        }
    }

    /// Begins a train and says how many packets it should have, at least 1: a geometric distribution whose mean
    /// is the burst. A flow that ends sooner ends the train.
    pub fn train(&mut self) -> u64 {
        self.train = (self.packets * self.gap_ns, 0);
        let mut length = 1;
        while self.burst > 1 && self.dice.below(self.burst) > 0 {
            length += 1;
        }
        length
    }

    /// When the next packet of the train leaves, ns from the beginning of the trace.
    pub fn tick(&mut self) -> u64 {
        let (begin_ns, sent) = self.train;
        self.train.1 += 1;
        self.packets += 1;
        begin_ns + sent * self.gap_ns / TRAIN_PACE
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(burst: u32, trains: usize) -> Vec<Vec<u64>> {
        let mut clock = Clock::new(100, burst, 1);
        (0..trains).map(|_| (0..clock.train()).map(|_| clock.tick()).collect()).collect()
    }

    #[test]
    fn packets_that_are_no_trains_come_evenly() {
        assert_eq!(times(1, 4), [[0], [100], [200], [300]]);
    }

    #[test]
    fn trains_have_their_mean_length_and_keep_the_mean_gap() {
        let trains = times(8, 2_000);
        let packets: usize = trains.iter().map(Vec::len).sum();
        assert!((15_000..17_000).contains(&packets), "16,000 expected: {packets}");
        // A train begins when its first packet would have come one by one.
        let mut before = 0;
        for train in &trains {
            assert_eq!(train[0], before as u64 * 100);
            assert!(train.windows(2).all(|pair| pair[1] - pair[0] == 10));
            before += train.len();
        }
    }
}
