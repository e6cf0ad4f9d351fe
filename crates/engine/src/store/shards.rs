//! A group's steps and hand-overs where it has tables by shard: see [`shelf`](super::shelf).

use std::mem;

use control::Split;
use io::{Frame, Port, Reference};
use nf::FlowKey;
use table::{FlowTable, Horizon, OutOfMemory, Slot};

use crate::path::batch::Batch;
use crate::path::group::Group;
use crate::path::items::Items;
use crate::path::laps::Laps;
use crate::path::packets::bits;
use crate::path::parcel::{Leaving, PackedFlows, Shelves, Table, part_of};
use crate::store::member::Way;
use crate::store::private::KeyGroup;
use crate::store::shelf::{Parts, Shelf, Shelved};

impl<K: FlowKey> KeyGroup<K> {
    /// See [`Group::spare`].
    pub(super) fn new_spare(&self, flows: usize) -> Result<Table, OutOfMemory> {
        Ok(Table(Box::new(Shelved::new(self.table.alike(flows)?, self.members.len()))))
    }

    /// Takes every live packet through the functions. All flows are looked for first, each in its part's table, so that what comes
    /// from memory for one packet is waited for together with what comes for others. Then functions step, part by part.
    #[inline(never)]
    pub(super) fn process_shards(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut shelf) = self.shelf.take() else { return };
        let said = batch.live & shelf.said.packets;
        let (splits, sets, frames) = (&*shelf.splits, &mut *shelf.sets, &*batch.frames);
        // Where there is one shard, most batches are of one part, which takes less to find out than which part each packet is of.
        if splits.len() == 1 && said == 0 && batch.live != 0 {
            let mut each = bits(batch.live).map(|packet| part_of(frames[packet].entry, splits));
            let first = each.next().unwrap_or(0);
            if each.all(|part| part == first) {
                self.with(&mut shelf, first, |group| group.process(batch, port, laps));
                self.shelf = Some(shelf);
                return;
            }
        }
        let mut parts = Parts::default();
        for packet in bits(batch.live) {
            parts.add(packet, part_of(frames[packet].entry, splits), sets);
        }
        let said = self.locate_in(&mut shelf, &parts, said, batch);
        for part in parts.present() {
            let packets = mem::take(&mut shelf.sets[usize::from(*part)]);
            let step = |group: &mut Self| group.step_said(packets, said, batch, port, laps);
            let ended = self.with(&mut shelf, (*part).into(), step);
            shelf.said.wrong |= ended;
        }
        self.shelf = Some(shelf);
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
        let Some(mut shelf) = self.shelf.take() else { return };
        let part = |item: usize| part_of(items.entry(item), &shelf.splits);
        let first = part(0);
        debug_assert!((0..items.len()).all(|item| part(item) == first), "items of one table");
        self.with(&mut shelf, first, |group| group.replay_items(items, batch, port, laps));
        self.shelf = Some(shelf);
    }

    /// Does something with one of the tables at hand.
    fn with<R>(&mut self, shelf: &mut Shelf<K>, part: usize, act: impl FnOnce(&mut Self) -> R) -> R {
        let shelved = shelf.tables[part].as_deref_mut().expect(Shelf::<K>::IS_HERE);
        let is_silent = shelf.silent == Some(part);
        mem::swap(&mut shelved.table, &mut self.table);
        mem::swap(&mut shelved.entries, &mut self.entries);
        if is_silent {
            self.members.iter_mut().for_each(|member| member.swap_accounts());
        }
        for (member, count) in self.members.iter().zip(&mut shelved.live) {
            *count -= member.net_flows();
        }
        let done = act(self);
        for (member, count) in self.members.iter().zip(&mut shelved.live) {
            *count += member.net_flows();
        }
        if is_silent {
            self.members.iter_mut().for_each(|member| member.swap_accounts());
        }
        mem::swap(&mut shelved.table, &mut self.table);
        mem::swap(&mut shelved.entries, &mut self.entries);
        done
    }

    /// Calls `act` with each part's table at hand in turn, and last with the group's own.
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

    fn take_as_new(&mut self, part: usize) -> Option<Table> {
        let mut shelved = self.shelf.as_mut()?.tables[part].take()?;
        self.count_moved(&shelved.live, Way::Out);
        shelved.table.clear();
        shelved.live.fill(0);
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

    fn exchange(&mut self, part: usize) {
        let Self { table, entries, members, shelf, .. } = self;
        let Some(shelf) = shelf else { return };
        let elsewhere: Vec<i64> = (0..members.len()).map(|member| shelf.live(member)).collect();
        let shelved = shelf.tables[part].as_deref_mut().expect(Shelf::<K>::IS_HERE);
        mem::swap(&mut shelved.table, table);
        mem::swap(&mut shelved.entries, entries);
        for ((member, elsewhere), live) in members.iter().zip(elsewhere).zip(&mut shelved.live) {
            *live = member.net_flows() - elsewhere;
        }
    }

    fn split(&mut self, shard: usize, split: Split) {
        if let Some(shelf) = &mut self.shelf {
            shelf.splits[shard] = split;
        }
    }

    fn pack_from(
        &mut self,
        part: usize,
        block: usize,
        leaving: &mut Leaving<'_>,
    ) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        let Some(mut shelf) = self.shelf.take() else { return (None, Vec::new()) };
        let packed = self.with(&mut shelf, part, |group| group.pack(block, leaving));
        self.shelf = Some(shelf);
        packed
    }

    fn unpack_into(&mut self, part: usize, flows: PackedFlows, horizon: Horizon, now_ns: u64) {
        let Some(mut shelf) = self.shelf.take() else { return };
        self.with(&mut shelf, part, |group| group.unpack(flows, horizon, now_ns));
        self.shelf = Some(shelf);
    }

    fn here(&self) -> Vec<usize> {
        self.shelf.as_ref().map_or_else(Vec::new, |shelf| shelf.here())
    }

    fn refer(&mut self, frames: &[Frame], references: &[Reference], place: usize) {
        if let Some(shelf) = &mut self.shelf {
            shelf.note_said(frames, references, place);
        }
    }

    fn said(&self) -> (u64, u64) {
        self.shelf.as_ref().map_or((0, 0), |shelf| (shelf.said.packets, shelf.said.wrong))
    }

    fn found(&self, packet: usize, entry: u16) -> Slot {
        let slot = self.located.slot(packet);
        let table = |shelf: &Shelf<K>| {
            let shelved = shelf.tables[part_of(entry, &shelf.splits)].as_ref()?;
            shelved.table.has_state(slot).then_some(slot)
        };
        self.shelf.as_deref().and_then(table).unwrap_or(Slot::NONE)
    }

    fn silence(&mut self, part: usize) {
        if let Some(shelf) = &mut self.shelf {
            shelf.silent = Some(part);
        }
    }
}
