//! Flows that come out of random packets, on which what a function does by a short way is compared with its steps.

use alloc::vec::Vec;

use wire::{Edits, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::{Cx, NetworkFunction, Verdict, hash_bytes};

/// A flow, and when its last packet came.
pub(crate) struct Timed<S> {
    pub(crate) state: Option<S>,
    pub(crate) time_ns: u64,
}

/// Draws flows and packets, the same in each run.
pub(crate) struct Trial<'a, F: NetworkFunction> {
    pub(crate) function: &'a F,
    pub(crate) pool: F::Pool,
    /// A second pool, to which the short way is taken: each step is done with both, and must come out alike.
    pub(crate) twin: Option<F::Pool>,
    /// Whether a step came out otherwise with the twin.
    pub(crate) twins_differ: bool,
    drawn: u64,
}

/// What a step does beside the state.
#[derive(PartialEq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) edits: Edits,
    pub(crate) events: Vec<u64>,
}

/// Whether two flows are alike, byte by byte.
pub(crate) fn is_same<S: IntoBytes + Immutable>(one: &Option<S>, other: &Option<S>) -> bool {
    one.as_ref().map(S::as_bytes) == other.as_ref().map(S::as_bytes)
}

/// What the function reads of packets that are its business.
pub(crate) fn metas<F: NetworkFunction>(samples: &[Headers]) -> Vec<F::Meta> {
    samples.iter().filter(|headers| headers.is_well_formed()).filter_map(F::project).collect()
}

impl<'a, F: NetworkFunction> Trial<'a, F> {
    pub(crate) fn new(function: &'a F) -> Self {
        Trial { function, pool: (F::EXTRAS.pool.make)(function), twin: None, twins_differ: false, drawn: 0 }
    }

    /// A trial of `function` with a second pool.
    pub(crate) fn with_twin(function: &'a F) -> Self {
        let trial = Trial::new(function);
        Trial { twin: Some(trial.pool.clone()), ..trial }
    }

    /// A flow that some packets, most of them this one and the others any, have led to.
    pub(crate) fn flow(&mut self, meta: &F::Meta, metas: &[F::Meta]) -> Timed<F::State> {
        let mut flow = Timed { state: None, time_ns: 1 << 60 };
        for _ in 0..self.below(6) {
            let other = self.below(2 * metas.len() as u64) as usize;
            self.step(&mut flow, metas.get(other).unwrap_or(meta));
        }
        flow
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        hash_bytes(self.drawn.as_bytes(), 7) % end
    }

    /// When the next packet comes.
    pub(crate) fn later_ns(&mut self, flow: &Timed<F::State>) -> u64 {
        let idle_timeout_ns = flow.state.as_ref().map_or(1, |state| self.function.idle_timeout_ns(state));
        let gap_ns = match self.below(8) {
            0 => idle_timeout_ns.min(1 << 50).saturating_sub(self.below(3)),
            1 => idle_timeout_ns.min(1 << 50) / 4,
            2 => 0,
            // Most packets of a flow come in bursts.
            _ => {
                let most = 1 << (10 * self.below(4));
                self.below(most)
            }
        };
        flow.time_ns + gap_ns
    }

    pub(crate) fn is_over(&self, flow: &Timed<F::State>, time_ns: u64) -> bool {
        let ends = |state| time_ns >= flow.time_ns.saturating_add(self.function.idle_timeout_ns(state));
        flow.state.as_ref().is_some_and(ends)
    }

    pub(crate) fn step(&mut self, flow: &mut Timed<F::State>, meta: &F::Meta) {
        let time_ns = self.later_ns(flow);
        if self.is_over(flow, time_ns) {
            flow.state = None;
        }
        let _ = self.step_at(time_ns, flow, meta);
    }

    pub(crate) fn stamp(&self, time_ns: u64) -> Stamp {
        Stamp { seq: self.drawn, time_ns }
    }

    pub(crate) fn step_at(&mut self, time_ns: u64, flow: &mut Timed<F::State>, meta: &F::Meta) -> Outcome {
        let before = flow.state;
        let outcome = self.step_alone(time_ns, flow, meta);
        if let Some(mut twin) = self.twin.take() {
            let mut other = before;
            let stamp = self.stamp(time_ns);
            let step = |cx: &mut Cx<'_, F::Pool>| self.function.step(&mut other, meta, cx);
            let twins = Outcome::of::<F>(stamp, &mut twin, step);
            self.twins_differ |= twins != outcome || !is_same(&other, &flow.state);
            self.twin = Some(twin);
        }
        outcome
    }

    /// A step with the first pool alone.
    pub(crate) fn step_alone(&mut self, time_ns: u64, flow: &mut Timed<F::State>, meta: &F::Meta) -> Outcome {
        flow.time_ns = time_ns;
        let (stamp, Trial { function, pool, .. }) = (self.stamp(time_ns), self);
        Outcome::of::<F>(stamp, pool, |cx| function.step(&mut flow.state, meta, cx))
    }
}

impl Outcome {
    /// Whether the packet passes as it is, and no event is counted.
    pub(crate) fn is_none(&self) -> bool {
        self.verdict == Verdict::Forward
            && self.edits.is_empty()
            && self.events.iter().all(|count| *count == 0)
    }

    /// What comes of a step, which `step` does.
    pub(crate) fn of<F: NetworkFunction>(
        stamp: Stamp,
        pool: &mut F::Pool,
        step: impl FnOnce(&mut Cx<'_, F::Pool>) -> Verdict,
    ) -> Outcome {
        let (mut edits, mut events) = (Edits::NONE, alloc::vec![0; F::ABOUT.events.len() + 1]);
        let verdict = step(&mut Cx::new(stamp, &mut edits, pool, &mut events, 0));
        Outcome { verdict, edits, events }
    }
}
