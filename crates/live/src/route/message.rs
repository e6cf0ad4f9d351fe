//! What a message of the kernel says of the tables that are mirrored.

use std::net::IpAddr;

use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use wire::Addr;

use super::snapshot::{Link, Neighbour, addr};

/// A change of the tables, or one line of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Without its addresses.
    Link(Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Route(KernelRoute),
    RouteGone(KernelRoute),
    /// `None`: nothing is known of it any more.
    Neighbour {
        interface: u32,
        address: Addr,
        known: Option<Neighbour>,
    },
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) interface: u32,
    pub(super) address: Addr,
    /// How many of its bits its network's addresses share.
    pub(super) prefix_len: u8,
    /// Smaller is better as the source of an ICMP error; `None` if it is none to be that.
    pub(super) rank: Option<u8>,
}

/// What names a route in the kernel; several routes may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) is_main: bool,
    pub(super) is_ipv4: bool,
    pub(super) bits: u128,
    pub(super) prefix_len: u8,
    /// Last, so that routes of one prefix come in the order in which the kernel prefers them.
    pub(super) metric: u32,
}

/// A route of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelRoute {
    pub(super) key: Key,
    pub(super) kind: RouteType,
    /// Whether it goes through an encapsulation, which is not followed.
    pub(super) is_encapsulated: bool,
    pub(super) hops: Vec<Hop>,
}

/// One way of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) interface: u32,
    pub(super) gateway: Option<Addr>,
    pub(super) mtu: Option<u32>,
    pub(super) weight: u32,
    pub(super) is_dead: bool,
}

/// Reads a message; `None` if it says nothing of what is mirrored.
pub(super) fn change(message: RouteNetlinkMessage) -> Option<Change> {
    Some(match message {
        RouteNetlinkMessage::NewLink(message) => Change::Link(link(&message)?),
        RouteNetlinkMessage::DelLink(message) => Change::LinkGone(link(&message)?.index),
        RouteNetlinkMessage::NewAddress(message) => Change::Address(address(&message)?),
        RouteNetlinkMessage::DelAddress(message) => Change::AddressGone(address(&message)?),
        RouteNetlinkMessage::NewRoute(message) => Change::Route(route(&message)?),
        RouteNetlinkMessage::DelRoute(message) => Change::RouteGone(route(&message)?),
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(&message, true)?,
        RouteNetlinkMessage::DelNeighbour(message) => neighbour(&message, false)?,
        _ => return None,
    })
}

fn link(message: &LinkMessage) -> Option<Link> {
    let header = &message.header;
    // A bridge speaks of its ports with the same messages: one that leaves the bridge is not gone.
    if header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let is_loopback = header.flags.contains(LinkFlags::Loopback);
    let mut link = Link {
        index: header.index,
        is_up: header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        is_ethernet: header.link_layer_type == LinkLayerType::Ether && !is_loopback,
        ..Link::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(bytes) => {
                if let Ok(address) = <[u8; 6]>::try_from(bytes.as_slice()) {
                    link.address = address;
                }
            }
            _ => {}
        }
    }
    Some(link)
}

fn address(message: &AddressMessage) -> Option<Address> {
    let (mut local, mut peer) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => peer = Some(*ip),
            _ => {}
        }
    }
    // With a peer on the other side of the link, `Local` is the own one.
    let ip: IpAddr = local.or(peer)?;
    let flags = message.header.flags;
    let is_unusable = flags.intersects(AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed);
    let rank = match (message.header.scope, ip) {
        _ if is_unusable => None,
        (AddressScope::Universe, _) => Some(0),
        (AddressScope::Site, _) => Some(1),
        (AddressScope::Link, IpAddr::V4(_)) => Some(2),
        _ => None,
    };
    let is_second_choice = flags.intersects(AddressHeaderFlags::Secondary | AddressHeaderFlags::Deprecated);
    let rank = rank.map(|rank| rank * 2 + u8::from(is_second_choice));
    let (interface, prefix_len) = (message.header.index, message.header.prefix_len);
    Some(Address { interface, address: addr(ip), prefix_len, rank })
}

fn route(message: &RouteMessage) -> Option<KernelRoute> {
    let header = &message.header;
    let is_ipv4 = match header.address_family {
        AddressFamily::Inet => true,
        AddressFamily::Inet6 => false,
        _ => return None,
    };
    let mut table = u32::from(header.table);
    let mut key =
        Key { is_main: false, is_ipv4, bits: 0, prefix_len: header.destination_prefix_length, metric: 0 };
    let mut only = Hop { interface: 0, gateway: None, mtu: None, weight: 1, is_dead: false };
    let mut several: &[RouteNextHop] = &[];
    let mut is_encapsulated = false;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => key.bits = u128::from(ip.to_bits()),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => key.bits = ip.to_bits(),
            RouteAttribute::Priority(metric) => key.metric = *metric,
            RouteAttribute::Oif(index) => only.interface = *index,
            RouteAttribute::MultiPath(hops) => several = hops,
            RouteAttribute::EncapType(_) => is_encapsulated = true,
            RouteAttribute::Metrics(metrics) => {
                only.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            other => only.gateway = gateway(other).or(only.gateway),
        }
    }
    only.is_dead = header.flags.contains(RouteFlags::Dead);
    key.is_main = match table {
        255 => false,
        table if table == u32::from(RouteHeader::RT_TABLE_MAIN) => true,
        _ => return None,
    };
    let is_special = header.tos != 0
        || header.source_prefix_length != 0
        || header.destination_prefix_length > if is_ipv4 { 32 } else { 128 }
        || header.flags.contains(RouteFlags::Cloned)
        || header.kind == RouteType::Multicast;
    if is_special {
        return None;
    }
    is_encapsulated |= several
        .iter()
        .flat_map(|hop| &hop.attributes)
        .any(|attribute| matches!(attribute, RouteAttribute::EncapType(_)));
    let hops = match several {
        [] => vec![only],
        several => several.iter().map(|hop| one_of_several(hop, only.mtu)).collect(),
    };
    Some(KernelRoute { key, kind: header.kind, is_encapsulated, hops })
}

fn one_of_several(hop: &RouteNextHop, mtu: Option<u32>) -> Hop {
    Hop {
        interface: hop.interface_index,
        gateway: hop.attributes.iter().find_map(gateway),
        mtu,
        weight: u32::from(hop.hops) + 1,
        is_dead: hop.flags.contains(RouteNextHopFlags::Dead),
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<Addr> {
    match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(ip)) | RouteAttribute::Via(RouteVia::Inet(ip)) => {
            Some(addr(*ip))
        }
        RouteAttribute::Gateway(RouteAddress::Inet6(ip)) | RouteAttribute::Via(RouteVia::Inet6(ip)) => {
            Some(addr(*ip))
        }
        _ => None,
    }
}

fn neighbour(message: &NeighbourMessage, is_there: bool) -> Option<Change> {
    let header = &message.header;
    let is_ip = matches!(header.family, AddressFamily::Inet | AddressFamily::Inet6);
    // Proxies are hosts that this one answers for, not neighbours.
    if !is_ip || header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let (mut address, mut station) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => address = Some(addr(*ip)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => address = Some(addr(*ip)),
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                station = <[u8; 6]>::try_from(bytes.as_slice()).ok();
            }
            _ => {}
        }
    }
    let known = match (header.state, station) {
        _ if !is_there => None,
        (NeighbourState::Failed, _) => Some(Neighbour::Failed),
        (NeighbourState::Incomplete | NeighbourState::None | NeighbourState::Other(_), _) | (_, None) => None,
        (state, Some(address)) => {
            Some(Neighbour::Known { address, is_stale: state == NeighbourState::Stale })
        }
    };
    Some(Change::Neighbour { interface: header.ifindex, address: address?, known })
}
