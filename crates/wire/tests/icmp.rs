//! ICMP over IPv4: what has the place of ports, and messages edited with what they quote. What is expected is
//! built in full by etherparse, checksums too.

use etherparse::{Icmpv4Header, Icmpv4Type, IpNumber, Ipv4Header, PacketBuilder, TcpHeader};
use proptest::prelude::*;
use wire::{Addr, Edits, Headers, IcmpPorts, LinkType, apply, parse, protocol};

type End = ([u8; 4], u16);

const HOST: End = ([10, 0, 0, 7], 4000);
const PEER: End = ([192, 0, 2, 1], 443);
const EXTERNAL: End = ([203, 0, 113, 5], 61_001);
const ROUTER: [u8; 4] = [198, 51, 100, 1];

/// What an error quotes.
#[derive(Clone, Copy, Debug)]
enum Inner {
    Tcp,
    Udp,
    Request,
    Reply,
}

const INNERS: [Inner; 4] = [Inner::Tcp, Inner::Udp, Inner::Request, Inner::Reply];

/// A packet with right checksums; IPv4 options in front of the transport if asked for.
fn packet(inner: Inner, from: End, to: End, with_options: bool, payload: &[u8]) -> Vec<u8> {
    let mut transport = Vec::new();
    let number = match inner {
        Inner::Tcp => {
            let mut tcp = TcpHeader::new(from.1, to.1, 0x1234_5678, 5_000);
            tcp.checksum = tcp.calc_checksum_ipv4_raw(from.0, to.0, payload).unwrap();
            tcp.write(&mut transport).unwrap();
            IpNumber::TCP
        }
        Inner::Udp => {
            let udp = etherparse::UdpHeader::with_ipv4_checksum(
                from.1,
                to.1,
                &Ipv4Header::new(0, 64, IpNumber::UDP, from.0, to.0).unwrap(),
                payload,
            );
            udp.unwrap().write(&mut transport).unwrap();
            IpNumber::UDP
        }
        Inner::Request | Inner::Reply => {
            let echo = |id| etherparse::IcmpEchoHeader { id, seq: 9 };
            let kind = match inner {
                Inner::Request => Icmpv4Type::EchoRequest(echo(from.1)),
                _ => Icmpv4Type::EchoReply(echo(to.1)),
            };
            Icmpv4Header::with_checksum(kind, payload).write(&mut transport).unwrap();
            IpNumber::ICMP
        }
    };
    transport.extend(payload);
    ip(number, from.0, to.0, with_options, &transport)
}

fn ip(number: IpNumber, src: [u8; 4], dst: [u8; 4], with_options: bool, behind: &[u8]) -> Vec<u8> {
    let mut header = Ipv4Header::new(0, 64, number, src, dst).unwrap();
    if with_options {
        header.options = [7, 7, 4, 0, 0, 0, 0, 0].into();
    }
    header.set_payload_len(behind.len()).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = Vec::new();
    header.write(&mut bytes).unwrap();
    bytes.extend(behind);
    bytes
}

/// An error about a packet, of which it quotes so many bytes.
fn error(kind: u8, src: [u8; 4], dst: [u8; 4], quoted: &[u8], quoted_len: usize) -> Vec<u8> {
    let quote = &quoted[..quoted_len.min(quoted.len())];
    let kind = Icmpv4Type::Unknown { type_u8: kind, code_u8: 4, bytes5to8: [0, 0, 5, 220] };
    let mut message = Vec::new();
    Icmpv4Header::with_checksum(kind, quote).write(&mut message).unwrap();
    message.extend(quote);
    ip(IpNumber::ICMP, src, dst, false, &message)
}

fn edited(edits: &Edits, mut bytes: Vec<u8>) -> Vec<u8> {
    let headers = parse(LinkType::RawIp, &bytes, bytes.len() as u32);
    assert!(headers.is_well_formed(), "{headers:?}");
    let mut range = 0..bytes.len();
    apply(edits, &headers, LinkType::RawIp, &mut bytes, &mut range).unwrap();
    let mut follows = headers;
    edits.apply_to_headers(&mut follows);
    assert_eq!(parse(LinkType::RawIp, &bytes, bytes.len() as u32), follows);
    bytes
}

fn headers(bytes: &[u8]) -> Headers {
    parse(LinkType::RawIp, bytes, bytes.len() as u32)
}

/// What a NAT makes of a packet from outside, and of one from inside.
fn inward((addr, port): End) -> Edits {
    let mut edits = Edits::NONE;
    edits.set_dst(Addr::v4(addr));
    edits.set_dst_port(port);
    edits
}

fn outward((addr, port): End) -> Edits {
    let mut edits = Edits::NONE;
    edits.set_src(Addr::v4(addr));
    edits.set_src_port(port);
    edits
}

#[test]
fn identifiers_and_quoted_ports_are_where_ports_are() {
    let request = headers(&packet(Inner::Request, HOST, PEER, false, b"ping"));
    assert_eq!((request.src_port, request.dst_port), (HOST.1, 0));
    assert_eq!(request.icmp_ports(), Some(IcmpPorts::Request));
    let reply = headers(&packet(Inner::Reply, PEER, HOST, true, b"ping"));
    assert_eq!((reply.src_port, reply.dst_port), (0, HOST.1));
    assert_eq!(reply.icmp_ports(), Some(IcmpPorts::Reply));
    assert_eq!(reply.icmp().unwrap().identifier, HOST.1);
    for kind in [3, 4, 11, 12] {
        for (inner, number) in INNERS.into_iter().zip([6, 17, 1, 1]) {
            let quoted = packet(inner, HOST, PEER, kind == 3, b"");
            for (from, is_from_destination) in [(PEER.0, true), (ROUTER, false)] {
                let error = headers(&error(kind, from, HOST.0, &quoted, 600));
                let (src, dst) = match inner {
                    Inner::Tcp | Inner::Udp => (PEER.1, HOST.1),
                    Inner::Request => (0, HOST.1),
                    Inner::Reply => (PEER.1, 0),
                };
                assert_eq!((error.src_port, error.dst_port), (src, dst), "{inner:?}");
                let expected = IcmpPorts::Error { protocol: number, is_from_destination };
                assert_eq!(error.icmp_ports(), Some(expected));
                assert_eq!(error.protocol, protocol::ICMP);
                // The destination of the quoted packet does not depend on who sent the error.
                assert_eq!(error.quoted_destination(), Some(Addr::v4(PEER.0)));
                let mut forgotten = error;
                forgotten.forget_quoted_destination();
                assert_eq!(forgotten.quoted_destination().is_some(), is_from_destination);
            }
        }
    }
}

/// Redirects, quotes of other packets than who gets the error sent, of fragments, and too short ones.
#[test]
fn what_cannot_be_told_has_no_ports() {
    let quoted = packet(Inner::Udp, HOST, PEER, false, b"1234");
    let mut later = quoted.clone();
    later[7] = 1;
    let mut v6 = quoted.clone();
    v6[0] = 0x65;
    let mut short = quoted.clone();
    short[0] = 0x44;
    for (kind, to, quoted, len) in [
        (5, HOST.0, &quoted, 600),
        (3, ROUTER, &quoted, 600),
        (3, HOST.0, &quoted, 27),
        (3, HOST.0, &quoted, 12),
        (3, HOST.0, &later, 600),
        (3, HOST.0, &v6, 600),
        (3, HOST.0, &short, 600),
    ] {
        let bytes = error(kind, PEER.0, to, quoted, len);
        let headers = headers(&bytes);
        assert_eq!((headers.src_port, headers.dst_port, headers.icmp_ports()), (0, 0, None), "{kind} {len}");
        assert_eq!((headers.ack, headers.quoted_destination()), (0, None));
        let mut edits = outward(EXTERNAL);
        edits.set_dst_port(1);
        let after = edited(&edits, bytes.clone());
        assert_eq!(after[20..], bytes[20..], "the outer source alone");
        assert_eq!(after[12..16], EXTERNAL.0);
    }
}

/// Byte by byte: IPv4, "fragmentation needed", the quoted IPv4 header, 8 bytes of TCP.
#[test]
fn golden() {
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    };
    let before = hex("45000038000000004001148bc6336401cb007105 \
         03049f4a00000500 \
         450005dc0000400040063715cb007105c0000201 \
         ee4901bb12345678");
    let after = hex("45000038000000004001468ac63364010a000007 \
         03047df400000500 \
         450005dc00004000400669140a000007c0000201 \
         0fa001bb12345678");
    assert_eq!(edited(&inward(HOST), before.clone()), after);
    assert_eq!(edited(&inward(EXTERNAL), after), before);
}

#[test]
fn queries_get_another_identifier() {
    for payload in [&b""[..], b"1", b"some bytes"] {
        let out = packet(Inner::Request, HOST, PEER, false, payload);
        assert_eq!(edited(&outward(EXTERNAL), out), packet(Inner::Request, EXTERNAL, PEER, false, payload));
        let back = packet(Inner::Reply, PEER, EXTERNAL, true, payload);
        assert_eq!(edited(&inward(HOST), back), packet(Inner::Reply, PEER, HOST, true, payload));
        // A request has no identifier of its receiver, nor a reply of its sender.
        let mut others = Edits::NONE;
        others.set_dst_port(1);
        let out = packet(Inner::Request, HOST, PEER, false, payload);
        assert_eq!(edited(&others, out.clone()), out);
    }
}

/// RFC 768: no checksum is none in a quote, too.
#[test]
fn a_quoted_udp_packet_without_a_checksum_gets_none() {
    let plain = |end: End| {
        let mut quoted = packet(Inner::Udp, end, PEER, false, b"1234");
        quoted[26..28].fill(0);
        error(11, ROUTER, end.0, &quoted, 600)
    };
    assert_eq!(edited(&inward(HOST), plain(EXTERNAL)), plain(HOST));
}

type End6 = ([u8; 16], u16);

/// TCP or UDP over IPv6 with right checksums.
fn packet6(is_tcp: bool, from: End6, to: End6, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ipv6(from.0, to.0, 64);
    let mut bytes = Vec::new();
    match is_tcp {
        true => builder.tcp(from.1, to.1, 0x1234_5678, 5_000).write(&mut bytes, payload).unwrap(),
        false => builder.udp(from.1, to.1).write(&mut bytes, payload).unwrap(),
    }
    bytes
}

/// An ICMPv6 error about a packet, of which it quotes so many bytes.
fn error6(kind: u8, src: [u8; 16], dst: [u8; 16], quoted: &[u8], quoted_len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ipv6(src, dst, 64).icmpv6_raw(kind, 0, [0, 0, 5, 0]);
    builder.write(&mut bytes, &quoted[..quoted_len.min(quoted.len())]).unwrap();
    bytes
}

fn host6(last: u8) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}

#[test]
fn what_an_icmpv6_error_quotes_is_where_ports_are() {
    let quoted = packet6(true, (host6(1), 4_000), (host6(2), 443), b"");
    for (kind, from, is_from_destination) in [(1, host6(2), true), (2, host6(9), false), (3, host6(9), false)]
    {
        let found = headers(&error6(kind, from, host6(1), &quoted, 600));
        assert_eq!((found.src_port, found.dst_port), (443, 4_000));
        let expected = IcmpPorts::Error { protocol: protocol::TCP, is_from_destination };
        assert_eq!((found.icmp_ports(), found.ack), (Some(expected), Headers::word_of(Addr(host6(2)))));
    }
    // A message that is no error, a quote of another host's packet, one that is too short.
    for (kind, to, len) in [(129, host6(1), 600), (1, host6(3), 600), (1, host6(1), 47)] {
        let found = headers(&error6(kind, host6(9), to, &quoted, len));
        assert_eq!(
            (found.src_port, found.dst_port, found.icmp_ports(), found.ack),
            (0, 0, None, 0),
            "{kind}"
        );
    }
}

proptest! {
    /// As over IPv4.
    #[test]
    fn icmpv6_errors_are_edited_with_what_they_quote(
        is_tcp in any::<bool>(),
        kind in 1..5_u8,
        ports in any::<[u16; 4]>(),
        hosts in any::<[u8; 5]>(),
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        quoted_len in 48..160_usize,
        is_from_destination in any::<bool>(),
        (changes_src, changes_dst) in any::<(bool, bool)>(),
    ) {
        let quoted_len = quoted_len & !1;
        let [from, to, new_from, new_to] = [0, 1, 2, 3].map(|i| (host6(hosts[i]), ports[i]));
        let reporter = if is_from_destination { to.0 } else { host6(hosts[4]) };
        let before = packet6(is_tcp, from, to, &payload);
        let bytes = error6(kind, reporter, from.0, &before, quoted_len);
        let mut edits = Edits::NONE;
        let (mut quoted_from, mut quoted_to, mut outer) = (from, to, reporter);
        if changes_dst {
            edits.set_dst(Addr(new_from.0));
            edits.set_dst_port(new_from.1);
            quoted_from = new_from;
        }
        if changes_src {
            edits.set_src(Addr(new_to.0));
            edits.set_src_port(new_to.1);
            quoted_to = new_to;
            outer = new_to.0;
        }
        let after = packet6(is_tcp, quoted_from, quoted_to, &payload);
        let expected = error6(kind, outer, quoted_from.0, &after, quoted_len);
        prop_assert_eq!(edited(&edits, bytes), expected);
    }
}

proptest! {
    #![proptest_config(crate::cases(4_000))]

    /// Inward, outward and hairpinned: the edited message is the one that etherparse builds.
    #[test]
    fn errors_are_edited_with_what_they_quote(
        inner in proptest::sample::select(&INNERS[..]),
        kind in proptest::sample::select(&[3_u8, 4, 11, 12][..]),
        ports in any::<[u16; 4]>(),
        addrs in any::<[[u8; 4]; 5]>(),
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        quoted_len in 28..120_usize,
        with_options in any::<bool>(),
        is_from_destination in any::<bool>(),
        (changes_src, changes_dst) in any::<(bool, bool)>(),
    ) {
        // Half a checksum cannot be updated.
        let quoted_len = (quoted_len + if with_options { 8 } else { 0 }) & !1;
        let [from, to, new_from, new_to] = [0, 1, 2, 3].map(|i| (addrs[i], ports[i]));
        let reporter = if is_from_destination { to.0 } else { addrs[4] };
        let before = packet(inner, from, to, with_options, &payload);
        let bytes = error(kind, reporter, from.0, &before, quoted_len);
        let mut edits = Edits::NONE;
        let (mut quoted_from, mut quoted_to, mut outer) = (from, to, reporter);
        if changes_dst {
            edits.set_dst(Addr::v4(new_from.0));
            edits.set_dst_port(new_from.1);
            quoted_from = new_from;
        }
        if changes_src {
            edits.set_src(Addr::v4(new_to.0));
            edits.set_src_port(new_to.1);
            quoted_to = new_to;
            outer = new_to.0;
        }
        let after = packet(inner, quoted_from, quoted_to, with_options, &payload);
        let expected = error(kind, outer, quoted_from.0, &after, quoted_len);
        prop_assert_eq!(edited(&edits, bytes), expected);
    }
}

/// The helper builds what it says.
#[test]
fn packets_are_as_etherparse_builds_them() {
    let builder = PacketBuilder::ipv4(HOST.0, PEER.0, 64).icmpv4_echo_request(HOST.1, 9);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, b"ping").unwrap();
    let mut ours = packet(Inner::Request, HOST, PEER, false, b"ping");
    for packet in [&mut bytes, &mut ours] {
        // Flags, and the checksum with them.
        packet[6] = 0;
        packet[10..12].fill(0);
    }
    assert_eq!(bytes, ours);
}
