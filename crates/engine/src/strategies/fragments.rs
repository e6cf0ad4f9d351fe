//! Follows datagrams by their fragments, with `fragments = "track"` or `"follow"`.
//!
//! A later fragment has no ports, so functions judge it without them. That lets an attacker split or overwrite what
//! functions look at (RFC 1858, RFC 3128). A [`FragmentTracker`] follows each datagram and refuses what a receiver must
//! not, or need not, put together:
//!
//! | refused as | what it is | who says so |
//! |---|---|---|
//! | `tcp-truncated`, `tcp-data-offset`, `udp-truncated`, ... | a first fragment without its whole transport header ("tiny"): malformed with any setting | RFC 1858 §3.2.1, RFC 8200 §4.5 |
//! | `fragment-without-first` | a later fragment whose first did not come before it | RFC 1858 §3.2.2: TCP at offset 8 among them |
//! | `fragment-overlap` | bytes that another fragment has, and all of that datagram from there on | RFC 5722 §3, RFC 3128 §4 |
//! | `fragment-duplicate` | the same bytes' place once more; the datagram goes on without it | RFC 8200 §4.5 |
//! | `fragment-end` | two ends, or bytes behind the end, and all of that datagram from there on | RFC 791 §3.2 |
//! | `fragment-overflow` | a datagram of more than 65,535 bytes ("ping of death"), and all of it from there on | RFC 8200 §4.5 |
//! | `fragment-length` | no data, or more to come behind a length that is no multiple of 8 | RFC 8200 §4.5 |
//! | `fragment-nested` | a fragment of a fragment | |
//! | `too-many-fragments` | more than [`FragmentTracker::FRAGMENTS`], and all of that datagram from there on | |
//!
//! RFC 5722 is about IPv6; IPv4 is held to the same. A tracker stands where packets are dispatched, in order of
//! arrival, and nowhere else: fragments of a datagram may go to several cores, and only who sees all of them can
//! judge. Its verdict goes with the packet ([`io::Frame::refused`]), so all strategies give the same answers.

use std::collections::HashMap;

use wire::{Addr, Datagram, First, Fragment, Headers, Malformed};

/// Follows datagrams by their fragments, in order of arrival, and refuses what does not fit.
///
/// A datagram is followed from its first fragment until it is whole, for [`FragmentTracker::TIMEOUT_NS`] at most. Of
/// one that was refused this is remembered as long. Where there is no room for another, one is forgotten, and its later fragments then
/// come without a first: the oldest of the same source if that has an [eighth](FragmentTracker::SHARES) of all, else the oldest. All memory is taken at start: about 600 KiB.
pub struct FragmentTracker {
    slots: Box<[Slot]>,
    /// The fragments of the datagram in slot *i*, from *i* times `fragments` on.
    parts: Box<[Part]>,
    /// Fragments of one datagram, at most.
    fragments: usize,
    /// By datagram, its slot. Nobody goes through it in its own order.
    places: HashMap<Datagram, usize>,
    free: Vec<usize>,
    /// Datagrams begun so far.
    begun: u64,
    /// The latest time so far, ns.
    now_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    datagram: Datagram,
    /// How many datagrams began before it.
    number: u64,
    begun_ns: u64,
    /// Fragments that passed.
    count: usize,
    /// Bytes of data in them.
    bytes: u32,
    /// Bytes of all data, once the last fragment was there.
    end: Option<u32>,
    header_len: u32,
    /// What its first fragment says of its flow.
    first: First,
    refused: Option<Malformed>,
}

/// Where a fragment's data begins and ends.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    begin: u32,
    end: u32,
}

impl FragmentTracker {
    /// Datagrams that are followed at a time.
    pub const DATAGRAMS: usize = 1024;

    /// A source has one part in so many of the datagrams, at most, where there is no room for all. Of IPv6 a source is a prefix of 64 bits.
    pub const SHARES: usize = 8;

    /// Fragments of one datagram, at most: 64 KiB in pieces of 1 KiB.
    pub const FRAGMENTS: usize = 64;

    /// How long a datagram is followed after its first fragment (RFC 8200 §4.5).
    pub const TIMEOUT_NS: u64 = 60_000_000_000;

    /// A tracker that has seen nothing.
    pub fn new() -> FragmentTracker {
        FragmentTracker::sized(FragmentTracker::DATAGRAMS, FragmentTracker::FRAGMENTS)
    }

    /// A tracker for so many datagrams of so many fragments, that has seen nothing.
    ///
    /// # Panics
    /// If one of them is 0.
    pub fn sized(datagrams: usize, fragments: usize) -> FragmentTracker {
        assert!(datagrams > 0 && fragments > 0, "nothing can be followed");
        FragmentTracker {
            slots: vec![Slot::default(); datagrams].into(),
            parts: vec![Part::default(); datagrams * fragments].into(),
            fragments,
            // Twice as much, so that a map in which keys come and go is never grown.
            places: HashMap::with_capacity(2 * datagrams),
            free: (0..datagrams).rev().collect(),
            begun: 0,
            now_ns: 0,
        }
    }

    /// Takes a fragment as [`FragmentTracker::follow`] does, without what its first said: why it is refused, if it is.
    pub fn check(&mut self, fragment: &Fragment, time_ns: u64) -> Option<Malformed> {
        self.follow(fragment, &Headers::default(), time_ns).err()
    }

    /// Takes the next fragment, of a packet that is well-formed so far and arrived at `time_ns`; these are its headers. What the first
    /// of its datagram says of their flow; `None` of a first one. O([`FragmentTracker::FRAGMENTS`]), and
    /// O([`FragmentTracker::DATAGRAMS`]) where another is forgotten.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn follow(
        &mut self,
        fragment: &Fragment,
        headers: &Headers,
        time_ns: u64,
    ) -> Result<Option<First>, Malformed> {
        // As stamps do, which are what functions step by.
        self.now_ns = self.now_ns.max(time_ns);
        if fragment.is_nested {
            return Err(Malformed::FragmentNested);
        }
        if fragment.len == 0 || (fragment.has_more && !fragment.len.is_multiple_of(8)) {
            return Err(Malformed::FragmentLength);
        }
        match self.find(&fragment.datagram) {
            Some(place) => {
                let first = self.slots[place].first;
                self.go_on(place, fragment).map_or(Ok(Some(first)), Err)
            }
            None if fragment.offset > 0 => Err(Malformed::FragmentWithoutFirst),
            None => {
                self.begin(fragment, First::of(headers));
                Ok(None)
            }
        }
    }

    /// The slot of a datagram that is followed and has not timed out.
    fn find(&mut self, datagram: &Datagram) -> Option<usize> {
        let place = *self.places.get(datagram)?;
        if self.now_ns - self.slots[place].begun_ns < FragmentTracker::TIMEOUT_NS {
            return Some(place);
        }
        self.forget(place);
        None
    }

    fn forget(&mut self, place: usize) {
        self.places.remove(&self.slots[place].datagram);
        self.free.push(place);
    }

    fn begin(&mut self, fragment: &Fragment, first: First) {
        if self.free.is_empty() {
            self.make_room(source(&fragment.datagram.src));
        }
        let Some(place) = self.free.pop() else { return };
        self.places.insert(fragment.datagram, place);
        self.slots[place] = Slot {
            datagram: fragment.datagram,
            number: self.begun,
            begun_ns: self.now_ns,
            count: 1,
            bytes: fragment.len,
            end: None,
            header_len: fragment.header_len,
            first,
            refused: None,
        };
        self.parts[place * self.fragments] = Part { begin: 0, end: fragment.end() };
        self.begun += 1;
    }

    /// All slots are taken. One source alone, whatever it sends, takes no other's slot once it has its share.
    fn make_room(&mut self, of: [u8; 8]) {
        let (mut oldest, mut own, mut own_oldest) = (0, 0, None);
        for (place, slot) in self.slots.iter().enumerate() {
            // Datagrams began in the order in which they die.
            oldest = if slot.number < self.slots[oldest].number { place } else { oldest };
            if source(&slot.datagram.src) == of {
                own += 1;
                let is_older = own_oldest.is_none_or(|before: usize| slot.number < self.slots[before].number);
                own_oldest = if is_older { Some(place) } else { own_oldest };
            }
        }
        let has_share = own >= (self.slots.len() / FragmentTracker::SHARES).max(1);
        self.forget(own_oldest.filter(|_| has_share).unwrap_or(oldest));
    }

    fn go_on(&mut self, place: usize, fragment: &Fragment) -> Option<Malformed> {
        let slot = &mut self.slots[place];
        let parts = &mut self.parts[place * self.fragments..][..self.fragments];
        if slot.refused.is_some() {
            return slot.refused;
        }
        let refused = slot.refuses(&parts[..slot.count], fragment);
        if refused.is_some() {
            // RFC 5722 §3: with one fragment the datagram goes, and all that come later.
            slot.refused = refused.filter(|why| *why != Malformed::FragmentDuplicate);
            return refused;
        }
        let Some(part) = parts.get_mut(slot.count) else {
            slot.refused = Some(Malformed::TooManyFragments);
            return slot.refused;
        };
        *part = Part { begin: fragment.offset, end: fragment.end() };
        slot.count += 1;
        slot.bytes += fragment.len;
        slot.end = if fragment.has_more { slot.end } else { Some(fragment.end()) };
        if slot.end == Some(slot.bytes) {
            // Whole: no two parts overlap, and none is behind the end.
            self.forget(place);
        }
        None
    }
}

/// Who sends from an address, as far as one sender can choose it.
fn source(address: &Addr) -> [u8; 8] {
    let mut source = [0; 8];
    match address.to_v4() {
        Some(octets) => source[4..].copy_from_slice(&octets),
        None => source.copy_from_slice(&address.0[..8]),
    }
    source
}

/// Bytes of a datagram, as its length field counts them, at most.
const MAX_LEN: u32 = 65_535;

impl Slot {
    /// Why a fragment does not fit the others of its datagram.
    fn refuses(&self, parts: &[Part], fragment: &Fragment) -> Option<Malformed> {
        let (begin, end) = (fragment.offset, fragment.end());
        let is_last = self.end == Some(end);
        if parts.contains(&Part { begin, end }) && is_last != fragment.has_more {
            return Some(Malformed::FragmentDuplicate);
        }
        if parts.iter().any(|part| begin < part.end && part.begin < end) {
            return Some(Malformed::FragmentOverlap);
        }
        if self.header_len + end > MAX_LEN {
            return Some(Malformed::FragmentOverflow);
        }
        let fits = match self.end {
            Some(last) => fragment.has_more && end <= last,
            None => fragment.has_more || parts.iter().all(|part| part.end <= begin),
        };
        (!fits).then_some(Malformed::FragmentEnd)
    }
}

impl Default for FragmentTracker {
    fn default() -> FragmentTracker {
        FragmentTracker::new()
    }
}

#[cfg(test)]
mod tests;
