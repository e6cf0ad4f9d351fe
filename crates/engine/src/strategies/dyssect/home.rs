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
                let tables = cores[core].shelves().map(|(_, shelves)| shelves.take(part)).collect::<Vec<_>>();
                for ((_, shelves), table) in cores[usize::from(*owner)].shelves().zip(tables) {
                    table.into_iter().for_each(|table| shelves.put(part, table));
                }
            }
        }
        bring_pools_home(cores, core, entries);
    }
    let horizon = end_of(last);
    let all = vec![0; entries.len()];
    for (shard, owner) in owners.iter().enumerate() {
        for (_, shelves) in cores[usize::from(*owner)].shelves() {
            let mut leaving = Leaving::all(&all);
            shelves.arrange((2 * shard + 1, 2 * shard), 0, &mut leaving, horizon, last.time_ns);
            shelves.split(shard, Split::NONE);
        }
    }
}
