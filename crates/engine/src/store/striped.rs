//! One table for all cores, in stripes: where packets are sprayed over the cores (strategy `shared`).
//!
//! ```text
//!  core 0: counters, batch     core 1: counters, batch
//!       │ packet by packet          │
//!       ▼                           ▼
//!  | lock, table | lock, table | ... | lock, table |      stripes: eight bits of the key's hash pick one
//! ```
//!
//! A packet is stepped through all functions of a group while its stripe is locked, exactly as a core steps a
//! packet of its own table (`slow_path.rs`). What functions count stays with the core: the lock is of flows alone.
//!
//! **Time.** Cores are not in step. A flow is stepped as of the latest time that it has seen, so time never runs
//! back for it; not as of the stripe's latest, or a policer would let pass what the time of other flows has
//! filled up. It is forgotten only when every core's clock is past that time: a core that lags must not find
//! a fresh flow in a past that is spent.

use std::any::Any;
use std::mem;
use std::sync::Arc;

use crossbeam_utils::{Backoff, CachePadded};
use io::Port;
use nf::{FlowKey, Hasher, NetworkFunction, hash_bytes};
use spin::mutex::SpinMutex;
use spin::mutex::spin::SpinMutexGuard;
use table::{Ahead, FlowTable, Layout, MAX_FLOWS, OutOfMemory, Part, Watermark, WhenFull};
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::StageCounters;
use crate::path::group::Group;
use crate::path::laps::{Lap, Laps};
use crate::path::look::Look;
use crate::path::packets::bits;
use crate::path::parcel::Pool;
use crate::path::portion::{Place, Portion};
use crate::path::turned_away::{Notes, Noting};
use crate::store::clocks::Clocks;
use crate::store::function::FunctionMember;
use crate::store::member::{Block, Located, Member};
use crate::store::shared_states::weigh;
use crate::store::slow_path::{Clock, SlowPath};
use crate::store::watched_member::WatchedMember;

/// The most stripes of a table: enough that two of any sensible number of cores seldom want the same.
const STRIPES_MAX: usize = 256;

/// Fewer stripes where they would be for fewer flows than this.
const STRIPE_FLOWS_MIN: usize = 64;

/// The lowest of the hash's bits that pick the stripe: above it are the tag's, and below it are the bucket's,
/// as many as the largest stripe has.
const STRIPE_SHIFT: u32 = 16;

/// A group's flows, for all cores.
pub(crate) struct Stripes<K> {
    stripes: Box<[CachePadded<SpinMutex<Stripe<K>>>]>,
    /// By stripe, outside of the lock.
    ahead: Box<[Ahead]>,
    hasher: Hasher,
    latest: Part<()>,
    /// Each core's time: none of its later packets are before it.
    clocks: Clocks,
}

struct Stripe<K> {
    table: FlowTable<K>,
    /// The pool of the one function whose flows meet in one; then there is one stripe.
    pool: Option<Pool>,
}

/// How many stripes a table for `flows` flows has, and how many flows each holds: with so much to spare that
/// it is hardly ever one stripe that is full first.
pub(crate) fn division(flows: usize, in_order: bool) -> (usize, usize) {
    let stripes = match in_order {
        true => 1,
        false => (flows / STRIPE_FLOWS_MIN).clamp(1, STRIPES_MAX),
    };
    if stripes == 1 {
        return (1, flows);
    }
    let stripes = 1 << stripes.ilog2();
    let mean = flows.div_ceil(stripes);
    // Flows fall into stripes as balls into bins: the deviation of one is less than the root of the mean, and
    // seven deviations are not seen.
    let spare = 7 * mean.isqrt() + 8;
    (stripes, (mean + spare).min(flows).min(MAX_FLOWS))
}

impl<K: FlowKey> Stripes<K> {
    /// `pool`: of the function that steps in order, if it is such a one.
    fn new(
        layout: &Layout,
        latest: Part<()>,
        shape: &TableShape,
        cores: usize,
        mut pool: Option<Pool>,
    ) -> Result<Self, OutOfMemory> {
        let TableShape { flows, when_full, seed } = *shape;
        let (stripes, capacity) = division(flows, pool.is_some());
        let tables = (0..stripes).map(|_| FlowTable::new(layout, capacity, when_full, seed));
        let tables: Vec<FlowTable<K>> = tables.collect::<Result<_, _>>()?;
        let ahead = tables.iter().map(FlowTable::ahead).collect();
        let stripe = |table| CachePadded::new(SpinMutex::new(Stripe { table, pool: pool.take() }));
        Ok(Stripes {
            stripes: tables.into_iter().map(stripe).collect(),
            ahead,
            hasher: Hasher::new(seed),
            latest,
            clocks: Clocks::new(cores),
        })
    }

    #[inline]
    fn of(&self, hash: u32) -> usize {
        (hash >> STRIPE_SHIFT) as usize & (self.stripes.len() - 1)
    }

    #[inline]
    fn lock(&self, stripe: usize) -> SpinMutexGuard<'_, Stripe<K>> {
        lock(&self.stripes[stripe])
    }

    /// Steps one packet of a locked stripe through all functions, as of the latest time that its flow has seen.
    #[inline]
    fn step(
        &self,
        packet: usize,
        table: &mut FlowTable<K>,
        members: &mut [Box<dyn Member<K>>],
        located: &mut Located,
        batch: &mut Batch,
        (port, noting): (&dyn Port, Option<&Noting>),
    ) {
        let Self { latest, clocks, .. } = self;
        let (hash, short) = (located.wanted[packet].hash(), located.wanted[packet].short());
        let slot = table.find(hash, short, || K::of(&batch.headers[packet]));
        located.slots[packet] = slot;
        let own_ns = batch.frames[packet].stamp.time_ns;
        let now_ns = match slot.is_some() {
            true => own_ns.max(table.cell(slot, *latest).deadline_ns()),
            false => own_ns,
        };
        // The functions see no other stamp, and the packet gets its own back.
        batch.frames[packet].stamp.time_ns = now_ns;
        let clock = Some(Clock { latest: *latest, clocks });
        SlowPath { batch, table, members, located, entries: &mut [], port, clock, noting }.one(packet);
        batch.frames[packet].stamp.time_ns = own_ns;
        let slot = located.slot(packet);
        if slot.is_some() {
            table.cell_mut(slot, *latest).set((), now_ns);
        }
        if table.count_steps(1) {
            let watermark = clocks.watermark();
            table.maintain(watermark, |table, slot| expire(members, *latest, slot, watermark, table));
        }
    }

    fn capacity(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).table.capacity()).sum()
    }

    /// One number of each stripe's table, added up.
    fn sum(&self, of: impl Fn(&FlowTable<K>) -> u64) -> u64 {
        self.stripes.iter().map(|stripe| of(&lock(stripe).table)).fold(0, u64::wrapping_add)
    }
}

/// Waits by spinning, as SCR's baseline does, and soon by giving the processor away: with more cores than
/// processors the one that has the lock may not be running. To leave such a lock is a plain store; one that
/// others may sleep on takes a second locked instruction, half of what it costs (`bench/examples/locks.rs`).
#[inline]
fn lock<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| wait(mutex))
}

#[cold]
fn wait<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    let backoff = Backoff::new();
    loop {
        backoff.snooze();
        // Looking does not take the line from the core that has it.
        if !mutex.is_locked()
            && let Some(guard) = mutex.try_lock()
        {
            return guard;
        }
    }
}

/// Neighbours in a chain that have one key, on one of the cores that share their flows.
pub(crate) struct StripedGroup<K> {
    stripes: Arc<Stripes<K>>,
    members: Vec<Box<dyn Member<K>>>,
    located: Box<Located>,
    /// This core's number; core 0 speaks for the flows.
    core: usize,
    in_order: bool,
    /// Where what the table turns away is to be noted.
    noting: Option<Box<Noting>>,
}

impl<K: FlowKey> StripedGroup<K> {
    /// The live flows of member number `member`, which is an `F`.
    pub(crate) fn flows<F: NetworkFunction<Key = K>>(&self, member: usize, now: Stamp) -> Vec<(K, F::State)> {
        let Some(part) = self.function::<F>(member).map(FunctionMember::part) else { return Vec::new() };
        let mut flows = Vec::new();
        for stripe in &self.stripes.stripes {
            let stripe = lock(stripe);
            flows.extend(stripe.table.live(part, now.time_ns).map(|flow| (*flow.key, *flow.state)));
        }
        flows
    }

    /// What all records of member number `member`, which is an `F`, add up, without those that cores saw go:
    /// see [`weigh`].
    pub(crate) fn totals<F: NetworkFunction<Key = K>>(&self, member: usize) -> u64 {
        let Some(function) = self.function::<F>(member) else { return 0 };
        let of = |flow: table::Flow<'_, K, F::State>| {
            weigh(
                hash_bytes(flow.key.as_bytes(), 0),
                (F::EXTRAS.records.totals)(function.function(), flow.state),
            )
        };
        let part = function.part();
        self.stripes.sum(|table| table.live(part, 0).map(of).fold(0, u64::wrapping_add))
    }

    /// Member number `member`, if it is an `M`.
    pub(crate) fn member<M: 'static>(&self, member: usize) -> Option<&M> {
        (&*self.members[member] as &dyn Any).downcast_ref()
    }

    pub(crate) fn function<F: NetworkFunction<Key = K>>(&self, member: usize) -> Option<&FunctionMember<F>> {
        self.member(member).or_else(|| self.member::<WatchedMember<F>>(member).map(WatchedMember::inner))
    }

    /// Finds the keys, asks for the locks and the buckets.
    fn hash(&mut self, packets: u64, batch: &Batch) {
        let Self { stripes, located, .. } = self;
        located.find_keys::<K>(packets, batch, |short, headers| {
            let hash = table::hash(&stripes.hasher, short, || K::of(headers));
            let stripe = stripes.of(hash);
            table::prefetch((&raw const stripes.stripes[stripe]).cast());
            stripes.ahead[stripe].prefetch_bucket(hash);
            hash
        });
    }

    /// Each packet while its stripe is locked.
    fn stripe_by_stripe(&mut self, packets: u64, batch: &mut Batch, port: &dyn Port) {
        let Self { stripes, members, located, noting, .. } = self;
        for packet in bits(packets) {
            let mut stripe = stripes.lock(stripes.of(located.wanted[packet].hash()));
            stripes.step(packet, &mut stripe.table, members, located, batch, (port, noting.as_deref()));
        }
    }

    /// All packets while the one stripe is locked: flows meet in the pool, which a step finds in the function.
    fn in_order(&mut self, packets: u64, batch: &mut Batch, port: &dyn Port) {
        let Self { stripes, members, located, noting, .. } = self;
        let out = (port, noting.as_deref());
        let Stripe { table, pool } = &mut *stripes.lock(0);
        members.iter_mut().for_each(|member| member.swap_pool(pool));
        bits(packets).for_each(|packet| stripes.step(packet, table, members, located, batch, out));
        members.iter_mut().for_each(|member| member.swap_pool(pool));
    }
}

/// Lets a block's states go that are dead as of the watermark.
fn expire<K: FlowKey>(
    members: &mut [Box<dyn Member<K>>],
    latest: Part<()>,
    slot: table::Slot,
    watermark: Watermark,
    table: &mut FlowTable<K>,
) {
    let block = Block { slot, entry: 0 };
    members.iter_mut().for_each(|member| member.expire(block, watermark, table));
    let cell = table.cell_mut(slot, latest);
    if watermark.is_past(cell.deadline_ns()) {
        cell.clear();
    }
}

impl<K: FlowKey> Group for StripedGroup<K> {
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let packets = batch.live;
        if packets == 0 {
            return;
        }
        let first = batch.frames[packets.trailing_zeros() as usize].stamp;
        self.stripes.clocks.tick(self.core, batch.watermark(first.time_ns));
        self.hash(packets, batch);
        laps.lap(Lap::Locate, batch);
        match self.in_order {
            true => self.in_order(packets, batch, port),
            false => self.stripe_by_stripe(packets, batch, port),
        }
        laps.lap(Lap::OneByOne, batch);
    }

    /// Core 0 does it for all.
    fn settle(&mut self, end: Watermark) {
        let Self { stripes, members, core, .. } = self;
        stripes.clocks.tick(*core, end);
        if *core > 0 {
            return;
        }
        let latest = stripes.latest;
        for stripe in &stripes.stripes {
            let Stripe { table, pool } = &mut *lock(stripe);
            members.iter_mut().for_each(|member| member.swap_pool(pool));
            table.settle(end, |table, slot| expire(members, latest, slot, end, table));
            members.iter_mut().for_each(|member| member.swap_pool(pool));
        }
    }

    fn digest(&self, member: usize, now: Stamp) -> u64 {
        match self.core {
            0 => self.stripes.sum(|table| self.members[member].digest(table, now)),
            _ => 0,
        }
    }

    /// When flows die is not promised.
    fn audit(&self, _: usize, _: Stamp) -> u64 {
        0
    }

    fn look(&self, member: usize, headers: &Headers, now_ns: u64) -> Look {
        let key = K::of(headers);
        let hash = table::hash(&self.stripes.hasher, key.short(), || key);
        let stripe = self.stripes.lock(self.stripes.of(hash));
        let slot = stripe.table.find(hash, key.short(), || key);
        self.members[member].look(headers, slot, &stripe.table, now_ns)
    }

    /// Core 0 has them all. A stripe is locked for one portion of it.
    fn list(&self, member: usize, from: Place, portion: &mut Portion) -> Option<Place> {
        let Place { table: number, block } = from;
        let stripe = self.stripes.stripes.get(number as usize).filter(|_| self.core == 0)?;
        let next = self.members[member].list(block, &lock(stripe).table, portion);
        let is_last = number as usize + 1 == self.stripes.stripes.len();
        let other = || (!is_last).then_some(Place { table: number + 1, block: 0 });
        next.map(|block| Place { table: number, block }).or_else(other)
    }

    fn rules(&self, member: usize) -> &[u64] {
        self.members[member].counters().rules
    }

    fn remove(&mut self, member: usize, key: &[u8]) -> bool {
        let Ok(of) = K::read_from_bytes(key) else { return false };
        let Self { stripes, members, .. } = self;
        let hash = table::hash(&stripes.hasher, of.short(), || of);
        let Stripe { table, pool } = &mut *stripes.lock(stripes.of(hash));
        let slot = table.find(hash, of.short(), || of);
        let member = &mut members[member];
        member.swap_pool(pool);
        let is_removed = member.remove(key, Block { slot, entry: 0 }, table);
        member.swap_pool(pool);
        is_removed
    }

    fn counters(&self, member: usize) -> StageCounters<'_> {
        let member = &self.members[member];
        let live = match self.core {
            0 => self.stripes.sum(|table| member.live(table) as u64) as usize,
            _ => 0,
        };
        StageCounters { live, capacity: self.stripes.capacity(), ..member.counters() }
    }

    fn note(&mut self, notes: &Arc<Notes>, own: Option<usize>) {
        self.noting = own.map(|function| Box::new(Noting::of(notes, function, true)));
    }

    fn take_over(&mut self, other: &mut dyn Group) {
        let other = (other as &mut dyn Any).downcast_mut::<Self>().expect("the same functions");
        // The pool that all cores share is with the stripe; the first core says which of the two goes on.
        if self.core == 0 && self.in_order && !self.members[0].keeps_pool(&*other.members[0]) {
            mem::swap(&mut self.stripes.lock(0).pool, &mut other.stripes.lock(0).pool);
        }
        mem::swap(&mut self.stripes, &mut other.stripes);
        for (member, other) in self.members.iter_mut().zip(&mut other.members) {
            member.take_over(&mut **other);
        }
    }
}

/// What a group of functions is made from, for all cores at once.
pub struct StripedBuilder(Box<dyn Unbuilt>);

/// How large a table is, what it does when it is full, and the seed of its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableShape {
    pub(crate) flows: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) seed: u64,
}

pub(crate) struct KeyedBuilder<K> {
    pub(crate) layout: Layout,
    /// By core.
    pub(crate) members: Vec<Vec<Box<dyn Member<K>>>>,
    pub(crate) pool: Option<Pool>,
}

/// Erases the type of the key.
trait Unbuilt: Any {
    fn build(self: Box<Self>, shape: &TableShape) -> Result<Vec<Box<dyn Group>>, OutOfMemory>;
}

impl StripedBuilder {
    /// Puts a function behind those of `group`, whose key is `K`: `add` makes its member for each core.
    pub(crate) fn with_members<K: FlowKey>(
        group: Option<Self>,
        cores: usize,
        add: impl FnOnce(&mut KeyedBuilder<K>),
    ) -> Self {
        let new = || {
            let members = (0..cores).map(|_| Vec::new()).collect();
            StripedBuilder(Box::new(KeyedBuilder::<K> { layout: Layout::new(), members, pool: None }))
        };
        let mut group = group.unwrap_or_else(new);
        let builder = (&mut *group.0 as &mut dyn Any).downcast_mut().expect("a group of this key");
        add(builder);
        group
    }

    /// The group on each core, with one table.
    pub(crate) fn build(self, shape: &TableShape) -> Result<Vec<Box<dyn Group>>, OutOfMemory> {
        self.0.build(shape)
    }
}

impl<K: FlowKey> Unbuilt for KeyedBuilder<K> {
    fn build(self: Box<Self>, shape: &TableShape) -> Result<Vec<Box<dyn Group>>, OutOfMemory> {
        let KeyedBuilder { mut layout, members, pool } = *self;
        let latest = layout.add();
        let in_order = pool.is_some();
        let stripes = Arc::new(Stripes::<K>::new(&layout, latest, shape, members.len(), pool)?);
        let group = |(core, members)| -> Box<dyn Group> {
            let stripes = Arc::clone(&stripes);
            Box::new(StripedGroup { stripes, members, located: Located::new(), core, in_order, noting: None })
        };
        Ok(members.into_iter().enumerate().map(group).collect())
    }
}
