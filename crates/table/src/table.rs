//! The flow table: a hash index over blocks, with insertion, expiry and eviction.

use nf::{FlowKey, Hasher, Short, hash_u128};

use crate::ahead::Ahead;
use crate::blocks::{Blocks, Cell, Cells, Layout, Parcel, Part};
use crate::bucket::{Bucket, ENTRIES};
use crate::error::OutOfMemory;
use crate::slot::Slot;
use crate::watermark::Watermark;
use memory::Array;
use memory::{LINE_BYTES, Reach};

/// The most flows that one table holds: block indices and bucket numbers fit in 32 bits with room.
pub const MAX_FLOWS: usize = 1 << 26;

/// Maintenance comes once in this many steps: see [`FlowTable::maintain`].
pub const STEPS_PER_EPOCH: usize = 256;

/// One block in this many steps is looked at for expiry: a whole round takes that many steps times
/// the flows that there were at once.
const STEPS_PER_SWEPT_BLOCK: usize = 8;

/// A round takes no longer than this in the time of stamps, as far as the next constant allows: on a quiet
/// line, too, what is dead is found.
const ROUND_NS_MAX: u64 = 10_000_000_000;

/// The most blocks that one maintenance looks at: 16 for each step.
const SWEPT_BLOCKS_MAX: u64 = 4096;

/// How many blocks an insertion into a full table looks at for one that can go. A flood has every packet
/// pay for them; of 16, one is half-open in all but 2^-16 of cases if half of the table is.
const RECLAIM_SCAN_BLOCKS: usize = 16;

/// The factor of a linear congruential generator (Knuth's MMIX).
const DRAW_MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const DRAW_INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Buckets are sized so that at most this many of their entries are used on average: at 9 of 12,
/// two choices and one displacement always find room in practice (measured in the tests).
const MEAN_ENTRIES_MAX: usize = 9;

/// What an insertion does when every block is taken and none of those looked at is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Refuses the new flow; those that live go on.
    #[default]
    Reject,
    /// Evicts the flow nearest to its deadline among a bounded number of blocks. With one idle
    /// time-out for all, that is the one idle for longest; where half-open connections time out
    /// sooner, they go first.
    EvictOldest,
}

impl WhenFull {
    /// Both.
    pub const ALL: [WhenFull; 2] = [WhenFull::Reject, WhenFull::EvictOldest];

    /// As chain files and options write it.
    pub fn name(self) -> &'static str {
        match self {
            WhenFull::Reject => "reject",
            WhenFull::EvictOldest => "evict-oldest",
        }
    }
}

/// A live flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a, K, S> {
    /// Its block.
    pub slot: Slot,
    /// Its key.
    pub key: &'a K,
    /// One function's state of it.
    pub state: &'a S,
    /// When that dies if nothing steps it.
    pub deadline_ns: u64,
}

/// A table of flows with key `K`, for all functions that have that key: each flow has one block with a
/// state for each function. See the crate's page for its shape.
///
/// Memory: about `11 + size_of(block)` bytes per flow, all taken at start; a block is 24 bytes, for each
/// state 8 bytes and the state, and keys of more than 16 bytes, rounded up to 64.
pub struct FlowTable<K> {
    pub(crate) buckets: Array<Bucket>,
    pub(crate) blocks: Blocks<K>,
    /// Blocks without a flow; the last one is taken next.
    free: Vec<u32>,
    /// Blocks below this one have had a flow, and no others.
    used: u32,
    /// Blocks that lost a state since the last maintenance.
    idle: Vec<u32>,
    /// The next block that the sweep looks at.
    hand: u32,
    /// The last number drawn in search of a block to evict.
    draws: u64,
    steps: usize,
    /// When maintenance last came.
    maintained_ns: u64,
    when_full: WhenFull,
    hasher: Hasher,
}

impl<K: FlowKey> FlowTable<K> {
    /// A table for `capacity` flows. A secret `seed` keeps outsiders from choosing keys that collide.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the system refuses. A system that overcommits refuses late or never: compare
    /// [`FlowTable::bytes`] with what is free first.
    ///
    /// # Panics
    /// If `capacity` is 0 or above [`MAX_FLOWS`].
    pub fn new(
        layout: &Layout,
        capacity: usize,
        when_full: WhenFull,
        seed: u64,
    ) -> Result<Self, OutOfMemory> {
        let bytes = Self::bytes(layout, capacity);
        let memory = || Some((Array::zeroed(buckets(capacity))?, Blocks::new(layout, capacity).ok()?));
        Self::with(capacity, bytes, memory, when_full, Hasher::new(seed))
    }

    /// An empty table for `capacity` flows that is made as this one was: the same parts read it, and flows go from one to the
    /// other.
    ///
    /// # Errors
    /// As [`FlowTable::new`].
    ///
    /// # Panics
    /// As [`FlowTable::new`].
    pub fn alike(&self, capacity: usize) -> Result<Self, OutOfMemory> {
        let bytes = Self::bytes_of(self.blocks.bytes_each(), capacity);
        let memory = || {
            let buckets = self.buckets.zeroed_alike(buckets(capacity))?;
            Some((buckets, self.blocks.alike(capacity).ok()?))
        };
        Self::with(capacity, bytes, memory, self.when_full, self.hasher)
    }

    fn with(
        capacity: usize,
        bytes: u64,
        memory: impl FnOnce() -> Option<(Array<Bucket>, Blocks<K>)>,
        when_full: WhenFull,
        hasher: Hasher,
    ) -> Result<Self, OutOfMemory> {
        assert!((1..=MAX_FLOWS).contains(&capacity), "capacity {capacity} not in 1..={MAX_FLOWS}");
        let out_of_memory = OutOfMemory { bytes };
        let mut free = Vec::new();
        free.try_reserve_exact(capacity).map_err(|_| out_of_memory)?;
        free.extend((0..capacity as u32).rev());
        let (buckets, blocks) = memory().ok_or(out_of_memory)?;
        Ok(FlowTable {
            buckets,
            blocks,
            free,
            used: 0,
            idle: Vec::with_capacity(2 * STEPS_PER_EPOCH),
            hand: 0,
            draws: 0,
            steps: 0,
            maintained_ns: 0,
            when_full,
            hasher,
        })
    }

    /// Bytes of memory that a table for `capacity` flows takes.
    pub fn bytes(layout: &Layout, capacity: usize) -> u64 {
        Self::bytes_of(Blocks::<K>::block_bytes(layout), capacity)
    }

    fn bytes_of(block: usize, capacity: usize) -> u64 {
        let block = (block + size_of::<u32>()) as u64;
        buckets(capacity) as u64 * size_of::<Bucket>() as u64 + capacity as u64 * block
    }

    /// The hash of a key, which the calls below take; of all of `key` where `short` is not.
    #[inline]
    pub fn hash(&self, short: Short, key: impl FnOnce() -> K) -> u32 {
        hash(&self.hasher, short, key)
    }

    /// Where the buckets are, for a thread that may not read them yet.
    pub fn ahead(&self) -> Ahead {
        Ahead::new(&self.buckets)
    }

    /// The flow's block, dead or alive, or [`Slot::NONE`]; it may be `candidate`.
    #[inline]
    pub fn locate(&self, candidate: Slot, hash: u32, short: Short, key: impl Fn() -> K) -> Slot {
        if candidate.is_some() && self.blocks.holds(candidate.0, hash, short, &key) {
            return candidate;
        }
        self.find(hash, short, key)
    }

    /// The flow's block, dead or alive, or [`Slot::NONE`].
    pub fn find(&self, hash: u32, short: Short, key: impl Fn() -> K) -> Slot {
        let primary = self.primary(hash);
        let bucket = &self.buckets[primary];
        let found = self.find_in(bucket, hash, short, &key);
        if found.is_some() || bucket.spilled() == 0 {
            return found;
        }
        self.find_in(&self.buckets[self.alternate(primary, tag(hash))], hash, short, &key)
    }

    /// One function's state of the flow.
    #[inline]
    pub fn cell<S: Copy>(&self, slot: Slot, part: Part<S>) -> &Cell<S> {
        self.blocks.cell(slot.0, part)
    }

    /// The part `part` of block `slot`, to be changed. After [`Cell::clear`] call [`FlowTable::has_lost_a_state`].
    #[inline]
    pub fn cell_mut<S: Copy>(&mut self, slot: Slot, part: Part<S>) -> &mut Cell<S> {
        self.blocks.cell_mut(slot.0, part)
    }

    /// One function's states of all flows, for several steps: what [`FlowTable::cell_mut`] checks of the part each time is
    /// checked once.
    #[inline]
    pub fn cells_mut<S: Copy>(&mut self, part: Part<S>) -> Cells<'_, K, S> {
        self.blocks.cells_mut(part)
    }

    /// The flow's key.
    #[inline]
    pub fn key(&self, slot: Slot) -> &K {
        self.blocks.key(slot.0)
    }

    /// Blocks that new flows can have without [`FlowTable::make_room`].
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Gives a flow that [`FlowTable::find`] did not find a block, without any state yet; [`Slot::NONE`]
    /// if the table is full: see [`FlowTable::make_room`].
    ///
    /// Bounded: looks at no more than 26 buckets.
    pub fn insert(&mut self, hash: u32, short: Short, key: &K) -> Slot {
        let Some(block) = self.free.pop() else { return Slot::NONE };
        let Some((bucket, entry)) = self.room_for(hash) else {
            self.free.push(block);
            return Slot::NONE;
        };
        self.link(bucket, entry, hash, block);
        self.blocks.take(block, hash, short, key);
        self.used = self.used.max(block + 1);
        Slot(block)
    }

    /// Has a vacant entry of a bucket point to a block.
    fn link(&mut self, bucket: usize, entry: usize, hash: u32, block: u32) {
        self.buckets[bucket].set(entry, tag(hash), block);
        if bucket != self.primary(hash) {
            self.add_spilled(self.primary(hash), 1);
        }
    }

    /// Where no block is free: frees one of a flow that is dead as of `watermark`, or evicts one as [`WhenFull`] says.
    /// `leave` hears of the block, and clears every state in it.
    ///
    /// `now_ns` is the time of the packet that wants the block. A flow that is dead by then, and not yet as of
    /// `watermark`, is taken under either policy before a new flow is refused: it is evicted, since a packet that is
    /// older may still need it.
    ///
    /// Bounded: looks at no more than 16 blocks, and at those that lost a state in this epoch.
    pub fn make_room(&mut self, watermark: Watermark, now_ns: u64, mut leave: impl FnMut(&mut Self, Slot)) {
        if self.free.is_empty() {
            self.release_idle();
        }
        if self.free.is_empty()
            && let Some(block) = self.victim(watermark, now_ns)
        {
            leave(self, Slot(block));
            self.unlink(block);
        }
    }

    /// Gives back the block of a flow that has no state left.
    pub fn release(&mut self, slot: Slot) {
        debug_assert!(!self.has_state(slot), "a state is left");
        if self.is_taken(slot) {
            self.unlink(slot.0);
        }
    }

    /// An empty parcel for `capacity` flows of this table.
    pub fn parcel(&self, capacity: usize) -> Parcel<K> {
        self.blocks.parcel(capacity)
    }

    /// The blocks that flows have, or have had. The one that was freed last is taken first, and of those that no flow has had the
    /// lowest, so these are as many as there were flows at once.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + use<K> {
        (0..self.used).map(Slot)
    }

    /// Whether a flow has the block.
    #[inline]
    pub fn is_taken(&self, slot: Slot) -> bool {
        self.blocks.is_taken(slot.0)
    }

    /// Takes a flow out of the table, with all its states and as dead as it is, and puts it into `parcel`.
    ///
    /// # Panics
    /// If no flow has the block, or the parcel is of a table of other states.
    pub fn pack(&mut self, slot: Slot, parcel: &mut Parcel<K>) {
        self.blocks.pack(slot.0, parcel);
        self.unlink(slot.0);
    }

    /// Gives flow number `index` of a parcel a block of this table, which has the same seed and does not have the
    /// flow yet; [`Slot::NONE`] if there is no room: see [`FlowTable::make_room`].
    ///
    /// # Panics
    /// If the parcel is of a table of other states.
    pub fn unpack(&mut self, parcel: &Parcel<K>, index: usize) -> Slot {
        let hash = self.blocks.packed_hash(parcel, index);
        let Some(block) = self.free.pop() else { return Slot::NONE };
        let Some((bucket, entry)) = self.room_for(hash) else {
            self.free.push(block);
            return Slot::NONE;
        };
        self.link(bucket, entry, hash, block);
        self.blocks.unpack(block, parcel, index);
        self.used = self.used.max(block + 1);
        Slot(block)
    }

    /// Key and one function's state of flow number `index` of a parcel that [`FlowTable::unpack`] would take.
    ///
    /// # Panics
    /// If the parcel is of a table of other states.
    pub fn packed<'a, S: Copy>(
        &self,
        parcel: &'a Parcel<K>,
        index: usize,
        part: Part<S>,
    ) -> (&'a K, &'a Cell<S>) {
        self.blocks.packed(parcel, index, part)
    }

    /// Becomes the same as `other`, a table of the same states, size and seed: from here on the same steps lead to
    /// the same flows, in the same blocks. Allocates nothing. O(blocks that flows have had in either table); where these are
    /// many, as fast as memory is copied.
    ///
    /// # Panics
    /// If the tables were not made alike.
    pub fn copy_from(&mut self, other: &FlowTable<K>) {
        assert!(
            self.when_full == other.when_full && self.hasher == other.hasher,
            "a table that was made otherwise"
        );
        assert!(self.capacity() == other.capacity(), "a table of other states or size");
        let used = self.used.max(other.used);
        match self.has_few(used) {
            // Others are empty in both.
            true => {
                for block in 0..self.used {
                    self.buckets_of(block)
                        .into_iter()
                        .flatten()
                        .for_each(|at| self.buckets[at] = other.buckets[at]);
                }
                for block in 0..other.used {
                    other
                        .buckets_of(block)
                        .into_iter()
                        .flatten()
                        .for_each(|at| self.buckets[at] = other.buckets[at]);
                }
            }
            false => self.buckets.copy_from_slice(&other.buckets),
        }
        self.blocks.copy_from(&other.blocks, used);
        // Blocks that no flow has had are below all others, each in its place.
        let unused = self.capacity() - used as usize;
        self.free.truncate(unused);
        self.free.extend_from_slice(&other.free[unused..]);
        self.idle.clone_from(&other.idle);
        (self.used, self.hand, self.draws) = (other.used, other.hand, other.draws);
        (self.steps, self.maintained_ns) = (other.steps, other.maintained_ns);
    }

    /// Lets go of all flows, whatever states they have, and of all that steps have left: from here on the same steps lead to the
    /// same flows, in the same blocks, as in a new table. O(blocks that flows have had).
    pub fn clear(&mut self) {
        let has_few = self.has_few(self.used);
        if !has_few {
            self.buckets.fill(Bucket::EMPTY);
        }
        for block in 0..self.used {
            if has_few {
                self.buckets_of(block).into_iter().flatten().for_each(|at| self.buckets[at] = Bucket::EMPTY);
            }
            self.blocks.clear(block);
        }
        self.free.truncate(self.capacity() - self.used as usize);
        self.free.extend((0..self.used).rev());
        self.idle.clear();
        (self.used, self.hand, self.draws) = (0, 0, 0);
        (self.steps, self.maintained_ns) = (0, 0);
    }

    /// Whether the buckets of this many flows are sooner gone through one by one than all buckets are.
    fn has_few(&self, flows: u32) -> bool {
        // A bucket that is not in a cache takes as long as some 16 do one after the other, and each flow has two.
        flows as usize * 32 < self.buckets.len()
    }

    /// The two buckets of a block's flow, if one has it.
    fn buckets_of(&self, block: u32) -> Option<[usize; 2]> {
        self.blocks.is_taken(block).then(|| {
            let hash = self.blocks.hash(block);
            let primary = self.primary(hash);
            [primary, self.alternate(primary, tag(hash))]
        })
    }

    /// Comes to where `other` is, a table of the same states: the parts that read `other` read this one from here on, and
    /// those that did before do so no more. For tables that go from core to core whole. O(1).
    ///
    /// # Panics
    /// If the tables have other states, or hash otherwise.
    pub fn come_to(&mut self, other: &FlowTable<K>) {
        assert!(self.hasher == other.hasher, "a table that hashes otherwise");
        self.blocks.come_to(&other.blocks);
    }

    /// A step took a state away: the block is given back at the next maintenance, if no state is left.
    pub fn has_lost_a_state(&mut self, slot: Slot) {
        if self.idle.len() == self.idle.capacity() {
            // A step concerns one block: of different ones there are no more than steps.
            self.idle.sort_unstable();
            self.idle.dedup();
        }
        self.idle.push(slot.0);
    }

    /// Blocks that have lost a state since the last maintenance, as often as that was told.
    #[inline]
    pub fn lost_states(&self) -> usize {
        self.idle.len()
    }

    /// Whether the block has a flow with some state, dead or alive. There need be no such block.
    pub fn has_state(&self, slot: Slot) -> bool {
        slot.0 < self.blocks.len() && self.is_taken(slot) && self.blocks.lives_until(slot.0) != 0
    }

    /// Steps from here to the next maintenance.
    #[inline]
    pub fn steps_left(&self) -> usize {
        STEPS_PER_EPOCH - self.steps
    }

    /// Counts steps, at most [`FlowTable::steps_left`] of them, and says whether maintenance is due.
    #[inline]
    pub fn count_steps(&mut self, steps: usize) -> bool {
        debug_assert!(steps <= self.steps_left());
        self.steps += steps;
        self.steps == STEPS_PER_EPOCH
    }

    /// Gives blocks back whose flows have ended, and looks at some more for those dead as of `watermark`: `expire` hears
    /// of a block in which some state is dead, and clears such states. Blocks that no flow has had are not looked at, so that what a sweep
    /// brings into the caches is no more than the flows are.
    ///
    /// Comes at fixed numbers of steps and nowhere else, so that which block is free does not depend on
    /// where batches were cut.
    pub fn maintain(&mut self, watermark: Watermark, mut expire: impl FnMut(&mut Self, Slot)) {
        self.steps = 0;
        self.release_idle();
        let elapsed_ns = watermark.past_ns().saturating_sub(self.maintained_ns);
        self.maintained_ns = watermark.past_ns();
        let blocks = self.used as usize;
        let least = (STEPS_PER_EPOCH / STEPS_PER_SWEPT_BLOCK).min(blocks);
        let due = u128::from(elapsed_ns) * blocks as u128 / u128::from(ROUND_NS_MAX);
        let most = SWEPT_BLOCKS_MAX.min(blocks as u64);
        let swept = (due.min(most.into()) as usize).max(least);
        for _ in 0..swept {
            let block = self.advance_hand();
            self.expire(block, watermark, &mut expire);
        }
        // Those of the next time: there by then, and not waited for.
        for block in self.hand..(self.hand + least as u32).min(self.used) {
            self.blocks.prefetch::<{ Reach::FAR }>(block);
        }
    }

    /// Gives every dead flow's block back; for the end of a run. O(flows at once, at most).
    pub fn settle(&mut self, watermark: Watermark, mut expire: impl FnMut(&mut Self, Slot)) {
        self.release_idle();
        for block in 0..self.used {
            self.expire(block, watermark, &mut expire);
        }
    }

    /// The flows whose state in `part` is alive at `now_ns`, in no order that means anything. O(capacity).
    pub fn live<'a, S: Copy + 'a>(
        &'a self,
        part: Part<S>,
        now_ns: u64,
    ) -> impl Iterator<Item = Flow<'a, K, S>> {
        (0..self.used).filter_map(move |block| {
            let cell = self.blocks.cell(block, part);
            let deadline_ns = cell.deadline_ns();
            let alive = self.blocks.is_taken(block) && deadline_ns > now_ns;
            let (slot, key) = (Slot(block), self.blocks.key(block));
            cell.state().filter(|_| alive).map(|state| Flow { slot, key, state, deadline_ns })
        })
    }

    /// A hash of a flow's key and a number, the same in every table.
    #[inline]
    pub fn hash_flow(&self, slot: Slot, number: u64) -> u64 {
        self.blocks.hash_flow(slot.0, number)
    }

    /// What [`FlowTable::hash_flow`] gives for a flow with this key, which need not have a block here.
    pub fn hash_key(&self, key: &K, number: u64) -> u64 {
        hash_u128(key.short().bits, number)
    }

    /// Flows with a block, dead ones that are not reclaimed yet included.
    pub fn len(&self) -> usize {
        self.capacity() - self.free.len()
    }

    /// Whether no flow has a block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many flows fit.
    pub fn capacity(&self) -> usize {
        self.blocks.len() as usize
    }

    /// Checks what must hold of buckets and blocks at all times; for tests. O(capacity).
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self) {
        let mut held = vec![0u32; self.capacity()];
        let mut spilled = vec![0u32; self.buckets.len()];
        for (number, bucket) in self.buckets.iter().enumerate() {
            for entry in 0..ENTRIES {
                let (found, block) = bucket.get(entry);
                if found == 0 {
                    continue;
                }
                held[block as usize] += 1;
                assert!(self.blocks.is_taken(block), "bucket {number} holds a block without a flow");
                let hash = self.blocks.hash(block);
                assert_eq!(found, tag(hash), "the tag of block {block}");
                let home = self.primary(hash);
                assert!(
                    number == home || number == self.alternate(home, found),
                    "block {block} is elsewhere"
                );
                spilled[home] += u32::from(number != home);
            }
        }
        for (block, count) in (0u32..).zip(&held) {
            assert_eq!(*count, u32::from(self.blocks.is_taken(block)), "entries of block {block}");
        }
        for (bucket, count) in self.buckets.iter().zip(&spilled) {
            assert_eq!(bucket.spilled(), *count, "flows that spilled");
        }
        let taken = held.iter().sum::<u32>() as usize;
        assert_eq!(self.free.len(), self.capacity() - taken, "free blocks");
        assert!(self.free.iter().all(|block| !self.blocks.is_taken(*block)), "a free block has a flow");
        let last = (0..self.blocks.len()).rfind(|block| self.blocks.is_taken(*block));
        assert!(last.is_none_or(|block| block < self.used), "a flow has a block that none has had");
    }

    #[inline]
    fn find_in(&self, bucket: &Bucket, hash: u32, short: Short, key: impl Fn() -> K) -> Slot {
        let mut candidates = bucket.matches(tag(hash)).map(|(_, block)| block);
        candidates.find(|block| self.blocks.holds(*block, hash, short, &key)).map_or(Slot::NONE, Slot)
    }

    #[inline(always)]
    pub(crate) fn primary(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The other bucket of an entry: its own inverse, so that an entry can move without its key.
    #[inline]
    pub(crate) fn alternate(&self, bucket: usize, tag: u8) -> usize {
        // The mixed tag is odd, so that the two differ wherever there are two buckets.
        let offset = (u32::from(tag).wrapping_mul(0x9e37_79b1) >> 7) | 1;
        (bucket ^ offset as usize) & (self.buckets.len() - 1)
    }

    /// A vacant entry for `hash` in one of its two buckets; moves one entry of theirs aside if need be.
    fn room_for(&mut self, hash: u32) -> Option<(usize, usize)> {
        let primary = self.primary(hash);
        let choices = [primary, self.alternate(primary, tag(hash))];
        if let Some(room) = choices.iter().find_map(|&b| Some((b, self.buckets[b].vacant()?))) {
            return Some(room);
        }
        for bucket in choices {
            for entry in 0..ENTRIES {
                let (tag, block) = self.buckets[bucket].get(entry);
                let other = self.alternate(bucket, tag);
                let Some(vacant) = self.buckets[other].vacant() else { continue };
                self.buckets[other].set(vacant, tag, block);
                self.buckets[bucket].clear(entry);
                let home = self.primary(self.blocks.hash(block));
                self.add_spilled(home, if home == bucket { 1 } else { -1 });
                return Some((bucket, entry));
            }
        }
        None
    }

    /// A taken block of a full table that can go: a dead flow's, or as [`WhenFull`] says.
    fn victim(&mut self, watermark: Watermark, now_ns: u64) -> Option<u32> {
        let mut oldest: Option<(u64, u32)> = None;
        let count = RECLAIM_SCAN_BLOCKS.min(self.capacity());
        let candidates: [u32; RECLAIM_SCAN_BLOCKS] =
            std::array::from_fn(|i| if i < count { self.next_candidate() } else { 0 });
        if self.when_full == WhenFull::EvictOldest {
            // They lie all over the table: their misses overlap.
            candidates.iter().for_each(|block| self.blocks.prefetch::<{ Reach::FAR }>(*block));
        }
        for block in candidates.into_iter().take(count) {
            let deadline_ns = self.blocks.lives_until(block);
            if watermark.is_past(deadline_ns) {
                return Some(block);
            }
            if oldest.is_none_or(|(oldest_ns, _)| deadline_ns < oldest_ns) {
                oldest = Some((deadline_ns, block));
            }
        }
        match self.when_full {
            WhenFull::EvictOldest => oldest,
            WhenFull::Reject => oldest.filter(|(deadline_ns, _)| *deadline_ns <= now_ns),
        }
        .map(|(_, block)| block)
    }

    /// The next block to look at for one that can go. The dead may be looked for in any order, so in that
    /// of memory. A flow to evict is looked for all over the table: flows that came together lie together,
    /// and a stretch of established ones would lose one each time the hand comes by.
    fn next_candidate(&mut self) -> u32 {
        match self.when_full {
            // A table this small is looked at whole.
            _ if self.capacity() <= RECLAIM_SCAN_BLOCKS => self.advance_hand(),
            WhenFull::Reject => self.advance_hand(),
            WhenFull::EvictOldest => {
                // Knuth's constants (TAOCP vol. 2, §3.3.4); the upper bits are what is used.
                self.draws = self.draws.wrapping_mul(DRAW_MULTIPLIER).wrapping_add(DRAW_INCREMENT);
                let draw = self.draws;
                ((u128::from(draw) * self.capacity() as u128) >> 64) as u32
            }
        }
    }

    fn expire(&mut self, block: u32, watermark: Watermark, expire: &mut impl FnMut(&mut Self, Slot)) {
        if !self.blocks.is_taken(block) {
            return;
        }
        let (mut is_one_dead, mut is_one_alive) = (false, false);
        for deadline_ns in self.blocks.deadlines(block).filter(|deadline_ns| *deadline_ns != 0) {
            let is_dead = watermark.is_past(deadline_ns);
            is_one_dead |= is_dead;
            is_one_alive |= !is_dead;
        }
        if is_one_dead {
            expire(self, Slot(block));
        }
        if !is_one_alive && self.blocks.lives_until(block) == 0 {
            self.unlink(block);
        }
    }

    /// Gives back the blocks that have no state left, in an order that does not depend on who noticed first.
    fn release_idle(&mut self) {
        self.idle.sort_unstable();
        self.idle.dedup();
        let mut idle = std::mem::take(&mut self.idle);
        for block in idle.drain(..) {
            if self.blocks.is_taken(block) && self.blocks.lives_until(block) == 0 {
                self.unlink(block);
            }
        }
        self.idle = idle;
    }

    /// Takes a block without any state from its flow.
    fn unlink(&mut self, block: u32) {
        let hash = self.blocks.hash(block);
        let primary = self.primary(hash);
        let alternate = self.alternate(primary, tag(hash));
        for bucket in [primary, alternate] {
            let found = self.buckets[bucket].matches(tag(hash)).find(|(_, held)| *held == block);
            if let Some((entry, _)) = found {
                self.buckets[bucket].clear(entry);
                if bucket != primary {
                    self.add_spilled(primary, -1);
                }
                break;
            }
        }
        self.blocks.release(block);
        self.free.push(block);
    }

    fn add_spilled(&mut self, bucket: usize, change: i32) {
        let spilled = self.buckets[bucket].spilled();
        debug_assert!(change > 0 || spilled > 0);
        self.buckets[bucket].set_spilled(spilled.wrapping_add_signed(change));
    }

    fn advance_hand(&mut self) -> u32 {
        let block = self.hand;
        self.hand = if block + 1 < self.used { block + 1 } else { 0 };
        block
    }
}

impl<K> std::fmt::Debug for FlowTable<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowTable").field("free", &self.free.len()).finish_non_exhaustive()
    }
}

/// The hash of a key in all tables whose seed `hasher` has; of all of `key` where `short` is not.
#[inline]
pub fn hash<K: FlowKey>(hasher: &Hasher, short: Short, key: impl FnOnce() -> K) -> u32 {
    match short.is_exact {
        true => hasher.hash_u128(short.bits) as u32,
        false => hash_whole(hasher, key()),
    }
}

/// By value and out of line: a key whose bytes are looked at has to be in memory.
#[cold]
fn hash_whole<K: FlowKey>(hasher: &Hasher, key: K) -> u32 {
    hasher.hash_bytes(key.as_bytes()) as u32
}

/// Buckets of a table for `capacity` flows.
fn buckets(capacity: usize) -> usize {
    capacity.div_ceil(MEAN_ENTRIES_MAX).next_power_of_two()
}

/// Eight bits of the hash that the bucket number does not use, and never 0.
#[inline(always)]
pub(crate) fn tag(hash: u32) -> u8 {
    ((hash >> 24) as u8).max(1)
}

const _: () = assert!(size_of::<Bucket>() == LINE_BYTES);
