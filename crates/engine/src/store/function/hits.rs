//! A function steps packets of flows that have a block: most where their state is.

use io::Frame;
use nf::NetworkFunction;

use crate::path::batch::Batch;
use crate::path::packets::first_bits;
use crate::store::function::{FunctionMember, STEPPED_AT_ONCE};
use crate::store::member::Steps;

impl<F: NetworkFunction> FunctionMember<F> {
    /// See [`Member::hits`](crate::store::member::Member::hits).
    #[inline(always)]
    pub(super) fn hits_of(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        let mut rest = packets & steps.batch.live;
        if const { F::EXTRAS.in_place.is_never() } {
            return self.hits_at_hand(rest, steps);
        }
        while rest != 0 {
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
    fn hits_stepped(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        self.hits_at_hand(packets, steps);
    }

    /// Steps packets of flows that have a block.
    #[inline(always)]
    fn hits_at_hand(&mut self, mut rest: u64, steps: &mut Steps<'_, F::Key>) {
        let Steps { batch, table, located, port } = steps;
        let mut cells = table.cells_mut(self.part);
        while rest != 0 {
            let packet = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let Some(meta) = F::project(&batch.headers[packet]) else { continue };
            let Frame { stamp, entry, .. } = batch.frames[packet];
            let slot = located.slots[packet];
            // Where flows are forgotten sooner than their packets come, every packet lapses one.
            let lapses = cells.at(slot).is_dead_at(stamp.time_ns);
            if lapses {
                self.lapse(slot, entry, &mut cells);
            }
            let cell = cells.at(slot);
            let mut flow = cell.state().copied();
            let was_none = flow.is_none();
            let verdict = self.stepper.step(&mut flow, &meta, packet, batch);
            self.stepper.note_step(&meta, cell.state(), flow.as_ref());
            match flow {
                Some(state) => {
                    self.flows.created += u64::from(was_none);
                    self.set_after(cell, state, &meta, stamp.time_ns);
                }
                None if lapses => {
                    table.has_lost_a_state(slot);
                    cells = table.cells_mut(self.part);
                }
                None if was_none => (),
                None => {
                    let deadline_ns = cell.deadline_ns();
                    self.remove(slot, deadline_ns, table);
                    cells = table.cells_mut(self.part);
                }
            }
            self.stepper.conclude(packet, verdict, &meta, batch, *port);
        }
    }
}
