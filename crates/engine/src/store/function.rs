//! A function with its part of the blocks of its group's table.

mod hits;
mod leaving;

use std::any::Any;
use std::mem;

use nf::{EndedOf, NetworkFunction, Verdict, hash_bytes, hash_u128};
use table::{Cell, FlowTable, Parcel, Part, Slot, Watermark};
use wire::{EditsMark, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::path::counters::{FlowCounters, StageCounters};
use crate::path::items::Items;
use crate::path::look::Look;
use crate::path::packets::bits;
use crate::path::parcel::Pool;
use crate::path::portion::Portion;
use crate::path::step::Stepper;
use crate::store::member::{Block, Member, Runs, Steps, Way};

/// Packets stepped where one cannot be done in place: those that are dropped come in rows, as of a source that is blocked.
pub(super) const STEPPED_AT_ONCE: usize = 8;

/// A function with its part of the group's blocks.
pub(crate) struct FunctionMember<F: NetworkFunction> {
    pub(super) stepper: Stepper<F>,
    pub(super) part: Part<F::State>,
    pub(super) flows: FlowCounters,
    /// Sum of a hash of every flow that has left.
    departed: u64,
    /// What is put aside of the counts, the sum, and the stepper's records that have ended.
    aside: (FlowCounters, u64, Option<Box<EndedOf<F>>>),
    /// What waits for a block.
    pub(super) waiting: Option<Waiting<F::State>>,
    /// Flows that came from another core and are gone already, ahead of their entry's pool.
    gone: Vec<(u16, F::Key, F::State)>,
}

pub(super) struct Waiting<S> {
    pub(super) state: S,
    pub(super) verdict: Verdict,
    pub(super) edits_before: EditsMark,
}

impl<F: NetworkFunction> FunctionMember<F> {
    pub(crate) fn new(stepper: Stepper<F>, part: Part<F::State>) -> Self {
        FunctionMember {
            stepper,
            part,
            flows: FlowCounters::default(),
            departed: 0,
            aside: (FlowCounters::default(), 0, None),
            waiting: None,
            gone: Vec::new(),
        }
    }

    pub(crate) fn part(&self) -> Part<F::State> {
        self.part
    }

    pub(crate) fn stepper(&self) -> &Stepper<F> {
        &self.stepper
    }

    pub(crate) fn function(&self) -> &F {
        &self.stepper.function
    }

    /// See [`Member::take_over`].
    pub(crate) fn take_over_from(&mut self, other: &mut Self) {
        // The part is of the table that goes on.
        mem::swap(&mut self.part, &mut other.part);
        self.stepper.take_over(&mut other.stepper);
        (self.flows, self.departed) = (other.flows, other.departed);
        self.gone = mem::take(&mut other.gone);
    }

    #[inline]
    pub(super) fn set(&self, cell: &mut Cell<F::State>, state: F::State, now_ns: u64) {
        cell.set(state, self.stepper.deadline_ns(&state, now_ns));
    }

    /// What a step has left of a flow that had a block: a deadline stays where the packet does not refresh it.
    #[inline]
    pub(super) fn set_after(&self, cell: &mut Cell<F::State>, state: F::State, meta: &F::Meta, now_ns: u64) {
        let before_ns = cell.deadline_ns();
        match (F::EXTRAS.refreshes)(meta) || before_ns == 0 {
            true => self.set(cell, state, now_ns),
            false => cell.set(state, before_ns),
        }
    }

    /// What a step has left in a block whose state was dead to it.
    pub(super) fn begin_again(
        &mut self,
        slot: Slot,
        flow: Option<F::State>,
        now_ns: u64,
        table: &mut FlowTable<F::Key>,
    ) {
        match flow {
            Some(state) => {
                self.flows.created += 1;
                self.set(table.cell_mut(slot, self.part), state, now_ns);
            }
            None => table.has_lost_a_state(slot),
        }
    }
}

/// A hash of a state in which runs that allocate otherwise agree.
#[inline]
pub(crate) fn hash_state<F: NetworkFunction>(function: &F, state: &F::State, seed: u64) -> u64 {
    match const { F::EXTRAS.pool.without_allocation } {
        None => hash_plain(state, seed),
        Some(without_allocation) => hash_plain(&without_allocation(function, state), seed),
    }
}

/// What [`hash_bytes`] gives for a state; without a call for one of 16 bytes, as most that end often have.
#[inline(always)]
fn hash_plain<S: IntoBytes + Immutable>(state: &S, seed: u64) -> u64 {
    match <[u8; 16]>::try_from(state.as_bytes()) {
        Ok(bytes) => hash_u128(u128::from_le_bytes(bytes), seed),
        Err(_) => hash_bytes(state.as_bytes(), seed),
    }
}

impl<F: NetworkFunction> Member<F::Key> for FunctionMember<F> {
    fn index(&self) -> usize {
        self.stepper.index()
    }

    fn prefetch(&self, packets: u64, steps: &Steps<'_, F::Key>) {
        let Some(prefetch) = (const { F::EXTRAS.prefetch }) else { return };
        if steps.table.len() < const { F::EXTRAS.prefetch_from_flows } {
            return;
        }
        let Stepper { function, pools, .. } = &self.stepper;
        for packet in bits(packets & steps.batch.live) {
            let Some(meta) = F::project(&steps.batch.headers[packet]) else { continue };
            let Some(pool) = pools.peek(steps.batch.frames[packet].entry) else { continue };
            let slot = steps.located.slot(packet);
            let cell = slot.is_some().then(|| steps.table.cell(slot, self.part));
            table::prefetch(prefetch(function, cell.and_then(Cell::state), &meta, pool));
        }
    }

    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        self.hits_of(packets, steps);
    }

    fn replay_hits(
        &mut self,
        packets: u64,
        runs: Runs<'_>,
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) {
        self.replay_hits_of(packets, runs, items, steps);
    }

    fn replay_misses(&mut self, packets: u64, items: &mut Items<'_>) -> u64 {
        self.replay_misses_of(packets, items)
    }

    fn replay_miss(&mut self, item: usize, items: &mut Items<'_>) -> bool {
        self.replay_miss_of(item, items)
    }

    fn replay_place(
        &mut self,
        item: usize,
        slot: Slot,
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) {
        self.replay_place_of(item, slot, items, table);
    }

    fn replay_key(&self, item: usize, items: &Items<'_>) -> Option<F::Key> {
        items.metas::<F::Meta>(self.stepper.index())[item].as_ref().map(F::key)
    }

    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) -> bool {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return false };
        let edits_before = self.stepper.mark(packet, steps.batch);
        let mut flow = None;
        let verdict = self.stepper.step(&mut flow, &meta, packet, steps.batch);
        match flow {
            Some(state) => {
                self.waiting = Some(Waiting { state, verdict, edits_before });
                true
            }
            None => {
                self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
                false
            }
        }
    }

    fn place(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) {
        let slot = steps.located.slot(packet);
        let Some(Waiting { state, mut verdict, edits_before }) = self.waiting.take() else { return };
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        if slot.is_some() {
            let now_ns = steps.batch.frames[packet].stamp.time_ns;
            self.flows.created += 1;
            self.set(steps.table.cell_mut(slot, self.part), state, now_ns);
        } else {
            self.flows.rejected += 1;
            verdict = self.stepper.reject(&state, &meta, packet, &edits_before, steps.batch);
        }
        self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    fn leave(&mut self, Block { slot, entry }: Block, watermark: Watermark, table: &mut FlowTable<F::Key>) {
        match table.cell(slot, self.part).deadline_ns() {
            0 => return,
            deadline_ns if watermark.is_past(deadline_ns) => self.flows.expired += 1,
            _ => self.flows.evicted += 1,
        }
        self.depart(slot, entry, &mut table.cells_mut(self.part));
    }

    #[cold]
    fn expire(&mut self, Block { slot, entry }: Block, watermark: Watermark, table: &mut FlowTable<F::Key>) {
        let deadline_ns = table.cell(slot, self.part).deadline_ns();
        if deadline_ns != 0 && watermark.is_past(deadline_ns) {
            self.lapse(slot, entry, &mut table.cells_mut(self.part));
        }
    }

    fn moves(&mut self, slot: Slot, way: Way, table: &FlowTable<F::Key>) {
        let states = u64::from(table.cell(slot, self.part).state().is_some());
        match way {
            Way::In => self.flows.moved_in += states,
            Way::Out => self.flows.moved_out += states,
        }
    }

    fn moved(&mut self, way: Way, states: u64) {
        match way {
            Way::In => self.flows.moved_in += states,
            Way::Out => self.flows.moved_out += states,
        }
    }

    fn swap_accounts(&mut self) {
        let (flows, departed, ended) = &mut self.aside;
        mem::swap(&mut self.flows, flows);
        mem::swap(&mut self.departed, departed);
        self.stepper.swap_ended(ended);
    }

    fn net_flows(&self) -> i64 {
        self.flows.net()
    }

    fn lose(&mut self, parcel: &Parcel<F::Key>, index: usize, entry: u16, table: &FlowTable<F::Key>) {
        let (key, cell) = table.packed(parcel, index, self.part);
        let Some(state) = cell.state() else { return };
        self.flows.moved_in += 1;
        self.flows.evicted += 1;
        self.stepper.end_record(key, state);
        let departed = hash_state(self.function(), state, table.hash_key(key, cell.deadline_ns()));
        self.departed = self.departed.wrapping_add(departed);
        self.forget(entry, key, state);
    }

    fn packed_key(&self, parcel: &Parcel<F::Key>, index: usize, table: &FlowTable<F::Key>) -> Option<F::Key> {
        let (key, cell) = table.packed(parcel, index, self.part);
        cell.state().map(|_| *key)
    }

    fn lives_until(&self, slot: Slot, table: &FlowTable<F::Key>) -> u64 {
        table.cell(slot, self.part).deadline_ns()
    }

    fn refuse(&mut self, packet: usize, reason: u8, steps: &mut Steps<'_, F::Key>) {
        self.stepper.skip(packet, steps.batch);
        self.stepper.end(packet, Verdict::Drop(reason), steps.batch);
    }

    fn take_pool(&mut self, entry: u16) -> Option<Pool> {
        self.stepper.pools.take(entry).map(|pool| Pool(Box::new(pool)))
    }

    fn put_pool(&mut self, entry: u16, pool: Pool) {
        self.stepper.put_pool(entry, pool);
        let Stepper { function, pools, .. } = &mut self.stepper;
        // Flows may be known by more bits of the hash than pools.
        let here: Vec<_> = self.gone.extract_if(.., |(of, ..)| pools.peek(*of).is_some()).collect();
        for (of, key, state) in here {
            (F::EXTRAS.pool.gone)(function, &key, &state, pools.of(of));
        }
    }

    fn swap_pool(&mut self, pool: &mut Option<Pool>) {
        if let Some(pool) = pool.as_mut().and_then(|Pool(pool)| pool.downcast_mut()) {
            mem::swap(pool, self.stepper.pools.of(0));
        }
    }

    fn live(&self, table: &FlowTable<F::Key>) -> usize {
        table.live(self.part, 0).count()
    }

    fn digest(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        let function = &*self.stepper.function;
        table
            .live(self.part, now.time_ns)
            .map(|flow| hash_state(function, flow.state, hash_bytes(flow.key.as_bytes(), 0)))
            .fold(0, u64::wrapping_add)
    }

    fn audit(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        let alive = table.live(self.part, now.time_ns);
        let deadlines = alive.map(|flow| table.hash_flow(flow.slot, flow.deadline_ns));
        deadlines.fold(self.departed, u64::wrapping_add)
    }

    fn counters(&self) -> StageCounters<'_> {
        self.stepper.counters(self.flows)
    }

    fn look(&self, headers: &Headers, slot: Slot, table: &FlowTable<F::Key>, now_ns: u64) -> Look {
        let state = |_: &F::Key| {
            let cell = slot.is_some().then(|| table.cell(slot, self.part))?;
            Some((*cell.state()?, cell.deadline_ns()))
        };
        Look::of(self.function(), headers, now_ns, &self.counters(), state)
    }

    fn list(&self, from: u32, table: &FlowTable<F::Key>, portion: &mut Portion) -> Option<u32> {
        self.list_of(from, table, portion)
    }

    fn remove(&mut self, _: &[u8], block: Block, table: &mut FlowTable<F::Key>) -> bool {
        self.remove_of(block, table)
    }

    fn copy_from(&mut self, other: &dyn Member<F::Key>) {
        let other = (other as &dyn Any).downcast_ref::<Self>().expect("the same function");
        self.stepper.copy_from(&other.stepper);
        // Each replica counts all flows, and its own packets alone.
        (self.flows, self.departed) = (other.flows, other.departed);
        self.gone.clone_from(&other.gone);
    }

    fn absorb(&mut self, other: &mut dyn Member<F::Key>, is_replica: bool) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same function");
        let (flows, departed) = (mem::take(&mut other.flows), mem::take(&mut other.departed));
        let (gone, ended) = (mem::take(&mut other.gone), other.stepper.take_ended());
        if !is_replica {
            self.flows = self.flows.plus(flows);
            self.departed = self.departed.wrapping_add(departed);
            self.gone.extend(gone);
            self.stepper.add_ended(ended.as_deref());
        }
    }

    fn take_over(&mut self, other: &mut dyn Member<F::Key>) {
        self.take_over_from((other as &mut dyn Any).downcast_mut().expect("the same function"));
    }

    fn keeps_pool(&self, other: &dyn Member<F::Key>) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>().expect("the same function");
        (F::EXTRAS.reload.keeps_pool)(self.function(), other.function())
    }
}
