//! The records of flows that have ended, kept by one core for a report: sums, sizes, and the largest records whole.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use zerocopy::{Immutable, IntoBytes};

use crate::FlowKey;

/// Classes of [`Ended::sizes`]: one for each power of two.
const CLASSES: usize = u64::BITS as usize;

/// The records of flows that have left the table, as far as a report needs them: how many there were, what they
/// add up to, and the largest ones whole. [`Reports::report`](crate::Reports::report)
/// gets it.
///
/// The memory is taken at once and does not grow: [`Ended::add`] does not allocate. It costs O(log n) for a record
/// that is among the n largest so far, O(1) for any other.
///
/// Records are in one order, whatever the order in which they come: by rank, then by the bytes of the key, then by
/// those of the state. So the largest of all are among the largest of each part, and what several cores have seen
/// [adds up](Ended::merge) to what one core would have.
#[derive(Debug)]
pub struct Ended<K, S> {
    keep: usize,
    records: u64,
    totals: [u128; 2],
    sizes: Box<[SizeClass; CLASSES]>,
    /// The smallest of the largest is at the top.
    largest: BinaryHeap<Reverse<Record<K, S>>>,
}

impl<K: Clone, S: Clone> Clone for Ended<K, S> {
    fn clone(&self) -> Self {
        let Ended { keep, records, totals, sizes, largest } = self;
        let (sizes, largest) = (sizes.clone(), largest.clone());
        Ended { keep: *keep, records: *records, totals: *totals, sizes, largest }
    }

    /// Takes no memory as long as both keep as many: a replica that is rebuilt does this while it works.
    fn clone_from(&mut self, other: &Self) {
        let Ended { keep, records, totals, sizes, largest } = other;
        (self.keep, self.records, self.totals) = (*keep, *records, *totals);
        self.sizes.clone_from(sizes);
        self.largest.clone_from(largest);
    }
}

/// Records of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// How many.
    pub records: u64,
    /// What they add up to: see [`Records::totals`](crate::Records::totals).
    pub totals: [u128; 2],
}

#[derive(Clone, Copy, Debug)]
struct Record<K, S> {
    rank: u64,
    key: K,
    state: S,
}

impl<K: FlowKey, S: Copy + IntoBytes + Immutable> Ended<K, S> {
    /// No records yet; `keep` of the largest will be kept whole.
    pub fn new(keep: usize) -> Ended<K, S> {
        Ended {
            keep,
            records: 0,
            totals: [0; 2],
            sizes: Box::new([SizeClass::default(); CLASSES]),
            largest: BinaryHeap::with_capacity(keep),
        }
    }

    /// One more record, with its [rank](crate::Records::rank) and its
    /// [totals](crate::Records::totals).
    pub fn add(&mut self, rank: u64, totals: [u64; 2], key: &K, state: &S) {
        self.records += 1;
        let class = &mut self.sizes[totals[0].checked_ilog2().unwrap_or(0) as usize];
        class.records += 1;
        for (index, total) in totals.into_iter().enumerate() {
            self.totals[index] += u128::from(total);
            class.totals[index] += u128::from(total);
        }
        self.keep(Record { rank, key: *key, state: *state });
    }

    /// Adds the records of another part.
    pub fn merge(&mut self, other: &Ended<K, S>) {
        self.records += other.records;
        add_up(&mut self.totals, other.totals);
        for (class, other) in self.sizes.iter_mut().zip(&*other.sizes) {
            class.records += other.records;
            add_up(&mut class.totals, other.totals);
        }
        other.largest.iter().for_each(|Reverse(record)| self.keep(*record));
    }

    fn keep(&mut self, record: Record<K, S>) {
        if self.largest.len() < self.keep {
            self.largest.push(Reverse(record));
        } else if let Some(mut smallest) = self.largest.peek_mut()
            && record > smallest.0
        {
            *smallest = Reverse(record);
        }
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// What all of them add up to.
    pub fn totals(&self) -> [u128; 2] {
        self.totals
    }

    /// By power of two: at index *i* are the records whose first total is at least 2^*i* and less than twice
    /// that; those with 0 are at index 0.
    pub fn sizes(&self) -> &[SizeClass] {
        &*self.sizes
    }

    /// The largest records, largest first.
    pub fn largest(&self) -> Vec<(&K, &S)> {
        let mut records: Vec<_> = self.largest.iter().map(|Reverse(record)| record).collect();
        records.sort_unstable_by(|a, b| b.cmp(a));
        records.into_iter().map(|Record { key, state, .. }| (key, state)).collect()
    }
}

fn add_up(sum: &mut [u128; 2], other: [u128; 2]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

/// Whether a step that left totals `after` where they were `before` has ended a record and begun the next: see
/// [`WhenShared::Totals`](crate::WhenShared::Totals).
#[inline]
pub fn began_anew(before: [u64; 2], after: [u64; 2]) -> bool {
    after[0] <= before[0]
}

impl<K: FlowKey, S: IntoBytes + Immutable> Ord for Record<K, S> {
    /// Lists are by rank, then by key: among equal ranks the record with the smaller key is larger.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_rank = self.rank.cmp(&other.rank);
        let by_key = || other.key.as_bytes().cmp(self.key.as_bytes());
        let by_state = || self.state.as_bytes().cmp(other.state.as_bytes());
        by_rank.then_with(by_key).then_with(by_state)
    }
}

impl<K: FlowKey, S: IntoBytes + Immutable> PartialOrd for Record<K, S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: FlowKey, S: IntoBytes + Immutable> PartialEq for Record<K, S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: FlowKey, S: IntoBytes + Immutable> Eq for Record<K, S> {}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;
    use wire::Addr;

    use super::*;
    use crate::SrcAddr;

    fn key(number: u8) -> SrcAddr {
        SrcAddr(Addr::v4([10, 0, 0, number]))
    }

    /// A record that is as long as it was has begun anew: it was not added to.
    #[test]
    fn a_total_that_does_not_grow_is_of_another_record() {
        assert!(began_anew([5, 0], [5, 9]) && began_anew([5, 0], [1, 9]) && !began_anew([5, 9], [6, 0]));
    }

    proptest! {
        /// Whatever the order of the records, and however they are divided: the same list, and the same sums, as
        /// of all records sorted.
        #[test]
        fn parts_add_up_to_the_whole(
            records in proptest::collection::vec((0_u64..20, 0_u8..6), 0..60), keep in 0_usize..8, parts in 1_usize..5,
        ) {
            let mut divided = vec![Ended::<SrcAddr, u64>::new(keep); parts];
            for (index, (rank, number)) in records.iter().enumerate() {
                divided[index * 7 % parts].add(*rank, [*rank, 1], &key(*number), rank);
            }
            let mut whole = Ended::new(keep);
            divided.iter().rev().for_each(|part| whole.merge(part));

            let mut sorted: Vec<_> = records.iter().map(|(rank, number)| (Reverse(*rank), *number)).collect();
            sorted.sort_unstable();
            let expected: Vec<_> = sorted.iter().take(keep).map(|(rank, number)| (key(*number), rank.0)).collect();
            let largest: Vec<_> = whole.largest().into_iter().map(|(key, state)| (*key, *state)).collect();
            prop_assert_eq!(largest, expected);
            prop_assert_eq!(whole.records(), records.len() as u64);
            let sum: u128 = records.iter().map(|(rank, _)| u128::from(*rank)).sum();
            prop_assert_eq!(whole.totals(), [sum, records.len() as u128]);
            for (index, class) in whole.sizes().iter().enumerate() {
                let of_class = records.iter().filter(|(rank, _)| rank.max(&1).ilog2() as usize == index);
                let (count, sum) = of_class.fold((0, 0), |(count, sum), (rank, _)| (count + 1, sum + u128::from(*rank)));
                prop_assert_eq!(*class, SizeClass { records: count, totals: [sum, count.into()] });
            }
            let mut copy = Ended::new(0);
            copy.clone_from(&whole);
            for copy in [copy, whole.clone()] {
                prop_assert_eq!((copy.records(), copy.totals(), copy.sizes()), (whole.records(), whole.totals(), whole.sizes()));
                prop_assert_eq!(copy.largest(), whole.largest());
            }
        }
    }
}
