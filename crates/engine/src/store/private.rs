//! A group of functions with one key, and so one table, on one core.

mod finding;
mod moving;

use std::any::Any;
use std::mem;
use std::sync::Arc;

use io::Port;
use nf::FlowKey;
use table::{FlowTable, Layout, OutOfMemory, Reach, Slot, Watermark, WhenFull};
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::StageCounters;
use crate::path::group::Group;
use crate::path::items::Items;
use crate::path::laps::{Lap, Laps};
use crate::path::look::Look;
use crate::path::packets::{BATCH_PACKETS, bits, first_bits, runs_between_misses};
use crate::path::parcel::{Leaving, Mobility, PackedFlows, Pool, ShardTables, ShardsHere, Table};
use crate::path::portion::{Place, Portion};
use crate::path::turned_away::{Notes, Noting, Telling, Told};
use crate::store::member::{Located, Member, Steps, block};
use crate::store::slow_path::SlowPath;
use crate::store::tables_by_shard::TablesByShard;

/// Neighbours in a chain that have one key, and so one table: each flow has one block for all of them,
/// and each packet is looked up once (FAJITA §3).
pub(crate) struct KeyGroup<K> {
    /// In a place of its own, so that another takes its place by a pointer.
    pub(super) table: Box<FlowTable<K>>,
    pub(super) members: Vec<Box<dyn Member<K>>>,
    /// Whether packets of different flows must be stepped in order; then there is one member.
    pub(super) in_order: bool,
    pub(super) located: Box<Located>,
    /// Items of history that begin a run: see [`Runs`](crate::store::member::Runs).
    pub(super) leaders: u64,
    /// By leader, the flow's block.
    pub(super) slots: Box<[Slot; BATCH_PACKETS]>,
    /// By block: the entry of the indirection table that brings the flow's packets here. Empty where flows stay.
    pub(super) entries: Vec<u16>,
    /// Tables by shard, if the core has such: then the one above is that at hand.
    pub(super) by_shard: Option<Box<TablesByShard<K>>>,
    /// Where what the table turns away is to be noted.
    pub(super) noting: Option<Box<Noting>>,
    /// What to turn away, if the table does not decide that.
    pub(super) telling: Option<Box<Telling>>,
}

/// What a group is made from, function by function.
pub(crate) struct KeyGroupBuilder<K> {
    pub(crate) layout: Layout,
    pub(crate) members: Vec<Box<dyn Member<K>>>,
    pub(crate) in_order: bool,
}

impl<K: FlowKey> KeyGroupBuilder<K> {
    pub(crate) fn new() -> Self {
        KeyGroupBuilder { layout: Layout::new(), members: Vec::new(), in_order: false }
    }

    pub(crate) fn build(
        self,
        flows: usize,
        when_full: WhenFull,
        table_seed: u64,
        mobility: Mobility<'_>,
    ) -> Result<KeyGroup<K>, OutOfMemory> {
        let KeyGroupBuilder { layout, members, in_order } = self;
        debug_assert!(!in_order || members.len() == 1);
        let (at_hand, by_shard) = match mobility {
            Mobility::ByShard(here) => {
                let each = ShardsHere::flows_of_each(here.shards, flows);
                let make = || FlowTable::new(&layout, each, when_full, table_seed);
                let by_shard = TablesByShard::new(make, members.len(), &here)?;
                (1, Some(Box::new(by_shard)))
            }
            Mobility::Fixed | Mobility::ByEntry => (flows, None),
        };
        Ok(KeyGroup {
            table: Box::new(FlowTable::new(&layout, at_hand, when_full, table_seed)?),
            members,
            in_order,
            located: Located::new(),
            leaders: 0,
            slots: Box::new([Slot::NONE; BATCH_PACKETS]),
            entries: if matches!(mobility, Mobility::Fixed) { Vec::new() } else { vec![0; at_hand] },
            by_shard,
            noting: None,
            telling: None,
        })
    }
}

impl<K: FlowKey> KeyGroup<K> {
    /// Member number `member`, if it is an `M`.
    pub(crate) fn member<M: 'static>(&self, member: usize) -> Option<&M> {
        (&*self.members[member] as &dyn Any).downcast_ref()
    }

    /// Steps packets whose blocks are on their way into the cache.
    ///
    /// With as many free blocks as unknown flows nobody is evicted or refused, and flows do not meet: first all
    /// functions step the packets of known flows, function by function; then the others come, which may
    /// take blocks, packet by packet. Where flows do meet, in a full table or in a function's pool, all
    /// packets are stepped in order.
    fn step(&mut self, packets: u64, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let is_reversed = batch.is_reversed;
        let Self { table, located, .. } = self;
        let Located { wanted, slots } = &mut **located;
        let hits = table.find_all(packets, wanted, slots, |packet| K::of(&batch.headers[packet]));
        if self.telling.is_some()
            && let Some(mut telling) = self.telling.take()
        {
            self.step_as_told(&mut telling, packets, batch, port);
            self.telling = Some(telling);
            return laps.lap(Lap::OneByOne, batch);
        }
        // Nearly always all flows are known; a count takes a dozen instructions.
        if packets != hits && self.table.free() < (packets & !hits).count_ones() as usize {
            bits(packets).for_each(|packet| self.one(packet, batch, port));
            return laps.lap(Lap::OneByOne, batch);
        }
        if Reach::here() != Reach::Off {
            self.each_member(batch, port, |member, steps| member.prefetch(packets, steps));
        }
        laps.lap(Lap::Locate, batch);
        if self.in_order {
            for (run, miss) in runs_between_misses(packets, hits) {
                self.each_member(batch, port, |member, steps| member.hits(run, steps));
                miss.into_iter().for_each(|packet| self.one(packet, batch, port));
            }
            return laps.lap(Lap::Function(self.members[0].index()), batch);
        }
        let Self { table, members, located, .. } = self;
        let mut step = |member: &mut Box<dyn Member<K>>| {
            member.hits(hits, &mut Steps { batch, table, located, port });
            laps.lap(Lap::Function(member.index()), batch);
        };
        match is_reversed {
            false => members.iter_mut().for_each(&mut step),
            true => members.iter_mut().rev().for_each(&mut step),
        }
        if packets != hits {
            bits(packets & !hits).for_each(|packet| self.one(packet, batch, port));
            laps.lap(Lap::OneByOne, batch);
        }
    }

    /// Steps packets whose blocks are on their way, as many at a time as come before a maintenance.
    #[inline]
    pub(super) fn step_all(
        &mut self,
        mut rest: u64,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        while rest != 0 {
            // Not past a maintenance, which comes between two packets wherever batches were cut.
            let packets = match self.table.steps_left() {
                BATCH_PACKETS.. => rest,
                steps_left => first_bits(rest, steps_left),
            };
            rest &= !packets;
            let watermark = batch.watermark(batch.frames[packets.ilog2() as usize].stamp.time_ns);
            self.step(packets, batch, port, laps);
            self.note_stepped(packets, batch);
            self.count_steps(packets, watermark, batch, laps);
        }
    }

    /// Counts the steps of packets, and does the maintenance that is due then.
    pub(super) fn count_steps(
        &mut self,
        packets: u64,
        watermark: Watermark,
        batch: &Batch,
        laps: &mut dyn Laps,
    ) {
        let Self { table, members, entries, .. } = self;
        if table.count_steps(packets.count_ones() as usize) {
            table.maintain(watermark, |table, slot| Self::expire(members, entries, slot, watermark, table));
            laps.lap(Lap::Sweep, batch);
        }
    }

    fn each_member(
        &mut self,
        batch: &mut Batch,
        port: &dyn Port,
        mut act: impl FnMut(&mut dyn Member<K>, &mut Steps<'_, K>),
    ) {
        let Self { table, members, located, .. } = self;
        let mut steps = Steps { batch, table, located, port };
        members.iter_mut().for_each(|member| act(&mut **member, &mut steps));
    }

    /// Steps one packet through all functions.
    #[inline(always)]
    pub(super) fn one(&mut self, packet: usize, batch: &mut Batch, port: &dyn Port) {
        self.located.slots[packet] = self.locate(packet, batch);
        let Self { table, members, located, entries, noting, .. } = self;
        let noting = noting.as_deref();
        SlowPath { batch, table, members, located, entries, port, clock: None, noting }.one(packet);
        self.note_stepped(1 << packet, batch);
    }

    /// Takes the block's state from each member whose state in it is dead.
    fn expire(
        members: &mut [Box<dyn Member<K>>],
        entries: &[u16],
        slot: Slot,
        watermark: Watermark,
        table: &mut FlowTable<K>,
    ) {
        let block = block(entries, slot);
        members.iter_mut().for_each(|member| member.expire(block, watermark, table));
    }
}

impl<K: FlowKey> Group for KeyGroup<K> {
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        if self.by_shard.is_some() {
            return self.process_shards(batch, port, laps);
        }
        let rest = batch.live;
        if rest == 0 {
            return;
        }
        self.hash(rest, batch);
        let Located { wanted, slots } = &mut *self.located;
        self.table.candidates(rest, wanted, slots);
        self.step_all(rest, batch, port, laps);
    }

    fn replay(&mut self, items: &mut Items<'_>, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        match self.by_shard.is_some() {
            true => self.replay_part(items, batch, port, laps),
            false => self.replay_items(items, batch, port, laps),
        }
    }

    fn settle(&mut self, end: Watermark) {
        if let Some(telling) = self.telling.take() {
            self.end_as_told(&telling, end);
            self.telling = Some(telling);
        }
        self.with_each(|Self { table, members, entries, .. }| {
            table.settle(end, |table, slot| Self::expire(members, entries, slot, end, table));
        });
        self.members.iter_mut().for_each(|member| member.settle(end));
    }

    fn digest(&self, member: usize, now: Stamp) -> u64 {
        self.sum(|table| self.members[member].digest(table, now))
    }

    fn audit(&self, member: usize, now: Stamp) -> u64 {
        self.sum(|table| self.members[member].audit(table, now))
    }

    fn look(&self, member: usize, headers: &Headers, now_ns: u64) -> Look {
        let key = K::of(headers);
        let find = |table: &FlowTable<K>| table.find(table.hash(key.short(), || key), key.short(), || key);
        let mut shard_table = self.by_shard.iter().flat_map(|by_shard| by_shard.tables());
        let table = shard_table.find(|table| find(table).is_some()).unwrap_or(&self.table);
        let slot = find(table);
        self.members[member].look(headers, slot, table, now_ns)
    }

    fn list(&self, member: usize, from: Place, portion: &mut Portion) -> Option<Place> {
        self.list_flows(member, from, portion)
    }

    fn moved_in(&self) -> u64 {
        self.members.iter().map(|member| member.counters().flows.moved_in).sum()
    }

    fn remove(&mut self, member: usize, key: &[u8]) -> bool {
        self.remove_flow(member, key)
    }

    fn counters(&self, member: usize) -> StageCounters<'_> {
        let counters = self.members[member].counters();
        match counters.capacity {
            0 if self.by_shard.is_some() => {
                let tables = self.by_shard.iter().flat_map(|by_shard| by_shard.tables());
                StageCounters { capacity: tables.map(FlowTable::capacity).sum(), ..counters }
            }
            0 => StageCounters { capacity: self.table.capacity(), ..counters },
            // Its states are elsewhere.
            _ => counters,
        }
    }

    fn pack(&mut self, from: usize, leaving: &mut Leaving<'_>) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        self.pack_flows(from, leaving)
    }

    fn unpack(&mut self, flows: PackedFlows, watermark: Watermark, now_ns: u64) {
        self.unpack_flows(flows, watermark, now_ns);
    }

    fn note(&mut self, notes: &Arc<Notes>, own: Option<usize>) {
        self.noting = own.map(|function| {
            let is_in_step = self.entries.is_empty() && self.by_shard.is_none();
            Box::new(Noting::of(notes, function, is_in_step))
        });
        self.members.iter_mut().for_each(|member| member.note(notes));
    }

    fn note_since(&mut self, seq: u64, is_in_step: bool) {
        self.noting.iter_mut().for_each(|noting| noting.since(seq, is_in_step));
    }

    fn tell(&mut self, told: &Arc<Told>, function: usize) {
        self.telling = Some(Box::new(Telling::of(told, function)));
    }

    fn has_flow(&self, key: &[u8]) -> bool {
        self.has_flow_of(key)
    }

    fn take_pool(&mut self, member: usize, entry: u16) -> Option<Pool> {
        self.members[member].take_pool(entry)
    }

    fn put_pool(&mut self, member: usize, entry: u16, pool: Pool) {
        self.members[member].put_pool(entry, pool);
    }

    fn copy_from(&mut self, other: &dyn Group) {
        let other = (other as &dyn Any).downcast_ref::<Self>().expect("the same group");
        let used = self.table.slots().len().max(other.table.slots().len());
        self.table.copy_from(&other.table);
        if !self.entries.is_empty() {
            self.entries[..used].copy_from_slice(&other.entries[..used]);
        }
        self.members.iter_mut().zip(&other.members).for_each(|(member, other)| member.copy_from(&**other));
    }

    fn absorb(&mut self, other: &mut dyn Group, is_replica: bool) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same group");
        if is_replica {
            self.absorb_replica(other);
        }
        debug_assert!(other.table.is_empty(), "flows that nobody packed");
        for (member, of_other) in self.members.iter_mut().zip(&mut other.members) {
            member.absorb(&mut **of_other, is_replica);
        }
    }

    fn take_over(&mut self, other: &mut dyn Group) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same functions");
        mem::swap(&mut self.table, &mut other.table);
        mem::swap(&mut self.entries, &mut other.entries);
        mem::swap(&mut self.by_shard, &mut other.by_shard);
        for (member, other) in self.members.iter_mut().zip(&mut other.members) {
            member.take_over(&mut **other);
        }
    }

    fn spare(&self, flows: &dyn Fn(usize) -> usize) -> Result<Option<Table>, OutOfMemory> {
        self.new_spare(flows(self.table.capacity())).map(Some)
    }

    fn split_by_shard(&mut self, shards: usize) {
        self.by_shard = Some(Box::new(TablesByShard::without_tables(shards)));
    }

    fn join_shards(&mut self) {
        self.by_shard = None;
    }

    fn shard_tables(&mut self) -> Option<&mut dyn ShardTables> {
        if self.by_shard.is_some() { Some(self) } else { None }
    }
}
