//! A function whose states all cores share, on one core.

use std::any::Any;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use nf::{FiveTuple, NetworkFunction, Verdict, hash_bytes};
use table::{FlowTable, Part, Slot, Watermark};
use wire::{Headers, Stamp};
use zerocopy::{FromBytes, IntoBytes};

use crate::path::batch::Batch;
use crate::path::counters::{FlowCounters, StageCounters};
use crate::path::look::Look;
use crate::path::packets::bits;
use crate::path::portion::Portion;
use crate::path::step::Stepper;
use crate::path::turned_away::{Notes, Noting};
use crate::store::build::SharedOn;
use crate::store::function::hash_state;
use crate::store::member::{Block, Member, Steps};
use crate::store::passed;
use crate::store::passed::Passed;
use crate::store::shared_states::SharedStates;

/// A function whose states all cores share, on one core: a member of a group by 5-tuple, whose blocks hold
/// a reference to the state, so that the directory is searched once for each 5-tuple and not for each
/// packet (FAJITA §3 ③).
///
/// A reference is good until it is released: that it outlives its state, or its own deadline, does no harm.
/// Where the table has no room for it, the next packet searches again, and no answer changes.
pub(crate) struct SharedMember<F: NetworkFunction> {
    stepper: Stepper<F>,
    part: Part<Slot>,
    states: Arc<SharedStates<F>>,
    /// This core's number; core 0 speaks for the states.
    core: usize,
    /// Whether references are kept: what the auxiliary tables are worth is measured without.
    keeps_references: bool,
    /// What waits for a block.
    waiting: Option<Waiting>,
    passed: Option<Passed<F::Key>>,
    /// Where it is to be noted that there is no room for a new state.
    noting: Option<Noting>,
}

/// A state's number, and when it dies.
#[derive(Clone, Copy)]
struct Reference {
    state: Slot,
    deadline_ns: u64,
}

struct Waiting {
    reference: Reference,
    verdict: Verdict,
}

impl<F: NetworkFunction> SharedMember<F> {
    pub(crate) fn new(
        stepper: Stepper<F>,
        part: Part<Slot>,
        states: Arc<SharedStates<F>>,
        on: &SharedOn,
    ) -> Self {
        let passed = on.is_watched.then(HashMap::new);
        let keeps_references = on.has_auxiliary_table;
        SharedMember {
            stepper,
            part,
            states,
            core: on.core,
            keeps_references,
            waiting: None,
            passed,
            noting: None,
        }
    }

    pub(crate) fn states(&self) -> &SharedStates<F> {
        &self.states
    }

    /// What passed on this core, if it was collected.
    pub(crate) fn passed(&self) -> Option<&Passed<F::Key>> {
        self.passed.as_ref()
    }

    /// Says how far this core is: packets of known flows are stepped before others that came earlier, but
    /// none before the batch, or before those that wait for their flows from another core.
    #[inline]
    fn tick(&self, batch: &Batch) {
        if let Some(first) = batch.frames.first() {
            self.states.tick(self.core, batch.watermark(first.stamp.time_ns));
        }
    }

    /// One packet of a flow that has a block.
    #[inline]
    fn hit(&mut self, packet: usize, slot: Slot, steps: &mut Steps<'_, FiveTuple>) {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let (verdict, reference) = match steps.table.cell(slot, self.part).state().copied() {
            Some(state) => {
                let (verdict, deadline_ns) = self.step(state, &meta, packet, steps.batch);
                if deadline_ns == 0 {
                    self.release(slot, steps.table);
                    steps.table.has_lost_a_state(slot);
                }
                (verdict, (deadline_ns != 0).then_some(Reference { state, deadline_ns }))
            }
            None => self.first(packet, &meta, steps.batch),
        };
        if let Some(Reference { state, deadline_ns }) = reference {
            steps.table.cell_mut(slot, self.part).set(state, deadline_ns);
        }
        self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    /// A packet whose flow has no reference yet: finds the state. Returns a reference, if there is a state
    /// after the step.
    fn first(&mut self, packet: usize, meta: &F::Meta, batch: &mut Batch) -> (Verdict, Option<Reference>) {
        let now_ns = batch.frames[packet].stamp.time_ns;
        let Some(state) = self.states.refer(&F::key(meta), now_ns) else {
            return (self.without_room(packet, meta, batch), None);
        };
        let (verdict, deadline_ns) = self.step(state, meta, packet, batch);
        if deadline_ns == 0 || !self.keeps_references {
            self.states.release(state);
            return (verdict, None);
        }
        (verdict, Some(Reference { state, deadline_ns }))
    }

    #[inline]
    fn step(&mut self, state: Slot, meta: &F::Meta, packet: usize, batch: &mut Batch) -> (Verdict, u64) {
        let Self { stepper, states, .. } = self;
        let over = passed::over::<F>(stepper);
        let own = batch.frames[packet].stamp;
        let ((verdict, stamp), deadline_ns) =
            states.step(state, own, |flow, stamp| (stepper.step_at(stamp, flow, meta, packet, batch), stamp));
        if let Some(passed) = &mut self.passed {
            let has_passed = verdict == Verdict::Forward && passed::over::<F>(stepper) == over;
            passed::watch::<F>(passed, meta, stamp, has_passed);
        }
        (verdict, deadline_ns)
    }

    /// No room for the state of a new flow.
    #[cold]
    fn without_room(&mut self, packet: usize, meta: &F::Meta, batch: &mut Batch) -> Verdict {
        let edits_before = self.stepper.mark(packet, batch);
        let mut flow = None;
        let mut verdict = self.stepper.step(&mut flow, meta, packet, batch);
        if let Some(state) = flow {
            self.states.reject();
            if let Some(noting) = &self.noting {
                noting.refused(batch.frames[packet].stamp.seq);
            }
            verdict = self.stepper.reject(&state, meta, packet, &edits_before, batch);
        }
        verdict
    }

    fn release(&mut self, slot: Slot, table: &mut FlowTable<FiveTuple>) {
        let cell = table.cell_mut(slot, self.part);
        if let Some(state) = cell.state().copied() {
            cell.clear();
            self.states.release(state);
        }
    }
}

impl<F: NetworkFunction> Member<FiveTuple> for SharedMember<F> {
    fn index(&self) -> usize {
        self.stepper.index()
    }

    fn note(&mut self, notes: &Arc<Notes>) {
        self.noting = Some(Noting::of_shared(notes, self.stepper.index()));
    }

    fn prefetch(&self, packets: u64, steps: &Steps<'_, FiveTuple>) {
        for packet in bits(packets & steps.batch.live) {
            let slot = steps.located.slot(packet);
            if slot.is_some()
                && let Some(state) = steps.table.cell(slot, self.part).state()
            {
                table::prefetch(self.states.address(*state));
            }
        }
    }

    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, FiveTuple>) {
        self.tick(steps.batch);
        for packet in bits(packets & steps.batch.live) {
            self.hit(packet, steps.located.slot(packet), steps);
        }
    }

    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, FiveTuple>) -> bool {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return false };
        self.tick(steps.batch);
        match self.first(packet, &meta, steps.batch) {
            (verdict, Some(reference)) => {
                self.waiting = Some(Waiting { reference, verdict });
                true
            }
            (verdict, None) => {
                self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
                false
            }
        }
    }

    fn place(&mut self, packet: usize, steps: &mut Steps<'_, FiveTuple>) {
        let slot = steps.located.slot(packet);
        let Some(Waiting { reference, verdict }) = self.waiting.take() else { return };
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let Reference { state, deadline_ns } = reference;
        match slot.is_some() {
            true => steps.table.cell_mut(slot, self.part).set(state, deadline_ns),
            // The step has happened, and its state is kept; only the way to it is not.
            false => self.states.release(state),
        }
        self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    fn leave(&mut self, Block { slot, .. }: Block, _: Watermark, table: &mut FlowTable<FiveTuple>) {
        self.release(slot, table);
    }

    fn expire(&mut self, Block { slot, .. }: Block, watermark: Watermark, table: &mut FlowTable<FiveTuple>) {
        if watermark.is_past(table.cell(slot, self.part).deadline_ns()) {
            self.release(slot, table);
        }
    }

    fn settle(&mut self, end: Watermark) {
        self.states.tick(self.core, end);
        self.states.settle(end);
    }

    fn live(&self, table: &FlowTable<FiveTuple>) -> usize {
        table.live(self.part, 0).count()
    }

    fn digest(&self, _: &FlowTable<FiveTuple>, now: Stamp) -> u64 {
        if self.core > 0 {
            return 0;
        }
        let hash = |(key, state): &(F::Key, F::State)| {
            hash_state(&*self.stepper.function, state, hash_bytes(key.as_bytes(), 0))
        };
        self.states.live(now).iter().map(hash).fold(0, u64::wrapping_add)
    }

    /// When states die is not promised.
    fn audit(&self, _: &FlowTable<FiveTuple>, _: Stamp) -> u64 {
        0
    }

    fn counters(&self) -> StageCounters<'_> {
        let flows = if self.core == 0 { self.states.counters() } else { FlowCounters::default() };
        StageCounters { capacity: self.states.capacity(), ..self.stepper.counters(flows) }
    }

    fn look(&self, headers: &Headers, _: Slot, _: &FlowTable<FiveTuple>, now_ns: u64) -> Look {
        let counters = self.stepper.counters(FlowCounters::default());
        Look::of(&*self.stepper.function, headers, now_ns, &counters, |key| self.states.peek(key))
    }

    /// Core 0 has them all.
    fn list(&self, from: u32, _: &FlowTable<FiveTuple>, portion: &mut Portion) -> Option<u32> {
        if self.core > 0 { None } else { self.states.list(from, portion) }
    }

    /// References to the state stay: the next packet by one of them begins another.
    fn remove(&mut self, key: &[u8], _: Block, _: &mut FlowTable<FiveTuple>) -> bool {
        F::Key::read_from_bytes(key).is_ok_and(|key| self.states.remove(&key))
    }

    /// What passed is counted anew: a bound of other options is another.
    fn take_over(&mut self, other: &mut dyn Member<FiveTuple>) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same function");
        // The part is of the table that goes on.
        mem::swap(&mut self.part, &mut other.part);
        self.stepper.take_over(&mut other.stepper);
        if self.core == 0 {
            self.states.take_over(&other.states);
        }
    }
}
