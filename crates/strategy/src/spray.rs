//! Sprays packets over cores in turn.

use wire::Headers;

use crate::Assign;

/// Packets go to the cores in turn, whatever flows they are of (SCR §4.1, the baseline that shares state).
#[derive(Clone, Copy, Debug)]
pub struct Spray {
    cores: usize,
    next: usize,
}

impl Spray {
    /// The first packet goes to core 0.
    ///
    /// # Panics
    /// If `cores` is 0.
    pub fn new(cores: usize) -> Spray {
        assert!(cores > 0, "no cores");
        Spray { cores, next: 0 }
    }
}

impl Assign for Spray {
    fn entry(&self, _: &Headers) -> u16 {
        0
    }

    #[inline]
    fn core(&mut self, _: u16) -> usize {
        let core = self.next;
        self.next = if core + 1 == self.cores { 0 } else { core + 1 };
        core
    }

    fn reads_headers(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_its_turn() {
        let mut spray = Spray::new(3);
        let entry = spray.entry(&Headers::default());
        assert_eq!(entry, 0, "nothing is hashed");
        assert_eq!([(); 7].map(|()| spray.core(entry)), [0, 1, 2, 0, 1, 2, 0]);
        assert!(!spray.reads_headers());
        assert_eq!([(); 2].map(|()| Spray::new(1).core(entry)), [0, 0]);
    }
}
