//! From the mirror to what packets are looked up in.

use netlink_packet_route::route::RouteType;
use prefix_trie::PrefixMap;
use rapidhash::RapidHashSet;
use wire::Addr;

use super::message::{Address, KernelRoute};
use super::mirror::Mirror;
use super::snapshot::{Entry, Link, Links, Neighbours, Path, Routes, Station};

/// The interfaces, with the addresses that ICMP errors come from.
pub(super) fn links(mirror: &Mirror) -> Links {
    let sources = |index: u32| {
        let of = mirror.addresses.iter().filter(|address| address.interface == index);
        let mut usable: Vec<&Address> = of.filter(|address| address.rank.is_some()).collect();
        // Of equally good ones the first stays first.
        usable.sort_by_key(|address| address.rank);
        usable.into_iter().map(|address| (address.address, address.prefix_len)).collect()
    };
    let with_addresses = |link: &Link| Link { sources: sources(link.index), ..link.clone() };
    Links(mirror.links.values().map(with_addresses).collect())
}

/// The neighbours.
pub(super) fn neighbours(mirror: &Mirror) -> Neighbours {
    let station = |(interface, address): &(u32, Addr)| Station { interface: *interface, address: *address };
    mirror.neighbours.iter().map(|(key, neighbour)| (station(key), *neighbour)).collect()
}

/// The routes: of those to one prefix the one with the smallest metric that has a way that lives, as the kernel chooses. A
/// prefix without such a route is left out, so that a shorter one is found.
///
/// One look-up finds routes of both tables. In IPv6 the kernel asks the table `local` before `main`, so that routes of
/// `main` that `local` hides are left out. In IPv4 it keeps both in one trie, as long as there are no policy rules: the
/// longest prefix wins, and `local` of equal ones.
pub(super) fn routes(mirror: &Mirror) -> Routes {
    let (mut ipv4, mut ipv6, mut local6) = (PrefixMap::new(), PrefixMap::new(), PrefixMap::new());
    let mut paths = Vec::new();
    let mut own = RapidHashSet::default();
    let mut last = None;
    // `local` comes first.
    for (key, alike) in &mirror.routes {
        let prefix = (key.is_main, key.is_ipv4, key.bits, key.prefix_len);
        if last == Some(prefix) {
            continue;
        }
        let Some(entry) = alike.iter().find_map(|route| entry(route, &mut paths)) else { continue };
        last = Some(prefix);
        let whole = if key.is_ipv4 { 32 } else { 128 };
        if matches!(entry, Entry::Host | Entry::Broadcast) && !key.is_main && key.prefix_len == whole {
            let address = match key.is_ipv4 {
                true => Addr::v4((key.bits as u32).to_be_bytes()),
                false => Addr(key.bits.to_be_bytes()),
            };
            own.insert(address);
        }
        if key.is_ipv4 {
            let prefix = (key.bits as u32, key.prefix_len);
            if !key.is_main || ipv4.get(&prefix).is_none() {
                ipv4.insert(prefix, entry);
            }
            continue;
        }
        let prefix = (key.bits, key.prefix_len);
        let is_hidden = key.is_main && local6.get_lpm(&prefix).is_some();
        if !key.is_main {
            local6.insert(prefix, entry);
        }
        if !is_hidden {
            ipv6.insert(prefix, entry);
        }
    }
    Routes { ipv4, ipv6, paths, own }
}

/// What a route says; `None` if none of its ways lives.
fn entry(route: &KernelRoute, paths: &mut Vec<Path>) -> Option<Entry> {
    Some(match route.kind {
        RouteType::Unicast if route.is_encapsulated => Entry::Throw,
        RouteType::Unicast => {
            let (first, mut weights) = (paths.len(), 0);
            for hop in route.hops.iter().filter(|hop| !hop.is_dead) {
                weights += hop.weight;
                let (interface, gateway) = (hop.interface, hop.gateway);
                // An MTU of 0 is none.
                let mtu = hop.mtu.filter(|mtu| *mtu > 0);
                paths.push(Path { interface, gateway, mtu, weights });
            }
            let count = paths.len() - first;
            if count == 0 {
                return None;
            }
            Entry::Paths { first: first as u32, count: count as u32 }
        }
        RouteType::Local | RouteType::Anycast => Entry::Host,
        RouteType::Broadcast => Entry::Broadcast,
        RouteType::BlackHole => Entry::Blackhole,
        RouteType::Unreachable => Entry::Unreachable,
        RouteType::Prohibit => Entry::Prohibit,
        _ => Entry::Throw,
    })
}
