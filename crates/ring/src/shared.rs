//! The memory that both ends of a ring share: slots, and the two positions.

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicUsize, Fault, Ordering, UnsafeCell, acquire_unless, release_unless};

/// What both ends reach.
pub(crate) struct Shared<T> {
    /// How many items were ever pushed. The producer writes it.
    pub(crate) tail: CachePadded<AtomicUsize>,
    /// How many items were ever popped. The consumer writes it.
    pub(crate) head: CachePadded<AtomicUsize>,
    pub(crate) producer: Presence,
    pub(crate) consumer: Presence,
    /// A power of two of them. Those at `head..tail`, counted round, hold items.
    slots: Box<[Slot<T>]>,
}

struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: the ends share slots and indices alone. A slot is reached by one end at a time, which `read`,
// `write` and `peek` ask of their callers: so items move from thread to thread and are never shared.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(capacity: usize) -> Shared<T> {
        assert!(capacity.is_power_of_two());
        let empty = || Slot(UnsafeCell::new(MaybeUninit::uninit()));
        Shared {
            tail: CachePadded::new(AtomicUsize::new(0)),
            head: CachePadded::new(AtomicUsize::new(0)),
            producer: Presence::default(),
            consumer: Presence::default(),
            slots: std::iter::repeat_with(empty).take(capacity).collect(),
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Puts an item into the slot of a position.
    ///
    /// # Safety
    /// The slot is free and the caller's: it is the producer, and the position is neither pushed yet
    /// nor as much as `capacity` ahead of the head.
    #[inline]
    pub(crate) unsafe fn write(&self, position: usize, item: T) {
        // SAFETY: the consumer does not reach this slot until the tail has passed it.
        self.slot(position).with_mut(|slot| unsafe { (*slot).write(item) });
    }

    /// Moves the item out of the slot of a position.
    ///
    /// # Safety
    /// The slot holds an item and is the caller's: it is the consumer, and the position is pushed and
    /// not popped yet. The item is read once.
    #[inline]
    pub(crate) unsafe fn read(&self, position: usize) -> T {
        // SAFETY: the producer does not reach this slot until the head has passed it.
        self.slot(position).with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// The item in the slot of a position.
    ///
    /// # Safety
    /// As for [`Shared::read`]; and the position stays unpopped for as long as the reference lives.
    #[inline]
    pub(crate) unsafe fn peek(&self, position: usize) -> &T {
        // SAFETY: the producer does not reach this slot until the head has passed it.
        self.slot(position).with(|slot| unsafe { (*slot).assume_init_ref() })
    }

    #[inline]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position & (self.slots.len() - 1)].0
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut position = self.head.load(Ordering::Relaxed);
        while position != tail {
            // SAFETY: both ends are gone; what lies from head to tail was pushed and not popped.
            self.slot(position).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            position = position.wrapping_add(1);
        }
    }
}

/// Whether an end is still there.
pub(crate) struct Presence {
    is_gone: AtomicBool,
}

impl Default for Presence {
    fn default() -> Presence {
        Presence { is_gone: AtomicBool::new(false) }
    }
}

impl Presence {
    pub(crate) fn leave(&self) {
        self.is_gone.store(true, release_unless(Fault::LeaveRelaxed));
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(acquire_unless(Fault::LeavingSeenRelaxed))
    }
}
