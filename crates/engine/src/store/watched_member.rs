//! A function whose flows all cores share, with what `verify` needs to check what it promises.

use std::any::Any;
use std::collections::HashMap;

use nf::{NetworkFunction, WhenShared, began_anew, hash_bytes};
use table::{FlowTable, Slot, Watermark};
use wire::{Headers, Stamp};
use zerocopy::IntoBytes;

use crate::path::counters::StageCounters;
use crate::path::look::Look;
use crate::path::packets::bits;
use crate::path::parcel::Pool;
use crate::store::function::FunctionMember;
use crate::store::member::{Block, Member, Steps};
use crate::store::passed;
use crate::store::passed::Passed;
use crate::store::shared_states::weigh;

/// A function whose flows all cores share, with what `verify` has to know to check what it promises. It steps
/// as it does alone; this looks at the flow before and after.
pub(crate) struct WatchedMember<F: NetworkFunction> {
    inner: FunctionMember<F>,
    passed: Passed<F::Key>,
    /// [`weigh`] of what every record that is gone added up, summed.
    departed: u64,
    /// Packets over what may pass before the step that waits for a block.
    over_before: u64,
}

impl<F: NetworkFunction> WatchedMember<F> {
    const ADDS_UP: bool = matches!(F::EXTRAS.guarantees.when_shared, Some(WhenShared::Totals));

    pub(crate) fn new(inner: FunctionMember<F>) -> Self {
        WatchedMember { inner, passed: HashMap::new(), departed: 0, over_before: 0 }
    }

    pub(crate) fn inner(&self) -> &FunctionMember<F> {
        &self.inner
    }

    pub(crate) fn passed(&self) -> &Passed<F::Key> {
        &self.passed
    }

    pub(crate) fn departed(&self) -> u64 {
        self.departed
    }

    fn state(&self, slot: Slot, table: &FlowTable<F::Key>) -> Option<F::State> {
        table.cell(slot, self.inner.part()).state().copied()
    }

    /// Notes what a record that is gone added up.
    fn depart(&mut self, key: &F::Key, state: &F::State) {
        if Self::ADDS_UP {
            let totals = (F::EXTRAS.records.totals)(self.inner.function(), state);
            self.departed = self.departed.wrapping_add(weigh(hash_bytes(key.as_bytes(), 0), totals));
        }
    }

    /// Does what may take a state from its flow, not by a step.
    fn release(
        &mut self,
        slot: Slot,
        table: &mut FlowTable<F::Key>,
        act: impl FnOnce(&mut FunctionMember<F>, &mut FlowTable<F::Key>),
    ) {
        let before = self.state(slot, table);
        act(&mut self.inner, table);
        if let (Some(before), None) = (before, self.state(slot, table)) {
            self.depart(table.key(slot), &before);
        }
    }

    /// One packet of a flow that has a block.
    fn hit(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) {
        let (slot, over_before) = (steps.located.slot(packet), self.over());
        let (before, packets_before) = (self.state(slot, steps.table), self.inner.stepper().packets());
        self.inner.hits(1 << packet, steps);
        let has_stepped = self.inner.stepper().packets() > packets_before;
        if let (true, Some(before)) = (has_stepped, before) {
            let totals = |state: &F::State| (F::EXTRAS.records.totals)(self.inner.function(), state);
            let after = self.state(slot, steps.table);
            if after.is_none_or(|after| began_anew(totals(&before), totals(&after))) {
                self.depart(steps.table.key(slot), &before);
            }
        }
        self.watch(packet, over_before, steps);
    }

    /// Notes whether the packet, which the function has concluded, passed.
    fn watch(&mut self, packet: usize, over_before: u64, steps: &Steps<'_, F::Key>) {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let is_live = steps.batch.live & (1 << packet) != 0;
        let has_passed = is_live && self.over() == over_before;
        passed::watch::<F>(&mut self.passed, &meta, steps.batch.frames[packet].stamp, has_passed);
    }

    fn over(&self) -> u64 {
        passed::over::<F>(self.inner.stepper())
    }
}

impl<F: NetworkFunction> Member<F::Key> for WatchedMember<F> {
    fn index(&self) -> usize {
        self.inner.index()
    }

    fn prefetch(&self, packets: u64, steps: &Steps<'_, F::Key>) {
        self.inner.prefetch(packets, steps);
    }

    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        bits(packets).for_each(|packet| self.hit(packet, steps));
    }

    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) -> bool {
        self.over_before = self.over();
        let waits = self.inner.miss(packet, steps);
        if !waits {
            self.watch(packet, self.over_before, steps);
        }
        waits
    }

    fn place(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) {
        self.inner.place(packet, steps);
        // What found no room was not stepped.
        if steps.located.slot(packet).is_some() {
            self.watch(packet, self.over_before, steps);
        }
    }

    fn leave(&mut self, block: Block, watermark: Watermark, table: &mut FlowTable<F::Key>) {
        self.release(block.slot, table, |inner, table| inner.leave(block, watermark, table));
    }

    fn expire(&mut self, block: Block, watermark: Watermark, table: &mut FlowTable<F::Key>) {
        self.release(block.slot, table, |inner, table| inner.expire(block, watermark, table));
    }

    fn swap_pool(&mut self, pool: &mut Option<Pool>) {
        self.inner.swap_pool(pool);
    }

    fn live(&self, table: &FlowTable<F::Key>) -> usize {
        self.inner.live(table)
    }

    fn digest(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        self.inner.digest(table, now)
    }

    fn audit(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        self.inner.audit(table, now)
    }

    fn look(&self, headers: &Headers, slot: Slot, table: &FlowTable<F::Key>, now_ns: u64) -> Look {
        self.inner.look(headers, slot, table, now_ns)
    }

    fn counters(&self) -> StageCounters<'_> {
        self.inner.counters()
    }

    /// What passed is counted anew: a bound of other options is another.
    fn take_over(&mut self, other: &mut dyn Member<F::Key>) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same function");
        self.inner.take_over_from(&mut other.inner);
        self.departed = other.departed;
    }

    fn keeps_pool(&self, other: &dyn Member<F::Key>) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>().expect("the same function");
        (F::EXTRAS.reload.keeps_pool)(self.inner.function(), other.inner.function())
    }
}
