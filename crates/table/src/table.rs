use nf::{FlowKey, hash_bytes};
use zerocopy::{Immutable, IntoBytes};

use crate::bucket::{Bucket, ENTRIES};
use crate::memory::Array;
use crate::prefetch::prefetch;

/// The most flows that one table holds: block indices and bucket numbers fit in 32 bits with room.
pub const MAX_FLOWS: usize = 1 << 26;

/// One block in this many steps is looked at for expiry: a whole round takes that many steps times
/// the capacity.
const STEPS_PER_SWEPT_BLOCK: u32 = 4;

/// How many blocks an insertion into a full table looks at for one that can go. A flood has every packet
/// pay for them; of 16, one is half-open in all but 2^-16 of cases if half of the table is.
const RECLAIM_SCAN_BLOCKS: usize = 16;

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

/// Why a flow left the table by itself.
#[derive(Clone, Copy)]
enum Departure {
    /// Its deadline passed.
    Expired,
    /// Another flow needed its block.
    Evicted,
}

/// How an insertion went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The flow is in the table.
    Done,
    /// The table is full: see [`WhenFull`].
    Full,
}

/// The system has no memory for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What the table takes.
    pub bytes: u64,
}

/// A located block. Valid until the flow is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// What the table did since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Flows inserted.
    pub created: u64,
    /// Flows that ended by a step.
    pub removed: u64,
    /// Flows whose deadline passed.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows refused because the table was full.
    pub rejected: u64,
}

/// A table of flows with key `K` and state `S`. See the crate's page for its shape.
///
/// Memory: about `7 + size_of(block)` bytes per flow, all taken at start; a block is key, state and
/// 16 bytes, rounded up to 64.
pub struct FlowTable<K: Copy, S: Copy> {
    buckets: Array<Bucket>,
    blocks: Array<Block<K, S>>,
    /// Blocks without a flow; the last one is taken next.
    free: Vec<u32>,
    /// Sum of a hash of every flow that has left.
    departed: u64,
    /// The next block that the sweep looks at.
    hand: u32,
    /// Blocks drawn so far in search of one to evict.
    draws: u64,
    steps_until_sweep: u32,
    when_full: WhenFull,
    seed: u64,
    counters: Counters,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block<K, S> {
    key: K,
    deadline_ns: u64,
    hash: u32,
    /// `None`: no flow lives here.
    state: Option<S>,
}

impl<K, S> FlowTable<K, S>
where
    K: FlowKey,
    S: Copy + IntoBytes + Immutable,
{
    /// A table for `capacity` flows. A secret `seed` keeps outsiders from choosing keys that collide.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the system refuses. A system that overcommits refuses late or never: compare
    /// [`FlowTable::bytes`] with what is free first.
    ///
    /// # Panics
    /// If `capacity` is 0 or above [`MAX_FLOWS`].
    pub fn new(capacity: usize, when_full: WhenFull, seed: u64) -> Result<Self, OutOfMemory> {
        assert!((1..=MAX_FLOWS).contains(&capacity), "capacity {capacity} not in 1..={MAX_FLOWS}");
        let empty = Block { key: K::new_zeroed(), deadline_ns: 0, hash: 0, state: None };
        let out_of_memory = OutOfMemory { bytes: Self::bytes(capacity) };
        let mut free = Vec::new();
        free.try_reserve_exact(capacity).map_err(|_| out_of_memory)?;
        free.extend((0..capacity as u32).rev());
        Ok(FlowTable {
            buckets: Array::filled(Bucket::EMPTY, buckets(capacity)).ok_or(out_of_memory)?,
            blocks: Array::filled(empty, capacity).ok_or(out_of_memory)?,
            free,
            departed: 0,
            hand: 0,
            draws: 0,
            steps_until_sweep: STEPS_PER_SWEPT_BLOCK,
            when_full,
            seed,
            counters: Counters::default(),
        })
    }

    /// Bytes of memory that a table for `capacity` flows takes.
    pub fn bytes(capacity: usize) -> u64 {
        let (bucket, block) = (size_of::<Bucket>() as u64, size_of::<Block<K, S>>() as u64);
        buckets(capacity) as u64 * bucket + capacity as u64 * (block + size_of::<u32>() as u64)
    }

    /// The hash of a key, which the calls below take.
    #[inline]
    pub fn hash(&self, key: &K) -> u32 {
        hash_bytes(key.as_bytes(), self.seed) as u32
    }

    /// First pass over a batch: asks for the bucket's line.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u32) {
        prefetch(&self.buckets[self.primary(hash)]);
    }

    /// Second pass over a batch: reads the bucket, asks for the lines of the block that may match.
    #[inline]
    pub fn prefetch_block(&self, hash: u32) {
        if let Some((_, block)) = self.buckets[self.primary(hash)].matches(tag(hash)).next() {
            prefetch(&self.blocks[block as usize]);
        }
    }

    /// Third pass, in step order: the flow with `key`, alive or dead; see [`FlowTable::is_dead`].
    #[inline]
    pub fn find(&self, hash: u32, key: &K) -> Option<Slot> {
        let primary = &self.buckets[self.primary(hash)];
        let found = self.find_in(primary, hash, key);
        if found.is_some() || primary.spilled() == 0 {
            return found;
        }
        self.find_in(&self.buckets[self.alternate(self.primary(hash), tag(hash))], hash, key)
    }

    /// Whether the flow's deadline has passed, so that it counts as not there.
    #[inline]
    pub fn is_dead(&self, slot: Slot, now_ns: u64) -> bool {
        self.blocks[slot.0 as usize].deadline_ns <= now_ns
    }

    /// The state of a located flow, `Some`. A step may leave `None`: then call [`FlowTable::remove`].
    #[inline]
    pub fn state_mut(&mut self, slot: Slot) -> &mut Option<S> {
        &mut self.blocks[slot.0 as usize].state
    }

    /// Sets when the flow dies if nothing steps it again.
    #[inline]
    pub fn set_deadline(&mut self, slot: Slot, deadline_ns: u64) {
        self.blocks[slot.0 as usize].deadline_ns = deadline_ns;
    }

    /// Adds a flow that [`FlowTable::find`] did not find. `gone` hears of a flow that makes room.
    ///
    /// Bounded: looks at no more than 16 blocks and 26 buckets.
    pub fn insert(
        &mut self,
        hash: u32,
        key: &K,
        state: S,
        deadline_ns: u64,
        now_ns: u64,
        gone: &mut impl FnMut(&K, &S),
    ) -> Insert {
        let Some(block) = self.free.pop().or_else(|| self.reclaim(now_ns, gone)) else {
            self.counters.rejected += 1;
            return Insert::Full;
        };
        let Some((bucket, entry)) = self.room_for(hash) else {
            self.free.push(block);
            self.counters.rejected += 1;
            return Insert::Full;
        };
        self.buckets[bucket].set(entry, tag(hash), block);
        if bucket != self.primary(hash) {
            self.add_spilled(self.primary(hash), 1);
        }
        self.blocks[block as usize] = Block { key: *key, deadline_ns, hash, state: Some(state) };
        self.counters.created += 1;
        Insert::Done
    }

    /// Removes a flow that a step has ended.
    pub fn remove(&mut self, slot: Slot) {
        let Block { key, deadline_ns, .. } = &self.blocks[slot.0 as usize];
        self.departed = self.departed.wrapping_add(hash_bytes(key.as_bytes(), *deadline_ns));
        self.unlink(slot.0);
        self.counters.removed += 1;
    }

    /// Removes a flow that [`FlowTable::is_dead`].
    pub fn expire(&mut self, slot: Slot, gone: &mut impl FnMut(&K, &S)) {
        self.evict(slot.0, Departure::Expired, gone);
    }

    /// Once per step: looks at the next block now and then, and gives it back if its flow is dead.
    #[inline]
    pub fn sweep(&mut self, now_ns: u64, gone: &mut impl FnMut(&K, &S)) {
        self.steps_until_sweep -= 1;
        if self.steps_until_sweep == 0 {
            self.steps_until_sweep = STEPS_PER_SWEPT_BLOCK;
            let block = self.advance_hand();
            if self.lives_until(block).is_some_and(|deadline_ns| deadline_ns <= now_ns) {
                self.evict(block, Departure::Expired, gone);
            }
        }
    }

    /// Gives every dead flow's block back; for the end of a run. O(capacity).
    pub fn settle(&mut self, now_ns: u64, gone: &mut impl FnMut(&K, &S)) {
        for block in 0..self.blocks.len() as u32 {
            if self.lives_until(block).is_some_and(|deadline_ns| deadline_ns <= now_ns) {
                self.evict(block, Departure::Expired, gone);
            }
        }
    }

    /// The flows alive at `now_ns`, in no order that means anything. O(capacity).
    pub fn live(&self, now_ns: u64) -> impl Iterator<Item = (&K, &S)> {
        let alive = self.blocks.iter().filter(move |block| block.deadline_ns > now_ns);
        alive.filter_map(|block| Some((&block.key, block.state.as_ref()?)))
    }

    /// Hash of all flows alive at `now_ns` that does not depend on their order: the sum of each
    /// flow's. So the digests of shards add up to the digest of the whole. O(capacity).
    pub fn digest(&self, now_ns: u64) -> u64 {
        self.live(now_ns)
            .map(|(key, state)| hash_bytes(state.as_bytes(), hash_bytes(key.as_bytes(), 0)))
            .fold(0, u64::wrapping_add)
    }

    /// Hash of what [`FlowTable::digest`] leaves out and replicas must agree in all the same: when each
    /// flow alive at `now_ns` will die, and how each flow that is gone left. A sum, too. Comparable
    /// after [`FlowTable::settle`], when all the dead are gone. O(capacity).
    pub fn audit(&self, now_ns: u64) -> u64 {
        let alive = self.blocks.iter().filter(|block| block.state.is_some() && block.deadline_ns > now_ns);
        let deadlines = alive.map(|block| hash_bytes(block.key.as_bytes(), block.deadline_ns));
        deadlines.fold(self.departed, u64::wrapping_add)
    }

    /// Flows with a block, dead ones that are not reclaimed yet included.
    pub fn len(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    /// Whether no flow has a block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many flows fit.
    pub fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// What the table did.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[inline]
    fn find_in(&self, bucket: &Bucket, hash: u32, key: &K) -> Option<Slot> {
        let mut candidates = bucket.matches(tag(hash)).map(|(_, block)| block);
        candidates.find(|block| self.blocks[*block as usize].key == *key).map(Slot)
    }

    #[inline]
    fn primary(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The other bucket of an entry: its own inverse, so that an entry can move without its key.
    #[inline]
    fn alternate(&self, bucket: usize, tag: u8) -> usize {
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
                let home = self.primary(self.blocks[block as usize].hash);
                self.add_spilled(home, if home == bucket { 1 } else { -1 });
                return Some((bucket, entry));
            }
        }
        None
    }

    /// A block from a full table: of a dead flow, or as [`WhenFull`] says.
    fn reclaim(&mut self, now_ns: u64, gone: &mut impl FnMut(&K, &S)) -> Option<u32> {
        let mut oldest: Option<(u64, u32)> = None;
        for _ in 0..RECLAIM_SCAN_BLOCKS.min(self.blocks.len()) {
            let block = self.next_candidate();
            let Some(deadline_ns) = self.lives_until(block) else { continue };
            if deadline_ns <= now_ns {
                self.evict(block, Departure::Expired, gone);
                return self.free.pop();
            }
            if oldest.is_none_or(|(oldest_ns, _)| deadline_ns < oldest_ns) {
                oldest = Some((deadline_ns, block));
            }
        }
        match (self.when_full, oldest) {
            (WhenFull::EvictOldest, Some((_, block))) => {
                self.evict(block, Departure::Evicted, gone);
                self.free.pop()
            }
            _ => None,
        }
    }

    /// The next block to look at for one that can go. The dead may be looked for in any order, so in that
    /// of memory. A flow to evict is looked for all over the table: flows that came together lie together,
    /// and a stretch of established ones would lose one each time the hand comes by.
    fn next_candidate(&mut self) -> u32 {
        match self.when_full {
            // A table this small is looked at whole.
            _ if self.blocks.len() <= RECLAIM_SCAN_BLOCKS => self.advance_hand(),
            WhenFull::Reject => self.advance_hand(),
            WhenFull::EvictOldest => {
                self.draws += 1;
                let draw = hash_bytes(&self.draws.to_le_bytes(), 0);
                ((u128::from(draw) * self.blocks.len() as u128) >> 64) as u32
            }
        }
    }

    fn evict(&mut self, block: u32, why: Departure, gone: &mut impl FnMut(&K, &S)) {
        let Block { key, state, deadline_ns, .. } = self.blocks[block as usize];
        if let Some(state) = state {
            gone(&key, &state);
            let departed = hash_bytes(state.as_bytes(), hash_bytes(key.as_bytes(), deadline_ns));
            self.departed = self.departed.wrapping_add(departed);
        }
        match why {
            Departure::Expired => self.counters.expired += 1,
            Departure::Evicted => self.counters.evicted += 1,
        }
        self.unlink(block);
    }

    fn unlink(&mut self, block: u32) {
        let hash = self.blocks[block as usize].hash;
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
        self.blocks[block as usize].state = None;
        self.free.push(block);
    }

    fn add_spilled(&mut self, bucket: usize, change: i32) {
        let spilled = self.buckets[bucket].spilled();
        debug_assert!(change > 0 || spilled > 0);
        self.buckets[bucket].set_spilled(spilled.wrapping_add_signed(change));
    }

    fn advance_hand(&mut self) -> u32 {
        let block = self.hand;
        self.hand = if block + 1 == self.blocks.len() as u32 { 0 } else { block + 1 };
        block
    }

    fn lives_until(&self, block: u32) -> Option<u64> {
        let block = &self.blocks[block as usize];
        block.state.is_some().then_some(block.deadline_ns)
    }
}

/// Buckets of a table for `capacity` flows.
fn buckets(capacity: usize) -> usize {
    capacity.div_ceil(MEAN_ENTRIES_MAX).next_power_of_two()
}

/// Eight bits of the hash that the bucket number does not use, and never 0.
#[inline]
fn tag(hash: u32) -> u8 {
    ((hash >> 24) as u8).max(1)
}
