//! What figures by loads alone have in common: which core steps a packet, and what was counted.

use engine::strategies::Shards;
use engine::{BUCKETS, Buckets, Placement, Plan};

/// Periods of the figures without a run, ns, in the packets' own time: as `rsspp` has them.
pub(super) const PERIOD_NS: u64 = 10_000_000;

/// Of a shard.
pub(super) const NO_PACKETS: Buckets = [0; BUCKETS as usize];

pub(super) fn shards_of(plan: &Plan) -> usize {
    plan.shards.map_or(1, Shards::count)
}

/// Which core steps a packet, which is counted.
pub(super) fn stepped_by(
    placement: &Placement,
    counted: &mut [Buckets],
    shard: usize,
    bucket: usize,
) -> usize {
    counted[shard][bucket] += 1;
    let worker = placement.owners[shard];
    let is_offloaded = bucket < usize::from(placement.ratios[shard]);
    let other = placement.offloaders[usize::from(worker)].filter(|_| is_offloaded);
    usize::from(other.unwrap_or(worker))
}

/// A period is over: it counts for as much as all before it.
pub(super) fn smooth(loads: &mut [Buckets], counted: &mut [Buckets]) {
    for (loads, counted) in loads.iter_mut().zip(counted) {
        loads.iter_mut().zip(&*counted).for_each(|(load, counted)| *load = (*load + *counted) / 2);
        counted.fill(0);
    }
}
