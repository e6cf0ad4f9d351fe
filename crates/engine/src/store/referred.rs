//! A group's look-ups where a card says which blocks packets' flows are in: see [`path::referred`](crate::path::referred).
//!
//! ```text
//!   looked up:  hash -> bucket -> block: is it the key's?
//!   said:                         block: is it the key's? no -> looked up
//! ```

use io::{Frame, Port, Reference};
use nf::FlowKey;
use table::{FlowTable, Reach, Slot, Wanted};
use wire::Headers;

use crate::path::batch::Batch;
use crate::path::laps::Laps;
use crate::path::packets::bits;
use crate::path::parcel::part_of;
use crate::store::member::Located;
use crate::store::private::KeyGroup;
use crate::store::tables_by_shard::{Parts, TablesByShard};

impl<K: FlowKey> KeyGroup<K> {
    /// Looks for the flows of the batch's live packets, each in its part's table: asks for buckets, reads them, and asks for blocks. Of `said`
    /// packets a card says which block has the flow; of those where that is not so it notes it, and looks. Returns the others.
    #[inline]
    pub(super) fn locate_in(
        &mut self,
        by_shard: &mut TablesByShard<K>,
        parts: &Parts,
        said: u64,
        batch: &Batch,
    ) -> u64 {
        match Reach::here() {
            Reach::Near => self.locate_in_to::<{ Reach::NEAR }>(by_shard, parts, said, batch),
            Reach::Far => self.locate_in_to::<{ Reach::FAR }>(by_shard, parts, said, batch),
            Reach::Off => self.locate_in_to::<{ Reach::OFF }>(by_shard, parts, said, batch),
        }
    }

    fn locate_in_to<const REACH: u8>(
        &mut self,
        by_shard: &mut TablesByShard<K>,
        parts: &Parts,
        said: u64,
        batch: &Batch,
    ) -> u64 {
        let Self { table, located, .. } = self;
        // Tables of all parts hash alike, the one at hand, too.
        let hash = |short, headers: &Headers| table.hash(short, || K::of(headers));
        let ask = |located: &mut Located, packets: u64| {
            located.find_keys::<K>(packets, batch, hash);
            for packet in bits(packets) {
                let hash = located.wanted[packet].hash();
                by_shard.table(parts.of(packet)).prefetch_bucket_to::<REACH>(hash);
            }
        };
        ask(located, batch.live & !said);
        let mut right = 0;
        for packet in bits(said) {
            let found =
                said_flow(by_shard.table(parts.of(packet)), by_shard.said.slots[packet], packet, batch);
            if let Some(found) = found {
                (located.wanted[packet], located.slots[packet]) = (found, by_shard.said.slots[packet]);
                right |= 1 << packet;
            }
        }
        let wrong = said & !right;
        // No later than those whose buckets are on their way.
        ask(located, wrong);
        for packet in bits(batch.live & !right) {
            let hash = located.wanted[packet].hash();
            located.slots[packet] = by_shard.table(parts.of(packet)).candidate_to::<REACH>(hash);
        }
        by_shard.said.wrong |= wrong;
        right
    }

    /// Steps packets whose flows were looked for, and which are of the part at hand. Says which of the `said` flows ended.
    pub(super) fn step_said(
        &mut self,
        packets: u64,
        said: u64,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) -> u64 {
        let idle = self.table.lost_states();
        self.step_all(packets, batch, port, laps);
        // Flows end rarely.
        match self.table.lost_states() == idle {
            true => 0,
            false => self.ended(packets & said),
        }
    }

    /// Which of these packets' flows have no state any more.
    #[cold]
    fn ended(&self, packets: u64) -> u64 {
        let ended = |packet: usize| !self.table.has_state(self.located.slot(packet));
        bits(packets).filter(|packet| ended(*packet)).fold(0, |set, packet| set | 1 << packet)
    }
}

/// What a packet's flow is looked up by, if it is in the block that a card says.
#[inline(always)]
fn said_flow<K: FlowKey>(table: &FlowTable<K>, said: Slot, packet: usize, batch: &Batch) -> Option<Wanted> {
    let headers = &batch.headers[packet];
    let short = match batch.plain >> packet & 1 {
        1 => K::short_of_ipv4(headers),
        _ => K::short_of(headers),
    };
    let found = table.wanted_at(said, short, || K::of(headers));
    #[cfg(test)]
    let found = planted::believed(table, said).or(found);
    found
}

impl<K> TablesByShard<K> {
    /// Notes what a card says of the next batch's packets, and asks for the blocks: before anything is looked up, so that they are
    /// there when it is their turn, whatever part they are in.
    pub(super) fn note_said(&mut self, frames: &[Frame], references: &[Reference], group: usize)
    where
        K: FlowKey,
    {
        self.said.note(&references[..frames.len()], group);
        match Reach::here() {
            Reach::Near => self.ask_for_said::<{ Reach::NEAR }>(frames),
            Reach::Far => self.ask_for_said::<{ Reach::FAR }>(frames),
            Reach::Off => self.ask_for_said::<{ Reach::OFF }>(frames),
        }
    }

    #[inline(always)]
    fn ask_for_said<const REACH: u8>(&self, frames: &[Frame])
    where
        K: FlowKey,
    {
        let TablesByShard { said, tables, splits, .. } = self;
        for packet in bits(said.packets) {
            if let Some(shard_table) = &tables[part_of(frames[packet].entry, splits)] {
                shard_table.table.prefetch_block_to::<REACH>(said.slots[packet]);
            }
        }
    }
}

/// Planted: references are believed, and no key is compared.
#[cfg(test)]
pub(crate) mod planted {
    use std::cell::Cell;

    use nf::FlowKey;
    use table::{FlowTable, Slot, Wanted};

    thread_local! {
        /// Whether the cores that are simulated on this thread believe references.
        pub(crate) static BELIEVES: Cell<bool> = const { Cell::new(false) };
    }

    /// What the flow in a block is looked up by, whichever flow it is.
    pub(super) fn believed<K: FlowKey>(table: &FlowTable<K>, said: Slot) -> Option<Wanted> {
        let key = *(BELIEVES.get() && table.has_state(said)).then(|| table.key(said))?;
        Some(Wanted::new(key.short(), table.hash(key.short(), || key)))
    }
}
