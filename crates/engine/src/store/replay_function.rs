//! One function of a group steps packets of other cores: nothing comes of it but the state, and whether the packet goes
//! on to the next function.

use io::Frame;
use nf::{Leap, NetworkFunction, Verdict};
use table::{FlowTable, Slot};
use wire::Stamp;

use crate::path::items::Items;
use crate::path::packets::{alone, below_first, first_bits, span_bits};
use crate::store::function::{FunctionMember, STEPPED_AT_ONCE, Waiting};
use crate::store::member::{Runs, Steps};

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
        packets: u64,
        runs: Runs<'_>,
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) {
        let (mut rest, mut slot) = (packets, Slot::NONE);
        let alone = alone(packets, runs.leaders);
        let metas = items.metas::<F::Meta>(self.stepper.index());
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            if alone & first != 0 {
                let stretch = rest & below_first(rest & !alone);
                let left = match const { !F::EXTRAS.in_place.is_never() } {
                    true => self.replay_alone_in_place(stretch, runs, metas, items, steps),
                    false => self.replay_alone(stretch, runs, metas, items, steps),
                };
                rest = rest & !stretch | left;
                if left == 0 {
                    continue;
                }
            }
            // The first may be alone and find its flow dead.
            let first = rest & rest.wrapping_neg();
            let stretch = rest & below_first(rest & alone & !first);
            let left;
            (left, slot) = self.replay_some(stretch, slot, runs, metas, items, steps);
            rest = rest & !stretch | left;
        }
    }

    /// Replays as [`FunctionMember::replay_alone`] does, with as many steps in place as can be.
    #[inline(always)]
    fn replay_alone_in_place(
        &mut self,
        mut rest: u64,
        runs: Runs<'_>,
        metas: &[Option<F::Meta>],
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) -> u64 {
        while rest != 0 {
            rest = self.replay_in_place(rest, runs, metas, items, steps);
            if rest == 0 {
                break;
            }
            let some = first_bits(rest, STEPPED_AT_ONCE);
            let left = self.replay_alone_stepped(some, runs, metas, items, steps);
            rest = rest & !some | left;
            if left != 0 {
                break;
            }
        }
        rest
    }

    /// Steps items that are alone as far as it can be done in place; returns the others.
    #[inline(always)]
    fn replay_in_place(
        &mut self,
        mut rest: u64,
        runs: Runs<'_>,
        metas: &[Option<F::Meta>],
        items: &Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) -> u64 {
        let Steps { batch, table, .. } = steps;
        let (times_ns, seqs, own) = (items.times_ns, items.seqs, items.own);
        let mut cells = table.cells_mut(self.part);
        let mut stepped = 0;
        while rest != 0 {
            let item = rest.trailing_zeros() as usize;
            if let Some(meta) = &metas[item] {
                let is_own = own >> item & 1 == 1;
                let edits = is_own && !F::EDITS.is_empty();
                let edits = edits.then(|| &mut batch.edits[items.packet(item)]);
                let stamp = Stamp { seq: seqs.seq(item), time_ns: times_ns[item] };
                let Some(mut live) = cells.at(runs.slots[item]).live_at(stamp.time_ns) else { break };
                let deadline_ns = self.stepper.step_item_in_place(live.state(), meta, stamp, is_own, edits);
                let Some(deadline_ns) = deadline_ns else { break };
                live.renew(deadline_ns);
                if is_own {
                    stepped |= 1 << items.packet(item);
                    self.stepper.pass(items.packet(item), batch);
                }
            }
            rest &= rest - 1;
        }
        self.stepper.count_in_place(stepped, batch);
        rest
    }

    /// Not inlined, so that the loop in place has the registers.
    #[inline(never)]
    fn replay_alone_stepped(
        &mut self,
        packets: u64,
        runs: Runs<'_>,
        metas: &[Option<F::Meta>],
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) -> u64 {
        self.replay_alone(packets, runs, metas, items, steps)
    }

    /// Steps items that are alone, up to one that ends its flow, or finds it dead and is not stepped; returns the others.
    /// As [`FunctionMember::replay_some`] does, with nothing that is kept from one item to the next.
    #[inline(always)]
    fn replay_alone(
        &mut self,
        mut rest: u64,
        runs: Runs<'_>,
        metas: &[Option<F::Meta>],
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) -> u64 {
        let Steps { batch, table, port, .. } = steps;
        let (times_ns, seqs, own_items) = (items.times_ns, items.seqs, items.own);
        let is_last = self.stepper.is_last();
        let mut cells = table.cells_mut(self.part);
        while rest != 0 {
            let item = rest.trailing_zeros() as usize;
            let slot = runs.slots[item];
            let cell = cells.at(slot);
            let now_ns = times_ns[item];
            if cell.is_dead_at(now_ns) {
                return rest;
            }
            rest &= rest - 1;
            let Some(meta) = &metas[item] else { continue };
            let mut flow = cell.state().copied();
            let was_none = flow.is_none();
            let is_own = own_items >> item & 1 == 1;
            let own = is_own.then(|| &mut batch.edits[items.packet(item)]);
            let stamp = Stamp { seq: seqs.seq(item), time_ns: now_ns };
            let verdict = self.stepper.step_item(&mut flow, meta, stamp, own);
            if is_own {
                self.stepper.conclude(items.packet(item), verdict, meta, batch, *port);
                items.sync(item, batch);
            } else if !is_last && verdict != Verdict::Forward {
                items.conclude(item, verdict);
            }
            match flow {
                Some(state) => {
                    self.flows.created += u64::from(was_none);
                    self.set_after(cell, state, meta, now_ns);
                }
                None if was_none => {}
                None => {
                    let deadline_ns = cell.deadline_ns();
                    self.remove(slot, deadline_ns, table);
                    return rest;
                }
            }
        }
        0
    }

    /// Steps items run by run, with the flow's state at hand, up to one that ends a flow or finds it dead; returns the
    /// others, and the block of the last run. The first item is a leader, or in the run of block `slot`.
    #[inline(always)]
    fn replay_some(
        &mut self,
        mut rest: u64,
        mut slot: Slot,
        runs: Runs<'_>,
        metas: &[Option<F::Meta>],
        items: &mut Items<'_>,
        steps: &mut Steps<'_, F::Key>,
    ) -> (u64, Slot) {
        let Steps { batch, table, port, .. } = steps;
        let (times_ns, seqs) = (items.times_ns, items.seqs);
        let is_last = self.stepper.is_last();
        // Items that may be stepped together with the one before: a later function asks for the verdict on each, a look at
        // payloads for each own packet.
        let followers = if const { F::EXTRAS.leap.is_some() && F::EXTRAS.inspect.is_none() } && is_last {
            rest & !runs.leaders
        } else {
            0
        };
        let (own_items, mut created) = (items.own, 0);
        let mut cells = table.cells_mut(self.part);
        let mut item = rest.trailing_zeros() as usize;
        let stop = 'runs: loop {
            if runs.leaders >> item & 1 == 1 {
                slot = runs.slots[item];
            }
            let cell = cells.at(slot);
            let (mut flow, mut deadline_ns) = (cell.state().copied(), cell.deadline_ns());
            loop {
                if let Some(meta) = &metas[item] {
                    let now_ns = times_ns[item];
                    let was_some = flow.is_some();
                    if was_some && deadline_ns <= now_ns {
                        if let Some(state) = flow {
                            cell.set(state, deadline_ns);
                        }
                        break 'runs Stop::Dead;
                    }
                    let is_own = own_items >> item & 1 == 1;
                    let mut last_ns = now_ns;
                    // Own packets, where none is worth a try.
                    let left_out = if self.stepper.leaps_own() { 0 } else { own_items };
                    let next = (followers & !left_out) >> item >> 1;
                    let leapt = match next & 1 != 0 && was_some && left_out >> item & 1 == 0 {
                        true => {
                            let (metas, times_ns) = (&metas[item..], &times_ns[item..]);
                            self.stepper.leap(&mut flow, metas, times_ns, next, own_items >> item).steps
                        }
                        false => 0,
                    };
                    if leapt > 0 {
                        last_ns = times_ns[item + leapt - 1];
                        // The last of them is taken away below.
                        rest &= !span_bits(item, leapt);
                        item += leapt - 1;
                        rest |= 1 << item;
                    } else {
                        let own = is_own.then(|| &mut batch.edits[items.packet(item)]);
                        let stamp = Stamp { seq: seqs.seq(item), time_ns: now_ns };
                        let verdict = self.stepper.step_item(&mut flow, meta, stamp, own);
                        if is_own {
                            self.stepper.conclude(items.packet(item), verdict, meta, batch, *port);
                            items.sync(item, batch);
                        } else if !is_last && verdict != Verdict::Forward {
                            items.conclude(item, verdict);
                        }
                    }
                    if let Some(state) = &flow {
                        created += u64::from(!was_some);
                        if !was_some || (F::EXTRAS.refreshes)(meta) {
                            deadline_ns = self.stepper.deadline_ns(state, last_ns);
                        }
                    } else if was_some {
                        rest &= rest - 1;
                        break 'runs Stop::Ended { deadline_ns };
                    }
                }
                rest &= rest - 1;
                item = rest.trailing_zeros() as usize;
                if rest == 0 || runs.leaders >> item & 1 == 1 {
                    break;
                }
            }
            if let Some(state) = flow {
                cell.set(state, deadline_ns);
            }
            if rest == 0 {
                self.flows.created += created;
                return (0, slot);
            }
        };
        self.flows.created += created;
        match stop {
            Stop::Ended { deadline_ns } => self.remove(slot, deadline_ns, table),
            Stop::Dead => {
                rest &= rest - 1;
                if items.is_own(item) {
                    self.hit_dead(items.packet(item), slot, steps);
                    items.sync(item, steps.batch);
                } else if let Some(meta) = &metas[item] {
                    self.replay_dead(item, meta, slot, items, table);
                }
            }
        }
        (rest, slot)
    }

    /// A packet of the core's own that finds its flow's state dead.
    #[inline(never)]
    fn hit_dead(&mut self, packet: usize, slot: Slot, steps: &mut Steps<'_, F::Key>) {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let Frame { stamp, entry, .. } = steps.batch.frames[packet];
        self.lapse(slot, entry, &mut steps.table.cells_mut(self.part));
        let mut flow = None;
        let verdict = self.stepper.step(&mut flow, &meta, packet, steps.batch);
        self.begin_again(slot, flow, stamp.time_ns, steps.table);
        self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    /// An item that finds its flow's state dead.
    #[inline(never)]
    fn replay_dead(
        &mut self,
        item: usize,
        meta: &F::Meta,
        slot: Slot,
        items: &mut Items<'_>,
        table: &mut FlowTable<F::Key>,
    ) {
        self.lapse(slot, 0, &mut table.cells_mut(self.part));
        let mut flow = None;
        let verdict = self.stepper.step_item(&mut flow, meta, items.stamp(item), None);
        items.conclude(item, verdict);
        self.begin_again(slot, flow, items.times_ns[item], table);
    }

    /// See [`Member::replay_misses`](crate::store::member::Member::replay_misses).
    pub(super) fn replay_misses_of(&mut self, packets: u64, items: &mut Items<'_>) -> u64 {
        let metas = items.metas::<F::Meta>(self.stepper.index());
        let is_last = self.stepper.is_last();
        let mut rest = packets;
        while rest != 0 {
            let item = rest.trailing_zeros() as usize;
            if let Some(meta) = &metas[item] {
                let mut flow = None;
                let next = rest >> item >> 1;
                // None of them begins the flow.
                let Leap { steps, .. } = match is_last && next & 1 == 1 {
                    true => {
                        let (metas, times_ns) = (&metas[item..], &items.times_ns[item..]);
                        self.stepper.leap(&mut flow, metas, times_ns, next, 0)
                    }
                    false => Leap::NONE,
                };
                if steps > 0 {
                    rest &= !span_bits(item, steps);
                    continue;
                }
                let verdict = self.stepper.step_item(&mut flow, meta, items.stamp(item), None);
                if flow.is_some() {
                    // The step is done again where there is a block for it; it changed nothing else.
                    break;
                }
                items.conclude(item, verdict);
            }
            rest &= rest - 1;
        }
        packets & !rest
    }

    /// See [`Member::replay_miss`](crate::store::member::Member::replay_miss).
    pub(super) fn replay_miss_of(&mut self, item: usize, items: &mut Items<'_>) -> bool {
        let Some(meta) = items.metas::<F::Meta>(self.stepper.index())[item] else { return false };
        let edits_before = self.stepper.mark_replay();
        let mut flow = None;
        let verdict = self.stepper.step_item(&mut flow, &meta, items.stamp(item), None);
        if let Some(state) = flow {
            self.waiting = Some(Waiting { state, verdict, edits_before });
            return true;
        }
        items.conclude(item, verdict);
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
        if slot.is_some() {
            self.flows.created += 1;
            self.set(table.cell_mut(slot, self.part), state, items.times_ns[item]);
        } else {
            self.flows.rejected += 1;
            verdict = self.stepper.reject_replay(&state, meta, items.stamp(item));
        }
        items.conclude(item, verdict);
    }
}
