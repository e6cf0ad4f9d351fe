//! Packets that wait until the kernel has resolved their next hop.

use super::ask::Ask;
use super::forwarder::Forwarder;

/// The latest packets to each neighbour whose Ethernet address is not known yet (RFC 1122 §2.3.2.2, RFC 4861 §7.2.2), in the
/// order in which they came.
///
/// It belongs to the thread that has the [`Forwarder`]. `T` is a packet as its owner has it. Packets come by
/// [`put`](Unresolved::put) and go by [`take_due`](Unresolved::take_due), one at a time; the forwarder is told what becomes of
/// each of them, since it counts them.
pub struct Unresolved<T> {
    /// In order of arrival.
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

/// Packets that may wait. One more takes the place of the packet that has waited longest.
pub const UNRESOLVED: usize = 128;

/// Packets that may wait for one neighbour. One more takes the place of the one that has waited longest for it. A host
/// that begins to talk to another one sends several at once: two questions to a name server, a flight of segments.
pub const UNRESOLVED_EACH: usize = 8;

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
        let mut same = (0..).zip(&self.waiting).filter(|(_, waiting)| waiting.neighbour == new.neighbour);
        let before: Option<usize> = match same.next() {
            Some((oldest, _)) if same.count() + 1 >= UNRESOLVED_EACH => Some(oldest),
            _ if self.waiting.len() < UNRESOLVED => None,
            _ => Some(0),
        };
        let before = before.map(|at| self.waiting.remove(at));
        self.until_ns = self.until_ns.min(new.until_ns);
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
            return Some(self.waiting.remove(at).packet);
        }
        self.version = forwarder.version();
        self.until_ns = self.waiting.first().map_or(u64::MAX, |waiting| waiting.until_ns);
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
}
