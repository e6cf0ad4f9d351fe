//! Flows of promoted values go back to one core each: another chain or strategy is to take over.

use wire::Stamp;

use crate::path::core::ChainCore;
use crate::path::parcel::{Leaving, ShardTables};
use crate::strategies::home::{end_of, owners_elsewhere};

/// Brings flows of values of the hash back to the cores that have these at first. None is replicated at the end.
pub(super) fn bring_values_home(cores: &mut [ChainCore], owners: &[u16], last: Stamp) {
    let watermark = end_of(last);
    for core in 0..cores.len() {
        let to = owners_elsewhere(core, owners);
        let pack = |(group, by_shard): (usize, &mut dyn ShardTables)| {
            let (_, flows) = by_shard.pack_from(0, 0, &mut Leaving::all(&to));
            flows.into_iter().map(move |(owner, flows)| (owner, group, flows)).collect::<Vec<_>>()
        };
        let packed: Vec<_> = cores[core].shard_tables().flat_map(pack).collect();
        for (owner, group, flows) in packed {
            let to_owner = cores[usize::from(owner)].shard_tables().find(|(of, _)| *of == group);
            to_owner.into_iter().for_each(|(_, by_shard)| {
                by_shard.unpack_into(0, flows.clone(), watermark, last.time_ns);
            });
        }
    }
}
