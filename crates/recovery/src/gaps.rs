//! Counts missed items on a core where nothing is recovered.

use std::ops::Range;

/// A core's count of what it misses where nothing is recovered: its replica may then differ from the others.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    next: u64,
    missed: u64,
}

impl Gaps {
    /// Takes a packet's items, of the sequence numbers in `range`: says which of them are to be stepped, which
    /// are those that have not been. What lies between these and the ones before is missed for good.
    #[inline]
    pub fn arrive(&mut self, range: Range<u64>) -> Range<u64> {
        let from = range.start.max(self.next);
        if from >= range.end {
            return from..from;
        }
        self.missed += from - self.next;
        self.next = range.end;
        from..range.end
    }

    /// How many items were missed.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether the replica may differ from others, which may have got what it missed.
    pub fn is_divergent(&self) -> bool {
        self.missed > 0
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// By hand, with three items a packet: 3..6 come twice, 6 and 7 never.
    #[test]
    fn what_is_missed_is_counted_and_nothing_is_stepped_twice() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.arrive(0..3), 0..3);
        assert_eq!(gaps.arrive(2..6), 3..6);
        assert_eq!((gaps.missed(), gaps.is_divergent()), (0, false));
        assert!(gaps.arrive(3..6).is_empty());
        assert!(gaps.arrive(9..9).is_empty());
        assert_eq!(gaps.arrive(8..11), 8..11);
        assert_eq!((gaps.missed(), gaps.is_divergent()), (2, true));
        assert_eq!(gaps.arrive(10..12), 11..12);
        assert_eq!(gaps.missed(), 2);
    }
}
