//! The slow path of a group: one packet at a time, function by function.

use io::{Frame, Port};
use nf::FlowKey;
use table::{FlowTable, Part, Watermark};

use crate::path::batch::Batch;
use crate::path::turned_away::Noting;
use crate::store::clocks::Clocks;
use crate::store::member::{Block, block};
use crate::store::member::{Located, Member, Steps, note_entry};

/// One packet's way through a group, function by function: for flows that may be new, and for all where other
/// flows may come between.
pub(crate) struct SlowPath<'a, K> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) table: &'a mut FlowTable<K>,
    pub(crate) members: &'a mut [Box<dyn Member<K>>],
    pub(crate) located: &'a mut Located,
    /// By block, as in a group; empty where flows stay.
    pub(crate) entries: &'a mut [u16],
    pub(crate) port: &'a dyn Port,
    /// Where several cores, not in step, use the table.
    pub(crate) clock: Option<Clock<'a>>,
    /// Where what is turned away is to be noted.
    pub(crate) noting: Option<&'a Noting>,
}

/// The time of a table that several cores use.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    /// Holds, as its deadline, the latest time that a flow has seen.
    pub(crate) latest: Part<()>,
    /// How far the cores are.
    pub(crate) clocks: &'a Clocks,
}

/// Frees a block where none is free: a flow's that is dead as of `watermark`, or another's, which is evicted. `now_ns` is
/// the time of the packet that wants it.
pub(crate) fn free_one<K: FlowKey>(
    table: &mut FlowTable<K>,
    members: &mut [Box<dyn Member<K>>],
    entries: &[u16],
    watermark: Watermark,
    now_ns: u64,
    noting: Option<Evicting<'_>>,
) {
    if table.free() == 0 {
        table.make_room(watermark, now_ns, |table, slot| {
            let block = block(entries, slot);
            note_evicted(noting, table, members, block, watermark);
            members.iter_mut().for_each(|member| member.leave(block, watermark, table));
        });
    }
}

/// Notes that a flow has to go, if it is not dead as of `watermark`.
fn note_evicted<K: FlowKey>(
    noting: Option<Evicting<'_>>,
    table: &FlowTable<K>,
    members: &[Box<dyn Member<K>>],
    Block { slot, entry }: Block,
    watermark: Watermark,
) {
    if let Some(Evicting { noting, seq }) = noting
        && members.iter().any(|member| !watermark.is_past(member.lives_until(slot, table)))
    {
        noting.evicted(table.key(slot).as_bytes(), entry, seq);
    }
}

/// Where it is to be noted that a flow had to go.
#[derive(Clone, Copy)]
pub(crate) struct Evicting<'a> {
    pub(crate) noting: &'a Noting,
    /// The packet that wants its block, if one does.
    pub(crate) seq: Option<u64>,
}

impl<K: FlowKey> SlowPath<'_, K> {
    /// Steps the packet, whose flow's block is in `located`.
    #[inline(always)]
    pub(crate) fn one(&mut self, packet: usize) {
        let mut is_refused = false;
        let members = self.members.len();
        if let Some(noting) = self.noting
            && !self.located.slot(packet).is_some()
        {
            noting.absent(self.batch.frames[packet].stamp.seq);
        }
        for member in 0..members {
            let member = if self.batch.is_reversed { members - 1 - member } else { member };
            if self.batch.live & (1 << packet) == 0 {
                return;
            }
            let is_known = self.located.slot(packet).is_some();
            let (function, mut steps) = self.member(member);
            if is_known {
                function.hits(1 << packet, &mut steps);
            } else if function.miss(packet, &mut steps) {
                // Room for one function is room for all, and so is none.
                if !is_refused {
                    self.insert(packet);
                    is_refused = !self.located.slot(packet).is_some();
                }
                let (function, mut steps) = self.member(member);
                function.place(packet, &mut steps);
            }
        }
    }

    pub(super) fn member(&mut self, member: usize) -> (&mut dyn Member<K>, Steps<'_, K>) {
        let Self { batch, table, members, located, port, .. } = self;
        (&mut *members[member], Steps { batch, table, located, port: *port })
    }

    /// A block for the packet's new flow. Not inlined: what it needs would be loaded and put by ahead of each packet's steps.
    #[cold]
    #[inline(never)]
    pub(super) fn insert(&mut self, packet: usize) {
        let Frame { stamp, entry, .. } = self.batch.frames[packet];
        let now_ns = stamp.time_ns;
        let Self { batch, table, members, located, entries, clock, noting, .. } = self;
        if table.free() == 0 {
            // What is dead by this packet's time alone counts as evicted: a core that lags, or a packet that waits, may
            // still need it.
            let watermark = clock.map_or_else(|| batch.watermark(now_ns), |clock| clock.clocks.watermark());
            let evicting = noting.map(|noting| Evicting { noting, seq: Some(stamp.seq) });
            table.make_room(watermark, now_ns, |table, slot| {
                let block = block(entries, slot);
                note_evicted(evicting, table, members, block, watermark);
                members.iter_mut().for_each(|member| member.leave(block, watermark, table));
                if let Some(Clock { latest, .. }) = clock {
                    table.cell_mut(slot, *latest).clear();
                }
            });
        }
        let key = K::of(&batch.headers[packet]);
        let wanted = &located.wanted[packet];
        let slot = table.insert(wanted.hash(), wanted.short(), &key);
        if let Some(noting) = self.noting
            && !slot.is_some()
        {
            noting.refused(stamp.seq);
        }
        located.slots[packet] = slot;
        note_entry(entries, slot, entry);
    }
}
