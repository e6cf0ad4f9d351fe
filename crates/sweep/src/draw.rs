//! Random numbers from a seed.

use nf::hash_bytes;

/// Draws numbers that look random and are the same again for the same seed.
#[derive(Clone, Debug)]
pub struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    /// From a seed.
    pub fn new(seed: u64) -> Draw {
        Draw { seed, drawn: 0 }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        hash_bytes(&self.drawn.to_le_bytes(), self.seed) % end
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// True so many times of so many.
    pub fn hits(&mut self, many: u64, of: u64) -> bool {
        self.below(of) < many
    }
}
