//! A shard, or the offloaded part of one, on its way from core to core: whole tables and pools, nothing is looked through.

use control::{BUCKETS, Split};

use crate::path::core::ChainCore;
use crate::path::parcel::{Pool, Table};

/// Tables and pools of one part of a shard, or of both.
pub(super) struct Unit {
    shard: u16,
    /// How the shard is split between its kept and its offloaded part.
    pub(super) split: Split,
    /// With the group's number and the part's.
    tables: Vec<(usize, usize, Table)>,
    /// With the entry and the function's number.
    pools: Vec<(u16, usize, Pool)>,
}

/// A shard on its way.
pub(super) struct WholeShard {
    pub(super) unit: Unit,
    /// See [`control::Offloading::left`].
    pub(super) ratio: (Split, Split),
    /// How often the shard has gone from core to core.
    pub(super) tenure: u32,
}

/// Which part of a shard, or all of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Offloaded,
    Both,
}

impl Unit {
    /// Takes a shard, one of `shards`, of which `split` is in the offloaded part, from a core.
    pub(super) fn take(chain: &mut ChainCore, shards: usize, shard: u16, which: Which, split: Split) -> Unit {
        let all = Split { buckets: BUCKETS, ..split };
        let buckets = if which == Which::Both { all } else { split };
        let parts = match which {
            Which::Offloaded => 2 * usize::from(shard) + 1..2 * usize::from(shard) + 2,
            Which::Both => 2 * usize::from(shard)..2 * usize::from(shard) + 2,
        };
        let mut tables = Vec::new();
        for (group, by_shard) in chain.shard_tables() {
            tables.extend(parts.clone().filter_map(|part| Some((group, part, by_shard.take(part)?))));
        }
        let mut pools = Vec::new();
        for bucket in buckets.buckets() {
            let entry = u16::from(bucket) * shards as u16 + shard;
            pools.extend(chain.take_pools(entry).into_iter().map(|(function, pool)| (entry, function, pool)));
        }
        Unit { shard, split, tables, pools }
    }

    /// Puts it where another core's packets of it come from now on.
    pub(super) fn put(self, chain: &mut ChainCore) {
        for (entry, function, pool) in self.pools {
            chain.put_pool(function, entry, pool);
        }
        let mut tables = self.tables.into_iter().peekable();
        for (group, by_shard) in chain.shard_tables() {
            while let Some((_, part, table)) = tables.next_if(|(of, ..)| *of == group) {
                by_shard.put(part, table);
            }
            by_shard.split(self.shard.into(), self.split);
        }
    }
}
