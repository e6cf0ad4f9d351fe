//! Weighted round robin whose turns are spread out, as nginx's and IPVS's are, in a fixed order.

use core::cmp::Reverse;

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;

/// One round: the backends in the order of their turns, each as often as it weighs. Empty without any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RoundRobin {
    turns: Vec<u16>,
}

/// How far a round has come: a place in `turns`.
pub(super) type Cursor = u32;

/// What the policy keeps beside the flows; empty under other policies.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Whose turn it is, by service.
    pub(super) cursors: Box<[Cursor]>,
    /// By hash of the flow: until when its packets go by the hash, ns. Flows that were refused are not in the table
    /// and must be known when it has room again. That others have the same place costs them a turn, and no more.
    by_hash_until_ns: Box<[u64]>,
}

impl Turns {
    /// Places in `by_hash_until_ns`: 16 KiB.
    const PLACES: usize = 2_048;

    pub(super) fn new(cursors: Box<[Cursor]>) -> Turns {
        Turns { cursors, by_hash_until_ns: vec![0; Turns::PLACES].into_boxed_slice() }
    }

    /// Whether a flow of this hash may have been refused, and not been silent for its time-out since.
    #[inline]
    pub(super) fn goes_by_hash(&self, flow_hash: u64, now_ns: u64) -> bool {
        self.by_hash_until_ns.get(place(flow_hash)).is_some_and(|until_ns| now_ns < *until_ns)
    }

    /// A flow of this hash is refused.
    pub(super) fn refuse(&mut self, flow_hash: u64, until_ns: u64) {
        if let Some(until) = self.by_hash_until_ns.get_mut(place(flow_hash)) {
            *until = until_ns.max(*until);
        }
    }
}

/// By the upper bits: the lower ones choose the backend.
fn place(flow_hash: u64) -> usize {
    (flow_hash >> 48) as usize % Turns::PLACES
}

impl RoundRobin {
    /// A round for backends and their weights, at least 1, in the order in which they have equal turns.
    ///
    /// Turn *k* (from 0) of a backend of weight *w* of *W* may not be earlier than at place *k W/w*,
    /// rounded down, and must be before (*k* + 1) *W/w*, rounded up. So at every place *n*, in every
    /// round, each has had its *n w/W* turns to within less than one (Tijdeman, "The chairman
    /// assignment problem", 1980). That they all find a place, and are found it by giving each place to the
    /// open turn that is due first, is shown there. nginx's order, greatest debt first, looks as even and
    /// is off by more than one for some weights.
    ///
    /// Takes the sum of the weights, less their common divisor, times its logarithm.
    pub(super) fn new(backends: &[(u16, u32)]) -> RoundRobin {
        let divisor = backends.iter().fold(0, |divisor, (_, weight)| gcd(divisor, *weight)).max(1);
        let weights = || backends.iter().map(|(backend, weight)| (*backend, u64::from(weight / divisor)));
        let total: u64 = weights().map(|(_, weight)| weight).sum();
        let turns_of = |(backend, weight): (u16, u64)| {
            (0..weight).map(move |k| {
                let (from, due) = (k * total / weight, ((k + 1) * total).div_ceil(weight));
                (from, due, backend)
            })
        };
        let mut to_come: Vec<(u64, u64, u16)> = weights().flat_map(turns_of).collect();
        to_come.sort_unstable();
        let mut to_come = to_come.into_iter().peekable();
        let mut open = BinaryHeap::new();
        let turns = (0..total).map_while(|place| {
            while let Some((_, due, backend)) = to_come.next_if(|(from, ..)| *from <= place) {
                open.push(Reverse((due, backend)));
            }
            open.pop().map(|Reverse((_, backend))| backend)
        });
        RoundRobin { turns: turns.collect() }
    }

    /// Where a core begins: `cores` of them share out the round, so that they do not all begin with the
    /// same backend.
    pub(super) fn start(&self, core: usize, cores: usize) -> Cursor {
        (self.turns.len() * core / cores.max(1)) as Cursor
    }

    /// Whose turn it is; `None` if there is nobody.
    #[inline]
    pub(super) fn take(&self, cursor: &mut Cursor) -> Option<u16> {
        let backend = *self.turns.get(*cursor as usize)?;
        *cursor = if *cursor as usize + 1 < self.turns.len() { *cursor + 1 } else { 0 };
        Some(backend)
    }

    /// Undoes the last [`RoundRobin::take`].
    pub(super) fn give_back(&self, cursor: &mut Cursor) {
        *cursor = cursor.checked_sub(1).unwrap_or((self.turns.len() as Cursor).saturating_sub(1));
    }

    /// The whole round.
    #[cfg(test)]
    pub(super) fn turns(&self) -> &[u16] {
        &self.turns
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
