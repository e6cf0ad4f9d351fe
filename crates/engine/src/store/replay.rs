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
use crate::path::packets::{BATCH_PACKETS, below_first, bits, first_bits, runs_between_misses, span_bits};
use crate::store::member::{Member, Runs, Steps, note_entry};
use crate::store::private::KeyGroup;
use crate::store::slow_path::{Evicting, free_one};

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

/// The key of an item; of one that is no function's business, for which there is no step, any. A short key is taken from
/// what stands for it, so that the two agree whatever a wire has brought.
#[cold]
fn key_of<K: FlowKey>(
    members: &[Box<dyn Member<K>>],
    wanted: &[Wanted],
    item: usize,
    items: &Items<'_>,
) -> K {
    if size_of::<K>() <= size_of::<u128>()
        && let Ok((key, _)) = K::read_from_prefix(&wanted[item].short().bits.to_le_bytes())
    {
        return key;
    }
    members.iter().find_map(|member| member.replay_key(item, items)).unwrap_or_else(K::new_zeroed)
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
        let (wanted, repeats) = items.wanted(self.members[0].index());
        // Of a run of items with one key the first is looked up.
        let leaders = rest & !(repeats & rest << 1);
        self.table.ask(leaders, wanted);
        self.table.candidates(leaders, wanted, &mut self.slots);
        while rest != 0 {
            // Not past a maintenance, which comes between two packets wherever batches were cut.
            let packets = first_bits(rest, self.table.steps_left());
            rest &= !packets;
            let watermark = batch.watermark(items.times_ns[packets.ilog2() as usize]);
            // What maintenance may have changed is looked up again.
            self.leaders = packets & (leaders | packets & packets.wrapping_neg());
            self.replay_some(packets, wanted, items, batch, port, laps);
            self.count_steps(packets, watermark, batch, laps);
        }
    }

    fn replay_some(
        &mut self,
        packets: u64,
        wanted: &[Wanted],
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let Self { table, members, slots, .. } = self;
        let leaders =
            table.find_all(self.leaders, wanted, slots, |item| key_of(members, wanted, item, items));
        let hits = packets & runs_of(leaders, self.leaders);
        let misses = packets & !hits;
        if self.table.free() < misses.count_ones() as usize {
            bits(packets).for_each(|item| self.replay_one(item, wanted, items, batch, port));
            return laps.lap(Lap::OneByOne, batch);
        }
        laps.lap(Lap::Locate, batch);
        if self.in_order {
            for (run, miss) in runs_between_misses(packets, hits) {
                self.replay_hits(run, items, batch, port, laps);
                miss.into_iter().for_each(|item| self.replay_one(item, wanted, items, batch, port));
            }
            return;
        }
        self.replay_hits(hits, items, batch, port, laps);
        if misses != 0 {
            self.replay_misses(misses, wanted, items, batch, port);
            laps.lap(Lap::OneByOne, batch);
        }
    }

    /// The block of an item's flow, or [`Slot::NONE`].
    fn find(&self, item: usize, wanted: &[Wanted], items: &Items<'_>) -> Slot {
        let (hash, short) = (wanted[item].hash(), wanted[item].short());
        self.table.find(hash, short, || key_of(&self.members, wanted, item, items))
    }

    /// Items of flows that have no block, unless an item before makes one. As long as none of them leaves a state, nothing is looked
    /// up for them.
    fn replay_misses(
        &mut self,
        mut rest: u64,
        wanted: &[Wanted],
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        // As long as no flow has come to the table, none of them has a block.
        let flows_before = self.table.len();
        while rest != 0 {
            let item = rest.trailing_zeros() as usize;
            let is_as_before = self.table.len() == flows_before;
            let is_unknown = || is_as_before || !self.find(item, wanted, items).is_some();
            if !items.is_own(item) && self.members.len() == 1 && is_unknown() {
                let mut some = rest & below_first(rest & items.own);
                if !is_as_before {
                    // As far as neighbours are of one flow.
                    some &= below_first((!rest | self.leaders) & !span_bits(0, item + 1));
                }
                let stepped = self.members[0].replay_misses(some, items);
                rest &= !stepped;
                if stepped != 0 {
                    continue;
                }
            }
            self.replay_one(item, wanted, items, batch, port);
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
        wanted: &[Wanted],
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        if items.is_own(item) {
            // As any packet of the batch.
            let packet = items.packet(item);
            self.located.wanted[packet] = wanted[item];
            self.located.slots[packet] = Slot::NONE;
            self.one(packet, batch, port);
            return items.sync(item, batch);
        }
        self.slots[item] = self.find(item, wanted, items);
        let mut is_refused = false;
        for member in 0..self.members.len() {
            if items.live >> item & 1 == 0 {
                return;
            }
            let Self { table, members, located, slots, entries, noting, .. } = self;
            if slots[item].is_some() {
                let mut steps = Steps { batch, table, located, port };
                let runs = Runs { leaders: 1 << item, slots };
                members[member].replay_hits(1 << item, runs, items, &mut steps);
            } else if members[member].replay_miss(item, items) {
                // Room for one function is room for all, and so is none.
                if !is_refused {
                    let now_ns = items.times_ns[item];
                    let watermark = batch.watermark(now_ns);
                    let seq = items.seqs.seq(item);
                    let noting = noting.as_deref();
                    let evicting = noting.map(|noting| Evicting { noting, seq: Some(seq) });
                    free_one(table, members, entries, watermark, now_ns, evicting);
                    let (hash, short) = (wanted[item].hash(), wanted[item].short());
                    slots[item] = table.insert(hash, short, &key_of(members, wanted, item, items));
                    note_entry(entries, slots[item], items.entry(item));
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
