//! An entry of a batch stands for one of its followers, for the time of a step.

use std::ops::Range;

use wire::{Edits, Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::followers::{Alike, Trail};

/// What an entry was before one of its followers took its place.
pub(crate) struct Lent {
    stamp: Stamp,
    headers: Headers,
    edits: Edits,
    fate: io::Fate,
    live: u64,
    history: u64,
    place: Trail,
}

impl Batch {
    /// Followers of an entry, by the number of their step.
    #[inline(always)]
    pub(crate) fn followers(&self, packet: usize, steps: Range<u16>) -> impl Iterator<Item = Alike<'_>> {
        let range = self.runs.range(packet, steps);
        let (mut times_ns, owners) = (&self.runs.times_ns[range.clone()], &self.runs.owners[range]);
        owners.chunk_by(|one, other| one == other).map(move |alike| {
            let (times, rest) = times_ns.split_at(alike.len());
            times_ns = rest;
            Alike { headers: self.runs.headers_of(alike[0]), times_ns: times }
        })
    }

    /// Has an entry stand for one of its followers, by the number of its step, all alone.
    pub(crate) fn lend(&mut self, packet: usize, step: u16) -> Lent {
        let bit = 1 << packet;
        let index = self.runs.range(packet, step..step + 1).start;
        let headers = *self.runs.headers_of(self.runs.owners[index]).unwrap_or(&self.headers[packet]);
        let seq = self.frames[packet].stamp.seq + u64::from(step);
        let stamp = Stamp { seq, time_ns: self.runs.times_ns[index] };
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
        self.runs.places[packet] = Trail { done: 0, until: 1, ..lent.place };
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
