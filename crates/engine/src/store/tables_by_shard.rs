//! The tables of a group where a core has one for each shard, and for each part of a shard (Dyssect): they go from core to
//! core whole.
//!
//! ```text
//!   entry of a packet = hash & (entries - 1):   | bucket | shard |
//!   table of a packet: the shard's kept part, or its offloaded part if the shard's `Split` has the bucket
//! ```
//!
//! A group steps with one table at hand. For packets of several shards it looks for all flows first, and then takes one table after the other
//! into its hand.
//! Between two batches the table at hand is an empty one: a small one, or in a phase of `dyssect` under
//! `auto` that which has all flows before and afterwards.

use control::Split;
use nf::FlowKey;
use table::{FlowTable, OutOfMemory};

use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::ShardsHere;
use crate::path::referred::Said;

/// A group's tables by part, of which those are here that this core has.
pub(crate) struct TablesByShard<K> {
    pub(super) tables: Box<[Option<Box<ShardTable<K>>>]>,
    /// By shard, which buckets are in the offloaded part.
    pub(super) splits: Box<[Split]>,
    /// A part of which another core counts what happens to flows.
    pub(super) silent: Option<usize>,
    /// What a card says of the packets at hand.
    pub(super) said: Said,
    /// By part, the packets of a batch whose flows are there; none between two batches.
    pub(super) sets: Box<[u64]>,
}

/// In which part the flow of each packet of a batch is.
pub(super) struct Parts {
    of: [u16; BATCH_PACKETS],
    /// Those with packets, in the order of their first ones.
    present: [u16; BATCH_PACKETS],
    count: usize,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { of: [0; BATCH_PACKETS], present: [0; BATCH_PACKETS], count: 0 }
    }
}

impl Parts {
    /// Notes the part of a packet, here and in the sets by part.
    #[inline(always)]
    pub(super) fn add(&mut self, packet: usize, part: usize, sets: &mut [u64]) {
        self.of[packet] = part as u16;
        let set = &mut sets[part];
        if *set == 0 {
            self.present[self.count] = part as u16;
            self.count += 1;
        }
        *set |= 1 << packet;
    }

    /// That of a packet.
    #[inline(always)]
    pub(super) fn of(&self, packet: usize) -> usize {
        self.of[packet].into()
    }

    /// Those with packets, in the order of their first ones.
    pub(super) fn present(&self) -> &[u16] {
        &self.present[..self.count]
    }
}

/// A table that is not at hand.
pub(super) struct ShardTable<K> {
    pub(super) table: Box<FlowTable<K>>,
    /// By block: the entry of the indirection table that brings the flow's packets.
    pub(super) entries: Vec<u16>,
    /// By member, flows that have a state in it.
    pub(super) live: Box<[i64]>,
}

impl<K: FlowKey> ShardTable<K> {
    /// An empty table of a group with so many members.
    pub(super) fn new(table: FlowTable<K>, members: usize) -> ShardTable<K> {
        let (entries, live) = (vec![0; table.capacity()], vec![0; members].into());
        ShardTable { table: Box::new(table), entries, live }
    }
}

impl<K: FlowKey> TablesByShard<K> {
    /// Empty tables, as `make` makes them, for all parts of the shards that are here.
    pub(super) fn new(
        make: impl Fn() -> Result<FlowTable<K>, OutOfMemory>,
        members: usize,
        here: &ShardsHere<'_>,
    ) -> Result<TablesByShard<K>, OutOfMemory> {
        let table = |part: usize| {
            if !(here.is_here)(part / 2) {
                return Ok(None);
            }
            Ok(Some(Box::new(ShardTable::new(make()?, members))))
        };
        let tables: Result<Vec<_>, OutOfMemory> = (0..2 * here.shards).map(table).collect();
        Ok(TablesByShard { tables: tables?.into(), ..TablesByShard::without_tables(here.shards) })
    }

    /// Room for the tables of so many shards.
    pub(super) fn without_tables(shards: usize) -> TablesByShard<K> {
        TablesByShard {
            tables: (0..2 * shards).map(|_| None).collect(),
            splits: vec![Split::NONE; shards].into(),
            silent: None,
            said: Said::NOTHING,
            sets: vec![0; 2 * shards].into(),
        }
    }

    /// Flows of all tables in which a member has a state.
    pub(super) fn live(&self, member: usize) -> i64 {
        self.tables.iter().flatten().map(|shard_table| shard_table.live[member]).sum()
    }

    /// The table of a part, which has to be here.
    #[inline(always)]
    pub(super) fn table(&self, part: usize) -> &FlowTable<K> {
        &self.tables[part].as_deref().expect(TablesByShard::<K>::IS_HERE).table
    }

    /// Why a packet's table is here.
    pub(super) const IS_HERE: &'static str = "packets come where their shard's tables are";

    /// All tables that are here.
    pub(super) fn tables(&self) -> impl Iterator<Item = &FlowTable<K>> {
        self.tables.iter().flatten().map(|shard_table| &*shard_table.table)
    }

    /// Those that are here and not silent, with their numbers in a list: from 1 on, by part.
    pub(super) fn listed(&self) -> impl Iterator<Item = (u32, &FlowTable<K>)> {
        let heard = (1..).zip(&self.tables).enumerate().filter(|(part, _)| self.silent != Some(*part));
        heard.filter_map(|(_, (number, shard_table))| Some((number, &*shard_table.as_ref()?.table)))
    }

    pub(super) fn here(&self) -> Vec<usize> {
        (0..self.tables.len()).filter(|part| self.tables[*part].is_some()).collect()
    }
}
