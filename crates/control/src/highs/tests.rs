//! Tests of the exact solver against brute force and against the greedy one.

use std::time::Duration;

use super::*;
use crate::placement::cases::{ON_TWO, best, cases, even};
use crate::{Balancer, Greedy, Guarded};

const LONG: Duration = Duration::from_secs(20);

fn even_loads(now: Placement, costs: &[Buckets]) -> Question {
    Question { now, costs: costs.to_vec(), goal: Goal::Even, balancer: Balancer::default() }
}

/// With ratios in quarters it may do what the brute force does, and finds the same, but for what fewer changes are worth.
#[test]
fn the_optimum_is_what_brute_force_finds() {
    let (mut exact, mut greedy) = (Vec::new(), Vec::new());
    for (cores, costs) in cases() {
        let question = even_loads(Placement::new(costs.len(), cores), &costs);
        let solve = |ratios| Highs { limit: LONG, ratios }.solve(&question).expect("a placement").placement;
        let (quarters, optimum) = (solve(4).imbalance(&costs), best(&costs, cores));
        let changes = ALPHA * (costs.len() + cores) as f64 + 2.0 * GAP;
        assert!(
            quarters >= optimum - 1e-9 && quarters <= optimum + changes,
            "{quarters} {optimum}: {costs:?}"
        );
        exact.push(solve(16).imbalance(&costs));
        greedy.push(Greedy.solve(&question).expect("a placement").placement.imbalance(&costs));
    }
    for of in [0..ON_TWO, ON_TWO..exact.len()] {
        let gaps: Vec<f64> = of.clone().map(|case| greedy[case] - exact[case]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let most = gaps.iter().copied().fold(f64::MIN, f64::max);
        println!("greedy above HiGHS with 16 ratios, shares of T²: mean {mean:.5}, most {most:.5}");
        assert!(mean < 0.01 && most < 0.06, "{gaps:?}");
    }
}

#[test]
fn what_is_even_stays_as_it_is() {
    let costs = vec![even(10); 4];
    let now = Placement::new(4, 2);
    let answer = Highs { limit: LONG, ratios: 4 }.solve(&even_loads(now.clone(), &costs));
    assert_eq!(answer, Some(Answer { placement: now, used: Some(2) }));
}

#[test]
fn a_pinned_shard_stays() {
    let costs = [even(9), even(9), even(1), even(1)];
    let now = Placement { owners: vec![0, 0, 1, 1], ..Placement::new(4, 2) };
    let balancer = Balancer { pinned: vec![true, true, false, false], ..Balancer::default() };
    let question = Question { balancer, ..even_loads(now, &costs) };
    let placement = Highs { limit: LONG, ratios: 4 }.solve(&question).expect("a placement").placement;
    assert_eq!(placement.owners[..2], [0, 0]);
    assert!(placement.imbalance(&costs) < 0.01, "{placement:?}");
}

fn fit(now: Placement, costs: &[Buckets], caps: Caps, ratios: u8) -> [Answer; 2] {
    let goal = Goal::Fit { caps, least: 1 };
    let question = Question { now, costs: costs.to_vec(), goal, balancer: Balancer::default() };
    let exact = Highs { limit: LONG, ratios }.solve(&question).expect("a placement");
    [exact, Greedy.solve(&question).expect("a placement")]
}

/// No more cores than the greedy one takes, on all cases, with caps from a half of all to twice the mean.
#[test]
fn as_few_cores_as_keep_below_what_they_may() {
    let (mut fewer, mut asked) = (0, 0);
    for (cores, costs) in cases().step_by(3) {
        let all: u64 = costs.iter().flatten().sum();
        for share in [0.4, 0.55, 0.7, 1.0] {
            let cap = (all as f64 * share) as u64;
            let caps = Caps { priority: cap, regular: cap };
            let [exact, greedy] = fit(Placement::new(costs.len(), cores), &costs, caps, 16);
            if let Some(used) = exact.used {
                assert!(exact.placement.loads(&costs).iter().all(|load| *load <= cap), "{exact:?}");
                assert!(greedy.used.is_none_or(|greedy| used <= greedy), "{exact:?} {greedy:?}");
                fewer += u32::from(greedy.used != Some(used));
                asked += 1;
            } else if let Some(used) = greedy.used {
                // Its ratios are finer.
                assert!(used == cores, "{greedy:?}");
            }
        }
    }
    println!("HiGHS took fewer cores in {fewer} of {asked} cases");
    assert!(asked > 20);
}

/// Cores that have packets with priority are bound, and a core without shards takes what they offload.
#[test]
fn an_objective_binds_cores_with_priority_alone() {
    let mut costs = [18; BUCKETS as usize];
    costs[32..].fill(2);
    let caps = Caps { priority: 336, regular: 672 };
    let [exact, _] = fit(Placement::new(2, 4).with_priority(), &[costs, costs], caps, 64);
    assert_eq!(exact.used, Some(3), "{exact:?}");
    assert!(exact.placement.ratios.iter().all(|ratio| *ratio <= 32), "{exact:?}");
}

/// All cores together are too few: slack makes up for it, and loads are as near to the caps as can be.
#[test]
fn where_nothing_fits_slack_says_so() {
    let caps = Caps { priority: 100, regular: 100 };
    let costs = [even(2), even(2), even(2), even(2)];
    let [exact, _] = fit(Placement::new(4, 2), &costs, caps, 16);
    assert_eq!(exact.used, None);
    assert!(exact.placement.loads(&costs).iter().all(|load| *load >= 100), "{exact:?}");
}

/// 16 shards on 8 cores: whatever it says is a placement, and a guard bounds the wait.
#[test]
fn a_guard_bounds_what_a_large_problem_takes() {
    let costs: Vec<Buckets> = (1..17).map(|shard| even(1 + 1_000 / shard)).collect();
    let question = even_loads(Placement::new(16, 8), &costs);
    let greedy = Greedy.solve(&question).expect("a placement").placement.imbalance(&costs);
    for limit_ms in [50, 1_000, 10_000] {
        let limit = Duration::from_millis(limit_ms);
        let mut guarded = Guarded::new(Box::new(Highs { limit, ..Highs::default() }), 2 * limit);
        let begin = Instant::now();
        let answer = guarded.solve(&question);
        assert!(begin.elapsed() < 3 * limit);
        assert_eq!(guarded.missed(), u64::from(answer.is_none()));
        let value = answer.map(|answer| answer.placement.imbalance(&costs));
        println!("16 shards on 8 cores within {limit_ms} ms: {value:?}, greedy {greedy}");
    }
}
