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
use table::{Slot, Wanted};

use crate::path::batch::Batch;
use crate::path::items::Items;
use crate::path::laps::{Lap, Laps};
use crate::path::packets::{BATCH_PACKETS, bits, first_bits, runs_between_misses, span_bits};
use crate::store::member::{Runs, Steps, note_entry};
use crate::store::private::KeyGroup;
use crate::store::walk::free_one;

/// What items are looked up by, and their keys.
#[derive(Clone, Copy)]
struct Keys<'a, K> {
    wanted: &'a [Wanted],
    keys: &'a [K],
}

/// The items from a leader up to the next one.
#[inline]
fn run_of(leader: u64, leaders: u64) -> u64 {
    let later = leaders & !(leader | (leader - 1));
    let next = later & later.wrapping_neg();
    next.wrapping_sub(1) & !(leader - 1)
}

/// The items of runs that begin with `some` of the leaders.
fn runs_of(some: u64, leaders: u64) -> u64 {
    let without = |items: u64, leader: usize| items & !run_of(1 << leader, leaders);
    bits(leaders & !some).fold(!0, without)
}

/// Leaders that are live: where one is not, the first in its run that is.
#[cold]
fn led_by_live(live: u64, leaders: u64, slots: &mut [Slot; BATCH_PACKETS]) -> u64 {
    let mut led = leaders & live;
    for leader in bits(leaders & !live) {
        let run = live & run_of(1 << leader, leaders);
        if run != 0 {
            let first = run.trailing_zeros() as usize;
            slots[first] = slots[leader];
            led |= 1 << first;
        }
    }
    led
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
        let (wanted, keys, repeats) = items.keys::<K>(self.members[0].index());
        // Of a run of items with one key the first is looked up.
        let leaders = rest & !(repeats & rest << 1);
        self.table.ask(leaders, wanted);
        self.table.candidates(leaders, wanted, &mut self.slots);
        let keys = Keys { wanted, keys };
        while rest != 0 {
            // Not past a maintenance, which comes between two packets wherever batches were cut.
            let packets = first_bits(rest, self.table.steps_left());
            rest &= !packets;
            let horizon = batch.horizon(items.times_ns[packets.ilog2() as usize]);
            // What maintenance may have changed is looked up again.
            self.leaders = packets & (leaders | packets & packets.wrapping_neg());
            self.replay_some(packets, keys, items, batch, port, laps);
            self.count_steps(packets, horizon, batch, laps);
        }
    }

    fn replay_some(
        &mut self,
        packets: u64,
        keys: Keys<'_, K>,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let leaders = self.table.find_all(self.leaders, keys.wanted, &mut self.slots, |item| keys.keys[item]);
        let hits = packets & runs_of(leaders, self.leaders);
        let misses = packets & !hits;
        if self.table.free() < misses.count_ones() as usize {
            bits(packets).for_each(|item| self.replay_one(item, keys, items, batch, port));
            return laps.lap(Lap::OneByOne, batch);
        }
        laps.lap(Lap::Locate, batch);
        if self.in_order {
            for (run, miss) in runs_between_misses(packets, hits) {
                self.replay_hits(run, items, batch, port, laps);
                miss.into_iter().for_each(|item| self.replay_one(item, keys, items, batch, port));
            }
            return;
        }
        self.replay_hits(hits, items, batch, port, laps);
        if misses != 0 {
            self.replay_misses(misses, keys, items, batch, port);
            laps.lap(Lap::OneByOne, batch);
        }
    }

    /// Items of flows that have no block, unless an item before makes one. As long as those of one flow leave no state,
    /// nothing is looked up for them.
    fn replay_misses(
        &mut self,
        mut rest: u64,
        keys: Keys<'_, K>,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        while rest != 0 {
            let item = rest.trailing_zeros() as usize;
            let wanted = &keys.wanted[item];
            if !items.is_own(item)
                && self.members.len() == 1
                && !self.table.find(wanted.hash(), wanted.short(), || keys.keys[item]).is_some()
            {
                // As far as neighbours are history of one flow.
                let ends = !rest | items.own | self.leaders & !span_bits(0, item + 1);
                let count = ((ends >> item).trailing_zeros() as usize).min(BATCH_PACKETS - item);
                let stepped = self.members[0].replay_misses(span_bits(item, count), items);
                rest &= !stepped;
                if stepped != 0 {
                    continue;
                }
            }
            self.replay_one(item, keys, items, batch, port);
            rest &= rest - 1;
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
        let Self { table, members, located, slots, leaders, .. } = self;
        for member in members {
            let live = hits & items.live;
            let leaders = if *leaders & !live == 0 { *leaders } else { led_by_live(live, *leaders, slots) };
            let runs = Runs { leaders, slots };
            member.replay_hits(live, runs, items, &mut Steps { batch, table, located, port });
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
            self.located.wanted[packet] = keys.wanted[item];
            self.located.slots[packet] = Slot::NONE;
            self.one(packet, batch, port);
            return items.sync(item, batch);
        }
        let wanted = &keys.wanted[item];
        self.slots[item] = self.table.find(wanted.hash(), wanted.short(), || keys.keys[item]);
        let mut is_refused = false;
        for member in 0..self.members.len() {
            if items.live >> item & 1 == 0 {
                return;
            }
            let Self { table, members, located, slots, entries, .. } = self;
            if slots[item].is_some() {
                let mut steps = Steps { batch, table, located, port };
                let runs = Runs { leaders: 1 << item, slots };
                members[member].replay_hits(1 << item, runs, items, &mut steps);
            } else if members[member].replay_miss(item, items) {
                // Room for one function is room for all, and so is none.
                if !is_refused {
                    let now_ns = items.times_ns[item];
                    free_one(table, members, entries, batch.horizon(now_ns), now_ns);
                    slots[item] = table.insert(wanted.hash(), wanted.short(), &keys.keys[item]);
                    note_entry(entries, slots[item], 0);
                    is_refused = !slots[item].is_some();
                }
                members[member].replay_place(item, slots[item], items, table);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nf::SrcAddr;
    use table::{FlowTable, Layout, WhenFull};
    use wire::Headers;

    use super::*;

    #[test]
    fn runs_begin_with_leaders() {
        let leaders = 0b1001_0001;
        assert_eq!(runs_of(leaders, leaders), !0);
        assert_eq!(runs_of(0b1000_0001, leaders), !0b0111_0000);
        assert_eq!(runs_of(0b0001_0001, leaders), 0b0111_1111);
        assert_eq!(runs_of(0, leaders), 0);
        assert_eq!(runs_of(0, 1 << 63 | 1), 0);
    }

    #[test]
    fn the_first_that_is_live_leads_a_run() {
        let mut table = FlowTable::<SrcAddr>::new(&Layout::new(), 1, WhenFull::Reject, 0).expect("memory");
        let key = SrcAddr::of(&Headers::default());
        let mut slots = [Slot::NONE; BATCH_PACKETS];
        slots[4] = table.insert(0, key.short(), &key);
        assert_eq!(led_by_live(0b1100_0001, 0b0001_0001, &mut slots), 0b0100_0001);
        assert_eq!(slots[6], slots[4]);
        assert_eq!(led_by_live(0b0000_0001, 0b0001_0001, &mut slots), 1);
    }
}
