//! What the kernel's tables said at one time, in the form that packets are looked up in.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use prefix_trie::PrefixMap;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use rapidhash::{RapidHashMap, RapidHashSet};
use wire::Addr;

/// An interface, as far as routing asks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub is_up: bool,
    /// Whether it carries Ethernet frames and is not the loopback interface.
    pub is_ethernet: bool,
    /// The addresses that ICMP errors may come from, the best first, of IPv6 global ones; and how many of its bits the addresses of its
    /// network share.
    pub sources: Vec<(Addr, u8)>,
}

impl Link {
    /// The address that an ICMP error comes from which goes to, or by, the host `next` on this link: one of that host's network, else the
    /// best of its family.
    pub(super) fn source(&self, next: Addr) -> Option<Addr> {
        let is_ipv4 = next.to_v4().is_some();
        let family = || self.sources.iter().filter(|(own, _)| own.to_v4().is_some() == is_ipv4);
        let near = family().find(|(own, bits)| {
            let differ = u128::from_be_bytes(own.0) ^ u128::from_be_bytes(next.0);
            let bits = u32::from(*bits) + if is_ipv4 { 96 } else { 0 };
            differ.leading_zeros() >= bits
        });
        near.or_else(|| family().next()).map(|(own, _)| *own)
    }
}

/// A neighbour that the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its Ethernet address is known.
    Known {
        /// The address.
        address: [u8; 6],
        /// Whether the kernel would confirm it if it were used (`STALE`).
        is_stale: bool,
    },
    /// It did not answer (`FAILED`).
    Failed,
}

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Index of the interface that packets leave by.
    pub interface: u32,
    /// The router behind it; `None` where destinations are on the link.
    pub gateway: Option<Addr>,
    /// The route's MTU, if it has one, bytes.
    pub mtu: Option<u32>,
    /// The weights of the paths up to this one.
    pub(super) weights: u32,
}

/// What a destination's route says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// The host itself.
    Host,
    /// A broadcast address of a network here: the host's too.
    Broadcast,
    /// Goes on, by one of these; there is one at least.
    Paths(&'a [Path]),
    /// Drop, and say nothing.
    Blackhole,
    /// Drop, and say that the host is unreachable.
    Unreachable,
    /// Drop, and say that it is prohibited.
    Prohibit,
    /// There is none.
    Missing,
}

impl<'a> Route<'a> {
    /// The path that a flow takes: one of several by the flow's hash, in proportion to their weights.
    #[inline]
    pub fn path(self, flow_hash: impl FnOnce() -> u32) -> Option<&'a Path> {
        match self {
            Route::Paths([only]) => Some(only),
            Route::Paths(paths) => {
                let weights = paths.last()?.weights;
                let point = ((u64::from(flow_hash()) * u64::from(weights)) >> 32) as u32;
                paths.iter().find(|path| point < path.weights)
            }
            _ => None,
        }
    }
}

/// What is at a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Host,
    Broadcast,
    /// So many paths from this one on.
    Paths {
        first: u32,
        count: u32,
    },
    Blackhole,
    Unreachable,
    Prohibit,
    Throw,
}

/// Prefixes of one family, as a number and how many bits of it count.
pub(super) type Prefixes<R> = PrefixMap<(R, u8), Entry>;

/// All routes. Longest prefixes are found in a trie whose nodes cover several bits: time grows with the length of the
/// address and not with the number of routes. To build one takes time that grows with the number of routes.
pub(super) struct Routes {
    pub(super) ipv4: Prefixes<u32>,
    pub(super) ipv6: Prefixes<u128>,
    pub(super) paths: Vec<Path>,
    /// Addresses that no packet has as its source that comes from elsewhere: this host's own, and those of broadcasts.
    pub(super) own: RapidHashSet<Addr>,
}

/// Interfaces, by rising index: there are few, so that a search takes two or three steps.
#[derive(Default)]
pub(super) struct Links(pub(super) Vec<Link>);

/// Neighbours by interface and address.
pub(super) type Neighbours = RapidHashMap<Station, Neighbour>;

/// Where a neighbour is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Station {
    pub(super) interface: u32,
    pub(super) address: Addr,
}

impl Hash for Station {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As numbers: an array of bytes would be hashed with its length, by a longer way.
        let address = u128::from_ne_bytes(self.address.0);
        state.write_u64(address as u64);
        state.write_u64((address >> 64) as u64);
        state.write_u32(self.interface);
    }
}

/// The kernel's tables at one time.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) links: Arc<Links>,
    pub(super) routes: Arc<Routes>,
    pub(super) neighbours: Arc<Neighbours>,
}

impl Snapshot {
    /// The route to an address.
    #[inline]
    pub fn route(&self, to: Addr) -> Route<'_> {
        let entry = match to.to_v4() {
            Some(octets) => {
                self.routes.ipv4.get_lpm(&(u32::from_be_bytes(octets), 32)).map(|(_, entry)| *entry)
            }
            None => self.routes.ipv6.get_lpm(&(u128::from_be_bytes(to.0), 128)).map(|(_, entry)| *entry),
        };
        match entry {
            None | Some(Entry::Throw) => Route::Missing,
            Some(Entry::Host) => Route::Host,
            Some(Entry::Broadcast) => Route::Broadcast,
            Some(Entry::Blackhole) => Route::Blackhole,
            Some(Entry::Unreachable) => Route::Unreachable,
            Some(Entry::Prohibit) => Route::Prohibit,
            Some(Entry::Paths { first, count }) => {
                let (first, count) = (first as usize, count as usize);
                match self.routes.paths.get(first..first + count) {
                    Some(paths) => Route::Paths(paths),
                    None => Route::Missing,
                }
            }
        }
    }

    /// Whether an address is one of this host, or a broadcast address of a network here.
    #[inline]
    pub(super) fn has_own(&self, address: Addr) -> bool {
        self.routes.own.contains(&address)
    }

    /// An interface by its index.
    #[inline]
    pub fn link(&self, index: u32) -> Option<&Link> {
        let at = self.links.0.binary_search_by_key(&index, |link| link.index).ok()?;
        self.links.0.get(at)
    }

    /// What is known of a neighbour on an interface.
    #[inline]
    pub fn neighbour(&self, interface: u32, address: Addr) -> Option<Neighbour> {
        self.neighbours.get(&Station { interface, address }).copied()
    }

    /// Whether an interface of this host has that Ethernet address.
    pub(super) fn is_own(&self, address: [u8; 6]) -> bool {
        self.links.0.iter().any(|link| link.is_ethernet && link.address == address)
    }

    /// An address of this host that errors may come from, where the interface has none.
    pub(super) fn any_address(&self, is_ipv4: bool) -> Option<Addr> {
        let own =
            |link: &Link| link.sources.iter().find(|(own, _)| own.to_v4().is_some() == is_ipv4).copied();
        self.links.0.iter().find_map(own).map(|(own, _)| own)
    }
}

/// A hash of two addresses and a number, the same in all threads and runs.
#[inline]
pub(super) fn hash_of(one: Addr, other: Addr, number: u64) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed_cpp(0x5061_6365_6c69_6e65);
    let mut bytes = [0; 40];
    bytes[..16].copy_from_slice(&one.0);
    bytes[16..32].copy_from_slice(&other.0);
    bytes[32..].copy_from_slice(&number.to_le_bytes());
    rapidhash_v3_nano_inline::<true, false>(&bytes, &SECRETS)
}

/// An address as the tables have it.
pub(super) fn addr(address: impl Into<IpAddr>) -> Addr {
    Addr::from(address.into())
}
