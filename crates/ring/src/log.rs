//! A bounded log that several threads write and several read, in columns: each writer has the next numbers to itself, writes
//! what belongs to them, and publishes in the order of the numbers. Each reader sees all of it in that order, where it was
//! written, without a copy.
//!
//! ```
//! # use paceline_ring as ring;
//! let (mut tickets, mut readers) = ring::log(8, 1);
//! let (times, lengths) = (tickets.column(0_u64), tickets.column(0_u16));
//! let (mut first, mut second) = (tickets.writer(), tickets.writer());
//!
//! assert!(first.claim(&mut tickets, 2) && second.claim(&mut tickets, 1));
//! lengths.write(&mut second, |_| 60);
//! times.write(&mut second, |_| 30);
//! assert!(!second.publish(), "those before come first");
//! times.write(&mut first, |index| 10 * (1 + index as u64));
//! assert!(first.publish() && second.publish());
//!
//! let reader = &mut readers[0];
//! assert_eq!(reader.published(), 3);
//! assert_eq!(times.items(reader, 0, 3), [10, 20, 30]);
//! assert_eq!(lengths.items(reader, 0, 3), [0, 0, 60], "what nobody wrote is as at first");
//! reader.release(3);
//! ```
//!
//! Who holds the [`Tickets`] gives out numbers: one thread, or whichever holds a lock. Everything else goes without one. A
//! number is given out once every reader has released what was in its slot, and a writer waits only for those with lower
//! numbers: so the one with the lowest never waits, and there is no deadlock as long as each that has numbers goes on to
//! publish them. One that cannot, since its thread ends, [breaks](Reader::is_broken) the log.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::sync::{
    Arc, AtomicUsize, Fault, Ordering, UnsafeCell, acquire_unless, is_planted, release_unless,
};

/// What all ends reach.
struct Cursor {
    /// How many items readers may read. Written by the writer whose turn it is.
    published: CachePadded<AtomicUsize>,
    /// One more than there will ever be; [`OPEN`] as long as more may come; [`BROKEN`] if not all that were claimed will.
    end: CachePadded<AtomicUsize>,
    /// By reader, how many items it has released, each written by its reader; [`GONE`] once the reader is gone.
    released: Box<[CachePadded<AtomicUsize>]>,
    /// Slots of each column: a power of two.
    slots: usize,
}

/// Nothing waits for a reader that is gone.
const GONE: usize = usize::MAX;

/// More items may come.
const OPEN: usize = usize::MAX;

/// A writer left without publishing what it had claimed.
const BROKEN: usize = 0;

/// Makes a log with at least `capacity` slots, rounded up to a power of two, for so many readers.
///
/// # Panics
/// If `capacity` is 0, or so large that there is no such power of two.
pub fn log(capacity: usize, readers: usize) -> (Tickets, Vec<Reader>) {
    assert!(capacity > 0, "a log has at least one slot");
    let padded = |value| CachePadded::new(AtomicUsize::new(value));
    let cursor = Arc::new(Cursor {
        published: padded(0),
        end: padded(OPEN),
        released: (0..readers).map(|_| padded(0)).collect(),
        slots: capacity.next_power_of_two(),
    });
    let reader = |reader| Reader { cursor: Arc::clone(&cursor), reader, released: 0, published: 0 };
    let readers = (0..readers).map(reader).collect();
    (Tickets { claimed: 0, free: cursor.slots, cursor }, readers)
}

/// The numbers that are next. There is one of it for each log.
pub struct Tickets {
    cursor: Arc<Cursor>,
    /// Numbers given out.
    claimed: usize,
    /// Slots known to be free: by now they may be more.
    free: usize,
}

impl Tickets {
    /// A column of the log, with `fill` in each slot.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn column<T: Copy>(&self, fill: T) -> Column<T> {
        let slots = (0..self.cursor.slots).map(|_| UnsafeCell::new(fill)).collect();
        Column { cursor: Arc::clone(&self.cursor), slots: Arc::new(Slots(slots)) }
    }

    /// One more that writes.
    pub fn writer(&self) -> Writer {
        Writer { cursor: Arc::clone(&self.cursor), first: 0, end: 0 }
    }

    /// Whether so many numbers can be given out now. O(1), O(readers) where it has to look for slots.
    #[inline]
    pub fn has_room(&mut self, items: usize) -> bool {
        self.free >= items || self.find_free() >= items
    }

    /// How many numbers were given out.
    pub fn claimed(&self) -> usize {
        self.claimed
    }

    /// Looks at what the readers have released, and what is published where none is there; says how many slots are free now.
    #[cold]
    fn find_free(&mut self) -> usize {
        let asked = if is_planted(Fault::OneReaderAsked) { 1 } else { usize::MAX };
        let released = self.cursor.released.iter().take(asked);
        let least = released.map(|one| one.load(acquire_unless(Fault::HeadSeenRelaxed))).min();
        // A slot is its writer's until it is published, read or not. Readers release no more than that.
        let published = || self.cursor.published.load(acquire_unless(Fault::HeadSeenRelaxed));
        let least = least.filter(|least| *least != GONE).unwrap_or_else(published);
        let used = self.claimed - least;
        self.free = self.cursor.slots - used;
        self.free
    }

    /// No more numbers will be given out: readers find the [end](Reader::is_abandoned) behind the last one.
    pub fn close(&mut self) {
        // What is broken stays so.
        self.cursor.end.fetch_min(self.claimed + 1, release_unless(Fault::LeaveRelaxed));
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        self.close();
    }
}

/// An end that writes what it has numbers for.
pub struct Writer {
    cursor: Arc<Cursor>,
    /// The numbers that it has: none where both are alike.
    first: usize,
    end: usize,
}

impl Writer {
    /// Takes the next `count` numbers, beside those that it has; says whether it could: not where slots are missing.
    ///
    /// # Panics
    /// If the tickets are of another log, or if it has numbers and others have come between.
    #[inline]
    #[must_use = "without numbers nothing is written"]
    pub fn claim(&mut self, tickets: &mut Tickets, count: usize) -> bool {
        assert!(Arc::ptr_eq(&self.cursor, &tickets.cursor), "tickets of this log");
        if !tickets.has_room(count) {
            return false;
        }
        if self.first == self.end {
            self.first = tickets.claimed;
            self.end = self.first;
        }
        assert!(self.end == tickets.claimed, "numbers that follow");
        tickets.claimed += count;
        tickets.free -= count;
        self.end += count;
        true
    }

    /// The first number that it has, or had.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Behind the last number that it has, or had.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Lets readers see what it has written, if all lower numbers are published; says whether they were. Otherwise it is to
    /// be called again.
    #[inline]
    #[must_use = "what is not published is to be published later"]
    pub fn publish(&mut self) -> bool {
        if self.first == self.end {
            return true;
        }
        let published = self.cursor.published.load(acquire_unless(Fault::TurnSeenRelaxed));
        if published != self.first && !is_planted(Fault::PublishedOutOfTurn) {
            return false;
        }
        self.cursor.published.store(self.end, release_unless(Fault::PushRelaxed));
        self.first = self.end;
        true
    }

    /// Whether another writer is gone that had numbers: those behind will never be published.
    pub fn is_broken(&self) -> bool {
        self.cursor.end.load(Ordering::Relaxed) == BROKEN
    }
}

/// What it had numbers for will never be published.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.first != self.end {
            self.cursor.end.store(BROKEN, Ordering::Release);
        }
    }
}

/// The slots of a column.
struct Slots<T>(Box<[UnsafeCell<T>]>);

// SAFETY: a slot is written by the one writer that has its number, while no reader may read it (`Column::write`), and read
// by several readers at once between (`Reader::check`): so items are sent, and shared.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Slots<T> {}

/// One column of a log. Clones are the same column.
pub struct Column<T> {
    cursor: Arc<Cursor>,
    slots: Arc<Slots<T>>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Column<T> {
        Column { cursor: Arc::clone(&self.cursor), slots: Arc::clone(&self.slots) }
    }
}

impl<T: Copy> Column<T> {
    /// Writes the items of all numbers that `writer` has: `item` makes each from its index among them. O(of these).
    ///
    /// # Panics
    /// If the writer is of another log.
    #[inline]
    pub fn write(&self, writer: &mut Writer, item: impl FnMut(usize) -> T) {
        let first = writer.first;
        self.write_from(writer, first, item);
    }

    /// Writes `item(n)` to the columns of `writer`'s turn, as `write` does, from number `first` on.
    #[inline]
    pub(crate) fn write_from(&self, writer: &mut Writer, first: usize, mut item: impl FnMut(usize) -> T) {
        assert!(Arc::ptr_eq(&self.cursor, &writer.cursor), "a writer of this log");
        assert!(writer.first <= first && first <= writer.end, "numbers that the writer has");
        let (slots, mut number, mut index) = (&self.slots.0, first, 0);
        // One run of slots behind each other, and where the column's end is between, another.
        while number < writer.end {
            let slots = &slots[number & (slots.len() - 1)..];
            let run = slots.len().min(writer.end - number);
            for slot in &slots[..run] {
                let item = item(index);
                // SAFETY: the number is this writer's alone (`Writer::claim`), and `&mut` says that no other thread
                // writes for it. All readers have released what was in this slot, so that none will read it before it
                // is published.
                slot.with_mut(|slot| unsafe { *slot = item });
                index += 1;
            }
            number += run;
        }
    }

    /// Items from number `first` on, as many as `count` where they lie one behind the other: fewer at the column's end,
    /// never none.
    ///
    /// # Panics
    /// If `count` is 0, if the reader is of another log, or if some of these are released, or were not published when
    /// [`Reader::published`] was asked last.
    #[inline]
    #[cfg(not(feature = "loom"))]
    pub fn items<'a>(&'a self, reader: &'a Reader, first: usize, count: usize) -> &'a [T] {
        self.check(reader, first, count);
        let slots = &self.slots.0[first & (self.slots.0.len() - 1)..];
        let slots = &slots[..count.min(slots.len())];
        // SAFETY: a cell is laid out as its item is. Nobody writes these: they are published, and stay so until this
        // reader releases them, which takes `&mut` of it.
        unsafe { std::slice::from_raw_parts(slots.as_ptr().cast::<T>(), slots.len()) }
    }

    /// The item with this number.
    ///
    /// # Panics
    /// As [`Column::items`].
    #[inline]
    pub fn item(&self, reader: &Reader, number: usize) -> T {
        self.check(reader, number, 1);
        let slots = &self.slots.0;
        // SAFETY: as in `items`.
        slots[number & (slots.len() - 1)].with(|slot| unsafe { *slot })
    }

    #[inline]
    fn check(&self, reader: &Reader, first: usize, count: usize) {
        assert!(Arc::ptr_eq(&self.cursor, &reader.cursor), "a reader of this log");
        assert!(
            count > 0 && reader.released <= first && count <= reader.published.saturating_sub(first),
            "items that are not to be read"
        );
    }
}

/// An end that items are read from.
pub struct Reader {
    cursor: Arc<Cursor>,
    reader: usize,
    /// Items released by this reader.
    released: usize,
    /// Items known to be published: by now they may be more.
    published: usize,
}

impl Reader {
    /// How many items were ever published.
    #[inline]
    pub fn published(&mut self) -> usize {
        self.published = self.cursor.published.load(acquire_unless(Fault::TailSeenRelaxed));
        self.published
    }

    /// Gives back all items below this number: they will be written over.
    ///
    /// # Panics
    /// If some of these were not published when [`Reader::published`] was asked last.
    #[inline]
    pub fn release(&mut self, below: usize) {
        assert!(self.released <= below && below <= self.published, "items are released once, and in order");
        self.released = below;
        self.cursor.released[self.reader].store(below, release_unless(Fault::PopRelaxed));
    }

    /// Whether nothing comes behind what is published. All of it is seen by a [`Reader::published`] that comes after this.
    pub fn is_abandoned(&self) -> bool {
        let end = self.cursor.end.load(acquire_unless(Fault::LeavingSeenRelaxed));
        end != OPEN && self.cursor.published.load(Ordering::Relaxed) + 1 >= end
    }

    /// Whether a writer is gone that had numbers: those behind will never be published.
    pub fn is_broken(&self) -> bool {
        self.cursor.end.load(Ordering::Relaxed) == BROKEN
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.cursor.released[self.reader].store(GONE, Ordering::Release);
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("claimed", &self.claimed).finish_non_exhaustive()
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("first", &self.first).field("end", &self.end).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("released", &self.released).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column").field("slots", &self.cursor.slots).finish_non_exhaustive()
    }
}
