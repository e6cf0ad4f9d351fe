//! Flows of a group's tables are listed, portion by portion, and removed: between two batches, or two packets.

use nf::{FlowKey, NetworkFunction};
use table::{FlowTable, Slot};
use wire::Stamp;

use crate::path::portion::{Found, PORTION_BLOCKS, Place, Portion};
use crate::store::function::FunctionMember;
use crate::store::member::{Block, block};
use crate::store::private::KeyGroup;

impl<K: FlowKey> KeyGroup<K> {
    /// The live flows of member number `member`, which is an `F`.
    pub(crate) fn flows<F: NetworkFunction<Key = K>>(
        &self,
        member: usize,
        now: Stamp,
    ) -> impl Iterator<Item = (&K, &F::State)> {
        let member = self.member::<FunctionMember<F>>(member);
        let tables = move || {
            std::iter::once(&*self.table).chain(self.by_shard.iter().flat_map(|by_shard| by_shard.tables()))
        };
        let flows =
            member.map(|member| tables().flat_map(move |table| table.live(member.part(), now.time_ns)));
        flows.into_iter().flatten().map(|flow| (flow.key, flow.state))
    }

    /// Lists flows, as [`Group::list`](crate::path::group::Group::list) says: those of the table at hand, which is number 0, and then those of each part that is here,
    /// but for one of which another core has a replica that counts.
    pub(super) fn list_flows(&self, member: usize, from: Place, portion: &mut Portion) -> Option<Place> {
        let Place { table: number, block } = from;
        let parts = || self.by_shard.iter().flat_map(|by_shard| by_shard.listed());
        let table = match number {
            0 => Some(&*self.table),
            _ => parts().find(|(of, _)| *of == number).map(|(_, table)| table),
        };
        let next = table.and_then(|table| self.members[member].list(block, table, portion));
        let other = || parts().find(|(of, table)| *of > number && table.slots().len() > 0);
        let of_other = || other().map(|(table, _)| Place { table, block: 0 });
        next.map(|block| Place { table: number, block }).or_else(of_other)
    }

    /// Takes the flow with this key from a function, as [`Group::remove`](crate::path::group::Group::remove) says.
    pub(super) fn remove_flow(&mut self, member: usize, key: &[u8]) -> bool {
        let mut is_removed = false;
        self.with_each(|Self { table, members, entries, .. }| {
            let find = |key: K| table.find(table.hash(key.short(), || key), key.short(), || key);
            let slot = K::read_from_bytes(key).map_or(Slot::NONE, find);
            is_removed |= members[member].remove(key, block(entries, slot), table);
        });
        is_removed
    }
}

impl<F: NetworkFunction> FunctionMember<F> {
    /// See [`Member::list`](crate::store::member::Member::list).
    pub(super) fn list_of(&self, from: u32, table: &FlowTable<F::Key>, portion: &mut Portion) -> Option<u32> {
        let (slots, next) = portion_of(table, from);
        let found = slots.filter(|slot| table.is_taken(*slot)).filter_map(|slot| {
            let cell = table.cell(slot, self.part);
            Some(Found { key: *table.key(slot), state: *cell.state()?, deadline_ns: cell.deadline_ns() })
        });
        portion.add::<F::Key, F::State>(found);
        next
    }

    /// See [`Member::remove`](crate::store::member::Member::remove).
    pub(super) fn remove_of(&mut self, Block { slot, entry }: Block, table: &mut FlowTable<F::Key>) -> bool {
        if !slot.is_some() || table.cell(slot, self.part).state().is_none() {
            return false;
        }
        self.flows.removed += 1;
        self.depart(slot, entry, &mut table.cells_mut(self.part));
        table.has_lost_a_state(slot);
        true
    }
}

/// The blocks of a portion from block number `from` on, and where the next portion begins.
pub(crate) fn portion_of<K: FlowKey>(
    table: &FlowTable<K>,
    from: u32,
) -> (impl Iterator<Item = Slot> + use<K>, Option<u32>) {
    let used = table.slots().len() as u32;
    let next = used.min(from.saturating_add(PORTION_BLOCKS as u32));
    ((from..next).map(Slot::of_number), (next < used).then_some(next))
}
