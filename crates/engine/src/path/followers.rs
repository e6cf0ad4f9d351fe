//! Packets that follow each other and have one key: one entry of a batch stands for all of them.
//!
//! In a trace with a hot flow most of a packet's history is such. They have one block, and those that are alike in
//! all that the chain reads have one projection as well: all that is left of a step is the step (SCR §3.1, Principle
//! 3: replay decides how far replication scales).

use std::ops::Range;

use wire::Headers;

use crate::path::packets::{BATCH_PACKETS, bits};

/// The most followers of a batch.
const FOLLOWERS_MAX: usize = 4_096;

/// The most headers of followers: what the nearest cache holds beside the rest.
const HEADERS_MAX: usize = 128;

/// The followers of each entry: history, whatever the entry is. Their sequence numbers follow the entry's.
pub(crate) struct Followers {
    pub(super) times_ns: Vec<u64>,
    /// By follower, whose headers it has.
    pub(super) owners: Vec<Owner>,
    /// Of those that are not like the one before.
    headers: Box<[Headers; HEADERS_MAX]>,
    headers_len: usize,
    /// By entry, where its followers are; of entries that have some.
    pub(super) places: [Trail; BATCH_PACKETS],
    /// Bit *i*: entry *i* has the key of the entry before it.
    has_key_of_last: u64,
}

/// Whose headers a follower has: those of its entry, or those with a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u16);

impl Owner {
    const ENTRY: Owner = Owner(u16::MAX);
}

#[derive(Clone, Copy, Default)]
pub(super) struct Trail {
    pub(super) first: u16,
    pub(super) followers: u16,
    /// Steps that are done, the entry's own one included.
    pub(super) done: u16,
    /// Up to which step to go now.
    pub(super) until: u16,
}

const _: () = assert!(FOLLOWERS_MAX < u16::MAX as usize);
const _: () = assert!(HEADERS_MAX < u16::MAX as usize);

/// Followers that come one after the other and are alike.
pub(crate) struct Alike<'a> {
    /// `None`: those of the entry.
    pub(crate) headers: Option<&'a Headers>,
    pub(crate) times_ns: &'a [u64],
}

impl Followers {
    pub(crate) fn new() -> Followers {
        Followers {
            times_ns: Vec::with_capacity(FOLLOWERS_MAX),
            owners: Vec::with_capacity(FOLLOWERS_MAX),
            headers: Box::new([Headers::default(); HEADERS_MAX]),
            headers_len: 0,
            places: [Trail::default(); BATCH_PACKETS],
            has_key_of_last: 0,
        }
    }

    /// Whether no entry has followers.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// The entries that have the key of the one before, which need not be looked up again.
    #[inline(always)]
    pub(crate) fn has_key_of_last(&self) -> u64 {
        self.has_key_of_last
    }

    /// A new entry, without followers.
    #[inline]
    pub(crate) fn begin(&mut self, packet: usize, has_key_of_last: bool) {
        self.has_key_of_last |= u64::from(has_key_of_last) << packet;
        self.places[packet] = Trail { first: self.times_ns.len() as u16, followers: 0, done: 0, until: 1 };
    }

    /// One more follower of an entry, the last, with headers of its own; says whether there was room.
    #[inline]
    pub(crate) fn push<E>(
        &mut self,
        packet: usize,
        time_ns: u64,
        headers: impl FnOnce(&mut Headers) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(place) = self.headers.get_mut(self.headers_len) else { return Ok(false) };
        if self.times_ns.len() == FOLLOWERS_MAX {
            return Ok(false);
        }
        headers(place)?;
        self.places[packet].followers += 1;
        self.times_ns.push(time_ns);
        self.owners.push(Owner(self.headers_len as u16));
        self.headers_len += 1;
        Ok(true)
    }

    /// Followers of an entry, the last, that are alike to what came last: `times_ns` is given how many there is room
    /// for, and where their times go. Says how many they were.
    #[inline]
    pub(crate) fn push_alike(&mut self, packet: usize, times_ns: impl FnOnce(usize, &mut Vec<u64>)) -> usize {
        let Followers { times_ns: all, owners, places, .. } = self;
        let place = &mut places[packet];
        let owner = if place.followers == 0 { Owner::ENTRY } else { owners[owners.len() - 1] };
        times_ns(FOLLOWERS_MAX - all.len(), all);
        let followers = all.len() - owners.len();
        place.followers += followers as u16;
        owners.resize(all.len(), owner);
        followers
    }

    /// Leaves no followers.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.times_ns.clear();
        self.owners.clear();
        self.headers_len = 0;
        self.has_key_of_last = 0;
    }

    /// Steps of an entry that are to be done, from the first that is not.
    #[inline]
    fn steps(&self, packet: usize) -> usize {
        let Trail { followers, done, .. } = self.places[packet];
        usize::from(1 + followers - done)
    }

    /// Chooses the first entries of a set, with at most `steps` steps; of the last perhaps not all. Says how many
    /// steps they have.
    pub(crate) fn choose(&mut self, packets: u64, steps: usize) -> (u64, usize) {
        let (mut chosen, mut left) = (0, steps);
        for packet in bits(packets) {
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
        for packet in bits(chosen) {
            let place = &mut self.places[packet];
            place.done = place.until;
            rest |= u64::from(place.done <= place.followers) << packet;
        }
        rest
    }

    /// Which of an entry's steps to do now: 0 is its own, the others its followers'.
    #[inline]
    pub(crate) fn span(&self, packet: usize) -> Range<u16> {
        let Trail { done, until, .. } = self.places[packet];
        done..until
    }

    /// Up to which of an entry's steps to go now.
    pub(crate) fn stop_at(&mut self, packet: usize, until: u16) {
        self.places[packet].until = until;
    }

    /// Leaves an entry alone: takes its followers from it, and says how many, for [`Followers::put_back`].
    pub(crate) fn put_aside(&mut self, packet: usize) -> u16 {
        if self.is_empty() { 0 } else { std::mem::take(&mut self.places[packet].followers) }
    }

    /// Gives an entry, which has been stepped, its followers back.
    pub(crate) fn put_back(&mut self, packet: usize, followers: u16) {
        self.places[packet].followers = followers;
    }

    /// Where followers are, by the number of their step.
    #[inline]
    pub(super) fn range(&self, packet: usize, steps: Range<u16>) -> Range<usize> {
        let first = usize::from(self.places[packet].first);
        first + usize::from(steps.start) - 1..first + usize::from(steps.end) - 1
    }

    /// The headers of a follower; `None` if they are its entry's.
    #[inline(always)]
    pub(super) fn headers_of(&self, Owner(number): Owner) -> Option<&Headers> {
        self.headers.get(usize::from(number))
    }

    /// The time of the last step to do now, if it is a follower's.
    pub(crate) fn last_ns(&self, packet: usize) -> Option<u64> {
        let until = self.places[packet].until;
        (until > 1).then(|| self.times_ns[self.range(packet, until - 1..until).start])
    }
}
