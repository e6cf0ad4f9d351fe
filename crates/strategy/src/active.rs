//! How many cores get packets, where flows migrate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many cores get packets: the first so many of those that there are. The others are parked: they have no entry of the
/// indirection table, and wait. Clones say the same.
#[derive(Clone, Debug)]
pub struct ActiveCores {
    now: Arc<AtomicUsize>,
    /// Behind so many packets, so many cores.
    changes: Arc<[(u64, usize)]>,
}

impl ActiveCores {
    /// So many cores are active, until [`ActiveCores::set`] says otherwise.
    pub fn new(cores: usize) -> ActiveCores {
        ActiveCores::changing(cores, &[])
    }

    /// So many at first, and others behind so many packets, in order: what a run over a capture repeats.
    pub fn changing(cores: usize, changes: &[(u64, usize)]) -> ActiveCores {
        ActiveCores { now: Arc::new(AtomicUsize::new(cores)), changes: changes.into() }
    }

    /// Has so many cores get packets from the next packet on.
    pub fn set(&self, cores: usize) {
        self.now.store(cores, Ordering::Relaxed);
    }

    /// What was set last.
    pub fn get(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// How many get the packet with this number.
    #[inline]
    pub fn at(&self, seq: u64) -> usize {
        let change = self.changes.iter().rev().find(|(after, _)| *after <= seq);
        change.map_or_else(|| self.get(), |(_, cores)| *cores)
    }
}

/// Gives each entry to one of the first `cores` cores, so that no two of them differ by more than one entry. No more entries
/// move than have to.
pub(crate) fn share_out(owners: &mut [u16], cores: usize) {
    let mut counts = vec![0; cores];
    for owner in &*owners {
        counts.get_mut(usize::from(*owner)).into_iter().for_each(|count: &mut usize| *count += 1);
    }
    let (least, mut larger) = (owners.len() / cores, owners.len() % cores);
    // Those that have the most may keep one more.
    let mut shares = vec![least; cores];
    let mut by_count: Vec<usize> = (0..cores).collect();
    by_count.sort_by_key(|core| std::cmp::Reverse(counts[*core]));
    for core in by_count {
        if larger > 0 {
            (shares[core], larger) = (least + 1, larger - 1);
        }
    }
    for owner in owners {
        let from = usize::from(*owner);
        match counts.get(from) {
            Some(count) if *count <= shares[from] => continue,
            Some(_) => counts[from] -= 1,
            None => {}
        }
        // The shares are all entries: while one is to go some core has room.
        let Some(to) = (0..cores).find(|core| counts[*core] < shares[*core]) else { continue };
        counts[to] += 1;
        *owner = to as u16;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_that_is_set_counts_from_then_on_and_changes_at_their_packets() {
        let active = ActiveCores::new(4);
        let other = active.clone();
        other.set(2);
        assert_eq!((active.at(0), active.get()), (2, 2));
        let active = ActiveCores::changing(4, &[(10, 1), (20, 3)]);
        assert_eq!([0, 9, 10, 19, 20, 1_000].map(|seq| active.at(seq)), [4, 4, 1, 1, 3, 3]);
    }

    #[test]
    fn entries_are_shared_out_evenly_and_few_move() {
        let mut owners: Vec<u16> = (0..128).map(|entry| entry % 4).collect();
        for (cores, most_moves) in [(4, 0), (2, 64), (3, 43), (1, 128), (4, 96), (4, 0)] {
            let before = owners.clone();
            share_out(&mut owners, cores);
            let counts: Vec<usize> =
                (0..4).map(|core| owners.iter().filter(|owner| **owner == core).count()).collect();
            let (least, most) = (counts[..cores].iter().min(), counts[..cores].iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{cores}: {counts:?}");
            assert_eq!(
                counts.iter().sum::<usize>(),
                counts[..cores].iter().sum::<usize>(),
                "{cores}: {counts:?}"
            );
            let moved = before.iter().zip(&owners).filter(|(before, now)| before != now).count();
            assert!(moved <= most_moves, "{cores}: {moved}");
        }
    }

    /// Five entries on two cores: one has three of them anyway, and it is the one that has three.
    #[test]
    fn what_is_even_stays_as_it_is() {
        for even in [[0, 0, 0, 1, 1], [1, 0, 1, 0, 1]] {
            let mut owners = even;
            share_out(&mut owners, 2);
            assert_eq!(owners, even);
        }
        let mut owners = [0, 0, 0, 0, 1, 2, 2];
        share_out(&mut owners, 2);
        assert_eq!(owners, [0, 0, 0, 0, 1, 1, 1], "a parked core's entries alone go");
    }

    proptest! {
        /// No other way to give the cores that many entries each, with one more to some of them, moves fewer.
        #[test]
        fn no_more_entries_move_than_have_to(owners in prop::collection::vec(0u16..6, 0..40), cores in 1usize..7) {
            let mut after = owners.clone();
            share_out(&mut after, cores);
            let count = |owners: &[u16], core: usize| owners.iter().filter(|owner| usize::from(**owner) == core).count();
            let least = owners.len() / cores;
            let more = owners.len() % cores;
            for core in 0..6 {
                let has = count(&after, core);
                prop_assert!(if core < cores { has == least || has == least + 1 } else { has == 0 }, "{after:?}");
            }
            let moves = |gets_more: u32| {
                let share = |core: usize| if core < cores { least + (gets_more >> core & 1) as usize } else { 0 };
                (0..6).map(|core| count(&owners, core).saturating_sub(share(core))).sum::<usize>()
            };
            let fewest = (0..1u32 << cores).filter(|some| some.count_ones() as usize == more).map(moves).min();
            let moved = owners.iter().zip(&after).filter(|(before, now)| before != now).count();
            prop_assert_eq!(Some(moved), fewest);
        }
    }
}
