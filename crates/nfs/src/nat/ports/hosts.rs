//! How many mappings each inside host has, so that one host cannot take what others need (RFC 6888 REQ-4).

use alloc::vec;
use alloc::vec::Vec;

use core::net::IpAddr;

use nf::prefix::PrefixSet;

/// The most inside addresses that are counted for: each takes 16 bytes.
pub(in crate::nat) const HOSTS_MAX: u64 = 1 << 20;

/// No place.
const NONE: u32 = u32::MAX;

/// The mappings of each inside host, as far as they are not known to be dead. The default counts nothing.
///
/// A host at its limit is refused in `O(1)` as long as none of its mappings can be dead: the earliest deadline that was found
/// when they were last looked at. From then on the next refusal looks at all of them. A deadline that is the earliest passes
/// once, unless a packet moves it, and then it is a time-out away: so a host with *N* mappings is looked at no more
/// than *N* times in a time-out, *N* mappings each.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    /// The most mappings of a host; 0: any number.
    most: u32,
    /// First and last address of each inside prefix, and the index of the first one's host.
    prefixes: Vec<(u32, u32, usize)>,
    hosts: Vec<Host>,
    /// By place in the table of ports: the neighbours among the mappings of the same host.
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    count: u32,
    /// The place of one of its mappings.
    first: u32,
    /// None of them is dead before.
    earliest_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
}

const UNLINKED: Link = Link { next: NONE, previous: NONE };

impl Hosts {
    /// For hosts of `inside`, with up to `most` mappings each, which are at `places` places.
    pub(super) fn new(inside: &PrefixSet, most: u32, places: usize) -> Hosts {
        if most == 0 {
            return Hosts::default();
        }
        let mut hosts = 0;
        let mut prefixes = Vec::new();
        for (first, last) in v4(inside) {
            prefixes.push((first, last, hosts));
            hosts += (last - first) as usize + 1;
        }
        prefixes.sort_unstable();
        let none = Host { count: 0, first: NONE, earliest_ns: u64::MAX };
        Hosts { most, prefixes, hosts: vec![none; hosts], links: vec![UNLINKED; places] }
    }

    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.most > 0
    }

    fn index(&self, host: [u8; 4]) -> Option<usize> {
        let addr = u32::from_be_bytes(host);
        let at = self.prefixes.partition_point(|(first, ..)| *first <= addr).checked_sub(1)?;
        let (first, last, index) = *self.prefixes.get(at)?;
        (addr <= last).then(|| index + (addr - first) as usize)
    }

    /// Whether a host may have one more mapping. `end_ns` says when the mapping at a place is dead.
    pub(super) fn admits(&mut self, host: [u8; 4], now_ns: u64, end_ns: impl Fn(usize) -> u64) -> bool {
        let Some(index) = self.index(host) else { return true };
        let Some(Host { count, earliest_ns, .. }) = self.hosts.get(index).copied() else { return true };
        if count < self.most {
            return true;
        }
        if now_ns < earliest_ns {
            return false;
        }
        self.forget_dead(index, now_ns, end_ns);
        self.hosts.get(index).is_none_or(|host| host.count < self.most)
    }

    fn forget_dead(&mut self, index: usize, now_ns: u64, end_ns: impl Fn(usize) -> u64) {
        let Some(Host { count, mut first, .. }) = self.hosts.get(index).copied() else { return };
        let mut earliest_ns = u64::MAX;
        for _ in 0..count {
            let place = first;
            let Some(link) = self.links.get(place as usize) else { return };
            first = link.next;
            let end_ns = end_ns(place as usize);
            match end_ns <= now_ns {
                true => self.unlink(index, place),
                false => earliest_ns = earliest_ns.min(end_ns),
            }
        }
        if let Some(host) = self.hosts.get_mut(index) {
            host.earliest_ns = earliest_ns;
        }
    }

    /// A host has a mapping at a place, which is dead at `end_ns`.
    pub(super) fn add(&mut self, host: [u8; 4], place: usize, end_ns: u64) {
        let Some(index) = self.index(host) else { return };
        let Some(entry) = self.hosts.get_mut(index) else { return };
        entry.count += 1;
        entry.earliest_ns = entry.earliest_ns.min(end_ns);
        let (place, first) = (place as u32, entry.first);
        entry.first = place;
        let (next, previous) = match self.links.get(first as usize) {
            Some(link) => (first, link.previous),
            None => (place, place),
        };
        self.set(place, |link| *link = Link { next, previous });
        self.set(previous, |link| link.next = place);
        self.set(next, |link| link.previous = place);
    }

    /// A host's mapping at a place is gone, if it was not known to be dead before.
    pub(super) fn remove(&mut self, host: [u8; 4], place: usize) {
        let is_linked = self.links.get(place).is_some_and(|link| link.next != NONE);
        if let Some(index) = self.index(host).filter(|_| is_linked) {
            self.unlink(index, place as u32);
        }
    }

    /// A mapping of a host is dead earlier than it would have been.
    pub(super) fn lower(&mut self, host: [u8; 4], end_ns: u64) {
        let index = self.index(host);
        if let Some(entry) = index.and_then(|index| self.hosts.get_mut(index)) {
            entry.earliest_ns = entry.earliest_ns.min(end_ns);
        }
    }

    fn unlink(&mut self, index: usize, place: u32) {
        let Some(Link { next, previous }) = self.links.get(place as usize).copied() else { return };
        self.set(previous, |link| link.next = next);
        self.set(next, |link| link.previous = previous);
        self.set(place, |link| *link = UNLINKED);
        if let Some(host) = self.hosts.get_mut(index) {
            host.count = host.count.saturating_sub(1);
            host.first = if next == place { NONE } else { next };
        }
    }

    fn set(&mut self, place: u32, set: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.get_mut(place as usize) {
            set(link);
        }
    }
}

/// First and last address of each IPv4 prefix.
fn v4(prefixes: &PrefixSet) -> impl Iterator<Item = (u32, u32)> {
    prefixes.prefixes().filter_map(|(addr, bits)| match addr {
        IpAddr::V4(addr) => {
            let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
            let first = addr.to_bits() & !rest;
            Some((first, first | rest))
        }
        IpAddr::V6(_) => None,
    })
}

/// How many addresses prefixes have.
pub(in crate::nat) fn addresses(inside: &PrefixSet) -> u64 {
    v4(inside).map(|(first, last)| u64::from(last - first) + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn inside(prefixes: &[&str]) -> PrefixSet {
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| (*prefix).into()).collect();
        PrefixSet::parse("inside", &prefixes).expect("prefixes")
    }

    #[test]
    fn each_inside_address_is_counted_for_itself() {
        let inside = inside(&["10.1.0.0/30", "192.168.7.7/32", "10.0.0.0/31"]);
        assert_eq!(addresses(&inside), 7);
        let hosts = Hosts::new(&inside, 1, 1);
        let mut indices: Vec<_> =
            [[10, 1, 0, 0], [10, 1, 0, 3], [192, 168, 7, 7], [10, 0, 0, 0], [10, 0, 0, 1]]
                .map(|host| hosts.index(host).expect("inside"))
                .to_vec();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!((indices.len(), indices.last() < Some(&7)), (5, true));
        for other in [[10, 1, 0, 4], [192, 168, 7, 8], [0, 0, 0, 0], [255, 255, 255, 255], [10, 0, 0, 2]] {
            assert_eq!(hosts.index(other), None);
        }
    }

    proptest! {
        /// As a plain list of deadlines has it, whatever comes and goes.
        #[test]
        fn a_host_has_as_many_as_live(
            steps in proptest::collection::vec((0..4_u8, 0..3_u8, 0..12_usize, 1..30_u64), 0..400),
        ) {
            let mut hosts = Hosts::new(&inside(&["10.0.0.0/30"]), 3, 12);
            let mut plain: BTreeMap<usize, (u8, u64)> = BTreeMap::new();
            let mut now_ns = 0;
            for (what, host, place, ns) in steps {
                let addr = [10, 0, 0, host];
                match (what, plain.get(&place).copied()) {
                    (0, _) => now_ns += ns,
                    (1, None) => {
                        let live = plain.values().filter(|(of, end)| *of == host && *end > now_ns).count();
                        let ends = plain.clone();
                        let admits = hosts.admits(addr, now_ns, |place| ends[&place].1);
                        prop_assert_eq!(admits, live < 3);
                        if admits {
                            plain.insert(place, (host, now_ns + ns));
                            hosts.add(addr, place, now_ns + ns);
                        }
                    }
                    (2, Some((of, _))) => {
                        plain.remove(&place);
                        hosts.remove([10, 0, 0, of], place);
                    }
                    // A mapping that is dead never lives again.
                    (3, Some((of, end))) if end > now_ns => {
                        plain.insert(place, (of, now_ns + ns));
                        if now_ns + ns < end {
                            hosts.lower([10, 0, 0, of], now_ns + ns);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
