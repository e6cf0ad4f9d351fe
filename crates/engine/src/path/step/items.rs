//! A function steps history: packets of other cores, and those of this one among them.

use nf::{Cx, Leap, NetworkFunction, Verdict};
use wire::{Edits, Stamp};
use zerocopy::IntoBytes;

use crate::path::packets::all_bits;
use crate::path::step::{Stepper, events_of};

impl<F: NetworkFunction> Stepper<F> {
    /// Steps an item of history. Nothing comes of it but the state and whether the packet goes on, unless it is a packet
    /// of this core, whose edits are `own`.
    #[inline(always)]
    pub(crate) fn step_item(
        &mut self,
        flow: &mut Option<F::State>,
        meta: &F::Meta,
        stamp: Stamp,
        own: Option<&mut Edits>,
    ) -> Verdict {
        let Stepper { function, pools, events, no_edits, seed, packets, .. } = self;
        let before = if const { F::EXTRAS.records.begin_anew } { *flow } else { None };
        let is_own = own.is_some();
        let edits = match own {
            Some(edits) => {
                *packets += 1;
                edits
            }
            None => no_edits,
        };
        // Replicas have one pool.
        let mut cx = Cx::new(stamp, edits, pools.of(0), events_of::<F>(events, is_own), *seed);
        let verdict = function.step(flow, meta, &mut cx);
        if !F::EDITS.is_empty() && !is_own {
            self.no_edits.clear();
        }
        self.note_step(meta, before.as_ref(), flow.as_ref());
        verdict
    }

    /// Steps packets that are alike without doing each step: as many of the first as can be. Bit *i* of `next` says whether packet
    /// *i* + 1 may be among them, if those before it are; bit *i* of `own`, whether packet *i* is this core's own, so that it
    /// is not among them unless all pass. Those are counted.
    #[inline(never)]
    pub(crate) fn leap(
        &mut self,
        flow: &mut Option<F::State>,
        metas: &[Option<F::Meta>],
        times_ns: &[u64],
        next: u64,
        own: u64,
    ) -> Leap {
        let (Some(leap), [Some(meta), later @ ..]) = (const { F::EXTRAS.leap }, metas) else {
            return Leap::NONE;
        };
        let is_alike = |other: &&Option<F::Meta>| {
            other.as_ref().is_some_and(|other| other.as_bytes() == meta.as_bytes())
        };
        let alike = later.iter().take(next.trailing_ones() as usize).take_while(is_alike).count();
        if alike == 0 {
            return Leap::NONE;
        }
        let before = *flow;
        let done = leap(&self.function, flow, meta, &times_ns[..=alike]);
        self.leaps_own = done.passes;
        let first_own = own.trailing_zeros() as usize;
        if first_own >= done.steps {
            return done;
        }
        if done.passes {
            let stepped = all_bits(done.steps);
            self.packets += u64::from((own & stepped).count_ones());
            return done;
        }
        *flow = before;
        match first_own {
            0 | 1 => Leap::NONE,
            _ => leap(&self.function, flow, meta, &times_ns[..first_own]),
        }
    }

    /// Whether own packets are worth a try in the next leap: the packets of the last one passed. Where a source is blocked none does.
    #[inline(always)]
    pub(crate) fn leaps_own(&self) -> bool {
        self.leaps_own
    }

    /// [`Stepper::step_in_place`] for an item of history: without `edits` nobody makes those that the function asks for.
    #[inline(always)]
    pub(crate) fn step_item_in_place(
        &mut self,
        state: &mut F::State,
        meta: &F::Meta,
        stamp: Stamp,
        is_own: bool,
        edits: Option<&mut Edits>,
    ) -> Option<u64> {
        let mut no_edits = Edits::NONE;
        // Replicas have one pool.
        self.step_in_place(state, meta, stamp, 0, is_own, edits.unwrap_or(&mut no_edits))
    }
}
