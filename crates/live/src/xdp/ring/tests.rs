//! Rings in plain memory, whose other side a thread plays.

use std::sync::Arc;
use std::thread;

use super::*;

/// The memory of a ring, as the kernel lays it out but for the distances.
struct Memory<T> {
    counters: Box<[AtomicU32; 3]>,
    /// Raw, as the mapping is: both sides reach it through pointers.
    entries: *mut T,
    size: u32,
}

// SAFETY: the two sides of the ring decide who touches an entry.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Memory<T> {}

impl<T: Copy> Memory<T> {
    /// A ring whose counters are about to wrap.
    fn new(size: u32, first: T, start: u32) -> Arc<Memory<T>> {
        let entries = Box::into_raw(vec![first; size as usize].into_boxed_slice());
        let counters = Box::new([AtomicU32::new(start), AtomicU32::new(start), AtomicU32::new(0)]);
        Arc::new(Memory { counters, entries: entries.cast(), size })
    }

    fn parts(&self) -> Parts<T> {
        let [producer, consumer, flags] = &*self.counters;
        let entries = NonNull::new(self.entries).expect("it was allocated");
        Parts {
            producer: producer.into(),
            consumer: consumer.into(),
            flags: flags.into(),
            entries,
            size: self.size,
        }
    }

    fn producer(&self) -> Producer<T> {
        // SAFETY: each test keeps the memory longer than the sides, and makes one of each kind.
        unsafe { Producer::new(self.parts()) }
    }

    fn consumer(&self) -> Consumer<T> {
        // SAFETY: as above.
        unsafe { Consumer::new(self.parts()) }
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        let entries = std::ptr::slice_from_raw_parts_mut(self.entries, self.size as usize);
        // SAFETY: it was made from a box of this length.
        drop(unsafe { Box::from_raw(entries) });
    }
}

#[test]
fn takes_what_there_is_room_for_and_gives_it_in_order() {
    let memory = Memory::new(4, 0u64, u32::MAX - 2);
    let (mut producer, mut consumer) = (memory.producer(), memory.consumer());
    assert_eq!(producer.push([1, 2, 3].into_iter()), 3);
    assert_eq!(producer.push([4, 5, 6].into_iter()), 1, "room for one");
    assert_eq!(producer.push([5].into_iter()), 0, "full");
    assert_eq!((producer.unread(), consumer.waiting()), (4, 4));
    let mut out = vec![0];
    assert_eq!(consumer.pop_into(3, &mut out, |value| value), 3);
    assert_eq!(out, [0, 1, 2, 3], "appended");
    assert_eq!(producer.room(9), 3);
    assert_eq!(producer.push([5, 6].into_iter()), 2, "over the wrap of the counters");
    assert_eq!(consumer.pop_into(9, &mut out, |value| value * 10), 3);
    assert_eq!(out, [0, 1, 2, 3, 40, 50, 60]);
    assert_eq!(consumer.pop_into(9, &mut out, |value| value), 0);
}

#[test]
fn says_whether_the_other_side_sleeps() {
    let memory = Memory::new(2, 0u64, 0);
    let producer = memory.producer();
    assert!(!producer.needs_wakeup());
    memory.counters[2].store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(producer.needs_wakeup());
}

/// A counter that no kernel writes leads nowhere outside the ring.
#[test]
fn a_counter_out_of_bounds_is_bounded() {
    let memory = Memory::new(4, 7u64, 0);
    let (mut producer, mut consumer) = (memory.producer(), memory.consumer());
    memory.counters[0].store(1_000, Ordering::Relaxed);
    let mut out = Vec::new();
    assert_eq!(consumer.pop_into(100, &mut out, |value| value), 4);
    assert_eq!(out, [7; 4]);
    memory.counters[1].store(1_000, Ordering::Relaxed);
    assert_eq!(producer.push([1; 9].into_iter()), 0, "read more than was written: nothing is believed");
}

/// What each packet's bytes would be: written before its entry is published, read after it is seen. Under Miri this
/// fails if one of the four orderings is weaker.
#[test]
fn bytes_arrive_with_their_entries_through_both_rings() {
    const PACKETS: u64 = if cfg!(miri) { 200 } else { 200_000 };
    const CHUNKS: usize = 8;
    struct Chunks([std::cell::UnsafeCell<u64>; CHUNKS]);
    // SAFETY: a chunk is touched by the side that got its number from a ring.
    unsafe impl Sync for Chunks {}

    let chunks = Chunks([const { std::cell::UnsafeCell::new(0) }; CHUNKS]);
    let (fill, receive) = (Memory::new(8, 0u64, u32::MAX - 5), Memory::new(4, 0u64, u32::MAX - 1));
    let (mut fill_in, mut fill_out) = (fill.producer(), fill.consumer());
    let (mut receive_in, mut receive_out) = (receive.producer(), receive.consumer());
    let chunks = &chunks;
    thread::scope(|scope| {
        // The kernel: takes a chunk from the fill ring, writes a packet, gives it to the receive ring.
        scope.spawn(move || {
            let (mut number, mut free, mut full) = (0, Vec::new(), Vec::new());
            while number < PACKETS || !full.is_empty() {
                fill_out.pop_into(3, &mut free, |chunk| chunk);
                while number < PACKETS
                    && let Some(chunk) = free.pop()
                {
                    // SAFETY: this side holds the chunk.
                    unsafe { chunks.0[chunk as usize].get().write(number) };
                    number += 1;
                    full.push(chunk);
                }
                let pushed = receive_in.push(full.iter().copied());
                full.drain(..pushed);
                thread::yield_now();
            }
        });
        let mut free: Vec<u64> = (0..CHUNKS as u64).collect();
        let (mut expected, mut received) = (0, Vec::new());
        while expected < PACKETS {
            let pushed = fill_in.push(free.iter().copied());
            free.drain(..pushed);
            receive_out.pop_into(3, &mut received, |chunk| chunk);
            for chunk in received.drain(..) {
                // SAFETY: this side holds the chunk.
                assert_eq!(unsafe { chunks.0[chunk as usize].get().read() }, expected);
                expected += 1;
                free.push(chunk);
            }
            thread::yield_now();
        }
    });
}
