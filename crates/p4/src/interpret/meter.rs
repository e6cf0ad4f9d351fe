//! Two-rate three-colour markers, colour-blind (RFC 2698).

/// A marker's rates in units per second, and its buckets in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Committed rate.
    pub committed: u64,
    /// Committed burst.
    pub committed_burst: u64,
    /// Peak rate.
    pub peak: u64,
    /// Peak burst.
    pub peak_burst: u64,
}

/// A marker: a packet takes tokens of its buckets. Tokens are counted in billionths, so that no fraction is lost between packets.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    rates: Rates,
    committed: u128,
    peak: u128,
    seen_ns: u64,
}

const BILLION: u128 = 1_000_000_000;

impl Marker {
    /// With full buckets.
    pub fn new(rates: Rates) -> Marker {
        let full = |burst: u64| u128::from(burst) * BILLION;
        Marker { rates, committed: full(rates.committed_burst), peak: full(rates.peak_burst), seen_ns: 0 }
    }

    /// Its tokens and when it was last asked, as words.
    pub fn memory(&self) -> [u64; 5] {
        let low = |tokens: u128| tokens as u64;
        let high = |tokens: u128| (tokens >> 64) as u64;
        [low(self.committed), high(self.committed), low(self.peak), high(self.peak), self.seen_ns]
    }

    /// A marker of these rates with the tokens that [`memory`](Marker::memory) gave.
    pub fn remembering(&self, memory: [u64; 5]) -> Marker {
        let [low, high, peak_low, peak_high, seen_ns] = memory;
        let tokens = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        Marker { rates: self.rates, committed: tokens(low, high), peak: tokens(peak_low, peak_high), seen_ns }
    }

    /// The colour of a packet of so many units: 0 green, 1 yellow, 2 red.
    pub fn mark(&mut self, units: u64, time_ns: u64) -> u128 {
        let passed = u128::from(time_ns.saturating_sub(self.seen_ns));
        self.seen_ns = self.seen_ns.max(time_ns);
        let filled = |tokens: u128, rate: u64, burst: u64| {
            (tokens + passed * u128::from(rate)).min(u128::from(burst) * BILLION)
        };
        self.committed = filled(self.committed, self.rates.committed, self.rates.committed_burst);
        self.peak = filled(self.peak, self.rates.peak, self.rates.peak_burst);
        let cost = u128::from(units) * BILLION;
        if self.peak < cost {
            return 2;
        }
        self.peak -= cost;
        if self.committed < cost {
            return 1;
        }
        self.committed -= cost;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn green_then_yellow_then_red() {
        let rates = Rates { committed: 1, committed_burst: 2, peak: 2, peak_burst: 3 };
        let mut marker = Marker::new(rates);
        assert_eq!([0; 4].map(|_: i32| marker.mark(1, 0)), [0, 0, 1, 2]);
        // After a second: one token of the committed rate, two of the peak rate.
        assert_eq!([0; 3].map(|_: i32| marker.mark(1, 1_000_000_000)), [0, 1, 2]);
    }
}
