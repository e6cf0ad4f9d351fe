//! The end of a ring that items are popped from.

use std::fmt;

use crate::shared::Shared;
use crate::sync::{Arc, Fault, acquire_unless, is_planted, release_unless};

/// The end of a ring that items come out of, in the order in which they were pushed.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Items ever popped.
    head: usize,
    /// Items ever pushed, as seen last: by now they may be more.
    tail: usize,
}

impl<T> Consumer<T> {
    pub(crate) fn new(shared: Arc<Shared<T>>) -> Consumer<T> {
        Consumer { shared, head: 0, tail: 0 }
    }

    /// Pops the oldest item. `None` if the ring is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.take(1, |shared, head, _| {
            // SAFETY: `take` hands over a position that is pushed and not popped, once.
            unsafe { shared.read(head) }
        })
    }

    /// Pops up to `max` items to the end of `items`, all with one publication, and returns how many
    /// these were. Allocates if `items` has no room for them.
    #[inline]
    pub fn pop_into(&mut self, items: &mut Vec<T>, max: usize) -> usize {
        let popped = self.take(max, |shared, head, ready| {
            // First, since this may panic, and what was read before would be dropped twice.
            items.reserve(ready);
            // SAFETY: `take` hands over `ready` positions that are pushed and not popped, once.
            items.extend((0..ready).map(|i| unsafe { shared.read(head.wrapping_add(i)) }));
            ready
        });
        popped.unwrap_or(0)
    }

    /// The oldest item, which stays in the ring. `None` if the ring is empty.
    #[inline]
    pub fn peek(&mut self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: this is the consumer, and an item is there; it stays for as long as the borrow of
        // this end, which is the only one that could pop it.
        Some(unsafe { self.shared.peek(self.head) })
    }

    /// How many of the oldest items, up to `max`, `is_wanted`: as far as there is one that is not. They stay in the ring.
    #[inline]
    pub fn count_while(&mut self, max: usize, is_wanted: impl Fn(&T) -> bool) -> usize {
        let seen = self.len_seen();
        let ready = max.min(if seen < max { self.len() } else { seen });
        // SAFETY: as in `peek`, of each of the items that are there.
        let item = |index| unsafe { self.shared.peek(self.head.wrapping_add(index)) };
        (0..ready).take_while(|index| is_wanted(item(*index))).count()
    }

    /// How many items are there. They stay until this side pops; more may come.
    #[inline]
    pub fn len(&mut self) -> usize {
        self.tail = self.shared.tail.load(acquire_unless(Fault::TailSeenRelaxed));
        self.len_seen()
    }

    /// Whether nothing is there now.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.len_seen() == 0 && self.len() == 0
    }

    /// Whether the producer is gone: no more items will come. What it pushed before is still there, and
    /// is seen after this: a ring that is found abandoned and *then* empty has given every item.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.shared.producer.is_gone()
    }

    /// Has up to `max` items read, from the position on that `read` gets, and gives their slots back
    /// afterwards. `None` if there are none.
    #[inline]
    fn take<R>(&mut self, max: usize, read: impl FnOnce(&Shared<T>, usize, usize) -> R) -> Option<R> {
        let seen = self.len_seen();
        let ready = max.min(if seen < max { self.len() } else { seen });
        if ready == 0 {
            return None;
        }
        let head = self.head;
        if is_planted(Fault::PopEarly) {
            self.give_back(ready);
        }
        let read = read(&self.shared, head, ready);
        if !is_planted(Fault::PopEarly) {
            self.give_back(ready);
        }
        Some(read)
    }

    /// Items known to be there without another look.
    #[inline]
    fn len_seen(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    fn give_back(&mut self, slots: usize) {
        self.head = self.head.wrapping_add(slots);
        self.shared.head.store(self.head, release_unless(Fault::PopRelaxed));
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.consumer.leave();
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("capacity", &self.shared.capacity())
            .field("popped", &self.head)
            .finish()
    }
}
