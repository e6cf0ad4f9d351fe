//! Tests of placements: what is balanced, fitted and offloaded, by hand.

use super::*;
use crate::placement::cases::{ON_TWO, best, cases, even};

fn balanced(before: &Placement, costs: &[Buckets]) -> Placement {
    let mut after = before.clone();
    after.balance(costs, &Balancer::default());
    after
}

fn alike(most: u64) -> Caps {
    Caps { priority: most, regular: most }
}

/// By hand: 4 shards of 64, 64, 64 and 320 on 2 cores. Core 1 has 384 of 512 and offloads 128 of its heaviest shard,
/// which is 25 buckets of 5, since no move of a shard helps more than it costs.
#[test]
fn a_shard_that_is_too_much_for_a_core_is_offloaded_in_part() {
    let costs = [even(1), even(1), even(1), even(5)];
    let after = balanced(&Placement::new(4, 2), &costs);
    let loads = after.loads(&costs);
    assert!(loads.iter().all(|load| load.abs_diff(256) <= 13), "{after:?}: {loads:?}");
    assert!(after.ratios[3] > 0 && after.offloaders[usize::from(after.owners[3])].is_some(), "{after:?}");
}

#[test]
fn what_is_even_stays_as_it_is() {
    let costs = [even(10), even(10), even(10), even(10)];
    let before = Placement::new(4, 2);
    assert_eq!(balanced(&before, &costs), before);
    let costs = [even(0), even(0), even(0), even(0)];
    assert_eq!(balanced(&before, &costs), before, "nothing to do");
    let costs = [even(1), even(1), even(1), even(5)];
    let once = balanced(&before, &costs);
    assert_eq!(balanced(&once, &costs), once, "a second time changes nothing");
}

/// An elephant of one bucket cannot be divided: the others leave it.
#[test]
fn an_elephant_is_left_alone() {
    let mut with_elephant = even(1);
    with_elephant[40] = 1_000;
    let costs = [with_elephant, even(1), even(1), even(1)];
    let after = balanced(&Placement::new(4, 2), &costs);
    let loads = after.loads(&costs);
    // All of its shard but its own bucket is offloaded, which is in the middle.
    assert_eq!(loads.iter().max(), Some(&1_000), "{after:?}: {loads:?}");
}

/// The order of buckets changes for that, and those with priority stay behind all others.
#[test]
fn an_elephant_beside_priority_leaves_it_alone() {
    let mut costs = even(4);
    costs[5] = 600;
    let mut placement = Placement::new(1, 2).with_priority();
    placement.balance(&[costs], &Balancer::default());
    // It is offloaded itself, with one bucket beside it: the other 62 stay.
    let split = placement.split(0);
    assert!(split.has(5) && split.buckets().all(|bucket| bucket < 32), "{split:?}");
    assert_eq!(placement.loads(&[costs]), [62 * 4, 600 + 4]);
}

/// For what is gained by less than a hundredth no flow changes cores.
#[test]
fn buckets_keep_their_order_where_another_is_no_better() {
    let costs: Vec<Buckets> = (0..4).map(|shard| even(1 + shard)).collect();
    let mut placement = Placement::new(4, 2);
    placement.masks.fill(9);
    placement.balance(&costs, &Balancer::default());
    assert_eq!(placement.masks, [9; 4]);
}

/// One that is among the first of its shard's buckets may go, and most others stay.
#[test]
fn an_elephant_may_be_what_is_offloaded() {
    let mut with_elephant = even(5);
    with_elephant[0] = 300;
    let costs = [with_elephant, even(0)];
    let after = balanced(&Placement::new(2, 2), &costs);
    assert_eq!((after.ratios[0], after.loads(&costs)), (2, vec![310, 305]));
}

#[test]
fn as_few_cores_as_keep_below_what_they_may() {
    let fit = |costs: &[Buckets], cores, most| {
        let mut placement = Placement::new(costs.len(), cores);
        let used = placement.fit(costs, alike(most), 1, &Balancer::default());
        (used, placement.loads(costs))
    };
    let costs = [even(1), even(1), even(1), even(1)];
    assert_eq!(fit(&costs, 4, 256), (Some(1), vec![256, 0, 0, 0]));
    assert_eq!(fit(&costs, 4, 255).0, Some(2));
    assert_eq!(fit(&costs, 4, 128).0, Some(2));
    assert_eq!(fit(&costs, 4, 64).0, Some(4));
    assert_eq!(fit(&costs, 4, 63).0, None, "all cores are too few");
    // One shard that is more than a core may have: a part of it is offloaded.
    let (used, loads) = fit(&[even(4), even(1)], 2, 170);
    assert!(used == Some(2) && loads.iter().all(|load| *load <= 170), "{used:?} {loads:?}");
}

/// The last 32 of 64 buckets have priority: though their core has too much, it keeps them.
#[test]
fn what_has_priority_is_not_offloaded() {
    let mut costs = even(1);
    costs[32..].fill(9);
    let mut placement = Placement::new(1, 2).with_priority();
    placement.balance(&[costs], &Balancer::default());
    assert_eq!((placement.loads(&[costs]), placement.ratios[0]), (vec![288, 32], 32));
    assert_eq!(placement.priority_loads(&[costs]), [288, 0]);
    let without = balanced(&Placement::new(1, 2), &[costs]);
    assert!(without.ratios[0] > 32, "{without:?}");
}

/// Two shards of 640 with 64 of priority each. A worker may have 336 to do, others 672: two workers need an offloader
/// beside them where four cores would be needed if all were alike.
#[test]
fn an_objective_binds_cores_with_priority_alone() {
    let mut costs = [18; BUCKETS as usize];
    costs[32..].fill(2);
    let costs = [costs, costs];
    let mut placement = Placement::new(2, 4).with_priority();
    let caps = Caps { priority: 336, regular: 672 };
    assert_eq!(placement.fit(&costs, caps, 1, &Balancer::default()), Some(3));
    assert_eq!(placement.bound(), [true, true, false, false], "{placement:?}");
    let before = placement.clone();
    assert_eq!(placement.fit(&costs, caps, 1, &Balancer::default()), Some(3));
    assert_eq!(placement, before, "what fits stays");
    let mut placement = Placement::new(2, 4).with_priority();
    assert_eq!(placement.fit(&costs, alike(336), 1, &Balancer::default()), Some(4));
}

/// Two of three cores go out of use, and then they come back.
#[test]
fn cores_that_are_not_used_have_nothing() {
    let costs = [even(1), even(1), even(1), even(5)];
    let mut placement = balanced(&Placement::new(4, 3), &costs);
    assert!(placement.offloaders.iter().any(Option::is_some), "{placement:?}");
    placement.on_first(1, &costs, |one| one.balance(&costs, &Balancer::default()));
    assert_eq!(placement.loads(&costs), [512, 0, 0]);
    assert_eq!((&placement.owners, &placement.offloaders), (&vec![0; 4], &vec![None; 3]));
    placement.on_first(3, &costs, |all| all.balance(&costs, &Balancer::default()));
    assert!(placement.loads(&costs).iter().all(|load| *load > 100), "{placement:?}");
}

#[test]
fn a_core_that_is_in_use_and_fits_keeps_its_shards() {
    let costs = [even(1), even(1), even(1), even(1)];
    let mut placement = Placement { owners: vec![0, 0, 1, 1], ..Placement::new(4, 4) };
    let before = placement.clone();
    assert_eq!(placement.fit(&costs, alike(128), 1, &Balancer::default()), Some(2));
    assert_eq!(placement.changes_from(&before), 0);
    assert_eq!(
        placement.fit(&costs, alike(256), 2, &Balancer::default()),
        Some(2),
        "no fewer than asked for"
    );
}

/// M/M/1 has `ca2 = cs2 = 1`, where Kingman's formula is exact: a wait of 9 times of service is at 90%.
#[test]
fn kingmans_formula_is_a_cap_on_utilisation() {
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(utilisation_for(900.0, 1.0, 1.0, 100.0, 1.0), 0.9));
    assert!(close(utilisation_for(900.0, 1.0, 1.0, 100.0, 0.8), 0.8));
    assert!(close(utilisation_for(100.0, 1.0, 1.0, 100.0, 1.0), 0.5));
    assert!(close(utilisation_for(100.0, 0.0, 0.0, 100.0, 0.95), 0.95), "nothing varies");
}

/// Gaps over 24 random cases of 4 shards on 2 cores, and 8 of 3 shards on 3: what is greedily left of `Σ (u − T)²`
/// above the optimum, whose ratios are quarters: finer ones may do better.
#[test]
fn the_gap_to_the_optimum_of_small_cases_is_small() {
    let gap = |(cores, costs): (usize, Vec<Buckets>)| {
        balanced(&Placement::new(costs.len(), cores), &costs).imbalance(&costs) - best(&costs, cores)
    };
    let gaps: Vec<f64> = cases().map(gap).collect();
    let (two, three) = gaps.split_at(ON_TWO);
    let of = |gaps: &[f64]| {
        (gaps.iter().sum::<f64>() / gaps.len() as f64, gaps.iter().copied().fold(0.0, f64::max))
    };
    println!("gap to the optimum in shares of T², mean and most: {:?} and {:?}", of(two), of(three));
    assert!(of(two).0 < 0.001 && of(two).1 < 0.01, "{two:?}");
    assert!(of(three).0 < 0.001 && of(three).1 < 0.01, "{three:?}");
}

/// 16 shards of 128 on 4 cores, half of each with priority, and an elephant of 952 without. What has priority is too much for two cores
/// of 300, and all of it for three and an offloader of 1,300: so bound cores have more than 300 to do, but less than if loads were even.
#[test]
fn what_does_not_fit_burdens_cores_with_priority_as_little_as_can_be() {
    let mut costs = vec![[2; BUCKETS as usize]; 16];
    costs[5][3] += 952;
    let placement = Placement::new(16, 4).with_priority();
    let busiest_bound = |placement: &Placement| {
        let loads = placement.loads(&costs).into_iter().zip(placement.bound());
        loads.filter_map(|(load, is_bound)| is_bound.then_some(load)).max()
    };
    let mut even = placement.clone();
    even.balance(&costs, &Balancer::default());
    let caps = Caps { priority: 300, regular: 1_300 };
    let mut kept = placement.clone();
    assert_eq!(kept.fit(&costs, caps, 1, &Balancer::default()), None, "{kept:?}");
    assert!(busiest_bound(&kept) < busiest_bound(&even), "{kept:?}: {:?}", kept.loads(&costs));
    assert!(kept.loads(&costs).iter().all(|load| *load <= caps.regular), "{:?}", kept.loads(&costs));
    // Where others may do no more, loads are even.
    let mut crowded = placement;
    assert_eq!(crowded.fit(&costs, alike(300), 1, &Balancer::default()), None);
    assert_eq!(crowded, even);
}

#[test]
fn what_takes_over_is_of_as_many_shards_and_cores_and_offloads_what_may_be() {
    let now = Placement::new(3, 2);
    let changed = |change: &dyn Fn(&mut Placement)| {
        let mut next = now.clone();
        change(&mut next);
        next.can_follow(&now)
    };
    assert!(changed(&|_| {}));
    assert!(changed(&|next| next.owners = vec![1, 1, 0]), "any core is a worker");
    assert!(changed(&|next| next.ratios[0] = BUCKETS), "a whole shard may be offloaded");
    assert!(changed(&|next| next.masks[0] = BUCKETS - 1), "and its last bucket be the first");
    assert!(changed(&|next| next.offloaders = vec![Some(1), Some(0)]));
    type Change<'a> = &'a dyn Fn(&mut Placement);
    let refused: [(&str, Change<'_>); 11] = [
        ("fewer owners", &|next| next.owners.truncate(2)),
        ("fewer ratios", &|next| next.ratios.truncate(2)),
        ("fewer masks", &|next| next.masks.truncate(2)),
        ("fewer cores", &|next| next.offloaders.truncate(1)),
        ("more cores", &|next| next.offloaders.push(None)),
        ("priority", &|next| next.offloadable = REGULAR_BUCKETS),
        ("a worker that is no core", &|next| next.owners[0] = 2),
        ("more than all buckets", &|next| next.ratios[0] = BUCKETS + 1),
        ("an order that there is not", &|next| next.masks[0] = BUCKETS),
        ("an offloader that is no core", &|next| next.offloaders[0] = Some(2)),
        ("to itself", &|next| next.offloaders[1] = Some(1)),
    ];
    for (what, change) in refused {
        assert!(!changed(change), "{what}");
    }
    let now = now.with_priority();
    let with = |ratio, mask| Placement { ratios: vec![ratio; 3], masks: vec![mask; 3], ..now.clone() };
    assert!(with(REGULAR_BUCKETS, REGULAR_BUCKETS - 1).can_follow(&now));
    assert!(!with(REGULAR_BUCKETS + 1, 0).can_follow(&now) && !with(0, REGULAR_BUCKETS).can_follow(&now));
}

/// Which shards a core gives away, to the packet. Costs of shards are 64 times these numbers, and a core may have twice that to do.
#[test]
fn a_core_gives_away_the_lightest_shard_that_is_enough() {
    let relieved = |owners: &[u16], costs: &[u64], pinned: &[bool]| {
        let costs: Vec<Buckets> = costs.iter().map(|cost| even(*cost)).collect();
        let mut placement = Placement { owners: owners.to_vec(), ..Placement::new(owners.len(), 2) };
        let balancer = Balancer { pinned: pinned.to_vec(), ..Balancer::default() };
        placement.relieve(2, 2, &costs, alike(128), &balancer);
        let is_offloaded = placement.ratios.iter().any(|ratio| *ratio > 0);
        (placement.owners, is_offloaded)
    };
    let (none, some): (&[bool], &[bool]) = (&[], &[true, false, false]);
    assert_eq!(relieved(&[0, 0], &[1, 1], none), (vec![0, 0], false), "as much as it may");
    assert_eq!(relieved(&[0, 0, 0, 1], &[1, 1, 1, 1], none), (vec![1, 0, 0, 1], false), "as much as fits");
    assert_eq!(relieved(&[0, 0, 0], &[1, 1, 1], some), (vec![0, 1, 0], false), "what is pinned stays");
    assert_eq!(relieved(&[0, 0], &[2, 1], none), (vec![0, 1], false), "the lightest");
    assert_eq!(relieved(&[0, 0, 0], &[1, 2, 1], none), (vec![0, 1, 0], false), "that is enough");
    // Where none is enough, the heaviest that fits; then the next one.
    assert_eq!(relieved(&[0, 0, 0, 0], &[1, 1, 1, 1], none), (vec![1, 0, 0, 1], false));
    assert_eq!(relieved(&[0, 0, 0], &[1, 2, 3], none), (vec![0, 1, 0], false));
    // What costs nothing is no help, and what does not fit is offloaded in part.
    assert_eq!(relieved(&[0, 0], &[3, 0], none), (vec![0, 0], true));
}
