//! The end of a ring that items are pushed to.

use std::fmt;

use crate::shared::Shared;
use crate::sync::{Arc, Fault, acquire_unless, release_unless};

/// The end of a ring that items go into.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Items ever pushed.
    tail: usize,
    /// Items ever popped, as seen last: by now they may be more.
    head: usize,
}

impl<T> Producer<T> {
    pub(crate) fn new(shared: Arc<Shared<T>>) -> Producer<T> {
        Producer { shared, tail: 0, head: 0 }
    }

    /// Pushes an item.
    ///
    /// # Errors
    /// The item itself if the ring is full. A ring whose consumer is gone takes items until it is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.free_seen() == 0 && self.free() == 0 {
            return Err(item);
        }
        // SAFETY: this is the producer, and the slot at the tail is free.
        unsafe { self.shared.write(self.tail, item) };
        self.publish(self.tail.wrapping_add(1));
        Ok(())
    }

    /// Pushes as many items as fit, all with one publication, and returns how many these were. Never
    /// takes an item from the iterator that does not fit.
    ///
    /// Should the iterator panic, what it gave in this call is forgotten and not dropped.
    #[inline]
    pub fn push_from(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let free = self.room_for(items.size_hint().1.unwrap_or(usize::MAX));
        let mut tail = self.tail;
        for item in items.take(free) {
            // SAFETY: this is the producer, and `free` slots from its tail on are free.
            unsafe { self.shared.write(tail, item) };
            tail = tail.wrapping_add(1);
        }
        let pushed = tail.wrapping_sub(self.tail);
        if pushed > 0 {
            self.publish(tail);
        }
        pushed
    }

    /// How many slots are free. They stay free until this side pushes; more may become so.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.head = self.shared.head.load(acquire_unless(Fault::HeadSeenRelaxed));
        self.free_seen()
    }

    /// How many slots are free, where more than `wanted` are of no use: looks at what the other side has popped only
    /// if fewer are known to be free.
    #[inline]
    pub fn room_for(&mut self, wanted: usize) -> usize {
        if self.free_seen() < wanted { self.free() } else { self.free_seen() }
    }

    /// How many items the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
    }

    /// Whether the consumer is gone: nobody will pop what is pushed. What the consumer's thread did
    /// before it dropped its end is seen after this.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.shared.consumer.is_gone()
    }

    /// Slots known to be free without another look.
    #[inline]
    fn free_seen(&self) -> usize {
        self.shared.capacity() - self.tail.wrapping_sub(self.head)
    }

    #[inline]
    fn publish(&mut self, tail: usize) {
        self.tail = tail;
        self.shared.tail.store(tail, release_unless(Fault::PushRelaxed));
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.producer.leave();
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("capacity", &self.capacity()).field("pushed", &self.tail).finish()
    }
}
