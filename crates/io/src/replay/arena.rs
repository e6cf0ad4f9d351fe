//! Memory for frames: one circular buffer, taken at the front by the feeder, given back in the same
//! order by the collector.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::frame::Place;

/// Room before each packet for headers to grow, bytes.
pub(super) const HEADROOM_BYTES: usize = 64;

/// Frames begin on cache lines.
const ALIGN_BYTES: u64 = 64;

/// The memory, shared by all; who may touch which part of it is said by [`Place`]s.
pub(super) struct Arena {
    id: u32,
    memory: Box<[UnsafeCell<u8>]>,
    /// Bytes given back so far, of all that were ever taken.
    returned: AtomicU64,
}

// SAFETY: bytes are reached only through a `Place`, of which there is one for each region between
// being taken and being given back; the regions of live places do not overlap (`take` and
// `give_back` see to it). A place moves between threads through channels that synchronise.
unsafe impl Sync for Arena {}
// SAFETY: as above; the memory itself is plain bytes.
unsafe impl Send for Arena {}

/// The one who takes from an arena.
pub(super) struct Taker {
    arena: Arc<Arena>,
    /// Bytes taken so far, of all ever.
    taken: u64,
}

impl Arena {
    /// An arena of `size_bytes`, a power of two, and its taker.
    pub(super) fn new(size_bytes: usize) -> (Taker, Arc<Arena>) {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        assert!(size_bytes.is_power_of_two() && size_bytes as u64 >= ALIGN_BYTES);
        let memory = std::iter::repeat_with(|| UnsafeCell::new(0)).take(size_bytes).collect();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let arena = Arc::new(Arena { id, memory, returned: AtomicU64::new(0) });
        (Taker { arena: Arc::clone(&arena), taken: 0 }, arena)
    }

    /// The bytes of a packet.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        let region = self.region(place);
        // SAFETY: the region lies in `memory` (checked), and the shared borrow of the only place
        // that names it keeps everyone from writing to it for as long as `'a`.
        let buffer = unsafe { std::slice::from_raw_parts(region.cast_const(), place.buffer.len()) };
        &buffer[place.data.clone()]
    }

    /// The whole buffer around a packet.
    #[inline]
    pub(super) fn buffer_mut<'a>(&'a self, place: &'a mut Place) -> &'a mut [u8] {
        let region = self.region(place);
        // SAFETY: as in `bytes`; the exclusive borrow of the only place keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(region, place.buffer.len()) }
    }

    /// Takes back a region: those taken first go back first.
    ///
    /// # Panics
    /// If another region, taken earlier, has not come back.
    pub(super) fn give_back(&self, place: Place) {
        assert_eq!(place.pool, self.id, "a frame of another port");
        // Only the holder of the oldest place gets past this, so there is no race for the store.
        assert_eq!(place.begin, self.returned.load(Ordering::Relaxed), "frames go back in order");
        let end = self.end(&place);
        self.returned.store(end, Ordering::Release);
    }

    #[inline]
    fn region(&self, place: &Place) -> *mut u8 {
        assert_eq!(place.pool, self.id, "a frame of another port");
        let cells = &self.memory[place.buffer.clone()];
        UnsafeCell::raw_get(cells.as_ptr())
    }

    /// Where the share of the arena that a place holds ends: `begin`, what was skipped so as not to
    /// wrap, and the buffer.
    fn end(&self, place: &Place) -> u64 {
        let size = self.memory.len() as u64;
        let skipped = (place.buffer.start as u64).wrapping_sub(place.begin) & (size - 1);
        place.begin + skipped + place.buffer.len() as u64
    }
}

impl Taker {
    /// A region for a packet of `len` bytes; `None` if there is no room now.
    pub(super) fn take(&mut self, len: usize) -> Option<Place> {
        let size = self.arena.memory.len() as u64;
        let need = (HEADROOM_BYTES + len) as u64;
        let need = need.next_multiple_of(ALIGN_BYTES);
        let offset = self.taken & (size - 1);
        // A buffer does not wrap: what is left at the end is skipped.
        let skipped = if offset + need > size { size - offset } else { 0 };
        let end = self.taken + skipped + need;
        if end - self.arena.returned.load(Ordering::Acquire) > size {
            return None;
        }
        let start = ((offset + skipped) & (size - 1)) as usize;
        let place = Place {
            pool: self.arena.id,
            begin: self.taken,
            buffer: start..start + need as usize,
            data: HEADROOM_BYTES..HEADROOM_BYTES + len,
        };
        self.taken = end;
        Some(place)
    }

    /// The longest packet that the arena can ever hold, bytes.
    pub(super) fn longest(&self) -> usize {
        // Half, so that a packet fits whatever the offset and the skip before it.
        self.arena.memory.len() / 2 - HEADROOM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const ROUNDS: usize = if cfg!(miri) { 40 } else { 2_000 };

    /// Places come and go in all sizes; each holds what was written to it, whatever came after.
    #[test]
    fn live_regions_never_overlap() {
        let (mut taker, arena) = Arena::new(4096);
        let mut live: VecDeque<(Place, u8)> = VecDeque::new();
        let mut taken = 0u32;
        for round in 0..ROUNDS {
            let len = round * 37 % 700;
            match taker.take(len) {
                Some(mut place) => {
                    let fill = round as u8;
                    arena.buffer_mut(&mut place).fill(fill);
                    live.push_back((place, fill));
                    taken += 1;
                }
                None => {
                    let (place, _) = live.pop_front().expect("an empty arena has room for 700 bytes");
                    arena.give_back(place);
                }
            }
            for (place, fill) in &live {
                assert!(arena.bytes(place).iter().all(|byte| byte == fill));
            }
        }
        assert!(taken > ROUNDS as u32 / 4);
    }

    #[test]
    fn the_longest_packet_fits_at_any_offset() {
        let (mut taker, arena) = Arena::new(1024);
        for offset in 0..40 {
            let place = taker.take(offset).expect("room");
            arena.give_back(place);
            let place = taker.take(taker.longest()).expect("room for the longest");
            arena.give_back(place);
        }
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn giving_back_out_of_order_is_caught() {
        let (mut taker, arena) = Arena::new(1024);
        let _first = taker.take(10).expect("room");
        let second = taker.take(10).expect("room");
        arena.give_back(second);
    }

    #[test]
    #[should_panic(expected = "another port")]
    fn a_frame_of_another_arena_is_caught() {
        let (mut taker, _arena) = Arena::new(1024);
        let (_, other) = Arena::new(1024);
        let place = taker.take(10).expect("room");
        other.bytes(&place);
    }
}
