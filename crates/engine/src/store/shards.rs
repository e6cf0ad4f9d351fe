//! A group's steps and hand-overs where it has tables by shard: see [`tables_by_shard`](super::tables_by_shard).

use std::mem;

use control::Split;
use io::{Frame, Port, Reference};
use nf::FlowKey;
use table::{FlowTable, OutOfMemory, Slot, Watermark};

use crate::path::batch::Batch;
use crate::path::group::Group;
use crate::path::items::Items;
use crate::path::laps::Laps;
use crate::path::packets::bits;
use crate::path::parcel::{Leaving, PackedFlows, ShardTables, Table, part_of};
use crate::store::member::Way;
use crate::store::private::KeyGroup;
use crate::store::tables_by_shard::{Parts, ShardTable, TablesByShard};

impl<K: FlowKey> KeyGroup<K> {
    /// See [`Group::spare`].
    pub(super) fn new_spare(&self, flows: usize) -> Result<Table, OutOfMemory> {
        Ok(Table(Box::new(ShardTable::new(self.table.alike(flows)?, self.members.len()))))
    }

    /// Takes every live packet through the functions. All flows are looked for first, each in its part's table, so that what comes
    /// from memory for one packet is waited for together with what comes for others. Then functions step, part by part.
    #[inline(never)]
    pub(super) fn process_shards(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut by_shard) = self.by_shard.take() else { return };
        let said = batch.live & by_shard.said.packets;
        let (splits, sets, frames) = (&*by_shard.splits, &mut *by_shard.sets, &*batch.frames);
        // Where there is one shard, most batches are of one part, which takes less to find out than which part each packet is of.
        if splits.len() == 1 && said == 0 && batch.live != 0 {
            let mut each = bits(batch.live).map(|packet| part_of(frames[packet].entry, splits));
            let first = each.next().unwrap_or(0);
            if each.all(|part| part == first) {
                self.with(&mut by_shard, first, |group| group.process(batch, port, laps));
                self.by_shard = Some(by_shard);
                return;
            }
        }
        let mut parts = Parts::default();
        for packet in bits(batch.live) {
            parts.add(packet, part_of(frames[packet].entry, splits), sets);
        }
        let said = self.locate_in(&mut by_shard, &parts, said, batch);
        for part in parts.present() {
            let packets = mem::take(&mut by_shard.sets[usize::from(*part)]);
            let step = |group: &mut Self| group.step_said(packets, said, batch, port, laps);
            let ended = self.with(&mut by_shard, (*part).into(), step);
            by_shard.said.wrong |= ended;
        }
        self.by_shard = Some(by_shard);
    }

    /// Takes every live item through the functions: all are of flows in one part, which the entry of each says.
    #[inline(never)]
    pub(super) fn replay_part(
        &mut self,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        if items.live == 0 {
            return;
        }
        let Some(mut by_shard) = self.by_shard.take() else { return };
        let part = |item: usize| part_of(items.entry(item), &by_shard.splits);
        let first = part(0);
        debug_assert!((0..items.len()).all(|item| part(item) == first), "items of one table");
        self.with(&mut by_shard, first, |group| group.replay_items(items, batch, port, laps));
        self.by_shard = Some(by_shard);
    }

    /// Does something with one of the tables at hand.
    fn with<R>(
        &mut self,
        by_shard: &mut TablesByShard<K>,
        part: usize,
        act: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let shard_table = by_shard.tables[part].as_deref_mut().expect(TablesByShard::<K>::IS_HERE);
        let is_silent = by_shard.silent == Some(part);
        mem::swap(&mut shard_table.table, &mut self.table);
        mem::swap(&mut shard_table.entries, &mut self.entries);
        if is_silent {
            self.members.iter_mut().for_each(|member| member.swap_accounts());
        }
        for (member, count) in self.members.iter().zip(&mut shard_table.live) {
            *count -= member.net_flows();
        }
        let done = act(self);
        for (member, count) in self.members.iter().zip(&mut shard_table.live) {
            *count += member.net_flows();
        }
        if is_silent {
            self.members.iter_mut().for_each(|member| member.swap_accounts());
        }
        mem::swap(&mut shard_table.table, &mut self.table);
        mem::swap(&mut shard_table.entries, &mut self.entries);
        done
    }

    /// Calls `act` with each part's table at hand in turn, and last with the group's own.
    pub(super) fn with_each(&mut self, mut act: impl FnMut(&mut Self)) {
        if let Some(mut by_shard) = self.by_shard.take() {
            by_shard.here().into_iter().for_each(|part| self.with(&mut by_shard, part, &mut act));
            self.by_shard = Some(by_shard);
        }
        // The one at hand last: members end with what they have beside tables.
        let by_shard = self.by_shard.take();
        act(self);
        self.by_shard = by_shard;
    }

    /// A sum over all tables, of which each adds to what members have beside tables.
    pub(super) fn sum(&self, of: impl Fn(&FlowTable<K>) -> u64) -> u64 {
        let beside = of(&self.table);
        let tables = self.by_shard.iter().flat_map(|by_shard| by_shard.tables());
        tables.map(|table| of(table).wrapping_sub(beside)).fold(beside, u64::wrapping_add)
    }

    fn count_moved(&mut self, live: &[i64], way: Way) {
        for (member, live) in self.members.iter_mut().zip(live) {
            member.moved(way, (*live).max(0) as u64);
        }
    }
}

impl<K: FlowKey> ShardTables for KeyGroup<K> {
    fn take(&mut self, part: usize) -> Option<Table> {
        let shard_table = self.by_shard.as_mut()?.tables[part].take()?;
        self.count_moved(&shard_table.live, Way::Out);
        Some(Table(shard_table))
    }

    fn take_as_new(&mut self, part: usize) -> Option<Table> {
        let mut shard_table = self.by_shard.as_mut()?.tables[part].take()?;
        self.count_moved(&shard_table.live, Way::Out);
        shard_table.table.clear();
        shard_table.live.fill(0);
        Some(Table(shard_table))
    }

    fn put(&mut self, part: usize, Table(table): Table) {
        let mut shard_table: Box<ShardTable<K>> = table.downcast().expect("of this group on another core");
        shard_table.table.come_to(&self.table);
        self.count_moved(&shard_table.live, Way::In);
        if let Some(by_shard) = &mut self.by_shard {
            by_shard.tables[part] = Some(shard_table);
        }
    }

    fn exchange(&mut self, part: usize) {
        let Self { table, entries, members, by_shard, .. } = self;
        let Some(by_shard) = by_shard else { return };
        let elsewhere: Vec<i64> = (0..members.len()).map(|member| by_shard.live(member)).collect();
        let shard_table = by_shard.tables[part].as_deref_mut().expect(TablesByShard::<K>::IS_HERE);
        mem::swap(&mut shard_table.table, table);
        mem::swap(&mut shard_table.entries, entries);
        for ((member, elsewhere), live) in members.iter().zip(elsewhere).zip(&mut shard_table.live) {
            *live = member.net_flows() - elsewhere;
        }
    }

    fn split(&mut self, shard: usize, split: Split) {
        if let Some(by_shard) = &mut self.by_shard {
            by_shard.splits[shard] = split;
        }
    }

    fn pack_from(
        &mut self,
        part: usize,
        block: usize,
        leaving: &mut Leaving<'_>,
    ) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        let Some(mut by_shard) = self.by_shard.take() else { return (None, Vec::new()) };
        let packed = self.with(&mut by_shard, part, |group| group.pack(block, leaving));
        self.by_shard = Some(by_shard);
        packed
    }

    fn unpack_into(&mut self, part: usize, flows: PackedFlows, watermark: Watermark, now_ns: u64) {
        let Some(mut by_shard) = self.by_shard.take() else { return };
        self.with(&mut by_shard, part, |group| group.unpack(flows, watermark, now_ns));
        self.by_shard = Some(by_shard);
    }

    fn here(&self) -> Vec<usize> {
        self.by_shard.as_ref().map_or_else(Vec::new, |by_shard| by_shard.here())
    }

    fn refer(&mut self, frames: &[Frame], references: &[Reference], place: usize) {
        if let Some(by_shard) = &mut self.by_shard {
            by_shard.note_said(frames, references, place);
        }
    }

    fn said(&self) -> (u64, u64) {
        self.by_shard.as_ref().map_or((0, 0), |by_shard| (by_shard.said.packets, by_shard.said.wrong))
    }

    fn found(&self, packet: usize, entry: u16) -> Slot {
        let slot = self.located.slot(packet);
        let table = |by_shard: &TablesByShard<K>| {
            let shard_table = by_shard.tables[part_of(entry, &by_shard.splits)].as_ref()?;
            shard_table.table.has_state(slot).then_some(slot)
        };
        self.by_shard.as_deref().and_then(table).unwrap_or(Slot::NONE)
    }

    fn silence(&mut self, part: usize) {
        if let Some(by_shard) = &mut self.by_shard {
            by_shard.silent = Some(part);
        }
    }
}
