//! A router without a kernel: tables that a test writes, and packets that etherparse builds.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::PacketBuilder;
use netlink_packet_route::route::RouteType;
use ring::{Consumer, ring};
use wire::{Addr, Headers, LinkType};

use crate::route::ask::Ask;
use crate::route::board::Board;
use crate::route::compile;
use crate::route::forwarder::{Decision, Forwarder};
use crate::route::message::{Address, Change, Hop, KernelRoute, Key};
use crate::route::mirror::{How, Mirror};
use crate::route::snapshot::{Link, Neighbour, Snapshot};

/// Interfaces of the lab.
pub const INSIDE: u32 = 2;
pub const OUTSIDE: u32 = 3;
pub const NARROW: u32 = 4;
pub const DOWN: u32 = 5;
pub const TUNNEL: u32 = 6;

/// Stations.
pub const HOST: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const ROUTER: [u8; 6] = [2, 0, 0, 0, 1, 2];

pub fn station(interface: u32) -> [u8; 6] {
    [2, 0, 0, 0, 0, interface as u8]
}

pub fn addr(text: &str) -> Addr {
    Addr::from(text.parse::<IpAddr>().expect("an address"))
}

pub fn key(prefix: &str, is_main: bool, metric: u32) -> Key {
    let (address, len) = prefix.split_once('/').expect("a prefix");
    let (bits, is_ipv4) = match address.parse::<IpAddr>().expect("an address") {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), true),
        IpAddr::V6(ip) => (ip.to_bits(), false),
    };
    Key { is_main, is_ipv4, bits, prefix_len: len.parse().expect("a length"), metric }
}

pub fn hop(interface: u32, gateway: Option<&str>) -> Hop {
    Hop { interface, gateway: gateway.map(addr), mtu: None, weight: 1, is_dead: false }
}

pub fn route(key: Key, kind: RouteType, hops: Vec<Hop>) -> KernelRoute {
    KernelRoute { key, kind, is_encapsulated: false, hops }
}

/// Routes of the main table.
pub fn main_route(prefix: &str, hop: Hop) -> KernelRoute {
    route(key(prefix, true, 0), RouteType::Unicast, vec![hop])
}

pub struct Lab {
    pub mirror: Mirror,
    pub board: Arc<Board>,
    pub forwarder: Forwarder,
    pub asks: Consumer<Ask>,
}

impl Lab {
    pub fn new() -> Lab {
        let mut mirror = Mirror::default();
        let interfaces = [(INSIDE, 1_500), (OUTSIDE, 1_500), (NARROW, 1_280), (DOWN, 1_500), (TUNNEL, 1_500)];
        for (index, mtu) in interfaces {
            let (is_up, is_ethernet) = (index != DOWN, index != TUNNEL);
            let name = format!("eth{index}");
            let link =
                Link { index, name, address: station(index), mtu, is_up, is_ethernet, ..Link::default() };
            mirror.apply(Change::Link(link), How::Listed);
            for own in [format!("10.0.{index}.1"), format!("2001:db8:{index}::1")] {
                let prefix_len = if own.contains(':') { 64 } else { 24 };
                let own_address =
                    Address { interface: index, address: addr(&own), prefix_len, rank: Some(0) };
                mirror.apply(Change::Address(own_address), How::Listed);
                let len = if own.contains(':') { 128 } else { 32 };
                let local = key(&format!("{own}/{len}"), false, 0);
                mirror.apply(
                    Change::Route(route(local, RouteType::Local, vec![hop(index, None)])),
                    How::Listed,
                );
            }
            let broadcast = key(&format!("10.0.{index}.255/32"), false, 0);
            let broadcast = route(broadcast, RouteType::Broadcast, vec![hop(index, None)]);
            mirror.apply(Change::Route(broadcast), How::Listed);
            for net in [format!("10.0.{index}.0/24"), format!("2001:db8:{index}::/64")] {
                mirror.apply(Change::Route(main_route(&net, hop(index, None))), How::Listed);
            }
        }
        let mut lab_routes = vec![
            main_route("0.0.0.0/0", hop(OUTSIDE, Some("10.0.3.2"))),
            main_route("2000::/3", hop(OUTSIDE, Some("2001:db8:3::2"))),
        ];
        let refusals = [
            ("192.0.2.0/24", RouteType::BlackHole),
            ("198.51.100.0/24", RouteType::Unreachable),
            ("203.0.113.0/24", RouteType::Prohibit),
            ("198.18.0.0/15", RouteType::Throw),
            ("2001:db8:b::/48", RouteType::BlackHole),
            ("2001:db8:c::/48", RouteType::Unreachable),
            ("2001:db8:d::/48", RouteType::Prohibit),
        ];
        lab_routes
            .extend(refusals.map(|(prefix, kind)| route(key(prefix, true, 0), kind, vec![hop(0, None)])));
        for route in lab_routes {
            mirror.apply(Change::Route(route), How::Listed);
        }
        for (interface, address, known) in [
            (OUTSIDE, "10.0.3.2", Some(ROUTER)),
            (OUTSIDE, "2001:db8:3::2", Some(ROUTER)),
            (INSIDE, "10.0.2.9", Some(HOST)),
            (INSIDE, "2001:db8:2::9", Some(HOST)),
            (NARROW, "10.0.4.9", Some(HOST)),
            (NARROW, "2001:db8:4::9", Some(HOST)),
            (INSIDE, "10.0.2.66", None),
        ] {
            let known = match known {
                Some(address) => Neighbour::Known { address, is_stale: false },
                None => Neighbour::Failed,
            };
            let change = Change::Neighbour { interface, address: addr(address), known: Some(known) };
            mirror.apply(change, How::Listed);
        }
        let board = Arc::new(Board::new(Arc::new(compiled(&mirror))));
        let (producer, asks) = ring(64);
        let forwarder = Forwarder::new(Arc::clone(&board), producer);
        Lab { mirror, board, forwarder, asks }
    }

    pub fn apply(&mut self, change: Change) {
        self.mirror.apply(change, How::Added);
        self.board.post(Arc::new(compiled(&self.mirror)));
        self.forwarder.refresh(1_000_000_000);
    }

    /// Forwards a frame that came by the inside.
    pub fn forward(&mut self, frame: &mut [u8]) -> Decision {
        let headers = headers(frame);
        self.forwarder.forward(frame, &headers, INSIDE)
    }
}

pub fn compiled(mirror: &Mirror) -> Snapshot {
    Snapshot {
        links: Arc::new(compile::links(mirror)),
        routes: Arc::new(compile::routes(mirror)),
        neighbours: Arc::new(compile::neighbours(mirror)),
    }
}

pub fn headers(frame: &[u8]) -> Headers {
    wire::parse(LinkType::Ethernet, frame, frame.len() as u32)
}

/// UDP from a host inside, with a TTL and so many bytes of payload.
pub fn udp(from: &str, to: &str, ttl: u8, payload: usize) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(HOST, station(INSIDE));
    let builder = match (from.parse().expect("an address"), to.parse().expect("an address")) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), ttl),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), ttl),
        _ => panic!("addresses of one family"),
    };
    let builder = builder.udp(4_000, 53);
    let payload: Vec<u8> = (0..payload).map(|at| at as u8).collect();
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, &payload).expect("a packet");
    frame
}
