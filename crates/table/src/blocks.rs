//! The blocks: one per flow, each a head, the flow's state in every function that shares the table,
//! and the key where it does not fit in the head.
//!
//! ```text
//! 0       16         24
//! | short | identity | part | part | ... | key |      rounded up to whole cache lines
//!               each: | deadline | state |
//! ```

#![allow(unsafe_code)]

use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nf::{FlowKey, Short, hash_u128};
use zerocopy::FromZeros;
use zerocopy::{Immutable, IntoBytes};

use crate::error::OutOfMemory;
use crate::slot::Slot;
use memory::Array;
use memory::{LINE_BYTES, prefetch_lines_to};

/// Lines of a block that are asked for ahead. More would crowd out the other packets'.
const LINES_AHEAD_MAX: usize = 4;

/// The most functions that share a table.
pub const PARTS_MAX: usize = 16;

/// One cache line. What lies between a state and its cell's end holds nothing once a cell has moved.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Line([MaybeUninit<u64>; LINE_BYTES / 8]);

/// What begins each block.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Head {
    /// [`Short::bits`], its low and its high half.
    short: [u64; 2],
    /// The flow's hash and [`TAKEN`]; 0 while the block is free.
    identity: u64,
}

impl Head {
    /// A hash of what stands for the flow's key and a number, whatever the table's seed.
    #[inline(always)]
    fn hash_flow(&self, number: u64) -> u64 {
        let [low, high] = self.short.map(u128::from);
        hash_u128(low | high << 64, number)
    }
}

/// Low and high half of what stands for a key.
#[inline(always)]
fn halves(short: Short) -> [u64; 2] {
    [short.bits as u64, (short.bits >> 64) as u64]
}

/// Set in the identity of a block that a flow has.
pub(crate) const TAKEN: u64 = 1 << 32;

/// Where the states of the functions that share a table lie in its blocks.
///
/// Made before the table: each function adds its state's type and keeps the [`Part`] that it gets. There is
/// no second of the same identity.
#[derive(Debug)]
pub struct Layout {
    /// So that a part is used with its own table alone.
    id: u32,
    parts: Vec<PartLayout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartLayout {
    /// Blocks go from table to table where this is the same.
    state: TypeId,
    bytes: usize,
    align: usize,
}

/// A function's place in the blocks of one [`Layout`].
pub struct Part<S> {
    layout: u32,
    index: u32,
    /// Neither a wider nor a narrower type will do: states are read and written as this one.
    state: PhantomData<fn(S) -> S>,
}

impl<S> Clone for Part<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Part<S> {}

/// One function's state of one flow.
#[repr(C)]
pub struct Cell<S> {
    /// When the flow dies if nothing steps it; 0: it has no state here.
    deadline_ns: u64,
    state: MaybeUninit<S>,
}

impl Layout {
    /// Blocks without any state yet.
    ///
    /// # Panics
    /// After four billion of them.
    #[allow(clippy::new_without_default, reason = "each has an identity of its own")]
    pub fn new() -> Layout {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        Layout { id: next_id(&NEXT_ID), parts: Vec::new() }
    }

    /// Makes room for a state: plain bytes, which any thread may have.
    ///
    /// # Panics
    /// If `S` wants to be aligned to more than a cache line, or [`PARTS_MAX`] have been added.
    pub fn add<S: Copy + IntoBytes + Immutable + Send + 'static>(&mut self) -> Part<S> {
        let state = TypeId::of::<S>();
        let part = PartLayout { state, bytes: size_of::<Cell<S>>(), align: align_of::<Cell<S>>() };
        assert!(part.align <= LINE_BYTES, "a state aligned to {} bytes", part.align);
        assert!(self.parts.len() < PARTS_MAX, "more than {PARTS_MAX} parts");
        self.parts.push(part);
        Part { layout: self.id, index: self.parts.len() as u32 - 1, state: PhantomData }
    }

    /// Offsets of the parts, and where they end. Packed without holes but those of alignment; where it
    /// takes no more lines, so that no part lies across two lines without need.
    fn place(&self) -> (Vec<usize>, usize) {
        let lines = |end: usize| end.div_ceil(LINE_BYTES);
        let dense = self.place_by(|offset, _| offset);
        let whole = self.place_by(|offset, part| {
            let crosses = lines(offset + part.bytes) > lines(offset + 1) && part.bytes <= LINE_BYTES;
            if crosses { offset.next_multiple_of(LINE_BYTES) } else { offset }
        });
        if lines(whole.1) > lines(dense.1) { dense } else { whole }
    }

    fn place_by(&self, begin: impl Fn(usize, &PartLayout) -> usize) -> (Vec<usize>, usize) {
        let mut end = size_of::<Head>();
        let mut offsets = Vec::new();
        for part in &self.parts {
            let offset = begin(end.next_multiple_of(part.align), part);
            offsets.push(offset);
            end = offset + part.bytes;
        }
        (offsets, end)
    }
}

/// The next number. Counting round would give one twice, and parts would read states of other types.
fn next_id(next: &AtomicU32) -> u32 {
    let id = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
    id.expect("fewer than four billion layouts")
}

/// A cell with a state.
pub struct Live<'a, S>(&'a mut Cell<S>);

impl<S> std::fmt::Debug for Live<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("deadline_ns", &self.0.deadline_ns).finish_non_exhaustive()
    }
}

impl<S: Copy> Live<'_, S> {
    /// The state.
    #[inline(always)]
    pub fn state(&mut self) -> &mut S {
        // SAFETY: the deadline is above another number, so it is not 0, and `Cell::set` has written the state with it.
        unsafe { self.0.state.assume_init_mut() }
    }

    /// Sets until when it lives.
    #[inline(always)]
    pub fn renew(self, deadline_ns: u64) {
        self.0.deadline_ns = deadline_ns.max(1);
    }
}

impl<S: Copy> Cell<S> {
    /// The state, of a flow dead or alive.
    #[inline]
    pub fn state(&self) -> Option<&S> {
        // SAFETY: `set` alone makes the deadline other than 0, and writes the state with it.
        (self.deadline_ns != 0).then(|| unsafe { self.state.assume_init_ref() })
    }

    /// When the flow dies if nothing steps it; 0 where there is no state.
    #[inline]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Whether there is a state, and it is dead to a packet of its own flow at `now_ns`: that packet finds none. Of
    /// other flows [`Watermark::is_past`](crate::Watermark::is_past) says whether they are dead.
    #[inline]
    pub fn is_dead_at(&self, now_ns: u64) -> bool {
        self.deadline_ns != 0 && self.deadline_ns <= now_ns
    }

    /// The state where it is, if it is alive to a packet of its own flow at `now_ns`.
    #[inline(always)]
    pub fn live_at(&mut self, now_ns: u64) -> Option<Live<'_, S>> {
        (self.deadline_ns > now_ns).then_some(Live(self))
    }

    /// Sets state and deadline.
    #[inline]
    pub fn set(&mut self, state: S, deadline_ns: u64) {
        self.state = MaybeUninit::new(state);
        // 0 is for no state; that early in 1970 one nanosecond more does no harm.
        self.deadline_ns = deadline_ns.max(1);
    }

    /// Takes the state away.
    #[inline]
    pub fn clear(&mut self) {
        self.deadline_ns = 0;
    }
}

/// One function's states of all flows, for several steps: see [`FlowTable::cells_mut`](crate::FlowTable::cells_mut).
pub struct Cells<'a, K, S> {
    blocks: *mut u8,
    /// Offset of the flow's key in each block, bytes.
    key_offset: usize,
    /// Offset of the part in each block, bytes.
    offset: usize,
    /// Bytes of a block.
    stride: usize,
    len: u32,
    borrow: PhantomData<&'a mut (K, Cell<S>)>,
}

impl<K, S> Cells<'_, K, S> {
    /// The state in a block, and its deadline.
    ///
    /// # Panics
    /// If there is no such block.
    #[inline(always)]
    pub fn at(&mut self, slot: Slot) -> &mut Cell<S> {
        // SAFETY: as in `Blocks::cell_mut`, whose checks of the part `Blocks::cells_mut` has done; this borrows the table
        // alone, and lends one cell at a time.
        unsafe { &mut *self.block(slot).add(self.offset).cast() }
    }

    /// The flow's key, and its state.
    ///
    /// # Panics
    /// If there is no such block.
    #[inline(always)]
    pub fn flow(&mut self, slot: Slot) -> (&K, &mut Cell<S>) {
        let block = self.block(slot);
        // SAFETY: as in `Blocks::key` and `at`; the two do not overlap.
        unsafe { (&*block.add(self.key_offset).cast(), &mut *block.add(self.offset).cast()) }
    }

    /// What [`FlowTable::hash_flow`](crate::FlowTable::hash_flow) gives.
    ///
    /// # Panics
    /// If there is no such block.
    #[inline(always)]
    pub fn hash_flow(&self, slot: Slot, number: u64) -> u64 {
        // SAFETY: as in `Blocks::head`; while this borrows the table nobody else changes it.
        unsafe { &*self.block(slot).cast::<Head>() }.hash_flow(number)
    }

    #[inline(always)]
    fn block(&self, slot: Slot) -> *mut u8 {
        assert!(slot.number() < self.len, "no such block");
        // SAFETY: the memory has `len` blocks of `stride` bytes.
        unsafe { self.blocks.add(slot.number() as usize * self.stride) }
    }
}

impl<K, S> std::fmt::Debug for Cells<'_, K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cells").field("blocks", &self.len).finish_non_exhaustive()
    }
}

/// Blocks on their way from one table to another, with all that is in them.
#[derive(Clone)]
pub struct Parcel<K> {
    shape: Arc<[PartLayout]>,
    /// Cache lines of one block.
    lines: usize,
    memory: Vec<Line>,
    key: PhantomData<fn() -> K>,
}

impl<K> Parcel<K> {
    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.memory.len() / self.lines
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }
}

impl<K> std::fmt::Debug for Parcel<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel").field("blocks", &self.len()).finish_non_exhaustive()
    }
}

/// All blocks of a table.
pub(crate) struct Blocks<K> {
    memory: Array<Line>,
    lines: usize,
    len: u32,
    layout: u32,
    /// The parts as they were when the table was made.
    shape: Arc<[PartLayout]>,
    /// By index of the part; those of parts that there are not are 0.
    offsets: [u32; PARTS_MAX],
    parts: usize,
    key_offset: usize,
    /// Lines up to the end of the last part: what a step reads.
    lines_ahead: usize,
    key: PhantomData<fn() -> K>,
}

impl<K: FlowKey> Blocks<K> {
    pub(crate) fn new(layout: &Layout, len: usize) -> Result<Blocks<K>, OutOfMemory> {
        let Shape { offsets, parts_end, key_offset, lines } = Shape::of::<K>(layout);
        let out_of_memory = OutOfMemory { bytes: (len as u64).saturating_mul((lines * LINE_BYTES) as u64) };
        let all_lines = len.checked_mul(lines).ok_or(out_of_memory)?;
        let memory = Array::zeroed(all_lines).ok_or(out_of_memory)?;
        Ok(Blocks {
            memory,
            lines,
            len: len as u32,
            layout: layout.id,
            shape: layout.parts.as_slice().into(),
            parts: offsets.len(),
            offsets: std::array::from_fn(|part| offsets.get(part).map_or(0, |offset| *offset as u32)),
            key_offset,
            lines_ahead: parts_end.div_ceil(LINE_BYTES).min(LINES_AHEAD_MAX),
            key: PhantomData,
        })
    }

    /// As many empty blocks of the same shape, which the same parts read.
    pub(crate) fn alike(&self, len: usize) -> Result<Blocks<K>, OutOfMemory> {
        let out_of_memory = OutOfMemory { bytes: (len as u64).saturating_mul(self.bytes_each() as u64) };
        let all_lines = len.checked_mul(self.lines).ok_or(out_of_memory)?;
        let memory = self.memory.zeroed_alike(all_lines).ok_or(out_of_memory)?;
        let shape = Arc::clone(&self.shape);
        Ok(Blocks { memory, len: len as u32, shape, ..*self })
    }

    /// Bytes of each block.
    pub(crate) fn bytes_each(&self) -> usize {
        self.lines * LINE_BYTES
    }

    /// Bytes of one block.
    pub(crate) fn block_bytes(layout: &Layout) -> usize {
        Shape::of::<K>(layout).lines * LINE_BYTES
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn at(&self, block: u32) -> *const u8 {
        assert!(block < self.len, "no such block");
        // SAFETY: the memory has `len * lines` lines.
        unsafe { self.memory.as_ptr().add(block as usize * self.lines).cast() }
    }

    #[inline]
    fn at_mut(&mut self, block: u32) -> *mut u8 {
        assert!(block < self.len, "no such block");
        let lines = self.lines;
        // SAFETY: the memory has `len * lines` lines.
        unsafe { self.memory.as_mut_ptr().add(block as usize * lines).cast() }
    }

    #[inline]
    fn head(&self, block: u32) -> &Head {
        // SAFETY: every block begins with a head, which is plain data.
        unsafe { &*self.at(block).cast() }
    }

    #[inline]
    fn head_mut(&mut self, block: u32) -> &mut Head {
        // SAFETY: as in `head`; the borrow of `self` is exclusive.
        unsafe { &mut *self.at_mut(block).cast() }
    }

    #[inline]
    pub(crate) fn is_taken(&self, block: u32) -> bool {
        self.head(block).identity != 0
    }

    /// The hash of the block's flow.
    #[inline]
    pub(crate) fn hash(&self, block: u32) -> u32 {
        self.head(block).identity as u32
    }

    /// Whether `block` holds the flow with this key.
    #[inline]
    pub(crate) fn holds(&self, block: u32, hash: u32, short: Short, key: impl FnOnce() -> K) -> bool {
        self.is_of(block, halves(short), u64::from(hash) | TAKEN)
            && (short.is_exact || *self.key(block) == key())
    }

    /// Whether what stands for a key, and its hash with [`TAKEN`], are those of a block's flow. No number of a block is
    /// that of none.
    #[inline(always)]
    pub(crate) fn is_of(&self, block: u32, short: [u64; 2], identity: u64) -> bool {
        if block >= self.len {
            return false;
        }
        let head = self.head(block);
        head.short == short && head.identity == identity
    }

    /// What a block has of its flow's hash, with [`TAKEN`], if that flow has this key; there need be no such block.
    #[inline(always)]
    pub(crate) fn identity_of(&self, block: u32, short: Short, key: impl FnOnce() -> K) -> Option<u64> {
        if block >= self.len {
            return None;
        }
        let head = self.head(block);
        let is_its = head.short == halves(short) && head.identity & TAKEN != 0;
        (is_its && (short.is_exact || *self.key(block) == key())).then_some(head.identity)
    }

    /// The key of the flow in `block`.
    #[inline]
    pub(crate) fn key(&self, block: u32) -> &K {
        // SAFETY: there is room for a key at this offset, aligned; any bytes are a key.
        unsafe { &*self.at(block).add(self.key_offset).cast() }
    }

    /// A hash of what stands for the flow's key and a number, whatever the table's seed.
    #[inline]
    pub(crate) fn hash_flow(&self, block: u32, number: u64) -> u64 {
        self.head(block).hash_flow(number)
    }

    /// Gives the block to a flow, which has no state in any part yet.
    pub(crate) fn take(&mut self, block: u32, hash: u32, short: Short, key: &K) {
        debug_assert!(!self.is_taken(block));
        let key_offset = self.key_offset;
        if key_offset > 0 {
            // SAFETY: as in `key`; the borrow of `self` is exclusive.
            unsafe { self.at_mut(block).add(key_offset).cast::<K>().write(*key) };
        }
        *self.head_mut(block) = Head { short: halves(short), identity: u64::from(hash) | TAKEN };
        debug_assert!(self.key(block) == key, "a key of at most 16 bytes must stand for itself: {key}");
    }

    /// An empty parcel for blocks like these.
    pub(crate) fn parcel(&self, capacity: usize) -> Parcel<K> {
        Parcel {
            shape: Arc::clone(&self.shape),
            lines: self.lines,
            memory: Vec::with_capacity(capacity * self.lines),
            key: PhantomData,
        }
    }

    /// Copies a block that a flow has into a parcel, and leaves it without any state.
    pub(crate) fn pack(&mut self, block: u32, parcel: &mut Parcel<K>) {
        assert!(self.is_taken(block), "a block that a flow has");
        // As in `unpack`: all that is read from the parcel as a state was written as one.
        assert!(parcel.shape == self.shape, "blocks with states of other types");
        let begin = block as usize * self.lines;
        parcel.memory.extend_from_slice(&self.memory[begin..begin + self.lines]);
        self.end_states(block);
    }

    /// The hash of a packed block's flow.
    pub(crate) fn packed_hash(&self, parcel: &Parcel<K>, index: usize) -> u32 {
        let Line(words) = parcel.memory[index * parcel.lines];
        // SAFETY: a block begins with its head, of which this is the identity, behind the short.
        unsafe { words[2].assume_init() as u32 }
    }

    /// Key and one part of a packed block.
    pub(crate) fn packed<'a, S>(
        &self,
        parcel: &'a Parcel<K>,
        index: usize,
        part: Part<S>,
    ) -> (&'a K, &'a Cell<S>) {
        assert!(parcel.shape == self.shape, "blocks with states of other types");
        let block = &parcel.memory[index * parcel.lines..(index + 1) * parcel.lines];
        let offset = self.offset(part);
        let block: *const u8 = block.as_ptr().cast();
        // SAFETY: as in `key` and `cell`: the block was copied from a table whose parts have these types, and with
        // them these offsets.
        unsafe { (&*block.add(self.key_offset).cast(), &*block.add(offset).cast()) }
    }

    /// Copies a packed block over a block that nobody has.
    pub(crate) fn unpack(&mut self, block: u32, parcel: &Parcel<K>, index: usize) {
        // The types are those of these parts (and the lines then as many), so that all that may be read as a state
        // was written as one.
        assert!(!self.is_taken(block) && parcel.shape == self.shape, "blocks with states of other types");
        let from = &parcel.memory[index * self.lines..(index + 1) * self.lines];
        let begin = block as usize * self.lines;
        self.memory[begin..begin + self.lines].copy_from_slice(from);
    }

    /// Copies the first `used` blocks of another table whose parts have the same types: as bytes, whether or not a
    /// flow has them.
    pub(crate) fn copy_from(&mut self, other: &Blocks<K>, used: u32) {
        // As in `unpack`: all that may be read as a state was written as one.
        assert!(other.shape == self.shape && other.len == self.len, "a table of other states or size");
        let lines = used as usize * self.lines;
        self.memory[..lines].copy_from_slice(&other.memory[..lines]);
    }

    /// Takes the block from its flow, if it has one, with all its states.
    pub(crate) fn clear(&mut self, block: u32) {
        self.head_mut(block).identity = 0;
        self.end_states(block);
    }

    /// Leaves a block without any state.
    fn end_states(&mut self, block: u32) {
        for part in 0..self.parts {
            // SAFETY: every part begins with its deadline, aligned.
            unsafe { self.at_mut(block).add(self.offsets[part] as usize).cast::<u64>().write(0) };
        }
    }

    /// From here on its parts are those of the layout that `other` was made from, which have the same types.
    pub(crate) fn come_to(&mut self, other: &Blocks<K>) {
        // As in `unpack`: all that may be read as a state was written as one.
        assert!(other.shape == self.shape, "a table of other states");
        self.layout = other.layout;
    }

    /// Takes the block from its flow, which has no state in any part any more.
    pub(crate) fn release(&mut self, block: u32) {
        debug_assert!(self.lives_until(block) == 0);
        self.head_mut(block).identity = 0;
    }

    /// When the flow's last state dies; 0 if it has none.
    #[inline]
    pub(crate) fn lives_until(&self, block: u32) -> u64 {
        self.deadlines(block).max().unwrap_or(0)
    }

    /// Each part's deadline.
    #[inline]
    pub(crate) fn deadlines(&self, block: u32) -> impl Iterator<Item = u64> {
        let block = self.at(block);
        // SAFETY: every part begins with its deadline, aligned.
        self.offsets[..self.parts]
            .iter()
            .map(move |offset| unsafe { *block.add(*offset as usize).cast::<u64>() })
    }

    #[inline]
    fn offset<S>(&self, part: Part<S>) -> usize {
        assert!(part.layout == self.layout, "a part of another table");
        assert!((part.index as usize) < self.parts, "a part added after the table was made");
        self.offsets[part.index as usize] as usize
    }

    #[inline]
    pub(crate) fn cell<S>(&self, block: u32, part: Part<S>) -> &Cell<S> {
        let offset = self.offset(part);
        // SAFETY: `Layout::add` made this part for an `S`, and no other type is ever written there. The
        // deadline is initialised (to 0 at first), and the state need not be.
        unsafe { &*self.at(block).add(offset).cast() }
    }

    #[inline]
    pub(crate) fn cell_mut<S>(&mut self, block: u32, part: Part<S>) -> &mut Cell<S> {
        let offset = self.offset(part);
        // SAFETY: as in `cell`; the borrow of `self` is exclusive.
        unsafe { &mut *self.at_mut(block).add(offset).cast() }
    }

    /// One part of all blocks, checked once for all of them.
    #[inline]
    pub(crate) fn cells_mut<S>(&mut self, part: Part<S>) -> Cells<'_, K, S> {
        let offset = self.offset(part);
        let (key_offset, stride, len) = (self.key_offset, self.lines * LINE_BYTES, self.len);
        Cells {
            blocks: self.memory.as_mut_ptr().cast(),
            key_offset,
            offset,
            stride,
            len,
            borrow: PhantomData,
        }
    }

    /// Asks for the lines that a step of the flow will touch.
    #[inline]
    pub(crate) fn prefetch<const REACH: u8>(&self, block: u32) {
        self.lines_ahead().prefetch::<REACH>(block);
    }

    /// Where the lines are that steps touch, for many blocks: read once, and not once a block.
    #[inline(always)]
    pub(crate) fn lines_ahead(&self) -> LinesAhead {
        let Blocks { memory, lines, lines_ahead, .. } = self;
        LinesAhead { blocks: memory.as_ptr().cast(), stride: lines * LINE_BYTES, lines: *lines_ahead }
    }
}

/// The lines of blocks up to the end of the last part.
#[derive(Clone, Copy)]
pub(crate) struct LinesAhead {
    blocks: *const u8,
    /// Bytes of a block.
    stride: usize,
    /// How many lines a step touches.
    lines: usize,
}

impl LinesAhead {
    /// Asks for the lines that a step of the flow will touch.
    #[inline(always)]
    pub(crate) fn prefetch<const REACH: u8>(self, block: u32) {
        let begin = self.blocks.wrapping_add(block as usize * self.stride);
        // Nearly all blocks have one line or two.
        prefetch_lines_to::<REACH>(begin, 1);
        if self.lines > 1 {
            prefetch_lines_to::<REACH>(begin.wrapping_add(LINE_BYTES), 1);
        }
        if self.lines > 2 {
            prefetch_lines_to::<REACH>(begin.wrapping_add(2 * LINE_BYTES), self.lines - 2);
        }
    }
}

/// Where everything is in a block.
struct Shape {
    offsets: Vec<usize>,
    parts_end: usize,
    key_offset: usize,
    lines: usize,
}

impl Shape {
    fn of<K: FlowKey>(layout: &Layout) -> Shape {
        const { assert!(align_of::<K>() <= LINE_BYTES, "a key aligned to more than a cache line") };
        let (offsets, parts_end) = layout.place();
        // A key of at most 16 bytes stands for itself at the head's begin.
        let fits = size_of::<K>() <= 16 && align_of::<K>() <= align_of::<Head>();
        let (key_offset, end) = match fits {
            true => (0, parts_end),
            false => {
                let offset = parts_end.next_multiple_of(align_of::<K>());
                (offset, offset + size_of::<K>())
            }
        };
        Shape { offsets, parts_end, key_offset, lines: end.div_ceil(LINE_BYTES) }
    }
}

#[cfg(test)]
mod tests;
