//! The tables of a group where a core has one for each shard, and for each part of a shard (Dyssect): they go from core to
//! core whole.
//!
//! ```text
//!   entry of a packet = hash & (entries - 1):   | bucket | shard |
//!   table of a packet: the shard's kept part, or its offloaded part if bucket < split of the shard
//! ```
//!
//! A group steps with one table at hand. For packets of several shards it takes one table after the other into its hand.
//! Between two batches the table at hand is a small empty one.

use std::mem;

use io::Port;
use nf::FlowKey;
use table::{FlowTable, Horizon, Layout, OutOfMemory, WhenFull};

use crate::path::batch::Batch;
use crate::path::counters::FlowCounters;
use crate::path::group::Group;
use crate::path::laps::Laps;
use crate::path::packets::{BATCH_PACKETS, bits};
use crate::path::parcel::{Leaving, ShardsHere, Shelves, Table, part_of};
use crate::store::member::Way;
use crate::store::private::KeyGroup;

/// A group's tables by part, of which those are here that this core has.
pub(crate) struct Shelf<K> {
    tables: Box<[Option<Box<Shelved<K>>>]>,
    /// By shard, how many buckets are in the offloaded part.
    splits: Box<[u8]>,
}

/// A table that is not at hand.
struct Shelved<K> {
    table: FlowTable<K>,
    /// As in [`KeyGroup`].
    entries: Vec<u16>,
    /// By member, flows that have a state in it.
    live: Box<[i64]>,
}

impl<K: FlowKey> Shelf<K> {
    /// Empty tables of `flows` flows each, for all parts of the shards that are here.
    pub(super) fn new(
        layout: &Layout,
        flows: usize,
        (when_full, table_seed): (WhenFull, u64),
        members: usize,
        here: &ShardsHere<'_>,
    ) -> Result<Shelf<K>, OutOfMemory> {
        let table = |part: usize| {
            if !(here.is_here)(part / 2) {
                return Ok(None);
            }
            let table = FlowTable::new(layout, flows, when_full, table_seed)?;
            let live = vec![0; members].into();
            Ok(Some(Box::new(Shelved { table, entries: vec![0; flows], live })))
        };
        let tables: Result<Vec<_>, OutOfMemory> = (0..2 * here.shards).map(table).collect();
        Ok(Shelf { tables: tables?.into(), splits: vec![0; here.shards].into() })
    }

    /// All tables that are here.
    pub(super) fn tables(&self) -> impl Iterator<Item = &FlowTable<K>> {
        self.tables.iter().flatten().map(|shelved| &shelved.table)
    }

    fn here(&self) -> Vec<usize> {
        (0..self.tables.len()).filter(|part| self.tables[*part].is_some()).collect()
    }
}

/// How many flows of a function are here.
fn live(flows: FlowCounters) -> i64 {
    let gone = flows.removed + flows.expired + flows.evicted + flows.moved_out;
    (flows.created + flows.moved_in) as i64 - gone as i64
}

impl<K: FlowKey> KeyGroup<K> {
    /// Takes every live packet through the functions, shard by shard.
    #[inline(never)]
    pub(super) fn process_shards(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut shelf) = self.shelf.take() else { return };
        let mut parts = [u16::MAX; BATCH_PACKETS];
        for packet in bits(batch.live) {
            parts[packet] = part_of(batch.frames[packet].entry, &shelf.splits) as u16;
        }
        let mut rest = batch.live;
        while rest != 0 {
            let part = parts[rest.trailing_zeros() as usize];
            let same = parts.iter().enumerate().map(|(packet, of)| u64::from(*of == part) << packet);
            let packets = rest & same.fold(0, |set, bit| set | bit);
            rest &= !packets;
            let aside = batch.live & !packets;
            batch.live &= packets;
            self.with(&mut shelf, part.into(), |group| group.process(batch, port, laps));
            batch.live |= aside;
        }
        self.shelf = Some(shelf);
    }

    /// Does something with one of the tables at hand.
    fn with<R>(&mut self, shelf: &mut Shelf<K>, part: usize, act: impl FnOnce(&mut Self) -> R) -> R {
        let shelved = shelf.tables[part].as_deref_mut().expect("packets come where their shard's tables are");
        mem::swap(&mut shelved.table, &mut self.table);
        mem::swap(&mut shelved.entries, &mut self.entries);
        for (member, count) in self.members.iter().zip(&mut shelved.live) {
            *count -= live(member.flow_counters());
        }
        let done = act(self);
        for (member, count) in self.members.iter().zip(&mut shelved.live) {
            *count += live(member.flow_counters());
        }
        mem::swap(&mut shelved.table, &mut self.table);
        mem::swap(&mut shelved.entries, &mut self.entries);
        done
    }

    /// Does something with each of the tables at hand, and with none of them.
    pub(super) fn with_each(&mut self, mut act: impl FnMut(&mut Self)) {
        if let Some(mut shelf) = self.shelf.take() {
            shelf.here().into_iter().for_each(|part| self.with(&mut shelf, part, &mut act));
            self.shelf = Some(shelf);
        }
        // The one at hand last: members end with what they have beside tables.
        let shelf = self.shelf.take();
        act(self);
        self.shelf = shelf;
    }

    /// A sum over all tables, of which each adds to what members have beside tables.
    pub(super) fn sum(&self, of: impl Fn(&FlowTable<K>) -> u64) -> u64 {
        let beside = of(&self.table);
        let tables = self.shelf.iter().flat_map(|shelf| shelf.tables());
        tables.map(|table| of(table).wrapping_sub(beside)).fold(beside, u64::wrapping_add)
    }

    fn count_moved(&mut self, live: &[i64], way: Way) {
        for (member, live) in self.members.iter_mut().zip(live) {
            member.moved(way, (*live).max(0) as u64);
        }
    }
}

impl<K: FlowKey> Shelves for KeyGroup<K> {
    fn take(&mut self, part: usize) -> Option<Table> {
        let shelved = self.shelf.as_mut()?.tables[part].take()?;
        self.count_moved(&shelved.live, Way::Out);
        Some(Table(shelved))
    }

    fn put(&mut self, part: usize, Table(table): Table) {
        let mut shelved: Box<Shelved<K>> = table.downcast().expect("of this group on another core");
        shelved.table.come_to(&self.table);
        self.count_moved(&shelved.live, Way::In);
        if let Some(shelf) = &mut self.shelf {
            shelf.tables[part] = Some(shelved);
        }
    }

    fn split(&mut self, shard: usize, buckets: u8) {
        if let Some(shelf) = &mut self.shelf {
            shelf.splits[shard] = buckets;
        }
    }

    fn arrange(
        &mut self,
        (from, to): (usize, usize),
        block: usize,
        leaving: &mut Leaving<'_>,
        horizon: Horizon,
        now_ns: u64,
    ) -> Option<usize> {
        let mut shelf = self.shelf.take()?;
        let (next, packed) = self.with(&mut shelf, from, |group| group.pack(block, leaving));
        for (_, flows) in packed {
            self.with(&mut shelf, to, |group| group.unpack(flows, horizon, now_ns));
        }
        self.shelf = Some(shelf);
        next
    }
}
