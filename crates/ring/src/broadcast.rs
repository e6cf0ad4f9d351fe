//! A [log](crate::log()) of one column that one thread writes and several read.
//!
//! ```
//! # use paceline_ring as ring;
//! let (mut publisher, mut subscribers) = ring::broadcast(4, 2);
//! assert!([1, 2, 3].into_iter().all(|item| publisher.push(item)));
//! publisher.publish();
//! for subscriber in &mut subscribers {
//!     assert_eq!(subscriber.published(), 3);
//!     assert_eq!(subscriber.items(0, 3), [1, 2, 3]);
//!     subscriber.release(3);
//! }
//! ```
//!
//! Items are found by their numbers: the first that was ever pushed has number 0. A slot is written again when every
//! reader has released the item in it.

use std::mem::MaybeUninit;

use crate::log::{Column, Reader, Tickets, Writer, log};

/// Makes a ring of at least `capacity` slots, rounded up to a power of two, for so many readers.
///
/// # Panics
/// If `capacity` is 0, or so large that there is no such power of two or no memory for it.
pub fn broadcast<T: Copy>(capacity: usize, readers: usize) -> (Publisher<T>, Vec<Subscriber<T>>) {
    let (tickets, readers) = log(capacity, readers);
    let (column, writer) = (tickets.column(MaybeUninit::uninit()), tickets.writer());
    let subscriber = |reader| Subscriber { reader, column: column.clone() };
    let subscribers = readers.into_iter().map(subscriber).collect();
    (Publisher { writer, tickets, column, pushed: 0 }, subscribers)
}

/// The end that items go into. Nothing comes after what was published before it is dropped.
#[derive(Debug)]
pub struct Publisher<T> {
    writer: Writer,
    tickets: Tickets,
    /// What is published of it is written: [`Publisher::extend`] writes all that it claims.
    column: Column<MaybeUninit<T>>,
    /// Items ever pushed.
    pushed: usize,
}

impl<T: Copy> Publisher<T> {
    /// Writes one more item; says whether there was a free slot. O(1), O(readers) where it has to look for one. Readers
    /// see it once it is published.
    #[inline]
    #[must_use = "an item without a slot is not written"]
    pub fn push(&mut self, item: T) -> bool {
        self.extend(1, |_| item)
    }

    /// Writes `count` more items, of which `item` makes each from its index; says whether there was a free slot for each:
    /// if not, it makes and writes none. O(count), and O(readers) where it has to look for slots.
    #[inline]
    #[must_use = "items without slots are not written"]
    pub fn extend(&mut self, count: usize, mut item: impl FnMut(usize) -> T) -> bool {
        if !self.writer.claim(&mut self.tickets, count) {
            return false;
        }
        self.column.write_from(&mut self.writer, self.pushed, |index| MaybeUninit::new(item(index)));
        self.pushed += count;
        true
    }

    /// Whether so many slots are free. O(1), O(readers) where it has to look for them.
    #[inline]
    pub fn has_room(&mut self, items: usize) -> bool {
        self.tickets.has_room(items)
    }

    /// Lets readers see all that was pushed.
    #[inline]
    pub fn publish(&mut self) {
        // Not so where making an item has panicked.
        assert!(self.pushed == self.writer.end(), "what is published is written");
        let is_published = self.writer.publish();
        debug_assert!(is_published, "there is no other writer");
    }
}

/// An end that items are read from.
#[derive(Debug)]
pub struct Subscriber<T> {
    reader: Reader,
    /// What is published of it is written: [`Publisher::extend`] writes all that it claims.
    column: Column<MaybeUninit<T>>,
}

impl<T: Copy> Subscriber<T> {
    /// How many items were ever published.
    #[inline]
    pub fn published(&mut self) -> usize {
        self.reader.published()
    }

    /// Items from number `first` on: see [`Column::items`].
    ///
    /// # Panics
    /// As that.
    #[inline]
    #[cfg(not(feature = "loom"))]
    pub fn items(&self, first: usize, count: usize) -> &[T] {
        let items = self.column.items(&self.reader, first, count);
        // SAFETY: they are published, and so written; a `MaybeUninit` is laid out as what it holds.
        unsafe { &*(std::ptr::from_ref(items) as *const [T]) }
    }

    /// The item with this number.
    ///
    /// # Panics
    /// As [`Column::items`].
    #[inline]
    pub fn item(&self, number: usize) -> T {
        // SAFETY: it is published, and so written.
        unsafe { self.column.item(&self.reader, number).assume_init() }
    }

    /// Gives back all items below this number: they will be written over.
    ///
    /// # Panics
    /// If some of these were not published when [`Subscriber::published`] was asked last.
    #[inline]
    pub fn release(&mut self, below: usize) {
        self.reader.release(below);
    }

    /// Whether the publisher is gone. What it published is seen by a [`Subscriber::published`] that comes after this.
    pub fn is_abandoned(&self) -> bool {
        self.reader.is_abandoned()
    }
}
