//! A function steps packets of flows that have a block: most where their state is.

use io::Frame;
use nf::NetworkFunction;
use table::Slot;

use crate::path::batch::Batch;
use crate::path::packets::first_bits;
use crate::store::function::{FunctionMember, STEPPED_AT_ONCE};
use crate::store::member::Steps;

impl<F: NetworkFunction> FunctionMember<F> {
    /// See [`Member::hits`](crate::store::member::Member::hits).
    #[inline(always)]
    pub(super) fn hits_of(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        let mut rest = packets & steps.batch.live;
        while rest != 0 {
            if const { F::EXTRAS.in_place.is_never() } {
                rest = self.hits_at_hand(rest, steps);
                continue;
            }
            rest = self.hits_in_place(rest, steps);
            if rest == 0 {
                break;
            }
            let some = first_bits(rest, STEPPED_AT_ONCE);
            self.hits_stepped(some, steps);
            rest &= !some;
        }
    }

    /// Steps packets of flows that have a block as far as it can be done in place; returns the others.
    #[inline(always)]
    fn hits_in_place(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) -> u64 {
        let Steps { batch, table, located, .. } = steps;
        let mut cells = table.cells_mut(self.part);
        // Where all is, is looked up once.
        let Batch { frames, headers, edits, history, .. } = &mut **batch;
        let (frames, headers, edits) = (frames.as_slice(), &mut **headers, &mut **edits);
        let (slots, history) = (&located.slots, *history);
        let (mut rest, mut others) = (packets, 0);
        while rest != 0 {
            let packet = rest.trailing_zeros() as usize;
            match F::project(&headers[packet]) {
                Some(meta) => {
                    let Frame { stamp, entry, .. } = frames[packet];
                    let is_own = history >> packet & 1 == 0;
                    let Some(mut live) = cells.at(slots[packet]).live_at(stamp.time_ns) else {
                        break;
                    };
                    let edits = &mut edits[packet];
                    let deadline_ns =
                        self.stepper.step_in_place(live.state(), &meta, stamp, entry, is_own, edits);
                    let Some(deadline_ns) = deadline_ns else { break };
                    live.renew(deadline_ns);
                    self.stepper.show_edits(edits, &mut headers[packet]);
                }
                None => others |= 1 << packet,
            }
            rest &= rest - 1;
        }
        self.stepper.count_in_place(packets & !(rest | others), batch);
        rest
    }

    /// Steps packets of flows that have a block. Not inlined, so that the loop in place has the registers.
    #[inline(never)]
    fn hits_stepped(&mut self, mut rest: u64, steps: &mut Steps<'_, F::Key>) {
        while rest != 0 {
            rest = self.hits_at_hand(rest, steps);
        }
    }

    /// Steps packets of flows that have a block, up to one that ends its flow or finds it dead; returns the others.
    #[inline(always)]
    fn hits_at_hand(&mut self, mut rest: u64, steps: &mut Steps<'_, F::Key>) -> u64 {
        let Steps { batch, table, located, port } = steps;
        let mut cells = table.cells_mut(self.part);
        while rest != 0 {
            let packet = rest.trailing_zeros() as usize;
            let slot = located.slots[packet];
            let cell = cells.at(slot);
            let now_ns = batch.frames[packet].stamp.time_ns;
            if cell.is_dead_at(now_ns) {
                self.hit_dead(packet, slot, steps);
                return rest & (rest - 1);
            }
            rest &= rest - 1;
            let Some(meta) = F::project(&batch.headers[packet]) else { continue };
            let mut flow = cell.state().copied();
            let was_none = flow.is_none();
            let verdict = self.stepper.step(&mut flow, &meta, packet, batch);
            self.stepper.note_step(&meta, cell.state(), flow.as_ref());
            match flow {
                Some(state) => {
                    self.flows.created += u64::from(was_none);
                    self.set_after(cell, state, &meta, now_ns);
                    self.stepper.conclude(packet, verdict, &meta, batch, *port);
                }
                None if was_none => self.stepper.conclude(packet, verdict, &meta, batch, *port),
                None => {
                    let deadline_ns = cell.deadline_ns();
                    self.remove(slot, deadline_ns, table);
                    self.stepper.conclude(packet, verdict, &meta, batch, *port);
                    return rest;
                }
            }
        }
        0
    }

    /// One packet of a flow that has a block, and a state in it that is dead to the packet.
    #[inline(never)]
    pub(in crate::store) fn hit_dead(&mut self, packet: usize, slot: Slot, steps: &mut Steps<'_, F::Key>) {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let Frame { stamp, entry, .. } = steps.batch.frames[packet];
        self.lapse(slot, entry, steps.table);
        let mut flow = None;
        let verdict = self.stepper.step(&mut flow, &meta, packet, steps.batch);
        self.begin_again(slot, flow, stamp.time_ns, steps.table);
        self.stepper.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }
}
