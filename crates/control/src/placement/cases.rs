//! Small cases, and the optimum of each by trying all placements: what solvers are held to.

use crate::{BUCKETS, Buckets, Placement};

/// So many cases are on two cores, the others on three.
pub(crate) const ON_TWO: usize = 24;

pub(crate) fn even(cost: u64) -> Buckets {
    [cost; BUCKETS as usize]
}

/// Random costs with the number of cores: 4 shards on 2 cores, and 3 shards on 3.
pub(crate) fn cases() -> impl Iterator<Item = (usize, Vec<Buckets>)> {
    let mut seed = 7u64;
    let mut draw = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    (0..32).map(move |case| {
        let (shards, cores) = if case < ON_TWO { (4, 2) } else { (3, 3) };
        (cores, (0..shards).map(|_| even(1 + draw(50) * draw(20))).collect())
    })
}

/// The value of the best of all placements whose ratios are multiples of a quarter.
pub(crate) fn best(costs: &[Buckets], cores: usize) -> f64 {
    let (shards, ratios) = (costs.len(), [0, 16, 32, 48, 64]);
    let digits = |number: usize, base: usize, count: usize| -> Vec<usize> {
        (0..count).map(|digit| number / base.pow(digit as u32) % base).collect()
    };
    let mut best = f64::MAX;
    for owners in 0..cores.pow(shards as u32) {
        let owners: Vec<u16> = digits(owners, cores, shards).into_iter().map(|core| core as u16).collect();
        for offloaders in 0..cores.pow(cores as u32) {
            // Core itself: nobody.
            let offloaders: Vec<Option<u16>> = digits(offloaders, cores, cores)
                .into_iter()
                .enumerate()
                .map(|(core, to)| (core != to).then_some(to as u16))
                .collect();
            for split in 0..ratios.len().pow(shards as u32) {
                let ratios =
                    digits(split, ratios.len(), shards).into_iter().map(|index| ratios[index]).collect();
                let placement = Placement {
                    owners: owners.clone(),
                    ratios,
                    masks: vec![0; shards],
                    offloaders: offloaders.clone(),
                    offloadable: BUCKETS,
                };
                best = best.min(placement.imbalance(costs));
            }
        }
    }
    best
}
