//! A set of cores, one bit for each.

use std::fmt;

/// Cores that share logs, at most: one bit stands for each.
pub const MAX_CORES: usize = 64;

/// A set of cores.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Cores(u64);

impl Cores {
    /// No core.
    pub const NONE: Cores = Cores(0);

    /// The first `many` cores.
    ///
    /// # Panics
    /// If that is more than [`MAX_CORES`].
    pub fn all(many: usize) -> Cores {
        assert!(many <= MAX_CORES, "{many} cores, and at most {MAX_CORES} share logs");
        (0..many).collect()
    }

    /// This set and one more core.
    ///
    /// # Panics
    /// If the core's number is not below [`MAX_CORES`]; so do the others.
    #[must_use]
    pub fn with(self, core: usize) -> Cores {
        Cores(self.0 | Cores::bit(core))
    }

    /// This set without a core.
    #[must_use]
    pub fn without(self, core: usize) -> Cores {
        Cores(self.0 & !Cores::bit(core))
    }

    /// Whether a core is in the set.
    pub fn contains(self, core: usize) -> bool {
        self.0 & Cores::bit(core) != 0
    }

    /// Whether no core is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set's cores, from the lowest number up.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_CORES).filter(move |core| self.contains(*core))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Cores {
        Cores(bits)
    }

    fn bit(core: usize) -> u64 {
        assert!(core < MAX_CORES, "core {core}, and at most {MAX_CORES} share logs");
        1 << core
    }
}

impl FromIterator<usize> for Cores {
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Cores {
        cores.into_iter().fold(Cores::NONE, Cores::with)
    }
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
