//! What a step has beside its flow: stamp, edits, pool, events, chance.

use wire::{Edits, Stamp};
use zerocopy::IntoBytes;

use crate::drawn;

/// What a step has beside its flow and meta.
pub struct Cx<'a, Pool> {
    /// The packet's sequence number and time.
    pub stamp: Stamp,
    /// The header changes for this packet, by this function and those before it.
    pub edits: &'a mut Edits,
    /// State that no key owns.
    pub pool: &'a mut Pool,
    events: &'a mut [u64],
    seed: u64,
}

impl<'a, Pool> Cx<'a, Pool> {
    /// For engines and tests. `events` has a cell for each of [`About::events`](crate::About::events), and one more behind them in
    /// which [`undeclared_event`] finds an index that is not among these. A test may leave that one out. Behind it is a cell for each
    /// rule, of a function that has [some](crate::Extras::rules).
    #[inline]
    pub fn new(
        stamp: Stamp,
        edits: &'a mut Edits,
        pool: &'a mut Pool,
        events: &'a mut [u64],
        seed: u64,
    ) -> Self {
        Cx { stamp, edits, pool, events, seed }
    }

    /// Borrows this context for a call of a function that is not inlined, so that this one can stay in registers.
    #[inline]
    pub fn reborrow(&mut self) -> Cx<'_, Pool> {
        let Cx { stamp, edits, pool, events, seed } = self;
        Cx { stamp: *stamp, edits, pool, events, seed: *seed }
    }

    /// A number that looks random and is the same on every replica: it is [`drawn`] from seed and sequence number.
    /// An outsider who does not know the seed cannot tell it, whatever other numbers are known. Some 100
    /// instructions more than a hash: for what few packets need.
    #[inline]
    pub fn random(&self) -> u64 {
        drawn(self.stamp.seq.as_bytes(), self.seed)
    }

    /// A number that looks random and is the same for the same `bytes`, on every core and at any time: it is [`drawn`] from
    /// them and the chain's seed. An outsider who does not know the seed cannot tell it.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        drawn(bytes, self.seed)
    }

    /// Counts one more of event `index`, an index into [`About::events`](crate::About::events). An index that is not among these
    /// counts nothing; a run that met one ends in an error that names it.
    #[inline]
    pub fn count(&mut self, index: usize) {
        match self.events.get_mut(index) {
            Some(count) => *count += 1,
            None => self.note_undeclared(index),
        }
    }

    /// Counts that a rule decided, by its index among [`Extras::rules`](crate::Extras::rules), of a function that has some.
    /// `declared` are its [`About::events`](crate::About::events): rules are counted behind these.
    #[inline]
    pub fn count_rule(&mut self, declared: &[&str], index: usize) {
        if let Some(count) = self.events.get_mut(declared.len() + 1 + index) {
            *count += 1;
        }
    }

    #[cold]
    fn note_undeclared(&mut self, index: usize) {
        if let Some(cell) = self.events.last_mut() {
            *cell = (index as u64) << UNDECLARED_SHIFT;
        }
    }
}

/// Below it the cell behind the declared events counts the first undeclared index, which is its own; above it is
/// another index.
const UNDECLARED_SHIFT: u32 = 40;

/// An event that a function counted and did not declare, if it did: an index that is not one into
/// [`About::events`](crate::About::events). `events` is what [`Cx::new`] got, with the cell behind the declared ones.
pub fn undeclared_event(events: &[u64]) -> Option<usize> {
    let (cell, declared) = events.split_last()?;
    match (*cell, cell >> UNDECLARED_SHIFT) {
        (0, _) => None,
        (_, 0) => Some(declared.len()),
        (_, index) => Some(index as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_where_they_are_declared_and_others_are_named() {
        let counted = |indices: &[usize]| {
            let (mut edits, mut pool, mut events) = (Edits::NONE, (), [0; 3]);
            let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
            indices.iter().for_each(|index| cx.count(*index));
            (events[0], events[1], undeclared_event(&events))
        };
        assert_eq!(counted(&[1, 0, 1]), (1, 2, None));
        assert_eq!(counted(&[0, 2]), (1, 0, Some(2)), "the first that there is not");
        assert_eq!((counted(&[3]), counted(&[2, 70])), ((0, 0, Some(3)), (0, 0, Some(70))));
        assert_eq!(undeclared_event(&[]), None);
    }

    #[test]
    fn chance_is_drawn_from_the_seed_and_the_number_or_what_is_given() {
        let (mut edits, mut pool) = (Edits::NONE, ());
        let stamp = Stamp { seq: 5, time_ns: 9 };
        let cx = Cx::new(stamp, &mut edits, &mut pool, &mut [], 7);
        assert_eq!((cx.random(), cx.hash(b"a")), (drawn(5_u64.as_bytes(), 7), drawn(b"a", 7)));
    }
}
