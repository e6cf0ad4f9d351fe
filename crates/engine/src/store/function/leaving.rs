//! Flows leave a function: a step ends them, or they are found dead, or their block is wanted.

use nf::NetworkFunction;
use table::{Cells, FlowTable, Slot};

use crate::path::step::Stepper;
use crate::store::function::{FunctionMember, hash_state};

impl<F: NetworkFunction> FunctionMember<F> {
    /// A step has ended the flow, whose deadline was another before it.
    #[cold]
    pub(in crate::store) fn remove(&mut self, slot: Slot, deadline_ns: u64, table: &mut FlowTable<F::Key>) {
        self.departed = self.departed.wrapping_add(table.hash_flow(slot, deadline_ns));
        self.flows.removed += 1;
        table.cell_mut(slot, self.part).clear();
        table.has_lost_a_state(slot);
    }

    /// The flow's own packet has found its state dead.
    #[inline(always)]
    pub(in crate::store) fn lapse(
        &mut self,
        slot: Slot,
        entry: u16,
        cells: &mut Cells<'_, F::Key, F::State>,
    ) {
        self.flows.expired += 1;
        self.depart(slot, entry, cells);
    }

    /// Takes the flow's state from it, not by a step.
    #[inline(always)]
    pub(in crate::store) fn depart(
        &mut self,
        slot: Slot,
        entry: u16,
        cells: &mut Cells<'_, F::Key, F::State>,
    ) {
        let deadline_ns = cells.at(slot).deadline_ns();
        let flow = cells.hash_flow(slot, deadline_ns);
        let (key, cell) = cells.flow(slot);
        let Some(state) = cell.state() else { return };
        self.stepper.end_record(key, state);
        self.forget(entry, key, state);
        self.departed = self.departed.wrapping_add(hash_state(self.function(), state, flow));
        cell.clear();
    }

    /// Tells the flow's pool that its state is gone.
    #[inline(always)]
    pub(super) fn forget(&mut self, entry: u16, key: &F::Key, state: &F::State) {
        if const { size_of::<F::Pool>() == 0 } {
            return;
        }
        let Stepper { function, pools, .. } = &mut self.stepper;
        match pools.get_mut(entry) {
            Some(pool) => (F::EXTRAS.pool.gone)(function, key, state, pool),
            None => self.gone.push((entry, *key, *state)),
        }
    }
}
