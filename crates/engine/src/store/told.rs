//! A group notes what it turns away, or turns away what it is told to, and nothing else: see [`turned_away`](crate::path::turned_away).

use io::{Frame, Port};
use nf::FlowKey;
use table::{Slot, Watermark};
use wire::Stamp;

use crate::path::batch::Batch;
use crate::path::packets::bits;
use crate::path::turned_away::Telling;
use crate::store::member::block;
use crate::store::private::KeyGroup;
use crate::store::slow_path::SlowPath;

impl<K: FlowKey> KeyGroup<K> {
    /// Notes that packets were stepped.
    #[inline(always)]
    pub(super) fn note_stepped(&self, packets: u64, batch: &Batch) {
        if let Some(noting) = &self.noting {
            bits(packets).for_each(|packet| {
                let Frame { entry, stamp, .. } = batch.frames[packet];
                noting.stepped(entry, stamp.seq);
            });
        }
    }

    /// Steps packets in order, and turns away what the group is told to.
    #[inline(never)]
    pub(super) fn step_as_told(
        &mut self,
        telling: &mut Telling,
        packets: u64,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        bits(packets).for_each(|packet| self.one_as_told(telling, packet, batch, port));
    }

    fn one_as_told(&mut self, telling: &mut Telling, packet: usize, batch: &mut Batch, port: &dyn Port) {
        let Stamp { seq, time_ns } = batch.frames[packet].stamp;
        let watermark = batch.watermark(time_ns);
        while let Some(key) = telling.evicted_before(seq) {
            self.turn_out_flow(&key, watermark);
        }
        let mut slot = self.locate(packet, batch);
        if slot.is_some() && telling.is_absent(seq) {
            let lives = self.members.iter().any(|member| member.lives_until(slot, &self.table) > time_ns);
            // A flow that nobody evicted stays: that it was not there is a difference.
            if telling.is_evicted_ahead(self.table.key(slot).as_bytes(), seq) || !lives {
                self.turn_out(slot, watermark);
                slot = Slot::NONE;
            }
        }
        self.located.slots[packet] = slot;
        let mut is_refused = telling.is_refused(seq);
        let Self { table, members, located, entries, .. } = self;
        let mut slow_path =
            SlowPath { batch, table, members, located, entries, port, clock: None, noting: None };
        let members = slow_path.members.len();
        for member in 0..members {
            let member = if slow_path.batch.is_reversed { members - 1 - member } else { member };
            if slow_path.batch.live & (1 << packet) == 0 {
                return;
            }
            let is_known = slow_path.located.slot(packet).is_some();
            let (function, mut steps) = slow_path.member(member);
            if let Some(reason) = telling.starved(seq, function.index()) {
                function.refuse(packet, reason, &mut steps);
            } else if is_known {
                function.hits(1 << packet, &mut steps);
            } else if function.miss(packet, &mut steps) {
                if !is_refused {
                    slow_path.insert(packet);
                    is_refused = !slow_path.located.slot(packet).is_some();
                }
                let (function, mut steps) = slow_path.member(member);
                function.place(packet, &mut steps);
            }
        }
    }

    /// Evicts what had been evicted and had not come back by the end.
    pub(super) fn end_as_told(&mut self, telling: &Telling, end: Watermark) {
        telling.gone().iter().for_each(|key| self.turn_out_flow(key, end));
    }

    fn turn_out_flow(&mut self, key: &[u8], watermark: Watermark) {
        let Ok(key) = K::read_from_bytes(key) else { return };
        let slot = self.table.find(self.table.hash(key.short(), || key), key.short(), || key);
        if slot.is_some() {
            self.turn_out(slot, watermark);
        }
    }

    fn turn_out(&mut self, slot: Slot, watermark: Watermark) {
        let Self { table, members, entries, .. } = self;
        let block = block(entries, slot);
        members.iter_mut().for_each(|member| member.leave(block, watermark, table));
        table.release(slot);
    }
}
