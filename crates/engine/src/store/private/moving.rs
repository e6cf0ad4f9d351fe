//! Flows leave a group's table for another core, and come to it.

use std::iter;
use std::sync::Arc;

use nf::FlowKey;
use table::{Parcel, Slot, Watermark};

use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::{Leaving, NOBODY, PackedFlows, UNKNOWN_ENTRY};
use crate::store::member::{Block, Way, block, note_entry};
use crate::store::private::KeyGroup;
use crate::store::slow_path::{Evicting, free_one};

/// How far ahead the buckets of flows that come from another core are asked for.
const FLOWS_AHEAD: usize = 16;

/// Flows of which more are to come.
struct Packing<K> {
    entries: Vec<u16>,
    parcel: Parcel<K>,
}

impl<K: FlowKey> KeyGroup<K> {
    /// See [`Group::pack`](crate::path::group::Group::pack).
    pub(super) fn pack_flows(
        &mut self,
        from: usize,
        leaving: &mut Leaving<'_>,
    ) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        let mut packed: Vec<(u16, Packing<K>)> = Vec::new();
        let mut next = None;
        if self.table.is_empty() {
            return (None, Vec::new());
        }
        let mut slots = self.table.slots();
        let blocks = slots.len();
        if from > 0 {
            slots.nth(from - 1);
        }
        'table: while slots.len() > 0 {
            let begin = blocks - slots.len();
            let count = slots.len().min(BATCH_PACKETS);
            if leaving.has_none(self.entries.get(begin..begin + count)) {
                slots.nth(count - 1);
                continue;
            }
            if leaving.blocks_left == usize::MAX {
                (self.table.slots().skip(begin).take(count))
                    .for_each(|slot| self.table.prefetch_bucket_of(slot));
            }
            for slot in slots.by_ref().take(count) {
                if leaving.blocks_left == 0 || leaving.flows_left == 0 {
                    next = Some(slot.index());
                    break 'table;
                }
                leaving.blocks_left -= 1;
                let Block { entry, .. } = block(&self.entries, slot);
                let to = leaving.core_of(entry);
                if to != NOBODY && self.table.is_taken(slot) {
                    self.pack_one(slot, entry, to, &mut packed);
                    leaving.flows_left -= 1;
                }
            }
        }
        let erase = |(to, Packing { entries, parcel })| {
            (to, PackedFlows { entries, parcel: Arc::new(parcel), since_seq: None })
        };
        (next, packed.into_iter().map(erase).collect())
    }

    /// See [`Group::unpack`](crate::path::group::Group::unpack).
    pub(super) fn unpack_flows(
        &mut self,
        PackedFlows { entries, parcel, since_seq }: PackedFlows,
        watermark: Watermark,
        now_ns: u64,
    ) {
        let parcel: Arc<Parcel<K>> = parcel.downcast().expect("packed by this group of another core");
        for (index, entry) in entries.into_iter().enumerate() {
            self.table.prefetch_bucket_for(&parcel, index + FLOWS_AHEAD);
            self.make_room(watermark, now_ns, since_seq);
            let slot = self.table.unpack(&parcel, index);
            note_entry(&mut self.entries, slot, entry);
            if let Some(noting) = &self.noting
                && !slot.is_some()
            {
                let keys =
                    self.members.iter().filter_map(|member| member.packed_key(&parcel, index, &self.table));
                keys.for_each(|key| noting.evicted(key.as_bytes(), entry, since_seq));
            }
            for member in &mut self.members {
                match slot.is_some() {
                    true => member.moves(slot, Way::In, &self.table),
                    false => member.lose(&parcel, index, entry, &self.table),
                }
            }
        }
    }

    /// Frees a block when the table is full: expires a flow, or evicts one, for a flow that comes from another core.
    fn make_room(&mut self, watermark: Watermark, now_ns: u64, since_seq: Option<u64>) {
        let Self { table, members, entries, noting, .. } = self;
        let evicting = noting.as_deref().map(|noting| Evicting { noting, seq: since_seq });
        free_one(table, members, entries, watermark, now_ns, evicting);
    }

    /// See [`Group::has_flow`](crate::path::group::Group::has_flow).
    pub(super) fn has_flow_of(&self, key: &[u8]) -> bool {
        let Ok(key) = K::read_from_bytes(key) else { return false };
        let mut tables =
            iter::once(&*self.table).chain(self.by_shard.iter().flat_map(|by_shard| by_shard.tables()));
        tables.any(|table| {
            let slot = table.find(table.hash(key.short(), || key), key.short(), || key);
            slot.is_some() && table.has_state(slot)
        })
    }

    /// Takes all flows from a replica, whose blocks are those of this one. Of a flow that began with a packet of that core
    /// it alone knows the entry.
    pub(super) fn absorb_replica(&mut self, other: &mut Self) {
        let used = self.table.slots().len();
        for (entry, of_other) in self.entries[..used].iter_mut().zip(&other.entries[..used]) {
            if *entry == UNKNOWN_ENTRY {
                *entry = *of_other;
            }
        }
        other.table.clear();
    }

    /// Puts a flow that is to go to another core into the parcel for it.
    fn pack_one(&mut self, slot: Slot, entry: u16, to: u16, packed: &mut Vec<(u16, Packing<K>)>) {
        debug_assert_ne!(entry, UNKNOWN_ENTRY, "some replica knows it");
        let Self { table, members, .. } = self;
        let index = packed.iter().position(|(core, _)| *core == to).unwrap_or_else(|| {
            packed.push((to, Packing { entries: Vec::new(), parcel: table.parcel(0) }));
            packed.len() - 1
        });
        let Packing { entries, parcel } = &mut packed[index].1;
        members.iter_mut().for_each(|member| member.moves(slot, Way::Out, table));
        entries.push(entry);
        table.pack(slot, parcel);
    }
}
