//! What leaves a group of functions for another core: flows, pools, and whole tables.

use std::any::Any;
use std::sync::Arc;

use control::{BUCKETS, Split};
use io::{Frame, Reference};
use table::{Slot, Watermark};

/// A function's pool, whatever its type.
pub struct Pool(pub(crate) Box<dyn Any + Send>);

/// A function's pools on one core, as [`Function::pools`](crate::Function::pools) divided them.
pub enum CorePools {
    /// One for all that comes here.
    One(Pool),
    /// One for each entry of the indirection table that comes here, by entry.
    ByEntry(Vec<Option<Pool>>),
}

/// No core.
pub(crate) const NOBODY: u16 = u16::MAX;

/// The entry of a flow that began on this core with the history of another core's packet: that core knows it.
pub(crate) const UNKNOWN_ENTRY: u16 = NOBODY;

/// Flows of one group, on their way to another core.
#[derive(Clone)]
pub(crate) struct PackedFlows {
    /// By flow.
    pub(crate) entries: Vec<u16>,
    /// A [`table::Parcel`] with the group's key. Several cores may take the same flows in.
    pub(crate) parcel: Arc<dyn Any + Send + Sync>,
    /// The number of a packet, if the table that they come to has then stepped all of its own before it, and none behind it.
    pub(crate) since_seq: Option<u64>,
}

/// Which flows are to go.
pub(crate) struct Leaving<'a> {
    /// The core that gets an entry's flows, or [`NOBODY`]. A power of two: where flows are kept by more bits of the hash, the
    /// lowest count.
    pub(crate) to: &'a [u16],
    /// Blocks that may still be looked at.
    pub(crate) blocks_left: usize,
    /// Flows that may still be packed.
    pub(crate) flows_left: usize,
    /// The entry that is to go, if it is one: most blocks can be passed over then.
    pub(crate) only: Option<u16>,
}

impl<'a> Leaving<'a> {
    /// All flows of entries that have a core to go to, however many there are.
    pub(crate) fn all(to: &'a [u16]) -> Leaving<'a> {
        Leaving { to, blocks_left: usize::MAX, flows_left: usize::MAX, only: None }
    }

    /// The core that gets the flows of an entry, or [`NOBODY`].
    #[inline]
    pub(crate) fn core_of(&self, entry: u16) -> u16 {
        self.to[usize::from(entry) & (self.to.len() - 1)]
    }

    /// Whether it is known that none of these blocks, which have these entries, is to go.
    #[inline]
    pub(crate) fn has_none(&self, entries: Option<&[u16]>) -> bool {
        let Some((only, entries)) = self.only.zip(entries) else { return false };
        // All are looked at, which takes few instructions.
        !entries.iter().fold(false, |is_there, entry| is_there | (*entry == only))
    }
}

/// Whether flows of a chain go from core to core, and how.
#[derive(Clone, Copy)]
pub(crate) enum Mobility<'a> {
    /// They stay.
    Fixed,
    /// One by one, as the entry of the indirection table does that brings their packets.
    ByEntry,
    /// With the table of their shard.
    ByShard(ShardsHere<'a>),
}

/// The shards of a core.
#[derive(Clone, Copy)]
pub(crate) struct ShardsHere<'a> {
    /// How many there are on all cores, a power of two.
    pub(crate) shards: usize,
    /// Which of them are here at first.
    pub(crate) is_here: &'a dyn Fn(usize) -> bool,
}

impl ShardsHere<'_> {
    /// Flows that the table of one part of a shard holds, where that of a core that has all would hold `flows`: all of
    /// them in small tables, so that no shard is full where one core is not; twice its share in large ones.
    pub(crate) fn flows_of_each(shards: usize, flows: usize) -> usize {
        flows.min((2 * flows / shards).max(SMALL_TABLE))
    }
}

/// Flows of a table that costs little.
const SMALL_TABLE: usize = 8192;

/// Which table a packet's flow is in, where `splits` says by shard what is in the offloaded part: twice the
/// shard's number, and 1 more for the offloaded part. The lowest bits of an entry are the shard's number, the next the
/// bucket's; where there is one shard, all others.
#[inline]
pub(crate) fn part_of(entry: u16, splits: &[Split]) -> usize {
    let entry = usize::from(entry);
    let shard = entry & (splits.len() - 1);
    let bucket = match splits.len() {
        1 => entry,
        shards => bucket_of(entry, shards),
    };
    let Split { buckets, mask } = splits[shard];
    2 * shard + usize::from(bucket ^ usize::from(mask) < usize::from(buckets))
}

/// The bucket of an entry in its shard, one of several.
#[inline]
pub(crate) fn bucket_of(entry: usize, shards: usize) -> usize {
    debug_assert!(shards.is_power_of_two(), "{shards} shards");
    // A division takes as long as ten other instructions, and comes for each packet.
    (entry >> shards.trailing_zeros()) % usize::from(BUCKETS)
}

/// A group's table of one part of a shard, with all flows in it.
pub(crate) struct Table(pub(crate) Box<dyn Any + Send>);

/// A group that has a table for each part of a shard: twice the shard's number is that of its kept part, and 1 more that
/// of its offloaded part.
pub(crate) trait ShardTables {
    /// Takes the table of a part that is to go to another core. O(1).
    fn take(&mut self, part: usize) -> Option<Table>;

    /// Takes a part's table back as if it was new. O(flows that it has had at once).
    fn take_as_new(&mut self, part: usize) -> Option<Table>;

    /// Puts the table of a part that has come from another core. O(1).
    fn put(&mut self, part: usize, table: Table);

    /// Has the table at hand, with all its flows, be that of a part, and that of the part be at hand. O(1).
    fn exchange(&mut self, part: usize);

    /// From here on flows of these of the shard's buckets are in the offloaded part.
    fn split(&mut self, shard: usize, split: Split);

    /// Moves flows that are `leaving` from a part to another, from block number `block` on: returns where to go on, `None`
    /// if there are no more blocks. Makes room as of `watermark`; `now_ns` is the latest time that this core has seen.
    fn arrange(
        &mut self,
        (from, to): (usize, usize),
        block: usize,
        leaving: &mut Leaving<'_>,
        watermark: Watermark,
        now_ns: u64,
    ) -> Option<usize> {
        let (next, packed) = self.pack_from(from, block, leaving);
        packed.into_iter().for_each(|(_, flows)| self.unpack_into(to, flows, watermark, now_ns));
        next
    }

    /// Packs flows of a part that are `leaving`, from block number `block` on, as [`Group::pack`](crate::path::group::Group::pack).
    fn pack_from(
        &mut self,
        part: usize,
        block: usize,
        leaving: &mut Leaving<'_>,
    ) -> (Option<usize>, Vec<(u16, PackedFlows)>);

    /// Takes flows into a part, as [`Group::unpack`](crate::path::group::Group::unpack).
    fn unpack_into(&mut self, part: usize, flows: PackedFlows, watermark: Watermark, now_ns: u64);

    /// The parts that this core has.
    fn here(&self) -> Vec<usize>;

    /// A card says this of the packets in these frames, which the next batch has, in the first place of a reference or in the second.
    fn refer(&mut self, frames: &[Frame], references: &[Reference], place: usize);

    /// The packets of the last batch of which a card said something, and those of which it should say something
    /// else from now on: it was wrong, or their flows have ended.
    fn said(&self) -> (u64, u64);

    /// The block in which a packet of the last batch, which has this entry, found its flow or was given one, if the flow has not ended. Of a
    /// packet that did not come here it is any block or none.
    fn found(&self, packet: usize, entry: u16) -> Slot;

    /// From here on what happens to flows of this part is not counted: it is a replica, and another core counts.
    fn silence(&mut self, part: usize);
}
