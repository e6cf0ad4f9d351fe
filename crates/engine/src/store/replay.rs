//! A group steps packets of all cores, its own and others', from what it is told of them (SCR §3.2).
//!
//! ```text
//!   keys ──► ask for buckets ──► ask for blocks ──► compare keys ──► step, function by function, packets in order
//! ```
//!
//! Neighbours with one key are looked up once. Where flows may meet, which is in a full table or in a function's pool,
//! packets are stepped one by one through all functions, as in `private.rs`.

use io::Port;
use nf::FlowKey;
use table::Slot;

use crate::path::batch::Batch;
use crate::path::items::{Items, KeyItem};
use crate::path::laps::{Lap, Laps};
use crate::path::packets::{bits, first_bits};
use crate::store::member::{Steps, note_entry};
use crate::store::private::KeyGroup;
use crate::store::walk::free_one;

/// How a group looks items up: by item, what stands for the key, and the key.
#[derive(Clone, Copy)]
struct Keys<'a, K> {
    items: &'a [KeyItem],
    keys: &'a [K],
}

impl<K: FlowKey> KeyGroup<K> {
    /// See [`Group::replay`](crate::path::group::Group::replay).
    pub(super) fn replay_items(
        &mut self,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let mut rest = items.live;
        if rest == 0 {
            return;
        }
        let (key_items, keys) = items.keys::<K>(self.members[0].index());
        let keys = Keys { items: key_items, keys };
        let leaders = self.ask_for_blocks(rest, keys.items);
        while rest != 0 {
            // Not past a maintenance, which comes between two packets wherever batches were cut.
            let packets = first_bits(rest, self.table.steps_left());
            rest &= !packets;
            let horizon = batch.horizon(items.heads[packets.ilog2() as usize].time_ns);
            // What maintenance may have changed is looked up again.
            let leaders = leaders | packets & packets.wrapping_neg();
            self.replay_some((packets, leaders), keys, items, batch, port, laps);
            let Self { table, members, entries, .. } = self;
            if table.count_steps(packets.count_ones() as usize) {
                table.maintain(horizon, |table, slot| Self::expire(members, entries, slot, horizon, table));
                laps.lap(Lap::Sweep, batch);
            }
        }
    }

    /// Asks for the buckets, then for the blocks. Says which items have another key than the one before them.
    #[inline]
    fn ask_for_blocks(&mut self, packets: u64, keys: &[KeyItem]) -> u64 {
        let mut leaders = 0;
        let mut last = KeyItem::NONE;
        for item in bits(packets) {
            let key = keys[item];
            if !key.is_same(&last) {
                leaders |= 1 << item;
                self.table.prefetch_bucket(key.hash);
            }
            last = key;
        }
        for item in bits(leaders) {
            self.slots[item] = self.table.candidate(keys[item].hash);
        }
        leaders
    }

    /// Finds the blocks of items' flows; says which items have one.
    #[inline]
    fn find_items(&mut self, packets: u64, leaders: u64, keys: Keys<'_, K>) -> u64 {
        let mut hits = 0;
        let mut last = Slot::NONE;
        for item in bits(packets) {
            if leaders >> item & 1 == 1 {
                last = self.find_item(item, keys);
            }
            self.slots[item] = last;
            hits |= u64::from(last.is_some()) << item;
        }
        hits
    }

    #[inline(always)]
    fn find_item(&self, item: usize, Keys { items, keys }: Keys<'_, K>) -> Slot {
        let key = &items[item];
        self.table.locate(self.slots[item], key.hash, key.short(), || keys[item])
    }

    fn replay_some(
        &mut self,
        (packets, leaders): (u64, u64),
        keys: Keys<'_, K>,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let hits = self.find_items(packets, leaders, keys);
        let misses = packets & !hits;
        if self.table.free() < misses.count_ones() as usize {
            bits(packets).for_each(|item| self.replay_one(item, keys, items, batch, port));
            return laps.lap(Lap::OneByOne, batch);
        }
        laps.lap(Lap::Locate, batch);
        if self.in_order {
            let mut rest = packets;
            while rest != 0 {
                let missed = rest & misses;
                let run = rest & (missed & missed.wrapping_neg()).wrapping_sub(1);
                self.replay_hits(run, items, batch, port, laps);
                rest &= !run;
                if missed != 0 {
                    self.replay_one(missed.trailing_zeros() as usize, keys, items, batch, port);
                    rest &= rest - 1;
                }
            }
            return;
        }
        self.replay_hits(hits, items, batch, port, laps);
        if misses != 0 {
            bits(misses).for_each(|item| self.replay_one(item, keys, items, batch, port));
            laps.lap(Lap::OneByOne, batch);
        }
    }

    /// Items of flows that have a block, function by function.
    fn replay_hits(
        &mut self,
        hits: u64,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let Self { table, members, located, slots, .. } = self;
        for member in members {
            member.replay_hits(hits, slots, items, &mut Steps { batch, table, located, port });
            laps.lap(Lap::Function(member.index()), batch);
        }
    }

    /// One item through all functions.
    fn replay_one(
        &mut self,
        item: usize,
        keys: Keys<'_, K>,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        if items.is_own(item) {
            // As any packet of the batch.
            let packet = items.packet(item);
            let key = &keys.items[item];
            self.located.note(packet, key.short(), key.hash, Slot::NONE);
            self.one(packet, batch, port);
            return items.sync(item, batch);
        }
        self.slots[item] = Slot::NONE;
        self.slots[item] = self.find_item(item, keys);
        let mut is_refused = false;
        for member in 0..self.members.len() {
            if items.live >> item & 1 == 0 {
                return;
            }
            let Self { table, members, located, slots, entries, .. } = self;
            if slots[item].is_some() {
                let mut steps = Steps { batch, table, located, port };
                members[member].replay_hits(1 << item, slots, items, &mut steps);
            } else if members[member].replay_miss(item, items) {
                // Room for one function is room for all, and so is none.
                if !is_refused {
                    let now_ns = items.heads[item].time_ns;
                    free_one(table, members, entries, batch.horizon(now_ns), now_ns);
                    let key = &keys.items[item];
                    slots[item] = table.insert(key.hash, key.short(), &keys.keys[item]);
                    note_entry(entries, slots[item], 0);
                    is_refused = !slots[item].is_some();
                }
                members[member].replay_place(item, slots[item], items, table);
            }
        }
    }
}
