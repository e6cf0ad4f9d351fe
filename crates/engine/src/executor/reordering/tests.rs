//! Tests of the reordering metrics, against the definitions of RFC 4737.

use super::*;
use proptest::prelude::*;

/// RFC 4737's definitions word for word, each packet beside all before it. Numbers and flows.
fn by_definition(left: &[(u64, Option<u64>)]) -> (Reordered, Vec<u64>) {
    let mut found = Reordered { packets: left.len() as u64, ..Reordered::default() };
    let mut extents = Vec::new();
    let mut next_expected = 0;
    for (i, (seq, flow)) in left.iter().enumerate() {
        // §3.3.
        let is_reordered = *seq < next_expected;
        found.reordered += u64::from(is_reordered);
        next_expected = next_expected.max(seq + 1);
        let before = &left[..i];
        if is_reordered {
            // §4.2.2: i - j for the least j with s[j] > s[i].
            let first = before.iter().position(|(other, _)| other > seq).expect("it is reordered");
            extents.push((i - first) as u64);
        }
        // §5: s[j] > s[i] for all j with i - n <= j < i.
        for n in 1..=MAX_N.min(i) {
            let are_above = before[i - n..].iter().all(|(other, _)| other > seq);
            found.n_reordered[n - 1] += u64::from(are_above);
        }
        let is_above = |(other, of): &(u64, Option<u64>)| of == flow && other > seq;
        found.in_flow += u64::from(flow.is_some() && before.iter().any(is_above));
    }
    extents.sort_unstable();
    let quantile = |q: f64| match extents.len() {
        0 => 0,
        len => extents[((len as f64 * q).ceil() as usize).max(1) - 1],
    };
    (found.extent_p50, found.extent_p99) = (quantile(0.5), quantile(0.99));
    found.extent_max = extents.last().copied().unwrap_or(0);
    (found, extents)
}

fn measured(left: &[(u64, Option<u64>)], window: usize) -> Reordered {
    let mut reordering = Reordering::new(window);
    left.iter().for_each(|(seq, flow)| reordering.leave(*seq, *flow));
    reordering.reordered()
}

/// All of one flow.
fn numbers(left: &[u64]) -> Vec<(u64, Option<u64>)> {
    left.iter().map(|seq| (*seq, Some(7))).collect()
}

fn n_reordered(n: &[u64]) -> [u64; MAX_N] {
    let mut counts = [0; MAX_N];
    counts[..n.len()].copy_from_slice(n);
    counts
}

/// One packet late: the example of RFC 4737 §7.1.
#[test]
fn one_packet_is_late() {
    let expected = Reordered {
        packets: 10,
        reordered: 1,
        in_flow: 1,
        extent_p50: 4,
        extent_p99: 4,
        extent_max: 4,
        extent_at_least: 0,
        n_reordered: n_reordered(&[1, 1, 1, 1]),
    };
    assert_eq!(measured(&numbers(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), 16), expected);
}

/// One packet early, so that two are reordered, the second of which directly follows a lower number (§7.2).
#[test]
fn one_packet_is_early() {
    let expected = Reordered {
        packets: 10,
        reordered: 2,
        in_flow: 2,
        extent_p50: 1,
        extent_p99: 2,
        extent_max: 2,
        extent_at_least: 0,
        n_reordered: n_reordered(&[1]),
    };
    assert_eq!(measured(&numbers(&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10]), 16), expected);
}

/// Three packets late together, as behind a longer path (§7.3): extents of 4, 5 and 6, and one that is n-reordered.
#[test]
fn three_packets_are_late() {
    let expected = Reordered {
        packets: 11,
        reordered: 3,
        in_flow: 3,
        extent_p50: 5,
        extent_p99: 6,
        extent_max: 6,
        extent_at_least: 0,
        n_reordered: n_reordered(&[1, 1, 1, 1]),
    };
    assert_eq!(measured(&numbers(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]), 16), expected);
}

/// The extent goes to the first packet above, whatever lies between: 1, 2, 3 and 6, all to the 9. n-reordering ends at
/// the first that is below: 2 and 4 have one above before them, 5 has none, 3 has four.
#[test]
fn extents_and_n_reordering_look_back_differently() {
    let expected = Reordered {
        packets: 7,
        reordered: 4,
        in_flow: 4,
        extent_p50: 2,
        extent_p99: 6,
        extent_max: 6,
        extent_at_least: 0,
        n_reordered: n_reordered(&[3, 1, 1, 1]),
    };
    assert_eq!(measured(&numbers(&[9, 2, 5, 4, 10, 11, 3]), 16), expected);
}

/// A core that stalls for long: quantiles are to three digits, the largest is exact.
#[test]
fn extents_may_be_large() {
    let late = 100_000;
    let mut left: Vec<u64> = (late..2 * late).collect();
    left.extend(0..late);
    let found = measured(&numbers(&left), 1 << 17);
    assert_eq!((found.reordered, found.extent_max, found.extent_at_least), (late, 2 * late - 1, 0));
    for (found, expected) in [(found.extent_p50, 150_000), (found.extent_p99, 199_000)] {
        assert!(u64::abs_diff(found, expected) <= expected / 1_000, "{found}, not {expected}");
    }
}

/// Lost packets leave gaps in the numbers, and make no packet reordered.
#[test]
fn gaps_are_no_reordering() {
    let found = measured(&numbers(&[3, 8, 9, 1_000, u64::MAX - 1]), 1);
    assert_eq!(found, Reordered { packets: 5, ..Reordered::default() });
    assert_eq!(measured(&[], 1), Reordered::default());
}

/// Packets of two flows pass each other, and those of each stay in order; what is of no flow is reordered in none.
#[test]
fn flows_that_pass_each_other_keep_their_order() {
    let (a, b) = (Some(1), Some(2));
    let found = measured(&[(1, a), (3, a), (2, b), (5, a), (4, b), (0, None)], 16);
    assert_eq!((found.reordered, found.in_flow), (3, 0));
    let found = measured(&[(1, a), (3, a), (2, b), (5, a), (4, a), (0, None)], 16);
    assert_eq!((found.reordered, found.in_flow), (3, 1));
}

/// In a window of 4 packets: 0 is behind 6 of which 4 are remembered, so its extent is at least theirs.
#[test]
fn an_extent_beyond_the_window_counts_as_at_least_the_window() {
    let found = measured(&numbers(&[1, 2, 3, 4, 5, 6, 0]), 4);
    assert_eq!((found.extent_max, found.extent_at_least), (4, 1));
    // One that is remembered lies below, so the first above is.
    let found = measured(&numbers(&[1, 2, 4, 5, 6, 3]), 4);
    assert_eq!((found.extent_max, found.extent_at_least), (3, 0));
    // All are remembered.
    let found = measured(&numbers(&[1, 2, 3, 4, 0]), 4);
    assert_eq!((found.extent_max, found.extent_at_least), (4, 0));
}

/// A flow is forgotten after two windows at the earliest and four at the latest, each of the two for which a table
/// is made.
#[test]
fn flows_are_remembered_for_as_long_as_is_said() {
    let window = 4;
    for others in 0..40 {
        for before in 0..20 {
            let other = |seq| (seq, Some(1_000 + seq));
            let mut left: Vec<_> = (1..=before).map(other).collect();
            left.push((500, Some(7)));
            left.extend((501..=500 + others).map(other));
            left.push((100, Some(7)));
            let is_seen = measured(&left, window).in_flow == 1;
            assert!(is_seen || others >= 2 * window as u64, "{others} after {before}");
            assert!(!is_seen || others < 4 * window as u64, "{others} after {before}");
        }
    }
}

/// Numbers from 0 in an order in which none leaves after more than so many others, some of them lost.
fn leaving() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
    let packet = (0u64..40, prop::option::of(0u64..5), prop::bool::weighted(0.9));
    prop::collection::vec(packet, 0..300).prop_map(|packets| {
        let numbered = packets.into_iter().enumerate().filter(|(_, (_, _, is_there))| *is_there);
        let mut late: Vec<_> =
            numbered.map(|(seq, (late, flow, _))| (seq as u64 + late, seq as u64, flow)).collect();
        late.sort_by_key(|(at, ..)| *at);
        late.into_iter().map(|(_, seq, flow)| (seq, flow)).collect()
    })
}

proptest! {
    #[test]
    fn figures_are_those_of_the_definitions(left in leaving()) {
        let (expected, _) = by_definition(&left);
        prop_assert_eq!(measured(&left, 256), expected);
    }

    /// With a window that is too small nothing but extents suffers; they are too small, and no more often than said.
    #[test]
    fn a_small_window_says_what_it_does_not_see(left in leaving(), window in 1usize..32) {
        let (expected, _) = by_definition(&left);
        let found = measured(&left, window);
        prop_assert_eq!(
            (found.packets, found.reordered, found.n_reordered),
            (expected.packets, expected.reordered, expected.n_reordered)
        );
        prop_assert!(found.extent_max <= expected.extent_max);
        prop_assert!(found.in_flow <= expected.in_flow);
        if found.extent_at_least == 0 {
            prop_assert_eq!(found.extent_max, expected.extent_max);
            prop_assert_eq!(found.extent_p50, expected.extent_p50);
        }
    }
}
