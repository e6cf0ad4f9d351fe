//! The balancer of RSS++: moves entries between cores until all have about the same load.

/// Spreads entries over cores so that all have about the same load: the problem of RSS++ (Barbette et al.,
/// CoNEXT'19), *imbalance plus transfers*, solved greedily.
///
/// What is minimised, with loads in shares of the mean over cores:
/// `sum over cores |load - 1|  +  transfer_cost * entries moved`.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// What moving an entry costs, in shares of a core's mean load: an entry goes only where that takes more
    /// off the imbalance.
    pub transfer_cost: f64,
    /// Entries that stay where they are, whatever the loads; none if it is empty.
    pub pinned: Vec<bool>,
}

impl Default for Balancer {
    /// A move has to take two hundredths of a core's mean load off the imbalance.
    fn default() -> Balancer {
        Balancer { transfer_cost: 0.02, pinned: Vec::new() }
    }
}

impl Balancer {
    /// Whether an entry stays where it is, whatever the loads.
    pub fn is_pinned(&self, entry: usize) -> bool {
        self.pinned.get(entry).is_some_and(|is_pinned| *is_pinned)
    }

    /// Gives entries new `owners`, numbers of `cores` cores, as their `loads` ask for: in packets, or in any other
    /// measure. O(entries) per move; allocates nothing.
    ///
    /// Takes from the core with the most, gives to the core with the least, and picks the entry that takes most
    /// off the imbalance; ends where no entry takes off more than it costs. An entry that alone is more than the
    /// two differ by stays, and the others leave it: that is all that sharding can do about an elephant.
    ///
    /// # Panics
    /// If there are not as many loads as owners, or `cores` is above 1024.
    pub fn rebalance(&self, owners: &mut [u16], loads: &[u64], cores: usize) {
        assert_eq!(owners.len(), loads.len(), "a load for each entry");
        assert!(cores <= CORES_MAX, "{cores} cores");
        let mut of_core = [0u64; CORES_MAX];
        let of_core = &mut of_core[..cores];
        for (owner, load) in owners.iter().zip(loads) {
            of_core[usize::from(*owner)] += load;
        }
        let total: u64 = of_core.iter().sum();
        let mean = total as f64 / cores.max(1) as f64;
        let least_gain = (self.transfer_cost * mean).max(f64::MIN_POSITIVE);
        // Each move takes something off, so this ends; the bound is for loads that rounding cannot tell apart.
        for _ in 0..owners.len() {
            let (Some(from), Some(to)) = (most(of_core), least(of_core)) else { return };
            let off = |load: u64| (load as f64 - mean).abs();
            let (high, low) = (of_core[from], of_core[to]);
            let before = off(high) + off(low);
            let gain = |entry: &usize| before - off(high - loads[*entry]) - off(low + loads[*entry]);
            let entries = (0..owners.len())
                .filter(|entry| usize::from(owners[*entry]) == from && !self.is_pinned(*entry));
            let best = entries.max_by(|a, b| gain(a).total_cmp(&gain(b)).then(loads[*b].cmp(&loads[*a])));
            let Some(entry) = best.filter(|entry| gain(entry) > least_gain) else { return };
            of_core[from] -= loads[entry];
            of_core[to] += loads[entry];
            owners[entry] = to as u16;
        }
    }
}

/// So that loads by core need no allocation.
const CORES_MAX: usize = 1024;

/// The first of the cores with the most.
fn most(of_core: &[u64]) -> Option<usize> {
    (0..of_core.len()).rev().max_by_key(|core| of_core[*core])
}

/// The first of the cores with the least.
fn least(of_core: &[u64]) -> Option<usize> {
    (0..of_core.len()).min_by_key(|core| of_core[*core])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rebalanced(owners: &[u16], loads: &[u64], cores: usize) -> Vec<u16> {
        let mut owners = owners.to_vec();
        Balancer::default().rebalance(&mut owners, loads, cores);
        owners
    }

    fn imbalance(owners: &[u16], loads: &[u64], cores: usize) -> f64 {
        let mut of_core = vec![0u64; cores];
        owners.iter().zip(loads).for_each(|(owner, load)| of_core[usize::from(*owner)] += load);
        let mean = loads.iter().sum::<u64>() as f64 / cores as f64;
        of_core.iter().map(|load| (*load as f64 - mean).abs()).sum::<f64>() / mean.max(1.0)
    }

    /// By hand: core 0 has 50 + 30 + 20, core 1 has 10 + 10, the mean is 60. Moving the entry of 30 leaves 70
    /// and 50, as does that of 50 the other way round; 20 leaves 80 and 40. The lighter of the equal two goes.
    /// Then nothing helps: 20 would leave 50 and 70 again.
    #[test]
    fn the_entry_that_fits_goes() {
        assert_eq!(rebalanced(&[0, 0, 0, 1, 1], &[50, 30, 20, 10, 10], 2), [0, 1, 0, 1, 1]);
    }

    #[test]
    fn an_elephant_stays_and_the_mice_leave_it() {
        assert_eq!(rebalanced(&[0, 0, 0, 1, 1, 1], &[900, 10, 10, 10, 10, 10], 2), [0, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn what_cannot_be_better_is_left_alone() {
        assert_eq!(rebalanced(&[0, 1, 0, 1], &[100, 0, 0, 0], 2), [0, 1, 0, 1]);
        assert_eq!(rebalanced(&[0, 0, 0], &[5, 6, 7], 1), [0, 0, 0]);
        assert_eq!(rebalanced(&[0, 1], &[0, 0], 2), [0, 1]);
    }

    /// By hand. Loads of 1,010 and 1,000: to move an entry of 5 takes 10 of 1,005 off the imbalance, a hundredth. Of 1,030 and 1,000:
    /// to move one of 15 takes off 30 of 1,015, three hundredths. A transfer costs two.
    #[test]
    fn what_takes_less_off_than_a_transfer_costs_stays() {
        assert_eq!(rebalanced(&[0, 0, 0, 1], &[1_000, 5, 5, 1_000], 2), [0, 0, 0, 1]);
        assert_eq!(rebalanced(&[0, 0, 1], &[1_015, 15, 1_000], 2), [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn never_worse_and_within_the_heaviest_entry(
            loads in prop::collection::vec(0u64..1_000, 128),
            owners in prop::collection::vec(0u16..8, 128),
        ) {
            let after = rebalanced(&owners, &loads, 8);
            prop_assert!(imbalance(&after, &loads, 8) <= imbalance(&owners, &loads, 8) + 1e-9);
            // What is left is less than the heaviest entry, or too little to be worth a transfer.
            let mut of_core = [0u64; 8];
            after.iter().zip(&loads).for_each(|(owner, load)| of_core[usize::from(*owner)] += load);
            let mean = loads.iter().sum::<u64>() as f64 / 8.0;
            let spread = of_core.iter().max().unwrap() - of_core.iter().min().unwrap();
            let heaviest = *loads.iter().max().unwrap();
            prop_assert!(spread as f64 <= heaviest as f64 + 0.1 * mean, "{of_core:?} of {heaviest}");
        }

        /// What is minimised, imbalance plus transfers, is counted anew, and each next move is tried: those that were made paid, and
        /// none that is left would. Pinned entries stay.
        #[test]
        fn moves_pay_for_their_transfers_and_none_that_pays_is_left(
            entries in prop::collection::vec((0u16..3, 0u64..100, prop::bool::weighted(0.1)), 1..24),
            transfer_cost in prop_oneof![Just(0.0), Just(0.02), Just(0.1), Just(0.5)],
        ) {
            const CORES: usize = 3;
            let owners: Vec<u16> = entries.iter().map(|(owner, ..)| *owner).collect();
            let loads: Vec<u64> = entries.iter().map(|(_, load, _)| *load).collect();
            let pinned: Vec<bool> = entries.iter().map(|(.., is_pinned)| *is_pinned).collect();
            let mut after = owners.clone();
            Balancer { transfer_cost, pinned: pinned.clone() }.rebalance(&mut after, &loads, CORES);
            let moved = (0..owners.len()).filter(|entry| owners[*entry] != after[*entry]);
            prop_assert!(moved.clone().all(|entry| !pinned[entry]));
            let left = imbalance(&after, &loads, CORES);
            let won = imbalance(&owners, &loads, CORES) - left;
            prop_assert!(won >= transfer_cost * moved.count() as f64 - 1e-9, "{won} is won");
            let of_core = |core| after.iter().zip(&loads).filter(|(owner, _)| **owner == core).map(|(_, load)| load).sum();
            let by_core: Vec<u64> = (0..CORES as u16).map(of_core).collect();
            let (most, least) = (by_core.iter().max().unwrap(), by_core.iter().min().unwrap());
            let from = by_core.iter().position(|load| load == most).unwrap();
            let to = by_core.iter().position(|load| load == least).unwrap();
            for entry in (0..after.len()).filter(|entry| usize::from(after[*entry]) == from && !pinned[*entry]) {
                let mut next = after.clone();
                next[entry] = to as u16;
                let would_win = left - imbalance(&next, &loads, CORES);
                prop_assert!(would_win <= transfer_cost + 1e-9, "entry {entry} would take {would_win} off");
            }
        }
    }
}
