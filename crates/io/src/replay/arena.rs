//! Memory for frames: one circular buffer, taken at the front by the feeder, given back in the same
//! order by the collector. Where frames leave in any order, [`Returns`] keeps note of what came back early.

#![allow(unsafe_code)]

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{FreshLines, LINE_BYTES};

use crate::frame::{HEADROOM_BYTES, Place, new_pool_id};

/// The memory, shared by all; who may touch which part of it is said by [`Place`]s.
pub(super) struct Arena {
    /// No other arena of this process has it, had it, or will have it.
    id: u32,
    /// As many lines as may be taken at a time, and behind them room for the longest buffer: one that
    /// begins on the last line does not wrap, and keeps to itself what it would cover if it did.
    memory: FreshLines,
    /// How many may be taken at a time, a power of two.
    lines: u64,
    /// Lines given back so far, of all that were ever taken.
    returned: AtomicU64,
}

/// The end that takes from an arena.
pub(super) struct Taker {
    arena: Arc<Arena>,
    /// Lines taken so far, of all ever.
    taken: u64,
    longest_bytes: usize,
}

impl Arena {
    /// An arena of `size_bytes`, a power of two, for packets of up to `longest_bytes`, and its taker.
    pub(super) fn new(size_bytes: usize, longest_bytes: usize) -> (Taker, Arc<Arena>) {
        let lines = size_bytes / LINE_BYTES;
        let longest = Place::lines_for(longest_bytes);
        assert!(size_bytes.is_power_of_two() && longest <= lines && longest <= usize::from(u16::MAX));
        assert!(u32::try_from(lines).is_ok());
        let memory = FreshLines::new(lines + longest).expect("memory for frames");
        let arena =
            Arc::new(Arena { id: new_pool_id(), memory, lines: lines as u64, returned: AtomicU64::new(0) });
        (Taker { arena: Arc::clone(&arena), taken: 0, longest_bytes }, arena)
    }

    /// The bytes of a packet.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        &self.buffer(place)[place.data()]
    }

    /// The whole buffer around a packet, to be read.
    #[inline]
    pub(super) fn buffer<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        let region = self.region(place);
        // SAFETY: the region lies in `memory` (checked), and the shared borrow of the only place
        // that names it keeps everyone from writing to it for as long as `'a`: there is one for each region
        // between being taken and being given back, and those of live places do not overlap (`take` and
        // `give_back` see to it). A place moves between threads through channels that synchronise.
        unsafe { std::slice::from_raw_parts(region.cast_const(), place.buffer_bytes()) }
    }

    /// The whole buffer around a packet.
    #[inline]
    pub(super) fn buffer_mut<'a>(&'a self, place: &'a mut Place) -> &'a mut [u8] {
        let region = self.region(place);
        // SAFETY: as in `buffer`; the exclusive borrow of the only place keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(region, place.buffer_bytes()) }
    }

    /// Takes back a region: those taken first go back first.
    ///
    /// # Panics
    /// If another region, taken earlier, has not come back.
    pub(super) fn give_back(&self, place: Place) {
        assert_eq!(place.pool, self.id, "a frame of another port");
        // Live places begin on different lines, so only the oldest begins where the next to come back
        // does: only its holder gets past this, and there is no race for the store.
        let returned = self.returned.load(Ordering::Relaxed);
        assert_eq!(u64::from(place.first_line), returned & (self.lines - 1), "frames go back in order");
        self.returned.store(returned + u64::from(place.lines), Ordering::Release);
    }

    /// Where the region begins that has to come back next.
    pub(super) fn next_back(&self) -> u32 {
        (self.returned.load(Ordering::Relaxed) & (self.lines - 1)) as u32
    }

    /// Whether a packet's bytes are here.
    pub(super) fn holds(&self, place: &Place) -> bool {
        place.pool == self.id
    }

    /// How many frames there can be at a time, at most.
    pub(super) fn frames_max(&self) -> usize {
        self.lines as usize / Place::lines_for(0)
    }

    #[inline]
    fn region(&self, place: &Place) -> *mut u8 {
        assert_eq!(place.pool, self.id, "a frame of another port");
        self.memory.lines(place.first_line as usize, usize::from(place.lines))
    }
}

/// The end that gives back in any order. What comes back ahead of its turn is noted, and goes back to the taker
/// once all before it has: so the taker needs to know nothing of it, and a frame that stays out keeps no more
/// from being taken than what was taken after it.
pub(super) struct Returns {
    arena: Arc<Arena>,
    /// By the line on which they begin, how long regions are that came back early, lines; 0 elsewhere.
    early: Box<[u16]>,
}

impl Returns {
    /// Nobody else gives back to `arena` from now on. Takes 2 bytes for each line.
    pub(super) fn new(arena: Arc<Arena>) -> Returns {
        let early = vec![0; arena.lines as usize].into();
        Returns { arena, early }
    }

    /// Takes back a region.
    ///
    /// # Panics
    /// If it is another arena's.
    #[inline]
    pub(super) fn give_back(&mut self, place: Place) {
        let Returns { arena, early } = self;
        assert_eq!(place.pool, arena.id, "a frame of another port");
        let noted = &mut early[place.first_line as usize];
        debug_assert_eq!(*noted, 0, "there is one place for each region");
        *noted = place.lines;
        // Nobody else stores here, so what is read is what was stored last.
        let before = arena.returned.load(Ordering::Relaxed);
        let mut returned = before;
        loop {
            let lines = mem::take(&mut early[(returned & (arena.lines - 1)) as usize]);
            if lines == 0 {
                break;
            }
            returned += u64::from(lines);
        }
        if returned != before {
            arena.returned.store(returned, Ordering::Release);
        }
    }
}

impl Taker {
    /// A region for a packet of `len` bytes; `None` if there is no room now.
    ///
    /// # Panics
    /// If `len` is above [`Taker::longest_bytes`].
    pub(super) fn take(&mut self, len: usize) -> Option<Place> {
        assert!(len <= self.longest_bytes, "a packet of {len} bytes");
        let lines = Place::lines_for(len);
        let end = self.taken + lines as u64;
        if end - self.arena.returned.load(Ordering::Acquire) > self.arena.lines {
            return None;
        }
        let place = Place {
            pool: self.arena.id,
            first_line: (self.taken & (self.arena.lines - 1)) as u32,
            lines: lines as u16,
            offset: HEADROOM_BYTES as u16,
            len: len as u32,
        };
        self.taken = end;
        Some(place)
    }

    /// The longest packet that the arena can ever hold, bytes.
    pub(super) fn longest_bytes(&self) -> usize {
        self.longest_bytes
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
        let (mut taker, arena) = Arena::new(4096, 700);
        let mut live: VecDeque<(Place, u8)> = VecDeque::new();
        let mut taken = 0u32;
        for round in 0..ROUNDS {
            let len = round * 37 % 700;
            match taker.take(len) {
                Some(mut place) => {
                    let fill = round as u8;
                    // All of the buffer is looked at, not the packet alone.
                    (place.offset, place.len) = (0, place.buffer_bytes() as u32);
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

    /// Places may come back in any order: as a taker has it, an arena whose oldest frame is out is full
    /// when what was taken after it fills it.
    #[test]
    fn live_regions_never_overlap_in_whatever_order_they_come_back() {
        let (mut taker, arena) = Arena::new(4096, 700);
        let mut returns = Returns::new(Arc::clone(&arena));
        let mut live: VecDeque<(Place, u8)> = VecDeque::new();
        let (mut taken, mut overtook) = (0u32, 0u32);
        for round in 0..ROUNDS {
            match taker.take(round * 37 % 700) {
                Some(mut place) => {
                    let fill = round as u8;
                    (place.offset, place.len) = (0, place.buffer_bytes() as u32);
                    arena.buffer_mut(&mut place).fill(fill);
                    live.push_back((place, fill));
                    taken += 1;
                }
                None => {
                    // All but the oldest, from the middle outwards, before the oldest itself.
                    let next = if live.len() > 1 { 1 + round % (live.len() - 1) } else { 0 };
                    let (place, _) = live.remove(next).expect("there is something to give back");
                    overtook += u32::from(place.first_line != arena.next_back());
                    returns.give_back(place);
                }
            }
            for (place, fill) in &live {
                assert!(arena.bytes(place).iter().all(|byte| byte == fill));
            }
        }
        assert!(taken > ROUNDS as u32 / 4 && overtook > 0);
        live.into_iter().for_each(|(place, _)| returns.give_back(place));
        assert!(returns.early.iter().all(|lines| *lines == 0), "nothing stays behind");
        assert_eq!(arena.returned.load(Ordering::Relaxed), taker.taken);
    }

    #[test]
    fn an_early_return_makes_no_room_and_the_oldest_makes_it_for_all() {
        let (mut taker, arena) = Arena::new(4 * LINE_BYTES, 2 * LINE_BYTES);
        let mut returns = Returns::new(Arc::clone(&arena));
        let first = taker.take(LINE_BYTES).expect("room");
        let second = taker.take(LINE_BYTES).expect("room");
        returns.give_back(second);
        assert!(taker.take(0).is_none(), "its line lies behind one that is out");
        returns.give_back(first);
        let lines = |place: Option<Place>| place.map(|place| place.first_line);
        assert_eq!([taker.take(LINE_BYTES), taker.take(LINE_BYTES)].map(lines), [Some(0), Some(2)]);
    }

    #[test]
    #[should_panic(expected = "another port")]
    fn a_frame_of_another_arena_does_not_come_back() {
        let (mut taker, _arena) = Arena::new(1024, 100);
        let (_, other) = Arena::new(1024, 100);
        let place = taker.take(10).expect("room");
        Returns::new(other).give_back(place);
    }

    #[test]
    fn the_longest_packet_fits_at_any_offset() {
        let (mut taker, arena) = Arena::new(1024, 1024 - HEADROOM_BYTES);
        for offset in 0..40 {
            let place = taker.take(offset).expect("room");
            arena.give_back(place);
            let place = taker.take(taker.longest_bytes()).expect("room for the longest");
            arena.give_back(place);
        }
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn giving_back_out_of_order_is_caught() {
        let (mut taker, arena) = Arena::new(1024, 100);
        let _first = taker.take(10).expect("room");
        let second = taker.take(10).expect("room");
        arena.give_back(second);
    }

    /// The later place lies past the end of what may be taken, where another would lie at the beginning.
    #[test]
    #[should_panic(expected = "in order")]
    fn giving_back_out_of_order_at_the_end_is_caught() {
        let (mut taker, arena) = Arena::new(16 * LINE_BYTES, 1024 - HEADROOM_BYTES);
        let place = taker.take(11 * LINE_BYTES).expect("room");
        arena.give_back(place);
        let _first = taker.take(LINE_BYTES).expect("room");
        let second = taker.take(5 * LINE_BYTES).expect("room");
        assert!(second.first_line + u32::from(second.lines) > 16);
        arena.give_back(second);
    }

    #[test]
    #[should_panic(expected = "another port")]
    fn a_frame_of_another_arena_is_caught() {
        let (mut taker, _arena) = Arena::new(1024, 100);
        let (_, other) = Arena::new(1024, 100);
        let place = taker.take(10).expect("room");
        other.bytes(&place);
    }
}
