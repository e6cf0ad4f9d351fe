//! A bounded ring that one thread writes and several read: each reader sees all items, in order, where they were
//! written, without a copy.
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

use std::fmt;
use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::shared::Presence;
use crate::sync::{
    Arc, AtomicUsize, Fault, Ordering, UnsafeCell, acquire_unless, is_planted, release_unless,
};

/// What all ends reach.
struct Shared<T> {
    /// How many items readers may read. The publisher writes it.
    published: CachePadded<AtomicUsize>,
    /// By reader, how many items it has released, each written by its reader; [`GONE`] once the reader is gone.
    released: Box<[CachePadded<AtomicUsize>]>,
    publisher: Presence,
    /// A power of two of them.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

/// Nothing waits for a reader that is gone.
const GONE: usize = usize::MAX;

// SAFETY: a slot is written by the publisher alone, while no reader may read it (`Publisher::push`), and read by
// several readers at once between (`Subscriber::check`): so items are sent, and shared.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, number: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[number & (self.slots.len() - 1)]
    }
}

/// Makes a ring of at least `capacity` slots, rounded up to a power of two, for so many readers.
///
/// # Panics
/// If `capacity` is 0, or so large that there is no such power of two or no memory for it.
pub fn broadcast<T: Copy>(capacity: usize, readers: usize) -> (Publisher<T>, Vec<Subscriber<T>>) {
    assert!(capacity > 0, "a ring has at least one slot");
    let zero = || CachePadded::new(AtomicUsize::new(0));
    let shared = Arc::new(Shared {
        published: zero(),
        released: (0..readers).map(|_| zero()).collect(),
        publisher: Presence::default(),
        slots: (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let subscriber = |reader| Subscriber { shared: Arc::clone(&shared), reader, released: 0, published: 0 };
    let subscribers = (0..readers).map(subscriber).collect();
    (Publisher { shared, pushed: 0, free: capacity.next_power_of_two() }, subscribers)
}

/// The end that items go into.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    /// Items ever pushed.
    pushed: usize,
    /// Slots known to be free: by now they may be more.
    free: usize,
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
        if !self.has_room(count) {
            return false;
        }
        let slots = &self.shared.slots;
        let mut index = 0;
        // One run of slots behind each other, and where the ring's end is between, another.
        while index < count {
            let slots = &slots[self.pushed & (slots.len() - 1)..];
            let run = slots.len().min(count - index);
            for slot in &slots[..run] {
                let item = item(index);
                // SAFETY: all readers have released what was in this slot, so that none will read it before it is
                // published.
                slot.with_mut(|slot| unsafe { (*slot).write(item) });
                index += 1;
            }
            self.pushed += run;
        }
        self.free -= count;
        true
    }

    /// Whether so many slots are free. O(1), O(readers) where it has to look for them.
    #[inline]
    pub fn has_room(&mut self, items: usize) -> bool {
        self.free >= items || self.find_free() >= items
    }

    /// Lets readers see all that was pushed.
    #[inline]
    pub fn publish(&mut self) {
        self.shared.published.store(self.pushed, release_unless(Fault::PushRelaxed));
    }

    /// Looks at what the readers have released; says how many slots are free now.
    #[cold]
    fn find_free(&mut self) -> usize {
        let asked = if is_planted(Fault::OneReaderAsked) { 1 } else { usize::MAX };
        let released = self.shared.released.iter().take(asked);
        let least = released.map(|one| one.load(acquire_unless(Fault::HeadSeenRelaxed))).min();
        let used = self.pushed - least.unwrap_or(self.pushed).min(self.pushed);
        self.free = self.shared.slots.len() - used;
        self.free
    }
}

/// Nothing comes after what was published.
impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        self.shared.publisher.leave();
    }
}

/// An end that items are read from.
pub struct Subscriber<T> {
    shared: Arc<Shared<T>>,
    reader: usize,
    /// Items released by this reader.
    released: usize,
    /// Items known to be published: by now they may be more.
    published: usize,
}

impl<T: Copy> Subscriber<T> {
    /// How many items were ever published.
    #[inline]
    pub fn published(&mut self) -> usize {
        self.published = self.shared.published.load(acquire_unless(Fault::TailSeenRelaxed));
        self.published
    }

    /// Items from number `first` on, as many as `count` where they lie one behind the other: fewer at the ring's end,
    /// never none.
    ///
    /// # Panics
    /// If `count` is 0, or some of these are released, or were not published when [`Subscriber::published`] was asked last.
    #[inline]
    #[cfg(not(feature = "loom"))]
    pub fn items(&self, first: usize, count: usize) -> &[T] {
        self.check(first, count);
        let begin = first & (self.shared.slots.len() - 1);
        let slots = &self.shared.slots[begin..];
        let slots = &slots[..count.min(slots.len())];
        // SAFETY: a cell is laid out as its item is. These are written, as they are published, and stay so until this
        // reader releases them, which takes `self` alone.
        unsafe { std::slice::from_raw_parts(slots.as_ptr().cast::<T>(), slots.len()) }
    }

    /// The item with this number.
    ///
    /// # Panics
    /// As [`Subscriber::items`].
    #[inline]
    pub fn item(&self, number: usize) -> T {
        self.check(number, 1);
        // SAFETY: as in `items`.
        self.shared.slot(number).with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// Gives back all items below this number: they will be written over.
    ///
    /// # Panics
    /// If some of these were not published when [`Subscriber::published`] was asked last.
    #[inline]
    pub fn release(&mut self, below: usize) {
        assert!(self.released <= below && below <= self.published, "items are released once, and in order");
        self.released = below;
        self.shared.released[self.reader].store(below, release_unless(Fault::PopRelaxed));
    }

    /// Whether the publisher is gone. What it published is seen by a [`Subscriber::published`] that comes after this.
    pub fn is_abandoned(&self) -> bool {
        self.shared.publisher.is_gone()
    }

    #[inline]
    fn check(&self, first: usize, count: usize) {
        assert!(
            count > 0 && self.released <= first && count <= self.published.saturating_sub(first),
            "items that are not to be read"
        );
    }
}

impl<T> Drop for Subscriber<T> {
    fn drop(&mut self) {
        self.shared.released[self.reader].store(GONE, Ordering::Release);
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("pushed", &self.pushed).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("released", &self.released).finish_non_exhaustive()
    }
}
