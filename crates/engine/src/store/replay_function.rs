//! One function of a group steps packets of other cores: nothing comes of it but the state, and whether the packet goes
//! on to the next function.

use nf::{NetworkFunction, Verdict};
use table::{FlowTable, Slot};
use wire::Stamp;

use crate::path::items::Items;
use crate::path::packets::BATCH_PACKETS;
use crate::store::function::{FunctionMember, Waiting};
use crate::store::member::Steps;

/// Why a run of items is over.
enum Over {
    /// They are stepped, or the next is of another flow.
    Done,
    /// The flow's state is dead to this item.
    Dead,
    /// This item's step has ended the flow.
    Ended,
}

impl<F: NetworkFunction> FunctionMember<F> {
    /// See [`Member::replay_hits`](crate::store::member::Member::replay_hits).
    #[inline(always)]
    pub(super) fn replay_hits_of(
        &mut self,
        hits: u64,
        slots: &[Slot; BATCH_PACKETS],
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) {
        let metas = items.metas::<F::Meta>(self.stepper.index());
        let mut rest = hits & items.live;
        while rest != 0 {
            let own = rest & items.own;
            let mut others = rest & (own & own.wrapping_neg()).wrapping_sub(1);
            rest &= !others;
            while others != 0 {
                others = self.replay_run(others, metas, slots, items, steps.table);
            }
            if own != 0 {
                let item = own.trailing_zeros() as usize;
                self.hit(items.packet(item), slots[item], steps);
                items.sync(item, steps.batch);
                rest &= rest - 1;
            }
        }
    }

    /// Steps the first items as long as they are of one flow, with its state at hand; returns the others.
    #[inline(always)]
    fn replay_run(
        &mut self,
        mut rest: u64,
        metas: &[Option<F::Meta>],
        slots: &[Slot; BATCH_PACKETS],
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) -> u64 {
        let mut item = rest.trailing_zeros() as usize;
        let slot = slots[item];
        let cell = table.cell_mut(slot, self.part);
        let (mut flow, mut deadline_ns) = (cell.state().copied(), cell.deadline_ns());
        let mut created = 0;
        let over = {
            let mut replay = self.stepper.replay();
            loop {
                if let Some(meta) = &metas[item] {
                    let now_ns = items.heads[item].time_ns;
                    if flow.is_some() && deadline_ns <= now_ns {
                        break Over::Dead;
                    }
                    let was_some = flow.is_some();
                    let stamp = Stamp { seq: items.first_seq + item as u64, time_ns: now_ns };
                    let verdict = replay.step(&mut flow, meta, stamp);
                    if verdict != Verdict::Forward {
                        items.live &= !(1 << item);
                    }
                    match &flow {
                        Some(state) => {
                            created += u64::from(!was_some);
                            deadline_ns = now_ns.saturating_add(replay.idle_timeout_ns(state)).max(1);
                        }
                        None if was_some => break Over::Ended,
                        None => {}
                    }
                }
                rest &= rest - 1;
                if rest == 0 {
                    break Over::Done;
                }
                let next = rest.trailing_zeros() as usize;
                if slots[next] != slot {
                    break Over::Done;
                }
                item = next;
            }
        };
        self.flows.created += created;
        match over {
            Over::Done => {
                if let Some(state) = flow {
                    cell.set(state, deadline_ns);
                }
                rest
            }
            Over::Ended => {
                self.remove(slot, deadline_ns, table);
                rest & (rest - 1)
            }
            Over::Dead => {
                if let Some(state) = flow {
                    cell.set(state, deadline_ns);
                }
                self.replay_dead(item, metas, slot, items, table);
                rest & (rest - 1)
            }
        }
    }

    /// An item that finds its flow's state dead.
    #[inline(never)]
    fn replay_dead(
        &mut self,
        item: usize,
        metas: &[Option<F::Meta>],
        slot: Slot,
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) {
        self.lapse(slot, 0, table);
        let Some(meta) = &metas[item] else { return };
        let mut flow = None;
        let verdict = self.replay_new(&mut flow, meta, item, items);
        if verdict != Verdict::Forward {
            items.live &= !(1 << item);
        }
        match flow {
            Some(state) => {
                self.flows.created += 1;
                self.set(table.cell_mut(slot, self.part), state, items.heads[item].time_ns);
            }
            None => table.has_lost_a_state(slot),
        }
    }

    /// A step of a flow without a state.
    fn replay_new(
        &mut self,
        flow: &mut Option<F::State>,
        meta: &F::Meta,
        item: usize,
        items: &Items<'_>,
    ) -> Verdict {
        let stamp = Stamp { seq: items.first_seq + item as u64, time_ns: items.heads[item].time_ns };
        self.stepper.replay().step(flow, meta, stamp)
    }

    /// See [`Member::replay_miss`](crate::store::member::Member::replay_miss).
    pub(super) fn replay_miss_of(&mut self, item: usize, items: &mut Items<'_>) -> bool {
        let Some(meta) = items.metas::<F::Meta>(self.stepper.index())[item] else { return false };
        let edits_before = self.stepper.mark_replay();
        let mut flow = None;
        let verdict = self.replay_new(&mut flow, &meta, item, items);
        if let Some(state) = flow {
            self.waiting = Some(Waiting { state, verdict, edits_before });
            return true;
        }
        if verdict != Verdict::Forward {
            items.live &= !(1 << item);
        }
        false
    }

    /// See [`Member::replay_place`](crate::store::member::Member::replay_place).
    pub(super) fn replay_place_of(
        &mut self,
        item: usize,
        slot: Slot,
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) {
        let Some(Waiting { state, mut verdict, .. }) = self.waiting.take() else { return };
        let Some(meta) = &items.metas::<F::Meta>(self.stepper.index())[item] else { return };
        let now_ns = items.heads[item].time_ns;
        if slot.is_some() {
            self.flows.created += 1;
            self.set(table.cell_mut(slot, self.part), state, now_ns);
        } else {
            self.flows.rejected += 1;
            let stamp = Stamp { seq: items.first_seq + item as u64, time_ns: now_ns };
            verdict = self.stepper.reject_replay(&state, meta, stamp);
        }
        if verdict != Verdict::Forward {
            items.live &= !(1 << item);
        }
    }
}
