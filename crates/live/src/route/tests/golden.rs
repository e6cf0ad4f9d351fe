//! Each decision, with packets that etherparse builds and reads.

use etherparse::{
    Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4, icmpv6,
};
use io::Unedited;
use netlink_packet_route::route::RouteType;
use wire::{Edits, LinkType};

use super::lab::*;
use crate::route::ask::Ask;
use crate::route::message::{Change, Hop};
use crate::route::snapshot::Neighbour;
use crate::route::{Came, Decision, Route, RouteDrop};

const V4: &str = "10.0.2.9";
const V6: &str = "2001:db8:2::9";

/// What a forwarded frame has to look like: as before, but for addresses, TTL and checksum.
fn assert_forwarded(before: &[u8], after: &[u8], to: [u8; 6], from: [u8; 6]) {
    assert_eq!((&after[..6], &after[6..12]), (&to[..], &from[..]));
    let sliced = SlicedPacket::from_ethernet(after).expect("a packet");
    match sliced.net.expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(header.time_to_live, before[22] - 1);
            assert_eq!(
                (&after[14..22], after[23], &after[26..]),
                (&before[14..22], before[23], &before[26..])
            );
        }
        NetSlice::Ipv6(ip) => {
            assert_eq!(ip.header().hop_limit(), before[21] - 1);
            assert_eq!((&after[14..21], &after[22..]), (&before[14..21], &before[22..]));
        }
        _ => panic!("not IP"),
    }
}

#[test]
fn packets_go_on_by_the_default_route() {
    for (from, to) in [(V4, "8.8.8.8"), (V6, "2600::1")] {
        let mut lab = Lab::new();
        let before = udp(from, to, 64, 100);
        let mut frame = before.clone();
        assert_eq!(lab.forward(&mut frame), Decision::Send { interface: OUTSIDE });
        assert_forwarded(&before, &frame, ROUTER, station(OUTSIDE));
        assert_eq!((lab.forwarder.counters().sent, lab.forwarder.counters().packets()), (1, 1));
    }
}

/// Byte by byte, by hand.
#[test]
fn a_frame_in_hex() {
    let mut lab = Lab::new();
    let mut frame = [
        0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 1, 1, 0x08, 0, // to the inside's station from the host's
        0x45, 0, 0, 0x1c, 0, 0, 0, 0, 0x40, 0x11, 0x5e, 0xb9, 10, 0, 2, 9, 8, 8, 8, 8, //
        0x0f, 0xa0, 0, 0x35, 0, 8, 0, 0,
    ];
    assert_eq!(lab.forward(&mut frame), Decision::Send { interface: OUTSIDE });
    let expected = [
        0x02, 0, 0, 0, 1, 2, 0x02, 0, 0, 0, 0, 3, 0x08, 0, //
        0x45, 0, 0, 0x1c, 0, 0, 0, 0, 0x3f, 0x11, 0x5f, 0xb9, 10, 0, 2, 9, 8, 8, 8, 8, //
        0x0f, 0xa0, 0, 0x35, 0, 8, 0, 0,
    ];
    assert_eq!(frame, expected);
}

#[test]
fn on_link_and_hairpin() {
    let mut lab = Lab::new();
    let mut frame = udp("10.0.4.9", V4, 9, 10);
    assert_eq!(lab.forward(&mut frame), Decision::Send { interface: INSIDE });
    assert_eq!(frame[..12], [HOST, station(INSIDE)].concat());
    assert_eq!(lab.forwarder.counters().hairpins, 1);
}

#[test]
fn ipv4_options_are_left_alone() {
    let mut lab = Lab::new();
    let mut frame = udp(V4, "8.8.8.8", 64, 4);
    // Router alert (RFC 2113), 4 bytes.
    frame.splice(34..34, [0x94, 4, 0, 0]);
    frame[14] = 0x46;
    frame[17] += 4;
    frame[24..26].fill(0);
    let checksum = wire::internet_checksum(&[&frame[14..38]]);
    frame[24..26].copy_from_slice(&checksum);
    let before = frame.clone();
    assert_eq!(lab.forward(&mut frame), Decision::Send { interface: OUTSIDE });
    assert_eq!(frame[34..], before[34..]);
    assert_eq!(wire::internet_checksum(&[&frame[14..38]]), [0, 0]);
}

#[test]
fn the_host_gets_what_is_its_own() {
    let mut lab = Lab::new();
    for to in ["10.0.2.1", "10.0.3.1", "10.0.3.255", "255.255.255.255", "224.0.0.5"] {
        let before = udp(V4, to, 1, 10);
        let mut frame = before.clone();
        assert_eq!(lab.forward(&mut frame), Decision::Host, "{to}");
        assert_eq!(frame, before);
    }
    for to in ["2001:db8:3::1", "ff02::1", "ff0e::1"] {
        assert_eq!(lab.forward(&mut udp("fe80::9", to, 1, 10)), Decision::Host, "{to}");
    }
    // ARP, in broadcast frames and others.
    let mut arp = [0xff; 42];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(lab.forward(&mut arp), Decision::Host);
    assert_eq!(lab.forwarder.counters().host, lab.forwarder.counters().packets());
}

#[test]
fn what_is_never_forwarded() {
    let mut lab = Lab::new();
    let mut check = |mut frame: Vec<u8>, reason: RouteDrop, what: &str| {
        let before = frame.clone();
        let dropped = lab.forwarder.counters().dropped(reason);
        assert_eq!(lab.forward(&mut frame), Decision::Drop(reason), "{what}");
        assert_eq!(lab.forwarder.counters().dropped(reason), dropped + 1);
        assert_eq!(frame, before, "{what}");
    };
    for from in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"] {
        check(udp(from, "8.8.8.8", 64, 10), RouteDrop::Martian, from);
    }
    for to in ["0.0.0.1", "127.0.0.1", "240.0.0.1"] {
        check(udp(V4, to, 64, 10), RouteDrop::Martian, to);
    }
    for (from, to) in [
        ("::", "2600::1"),
        ("::1", "2600::1"),
        ("fe80::1", "2600::1"),
        ("ff02::1", "2600::1"),
        (V6, "::1"),
        (V6, "fe80::1"),
        (V6, "::ffff:8.8.8.8"),
        ("::ffff:10.0.2.9", "2600::1"),
    ] {
        check(udp(from, to, 64, 10), RouteDrop::Martian, from);
    }
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = udp(V4, "8.8.8.8", 64, 10);
        change(&mut frame);
        frame
    };
    check(with(&|frame| frame[0] = 0xff), RouteDrop::Martian, "a broadcast frame");
    check(with(&|frame| frame[5] = 77), RouteDrop::OtherHost, "another station's");
    check(with(&|frame| frame[12] = 0x88), RouteDrop::NotIp, "another protocol");
    check(with(&|frame| frame.truncate(10)), RouteDrop::NotIp, "no whole header");
    check(with(&|frame| drop(frame.splice(12..12, [0x81, 0, 0, 5]))), RouteDrop::Tagged, "a VLAN");
    check(with(&|frame| frame[25] ^= 1), RouteDrop::BadHeader, "a wrong checksum");
    check(with(&|frame| frame[14] = 0x44), RouteDrop::BadHeader, "a short header");
    check(with(&|frame| frame.truncate(40)), RouteDrop::BadHeader, "a cut packet");
    check(udp(V4, "192.0.2.1", 64, 10), RouteDrop::Refused, "a blackhole");
    check(udp(V6, "2001:db8:b::1", 64, 10), RouteDrop::Refused, "a blackhole");
    check(udp(V4, "10.0.5.9", 64, 10), RouteDrop::LinkDown, "an interface that is down");
    check(udp(V4, "10.0.6.9", 64, 10), RouteDrop::NotEthernet, "a tunnel");
}

/// Reads an ICMP error with etherparse, which checks lengths; and its checksums by computing them.
fn read_error(reply: &[u8]) -> (String, String, Icmp, Vec<u8>) {
    let sliced = SlicedPacket::from_ethernet(reply).expect("a packet");
    match (sliced.net.expect("IP"), sliced.transport.expect("ICMP")) {
        (NetSlice::Ipv4(ip), TransportSlice::Icmpv4(icmp)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
            let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
            (from.to_string(), to.to_string(), Icmp::V4(icmp.icmp_type()), icmp.payload().to_vec())
        }
        (NetSlice::Ipv6(ip), TransportSlice::Icmpv6(icmp)) => {
            let (from, to) = (ip.header().source(), ip.header().destination());
            assert!(icmp.is_checksum_valid(from, to));
            let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
            (from.to_string(), to.to_string(), Icmp::V6(icmp.icmp_type()), icmp.payload().to_vec())
        }
        _ => panic!("not ICMP"),
    }
}

#[derive(Debug, PartialEq)]
enum Icmp {
    V4(Icmpv4Type),
    V6(Icmpv6Type),
}

fn v4(header: icmpv4::DestUnreachableHeader) -> Icmp {
    Icmp::V4(Icmpv4Type::DestinationUnreachable(header))
}

fn v6(code: icmpv6::DestUnreachableCode) -> Icmp {
    Icmp::V6(Icmpv6Type::DestinationUnreachable(code))
}

#[test]
fn senders_are_told() {
    use RouteDrop::*;
    let ttl = |is_ipv4| match is_ipv4 {
        true => Icmp::V4(Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit)),
        false => Icmp::V6(Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded)),
    };
    let frag = v4(icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1_280 });
    let big = Icmp::V6(Icmpv6Type::PacketTooBig { mtu: 1_280 });
    let cases = [
        (udp(V4, "8.8.8.8", 1, 10), TtlExpired, ttl(true)),
        (udp(V4, "8.8.8.8", 0, 10), TtlExpired, ttl(true)),
        (udp(V6, "2600::1", 1, 10), TtlExpired, ttl(false)),
        (udp(V4, "10.0.4.9", 64, 1_400), TooBig, frag),
        (udp(V6, "2001:db8:4::9", 64, 1_400), TooBig, big),
        (udp(V4, "198.18.0.1", 64, 10), NoRoute, v4(icmpv4::DestUnreachableHeader::Network)),
        (udp(V6, "4000::1", 64, 10), NoRoute, v6(icmpv6::DestUnreachableCode::NoRoute)),
        (udp(V4, "198.51.100.1", 64, 10), Refused, v4(icmpv4::DestUnreachableHeader::Host)),
        (udp(V6, "2001:db8:c::1", 64, 10), Refused, v6(icmpv6::DestUnreachableCode::Address)),
        (udp(V4, "203.0.113.1", 64, 10), Refused, v4(icmpv4::DestUnreachableHeader::FilterProhibited)),
        (udp(V6, "2001:db8:d::1", 64, 10), Refused, v6(icmpv6::DestUnreachableCode::Prohibited)),
        (udp(V4, "10.0.2.66", 64, 10), NoNeighbour, v4(icmpv4::DestUnreachableHeader::Host)),
    ];
    for (frame, reason, expected) in cases {
        let mut lab = Lab::new();
        let mut copy = frame.clone();
        let decision = lab.forward(&mut copy);
        assert_eq!(decision, Decision::Reply { interface: INSIDE, reason });
        assert_eq!(copy, frame, "the packet is as it was");
        let reply = lab.forwarder.reply();
        assert_eq!(reply[..12], [HOST, station(INSIDE)].concat());
        let (from, to, icmp, quote) = read_error(reply);
        assert_eq!(icmp, expected);
        let is_ipv4 = matches!(icmp, Icmp::V4(_));
        let expected = if is_ipv4 { ("10.0.2.1", V4) } else { ("2001:db8:2::1", V6) };
        assert_eq!((&from[..], &to[..]), expected);
        // The quote is the packet's beginning, up to 576 and 1,280 bytes in all.
        let most = if is_ipv4 { 548 } else { 1_232 };
        assert_eq!(quote, frame[14..].iter().copied().take(most).collect::<Vec<_>>());
        assert!(reply.len() - 14 <= if is_ipv4 { 576 } else { 1_280 });
        assert!(headers(reply).is_well_formed());
        let counters = lab.forwarder.counters();
        assert_eq!((counters.dropped(reason), counters.replies, counters.packets()), (1, 1, 1));
    }
}

#[test]
fn a_packet_as_long_as_the_mtu_goes_through() {
    let mut lab = Lab::new();
    for (to, header_len) in [("10.0.4.9", 28), ("2001:db8:4::9", 48)] {
        let from = if header_len == 28 { V4 } else { V6 };
        let sent = Decision::Send { interface: NARROW };
        assert_eq!(lab.forward(&mut udp(from, to, 64, 1_280 - header_len)), sent);
        assert_ne!(lab.forward(&mut udp(from, to, 64, 1_281 - header_len)), sent);
    }
    // The padding of short frames is no part of a packet.
    let mut padded = udp(V4, "10.0.4.9", 64, 0);
    padded.resize(1_400, 0);
    assert_eq!(lab.forward(&mut padded), Decision::Send { interface: NARROW });
}

/// RFC 1122 §3.2.2, RFC 4443 §2.4 e.
#[test]
fn about_some_packets_nothing_is_said() {
    let mut lab = Lab::new();
    let expired = RouteDrop::TtlExpired;
    let mut silent = |mut frame: Vec<u8>, what: &str| {
        assert_eq!(lab.forward(&mut frame), Decision::Drop(expired), "{what}");
    };
    let ethernet = || PacketBuilder::ethernet2(HOST, station(INSIDE));
    for kind in [3_u8, 4, 5, 11, 12, 99] {
        let builder = ethernet().ipv4([10, 0, 2, 9], [8, 8, 8, 8], 1).icmpv4_raw(kind, 0, [0; 4]);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[0; 28]).expect("a packet");
        silent(frame, "an ICMP error");
    }
    let addresses = |from: &str, to: &str| [addr(from).0, addr(to).0];
    for kind in [1_u8, 2, 3, 4, 100, 137] {
        let [from, to] = addresses(V6, "2600::1");
        let mut frame = Vec::new();
        let builder = ethernet().ipv6(from, to, 1).icmpv6_raw(kind, 0, [0; 4]);
        builder.write(&mut frame, &[0; 48]).expect("a packet");
        silent(frame, "an ICMPv6 error");
    }
    // A later fragment.
    let mut frame = udp(V4, "8.8.8.8", 1, 64);
    frame[20..22].copy_from_slice(&[0, 3]);
    frame[24..26].fill(0);
    let checksum = wire::internet_checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&checksum);
    silent(frame, "a later fragment");
    silent(udp("10.0.3.255", "8.8.8.8", 1, 10), "from a broadcast address");
    let mut frame = udp(V4, "8.8.8.8", 1, 10);
    frame[6] |= 1;
    silent(frame, "from a group of stations");
    // But an echo request is answered.
    let mut frame = Vec::new();
    let builder = ethernet().ipv4([10, 0, 2, 9], [8, 8, 8, 8], 1).icmpv4_echo_request(1, 1);
    builder.write(&mut frame, &[0; 8]).expect("a packet");
    assert!(matches!(lab.forward(&mut frame), Decision::Reply { .. }));
}

#[test]
fn errors_are_limited() {
    let mut lab = Lab::new();
    lab.forwarder.refresh(5_000_000_000);
    let is_told =
        |lab: &mut Lab| matches!(lab.forward(&mut udp(V4, "8.8.8.8", 1, 10)), Decision::Reply { .. });
    assert_eq!((0..100).filter(|_| is_told(&mut lab)).count(), 10);
    let counters = lab.forwarder.counters();
    assert_eq!((counters.replies, counters.replies_limited), (10, 90));
    assert_eq!(counters.dropped(RouteDrop::TtlExpired), 100);
    lab.forwarder.refresh(6_000_000_000);
    assert_eq!((0..100).filter(|_| is_told(&mut lab)).count(), 10);
}

/// What a chain does to a packet, in its frame with room before it; and what `forward` is told of it.
fn edited(frame: &[u8], edits: &Edits) -> (Vec<u8>, Vec<u8>) {
    const ROOM: usize = 64;
    let mut buffer = [&[0; ROOM][..], frame, &[0; ROOM][..]].concat();
    let before = headers(frame);
    assert!(Unedited::keep(&mut buffer, ROOM, &before));
    let mut data = ROOM..ROOM + frame.len();
    wire::apply(edits, &before, LinkType::Ethernet, &mut buffer, &mut data).expect("room");
    buffer.truncate(data.end);
    // A tunnel reaches into the room.
    let frame = buffer.split_off(data.start);
    (buffer, frame)
}

/// The chain gave the packet another source (a NAT), another destination (a balancer), or both: the sender is told of the
/// packet that it sent.
#[test]
fn an_error_about_a_translated_packet_is_about_what_was_received() {
    for (from, own) in [(V4, "10.0.3.1"), (V6, "2001:db8:3::1")] {
        let is_ipv4 = from == V4;
        let (nobody, backend) = match is_ipv4 {
            true => ("203.0.113.9", "10.0.4.9"),
            false => ("2001:db8:d::9", "2001:db8:4::9"),
        };
        let mut source = Edits::NONE;
        source.set_src(addr(own));
        source.set_src_port(61_000);
        let mut destination = Edits::NONE;
        destination.set_dst(addr(backend));
        destination.set_dst_port(8_080);
        let mut both = source;
        both.set_dst(addr(backend));
        both.set_tos(0x20);
        // A packet to the host's own address, which is a NAT's, and one that is too long for where the backend is.
        for (to, ttl, payload, edits, reason) in [
            (nobody, 64, 10, source, RouteDrop::Refused),
            (own, 1, 10, destination, RouteDrop::TtlExpired),
            (nobody, 64, 1_400, destination, RouteDrop::TooBig),
            (own, 64, 1_400, both, RouteDrop::TooBig),
        ] {
            let sent = udp(from, to, ttl, payload);
            let (before, mut frame) = edited(&sent, &edits);
            assert_ne!(frame, sent);
            let mut lab = Lab::new();
            let came = Came { by: INSIDE, unedited: Unedited::before(&before), is_inside: false };
            let after = headers(&frame);
            let decision = lab.forwarder.forward(&mut frame, &after, came);
            assert_eq!(decision, Decision::Reply { interface: INSIDE, reason }, "{edits:?}");
            let reply = lab.forwarder.reply();
            assert_eq!(reply[..12], [HOST, station(INSIDE)].concat());
            let (error_from, error_to, _, quote) = read_error(reply);
            let expected = if is_ipv4 { ("10.0.2.1", V4) } else { ("2001:db8:2::1", V6) };
            assert_eq!((&error_from[..], &error_to[..]), expected);
            let most = if is_ipv4 { 548 } else { 1_232 };
            assert_eq!(quote, sent[14..].iter().copied().take(most).collect::<Vec<_>>(), "{edits:?}");
        }
    }
}

/// A packet in a tunnel that is too long for the way there: its sender is told of the packet that it sent, and of how long it may be. It
/// is told of the TTL of the outer header in the same way, and planted: as if nobody had put headers before it, nothing is told.
#[test]
fn an_error_about_a_packet_in_a_tunnel_is_about_what_was_received() {
    for (from, to, source, backend, overhead) in [
        (V4, "203.0.113.9", "10.0.3.1", "10.0.4.9", 20),
        (V6, "2001:db8:d::9", "10.0.3.1", "10.0.4.9", 20),
        (V4, "203.0.113.9", "2001:db8:3::1", "2001:db8:4::9", 40),
    ] {
        for via in [wire::TunnelVia::Ip, wire::TunnelVia::Udp(6_080)] {
            let overhead = overhead + if via == wire::TunnelVia::Ip { 0 } else { 8 };
            let mut tunnel = Edits::NONE;
            tunnel.set_tunnel(wire::Tunnel { src: addr(source), dst: addr(backend), via });
            let sent = udp(from, to, 64, 1_400);
            let (_, frame) = edited(&sent, &tunnel);
            assert_eq!(frame.len(), sent.len() + overhead);
            let mut lab = Lab::new();
            let came = Came { by: INSIDE, unedited: None, is_inside: true };
            let decision = lab.forwarder.forward(&mut frame.clone(), &headers(&frame), came);
            let reason = RouteDrop::TooBig;
            assert_eq!(decision, Decision::Reply { interface: INSIDE, reason }, "{via:?} to {backend}");
            let reply = lab.forwarder.reply();
            assert_eq!(reply[..12], [HOST, station(INSIDE)].concat());
            let (error_from, error_to, _, quote) = read_error(reply);
            let is_ipv4 = from == V4;
            let expected = if is_ipv4 { ("10.0.2.1", V4) } else { ("2001:db8:2::1", V6) };
            assert_eq!((&error_from[..], &error_to[..]), expected);
            let most = if is_ipv4 { 548 } else { 1_232 };
            assert_eq!(quote, sent[14..].iter().copied().take(most).collect::<Vec<_>>());
            // Where the ICMP header has the MTU: 1,280 bytes of the way, less the outer headers.
            let at = if is_ipv4 { 14 + 20 + 4 } else { 14 + 40 + 4 };
            let told = u32::from_be_bytes(*reply[at..].first_chunk().expect("four bytes"));
            let expected = 1_280 - overhead as u32;
            assert_eq!(told, if is_ipv4 { expected } else { expected.max(1_280) });
            // So long it goes.
            if is_ipv4 {
                let fits = udp(from, to, 64, told as usize - 28);
                let (_, mut frame) = edited(&fits, &tunnel);
                let after = headers(&frame);
                assert!(!matches!(lab.forwarder.forward(&mut frame, &after, came), Decision::Reply { .. }));
            }
            // The error would go to this host, from where the outer packet comes.
            let mut lab = Lab::new();
            let decision = lab.forwarder.forward(&mut frame.clone(), &headers(&frame), INSIDE);
            assert_eq!(decision, Decision::Drop(RouteDrop::TooBig), "planted");
        }
    }
}

/// Nothing is sent to this host, whatever a packet says of its source.
#[test]
fn an_error_does_not_go_to_this_host() {
    let mut lab = Lab::new();
    let decision = lab.forward(&mut udp("10.0.3.1", "8.8.8.8", 1, 10));
    assert_eq!(decision, Decision::Drop(RouteDrop::TtlExpired));
}

#[test]
fn unknown_neighbours_are_asked_for() {
    let mut lab = Lab::new();
    for _ in 0..10 {
        assert_eq!(lab.forward(&mut udp(V4, "10.0.4.77", 64, 10)), Decision::Unresolved);
    }
    let ask = Ask { interface: NARROW, neighbour: addr("10.0.4.77") };
    assert_eq!((lab.asks.pop(), lab.asks.pop()), (Some(ask), None), "once, for all of them");
    lab.forwarder.refresh(1_000_000_000);
    lab.forward(&mut udp(V4, "10.0.4.77", 64, 10));
    assert_eq!(lab.asks.pop(), Some(ask), "and again, later");
    // The answer comes.
    let known = Some(Neighbour::Known { address: [2, 7, 7, 7, 7, 7], is_stale: true });
    lab.apply(Change::Neighbour { interface: NARROW, address: ask.neighbour, known });
    let mut frame = udp(V4, "10.0.4.77", 64, 10);
    assert_eq!(lab.forward(&mut frame), Decision::Send { interface: NARROW });
    assert_eq!(frame[..6], [2, 7, 7, 7, 7, 7]);
    assert_eq!(lab.asks.pop(), Some(ask), "a stale one in use is confirmed");
    // What is asked for when the ring is full is counted.
    let mut lab = Lab::new();
    for host in 10..=200 {
        lab.forward(&mut udp(V4, &format!("10.0.4.{host}"), 64, 10));
    }
    assert_eq!(lab.asks.len(), 64);
    assert!(lab.forwarder.counters().asks_lost > 60);
}

#[test]
fn several_ways() {
    let mut lab = Lab::new();
    let way = |interface, gateway, weight| Hop { weight, ..hop(interface, Some(gateway)) };
    let hops = vec![way(OUTSIDE, "10.0.3.2", 1), way(INSIDE, "10.0.2.9", 3)];
    lab.apply(Change::Route(route(key("9.0.0.0/8", true, 0), RouteType::Unicast, hops)));
    let mut counts = [0; 2];
    for host in 0..1_000 {
        let to = format!("9.0.{}.{}", host / 250, host % 250);
        let mut decide = || lab.forward(&mut udp(V4, &to, 64, 10));
        let first = decide();
        assert_eq!(first, decide(), "a flow keeps its way");
        counts[usize::from(first == Decision::Send { interface: INSIDE })] += 1;
    }
    assert!((200..300).contains(&counts[0]), "{counts:?}: by weight");
}

#[test]
fn the_smallest_metric_that_lives_wins() {
    let mut lab = Lab::new();
    let route_to = |lab: &Lab| {
        let snapshot = compiled(&lab.mirror);
        match snapshot.route(addr("9.1.1.1")) {
            Route::Paths([path]) => path.interface,
            other => panic!("{other:?}"),
        }
    };
    for (metric, interface) in [(20, INSIDE), (10, NARROW), (30, OUTSIDE)] {
        let key = key("9.0.0.0/8", true, metric);
        lab.apply(Change::Route(route(key, RouteType::Unicast, vec![hop(interface, None)])));
    }
    assert_eq!(route_to(&lab), NARROW);
    let best = route(key("9.0.0.0/8", true, 10), RouteType::Unicast, vec![hop(NARROW, None)]);
    lab.apply(Change::RouteGone(best));
    assert_eq!(route_to(&lab), INSIDE);
    let dead = Hop { is_dead: true, ..hop(NARROW, None) };
    lab.apply(Change::Route(route(key("9.0.0.0/8", true, 5), RouteType::Unicast, vec![dead])));
    assert_eq!(route_to(&lab), INSIDE, "a dead one is passed over");
    lab.apply(Change::Route(route(key("9.1.0.0/16", true, 0), RouteType::Unicast, vec![dead])));
    assert_eq!(route_to(&lab), INSIDE, "for a shorter prefix, too");
    assert!(!lab.mirror.is_in_doubt);
}

#[test]
fn forwarders_go_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<crate::route::Forwarder>();
    is_send::<crate::route::Tables>();
}

#[test]
fn names_are_different() {
    for (index, reason) in RouteDrop::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index);
        assert!(!reason.summary().is_empty());
        assert!(RouteDrop::ALL[..index].iter().all(|other| other.name() != reason.name()));
    }
}
