//! Packets that follow each other and have one key: one entry of a batch stands for all of them.
//!
//! In a trace with a hot flow most of a packet's history is such. They have one block, and those that are alike in
//! all that the chain reads have one projection as well: all that is left of a step is the step (SCR §3.1, Principle
//! 3: replay decides how far replication scales).

use std::ops::Range;

use wire::{Edits, Headers, Stamp};

use crate::BATCH_PACKETS;

/// The most followers of a batch.
const FOLLOWERS_MAX: usize = 4_096;

/// The most headers of followers: what the nearest cache holds beside the rest.
const HEADERS_MAX: usize = 128;

/// The followers of each entry: history, whatever the entry is. Their sequence numbers follow the entry's.
pub(crate) struct Runs {
    times_ns: Vec<u64>,
    /// By follower, whose headers it has.
    owners: Vec<Owner>,
    /// Of those that are not like the one before.
    headers: Box<[Headers; HEADERS_MAX]>,
    headers_len: usize,
    /// By entry, where its followers are; of entries that have some.
    places: [Place; BATCH_PACKETS],
}

/// Whose headers a follower has: those of its entry, or those with a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u16);

impl Owner {
    pub(crate) const ENTRY: Owner = Owner(u16::MAX);
}

/// The headers of one more follower.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Those of the one before.
    Last,
    /// Those in the room that was given.
    New,
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

const _: () = assert!(FOLLOWERS_MAX < u16::MAX as usize && HEADERS_MAX < u16::MAX as usize);

/// Followers of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Followers<'a> {
    pub(crate) times_ns: &'a [u64],
    pub(crate) owners: &'a [Owner],
}

impl Runs {
    pub(crate) fn new() -> Runs {
        Runs {
            times_ns: Vec::with_capacity(FOLLOWERS_MAX),
            owners: Vec::with_capacity(FOLLOWERS_MAX),
            headers: Box::new([Headers::default(); HEADERS_MAX]),
            headers_len: 0,
            places: [Place::default(); BATCH_PACKETS],
        }
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

    /// Where the headers of the next follower may be put.
    #[inline]
    pub(crate) fn room_for_headers(&mut self) -> Option<&mut Headers> {
        self.headers.get_mut(self.headers_len)
    }

    /// One more follower of the last entry, if there is room.
    #[inline]
    pub(crate) fn push(&mut self, packet: usize, time_ns: u64, head: Head) -> bool {
        if self.times_ns.len() == FOLLOWERS_MAX {
            return false;
        }
        let place = &mut self.places[packet];
        let owner = match head {
            Head::New => {
                self.headers_len += 1;
                Owner(self.headers_len as u16 - 1)
            }
            Head::Last if place.followers == 0 => Owner::ENTRY,
            Head::Last => self.owners[self.owners.len() - 1],
        };
        place.followers += 1;
        self.times_ns.push(time_ns);
        self.owners.push(owner);
        true
    }

    /// Leaves no followers.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.times_ns.clear();
        self.owners.clear();
        self.headers_len = 0;
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

    /// Followers, by the number of their step.
    #[inline]
    pub(crate) fn followers(&self, packet: usize, steps: Range<u16>) -> Followers<'_> {
        let first = usize::from(self.places[packet].first);
        let range = first + usize::from(steps.start) - 1..first + usize::from(steps.end) - 1;
        Followers { times_ns: &self.times_ns[range.clone()], owners: &self.owners[range] }
    }

    /// The time of the last step to do now, if it is a follower's.
    pub(crate) fn last_ns(&self, packet: usize) -> Option<u64> {
        let until = self.places[packet].until;
        (until > 1).then(|| self.followers(packet, until - 1..until).times_ns[0])
    }
}

impl Followers<'_> {
    /// Time and headers of each.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Owner)> {
        self.times_ns.iter().copied().zip(self.owners.iter().copied())
    }
}

/// What an entry was before one of its followers took its place.
pub(crate) struct Lent {
    stamp: Stamp,
    headers: Headers,
    edits: Edits,
    fate: io::Fate,
    live: u64,
    history: u64,
    place: Place,
}

impl crate::Batch {
    /// A follower's headers.
    #[inline(always)]
    pub(crate) fn headers_of(&self, packet: usize, owner: Owner) -> &Headers {
        match owner {
            Owner::ENTRY => &self.headers[packet],
            Owner(number) => &self.runs.headers[usize::from(number)],
        }
    }

    /// Has an entry stand for one of its followers, by the number of its step, all alone.
    pub(crate) fn lend(&mut self, packet: usize, step: u16) -> Lent {
        let bit = 1 << packet;
        let Followers { times_ns, owners } = self.runs.followers(packet, step..step + 1);
        let seq = self.frames[packet].stamp.seq + u64::from(step);
        let (stamp, headers) = (Stamp { seq, time_ns: times_ns[0] }, *self.headers_of(packet, owners[0]));
        let lent = Lent {
            stamp: std::mem::replace(&mut self.frames[packet].stamp, stamp),
            headers: std::mem::replace(&mut self.headers[packet], headers),
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
        self.headers[packet] = lent.headers;
        self.edits[packet] = lent.edits;
        self.fates[packet] = lent.fate;
        self.live = self.live & !bit | lent.live;
        self.history = self.history & !bit | lent.history;
        self.runs.places[packet] = lent.place;
    }
}
