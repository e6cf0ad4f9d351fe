//! A group's look-ups where a card says which blocks packets' flows are in: see [`path::referred`](crate::path::referred).
//!
//! ```text
//!   looked up:  hash -> bucket -> block: is it the key's?
//!   said:                         block: is it the key's? no -> looked up
//! ```

use io::{Frame, Port, Reference};
use nf::FlowKey;

use crate::path::batch::Batch;
use crate::path::laps::Laps;
use crate::path::packets::bits;
use crate::path::parcel::part_of;
use crate::store::member::Located;
use crate::store::private::KeyGroup;
use crate::store::shelf::Shelf;

impl<K: FlowKey> KeyGroup<K> {
    /// Takes every live packet through the functions, of which `said` have their flow's supposed block in `located`. Says of which
    /// of these it was not, or is not any more.
    pub(super) fn process_referred(
        &mut self,
        said: u64,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) -> u64 {
        let (rest, said) = (batch.live, batch.live & said);
        self.hash(rest & !said, batch);
        let wrong = said & !self.check_said(said, batch);
        // No later than those whose buckets are on their way.
        self.hash(wrong, batch);
        let Located { wanted, slots } = &mut *self.located;
        self.table.candidates(rest & !said | wrong, wanted, slots);
        let idle = self.table.lost_states();
        self.step_all(rest, batch, port, laps);
        // Flows end rarely.
        match self.table.lost_states() == idle {
            true => wrong,
            false => wrong | self.ended(said),
        }
    }

    /// Which of these packets' flows have no state any more.
    #[cold]
    fn ended(&self, packets: u64) -> u64 {
        let ended = |packet: usize| !self.table.has_state(self.located.slot(packet));
        bits(packets).filter(|packet| ended(*packet)).fold(0, |set, packet| set | 1 << packet)
    }

    /// Which of these packets' flows are in the blocks that `located` has. Of those it notes what they are looked up by.
    #[inline]
    fn check_said(&mut self, said: u64, batch: &Batch) -> u64 {
        let Self { table, located, .. } = self;
        let Located { wanted, slots } = &mut **located;
        let mut right = 0;
        for packet in bits(said) {
            let headers = &batch.headers[packet];
            let short = match batch.plain >> packet & 1 {
                1 => K::short_of_ipv4(headers),
                _ => K::short_of(headers),
            };
            let found = table.wanted_at(slots[packet], short, || K::of(headers));
            #[cfg(test)]
            let found = planted::believed(table, slots[packet]).or(found);
            if let Some(found) = found {
                wanted[packet] = found;
                right |= 1 << packet;
            }
        }
        right
    }
}

impl<K> Shelf<K> {
    /// Notes what a card says of the next batch's packets, and asks for the blocks: before anything is looked up, so that they are
    /// there when it is their turn, whatever part they are in.
    pub(super) fn note_said(&mut self, frames: &[Frame], references: &[Reference], group: usize)
    where
        K: FlowKey,
    {
        let Shelf { said, tables, splits, .. } = self;
        said.note(&references[..frames.len()], group);
        for packet in bits(said.packets) {
            if let Some(shelved) = &tables[part_of(frames[packet].entry, splits)] {
                shelved.table.prefetch_block(said.slots[packet]);
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
        /// Of the cores that are simulated on this thread.
        pub(crate) static BELIEVES: Cell<bool> = const { Cell::new(false) };
    }

    /// What the flow in a block is looked up by, whichever flow it is.
    pub(super) fn believed<K: FlowKey>(table: &FlowTable<K>, said: Slot) -> Option<Wanted> {
        let key = *(BELIEVES.get() && table.has_state(said)).then(|| table.key(said))?;
        Some(Wanted::new(key.short(), table.hash(key.short(), || key)))
    }
}
