//! States that all cores share, for a function whose key is coarser than what picks the core.
//!
//! ```text
//!  core 0: table by 5-tuple   core 1: table by 5-tuple       directory (one lock): key -> number, references
//!     block: | .. | number |     block: | .. | number |       searched when a 5-tuple comes or goes
//!                      │                          │
//!                      └───────────┐  ┌───────────┘
//!                                  ▼  ▼
//!                states, by number: | lock, state, deadline, latest |   each on cache lines of its own
//! ```
//!
//! The auxiliary tables and their references are FAJITA's (CoNEXT'24, §3 ③ and §3.1 ③): `shared_member.rs`.
//!
//! **Time.** Cores are not in step. A state's step is as of the latest time that the state has seen, so time
//! never runs back for it. A state is forgotten when no 5-tuple refers to it, it is dead, and every core's
//! clock is past its end: a core that lags must not find a fresh state in a past that is spent.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use nf::{EndedOf, FlowKey, NetworkFunction, WhenShared, began_anew, hash_bytes};
use table::{FlowTable, Layout, OutOfMemory, Part, Slot, Watermark, WhenFull};
use wire::Stamp;

use crate::path::counters::FlowCounters;
use crate::path::portion::{Found, Portion};
use crate::path::step::{note_ended, room_for_ended};
use crate::store::clocks::Clocks;
use crate::store::listed::portion_of;

/// A function's states, one for all cores of a run.
pub(crate) struct SharedStates<F: NetworkFunction> {
    function: Arc<F>,
    directory: Mutex<Directory<F::Key>>,
    entries: Box<[Padded<F>]>,
    /// Each core's time: none of its later packets are before it.
    clocks: Clocks,
    counts: Counts,
    /// [`weigh`] of what every record that is gone added up, summed.
    departed: AtomicU64,
    /// The records that have ended, if the function reports them.
    ended: Mutex<Option<Box<EndedOf<F>>>>,
}

/// Finds a state by its key.
struct Directory<K> {
    table: FlowTable<K>,
    /// How many 5-tuples, over all cores, refer to the state. The part's deadline is never while there are
    /// some, then when the state may be forgotten.
    references: Part<u32>,
}

/// On cache lines of its own: a core that steps one state does not slow down another that steps the next.
type Padded<F> = CachePadded<Mutex<Entry<<F as NetworkFunction>::Key, <F as NetworkFunction>::State>>>;

struct Entry<K, S> {
    /// The key of the state; `None` before the first one.
    key: Option<K>,
    state: Option<S>,
    /// When the state dies if nothing steps it.
    deadline_ns: u64,
    /// The latest time that a step has seen.
    latest_ns: u64,
}

/// Flows that came and went. Cores change them seldom: when a flow does.
#[derive(Default)]
struct Counts {
    created: AtomicU64,
    removed: AtomicU64,
    expired: AtomicU64,
    evicted: AtomicU64,
    rejected: AtomicU64,
}

impl<F: NetworkFunction> SharedStates<F> {
    const ADDS_UP: bool = matches!(F::EXTRAS.guarantees.when_shared, Some(WhenShared::Totals));

    pub(crate) fn new(
        function: Arc<F>,
        capacity: usize,
        cores: usize,
        table_seed: u64,
    ) -> Result<Self, OutOfMemory> {
        let mut layout = Layout::new();
        let references = layout.add::<u32>();
        let bytes = Self::bytes(capacity);
        let mut entries = Vec::new();
        entries.try_reserve_exact(capacity).map_err(|_| OutOfMemory { bytes })?;
        entries.resize_with(capacity, || CachePadded::new(Mutex::new(Entry::NEW)));
        let table = FlowTable::new(&layout, capacity, WhenFull::Reject, table_seed)?;
        let ended = Mutex::new(room_for_ended(&*function));
        Ok(SharedStates {
            function,
            directory: Mutex::new(Directory { table, references }),
            entries: entries.into(),
            clocks: Clocks::new(cores),
            counts: Counts::default(),
            departed: AtomicU64::new(0),
            ended,
        })
    }

    /// What it takes.
    pub(crate) fn bytes(capacity: usize) -> u64 {
        let mut layout = Layout::new();
        layout.add::<u32>();
        let entry = size_of::<Padded<F>>();
        FlowTable::<F::Key>::bytes(&layout, capacity) + (capacity * entry) as u64
    }

    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// See [`Clocks::tick`].
    #[inline]
    pub(crate) fn tick(&self, core: usize, watermark: Watermark) {
        self.clocks.tick(core, watermark);
    }

    /// Finds or makes room for the state of `key`, and counts one more reference to it; `None` if there
    /// is no room.
    pub(crate) fn refer(&self, key: &F::Key, now_ns: u64) -> Option<Slot> {
        let mut directory = lock(&self.directory);
        let Directory { table, references } = &mut *directory;
        let references = *references;
        let short = key.short();
        let hash = table.hash(short, || *key);
        let mut slot = table.find(hash, short, || *key);
        if !slot.is_some() {
            if table.free() == 0 {
                // What is dead by this core's clock alone is counted as evicted: another may still need it.
                let watermark = self.clocks.watermark();
                table.make_room(watermark, now_ns, |table, slot| {
                    self.forget(table, references, slot, watermark)
                });
            }
            slot = table.insert(hash, short, key);
            if !slot.is_some() {
                return None;
            }
            *self.entry(slot) = Entry { key: Some(*key), ..Entry::NEW };
        }
        let cell = table.cell_mut(slot, references);
        let count = cell.state().copied().unwrap_or(0);
        cell.set(count + 1, u64::MAX);
        if table.count_steps(1) {
            let watermark = self.clocks.watermark();
            table.maintain(watermark, |table, slot| self.forget(table, references, slot, watermark));
        }
        Some(slot)
    }

    /// The state of `key`, if there is one, and when it dies.
    pub(crate) fn peek(&self, key: &F::Key) -> Option<(F::State, u64)> {
        let directory = lock(&self.directory);
        let short = key.short();
        let slot = directory.table.find(directory.table.hash(short, || *key), short, || *key);
        let entry = slot.is_some().then(|| self.entry(slot))?;
        Some((entry.state?, entry.deadline_ns))
    }

    /// One reference less.
    pub(crate) fn release(&self, slot: Slot) {
        let mut directory = lock(&self.directory);
        let Directory { table, references } = &mut *directory;
        let cell = table.cell_mut(slot, *references);
        let count = cell.state().copied().unwrap_or(0);
        debug_assert!(count > 0, "released more often than referred to");
        match count.saturating_sub(1) {
            0 => cell.set(0, self.entry(slot).over_ns()),
            count => cell.set(count, u64::MAX),
        }
    }

    /// One step of a state that is referred to: `act` gets the state and the stamp to step it with. Returns
    /// also when the state dies; 0 if there is none.
    #[inline]
    pub(crate) fn step<R>(
        &self,
        slot: Slot,
        stamp: Stamp,
        act: impl FnOnce(&mut Option<F::State>, Stamp) -> R,
    ) -> (R, u64) {
        let mut entry = self.entry(slot);
        let now_ns = stamp.time_ns.max(entry.latest_ns);
        entry.latest_ns = now_ns;
        if entry.deadline_ns <= now_ns {
            self.end(&mut entry, &self.counts.expired);
        }
        let before = entry.state;
        let result = act(&mut entry.state, Stamp { time_ns: now_ns, ..stamp });
        match (&before, &entry.state) {
            (None, Some(_)) => add(&self.counts.created, 1),
            (Some(before), None) => {
                add(&self.counts.removed, 1);
                self.depart(entry.key_hash(), before);
            }
            (Some(before), Some(after))
                if Self::ADDS_UP && began_anew(self.totals_of(before), self.totals_of(after)) =>
            {
                self.depart(entry.key_hash(), before);
                if F::EXTRAS.records.begin_anew {
                    self.note_ended(&entry, before);
                }
            }
            _ => (),
        }
        let idle_ns = entry.state.as_ref().map(|state| self.function.idle_timeout_ns(state));
        entry.deadline_ns = idle_ns.map_or(0, |idle_ns| now_ns.saturating_add(idle_ns).max(1));
        (result, entry.deadline_ns)
    }

    /// Where the state lies, to be fetched ahead.
    #[inline]
    pub(crate) fn address(&self, slot: Slot) -> *const u8 {
        (&raw const self.entries[slot.index()]).cast()
    }

    /// A state could not be kept.
    pub(crate) fn reject(&self) {
        add(&self.counts.rejected, 1);
    }

    /// The end of a run: lets every dead state go that is not referred to.
    pub(crate) fn settle(&self, end: Watermark) {
        for entry in &self.entries {
            let mut entry = lock(entry);
            if end.is_past(entry.deadline_ns) {
                self.end(&mut entry, &self.counts.expired);
            }
        }
        let mut directory = lock(&self.directory);
        let Directory { table, references } = &mut *directory;
        let references = *references;
        table.settle(end, |table, slot| table.cell_mut(slot, references).clear());
    }

    /// The states alive at `now`. O(capacity).
    pub(crate) fn live(&self, now: Stamp) -> Vec<(F::Key, F::State)> {
        let directory = lock(&self.directory);
        let flows = directory.table.live(directory.references, now.time_ns);
        let live = flows.filter_map(|flow| {
            let entry = self.entry(flow.slot);
            let state = entry.state.filter(|_| entry.deadline_ns > now.time_ns)?;
            Some((*flow.key, state))
        });
        live.collect()
    }

    /// Puts live states into `portion`, from block number `from` of the directory on; says which block comes next.
    pub(crate) fn list(&self, from: u32, portion: &mut Portion) -> Option<u32> {
        let directory = lock(&self.directory);
        let (slots, next) = portion_of(&directory.table, from);
        let taken = slots.filter(|slot| directory.table.is_taken(*slot));
        portion.add::<F::Key, F::State>(taken.filter_map(|slot| {
            let entry = self.entry(slot);
            let (state, deadline_ns) = (entry.state?, entry.deadline_ns);
            Some(Found { key: *directory.table.key(slot), state, deadline_ns })
        }));
        next
    }

    /// Takes the state of `key` away, between two packets; says whether there was one. References to it stay good.
    pub(crate) fn remove(&self, key: &F::Key) -> bool {
        let directory = lock(&self.directory);
        let short = key.short();
        let slot = directory.table.find(directory.table.hash(short, || *key), short, || *key);
        let Some(mut entry) = slot.is_some().then(|| self.entry(slot)) else { return false };
        let is_there = entry.state.is_some();
        self.end(&mut entry, &self.counts.removed);
        is_there
    }

    /// Goes on with the states of a function that this one replaces, each in the place that it had there: references to
    /// them stay good. O(capacity).
    pub(crate) fn take_over(&self, other: &Self) {
        debug_assert_eq!(self.capacity(), other.capacity());
        for (entry, of_other) in self.entries.iter().zip(&other.entries) {
            mem::swap(&mut *lock(entry), &mut *lock(of_other));
        }
        mem::swap(&mut *lock(&self.directory), &mut *lock(&other.directory));
        let of = |Counts { created, removed, expired, evicted, rejected }: &Counts| {
            [created, removed, expired, evicted, rejected].map(|count| count.load(Ordering::Relaxed))
        };
        let Counts { created, removed, expired, evicted, rejected } = &self.counts;
        let own = [created, removed, expired, evicted, rejected];
        own.into_iter().zip(of(&other.counts)).for_each(|(count, before)| add(count, before));
        add(&self.departed, other.departed.load(Ordering::Relaxed));
        if let (Some(own), Some(before)) = (&mut *lock(&self.ended), &*lock(&other.ended)) {
            own.merge(before);
        }
    }

    /// States that 5-tuples refer to, and references. O(capacity).
    #[cfg(test)]
    pub(crate) fn referred(&self) -> (usize, u32) {
        let directory = lock(&self.directory);
        let counts = directory.table.live(directory.references, 0).map(|flow| *flow.state);
        let counts: Vec<u32> = counts.filter(|count| *count > 0).collect();
        (counts.len(), counts.iter().sum())
    }

    /// Blocks of the directory in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.directory).table.len()
    }

    /// What all records added up, those that are gone included, each key's weighed: see [`weigh`].
    pub(crate) fn totals(&self) -> u64 {
        let sum = |entry: &Padded<F>| {
            let entry = lock(entry);
            entry.state.map_or(0, |state| weigh(entry.key_hash(), self.totals_of(&state)))
        };
        self.entries.iter().map(sum).fold(self.departed.load(Ordering::Relaxed), u64::wrapping_add)
    }

    #[inline]
    fn totals_of(&self, state: &F::State) -> [u64; 2] {
        (F::EXTRAS.records.totals)(&self.function, state)
    }

    /// Adds the records that have ended to `ended`.
    pub(crate) fn add_ended(&self, ended: &mut EndedOf<F>) {
        if let Some(own) = &*lock(&self.ended) {
            ended.merge(own);
        }
    }

    pub(crate) fn counters(&self) -> FlowCounters {
        let Counts { created, removed, expired, evicted, rejected } = &self.counts;
        let [created, removed, expired, evicted, rejected] =
            [created, removed, expired, evicted, rejected].map(|count| count.load(Ordering::Relaxed));
        FlowCounters { created, removed, expired, evicted, rejected, ..FlowCounters::default() }
    }

    fn entry(&self, slot: Slot) -> MutexGuard<'_, Entry<F::Key, F::State>> {
        lock(&self.entries[slot.index()])
    }

    /// The block is to be another key's, or nobody's: lets the state go.
    fn forget(&self, table: &mut FlowTable<F::Key>, references: Part<u32>, slot: Slot, watermark: Watermark) {
        let mut entry = self.entry(slot);
        let count =
            if watermark.is_past(entry.deadline_ns) { &self.counts.expired } else { &self.counts.evicted };
        self.end(&mut entry, count);
        table.cell_mut(slot, references).clear();
    }

    /// Takes the state away, if there is one, not by a step.
    fn end(&self, entry: &mut Entry<F::Key, F::State>, count: &AtomicU64) {
        if let Some(state) = entry.state.take() {
            add(count, 1);
            self.depart(entry.key_hash(), &state);
            self.note_ended(entry, &state);
        }
        entry.deadline_ns = 0;
    }

    fn note_ended(&self, entry: &Entry<F::Key, F::State>, state: &F::State) {
        if let Some(key) = &entry.key {
            note_ended(&mut lock(&self.ended), &*self.function, key, state);
        }
    }

    fn depart(&self, key_hash: u64, state: &F::State) {
        if Self::ADDS_UP {
            add(&self.departed, weigh(key_hash, self.totals_of(state)));
        }
    }
}

impl<K: FlowKey, S> Entry<K, S> {
    const NEW: Entry<K, S> = Entry { key: None, state: None, deadline_ns: 0, latest_ns: 0 };

    fn key_hash(&self) -> u64 {
        self.key.as_ref().map_or(0, |key| hash_bytes(key.as_bytes(), 0))
    }

    /// When it may be forgotten: the state is dead, and the time that it has seen is past.
    fn over_ns(&self) -> u64 {
        self.deadline_ns.max(self.latest_ns)
    }
}

/// A number that adds up over a key's records as its totals do, and that differs from key to key.
pub(crate) fn weigh(key_hash: u64, totals: [u64; 2]) -> u64 {
    let weights = [1, 2].map(|number: u64| hash_bytes(&number.to_le_bytes(), key_hash));
    weights[0].wrapping_mul(totals[0]).wrapping_add(weights[1].wrapping_mul(totals[1]))
}

fn add(count: &AtomicU64, amount: u64) {
    count.fetch_add(amount, Ordering::Relaxed);
}

/// A core that panicked with the lock held ends the run, which says so: the others need not panic, too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
