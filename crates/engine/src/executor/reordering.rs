//! How far packets leave out of the order of their numbers, by the metrics of RFC 4737.
//!
//! ```text
//!   leaving     1  2  3  5  6  7  8  4  9  10
//!   NextExp     1  2  3  4  6  7  8  9  9  10       4 < 9: packet 4 is reordered (§3.3)
//!                        ▲           │
//!                        └───────────┘              5 was the first above 4 to leave: its extent is 4 (§4.2.2)
//!                        5  6  7  8                 all directly before it are above 4: it is 4-reordered (§5)
//! ```
//!
//! Memory is bounded, and within the bound all is exact.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;

use hdrhistogram::Histogram;

/// The longest run of earlier packets that is looked at for n-reordering. TCP takes a packet for lost once three
/// that were sent after it have come.
pub const MAX_N: usize = 8;

/// Counts packets as they leave.
pub struct Reordering {
    /// Packets so far.
    packets: u64,
    reordered: u64,
    /// By n less one: packets that are n-reordered.
    n_reordered: [u64; MAX_N],
    /// The last ones' numbers, by their place modulo [`MAX_N`].
    last: [u64; MAX_N],
    firsts: Firsts,
    extents: Histogram<u64>,
    extent_max: u64,
    at_least: u64,
    flows: Flows,
    reordered_in_flow: u64,
}

/// What is known of the order in which packets left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reordered {
    /// Packets that left.
    pub packets: u64,
    /// Packets among them that left after one with a higher number: RFC 4737's Type-P-Reordered.
    pub reordered: u64,
    /// Packets that left after one of their own flow with a higher number.
    pub in_flow: u64,
    /// Half of the reordered packets have a reordering extent of at most this many packets.
    pub extent_p50: u64,
    /// 99 of 100 have.
    pub extent_p99: u64,
    /// The largest reordering extent, packets.
    pub extent_max: u64,
    /// Reordered packets whose extent is larger than could be seen, and counts as what could be.
    pub extent_at_least: u64,
    /// By n less one, packets that are n-reordered: the n packets that left just before have higher numbers.
    pub n_reordered: [u64; MAX_N],
}

impl Reordering {
    /// Exact as long as of the packets that leave ahead of an earlier one no more than `window` have higher numbers,
    /// and no more than twice as many leave in between at all. Beyond that, extents count as at least what was seen,
    /// and packets that are reordered within their flow may be missed.
    ///
    /// Takes 16 bytes for each packet of the window, and some 40 for each flow of the last two to four windows.
    ///
    /// # Panics
    /// If `window` is 0.
    pub fn new(window: usize) -> Reordering {
        Reordering {
            packets: 0,
            reordered: 0,
            n_reordered: [0; MAX_N],
            last: [0; MAX_N],
            firsts: Firsts::new(window),
            // To three digits, as large as it takes.
            extents: Histogram::new(3).expect("three digits are few enough"),
            extent_max: 0,
            at_least: 0,
            flows: Flows::new(2 * window),
            reordered_in_flow: 0,
        }
    }

    /// Packet number `seq` leaves, which no other has. `flow` tells its flow from others; `None` if it is of none. Takes O(log *e*) for an
    /// extent of *e*, and otherwise O(1), amortised.
    #[inline]
    pub fn leave(&mut self, seq: u64, flow: Option<u64>) {
        let place = self.packets;
        if self.firsts.is_next(seq) {
            self.firsts.push(seq, place);
        } else {
            self.overtaken(seq, place);
        }
        if let Some(flow) = flow {
            self.reordered_in_flow += u64::from(self.flows.leave(flow, seq));
        }
        self.last[place as usize % MAX_N] = seq;
        self.packets += 1;
    }

    /// What there is to tell.
    pub fn reordered(&self) -> Reordered {
        Reordered {
            packets: self.packets,
            reordered: self.reordered,
            in_flow: self.reordered_in_flow,
            extent_p50: self.extents.value_at_quantile(0.5).min(self.extent_max),
            extent_p99: self.extents.value_at_quantile(0.99).min(self.extent_max),
            extent_max: self.extent_max,
            extent_at_least: self.at_least,
            n_reordered: self.n_reordered,
        }
    }

    fn overtaken(&mut self, seq: u64, place: u64) {
        self.reordered += 1;
        let (first, is_exact) = self.firsts.first_above(seq);
        let extent = place - first;
        let recorded = self.extents.record(extent);
        debug_assert!(recorded.is_ok(), "it takes any number of packets");
        self.extent_max = self.extent_max.max(extent);
        self.at_least += u64::from(!is_exact);
        // RFC 4737 §5: all of the n before it, without a gap.
        let before = (1..=place.min(MAX_N as u64)).map(|n| self.last[(place - n) as usize % MAX_N]);
        let n = before.take_while(|before| *before > seq).count();
        self.n_reordered[..n].iter_mut().for_each(|count| *count += 1);
    }
}

/// Packets that left ahead of all with higher numbers, each with its place in the order of leaving: the last ones of
/// them. Both numbers and places rise.
///
/// The first packet to leave with a number above some other is one of these: had a higher one left before, that would
/// have been the first.
struct Firsts {
    /// Number and place, in a circle.
    ring: Box<[(u64, u64)]>,
    /// How many there ever were.
    count: usize,
}

impl Firsts {
    fn new(window: usize) -> Firsts {
        assert!(window > 0, "a window of no packets");
        Firsts { ring: vec![(0, 0); window.next_power_of_two()].into(), count: 0 }
    }

    /// Whether no higher number left: RFC 4737's s >= NextExp.
    #[inline]
    fn is_next(&self, seq: u64) -> bool {
        self.count == 0 || seq > self.nth_last(1).0
    }

    #[inline]
    fn push(&mut self, seq: u64, place: u64) {
        let mask = self.ring.len() - 1;
        self.ring[self.count & mask] = (seq, place);
        self.count += 1;
    }

    /// The place of the first above `seq`, of which there is one, and whether that is known to be the first.
    /// Looks twice as far back each time, since most are near.
    fn first_above(&self, seq: u64) -> (u64, bool) {
        let kept = self.count.min(self.ring.len());
        // All up to here are above; those from `end` on are not.
        let (mut above, mut end) = (1, kept + 1);
        let mut step = 1;
        while above + step <= kept {
            if self.nth_last(above + step).0 <= seq {
                end = above + step;
                break;
            }
            above += step;
            step *= 2;
        }
        while end - above > 1 {
            let middle = above.midpoint(end);
            if self.nth_last(middle).0 > seq {
                above = middle;
            } else {
                end = middle;
            }
        }
        (self.nth_last(above).1, above < kept || self.count == kept)
    }

    /// The last one is the first.
    #[inline]
    fn nth_last(&self, n: usize) -> (u64, u64) {
        self.ring[(self.count - n) & (self.ring.len() - 1)]
    }
}

/// The highest number of each flow that left lately.
///
/// Two tables take turns, so that flows are forgotten without a look at each: a flow is in the newer one if it had a
/// packet since that was begun, or is looked for in the older one.
struct Flows {
    newer: Highest,
    older: Highest,
    /// Packets for which a table is the newer one: so many are remembered at least.
    window: usize,
    /// Packets seen so far while this table is the newer one.
    seen: usize,
}

type Highest = HashMap<u64, u64, BuildHasherDefault<AsIs>>;

impl Flows {
    fn new(window: usize) -> Flows {
        Flows { newer: Highest::default(), older: Highest::default(), window, seen: 0 }
    }

    /// Whether a higher number of the flow left before.
    #[inline]
    fn leave(&mut self, flow: u64, seq: u64) -> bool {
        if self.seen == self.window {
            mem::swap(&mut self.newer, &mut self.older);
            self.newer.clear();
            self.seen = 0;
        }
        self.seen += 1;
        let older = &self.older;
        let highest = self.newer.entry(flow).or_insert_with(|| older.get(&flow).copied().unwrap_or(0));
        let is_reordered = seq < *highest;
        *highest = (*highest).max(seq);
        is_reordered
    }
}

/// Flows are hashes as they come.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("flows are numbers");
    }

    fn write_u64(&mut self, flow: u64) {
        self.0 = flow;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
