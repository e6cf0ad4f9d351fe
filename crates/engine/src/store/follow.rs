//! Functions that follow another run: each answers what it answered there.

use std::any::Any;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use io::{Fate, Port};
use nf::{FlowKey, NetworkFunction, Verdict, WhenShared, began_anew, hash_bytes};
use table::Watermark;
use wire::Stamp;
use zerocopy::IntoBytes;

use crate::path::batch::Batch;
use crate::path::counters::{FlowCounters, StageCounters};
use crate::path::group::Group;
use crate::path::laps::{Lap, Laps};
use crate::path::packets::bits;
use crate::path::step::Stepper;
use crate::path::turned_away::{Telling, Told};
use crate::store::shared_states::weigh;

/// What became of a run's packets, by sequence number.
pub(crate) type Ends = Vec<End>;

/// What became of a packet, as far as runs that follow need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It went on, or was dropped by nobody's step.
    Forward,
    /// Some function ended its way so, and nobody noted which.
    TransmitBack,
    /// Some function passed it to the host, and nobody noted which.
    Host,
    /// A function dropped it.
    Drop {
        /// Which, by index in the chain.
        function: u8,
        /// Why, by index of its reasons.
        reason: u8,
    },
}

impl End {
    pub(crate) fn of(fate: Fate) -> End {
        match fate {
            Fate::Forward | Fate::Drop(_) => End::Forward,
            Fate::TransmitBack => End::TransmitBack,
            Fate::Host => End::Host,
            Fate::DropBy { function, reason } => End::Drop { function, reason },
        }
    }
}

/// A function that answers what it answered where cores shared its states, so that what comes behind it can be
/// compared; if it promises something, it steps as on one core before. For `verify`: plain code, and its own table.
pub(crate) struct FollowGroup<F: NetworkFunction> {
    stepper: Stepper<F>,
    ends: Arc<Ends>,
    flows: HashMap<Vec<u8>, Followed<F::State>>,
    created: u64,
    /// Which packets' new flows found no room where cores shared its states.
    telling: Option<Telling>,
}

struct Followed<S> {
    /// With when it dies.
    live: Option<(S, u64)>,
    /// What this key's records that are gone added up.
    departed: [u64; 2],
}

impl<F: NetworkFunction> FollowGroup<F> {
    const ADDS_UP: bool = matches!(F::EXTRAS.guarantees.when_shared, Some(WhenShared::Totals));

    pub(crate) fn new(stepper: Stepper<F>, ends: Arc<Ends>) -> Self {
        FollowGroup { stepper, ends, flows: HashMap::new(), created: 0, telling: None }
    }

    /// See [`SharedStates::totals`](crate::store::shared_states::SharedStates::totals).
    pub(crate) fn totals(&self) -> u64 {
        let totals = |state: &F::State| (F::EXTRAS.records.totals)(&self.stepper.function, state);
        let of_key = |(key, flow): (&Vec<u8>, &Followed<F::State>)| {
            let live = flow.live.map_or([0; 2], |(state, _)| totals(&state));
            weigh(hash_bytes(key, 0), sum(flow.departed, live))
        };
        self.flows.iter().map(of_key).fold(0, u64::wrapping_add)
    }

    /// What it answered. A function that promises nothing may have sent a packet elsewhere: the first such one
    /// says so.
    fn answer(&self, seq: u64) -> Verdict {
        let may_send = F::EXTRAS.guarantees.when_shared.is_none() && !F::Key::SHARDING.is_stateless();
        match self.ends.get(seq as usize) {
            Some(End::Drop { function, reason }) if usize::from(*function) == self.stepper.index() => {
                Verdict::Drop(*reason)
            }
            Some(End::TransmitBack) if may_send => Verdict::TransmitBack,
            Some(End::Host) if may_send => Verdict::Host,
            _ => Verdict::Forward,
        }
    }

    fn step(&mut self, packet: usize, meta: &F::Meta, batch: &mut Batch) -> Verdict {
        let now_ns = batch.frames[packet].stamp.time_ns;
        let key = F::key(meta);
        let new = || Followed { live: None, departed: [0; 2] };
        let flow = self.flows.entry(key.as_bytes().to_vec()).or_insert_with(new);
        let live = flow.live.filter(|(_, deadline_ns)| *deadline_ns > now_ns);
        let before = live.map(|(state, _)| state);
        let mut state = before;
        let verdict = self.stepper.step(&mut state, meta, packet, batch);
        let seq = batch.frames[packet].stamp.seq;
        if before.is_none() && self.telling.as_ref().is_some_and(|telling| telling.is_refused(seq)) {
            return verdict;
        }
        let function = &*self.stepper.function;
        let totals = |state: &F::State| (F::EXTRAS.records.totals)(function, state);
        if Self::ADDS_UP {
            let [before, after] = [before, state].map(|state| state.map(|state| totals(&state)));
            let goes_on =
                matches!((before, after), (Some(before), Some(after)) if !began_anew(before, after));
            if let Some((left, _)) = flow.live.filter(|_| !goes_on) {
                flow.departed = sum(flow.departed, totals(&left));
            }
        }
        self.created += u64::from(before.is_none() && state.is_some());
        let deadline_ns = |state: &F::State| match live {
            Some((_, before_ns)) if !(F::EXTRAS.refreshes)(meta) => before_ns,
            _ => now_ns.saturating_add(function.idle_timeout_ns(state)),
        };
        flow.live = state.map(|state| (state, deadline_ns(&state)));
        verdict
    }
}

fn sum(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
}

impl<F: NetworkFunction> Group for FollowGroup<F> {
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        for packet in bits(batch.live) {
            let verdict = self.answer(batch.frames[packet].stamp.seq);
            let Some(meta) = F::project(&batch.headers[packet]) else {
                // Behind edits that nobody can tell, it was a packet for it there.
                if verdict != Verdict::Forward {
                    self.stepper.skip(packet, batch);
                    self.stepper.end(packet, verdict, batch);
                }
                continue;
            };
            // What is promised of it is about its steps; else they tell nothing.
            match F::EXTRAS.guarantees.when_shared.is_some() {
                true => _ = self.step(packet, &meta, batch),
                false => self.stepper.skip(packet, batch),
            }
            self.stepper.conclude(packet, verdict, &meta, batch, port);
        }
        laps.lap(Lap::Function(self.stepper.index()), batch);
    }

    fn settle(&mut self, _: Watermark) {}

    fn digest(&self, _: usize, _: Stamp) -> u64 {
        0
    }

    fn audit(&self, _: usize, _: Stamp) -> u64 {
        0
    }

    fn counters(&self, _: usize) -> StageCounters<'_> {
        self.stepper.counters(FlowCounters { created: self.created, ..FlowCounters::default() })
    }

    fn tell(&mut self, told: &Arc<Told>, function: usize) {
        self.telling = Some(Telling::of_shared(told, function));
    }

    fn take_over(&mut self, other: &mut dyn Group) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same function");
        self.stepper.take_over(&mut other.stepper);
        self.flows = mem::take(&mut other.flows);
        self.created = other.created;
    }
}
