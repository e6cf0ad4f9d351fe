//! Whose every external port is: one table, which all cores of a run share.

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::sync::Arc;
use alloc::vec::Vec;

use wire::protocol;

use crate::nat::endpoint::{External, Inside, PROTOCOLS};
use crate::nat::options::PortRange;

/// An entry for each external port. It is written by the core that owns the port and by no other. Only
/// packets that a core hairpins read entries of other cores.
///
/// Ports of one core are neighbours: an entry is written with each packet that goes out, and cores that
/// write to one line wait for each other.
#[derive(Debug, Default)]
pub(super) struct PortTable {
    range: PortRange,
    /// By [`PortTable::kind`] and by port: the entry's place among those of the kind. Empty where one core has all ports:
    /// their order is [`PortRange::place_by_parity`] then, and no memory is read for it.
    places: Arc<[u16]>,
    /// By place: the port.
    ports: Arc<[u16]>,
    entries: Arc<[Entry]>,
}

/// What is known of an external port.
///
/// ```text
///  63         56 55     49     48    47           16 15           0
///  | generation | zero   | taken | inside address  | inside port  |
///  | deadline, ns                                                 |
/// ```
///
/// A core sees its own writes at once, and the others' soon. A core that reads an inside endpoint reads a deadline
/// behind it that was written with it or later: the endpoint is stored with release and loaded with acquire.
/// When a port gets another owner in between, that is the next owner's deadline: the last owner is met a moment
/// after its end, as it also would be by a core that is a moment behind.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub(super) struct Entry {
    inside: AtomicU64,
    deadline_ns: AtomicU64,
}

const TAKEN: u64 = 1 << 48;
const GENERATION_SHIFT: u32 = 56;

/// A table of its own with what is in this one.
impl Clone for PortTable {
    fn clone(&self) -> PortTable {
        let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        let entries = self.entries.iter().map(|Entry { inside, deadline_ns }| Entry {
            inside: copy(inside),
            deadline_ns: copy(deadline_ns),
        });
        PortTable { entries: entries.collect(), ..self.share() }
    }
}

impl PortTable {
    /// A table of ports that are all free: `order` has those of each kind in the order of their places.
    pub(super) fn new(range: PortRange, order: Vec<u16>) -> PortTable {
        let by_parity =
            |ports: &[u16]| (0..).zip(ports).all(|(place, port)| range.place_by_parity(*port) == place);
        let places = match order.chunks(range.len()).all(by_parity) {
            true => Vec::new(),
            false => places(range, &order),
        };
        let entries = order.iter().map(|_| Entry::default()).collect();
        PortTable { range, places: places.into(), ports: order.into(), entries }
    }

    /// Another handle of the same table.
    pub(super) fn share(&self) -> PortTable {
        let PortTable { range, places, ports, entries } = self;
        PortTable {
            range: *range,
            places: Arc::clone(places),
            ports: Arc::clone(ports),
            entries: Arc::clone(entries),
        }
    }

    /// Counts through addresses and protocols.
    #[inline]
    pub(super) fn kind(address: u8, protocol: u8) -> usize {
        let of_address = match protocol {
            protocol::UDP => 0,
            protocol::TCP => 1,
            _ => 2,
        };
        usize::from(address) * PROTOCOLS.len() + of_address
    }

    /// Where a port's entry is.
    #[inline]
    pub(super) fn place(&self, kind: usize, port: u16) -> Option<usize> {
        let first = kind * self.range.len();
        let offset = self.range.offset(port)?;
        let place = match self.places.is_empty() {
            true => self.range.place_by_parity(port),
            false => usize::from(*self.places.get(first + offset)?),
        };
        Some(first + place)
    }

    /// Whose entry is at a place.
    pub(super) fn port(&self, place: usize) -> u16 {
        self.ports[place]
    }

    #[inline]
    pub(super) fn entry(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    #[inline]
    pub(super) fn entry_of(&self, external: External) -> Option<&Entry> {
        self.entry(self.place(PortTable::kind(external.address, external.protocol), external.port)?)
    }
}

/// By kind and by port: its place among those of the kind.
fn places(range: PortRange, order: &[u16]) -> Vec<u16> {
    let mut places = alloc::vec![0; order.len()];
    let mut before: &[u16] = &[];
    for (kind, ports) in order.chunks(range.len()).enumerate() {
        let first = kind * range.len();
        if ports == before {
            places.copy_within(first - range.len()..first, first);
            continue;
        }
        before = ports;
        for (place, port) in ports.iter().enumerate() {
            if let Some(offset) = range.offset(*port) {
                places[first + offset] = place as u16;
            }
        }
    }
    places
}

impl Entry {
    /// The endpoint whose mapping lives at that time.
    #[inline]
    pub(super) fn inside(&self, now_ns: u64) -> Option<Inside> {
        let word = self.inside.load(Ordering::Acquire);
        let lives = word & TAKEN != 0 && now_ns < self.deadline_ns();
        lives.then(|| (((word >> 16) as u32).to_be_bytes(), word as u16))
    }

    pub(super) fn is_taken(&self) -> bool {
        self.inside.load(Ordering::Relaxed) & TAKEN != 0
    }

    /// The host whose mapping has the port, dead or not.
    pub(super) fn owner(&self) -> Option<[u8; 4]> {
        let word = self.inside.load(Ordering::Relaxed);
        (word & TAKEN != 0).then(|| ((word >> 16) as u32).to_be_bytes())
    }

    /// When the mapping that has the port is dead; without one, any time.
    #[inline]
    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Ordering::Relaxed)
    }

    /// When the mapping that has the port is dead; without one, never.
    #[inline]
    pub(super) fn end_ns(&self) -> u64 {
        if self.is_taken() { self.deadline_ns() } else { u64::MAX }
    }

    #[inline]
    pub(super) fn set_deadline(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    /// The port is this endpoint's now. Returns the mapping's generation.
    pub(super) fn take(&self, inside: Inside, deadline_ns: u64) -> u8 {
        let before = self.inside.load(Ordering::Relaxed);
        let generation = ((before >> GENERATION_SHIFT) as u8).wrapping_add(1);
        self.set_deadline(deadline_ns);
        self.inside.store(word(inside, generation), Ordering::Release);
        generation
    }

    /// The port is nobody's now, if it was this mapping's; says whether.
    pub(super) fn clear(&self, inside: Inside, generation: u8) -> bool {
        let was_taken = self.inside.load(Ordering::Relaxed) == word(inside, generation);
        if was_taken {
            self.inside.store(u64::from(generation) << GENERATION_SHIFT, Ordering::Relaxed);
        }
        was_taken
    }
}

fn word((addr, port): Inside, generation: u8) -> u64 {
    let inside = u64::from(u32::from_be_bytes(addr)) << 16 | u64::from(port);
    u64::from(generation) << GENERATION_SHIFT | TAKEN | inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::options::Options;

    fn range(first: u16, last: u16) -> PortRange {
        PortRange::new(&Options { ports: [first, last].to_vec(), ..Options::default() }).expect("a range")
    }

    /// A table of two kinds whose ports are in this order.
    fn table(range: PortRange, mut order: Vec<u16>) -> PortTable {
        order.extend_from_within(..);
        PortTable::new(range, order)
    }

    /// Whether the places of one core's ports follow from the ports, or are looked up, as in any other order.
    #[test]
    fn each_port_is_at_its_place() {
        for (first, last) in [(1, 1), (2, 2), (1_024, 1_031), (1_025, 1_031), (1_024, 1_032), (1_025, 1_032)]
        {
            let range = range(first, last);
            let (mut by_parity, odd): (Vec<u16>, Vec<u16>) = range.iter().partition(|port| port % 2 == 0);
            by_parity.extend(odd);
            let reversed: Vec<u16> = by_parity.iter().rev().copied().collect();
            for order in [by_parity.clone(), reversed] {
                let table = table(range, order.clone());
                assert_eq!(table.places.is_empty(), order == by_parity, "{first} to {last}");
                for kind in 0..2 {
                    let places = range
                        .iter()
                        .map(|port| (port, table.place(kind, port).expect("a port of the range")));
                    let is_its_own = |(port, place): (u16, usize)| {
                        place / range.len() == kind && table.port(place) == port
                    };
                    assert!(places.into_iter().all(is_its_own), "{first} to {last}, {order:?}");
                }
                assert_eq!(table.place(0, first - 1), None);
                assert_eq!(table.place(0, last + 1), None);
            }
        }
    }
}
