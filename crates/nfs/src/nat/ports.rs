//! The pool: which external ports a core has, whose they are, and until when.

mod deadlines;
pub(super) mod hosts;
mod queue;
mod table;

use alloc::vec::Vec;

use nf::hash_bytes;
use nf::prefix::PrefixSet;

use super::endpoint::{External, Inside, PROTOCOLS, Taken};
use super::options::PortRange;
use deadlines::Deadlines;
use hosts::Hosts;
use queue::FreeQueue;
use table::{Entry, PortTable};

/// Any number; the same on every core, so that a host gets one address on all of them.
const HOST_HASH_SEED: u64 = 0x706f_6f6c;

/// What a new mapping asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) protocol: u8,
    pub(super) inside: Inside,
    /// Take the inside's own port if it is free.
    pub(super) keeps_port: bool,
    /// Picks among the half of the ports that has been free for longest; without it, the very oldest is taken.
    pub(super) random: Option<u64>,
    /// The time of the packet that asks.
    pub(super) now_ns: u64,
    /// When the mapping will be dead.
    pub(super) deadline_ns: u64,
}

/// One core's external ports.
///
/// A port is *free*, or a mapping has it. Such a mapping *lives* until its deadline, and is dead from then on:
/// then nobody is let in by it, and its port is given to the next mapping when no free one is left. It need not
/// have been given back by then.
///
/// The default has no ports. Takes no memory after it was made: each queue has room for all of the core's ports of its kind.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    ports: PortTable,
    /// External addresses of which this core has ports, ascending.
    addresses: Vec<u8>,
    /// By [`PortTable::kind`]: even ports and odd ones.
    shares: Vec<[Share; 2]>,
    hosts: Hosts,
}

/// How many mappings each host of `inside` may have; 0: any number.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerHost<'a> {
    pub(super) inside: &'a PrefixSet,
    pub(super) most: u32,
}

/// Why an endpoint gets no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPort {
    /// Its host has as many mappings as it may have.
    HostHasMost,
    /// There is none.
    NoneLeft,
}

/// How cores divide the ports of one address and protocol: mostly as those of the one before.
#[derive(Default)]
struct Division {
    /// By port: for each core one for even ports and one for odd ones, and behind them two for ports that no core has.
    buckets: Vec<u32>,
    /// By bucket, where its ports begin.
    begins: Vec<usize>,
    /// By bucket, how many ports.
    counts: Vec<usize>,
}

impl Division {
    /// Asks for each port's core; says whether the buckets are others than before.
    fn differs(&mut self, range: PortRange, core_of: impl Fn(u16) -> usize) -> bool {
        let bucket = |port: u16| 2 * core_of(port) as u32 + u32::from(port % 2);
        if self.buckets.is_empty() {
            self.buckets.extend(range.iter().map(bucket));
            return true;
        }
        let mut differs = false;
        for (before, port) in self.buckets.iter_mut().zip(range.iter()) {
            let now = bucket(port);
            differs |= *before != now;
            *before = now;
        }
        differs
    }

    /// Puts those of a core side by side, so that cores do not write to the same lines; even ones first. A port whose
    /// packets come to no core is of no use to any: it comes behind all others.
    fn order(&mut self, range: PortRange, cores: usize, order: &mut Vec<u16>) {
        let Division { buckets, begins, counts } = self;
        counts.clear();
        counts.resize(2 * cores + 2, 0);
        buckets.iter().for_each(|bucket| counts[*bucket as usize] += 1);
        let mut end = 0;
        begins.clear();
        begins.extend(counts.iter().map(|count| {
            end += count;
            end - count
        }));
        let (first, mut next) = (order.len(), begins.clone());
        order.resize(first + end, 0);
        for (port, bucket) in range.iter().zip(buckets) {
            let place = &mut next[*bucket as usize];
            order[first + *place] = port;
            *place += 1;
        }
    }
}

/// A core's ports of one address, protocol and parity. They are neighbours in the table.
#[derive(Clone, Debug)]
struct Share {
    /// The first one's place in the table.
    first: usize,
    free: FreeQueue,
    deadlines: Deadlines,
}

impl Pool {
    /// One pool for each core. `core_of` says to which core packets to an external port come from
    /// outside: that core gets it.
    pub(super) fn divide(
        addresses: usize,
        range: PortRange,
        per_host: PerHost<'_>,
        cores: usize,
        core_of: impl Fn(External) -> usize,
    ) -> Vec<Pool> {
        let mut pools: Vec<(Vec<u8>, Vec<[Share; 2]>)> = (0..cores).map(|_| Default::default()).collect();
        let mut order: Vec<u16> = Vec::with_capacity(addresses * PROTOCOLS.len() * range.len());
        let mut division = Division::default();
        for address in (0..=u8::MAX).take(addresses) {
            for protocol in PROTOCOLS {
                let first = order.len();
                let core_of = |port| core_of(External { address, protocol, port }).min(cores);
                match division.differs(range, core_of) {
                    true => division.order(range, cores, &mut order),
                    false => order.extend_from_within(first - range.len()..),
                }
                let Division { begins, counts, .. } = &division;
                for (core, (own, shares)) in pools.iter_mut().enumerate() {
                    let share = |bucket: usize| Share::new(first + begins[bucket], counts[bucket]);
                    shares.push([share(2 * core), share(2 * core + 1)]);
                    if counts[2 * core] + counts[2 * core + 1] > 0 && own.last() != Some(&address) {
                        own.push(address);
                    }
                }
            }
        }
        let places = order.len();
        let ports = PortTable::new(range, order);
        let hosts = || Hosts::new(per_host.inside, per_host.most, places);
        pools
            .into_iter()
            .map(|(addresses, shares)| Pool { ports: ports.share(), addresses, shares, hosts: hosts() })
            .collect()
    }

    /// Takes a port for an inside host's endpoint. The address is the host's own (RFC 4787 REQ-2), the port's
    /// parity is that of the inside port if there is such a port (REQ-4).
    ///
    /// `O(1)` while there are free ports. When there are none, dead mappings are looked for: see [`Deadlines`].
    /// If there is a free port or a dead mapping of the host's address and the protocol, this core's, one is taken.
    ///
    /// # Errors
    /// Why there is none for it.
    pub(super) fn take(&mut self, wanted: &Wanted) -> Result<Taken, NoPort> {
        if self.hosts.is_counting() {
            let end_ns = |place| self.ports.entry(place).map_or(u64::MAX, Entry::end_ns);
            if !self.hosts.admits(wanted.inside.0, wanted.now_ns, end_ns) {
                return Err(NoPort::HostHasMost);
            }
        }
        self.take_any(wanted).ok_or(NoPort::NoneLeft)
    }

    fn take_any(&mut self, wanted: &Wanted) -> Option<Taken> {
        let address = self.address_of_host(wanted.inside.0)?;
        let kind = PortTable::kind(address, wanted.protocol);
        let parity = usize::from(wanted.inside.1 % 2);
        let kept = if wanted.keeps_port { self.take_same(kind, wanted) } else { None };
        let place = kept.or_else(|| {
            let shares = self.shares.get_mut(kind)?;
            let mut of = |parity: usize| shares[parity].take(&self.ports, wanted);
            of(parity).or_else(|| of(1 - parity))
        })?;
        let port = self.ports.port(place);
        let entry = self.ports.entry(place)?;
        if self.hosts.is_counting() {
            // A dead one's, which may still count.
            entry.owner().into_iter().for_each(|host| self.hosts.remove(host, place));
            self.hosts.add(wanted.inside.0, place, wanted.deadline_ns);
        }
        let generation = entry.take(wanted.inside, wanted.deadline_ns);
        let share = &mut self.shares[kind][usize::from(port % 2)];
        share.deadlines.lower(place - share.first, wanted.deadline_ns);
        Some(Taken { external: External { address, protocol: wanted.protocol, port }, generation })
    }

    /// The place of the inside's own port, if that is this core's, and free or dead.
    fn take_same(&mut self, kind: usize, wanted: &Wanted) -> Option<usize> {
        let port = wanted.inside.1;
        let place = self.ports.place(kind, port)?;
        let share = &mut self.shares.get_mut(kind)?[usize::from(port % 2)];
        let index = share.index_of(place)?;
        let entry = self.ports.entry(place)?;
        if entry.is_taken() {
            (entry.deadline_ns() <= wanted.now_ns).then_some(place)
        } else {
            share.free.remove(index);
            Some(place)
        }
    }

    /// A packet of the mapping went out: it is dead at `deadline_ns`. `O(1)`, but where that is earlier than before
    /// `O(log ports)`.
    #[inline]
    pub(super) fn set_deadline(&mut self, external: External, deadline_ns: u64) {
        let kind = PortTable::kind(external.address, external.protocol);
        let Some(place) = self.ports.place(kind, external.port) else { return };
        let Some(entry) = self.ports.entry(place) else { return };
        let before_ns = entry.deadline_ns();
        entry.set_deadline(deadline_ns);
        if deadline_ns < before_ns {
            let share = &mut self.shares[kind][usize::from(external.port % 2)];
            share.deadlines.lower(place - share.first, deadline_ns);
            if self.hosts.is_counting() {
                entry.owner().into_iter().for_each(|host| self.hosts.lower(host, deadline_ns));
            }
        }
    }

    /// When the mapping that has a port is dead.
    pub(super) fn deadline_ns(&self, external: External) -> u64 {
        self.ports.entry_of(external).map_or(0, Entry::deadline_ns)
    }

    /// A mapping is gone: its port becomes free, and is the last of its kind to be taken again. Nothing happens
    /// if another has the port by now.
    pub(super) fn give_back(&mut self, Taken { external, generation }: Taken, inside: Inside) {
        let kind = PortTable::kind(external.address, external.protocol);
        let Some(place) = self.ports.place(kind, external.port) else { return };
        let Some(share) = self.shares.get_mut(kind) else { return };
        let share = &mut share[usize::from(external.port % 2)];
        let Some(index) = share.index_of(place) else { return };
        if self.ports.entry(place).is_some_and(|entry| entry.clear(inside, generation)) {
            share.free.push(index);
            if self.hosts.is_counting() {
                self.hosts.remove(inside.0, place);
            }
        }
    }

    /// The inside endpoint that an external port stands for at that time.
    #[inline]
    pub(super) fn inside(&self, external: External, now_ns: u64) -> Option<Inside> {
        self.ports.entry_of(external)?.inside(now_ns)
    }

    /// Where [`Pool::inside`] and [`Pool::set_deadline`] look; null for a port that they do not look up.
    #[inline]
    pub(super) fn line(&self, external: External) -> *const u8 {
        self.ports.entry_of(external).map_or(core::ptr::null(), |entry| core::ptr::from_ref(entry).cast())
    }

    /// How many ports are free, for each kind the even ones and the odd ones, and how many there is room for.
    #[cfg(test)]
    pub(super) fn free(&self) -> impl Iterator<Item = [(usize, usize); 2]> {
        self.shares.iter().map(|shares| shares.each_ref().map(|share| share.free.len_and_capacity()))
    }

    /// One inside host has one external address (RFC 4787 REQ-2). Cores whose ports are of the same
    /// addresses agree on which.
    fn address_of_host(&self, host: [u8; 4]) -> Option<u8> {
        let index = scaled(hash_bytes(&host, HOST_HASH_SEED), self.addresses.len());
        self.addresses.get(index).copied()
    }
}

impl Share {
    fn new(first: usize, len: usize) -> Share {
        Share { first, free: FreeQueue::full(len), deadlines: Deadlines::new(len) }
    }

    /// Where a place of the table is in this share, if it is.
    fn index_of(&self, place: usize) -> Option<usize> {
        place.checked_sub(self.first).filter(|index| *index < self.deadlines.len())
    }

    /// The place of a port that is free, else of one whose mapping is dead.
    fn take(&mut self, ports: &PortTable, wanted: &Wanted) -> Option<usize> {
        let of_longest_free = self.free.len().div_ceil(2);
        let index = match self.free.take(wanted.random.map_or(0, |random| scaled(random, of_longest_free))) {
            Some(index) => index,
            None => {
                let first = self.first;
                let deadline_ns = |index| ports.entry(first + index).map_or(u64::MAX, Entry::end_ns);
                self.deadlines.dead(wanted.now_ns, deadline_ns)?
            }
        };
        Some(self.first + index)
    }
}

/// A random number as one below `count`; 0 if `count` is.
fn scaled(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}
