//! One function of a group steps packets of other cores: nothing comes of it but the state, and whether the packet goes
//! on to the next function.

use std::ops::Range;

use nf::{NetworkFunction, Verdict};
use table::{FlowTable, Slot};
use wire::Stamp;

use crate::path::items::Items;
use crate::path::packets::{BATCH_PACKETS, span_bits};
use crate::store::function::{FunctionMember, Waiting};
use crate::store::member::Steps;

/// Why replay stops before the last item.
enum Stop {
    /// The flow's state is dead to the next item.
    Dead,
    /// The last item's step has ended the flow, whose deadline was this.
    Ended { deadline_ns: u64 },
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
            let begin = rest.trailing_zeros() as usize;
            if items.is_own(begin) {
                self.hit(items.packet(begin), slots[begin], steps);
                items.sync(begin, steps.batch);
                rest &= rest - 1;
                continue;
            }
            // As far as neighbours are history.
            let ends = (!rest | items.own) >> begin;
            let count = (ends.trailing_zeros() as usize).min(BATCH_PACKETS - begin);
            rest &= !span_bits(begin, count);
            let (mut at, end) = (begin, begin + count);
            while at < end {
                at += self.replay_span(at..end, metas, slots, items, steps.table);
            }
        }
    }

    /// Steps items, those of one flow with its state at hand, up to one that ends a flow or finds it dead; says how many.
    #[inline(always)]
    fn replay_span(
        &mut self,
        span: Range<usize>,
        metas: &[Option<F::Meta>],
        slots: &[Slot; BATCH_PACKETS],
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) -> usize {
        let (begin, count) = (span.start, span.len());
        let (heads, metas) = (&items.heads[span.clone()], &metas[span.clone()]);
        let slots = &slots[span];
        let is_last = self.stepper.is_last();
        let mut replay = self.stepper.replay();
        let mut cells = table.cells_mut(self.part);
        let (mut created, mut item) = (0, 0);
        let stop = loop {
            let slot = slots[item];
            let cell = cells.at(slot);
            let (mut flow, mut deadline_ns) = (cell.state().copied(), cell.deadline_ns());
            let stop = loop {
                if let Some(meta) = &metas[item] {
                    let now_ns = heads[item].time_ns;
                    let was_some = flow.is_some();
                    if was_some && deadline_ns <= now_ns {
                        break Some(Stop::Dead);
                    }
                    let stamp = Stamp { seq: items.first_seq + (begin + item) as u64, time_ns: now_ns };
                    let verdict = replay.step(&mut flow, meta, stamp);
                    if !is_last && verdict != Verdict::Forward {
                        items.live &= !(1 << (begin + item));
                    }
                    if let Some(state) = &flow {
                        created += u64::from(!was_some);
                        deadline_ns = now_ns.saturating_add(replay.idle_timeout_ns(state)).max(1);
                    } else if was_some {
                        item += 1;
                        break Some(Stop::Ended { deadline_ns });
                    }
                }
                item += 1;
                if item == count || slots[item] != slot {
                    break None;
                }
            };
            if let Some(state) = flow {
                cell.set(state, deadline_ns);
            }
            if stop.is_some() || item == count {
                break stop.map(|stop| (stop, slot));
            }
        };
        self.flows.created += created;
        match stop {
            None => {}
            Some((Stop::Ended { deadline_ns }, slot)) => self.remove(slot, deadline_ns, table),
            Some((Stop::Dead, slot)) => {
                self.replay_dead(begin + item, metas[item].as_ref(), slot, items, table);
                item += 1;
            }
        }
        item
    }

    /// An item that finds its flow's state dead.
    #[inline(never)]
    fn replay_dead(
        &mut self,
        item: usize,
        meta: Option<&F::Meta>,
        slot: Slot,
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) {
        self.lapse(slot, 0, table);
        let Some(meta) = meta else { return };
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
