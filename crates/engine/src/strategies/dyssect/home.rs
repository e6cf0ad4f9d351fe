//! Shards go back to the cores that had them at first: another chain or strategy is to take over.

use control::Split;
use wire::Stamp;

use crate::path::core::ChainCore;
use crate::path::parcel::Leaving;
use crate::strategies::home::{bring_pools_home, end_of};

/// Brings shards that have gone from core to core back to their first owners, each with all its flows in its kept part.
pub(super) fn bring_shards_home(cores: &mut [ChainCore], owners: &[u16], entries: &[u16], last: Stamp) {
    for core in 0..cores.len() {
        for (shard, owner) in owners.iter().enumerate().filter(|(_, owner)| usize::from(**owner) != core) {
            for part in [2 * shard, 2 * shard + 1] {
                let tables =
                    cores[core].shard_tables().map(|(_, by_shard)| by_shard.take(part)).collect::<Vec<_>>();
                for ((_, by_shard), table) in cores[usize::from(*owner)].shard_tables().zip(tables) {
                    table.into_iter().for_each(|table| by_shard.put(part, table));
                }
            }
        }
        bring_pools_home(cores, core, entries);
    }
    let watermark = end_of(last);
    let all = vec![0; entries.len()];
    for (shard, owner) in owners.iter().enumerate() {
        for (_, by_shard) in cores[usize::from(*owner)].shard_tables() {
            let mut leaving = Leaving::all(&all);
            by_shard.arrange((2 * shard + 1, 2 * shard), 0, &mut leaving, watermark, last.time_ns);
            by_shard.split(shard, Split::NONE);
        }
    }
}
