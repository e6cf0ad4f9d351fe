//! From the mirror to what packets are looked up in.

use netlink_packet_route::route::RouteType;
use prefix_trie::PrefixMap;

use super::message::{Address, KernelRoute};
use super::mirror::Mirror;
use super::snapshot::{Entry, Family, Link, Links, Neighbours, Path, Routes};

/// The interfaces, with the addresses that ICMP errors come from.
pub(super) fn links(mirror: &Mirror) -> Links {
    let best = |index: u32, is_ipv4: bool| {
        let of =
            |address: &&Address| address.interface == index && address.address.to_v4().is_some() == is_ipv4;
        // Of equally good ones the first.
        let usable = mirror.addresses.iter().filter(of).filter(|address| address.rank.is_some());
        usable.min_by_key(|address| address.rank).map(|address| address.address)
    };
    let with_addresses =
        |link: &Link| Link { ipv4: best(link.index, true), ipv6: best(link.index, false), ..link.clone() };
    Links(mirror.links.values().map(|link| (link.index, with_addresses(link))).collect())
}

/// The neighbours.
pub(super) fn neighbours(mirror: &Mirror) -> Neighbours {
    mirror.neighbours.iter().map(|(key, neighbour)| (*key, *neighbour)).collect()
}

/// The routes: of those to one prefix the one with the smallest metric that has a way that lives, as the kernel chooses. A
/// prefix without such a route is left out, so that a shorter one is found.
pub(super) fn routes(mirror: &Mirror) -> Routes {
    let mut ipv4 = Family { local: PrefixMap::new(), main: PrefixMap::new() };
    let mut ipv6 = Family { local: PrefixMap::new(), main: PrefixMap::new() };
    let mut paths = Vec::new();
    let mut last = None;
    for (key, alike) in &mirror.routes {
        let prefix = (key.is_main, key.is_ipv4, key.bits, key.prefix_len);
        if last == Some(prefix) {
            continue;
        }
        let Some(entry) = alike.iter().find_map(|route| entry(route, &mut paths)) else { continue };
        last = Some(prefix);
        match (key.is_ipv4, key.is_main) {
            (true, true) => ipv4.main.insert((key.bits as u32, key.prefix_len), entry),
            (true, false) => ipv4.local.insert((key.bits as u32, key.prefix_len), entry),
            (false, true) => ipv6.main.insert((key.bits, key.prefix_len), entry),
            (false, false) => ipv6.local.insert((key.bits, key.prefix_len), entry),
        };
    }
    Routes { ipv4, ipv6, paths }
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
