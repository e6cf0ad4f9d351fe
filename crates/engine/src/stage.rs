use std::any::Any;
use std::sync::Arc;

use io::Fate;
use nf::{Cx, NetworkFunction, Verdict, hash_bytes};
use table::{Counters, FlowTable, Insert, OutOfMemory, WhenFull};
use wire::Stamp;

use crate::{BATCH_PACKETS, Batch};

/// One function of a chain on one core, with its table: one virtual call per batch.
pub trait Stage: Send {
    /// Takes every live packet of the batch through the function, in order.
    fn process(&mut self, batch: &mut Batch);

    /// Lets every flow go whose deadline has passed by `now`; for the end of a run.
    fn settle(&mut self, now: Stamp);

    /// Hash of all flows alive at `now`: [`FlowTable::digest`].
    fn digest(&self, now: Stamp) -> u64;

    /// Hash of what the digest leaves out: [`FlowTable::audit`]. Comparable once settled.
    fn audit(&self, now: Stamp) -> u64;

    /// What happened so far.
    fn counters(&self) -> StageCounters<'_>;

    /// For [`Function::report`](crate::Function::report), which knows the type.
    fn as_any(&self) -> &dyn Any;
}

/// What a stage counted.
#[derive(Clone, Copy, Debug)]
pub struct StageCounters<'a> {
    /// Packets that the function took as its business.
    pub packets: u64,
    /// Of these: forwarded.
    pub forward: u64,
    /// Of these: sent back.
    pub transmit_back: u64,
    /// Of these: passed to the host.
    pub host: u64,
    /// Of these: dropped, by index of the function's drop reasons; the last entry is for indices
    /// that the function does not name.
    pub drops: &'a [u64],
    /// By index of the function's events.
    pub events: &'a [u64],
    /// Flows that came and went.
    pub flows: Counters,
    /// Flows with a block now.
    pub live: usize,
    /// Flows that the table can hold.
    pub capacity: usize,
}

/// What a stage is made from.
#[derive(Clone, Copy, Debug)]
pub struct StageSpec {
    /// Index in the chain.
    pub index: u8,
    /// Flows that the table holds.
    pub flows: usize,
    /// What happens when there are more.
    pub when_full: WhenFull,
    /// The chain's seed, for what functions draw.
    pub seed: u64,
    /// Seed of the table's hashes. Nothing that comes out depends on it while no table is full.
    pub table_seed: u64,
}

pub(crate) struct FunctionStage<F: NetworkFunction> {
    function: Arc<F>,
    table: FlowTable<F::Key, F::State>,
    pool: F::Pool,
    index: u8,
    seed: u64,
    events: Box<[u64]>,
    drops: Box<[u64]>,
    packets: u64,
    forward: u64,
    transmit_back: u64,
    host: u64,
    /// The function's share of the batch at hand.
    steps: Vec<Step<F>>,
}

/// One packet's step: what is known before the flow's state is.
struct Step<F: NetworkFunction> {
    meta: F::Meta,
    key: F::Key,
    hash: u32,
    /// Index in the batch.
    packet: usize,
}

impl<F: NetworkFunction> FunctionStage<F> {
    pub(crate) fn new(function: Arc<F>, spec: StageSpec) -> Result<Self, OutOfMemory> {
        let StageSpec { index, flows, when_full, seed, table_seed } = spec;
        // Functions of one chain draw different numbers for the same packet.
        let seed = hash_bytes(&[index], seed);
        Ok(FunctionStage {
            pool: function.pool(),
            table: FlowTable::new(flows, when_full, table_seed)?,
            function,
            index,
            seed,
            events: vec![0; F::EVENTS.len()].into(),
            drops: vec![0; F::DROP_REASONS.len() + 1].into(),
            packets: 0,
            forward: 0,
            transmit_back: 0,
            host: 0,
            steps: Vec::with_capacity(BATCH_PACKETS),
        })
    }

    pub(crate) fn flows(&self, now: Stamp) -> impl Iterator<Item = (&F::Key, &F::State)> {
        self.table.live(now.time_ns)
    }

    /// Reads the fields, finds the keys, asks for the buckets.
    #[inline]
    fn project(&mut self, batch: &Batch) {
        self.steps.clear();
        for packet in batch.live() {
            let Some(meta) = F::project(&batch.headers[packet]) else { continue };
            let key = F::key(&meta);
            let hash = self.table.hash(&key);
            self.table.prefetch_bucket(hash);
            self.steps.push(Step { meta, key, hash, packet });
        }
    }

    /// One packet, with everything it needs on its way into the cache.
    #[inline]
    fn step(&mut self, number: usize, batch: &mut Batch) -> Verdict {
        let Self { function, table, pool, events, .. } = self;
        let Step { meta, key, hash, packet } = &self.steps[number];
        let stamp = batch.frames[*packet].stamp;
        let now_ns = stamp.time_ns;
        let mut gone = |key: &F::Key, state: &F::State| function.gone(key, state, pool);
        table.sweep(now_ns, &mut gone);
        let slot = match table.find(*hash, key) {
            Some(dead) if table.is_dead(dead, now_ns) => {
                table.expire(dead, &mut gone);
                None
            }
            found => found,
        };
        let deadline_ns = |state: &F::State| now_ns.saturating_add(function.idle_timeout_ns(state));
        if let Some(slot) = slot {
            let flow = table.state_mut(slot);
            let mut cx = Cx::new(stamp, &mut batch.edits[*packet], pool, events, self.seed);
            let verdict = function.step(flow, meta, &mut cx);
            match flow.as_ref().map(deadline_ns) {
                Some(deadline_ns) => table.set_deadline(slot, deadline_ns),
                None => table.remove(slot),
            }
            return verdict;
        }
        let mut flow = None;
        let edits_before = batch.edits[*packet];
        let mut cx = Cx::new(stamp, &mut batch.edits[*packet], pool, events, self.seed);
        let verdict = function.step(&mut flow, meta, &mut cx);
        let Some(state) = flow else { return verdict };
        let mut gone = |key: &F::Key, state: &F::State| function.gone(key, state, pool);
        match table.insert(*hash, key, state, deadline_ns(&state), now_ns, &mut gone) {
            Insert::Done => verdict,
            Insert::Full => {
                // The step did not happen: neither its state nor its edits stay.
                batch.edits[*packet] = edits_before;
                let mut cx = Cx::new(stamp, &mut batch.edits[*packet], pool, events, self.seed);
                function.rejected(&state, meta, &mut cx)
            }
        }
    }

    #[inline]
    fn conclude(&mut self, packet: usize, verdict: Verdict, batch: &mut Batch) {
        match verdict {
            Verdict::Forward => {
                self.forward += 1;
                if !batch.edits[packet].is_empty() {
                    // The next function reads the packet as this one left it.
                    batch.edits[packet].apply_to_headers(&mut batch.headers[packet]);
                }
            }
            Verdict::Drop(reason) => {
                let unnamed = self.drops.len() - 1;
                self.drops[usize::from(reason).min(unnamed)] += 1;
                batch.end(packet, Fate::DropBy { function: self.index, reason });
            }
            Verdict::TransmitBack => {
                self.transmit_back += 1;
                batch.end(packet, Fate::TransmitBack);
            }
            Verdict::Host => {
                self.host += 1;
                batch.end(packet, Fate::Host);
            }
        }
    }
}

impl<F: NetworkFunction> Stage for FunctionStage<F> {
    fn process(&mut self, batch: &mut Batch) {
        self.project(batch);
        for step in &self.steps {
            self.table.prefetch_block(step.hash);
        }
        for number in 0..self.steps.len() {
            let packet = self.steps[number].packet;
            let edited = batch.edits[packet].fields();
            let verdict = self.step(number, batch);
            debug_assert!(
                (F::EDITS | edited).contains(batch.edits[packet].fields()),
                "`{}` edits fields that its EDITS does not name, on which sharding relies",
                F::NAME
            );
            self.conclude(packet, verdict, batch);
        }
        self.packets += self.steps.len() as u64;
    }

    fn settle(&mut self, now: Stamp) {
        let Self { function, table, pool, .. } = self;
        table.settle(now.time_ns, &mut |key, state| function.gone(key, state, pool));
    }

    fn digest(&self, now: Stamp) -> u64 {
        self.table.digest(now.time_ns)
    }

    fn audit(&self, now: Stamp) -> u64 {
        self.table.audit(now.time_ns)
    }

    fn counters(&self) -> StageCounters<'_> {
        StageCounters {
            packets: self.packets,
            forward: self.forward,
            transmit_back: self.transmit_back,
            host: self.host,
            drops: &self.drops,
            events: &self.events,
            flows: self.table.counters(),
            live: self.table.len(),
            capacity: self.table.capacity(),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
