//! A function on a core, whatever keeps its states: how it steps packets, and what becomes of them.

mod items;
mod outcome;

use std::mem;
use std::sync::Arc;

use io::Frame;
use nf::{
    Cx, Ended, EndedOf, InPlace, NetworkFunction, Records, Verdict, began_anew, drawn, undeclared_event,
};
use wire::{Edits, EditsMark, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::{FlowCounters, StageCounters, Undeclared};
use crate::path::group::StageSpec;
use crate::path::parcel::Pool;
use crate::path::pools::Pools;

/// For a function that reports records that have ended: room for these.
pub(crate) fn room_for_ended<F: NetworkFunction>(function: &F) -> Option<Box<EndedOf<F>>> {
    let keep = (F::EXTRAS.records.keep)(function);
    (keep > 0).then(|| Box::new(Ended::new(keep)))
}

/// Notes a record that has ended, for a function that reports these.
#[inline]
pub(crate) fn note_ended<F: NetworkFunction>(
    ended: &mut Option<Box<EndedOf<F>>>,
    function: &F,
    key: &F::Key,
    state: &F::State,
) {
    if let Some(ended) = ended {
        add_ended(ended, function, key, state);
    }
}

#[cold]
fn add_ended<F: NetworkFunction>(ended: &mut EndedOf<F>, function: &F, key: &F::Key, state: &F::State) {
    let Records { rank, totals, .. } = F::EXTRAS.records;
    ended.add(rank(function, state), totals(function, state), key, state);
}

/// Whether a step has ended a record and begun the next, in a function that does so.
#[inline(always)]
fn has_begun_anew<F: NetworkFunction>(
    function: &F,
    before: Option<&F::State>,
    after: Option<&F::State>,
) -> bool {
    if !const { F::EXTRAS.records.begin_anew } {
        return false;
    }
    let (Some(before), Some(after)) = (before, after) else { return false };
    let totals = const { F::EXTRAS.records.totals };
    began_anew(totals(function, before), totals(function, after))
}

/// What every function on a core has, with a table or without.
pub(crate) struct Stepper<F: NetworkFunction> {
    pub(crate) function: Arc<F>,
    pub(crate) pools: Pools<F::Pool>,
    /// The records that have ended on this core, if the function reports them.
    ended: Option<Box<EndedOf<F>>>,
    index: u8,
    /// Whether no function comes after it, which would read what it edits.
    is_last: bool,
    seed: u64,
    /// Those of this core's packets, then those of history, each with one cell more for [`undeclared_event`], and behind it one for
    /// each rule.
    events: Box<[u64]>,
    /// As they were before the step of a flow that may be refused.
    events_before: Box<[u64]>,
    drops: Box<[u64]>,
    /// A reason that the function does not declare.
    undeclared_drop: Option<u8>,
    /// Where edits go that nobody makes.
    no_edits: Edits,
    /// Whether the packets that the last leap took pass.
    leaps_own: bool,
    packets: u64,
    transmit_back: u64,
    host: u64,
}

impl<F: NetworkFunction> Stepper<F> {
    pub(crate) fn new(function: Arc<F>, pools: Pools<F::Pool>, spec: StageSpec) -> Self {
        let rules = F::EXTRAS.rules.map_or(0, |rules| rules(&function).len());
        let cells = F::ABOUT.events.len() + 1 + rules;
        Stepper {
            ended: room_for_ended(&*function),
            function,
            pools,
            index: spec.index,
            is_last: spec.is_last,
            // Functions of one chain draw different numbers for the same packet.
            seed: drawn(&[spec.index], spec.seed),
            events: vec![0; 2 * cells].into(),
            events_before: vec![0; 2 * cells].into(),
            drops: vec![0; F::ABOUT.drop_reasons.len() + 1].into(),
            undeclared_drop: None,
            no_edits: Edits::NONE,
            leaps_own: true,
            packets: 0,
            transmit_back: 0,
            host: 0,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index.into()
    }

    /// Whether no function comes after it.
    #[inline(always)]
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// A pool that has come from this function on another core.
    pub(crate) fn put_pool(&mut self, entry: u16, pool: Pool) {
        let pool = pool.0.downcast().expect("this function's pool");
        self.pools.put(entry, *pool);
    }

    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        flow: &mut Option<F::State>,
        meta: &F::Meta,
        packet: usize,
        batch: &mut Batch,
    ) -> Verdict {
        self.step_at(batch.frames[packet].stamp, flow, meta, packet, batch)
    }

    /// Steps as of another time than the packet's own.
    #[inline(always)]
    pub(crate) fn step_at(
        &mut self,
        stamp: Stamp,
        flow: &mut Option<F::State>,
        meta: &F::Meta,
        packet: usize,
        batch: &mut Batch,
    ) -> Verdict {
        let is_own = batch.is_own(packet);
        self.packets += u64::from(is_own);
        let pool = self.pools.of(batch.frames[packet].entry);
        let edits = &mut batch.edits[packet];
        let edited = if cfg!(debug_assertions) { edits.fields() } else { F::EDITS };
        let mut cx = Cx::new(stamp, edits, pool, events_of::<F>(&mut self.events, is_own), self.seed);
        let verdict = self.function.step(flow, meta, &mut cx);
        debug_assert!(
            (F::EDITS | edited).contains(batch.edits[packet].fields()),
            "`{}` edits fields that its EDITS does not name, on which sharding relies",
            F::ABOUT.name
        );
        verdict
    }

    /// Does the step of a flow that has this state where it is, if the function can, and the packet passes: says when the flow
    /// dies then.
    #[inline(always)]
    pub(crate) fn step_in_place(
        &mut self,
        state: &mut F::State,
        meta: &F::Meta,
        stamp: Stamp,
        entry: u16,
        is_own: bool,
        edits: &mut Edits,
    ) -> Option<u64> {
        const { assert!(F::EXTRAS.in_place.is_never() || F::EXTRAS.inspect.is_none(), "it never inspects") }
        let is_done = match const { F::EXTRAS.in_place } {
            InPlace::Never => false,
            InPlace::Flow(step) => step(&self.function, state, meta, stamp, edits),
            InPlace::Whole(step) => {
                let events = events_of::<F>(&mut self.events, is_own);
                let mut cx = Cx::new(stamp, edits, self.pools.of(entry), events, self.seed);
                step(&self.function, state, meta, &mut cx)
            }
        };
        is_done.then(|| self.deadline_ns(state, stamp.time_ns))
    }

    /// Counts packets that were stepped in place.
    #[inline]
    pub(crate) fn count_in_place(&mut self, packets: u64, batch: &Batch) {
        self.packets += u64::from((packets & !batch.history).count_ones());
    }

    /// When a flow dies that is stepped now.
    #[inline(always)]
    pub(crate) fn deadline_ns(&self, state: &F::State, now_ns: u64) -> u64 {
        // As `Cell::set` has it.
        now_ns.saturating_add(self.function.idle_timeout_ns(state)).max(1)
    }

    /// Counts a packet that is not stepped.
    pub(crate) fn skip(&mut self, packet: usize, batch: &Batch) {
        self.packets += u64::from(batch.is_own(packet));
    }

    /// The verdict where `state`, which the packet's step left, finds no room: the step did not happen,
    /// neither its state nor its edits stay, nor what it counted.
    #[cold]
    pub(crate) fn reject(
        &mut self,
        state: &F::State,
        meta: &F::Meta,
        packet: usize,
        edits_before: &EditsMark,
        batch: &mut Batch,
    ) -> Verdict {
        batch.edits[packet].undo_to(edits_before);
        copy_events::<F>(&self.events_before, &mut self.events);
        let Frame { stamp, entry, .. } = batch.frames[packet];
        let events = events_of::<F>(&mut self.events, batch.is_own(packet));
        let edits = &mut batch.edits[packet];
        let mut cx = Cx::new(stamp, edits, self.pools.of(entry), events, self.seed);
        (F::EXTRAS.full_table.rejected)(&self.function, state, meta, &mut cx)
    }

    /// Rejects as `reject` does, for a packet of another core, whose step [`Stepper::mark_replay`] came before.
    #[cold]
    pub(crate) fn reject_replay(&mut self, state: &F::State, meta: &F::Meta, stamp: Stamp) -> Verdict {
        copy_events::<F>(&self.events_before, &mut self.events);
        let Stepper { function, pools, events, no_edits, seed, .. } = self;
        let mut cx = Cx::new(stamp, no_edits, pools.of(0), events_of::<F>(events, false), *seed);
        let verdict = (F::EXTRAS.full_table.rejected)(function, state, meta, &mut cx);
        cx.edits.clear();
        verdict
    }

    /// Notes what a step that [`Stepper::reject_replay`] takes back would change.
    pub(crate) fn mark_replay(&mut self) -> EditsMark {
        copy_events::<F>(&self.events, &mut self.events_before);
        self.no_edits.mark()
    }

    /// Notes what a step that [`Stepper::reject`] takes back would change.
    pub(crate) fn mark(&mut self, packet: usize, batch: &Batch) -> EditsMark {
        copy_events::<F>(&self.events, &mut self.events_before);
        batch.edits[packet].mark()
    }

    /// Takes over the pools of the same function of another replica, and its records that have ended.
    pub(crate) fn copy_from(&mut self, other: &Stepper<F>) {
        self.pools.clone_from(&other.pools);
        self.ended.clone_from(&other.ended);
    }

    /// Goes on where the same function of a chain that this one's replaces has ended: with its pools, if they fit the
    /// options, its records that have ended, and its counters.
    pub(crate) fn take_over(&mut self, other: &mut Stepper<F>) {
        if (F::EXTRAS.reload.keeps_pool)(&self.function, &other.function) {
            mem::swap(&mut self.pools, &mut other.pools);
        }
        self.add_ended(other.ended.as_deref());
        copy_events::<F>(&other.events, &mut self.events);
        if let Some(rules) = F::EXTRAS.rules
            && rules(&self.function) == rules(&other.function)
        {
            self.events.copy_from_slice(&other.events);
        }
        self.drops.copy_from_slice(&other.drops);
        self.undeclared_drop = other.undeclared_drop;
        (self.packets, self.transmit_back, self.host) = (other.packets, other.transmit_back, other.host);
    }

    /// A flow has left the table, not by a step.
    #[inline]
    pub(crate) fn end_record(&mut self, key: &F::Key, state: &F::State) {
        note_ended(&mut self.ended, &*self.function, key, state);
    }

    /// After a step: notes the record `before` if the step has begun the next one.
    #[inline(always)]
    pub(crate) fn note_step(&mut self, meta: &F::Meta, before: Option<&F::State>, after: Option<&F::State>) {
        if has_begun_anew(&*self.function, before, after)
            && let Some(before) = before
        {
            self.end_record(&F::key(meta), before);
        }
    }

    /// Goes on with these records that have ended, and gives those so far.
    pub(crate) fn swap_ended(&mut self, ended: &mut Option<Box<EndedOf<F>>>) {
        mem::swap(&mut self.ended, ended);
    }

    /// Adds records that have ended elsewhere.
    pub(crate) fn add_ended(&mut self, other: Option<&EndedOf<F>>) {
        if let (Some(own), Some(other)) = (&mut self.ended, other) {
            own.merge(other);
        }
    }

    /// The records that have ended on this core, which forgets them.
    pub(crate) fn take_ended(&mut self) -> Option<Box<EndedOf<F>>> {
        let none = room_for_ended(&*self.function);
        mem::replace(&mut self.ended, none)
    }

    /// The records that have ended on this core, if the function reports them.
    pub(crate) fn ended(&self) -> Option<&EndedOf<F>> {
        self.ended.as_deref()
    }

    /// By index of the function's events, how many so far.
    pub(crate) fn events(&self) -> &[u64] {
        &self.events[..F::ABOUT.events.len()]
    }

    /// Packets that the function took as its business.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// A number that the function used and does not declare, in own packets or history.
    fn undeclared(&self) -> Option<Undeclared> {
        let cells = F::ABOUT.events.len() + 1;
        let (own, history) = self.events.split_at(self.events.len() / 2);
        let event = undeclared_event(&own[..cells]).or_else(|| undeclared_event(&history[..cells]));
        let event = event.map(Undeclared::Event);
        self.undeclared_drop.map(Undeclared::Drop).or(event)
    }

    pub(crate) fn counters(&self, flows: FlowCounters) -> StageCounters<'_> {
        let ended = self.transmit_back + self.host + self.drops.iter().sum::<u64>();
        StageCounters {
            packets: self.packets,
            forward: self.packets - ended,
            transmit_back: self.transmit_back,
            host: self.host,
            drops: &self.drops,
            events: self.events(),
            rules: &self.events[F::ABOUT.events.len() + 1..self.events.len() / 2],
            undeclared: self.undeclared(),
            flows,
            live: flows.live(),
            capacity: 0,
        }
    }
}

/// Copies what was counted by event, of own packets and of history. What rules decided stays counted, whatever became of the packet.
#[inline(always)]
fn copy_events<F: NetworkFunction>(from: &[u64], to: &mut [u64]) {
    if const { F::EXTRAS.rules.is_none() } {
        return to.copy_from_slice(from);
    }
    let cells = const { F::ABOUT.events.len() + 1 };
    let (own, history) = (to.len() / 2, from.len() / 2);
    to[..cells].copy_from_slice(&from[..cells]);
    to[own..][..cells].copy_from_slice(&from[history..][..cells]);
}

/// Where a step counts: what it counts of history others count, too.
#[inline(always)]
fn events_of<F: NetworkFunction>(events: &mut [u64], is_own: bool) -> &mut [u64] {
    let own_cells = match const { F::EXTRAS.rules.is_some() } {
        true => events.len() / 2,
        false => const { F::ABOUT.events.len() + 1 },
    };
    let (own, history) = events.split_at_mut(own_cells);
    if is_own { own } else { history }
}
