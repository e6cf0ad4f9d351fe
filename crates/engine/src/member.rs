use std::any::Any;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use io::{Fate, Frame, Port};
use nf::{Cx, NetworkFunction, Verdict, hash_bytes};
use table::{Cell, FlowTable, Parcel, Part, Slot};
use wire::{Edits, EditsMark, Headers, Stamp};
use zerocopy::IntoBytes;

use crate::Batch;
use crate::batch::bits;
use crate::group::Located;
use crate::group_builder::Pool;
use crate::stage::{FlowCounters, StageCounters, StageSpec};

/// A flow's block, and the entry of the indirection table that brings the flow's packets here.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) slot: Slot,
    pub(crate) entry: u16,
}

/// From core to core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// A batch on its way through a group: what the group's functions step with.
pub(crate) struct Steps<'a, K> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) table: &'a mut FlowTable<K>,
    pub(crate) located: &'a Located,
    pub(crate) port: &'a dyn Port,
}

/// One function of a group, whose flows are kept in the group's table.
pub(crate) trait Member<K>: Send {
    /// Its number in the chain.
    fn index(&self) -> usize;

    /// Asks for memory that the steps of these packets will read.
    fn prefetch(&self, packets: u64, steps: &Steps<'_, K>);

    /// Steps these packets in order, all of flows that have a block.
    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, K>);

    /// Steps packets behind an entry that are alike, of a flow that has no block, as long as they leave no state;
    /// says how many.
    fn misses(&mut self, _packet: usize, _span: Range<u16>, _batch: &Batch) -> u16 {
        0
    }

    /// Steps one live packet, whose flow has no block. `true`: it left a state that needs one; then
    /// [`Member::place`] comes next.
    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, K>) -> bool;

    /// Puts the state of the step before into the flow's new block, if there was room for one.
    fn place(&mut self, packet: usize, steps: &mut Steps<'_, K>);

    /// The block is to be another flow's: takes the state from it, if there is one.
    fn leave(&mut self, block: Block, now_ns: u64, table: &mut FlowTable<K>);

    /// Takes the state from the block if it is dead.
    fn expire(&mut self, block: Block, now_ns: u64, table: &mut FlowTable<K>);

    /// The block, with the state in it, is about to go to another core, or has just come from one.
    fn moves(&mut self, _slot: Slot, _way: Way, _table: &FlowTable<K>) {}

    /// A flow that another core packed finds no room: its state is gone.
    fn lose(&mut self, _parcel: &Parcel<K>, _index: usize, _entry: u16, _table: &FlowTable<K>) {}

    /// The pool of an entry that goes to another core, if it has one of its own.
    fn take_pool(&mut self, _entry: u16) -> Option<Pool> {
        None
    }

    /// The same where it has come.
    fn put_pool(&mut self, _entry: u16, _pool: Pool) {}

    /// Takes `pool` for its own, and gives its own for it: before and after steps in a pool that cores share.
    fn swap_pool(&mut self, _pool: &mut Option<Pool>) {}

    /// The end of a run, after [`Member::expire`] for every block.
    fn settle(&mut self, _now: Stamp) {}

    /// Flows that have a state in the table, dead ones included. O(capacity).
    fn live(&self, table: &FlowTable<K>) -> usize;

    fn digest(&self, table: &FlowTable<K>, now: Stamp) -> u64;

    fn audit(&self, table: &FlowTable<K>, now: Stamp) -> u64;

    fn counters(&self) -> StageCounters<'_>;

    /// Takes over what the same function of another replica has beside the table.
    fn copy_from(&mut self, _other: &dyn Member<K>) {
        unreachable!("only replicas are rebuilt, and these have states of their own");
    }

    fn as_any(&self) -> &dyn Any;
}

/// A function's pools on a core: one, or one for each entry of the indirection table, of which those are here
/// whose entry is.
pub(crate) struct Pools<P>(Box<[Option<P>]>);

impl<P> Pools<P> {
    /// The same for all entries.
    pub(crate) fn one(pool: P) -> Self {
        Pools(Box::new([Some(pool)]))
    }

    /// By entry.
    pub(crate) fn by_entry(pools: Vec<Option<P>>) -> Self {
        Pools(pools.into())
    }

    /// The pool of an entry that is here.
    #[inline(always)]
    pub(crate) fn of(&mut self, entry: u16) -> &mut P {
        let index = self.index(entry);
        self.0[index].as_mut().expect("an entry's packets come where its pool is")
    }

    #[inline(always)]
    pub(crate) fn peek(&self, entry: u16) -> Option<&P> {
        self.0[self.index(entry)].as_ref()
    }

    /// The same, if it is here.
    pub(crate) fn get_mut(&mut self, entry: u16) -> Option<&mut P> {
        self.0[self.index(entry)].as_mut()
    }

    /// The pool of an entry that goes; `None` if it is for all.
    pub(crate) fn take(&mut self, entry: u16) -> Option<P> {
        if self.0.len() == 1 { None } else { self.0[usize::from(entry)].take() }
    }

    /// The pool of an entry that comes.
    pub(crate) fn put(&mut self, entry: u16, pool: P) {
        let index = self.index(entry);
        self.0[index] = Some(pool);
    }

    #[inline(always)]
    fn index(&self, entry: u16) -> usize {
        if self.0.len() == 1 { 0 } else { usize::from(entry) }
    }
}

/// What every function on a core has, with a table or without.
pub(crate) struct Runner<F: NetworkFunction> {
    pub(crate) function: Arc<F>,
    pub(crate) pools: Pools<F::Pool>,
    index: u8,
    /// Whether no function comes after it, which would read what it edits.
    is_last: bool,
    seed: u64,
    /// Those of this core's packets, then those of history.
    events: Box<[u64]>,
    /// As they were before the step of a flow that may be refused.
    events_before: Box<[u64]>,
    drops: Box<[u64]>,
    /// Where edits go that nobody makes.
    no_edits: Edits,
    packets: u64,
    transmit_back: u64,
    host: u64,
}

impl<F: NetworkFunction> Runner<F> {
    pub(crate) fn new(function: Arc<F>, pools: Pools<F::Pool>, spec: StageSpec) -> Self {
        Runner {
            function,
            pools,
            index: spec.index,
            is_last: spec.is_last,
            // Functions of one chain draw different numbers for the same packet.
            seed: hash_bytes(&[spec.index], spec.seed),
            events: vec![0; 2 * F::EVENTS.len()].into(),
            events_before: vec![0; 2 * F::EVENTS.len()].into(),
            drops: vec![0; F::DROP_REASONS.len() + 1].into(),
            no_edits: Edits::NONE,
            packets: 0,
            transmit_back: 0,
            host: 0,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index.into()
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

    /// The same as of another time than the packet's own.
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
            F::NAME
        );
        verdict
    }

    /// Steps what another core has: nothing comes of it but the state.
    #[inline(always)]
    fn replay(&mut self, stamp: Stamp, flow: &mut Option<F::State>, meta: &F::Meta) {
        let pool = self.pools.of(0);
        let events = events_of::<F>(&mut self.events, false);
        let mut cx = Cx::new(stamp, &mut self.no_edits, pool, events, self.seed);
        let _ = self.function.step(flow, meta, &mut cx);
        if !F::EDITS.is_empty() {
            self.no_edits.clear();
        }
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
        self.events.copy_from_slice(&self.events_before);
        let Frame { stamp, entry, .. } = batch.frames[packet];
        let events = events_of::<F>(&mut self.events, batch.is_own(packet));
        let edits = &mut batch.edits[packet];
        let mut cx = Cx::new(stamp, edits, self.pools.of(entry), events, self.seed);
        self.function.rejected(state, meta, &mut cx)
    }

    /// Notes what a step that [`Runner::reject`] takes back would change.
    pub(crate) fn mark(&mut self, packet: usize, batch: &Batch) -> EditsMark {
        self.events_before.copy_from_slice(&self.events);
        batch.edits[packet].mark()
    }

    /// Takes over the pools of the same function of another replica.
    pub(crate) fn copy_from(&mut self, other: &Runner<F>) {
        self.pools.0.clone_from(&other.pools.0);
    }

    /// By index of the function's events, how many so far.
    pub(crate) fn events(&self) -> &[u64] {
        &self.events[..F::EVENTS.len()]
    }

    /// Packets that the function took as its business.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// What the verdict means for the packet; a function that inspects payloads has the last word.
    #[inline]
    pub(crate) fn conclude(
        &mut self,
        packet: usize,
        verdict: Verdict,
        meta: &F::Meta,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        let verdict = match verdict {
            // Payloads of history are elsewhere. No state depends on them: see `Plan`.
            Verdict::Forward if F::INSPECTS && batch.is_own(packet) => {
                self.inspect(packet, meta, batch, port)
            }
            verdict => verdict,
        };
        if verdict == Verdict::Forward {
            if !F::EDITS.is_empty() && !self.is_last && !batch.edits[packet].is_empty() {
                // The next function reads the packet as this one left it.
                batch.edits[packet].apply_to_headers(&mut batch.headers[packet]);
            }
            return;
        }
        self.end(packet, verdict, batch);
    }

    fn inspect(&mut self, packet: usize, meta: &F::Meta, batch: &mut Batch, port: &dyn Port) -> Verdict {
        let Batch { frames, headers, edits, .. } = batch;
        let frame = &frames[packet];
        let payload = payload(port.bytes(frame), &headers[packet]);
        let mut no_pool = ();
        let events = events_of::<F>(&mut self.events, true);
        let mut cx = Cx::new(frame.stamp, &mut edits[packet], &mut no_pool, events, self.seed);
        self.function.inspect(payload, meta, &mut cx)
    }

    /// Ends the chain for a packet.
    #[cold]
    pub(crate) fn end(&mut self, packet: usize, verdict: Verdict, batch: &mut Batch) {
        let counted = u64::from(batch.is_own(packet));
        let fate = match verdict {
            Verdict::Forward => return,
            Verdict::Drop(reason) => {
                let unnamed = self.drops.len() - 1;
                self.drops[usize::from(reason).min(unnamed)] += counted;
                Fate::DropBy { function: self.index, reason }
            }
            Verdict::TransmitBack => {
                self.transmit_back += counted;
                Fate::TransmitBack
            }
            Verdict::Host => {
                self.host += counted;
                Fate::Host
            }
        };
        batch.end(packet, fate);
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
            flows,
            live: flows.live(),
            capacity: 0,
        }
    }
}

/// Where a step counts: what it counts of history others count, too.
#[inline(always)]
fn events_of<F: NetworkFunction>(events: &mut [u64], is_own: bool) -> &mut [u64] {
    let (own, history) = events.split_at_mut(F::EVENTS.len());
    if is_own { own } else { history }
}

/// What a frame holds after its transport header, without link padding.
fn payload<'a>(frame: &'a [u8], headers: &Headers) -> &'a [u8] {
    let begin = usize::from(headers.payload_offset()).min(frame.len());
    let end = (begin + usize::from(headers.payload_len())).min(frame.len());
    &frame[begin..end]
}

/// A function with its part of the group's blocks.
pub(crate) struct FunctionMember<F: NetworkFunction> {
    runner: Runner<F>,
    part: Part<F::State>,
    flows: FlowCounters,
    /// Sum of a hash of every flow that has left.
    departed: u64,
    /// What waits for a block.
    waiting: Option<Waiting<F::State>>,
    /// Flows that came from another core and are gone already, ahead of their entry's pool.
    gone: Vec<(u16, F::Key, F::State)>,
}

struct Waiting<S> {
    state: S,
    verdict: Verdict,
    edits_before: EditsMark,
}

impl<F: NetworkFunction> FunctionMember<F> {
    pub(crate) fn new(runner: Runner<F>, part: Part<F::State>) -> Self {
        FunctionMember {
            runner,
            part,
            flows: FlowCounters::default(),
            departed: 0,
            waiting: None,
            gone: Vec::new(),
        }
    }

    pub(crate) fn part(&self) -> Part<F::State> {
        self.part
    }

    pub(crate) fn runner(&self) -> &Runner<F> {
        &self.runner
    }

    pub(crate) fn function(&self) -> &F {
        &self.runner.function
    }

    /// One packet of a flow that has a block.
    #[inline(always)]
    fn hit(&mut self, packet: usize, slot: Slot, steps: &mut Steps<'_, F::Key>) {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        let now_ns = steps.batch.frames[packet].stamp.time_ns;
        let mut cell = steps.table.cell_mut(slot, self.part);
        let was_dead = cell.deadline_ns() <= now_ns && cell.state().is_some();
        if was_dead {
            let entry = steps.batch.frames[packet].entry;
            self.expire(Block { slot, entry }, now_ns, steps.table);
            cell = steps.table.cell_mut(slot, self.part);
        }
        let mut flow = cell.state().copied();
        let was_none = flow.is_none();
        let verdict = self.runner.step(&mut flow, &meta, packet, steps.batch);
        match flow {
            Some(state) => {
                self.flows.created += u64::from(was_none);
                let idle_timeout_ns = self.runner.function.idle_timeout_ns(&state);
                cell.set(state, now_ns.saturating_add(idle_timeout_ns));
            }
            None if was_dead => steps.table.has_lost_a_state(slot),
            None if was_none => (),
            None => self.remove(slot, steps.table),
        }
        self.runner.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    /// The steps of an entry and of those alike behind it, all of a flow that has a block.
    fn hit_run(&mut self, packet: usize, slot: Slot, steps: &mut Steps<'_, F::Key>) {
        let mut span = steps.batch.runs.span(packet);
        if span.start == 0 {
            self.hit(packet, slot, steps);
            span.start = 1;
        }
        let first = steps.batch.frames[packet].stamp.seq;
        while span.start < span.end {
            span.start += self.follow(packet, slot, span.clone(), steps);
            if span.start < span.end {
                // A flow that begins, or was dead.
                let time_ns = steps.batch.runs.times_ns(packet, span.start..span.start + 1)[0];
                let stamp = Stamp { seq: first + u64::from(span.start), time_ns };
                let lent = steps.batch.lend(packet, stamp);
                self.hit(packet, slot, steps);
                steps.batch.give_back(packet, lent);
                span.start += 1;
            }
        }
    }

    /// Steps followers as long as the flow lives, with its state at hand; says how many.
    fn follow(&mut self, packet: usize, slot: Slot, span: Range<u16>, steps: &mut Steps<'_, F::Key>) -> u16 {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return span.len() as u16 };
        let entry = steps.batch.frames[packet].stamp;
        let cell = steps.table.cell(slot, self.part);
        let (Some(state), mut deadline_ns) = (cell.state(), cell.deadline_ns()) else { return 0 };
        let mut state = *state;
        let mut done = span.start;
        let mut is_gone = false;
        for time_ns in steps.batch.runs.times_ns(packet, span.clone()) {
            if deadline_ns <= *time_ns {
                break;
            }
            let stamp = Stamp { seq: entry.seq + u64::from(done), time_ns: *time_ns };
            let mut flow = Some(state);
            self.runner.replay(stamp, &mut flow, &meta);
            done += 1;
            let Some(next) = flow else {
                is_gone = true;
                break;
            };
            state = next;
            deadline_ns = time_ns.saturating_add(self.runner.function.idle_timeout_ns(&state));
        }
        steps.table.cell_mut(slot, self.part).set(state, deadline_ns);
        if is_gone {
            self.remove(slot, steps.table);
        }
        done - span.start
    }

    #[inline]
    fn set(&self, cell: &mut Cell<F::State>, state: F::State, now_ns: u64) {
        let idle_timeout_ns = self.runner.function.idle_timeout_ns(&state);
        cell.set(state, now_ns.saturating_add(idle_timeout_ns));
    }

    /// A step has ended the flow.
    #[cold]
    fn remove(&mut self, slot: Slot, table: &mut FlowTable<F::Key>) {
        let deadline_ns = table.cell(slot, self.part).deadline_ns();
        self.departed = self.departed.wrapping_add(table.hash_flow(slot, deadline_ns));
        self.flows.removed += 1;
        table.cell_mut(slot, self.part).clear();
        table.has_lost_a_state(slot);
    }

    /// Takes the flow's state from it, not by a step.
    fn depart(&mut self, slot: Slot, entry: u16, table: &mut FlowTable<F::Key>) {
        let cell = table.cell(slot, self.part);
        let Some(state) = cell.state() else { return };
        let key = table.key(slot);
        let Runner { function, pools, .. } = &mut self.runner;
        match pools.get_mut(entry) {
            Some(pool) => function.gone(key, state, pool),
            None => self.gone.push((entry, *key, *state)),
        }
        let departed = hash_state(&**function, state, table.hash_flow(slot, cell.deadline_ns()));
        self.departed = self.departed.wrapping_add(departed);
        table.cell_mut(slot, self.part).clear();
    }
}

/// A hash of a state in which runs that allocate otherwise agree.
#[inline]
pub(crate) fn hash_state<F: NetworkFunction>(function: &F, state: &F::State, seed: u64) -> u64 {
    match F::ALLOCATES.is_empty() {
        true => hash_bytes(state.as_bytes(), seed),
        false => hash_bytes(function.without_allocation(state).as_bytes(), seed),
    }
}

impl<F: NetworkFunction> Member<F::Key> for FunctionMember<F> {
    fn index(&self) -> usize {
        self.runner.index()
    }

    fn prefetch(&self, packets: u64, steps: &Steps<'_, F::Key>) {
        if !F::PREFETCHES {
            return;
        }
        let Runner { function, pools, .. } = &self.runner;
        for packet in bits(packets & steps.batch.live) {
            let Some(meta) = F::project(&steps.batch.headers[packet]) else { continue };
            let Some(pool) = pools.peek(steps.batch.frames[packet].entry) else { continue };
            let slot = steps.located.slot(packet);
            let cell = slot.is_some().then(|| steps.table.cell(slot, self.part));
            table::prefetch(function.prefetch(cell.and_then(Cell::state), &meta, pool));
        }
    }

    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, F::Key>) {
        if !steps.batch.runs.is_empty() {
            // There is no other function that could have ended the chain for a packet.
            return bits(packets).for_each(|packet| self.hit_run(packet, steps.located.slot(packet), steps));
        }
        for packet in bits(packets & steps.batch.live) {
            self.hit(packet, steps.located.slot(packet), steps);
        }
    }

    fn misses(&mut self, packet: usize, span: Range<u16>, batch: &Batch) -> u16 {
        let Some(meta) = F::project(&batch.headers[packet]) else { return span.len() as u16 };
        let seq = batch.frames[packet].stamp.seq + u64::from(span.start);
        let stamps = (seq..).zip(batch.runs.times_ns(packet, span));
        let leaves_none = |(seq, time_ns): (u64, &u64)| {
            let mut flow = None;
            self.runner.replay(Stamp { seq, time_ns: *time_ns }, &mut flow, &meta);
            flow.is_none()
        };
        // A step that leaves a state changed nothing else: it is done again where there is a block for it.
        stamps.map(leaves_none).take_while(|is_none| *is_none).count() as u16
    }

    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) -> bool {
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return false };
        let edits_before = self.runner.mark(packet, steps.batch);
        let mut flow = None;
        let verdict = self.runner.step(&mut flow, &meta, packet, steps.batch);
        match flow {
            Some(state) => {
                self.waiting = Some(Waiting { state, verdict, edits_before });
                true
            }
            None => {
                self.runner.conclude(packet, verdict, &meta, steps.batch, steps.port);
                false
            }
        }
    }

    fn place(&mut self, packet: usize, steps: &mut Steps<'_, F::Key>) {
        let slot = steps.located.slot(packet);
        let Some(Waiting { state, mut verdict, edits_before }) = self.waiting.take() else { return };
        let Some(meta) = F::project(&steps.batch.headers[packet]) else { return };
        if slot.is_some() {
            let now_ns = steps.batch.frames[packet].stamp.time_ns;
            self.flows.created += 1;
            self.set(steps.table.cell_mut(slot, self.part), state, now_ns);
        } else {
            self.flows.rejected += 1;
            verdict = self.runner.reject(&state, &meta, packet, &edits_before, steps.batch);
        }
        self.runner.conclude(packet, verdict, &meta, steps.batch, steps.port);
    }

    fn leave(&mut self, Block { slot, entry }: Block, now_ns: u64, table: &mut FlowTable<F::Key>) {
        match table.cell(slot, self.part).deadline_ns() {
            0 => return,
            deadline_ns if deadline_ns <= now_ns => self.flows.expired += 1,
            _ => self.flows.evicted += 1,
        }
        self.depart(slot, entry, table);
    }

    #[cold]
    fn expire(&mut self, Block { slot, entry }: Block, now_ns: u64, table: &mut FlowTable<F::Key>) {
        let deadline_ns = table.cell(slot, self.part).deadline_ns();
        if deadline_ns != 0 && deadline_ns <= now_ns {
            self.flows.expired += 1;
            self.depart(slot, entry, table);
        }
    }

    fn moves(&mut self, slot: Slot, way: Way, table: &FlowTable<F::Key>) {
        let states = u64::from(table.cell(slot, self.part).state().is_some());
        match way {
            Way::In => self.flows.moved_in += states,
            Way::Out => self.flows.moved_out += states,
        }
    }

    fn lose(&mut self, parcel: &Parcel<F::Key>, index: usize, entry: u16, table: &FlowTable<F::Key>) {
        let (key, cell) = table.packed(parcel, index, self.part);
        let Some(state) = cell.state() else { return };
        self.flows.moved_in += 1;
        self.flows.evicted += 1;
        let Runner { function, pools, .. } = &mut self.runner;
        match pools.get_mut(entry) {
            Some(pool) => function.gone(key, state, pool),
            None => self.gone.push((entry, *key, *state)),
        }
    }

    fn take_pool(&mut self, entry: u16) -> Option<Pool> {
        self.runner.pools.take(entry).map(|pool| Pool(Box::new(pool)))
    }

    fn put_pool(&mut self, entry: u16, pool: Pool) {
        self.runner.put_pool(entry, pool);
        let Runner { function, pools, .. } = &mut self.runner;
        for (_, key, state) in self.gone.extract_if(.., |(of, ..)| *of == entry) {
            function.gone(&key, &state, pools.of(entry));
        }
    }

    fn swap_pool(&mut self, pool: &mut Option<Pool>) {
        if let Some(pool) = pool.as_mut().and_then(|Pool(pool)| pool.downcast_mut()) {
            mem::swap(pool, self.runner.pools.of(0));
        }
    }

    fn live(&self, table: &FlowTable<F::Key>) -> usize {
        table.live(self.part, 0).count()
    }

    fn digest(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        let function = &*self.runner.function;
        table
            .live(self.part, now.time_ns)
            .map(|flow| hash_state(function, flow.state, hash_bytes(flow.key.as_bytes(), 0)))
            .fold(0, u64::wrapping_add)
    }

    fn audit(&self, table: &FlowTable<F::Key>, now: Stamp) -> u64 {
        let alive = table.live(self.part, now.time_ns);
        let deadlines = alive.map(|flow| table.hash_flow(flow.slot, flow.deadline_ns));
        deadlines.fold(self.departed, u64::wrapping_add)
    }

    fn counters(&self) -> StageCounters<'_> {
        self.runner.counters(self.flows)
    }

    fn copy_from(&mut self, other: &dyn Member<F::Key>) {
        let other = other.as_any().downcast_ref::<Self>().expect("the same function");
        self.runner.copy_from(&other.runner);
        // Each replica counts all flows, and its own packets alone.
        (self.flows, self.departed) = (other.flows, other.departed);
        self.gone.clone_from(&other.gone);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
