//! The rings that an AF_XDP socket shares with the kernel: one side writes entries, the other reads them.
//!
//! ```text
//!            consumer              producer            both count up for ever, and wrap at 2^32;
//!               v                     v                the slot of a count is `count & (size - 1)`
//!   | free .... | entries to read ... | free .... |
//! ```
//!
//! Each side has its own counter, which it alone writes:
//!
//! * The producer writes entries, and then its counter, with *release*. The consumer reads that counter with *acquire*:
//!   it sees the entries, and what the producer had written before, such as a packet's bytes.
//! * The consumer reads entries, and then writes its counter, with *release*. The producer reads that counter with
//!   *acquire* before it writes the slots again: nobody overwrites an entry that is still being read.
//!
//! Each side keeps a copy of the other's counter, and looks again only when the copy shows too little.
//!
//! The kernel is trusted with the memory, as with everything, but what it writes into counters is bounded here all the
//! same: no count leads outside a ring.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a ring is in memory.
pub(crate) struct Parts<T> {
    pub producer: NonNull<AtomicU32>,
    pub consumer: NonNull<AtomicU32>,
    pub flags: NonNull<AtomicU32>,
    pub entries: NonNull<T>,
    /// A power of two.
    pub size: u32,
}

/// The side of a ring that writes entries: the fill and the transmit ring.
pub(crate) struct Producer<T> {
    parts: Parts<T>,
    /// Entries written so far; the ring's own counter follows it.
    written: u32,
    /// Entries read by the other side, as it said last.
    read: u32,
    _owns: PhantomData<T>,
}

/// The side of a ring that reads entries: the receive and the completion ring.
pub(crate) struct Consumer<T> {
    parts: Parts<T>,
    /// Entries read so far; the ring's own counter follows it.
    read: u32,
    /// Entries written by the other side, as it said last.
    written: u32,
    _owns: PhantomData<T>,
}

// SAFETY: a ring has one side in this process, which goes to another thread as a whole; entries are plain values.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Parts<T> {
    #[inline]
    fn counter(counter: &NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: who made the ring promised that its parts are valid as long as it is.
        unsafe { counter.as_ref() }
    }

    /// The slot of the `count`-th entry.
    #[inline]
    fn slot(&self, count: u32) -> *mut T {
        // SAFETY: the mask keeps it within the `size` entries.
        unsafe { self.entries.as_ptr().add((count & (self.size - 1)) as usize) }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // A hint: it orders nothing. Missing it once is made good by the next look.
        Self::counter(&self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Copy> Producer<T> {
    /// The writing side of a ring.
    ///
    /// # Safety
    /// The parts are valid, and `entries` has `size` slots, as long as this value is; nobody else writes entries or the
    /// producer's counter, and the other side reads no entry before the counter says that it is written.
    pub(crate) unsafe fn new(parts: Parts<T>) -> Producer<T> {
        assert!(parts.size.is_power_of_two(), "a ring of {} entries", parts.size);
        let written = Parts::<T>::counter(&parts.producer).load(Ordering::Relaxed);
        let read = Parts::<T>::counter(&parts.consumer).load(Ordering::Acquire);
        Producer { parts, written, read, _owns: PhantomData }
    }

    /// How many entries there is room for, up to `wanted`.
    #[inline]
    pub(crate) fn room(&mut self, wanted: usize) -> usize {
        let mut room = self.parts.size.saturating_sub(self.written.wrapping_sub(self.read));
        if (room as usize) < wanted {
            self.read = Parts::<T>::counter(&self.parts.consumer).load(Ordering::Acquire);
            room = self.parts.size.saturating_sub(self.written.wrapping_sub(self.read));
        }
        wanted.min(room as usize)
    }

    /// Writes as many of the entries as there is room for, and says how many.
    #[inline]
    pub(crate) fn push(&mut self, entries: impl ExactSizeIterator<Item = T>) -> usize {
        let count = self.room(entries.len());
        if count == 0 {
            return 0;
        }
        let mut at = self.written;
        for entry in entries.take(count) {
            // SAFETY: the slot lies in the ring; the other side has read what was there, and reads no more of it until
            // the counter passes it.
            unsafe { self.parts.slot(at).write(entry) };
            at = at.wrapping_add(1);
        }
        let pushed = at.wrapping_sub(self.written) as usize;
        self.written = at;
        Parts::<T>::counter(&self.parts.producer).store(at, Ordering::Release);
        pushed
    }

    /// Entries that the other side has not read yet.
    #[inline]
    pub(crate) fn unread(&mut self) -> u32 {
        self.read = Parts::<T>::counter(&self.parts.consumer).load(Ordering::Acquire);
        self.written.wrapping_sub(self.read).min(self.parts.size)
    }

    /// Whether the other side sleeps until it is woken.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.parts.needs_wakeup()
    }
}

impl<T: Copy> Consumer<T> {
    /// The reading side of a ring.
    ///
    /// # Safety
    /// The parts are valid, and `entries` has `size` slots, as long as this value is; nobody else writes the consumer's
    /// counter, and the other side writes no entry that this counter does not yet say is read.
    pub(crate) unsafe fn new(parts: Parts<T>) -> Consumer<T> {
        assert!(parts.size.is_power_of_two(), "a ring of {} entries", parts.size);
        let read = Parts::<T>::counter(&parts.consumer).load(Ordering::Relaxed);
        let written = Parts::<T>::counter(&parts.producer).load(Ordering::Acquire);
        Consumer { parts, read, written, _owns: PhantomData }
    }

    /// Appends up to `max` entries to `out`, each turned by `turn`, and says how many.
    #[inline]
    pub(crate) fn pop_into<U>(&mut self, max: usize, out: &mut Vec<U>, turn: impl Fn(T) -> U) -> usize {
        let mut count = self.written.wrapping_sub(self.read).min(self.parts.size);
        if (count as usize) < max {
            self.written = Parts::<T>::counter(&self.parts.producer).load(Ordering::Acquire);
            count = self.written.wrapping_sub(self.read).min(self.parts.size);
        }
        let count = count.min(u32::try_from(max).unwrap_or(u32::MAX));
        if count == 0 {
            return 0;
        }
        let parts = &self.parts;
        let from = self.read;
        out.extend((0..count).map(|i| {
            // SAFETY: the slot lies in the ring; the other side has written it, and leaves it alone until the counter
            // passes it.
            turn(unsafe { parts.slot(from.wrapping_add(i)).read() })
        }));
        self.read = from.wrapping_add(count);
        Parts::<T>::counter(&self.parts.consumer).store(self.read, Ordering::Release);
        count as usize
    }

    /// How far the other side has written, as a count that wraps: for [`Consumer::is_past`].
    pub(crate) fn mark(&self) -> u32 {
        self.read.wrapping_add(self.waiting())
    }

    /// Whether all entries up to a mark are read.
    #[inline]
    pub(crate) fn is_past(&self, mark: u32) -> bool {
        // No mark is ahead by more than the ring has entries.
        mark.wrapping_sub(self.read) as i32 <= 0
    }

    /// Entries that wait to be read.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        let written = Parts::<T>::counter(&self.parts.producer).load(Ordering::Acquire);
        written.wrapping_sub(self.read).min(self.parts.size)
    }
}

#[cfg(test)]
mod tests;
