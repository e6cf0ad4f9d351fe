//! Packets that follow each other and are alike in all that the chain reads: one entry of a batch stands for all of
//! them.
//!
//! In a trace with a hot flow most of a packet's history is such. They have one key and one block, and what the
//! function projects is the same: all that is left of a step is the step (SCR §3.1, Principle 3: replay decides how
//! far replication scales).

use std::ops::Range;

use wire::{Edits, Stamp};

use crate::BATCH_PACKETS;

/// The most followers of a batch.
const FOLLOWERS_MAX: usize = 4_096;

/// The followers of each entry: history, whatever the entry is. Their sequence numbers follow the entry's.
pub(crate) struct Runs {
    times_ns: Vec<u64>,
    /// By entry, where its followers are in `times_ns`; of entries that have some.
    places: [Place; BATCH_PACKETS],
}

#[derive(Clone, Copy, Default)]
struct Place {
    first: u16,
    followers: u16,
    /// Steps that are done, the entry's own one included.
    done: u16,
    /// Up to which step to go now.
    until: u16,
}

const _: () = assert!(FOLLOWERS_MAX < u16::MAX as usize);

impl Runs {
    pub(crate) fn new() -> Runs {
        Runs { times_ns: Vec::with_capacity(FOLLOWERS_MAX), places: [Place::default(); BATCH_PACKETS] }
    }

    /// Whether no entry has followers.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// A new entry, without followers.
    #[inline]
    pub(crate) fn begin(&mut self, packet: usize) {
        self.places[packet] = Place { first: self.times_ns.len() as u16, followers: 0, done: 0, until: 1 };
    }

    /// One more follower of the last entry, if there is room.
    #[inline]
    pub(crate) fn push(&mut self, packet: usize, time_ns: u64) -> bool {
        let has_room = self.times_ns.len() < FOLLOWERS_MAX;
        if has_room {
            self.times_ns.push(time_ns);
            self.places[packet].followers += 1;
        }
        has_room
    }

    /// Leaves no followers.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.times_ns.clear();
    }

    /// Steps of an entry that are to be done, from the first that is not.
    #[inline]
    fn steps(&self, packet: usize) -> usize {
        let Place { followers, done, .. } = self.places[packet];
        usize::from(1 + followers - done)
    }

    /// Chooses the first entries of a set, with at most `steps` steps; of the last perhaps not all. Says how many
    /// steps they have.
    pub(crate) fn choose(&mut self, packets: u64, steps: usize) -> (u64, usize) {
        let (mut chosen, mut left) = (0, steps);
        for packet in crate::batch::bits(packets) {
            if left == 0 {
                break;
            }
            let some = self.steps(packet).min(left);
            let place = &mut self.places[packet];
            place.until = place.done + some as u16;
            left -= some;
            chosen |= 1 << packet;
        }
        (chosen, steps - left)
    }

    /// What was chosen has been done: returns the entries of it that are not yet.
    pub(crate) fn done(&mut self, chosen: u64) -> u64 {
        let mut rest = 0;
        for packet in crate::batch::bits(chosen) {
            let place = &mut self.places[packet];
            place.done = place.until;
            rest |= u64::from(place.done <= place.followers) << packet;
        }
        rest
    }

    /// Which of an entry's steps to do now: 0 is its own, the others its followers'.
    #[inline]
    pub(crate) fn span(&self, packet: usize) -> Range<u16> {
        let Place { done, until, .. } = self.places[packet];
        done..until
    }

    /// Up to which of an entry's steps to go now.
    pub(crate) fn stop_at(&mut self, packet: usize, until: u16) {
        self.places[packet].until = until;
    }

    /// The times of followers, by the number of their step.
    #[inline]
    pub(crate) fn times_ns(&self, packet: usize, steps: Range<u16>) -> &[u64] {
        let first = usize::from(self.places[packet].first);
        &self.times_ns[first + usize::from(steps.start) - 1..first + usize::from(steps.end) - 1]
    }

    /// The time of the last step to do now, if it is a follower's.
    pub(crate) fn last_ns(&self, packet: usize) -> Option<u64> {
        let until = self.places[packet].until;
        (until > 1).then(|| self.times_ns(packet, until - 1..until)[0])
    }
}

/// What an entry was before one of its followers took its place.
pub(crate) struct Lent {
    pub(crate) stamp: Stamp,
    pub(crate) edits: Edits,
    pub(crate) fate: io::Fate,
    pub(crate) live: u64,
    pub(crate) history: u64,
    place: Place,
}

impl crate::Batch {
    /// Has an entry stand for one of its followers, all alone.
    pub(crate) fn lend(&mut self, packet: usize, stamp: Stamp) -> Lent {
        let bit = 1 << packet;
        let lent = Lent {
            stamp: std::mem::replace(&mut self.frames[packet].stamp, stamp),
            edits: std::mem::replace(&mut self.edits[packet], Edits::NONE),
            fate: self.fates[packet],
            live: self.live & bit,
            history: self.history & bit,
            place: self.runs.places[packet],
        };
        self.live |= bit;
        self.history |= bit;
        self.runs.places[packet] = Place { done: 0, until: 1, ..lent.place };
        lent
    }

    /// The entry is itself again.
    pub(crate) fn give_back(&mut self, packet: usize, lent: Lent) {
        let bit = 1 << packet;
        self.frames[packet].stamp = lent.stamp;
        self.edits[packet] = lent.edits;
        self.fates[packet] = lent.fate;
        self.live = self.live & !bit | lent.live;
        self.history = self.history & !bit | lent.history;
        self.runs.places[packet] = lent.place;
    }
}
