//! Checksums that were left to a card inside tunnels: the one that was left is computed, and no other byte changes.

use crate::packets;

use etherparse::PacketBuilder;
use etherparse::checksum::Sum16BitWords;
use proptest::prelude::*;
use wire::{Checksums, Headers, LinkType, complete, complete_at, inside, parse, verify};

/// TCP over IPv4 or IPv6, without a link header, right.
fn tcp(is_ipv6: bool) -> Vec<u8> {
    let builder = match is_ipv6 {
        false => PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
        true => PacketBuilder::ipv6([1; 16], [2; 16], 64),
    };
    let mut packet = Vec::new();
    builder.tcp(1_000, 80, 7, 500).ack(9).write(&mut packet, b"odd").expect("a packet");
    packet
}

/// The packet as a system hands it to a card for the checksum: the field holds the pseudo-header's sum.
fn left(packet: &[u8]) -> Vec<u8> {
    let l4 = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let addresses = if l4 == 20 { &packet[12..20] } else { &packet[8..40] };
    let sum = Sum16BitWords::new().add_slice(addresses);
    let sum = sum.add_2bytes([0, 6]).add_2bytes(((packet.len() - l4) as u16).to_be_bytes());
    let mut packet = packet.to_vec();
    packet[l4 + 16..l4 + 18].copy_from_slice(&(!sum.ones_complement()).to_le_bytes());
    packet
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind.to_be_bytes()[..], payload].concat()
}

fn of_ip(packet: &[u8]) -> Vec<u8> {
    ethernet(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, packet)
}

/// An IPv4 packet of this protocol, in an Ethernet frame.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
    builder.write(&mut frame, etherparse::IpNumber(protocol), payload).expect("a packet");
    frame
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([3; 16], [4; 16], 64);
    builder.write(&mut frame, etherparse::IpNumber(next), payload).expect("a packet");
    frame
}

/// Whose checksum is right for this payload.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
    builder.udp(50_000, port).write(&mut frame, payload).expect("a packet");
    frame
}

/// A segment routing header with one hop to come, in front of `payload`.
fn routed(next: u8, end: [u8; 16], payload: &[u8]) -> Vec<u8> {
    ipv6(43, &[&[next, 4, 4, 1, 1, 0, 0, 0], &end[..], &[5; 16], payload].concat())
}

fn completed(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    let headers = parse(LinkType::Ethernet, &frame, frame.len() as u32);
    complete(&mut frame, &headers).then_some(frame)
}

type Tunnel = (&'static str, fn(&[u8]) -> Vec<u8>);

/// How packets are put into others.
const TUNNELS: [Tunnel; 21] = [
    ("IPv4 in IPv4", |packet| ipv4(if packet[0] >> 4 == 4 { 4 } else { 41 }, packet)),
    ("IP in IPv6", |packet| ipv6(if packet[0] >> 4 == 4 { 4 } else { 41 }, packet)),
    ("VXLAN", |packet| udp(4_789, &[&[8, 0, 0, 0, 0, 0, 42, 0], &of_ip(packet)[..]].concat())),
    ("VXLAN at Linux's port", |packet| {
        udp(8_472, &[&[8, 0, 0, 0, 0, 0, 42, 0], &of_ip(packet)[..]].concat())
    }),
    ("VXLAN with a tag inside", |packet| {
        let tag = [&[0, 5], &of_ip(packet)[12..]].concat();
        udp(4_789, &[&[8, 0, 0, 0, 0, 0, 42, 0], &ethernet(0x8100, &tag)[..]].concat())
    }),
    ("VXLAN with a group", |packet| {
        udp(4_789, &[&[0x88, 0, 1, 2, 0, 0, 42, 0], &of_ip(packet)[..]].concat())
    }),
    ("VXLAN-GPE", |packet| udp(4_790, &[&[0x0c, 0, 0, 1, 0, 0, 42, 0], packet].concat())),
    ("Geneve", |packet| udp(6_081, &[&[0, 0, 0x65, 0x58, 0, 0, 42, 0], &of_ip(packet)[..]].concat())),
    ("Geneve with options", |packet| {
        let options = [1, 2, 3, 1, 9, 9, 9, 9];
        udp(6_081, &[&[2, 0x40, 0x65, 0x58, 0, 0, 42, 0], &options[..], &of_ip(packet)[..]].concat())
    }),
    ("FOU", |packet| udp(5_555, packet)),
    ("GTP-U", |packet| {
        let [high, low] = (packet.len() as u16).to_be_bytes();
        udp(2_152, &[&[0x30, 0xff, high, low, 0, 0, 0, 1], packet].concat())
    }),
    ("GRE", |packet| ipv4(47, &[&[0, 0], &of_ip(packet)[12..14], packet].concat())),
    ("GRE with a key and numbers", |packet| {
        ipv4(47, &[&[0x30, 0], &of_ip(packet)[12..14], &[0, 0, 0, 7, 0, 0, 0, 9], packet].concat())
    }),
    ("Ethernet in GRE", |packet| {
        ipv6(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 7], &of_ip(packet)[..]].concat())
    }),
    ("ERSPAN", |packet| {
        ipv4(47, &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 7], &[0x10; 8], &of_ip(packet)[..]].concat())
    }),
    ("MPLS in GRE", |packet| ipv4(47, &[&[0, 0, 0x88, 0x47, 0, 1, 0x01, 64], packet].concat())),
    ("SRv6", |packet| routed(if packet[0] >> 4 == 4 { 4 } else { 41 }, [7; 16], packet)),
    ("Ethernet in SRv6", |packet| routed(143, [7; 16], &of_ip(packet))),
    ("MPLS", |packet| ethernet(0x8847, &[&[0, 1, 0x00, 64, 0, 2, 0x01, 64], packet].concat())),
    ("PPPoE", |packet| {
        let [high, low] = (packet.len() as u16 + 2).to_be_bytes();
        let kind = if packet[0] >> 4 == 4 { 0x21 } else { 0x57 };
        ethernet(0x8864, &[&[0x11, 0, 0, 1, high, low, 0, kind], packet].concat())
    }),
    ("two tunnels", |packet| {
        let inner = ipv4(47, &[&[0, 0], &of_ip(packet)[12..14], packet].concat());
        udp(4_789, &[&[8, 0, 0, 0, 0, 0, 42, 0], &inner[..]].concat())
    }),
];

/// The sum around is right when the inner one is, as the kernel leaves it: so the whole packet is known beforehand.
#[test]
fn what_was_left_to_the_card_inside_a_tunnel_is_completed() {
    for (name, tunnel) in TUNNELS {
        for is_ipv6 in [false, true] {
            if name == "VXLAN-GPE" && is_ipv6 {
                continue; // its header says IPv4
            }
            let inner = tcp(is_ipv6);
            let whole = tunnel(&inner);
            let at = whole.windows(inner.len()).position(|bytes| bytes == inner).expect("it is inside");
            let mut frame = whole.clone();
            frame[at..at + inner.len()].copy_from_slice(&left(&inner));
            assert_eq!(completed(&frame).as_ref(), Some(&whole), "{name}, IPv6: {is_ipv6}");
            assert_eq!(completed(&whole), None, "{name}: it is right");
            let mut wrong = whole.clone();
            wrong[at + inner.len() - 1] ^= 1;
            assert_eq!(completed(&wrong), None, "{name}: it is damaged, not left to a card");
            let padded = [&frame[..], &[0; 5]].concat();
            assert_eq!(completed(&padded), Some([&whole[..], &[0; 5]].concat()), "{name}: padded");
        }
    }
}

/// The outer sum is the one that is left where the inner one is whole.
#[test]
fn what_was_left_around_a_tunnel_is_completed() {
    let whole = udp(4_789, &[&[8, 0, 0, 0, 0, 0, 42, 0], &of_ip(&tcp(false))[..]].concat());
    let mut frame = whole.clone();
    let sum = Sum16BitWords::new().add_slice(&whole[26..34]).add_2bytes([0, 17]);
    let sum = sum.add_2bytes(((whole.len() - 34) as u16).to_be_bytes());
    frame[40..42].copy_from_slice(&(!sum.ones_complement()).to_le_bytes());
    assert_eq!(completed(&frame), Some(whole));
    // GRE's own has no pseudo-header.
    let inner = tcp(false);
    let gre = |sum: [u8; 2]| ipv4(47, &[&[0x80, 0, 0x08, 0x00], &sum[..], &[0, 0], &inner[..]].concat());
    let frame = gre([0, 0]);
    let sum = Sum16BitWords::new().add_slice(&frame[34..]).ones_complement().to_le_bytes();
    assert_eq!(completed(&frame), Some(gre(sum)));
    assert_eq!(completed(&gre(sum)), None);
}

/// The pseudo-header of a packet with hops to come has the last one (RFC 8200 §8.1, RFC 8754 §4).
#[test]
fn what_is_source_routed_is_completed() {
    let end = [2; 16];
    let mut inner = tcp(true);
    inner[8..24].fill(3);
    let sum = Sum16BitWords::new().add_slice(&[3; 16]).add_slice(&end).add_2bytes([0, 6]);
    let pseudo = sum.add_2bytes(((inner.len() - 40) as u16).to_be_bytes());
    inner[56..58].fill(0);
    let whole = (!pseudo.ones_complement()).to_le_bytes();
    let sum = pseudo.add_slice(&inner[40..]).ones_complement().to_le_bytes();
    let frame = |sum: [u8; 2]| {
        let mut segment = inner[40..].to_vec();
        segment[16..18].copy_from_slice(&sum);
        routed(6, end, &segment)
    };
    assert_eq!(completed(&frame(whole)), Some(frame(sum)));
    let right = frame(sum);
    let headers = parse(LinkType::Ethernet, &right, right.len() as u32);
    assert_eq!(verify(&right, &headers), Checksums::Right);
    let mut unknown = right.clone();
    unknown[14 + 40 + 2] = 3;
    let headers = parse(LinkType::Ethernet, &unknown, unknown.len() as u32);
    assert_eq!(verify(&unknown, &headers), Checksums::Unverifiable, "RPL's addresses are compressed");
}

/// An INIT of RFC 9260 without parameters; CRC32c by the definition.
#[test]
fn sctp_is_completed() {
    let chunk = [1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 10, 5, 6, 7, 8];
    let packet =
        |crc: [u8; 4]| ipv4(132, &[&[0x03, 0xe8, 0x07, 0xd0, 0, 0, 0, 0], &crc[..], &chunk].concat());
    let frame = packet([0; 4]);
    let mut crc = !0_u32;
    for byte in &frame[34..] {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 });
    }
    let whole = packet((!crc).to_le_bytes());
    assert_eq!(completed(&frame), Some(whole.clone()));
    assert_eq!(completed(&whole), None);
    let mut told = frame;
    assert!(complete_at(&mut told, 34, 8));
    assert_eq!(told, whole);
}

/// As the kernel tells AF_PACKET, of tunnels that nobody knows, too.
#[test]
fn what_is_told_is_completed() {
    for is_ipv6 in [false, true] {
        let (inner, l4) = (tcp(is_ipv6), if is_ipv6 { 40 } else { 20 });
        let mut frame = [&[9; 33][..], &left(&inner)].concat();
        assert!(complete_at(&mut frame, 33 + l4, 16));
        assert_eq!(frame[33..], inner);
    }
    for (start, offset) in [(0, 5), (5, 0), (6, 0), (0, 6), (usize::MAX, 16), (0, usize::MAX), (0, 8), (3, 8)]
    {
        assert!(!complete_at(&mut [0; 6], start, offset), "{start} {offset}");
    }
}

#[test]
fn what_nests_deeper_than_is_looked_at_is_left() {
    let nested = |times: usize| (0..times).fold(of_ip(&left(&tcp(false))), |frame, _| ipv4(4, &frame[14..]));
    let depths: Vec<usize> = (0..10).filter(|times| completed(&nested(*times)).is_some()).collect();
    assert_eq!(depths, [0, 1, 2, 3, 4]);
}

#[test]
fn fragments_have_nothing_inside() {
    let mut frame = udp(4_789, &[&[8, 0, 0, 0, 0, 0, 42, 0], &of_ip(&tcp(false))[..]].concat());
    let has_inside = |frame: &[u8]| {
        let headers = parse(LinkType::Ethernet, frame, frame.len() as u32);
        inside(frame, &headers).is_some()
    };
    assert!(has_inside(&frame));
    // More fragments.
    frame[20] |= 0x20;
    assert!(!has_inside(&frame));
}

/// A datagram that merely begins like a tunnel's is none.
#[test]
fn data_are_no_tunnel() {
    let inner = left(&tcp(false));
    let frame = of_ip(&inner);
    let head = [8, 0, 0, 0, 0, 0, 42, 0];
    for payload in [
        [&head, &frame[..frame.len() - 1]].concat(),
        [&head, &frame[..], &[0; 9]].concat(),
        [&[8, 0x20, 0, 0, 0, 0, 42, 7], &frame[..]].concat(),
        [&[0x45; 8], &frame[..]].concat(),
        head.to_vec(),
        vec![],
    ] {
        assert_eq!(completed(&udp(4_789, &payload)), None, "{payload:x?}");
    }
}

proptest! {
    #![proptest_config(crate::cases(5_000))]

    #[test]
    fn any_bytes_do_no_harm(
        packet in packets::packet(),
        bytes in proptest::collection::vec(any::<u8>(), 0..160),
        tunnel in 0..TUNNELS.len(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        (start, offset) in (0..200_usize, 0..40_usize),
    ) {
        let mut other = bytes.clone();
        complete(&mut other, &packet.headers);
        wire::renew(&mut other, &packet.headers);
        inside(&other, &packet.headers);
        complete_at(&mut other, start, offset);
        let mut frame = (TUNNELS[tunnel].1)(&left(&tcp(true)));
        *at.get_mut(&mut frame) = to;
        let headers: Headers = parse(LinkType::Ethernet, &frame, frame.len() as u32);
        complete(&mut frame, &headers);
        let cut = at.index(frame.len() + 1);
        complete(&mut frame[..cut], &headers);
    }
}
