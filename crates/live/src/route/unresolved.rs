//! Packets that wait until the kernel has resolved their next hop.

use super::ask::Ask;
use super::forwarder::Forwarder;

/// The latest packet to each neighbour whose Ethernet address is not known yet (RFC 1122 §2.3.2.2, RFC 4861 §7.2.2).
///
/// It belongs to the thread that has the [`Forwarder`]. `T` is a packet as its owner has it. Packets come by
/// [`put`](Unresolved::put) and go by [`take_due`](Unresolved::take_due), one at a time; the forwarder is told what becomes of
/// each of them, since it counts them.
pub struct Unresolved<T> {
    waiting: Vec<Waiting<T>>,
    /// The version of the tables that were searched for all neighbours here.
    version: u64,
    /// The first packet's time is not over before.
    until_ns: u64,
}

struct Waiting<T> {
    neighbour: Ask,
    until_ns: u64,
    packet: T,
}

/// Neighbours for which a packet may wait. One more takes the place of the packet that has waited longest.
pub const UNRESOLVED: usize = 64;

/// How long a packet waits. The kernel gives a neighbour up after three requests, one a second: until then it is not known
/// whether the sender has to be told.
pub const WAIT_NS: u64 = 5_000_000_000;

impl<T> Default for Unresolved<T> {
    fn default() -> Unresolved<T> {
        Unresolved { waiting: Vec::with_capacity(UNRESOLVED), version: 0, until_ns: u64::MAX }
    }
}

impl<T> Unresolved<T> {
    /// Whether no packet waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many packets wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Has a packet wait for which the forwarder's latest decision was [`Unresolved`](super::Decision::Unresolved). The
    /// packet whose place it takes, if it takes one, is to be dropped: [`Forwarder::give_up`].
    pub fn put(&mut self, forwarder: &Forwarder, packet: T) -> Option<T> {
        let new = Waiting { neighbour: forwarder.neighbour, until_ns: forwarder.now_ns + WAIT_NS, packet };
        let before = match self.waiting.iter().position(|waiting| waiting.neighbour == new.neighbour) {
            None if self.waiting.len() < UNRESOLVED => None,
            None => self.oldest(),
            same => same,
        };
        self.until_ns = self.until_ns.min(new.until_ns);
        let before = before.map(|at| self.waiting.swap_remove(at));
        self.waiting.push(new);
        before.map(|before| before.packet)
    }

    /// Takes a packet whose neighbour the forwarder's tables know, or know to have failed, or whose time is over.
    /// [`Forwarder::again`] decides on it.
    pub fn take_due(&mut self, forwarder: &Forwarder) -> Option<T> {
        if self.version == forwarder.version() && forwarder.now_ns < self.until_ns {
            return None;
        }
        let is_due = |waiting: &Waiting<T>| {
            waiting.until_ns <= forwarder.now_ns || forwarder.has_heard_of(waiting.neighbour)
        };
        if let Some(at) = self.waiting.iter().position(is_due) {
            return Some(self.waiting.swap_remove(at).packet);
        }
        self.version = forwarder.version();
        self.until_ns = self.waiting.iter().map(|waiting| waiting.until_ns).min().unwrap_or(u64::MAX);
        None
    }

    /// Takes any packet, where nobody waits any longer. It is to be dropped: [`Forwarder::give_up`].
    pub fn take(&mut self) -> Option<T> {
        self.waiting.pop().map(|waiting| waiting.packet)
    }

    #[cfg(test)]
    pub(super) fn packets(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|waiting| &waiting.packet)
    }

    fn oldest(&self) -> Option<usize> {
        let until_ns = |at: &usize| self.waiting[*at].until_ns;
        (0..self.waiting.len()).min_by_key(until_ns)
    }
}
