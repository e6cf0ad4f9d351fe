//! Well-formed packets by construction: what was put in is what [`wire::parse`] must get out.
#![allow(dead_code)] // Each test that uses this uses some.

use std::ops::Range;

use etherparse::checksum::Sum16BitWords;
use etherparse::{Icmpv6Slice, IpNumber, Ipv4Header, Ipv4Options, TcpHeader, UdpHeader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::{Addr, Headers, LinkType, Marks, protocol, tcp_flags};

use crate::invariants::crc32c;

/// A frame, and the headers that it was made from.
#[derive(Clone, Debug)]
pub struct Packet {
    pub link: LinkType,
    pub frame: Vec<u8>,
    pub headers: Headers,
    pub payload_len: usize,
}

/// A whole packet on any link, perhaps padded.
pub fn packet() -> impl Strategy<Value = Packet> {
    (any_ip(), any_link(), 0..8_usize).prop_map(|(packet, link, padding)| on_link(packet, &link, padding))
}

fn on_link(mut packet: Packet, link: &Link, padding: usize) -> Packet {
    let mut frame = link.bytes(packet.headers.marks.contains(Marks::IPV4));
    packet.link = link.link;
    packet.headers.l3_offset = frame.len() as u8;
    packet.headers.l4_offset += frame.len() as u16;
    if let Some(tci) = link.tags.first() {
        packet.headers.vlan = *tci;
        packet.headers.marks |= Marks::VLAN;
    }
    frame.append(&mut packet.frame);
    // IPv6 without payload says length 0, which means "all there is": padding would count.
    let padding = if packet.headers.l3_len == 40 { 0 } else { padding };
    frame.resize(frame.len() + padding, 0xee);
    packet.frame = frame;
    packet
}

/// What most packets are: Ethernet without tags, IPv4 without options, TCP or UDP.
pub fn plain() -> impl Strategy<Value = Packet> {
    let untagged =
        Link { link: LinkType::Ethernet, tags: vec![], tag_types: [0x8100; 2], family: 0, is_swapped: false };
    (ipv4_with(0..1, prop_oneof![tcp(), udp()]), 0..8_usize)
        .prop_map(move |(packet, padding)| on_link(packet, &untagged, padding))
}

/// An IP packet without link header or padding, all checksums right.
pub fn any_ip() -> impl Strategy<Value = Packet> {
    prop_oneof![ipv4(), ipv6()]
}

/// The checksums that etherparse computes are in the packet; `None` for UDP without one.
///
/// # Panics
/// If one is wrong.
pub fn check_checksums(packet: &[u8], l4: usize, headers: &Headers) {
    let is_v4 = headers.marks.contains(Marks::IPV4);
    if is_v4 {
        let (header, _) = Ipv4Header::from_slice(packet).unwrap();
        assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4 header");
    }
    let segment = &packet[l4..];
    let (computed, at) = match headers.protocol {
        protocol::TCP => (transport_checksum(packet, is_v4, headers.protocol, segment, 16), 16),
        protocol::UDP if segment[6..8] == [0, 0] => return,
        protocol::UDP | protocol::DCCP => {
            (transport_checksum(packet, is_v4, headers.protocol, segment, 6), 6)
        }
        protocol::ICMPV6 if !is_v4 => {
            let icmp = Icmpv6Slice::from_slice(segment).unwrap();
            let [src, dst] = [8, 24].map(|at| packet[at..at + 16].try_into().unwrap());
            assert!(icmp.is_checksum_valid(src, dst), "ICMPv6");
            return;
        }
        protocol::SCTP => {
            let mut zeroed = segment.to_vec();
            zeroed[8..12].fill(0);
            assert_eq!(segment[8..12], crc32c(&zeroed).to_le_bytes(), "SCTP");
            return;
        }
        _ => return,
    };
    assert_eq!(segment[at..at + 2], computed.to_be_bytes(), "{headers:?}");
}

/// The transport checksum in full: by etherparse's own functions for TCP and UDP, else by its sum.
fn transport_checksum(packet: &[u8], is_v4: bool, protocol: u8, segment: &[u8], at: usize) -> u16 {
    let v4 = || [12, 16].map(|at| packet[at..at + 4].try_into().unwrap());
    let v6 = || [8, 24].map(|at| packet[at..at + 16].try_into().unwrap());
    match (protocol, is_v4) {
        (protocol::TCP, _) => {
            let (header, payload) = TcpHeader::from_slice(segment).unwrap();
            if is_v4 {
                let [src, dst] = v4();
                header.calc_checksum_ipv4_raw(src, dst, payload).unwrap()
            } else {
                let [src, dst] = v6();
                header.calc_checksum_ipv6_raw(src, dst, payload).unwrap()
            }
        }
        (protocol::UDP, _) => {
            let (header, payload) = UdpHeader::from_slice(segment).unwrap();
            if is_v4 {
                let [src, dst] = v4();
                header.calc_checksum_ipv4_raw(src, dst, payload).unwrap()
            } else {
                let [src, dst] = v6();
                header.calc_checksum_ipv6_raw(src, dst, payload).unwrap()
            }
        }
        _ => {
            let mut zeroed = segment.to_vec();
            zeroed[at..at + 2].fill(0);
            let addresses = if is_v4 { &packet[12..20] } else { &packet[8..40] };
            Sum16BitWords::new()
                .add_slice(addresses)
                .add_2bytes([0, protocol])
                .add_2bytes((segment.len() as u16).to_be_bytes())
                .add_slice(&zeroed)
                .ones_complement()
                .to_be()
        }
    }
}

// ---- links ----------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Link {
    link: LinkType,
    tags: Vec<u16>,
    tag_types: [u16; 2],
    family: u32,
    is_swapped: bool,
}

fn any_link() -> impl Strategy<Value = Link> {
    let tag_type = || select(&[0x8100, 0x88a8, 0x9100]);
    (
        select(&crate::invariants::LINKS),
        vec(any::<u16>(), 0..3),
        [tag_type(), tag_type()],
        select(&[10, 24, 28, 30]),
        any::<bool>(),
    )
        .prop_map(|(link, tags, tag_types, family, is_swapped)| {
            let has_tags = matches!(link, LinkType::Ethernet | LinkType::LinuxSll | LinkType::LinuxSll2);
            Link { link, tags: if has_tags { tags } else { vec![] }, tag_types, family, is_swapped }
        })
}

impl Link {
    fn bytes(&self, is_v4: bool) -> Vec<u8> {
        let network: u16 = if is_v4 { 0x0800 } else { 0x86dd };
        let mut types: Vec<u16> = self.tag_types[..self.tags.len()].to_vec();
        types.push(network);
        let first = types[0].to_be_bytes();
        let family = if is_v4 { 2 } else { self.family };
        let mut bytes = match self.link {
            LinkType::Ethernet => [&[0x02; 6][..], &[0x06; 6], &first].concat(),
            LinkType::LinuxSll => [&[0, 0, 0, 1, 0, 6][..], &[0x0a; 8], &first].concat(),
            LinkType::LinuxSll2 => [&first[..], &[0; 2], &[0, 0, 0, 3, 0, 1, 0, 6], &[0x0b; 8]].concat(),
            LinkType::Null if self.is_swapped => family.swap_bytes().to_be_bytes().to_vec(),
            LinkType::Null | LinkType::Loop => family.to_be_bytes().to_vec(),
            LinkType::RawIp => vec![],
        };
        for (tci, next) in self.tags.iter().zip(&types[1..]) {
            bytes.extend(tci.to_be_bytes());
            bytes.extend(next.to_be_bytes());
        }
        bytes
    }
}

// ---- IP -------------------------------------------------------------------------------------

fn ipv4() -> impl Strategy<Value = Packet> {
    ipv4_with(0..11, any_transport(true))
}

fn ipv4_with(
    option_words: Range<usize>,
    transport: impl Strategy<Value = Segment>,
) -> impl Strategy<Value = Packet> {
    let fields =
        (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u8>(), any::<u8>(), vec(any::<u32>(), option_words));
    (fields, transport, any::<bool>()).prop_map(|((src, dst, ttl, tos, options), mut segment, is_unset)| {
        let options: Vec<u8> = options.iter().flat_map(|word| word.to_be_bytes()).collect();
        let options = Ipv4Options::try_from(&options[..]).unwrap();
        let len = segment.bytes.len() as u16;
        let mut header = Ipv4Header { options, ..Default::default() };
        (header.source, header.destination, header.time_to_live) = (src, dst, ttl);
        header.protocol = IpNumber(segment.headers.protocol);
        header.total_len = header.header_len() as u16 + len;
        let mut bytes = header.to_bytes().to_vec();
        bytes[1] = tos;
        let l4 = bytes.len();
        bytes.append(&mut segment.bytes);
        let mut headers = Headers {
            src: Addr::v4(src),
            dst: Addr::v4(dst),
            ttl,
            tos,
            l3_len: bytes.len() as u16,
            l4_offset: l4 as u16,
            ..segment.headers
        };
        headers.marks |= Marks::IPV4;
        let checksum = Ipv4Header::from_slice(&bytes).unwrap().0.calc_header_checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        fill_checksum(&mut bytes, l4, &headers);
        if is_unset && headers.protocol == protocol::UDP {
            bytes[l4 + 6..l4 + 8].fill(0);
        }
        Packet { link: LinkType::RawIp, frame: bytes, headers, payload_len: segment.payload_len }
    })
}

fn ipv6() -> impl Strategy<Value = Packet> {
    // Options, routing with no segment left, an atomic fragment, authentication, mobility, HIP, shim6.
    let extension = (select(&[0_u8, 43, 44, 51, 60, 135, 139, 140]), 0..3_u8);
    let fields = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u8>(), any::<u8>(), vec(extension, 0..9));
    (fields, any_transport(false)).prop_map(|((src, dst, ttl, tos, extensions), mut segment)| {
        let mut chain = Vec::new();
        for (index, (kind, len)) in extensions.iter().enumerate() {
            let next = extensions.get(index + 1).map_or(segment.headers.protocol, |(kind, _)| *kind);
            chain.extend(extension_bytes(*kind, next, *len));
        }
        let first = extensions.first().map_or(segment.headers.protocol, |(kind, _)| *kind);
        let payload_len = (chain.len() + segment.bytes.len()) as u16;
        let mut bytes = vec![0x60 | tos >> 4, tos << 4 | 0x0c, 0x12, 0x34];
        bytes.extend(payload_len.to_be_bytes());
        bytes.extend([first, ttl]);
        bytes.extend(src);
        bytes.extend(dst);
        bytes.append(&mut chain);
        let l4 = bytes.len();
        bytes.append(&mut segment.bytes);
        let mut headers = Headers {
            src: Addr(src),
            dst: Addr(dst),
            ttl,
            tos,
            l3_len: bytes.len() as u16,
            l4_offset: l4 as u16,
            ..segment.headers
        };
        headers.marks |= Marks::IPV6;
        fill_checksum(&mut bytes, l4, &headers);
        Packet { link: LinkType::RawIp, frame: bytes, headers, payload_len: segment.payload_len }
    })
}

fn extension_bytes(kind: u8, next: u8, len: u8) -> Vec<u8> {
    let mut bytes = match kind {
        44 => vec![0; 8],
        51 => vec![0; 12 + usize::from(len) * 4],
        _ => vec![0; 8 + usize::from(len) * 8],
    };
    bytes[0] = next;
    match kind {
        44 => {}
        51 => bytes[1] = len + 1,
        _ => bytes[1] = len,
    }
    bytes
}

// ---- transport ------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Segment {
    bytes: Vec<u8>,
    /// What this layer knows of them.
    headers: Headers,
    payload_len: usize,
}

fn any_transport(is_v4: bool) -> impl Strategy<Value = Segment> {
    prop_oneof![
        4 => tcp(),
        2 => udp(),
        1 => icmp(is_v4),
        1 => ports_only(protocol::SCTP, 12),
        1 => ports_only(protocol::DCCP, 16),
        1 => vec(any::<u8>(), 0..64).prop_map(|bytes| {
            let headers = Headers { protocol: 47, ..Headers::default() };
            Segment { payload_len: bytes.len(), bytes, headers }
        }),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..64)
}

fn tcp() -> impl Strategy<Value = Segment> {
    let numbers = any::<(u16, u16, u32, u32, u8, u16)>();
    (numbers, vec(tcp_option(), 0..5), payload()).prop_map(|(numbers, options, payload)| {
        let (src_port, dst_port, seq, ack, flags, window) = numbers;
        let mut headers = Headers {
            src_port,
            dst_port,
            seq,
            ack,
            sack: ack,
            window,
            protocol: protocol::TCP,
            tcp_flags: flags,
            tcp_shape: 15,
            ..Headers::default()
        };
        let mut option_bytes = Vec::new();
        let mut is_read = true;
        for option in options {
            let bytes = option.bytes(ack);
            if option_bytes.len() + bytes.len() <= 40 {
                option_bytes.extend(bytes);
                is_read = is_read && option.read(&mut headers);
            }
        }
        option_bytes.resize(option_bytes.len().next_multiple_of(4), 0);
        let words = 5 + option_bytes.len() / 4;
        headers.tcp_shape |= (words as u8) << 4;
        let mut bytes = [src_port.to_be_bytes(), dst_port.to_be_bytes()].concat();
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(words as u8) << 4, flags]);
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0, 0x12, 0x34]);
        bytes.append(&mut option_bytes);
        let payload_len = payload.len();
        bytes.extend(payload);
        Segment { bytes, headers, payload_len }
    })
}

#[derive(Clone, Debug)]
enum TcpOption {
    NoOperation,
    MaximumSegmentSize(u16),
    WindowScale(u8),
    SackPermitted,
    /// Distances of the right edges from the acknowledgment number.
    Sack(Vec<i32>),
    Timestamp(u64),
    Unknown(u8, Vec<u8>),
    /// One of those that are read, with a length that is not theirs: skipped by it.
    WrongLength(u8, u8),
    /// One of those that are read, with a length that cannot be: nothing after it is read.
    Broken(u8, u8),
    End,
}

fn tcp_option() -> impl Strategy<Value = TcpOption> {
    prop_oneof![
        3 => Just(TcpOption::NoOperation),
        1 => any::<u16>().prop_map(TcpOption::MaximumSegmentSize),
        2 => (0..20_u8).prop_map(TcpOption::WindowScale),
        2 => Just(TcpOption::SackPermitted),
        2 => vec(any::<i32>(), 1..5).prop_map(TcpOption::Sack),
        2 => any::<u64>().prop_map(TcpOption::Timestamp),
        1 => (9..=255_u8, vec(any::<u8>(), 0..6)).prop_map(|(kind, value)| TcpOption::Unknown(kind, value)),
        1 => select(&[(3, 2), (3, 4), (4, 3), (4, 6), (5, 2), (5, 6), (5, 9)])
            .prop_map(|(kind, len)| TcpOption::WrongLength(kind, len)),
        1 => (3..=5_u8, select(&[0, 1, 41])).prop_map(|(kind, len)| TcpOption::Broken(kind, len)),
        1 => Just(TcpOption::End),
    ]
}

impl TcpOption {
    fn bytes(&self, ack: u32) -> Vec<u8> {
        match self {
            TcpOption::NoOperation => vec![1],
            TcpOption::MaximumSegmentSize(len) => [&[2, 4][..], &len.to_be_bytes()].concat(),
            TcpOption::WindowScale(shift) => vec![3, 3, *shift],
            TcpOption::SackPermitted => vec![4, 2],
            TcpOption::Sack(distances) => {
                let mut bytes = vec![5, 2 + 8 * distances.len() as u8];
                for distance in distances {
                    let right = ack.wrapping_add_signed(*distance);
                    bytes.extend(right.wrapping_sub(1_000).to_be_bytes());
                    bytes.extend(right.to_be_bytes());
                }
                bytes
            }
            TcpOption::Timestamp(value) => [&[8, 10][..], &value.to_be_bytes()].concat(),
            TcpOption::Unknown(kind, value) => [&[*kind, 2 + value.len() as u8][..], value].concat(),
            TcpOption::WrongLength(kind, len) => {
                let mut bytes = vec![3; usize::from(*len)];
                bytes[..2].copy_from_slice(&[*kind, *len]);
                bytes
            }
            TcpOption::Broken(kind, len) => vec![*kind, *len, 0xff, 0xff],
            TcpOption::End => vec![0],
        }
    }

    /// Notes what a receiver learns; whether it reads on.
    fn read(&self, headers: &mut Headers) -> bool {
        let is_syn = headers.tcp_flags & tcp_flags::SYN != 0;
        let is_ack = headers.tcp_flags & tcp_flags::ACK != 0;
        match self {
            TcpOption::WindowScale(shift) if is_syn => headers.tcp_shape = (*shift).min(14),
            TcpOption::SackPermitted if is_syn => headers.marks |= Marks::SACK_PERMITTED,
            TcpOption::Sack(distances) if is_ack => {
                let farthest = distances.iter().copied().max().unwrap_or(0).max(0);
                headers.sack = headers.ack.wrapping_add_signed(farthest);
            }
            TcpOption::Broken(..) | TcpOption::End => return false,
            _ => {}
        }
        true
    }
}

fn udp() -> impl Strategy<Value = Segment> {
    // Bytes behind the datagram but in the IP packet are allowed: `surplus`.
    (any::<(u16, u16)>(), payload(), 0..4_usize).prop_map(|((src_port, dst_port), payload, surplus)| {
        let len = 8 + payload.len() as u16;
        let mut bytes =
            UdpHeader { source_port: src_port, destination_port: dst_port, length: len, checksum: 0 }
                .to_bytes()
                .to_vec();
        bytes.extend(&payload);
        // Zeros, because etherparse's sum takes them in.
        bytes.resize(bytes.len() + surplus, 0);
        let headers = Headers {
            src_port,
            dst_port,
            seq: u32::from(len),
            protocol: protocol::UDP,
            tcp_shape: 0x20,
            ..Headers::default()
        };
        Segment { bytes, headers, payload_len: payload.len() }
    })
}

fn icmp(is_v4: bool) -> impl Strategy<Value = Segment> {
    let (number, kinds) = if is_v4 { (protocol::ICMP, [0, 8, 3]) } else { (protocol::ICMPV6, [128, 129, 1]) };
    (select(kinds.to_vec()), any::<(u8, u16, u16)>(), payload()).prop_map(
        move |(kind, (code, identifier, sequence), payload)| {
            let mut bytes = vec![kind, code, 0, 0];
            bytes.extend(identifier.to_be_bytes());
            bytes.extend(sequence.to_be_bytes());
            bytes.extend(&payload);
            let is_echo = kind != kinds[2];
            let low = if is_echo { identifier } else { 0 };
            let (src_port, dst_port, shape) = match kind {
                8 => (identifier, 0, 1),
                0 => (0, identifier, 2),
                _ => (0, 0, 0),
            };
            let headers = Headers {
                src_port,
                dst_port,
                seq: u32::from(kind) << 24 | u32::from(code) << 16 | u32::from(low),
                protocol: number,
                tcp_shape: 0x20 | shape,
                ..Headers::default()
            };
            Segment { bytes, headers, payload_len: payload.len() }
        },
    )
}

fn ports_only(number: u8, header_len: usize) -> impl Strategy<Value = Segment> {
    (any::<(u16, u16)>(), payload()).prop_map(move |((src_port, dst_port), payload)| {
        let mut bytes = [src_port.to_be_bytes(), dst_port.to_be_bytes()].concat();
        bytes.resize(header_len, 0);
        bytes.extend(&payload);
        let headers = Headers { src_port, dst_port, protocol: number, ..Headers::default() };
        Segment { payload_len: bytes.len(), bytes, headers }
    })
}

fn fill_checksum(packet: &mut [u8], l4: usize, headers: &Headers) {
    let is_v4 = headers.marks.contains(Marks::IPV4);
    let segment = &packet[l4..];
    let (at, checksum) = match headers.protocol {
        protocol::TCP => (16, transport_checksum(packet, is_v4, headers.protocol, segment, 16)),
        protocol::UDP | protocol::DCCP => {
            (6, transport_checksum(packet, is_v4, headers.protocol, segment, 6))
        }
        protocol::ICMPV6 => (2, transport_checksum(packet, is_v4, headers.protocol, segment, 2)),
        protocol::SCTP => {
            let crc = crc32c(segment);
            packet[l4 + 8..l4 + 12].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        _ => return,
    };
    packet[l4 + at..l4 + at + 2].copy_from_slice(&checksum.to_be_bytes());
}
