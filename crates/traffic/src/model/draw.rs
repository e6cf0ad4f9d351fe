//! Chance, the same on every machine: whole numbers by a hash of a count.

use nf::hash_bytes;

/// What a stream of draws is for. Streams of one seed have nothing to do with each other, so that one more
/// draw in one of them changes no other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    /// Which flow a packet is of.
    Flow,
    /// How long a train is.
    Train,
    /// How long a frame is.
    Size,
    /// How big the connections are.
    Connection,
    /// When they begin.
    Start,
    /// When their next packet comes.
    Pace,
    /// Whether the attack or the others send.
    Turn,
    /// Who attacks.
    Attack,
}

/// A stream of draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice {
    seed: u64,
    draws: u64,
}

impl Dice {
    pub fn new(seed: u64, stream: Stream) -> Dice {
        // The first stream has the plain seed.
        let seed = match stream {
            Stream::Flow => seed,
            other => hash_bytes(&(other as u64).to_le_bytes(), seed),
        };
        Dice { seed, draws: 0 }
    }

    /// Draw number `number`, whichever were made before.
    pub fn at(&self, number: u64) -> u64 {
        hash_bytes(&number.to_le_bytes(), self.seed)
    }

    /// The next draw.
    pub fn next(&mut self) -> u64 {
        let draw = self.at(self.draws);
        self.draws += 1;
        draw
    }

    /// A number below `end`, each as likely to within 2 to the power of minus 64; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// How long until what comes after `mean` on the average, and at any time as likely (exponential).
    pub fn wait(&mut self, mean: u64) -> u64 {
        // Above 0 and at most 1. The logarithm is one in software: the same on every machine.
        let point = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (mean as f64 * -libm::log(point)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_streams_differ() {
        let mut dice = Dice::new(1, Stream::Train);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[dice.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "1,000 expected: {counts:?}");
        assert_ne!(Dice::new(1, Stream::Size).next(), Dice::new(1, Stream::Train).next());
        assert_ne!(Dice::new(1, Stream::Size).next(), Dice::new(2, Stream::Size).next());
        assert_eq!(dice.below(0), 0);
    }

    #[test]
    fn waits_are_exponential() {
        let mut dice = Dice::new(1, Stream::Pace);
        let waits: Vec<u64> = (0..10_000).map(|_| dice.wait(1_000)).collect();
        let mean = waits.iter().sum::<u64>() / 10_000;
        assert!((970..1_030).contains(&mean), "{mean}");
        // 1 - 1/e of them are below the mean.
        let below = waits.iter().filter(|wait| **wait < 1_000).count();
        assert!((6_200..6_440).contains(&below), "{below}");
        assert_eq!(dice.wait(0), 0);
    }
}
