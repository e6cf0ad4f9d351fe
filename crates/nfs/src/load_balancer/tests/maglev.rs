//! The table: shares, and how little moves.

use proptest::prelude::*;

use super::super::maglev::{Candidate, ENTRIES, Maglev, Turn};
use super::*;

/// Candidates with these numbers and weights, named by their numbers.
fn table(weights: &[(u32, u32)]) -> Maglev {
    let names: Vec<[u8; 4]> = weights.iter().map(|(number, _)| number.to_be_bytes()).collect();
    let candidate = |(name, (number, weight)): (_, &(u32, u32))| Candidate {
        index: *number as u16,
        name,
        weight: *weight,
    };
    Maglev::new(names.iter().map(|name| &name[..]).zip(weights).map(candidate).collect())
}

fn equal(numbers: impl IntoIterator<Item = u32>) -> Maglev {
    table(&numbers.into_iter().map(|number| (number, 1)).collect::<Vec<_>>())
}

fn share(table: &Maglev, number: u32) -> usize {
    table.entries().iter().filter(|index| u32::from(**index) == number).count()
}

#[test]
fn every_entry_is_taken_and_without_backends_there_is_none() {
    assert_eq!(table(&[]).at(7), None);
    let one = equal([9]);
    assert_eq!(share(&one, 9), ENTRIES);
    assert_eq!((one.at(0), one.at(u64::MAX)), (Some(9), Some(9)));
}

/// The paper's Pseudocode 1: permutations written out, backends in the order of their names.
fn populate(permutation: &[Vec<usize>]) -> Vec<u16> {
    let mut next = std::vec![0; permutation.len()];
    let mut entry: Vec<Option<u16>> = std::vec![None; ENTRIES];
    let mut n = 0;
    loop {
        for i in 0..permutation.len() {
            let mut c = permutation[i][next[i]];
            while entry[c].is_some() {
                next[i] += 1;
                c = permutation[i][next[i]];
            }
            entry[c] = Some(i as u16);
            next[i] += 1;
            n += 1;
            if n == ENTRIES {
                return entry.into_iter().flatten().collect();
            }
        }
    }
}

#[test]
fn agrees_with_the_paper() {
    for backends in [1_u32, 2, 7, 50] {
        let permutation = |number: u32| {
            let name = number.to_be_bytes();
            let Turn { next: offset, skip, .. } = Turn::new(&Candidate { index: 0, name: &name, weight: 1 });
            assert!((1..ENTRIES).contains(&skip));
            (0..ENTRIES).map(|j| (offset + j * skip) % ENTRIES).collect()
        };
        let permutations: Vec<Vec<usize>> = (0..backends).map(permutation).collect();
        assert!(equal(0..backends).entries() == populate(&permutations), "{backends} backends");
    }
}

/// Held so that balancers of this version and of the next agree.
#[test]
fn golden() {
    assert_eq!(equal(1..=3).entries()[..16], [2, 1, 2, 2, 3, 2, 3, 1, 3, 2, 1, 3, 3, 3, 3, 1]);
}

/// The share of entries in percent that are another's after a backend has gone, beside those that were its
/// own: the most over three choices of that backend.
fn moved_percent(weights: &[(u32, u32)]) -> f64 {
    let before = table(weights);
    let moved = |gone: (u32, u32)| {
        let left: Vec<_> = weights.iter().copied().filter(|backend| *backend != gone).collect();
        let after = table(&left);
        let pairs = before.entries().iter().zip(after.entries());
        pairs.filter(|(old, new)| u32::from(**old) != gone.0 && old != new).count()
    };
    let last = weights.len() - 1;
    let worst = [0, last / 2, last].map(|at| moved(weights[at])).into_iter().max().unwrap();
    worst as f64 * 100.0 / ENTRIES as f64
}

#[test]
fn few_entries_move_when_one_backend_goes_or_comes() {
    for (backends, max_percent) in [(2, 0.0), (3, 0.5), (10, 1.0), (100, 1.0), (400, 1.5)] {
        let equal: Vec<_> = (0..backends).map(|number| (number, 1)).collect();
        let percent = moved_percent(&equal);
        std::println!("{backends} backends, one gone: {percent:.2}% of all entries moved between the others");
        assert!(percent <= max_percent, "{backends}: {percent}%");
    }
    let weighted: Vec<_> = (0..10).map(|number| (number, number + 1)).collect();
    let percent = moved_percent(&weighted);
    std::println!("10 backends of weights 1 to 10, one gone: {percent:.2}%");
    assert!(percent <= 5.0, "{percent}%");
}

#[test]
fn another_order_of_the_list_is_the_same_table() {
    let weights = [(1, 3), (2, 1), (3, 2), (4, 5)];
    let mut turned = weights;
    turned.reverse();
    assert_eq!(table(&weights).entries(), table(&turned).entries());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The bounds that the module's page states.
    #[test]
    fn shares_are_those_of_the_weights(weights in proptest::collection::vec(1_u32..=50, 1..40)) {
        let named: Vec<(u32, u32)> = (0..).zip(weights.iter().copied()).collect();
        let table = table(&named);
        let total: u32 = weights.iter().sum();
        for (number, weight) in named {
            let part = f64::from(weight) / f64::from(total);
            let off = (share(&table, number) as f64 - part * ENTRIES as f64).abs();
            prop_assert!(off <= part * weights.len() as f64 + 1.0, "{weight} of {total}: off by {off}");
        }
    }

    #[test]
    fn equal_weights_are_within_one_entry_of_each_other(backends in 1_u32..=512) {
        let table = equal(0..backends);
        let mut shares = std::vec![0; backends as usize];
        table.entries().iter().for_each(|index| shares[usize::from(*index)] += 1);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{least} to {most}");
    }
}
