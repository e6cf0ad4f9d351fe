//! What a core counts of flows that come and go, and what its strategy counts beside that.

/// What moved between cores with its flows, as one core saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Units that came to this core: entries of the indirection table, shards, or values of the hash.
    pub entries_in: u64,
    /// Units that went to another core, or to all.
    pub entries_out: u64,
    /// Packets that wait here now for a unit which is on its way.
    pub held_packets: u64,
    /// Packets that had to wait so far, those included.
    pub waited_packets: u64,
    /// What the strategy counts of its own.
    pub own: OwnCounters,
}

impl Moves {
    /// The sum of two cores' counts, or of two runs'.
    pub fn plus(self, other: Moves) -> Moves {
        Moves {
            entries_in: self.entries_in + other.entries_in,
            entries_out: self.entries_out + other.entries_out,
            held_packets: self.held_packets + other.held_packets,
            waited_packets: self.waited_packets + other.waited_packets,
            own: self.own.plus(other.own),
        }
    }
}

/// Something that a strategy counts on each core: it is declared in [`StrategyInfo`](crate::strategies::StrategyInfo), and
/// reports and metrics show it without knowing the strategy.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in reports and metrics: lower-case letters and underscores. No two strategies that `auto` may choose have one
    /// name for two things.
    pub name: &'static str,
    /// What one of it is, in the singular: `packet`, `promotion`, `time`.
    pub unit: &'static str,
    /// The sentence that a report makes of it begins with the number and the unit, and goes on with this.
    pub help: &'static str,
}

/// Counts of a strategy's own [`Counter`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCounters([Option<(&'static Counter, u64)>; OwnCounters::MOST]);

impl OwnCounters {
    /// The most counters of one run: under `auto` those of all strategies that it may choose.
    pub const MOST: usize = 12;

    /// These counts. O(n²) for n counters.
    ///
    /// # Panics
    /// If there are more than [`OwnCounters::MOST`].
    pub fn new(counts: impl IntoIterator<Item = (&'static Counter, u64)>) -> OwnCounters {
        let mut own = OwnCounters::default();
        counts.into_iter().for_each(|(counter, count)| own.add(counter, count));
        own
    }

    /// How many were counted of the counter with this name; 0 where nothing was.
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|(counter, _)| counter.name == name).map_or(0, |(_, count)| count)
    }

    /// Each counter with its count, in the order in which they were first counted.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
        self.0.iter().flatten().copied()
    }

    fn add(&mut self, counter: &'static Counter, more: u64) {
        let slot = self.0.iter_mut().find(|slot| slot.is_none_or(|(of, _)| of.name == counter.name));
        let slot = slot.expect("a run has at most `MOST` counters of strategies' own");
        *slot = Some((counter, slot.map_or(0, |(_, count)| count) + more));
    }

    fn plus(mut self, other: OwnCounters) -> OwnCounters {
        other.iter().for_each(|(counter, count)| self.add(counter, count));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SENT: Counter = Counter { name: "sent", unit: "packet", help: "sent" };
    static LENT: Counter = Counter { name: "lent", unit: "time", help: "lent" };

    #[test]
    fn counts_of_one_name_are_added() {
        let one = OwnCounters::new([(&SENT, 1), (&LENT, 2)]);
        let other = OwnCounters::new([(&LENT, 3)]);
        let both = one.plus(other).plus(one);
        assert_eq!((both.of("sent"), both.of("lent"), both.of("others")), (2, 7, 0));
        assert_eq!(both.iter().map(|(counter, _)| counter.name).collect::<Vec<_>>(), ["sent", "lent"]);
    }
}
