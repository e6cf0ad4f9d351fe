//! What a fragment says of its datagram.

use crate::packets;

use proptest::prelude::*;
use wire::{
    Addr, Datagram, Edits, First, Fragment, Headers, IcmpPorts, LinkType, Malformed, Marks, fragment, parse,
};

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn read(packet: &str) -> (Headers, Option<Fragment>) {
    let frame = hex(packet);
    let headers = parse(LinkType::RawIp, &frame, frame.len() as u32);
    (headers, fragment(&frame, &headers))
}

fn of(packet: &str) -> Option<Fragment> {
    read(packet).1
}

/// RFC 791 §3.1: 10.0.0.1 to 10.0.0.2, identification 0xbeef, UDP, 16 bytes of data; FLAG is flags and offset.
const V4: &str = "4500 0024 beef FLAG 4011 0000 0a00 0001 0a00 0002 03e8 07d0 0018 0000 0000 0000 0000 0000";

#[test]
fn golden_v4() {
    let datagram =
        Datagram { src: Addr::v4([10, 0, 0, 1]), dst: Addr::v4([10, 0, 0, 2]), id: 0xbeef, protocol: 17 };
    let expected = |offset, has_more| {
        Some(Fragment { datagram, offset, len: 16, has_more, header_len: 20, is_nested: false })
    };
    let flags = |flags: &str| of(&V4.replace("FLAG", flags));
    assert_eq!(flags("2000"), expected(0, true), "first");
    assert_eq!(flags("2002"), expected(16, true), "middle");
    assert_eq!(flags("0004"), expected(32, false), "last");
    assert_eq!(flags("1ffb"), expected(65_496, false), "as far as there is room");
    assert_eq!(flags("4000"), None, "whole");
    // Past the end of what a length field counts: malformed, and no fragment of anything.
    let (headers, fragment) = read(&V4.replace("FLAG", "1fff"));
    assert_eq!((headers.malformed(), fragment), (Some(Malformed::FragmentOverflow), None));
    // Padding is not data, and options are no data.
    let padded = format!("{} 0000 0000", V4.replace("FLAG", "0004"));
    assert_eq!(of(&padded), expected(32, false));
    let options = V4.replace("4500 0024", "4600 0028").replace("0a00 0002", "0a00 0002 0101 0101");
    let Some(Fragment { len, header_len, .. }) = of(&options.replace("FLAG", "0004")) else {
        panic!("a fragment")
    };
    assert_eq!((len, header_len), (16, 24));
}

/// RFC 8200 §4.5: from 2001:db8::1 to ::2, identification 0x89abcdef, UDP, 16 bytes of data behind EXT.
fn v6(payload_len: &str, next: &str, extensions: &str) -> String {
    format!(
        "6000 0000 {payload_len} {next} 40 2001 0db8 0000 0000 0000 0000 0000 0001
         2001 0db8 0000 0000 0000 0000 0000 0002 {extensions} 03e8 07d0 0018 0000 0000 0000 0000 0000"
    )
}

#[test]
fn golden_v6() {
    let addr = |host| {
        let mut addr = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        addr[15] = host;
        Addr(addr)
    };
    let datagram = Datagram { src: addr(1), dst: addr(2), id: 0x89ab_cdef, protocol: 0 };
    let fragment =
        |offset, has_more| Fragment { datagram, offset, len: 16, has_more, header_len: 0, is_nested: false };
    assert_eq!(of(&v6("0018", "2c", "1100 0001 89ab cdef")), Some(fragment(0, true)), "first");
    assert_eq!(of(&v6("0018", "2c", "1100 0011 89ab cdef")), Some(fragment(16, true)), "middle");
    assert_eq!(of(&v6("0018", "2c", "1100 0020 89ab cdef")), Some(fragment(32, false)), "last");
    // Reserved bits say nothing.
    assert_eq!(of(&v6("0018", "2c", "11ff 0026 89ab cdef")), Some(fragment(32, false)));
    // Hop-by-hop options before it count as headers; a destination options header behind it is data.
    let behind_hop = of(&v6("0020", "00", "2c00 0104 0000 0000 1100 0020 89ab cdef"));
    assert_eq!(behind_hop, Some(Fragment { header_len: 8, ..fragment(32, false) }));
    let before_options = of(&v6("0020", "2c", "3c00 0001 89ab cdef 1100 0104 0000 0000"));
    assert_eq!(before_options, Some(Fragment { len: 24, ..fragment(0, true) }));
    // RFC 6946: an atomic fragment is a whole packet, also before one that is not.
    assert_eq!(of(&v6("0018", "2c", "1100 0000 89ab cdef")), None);
    let after_atomic = of(&v6("0020", "2c", "2c00 0000 0000 0007 1100 0020 89ab cdef"));
    assert_eq!(after_atomic, Some(Fragment { header_len: 8, ..fragment(32, false) }));
    // A fragment of a fragment.
    let nested = of(&v6("0020", "2c", "2c00 0001 89ab cdef 1100 0010 0000 0007"));
    assert_eq!(nested, Some(Fragment { len: 24, is_nested: true, ..fragment(0, true) }));
}

/// RFC 1858 §3.2.1, RFC 8200 §4.5: a first fragment that does not hold its transport header is malformed, and none.
#[test]
fn tiny_first_fragments_are_malformed() {
    let cases = [
        ("4500 001c 0001 2000 4006 0000 0a00 0001 0a00 0002 03e8 0050 0000 0000", Malformed::TcpTruncated),
        // All but the options.
        (
            "4500 0028 0001 2000 4006 0000 0a00 0001 0a00 0002
             03e8 0050 0000 0000 0000 0000 6002 0000 0000 0000",
            Malformed::TcpDataOffset,
        ),
        // The extension header goes on in the next fragment.
        (
            "6000 0000 0010 2c40 2001 0db8 0000 0000 0000 0000 0000 0001
             2001 0db8 0000 0000 0000 0000 0000 0002 3c00 0001 89ab cdef 1101 0104 0000 0000",
            Malformed::Ipv6ExtensionTruncated,
        ),
    ];
    for (packet, reason) in cases {
        let (headers, fragment) = read(packet);
        assert_eq!((headers.malformed(), fragment), (Some(reason), None), "{packet}");
    }
}

proptest! {
    /// Any bytes with any headers: no panic, and what parse calls a fragment has a place.
    #[test]
    fn any_bytes(frame in prop::collection::vec(any::<u8>(), 0..200), more in 0..100u32, other in packets::packet()) {
        let frames = [(LinkType::RawIp, &frame), (other.link, &other.frame)];
        for (link, frame) in frames {
            let headers = parse(link, frame, frame.len() as u32 + more);
            let found = fragment(frame, &headers);
            let expected = headers.is_well_formed() && headers.is_fragment();
            prop_assert_eq!(found.is_some(), expected, "{:?}", headers);
            if let Some(found) = found {
                prop_assert_eq!(found.offset % 8, 0);
                prop_assert!(found.offset > 0 || found.has_more || found.is_nested);
                prop_assert!(found.end() <= 65_535 + 40);
            }
        }
        let _ = fragment(&frame, &other.headers);
    }
}

/// A later fragment gets ports, protocol and what ICMP has; nothing of a transport header, and its bytes stay payload.
#[test]
fn a_later_fragment_follows_its_first() {
    let (first, _) = read(&V4.replace("FLAG", "2000"));
    let (mut later, _) = read(&V4.replace("FLAG", "0004"));
    assert!(first.is_first_fragment() && later.is_lone_fragment() && !later.has_flow());
    let said = First::of(&first);
    assert_eq!(said.to_bytes(), hex("00000000 00000000 e803 d007 11 00 0000")[..]);
    assert_eq!(First::from_bytes(&said.to_bytes()), said);
    later.follow(&said);
    assert!(later.is_followed() && later.has_flow() && !later.is_first_fragment() && !later.has_transport());
    assert_eq!((later.src_port, later.dst_port, later.seq, later.l4_header_len()), (1_000, 2_000, 0, 0));
    assert_eq!(later.payload_len(), 16, "all of it");
    // Its ports are edited in headers, and nowhere in its bytes; the checksum of IPv4 follows.
    let mut edits = Edits::NONE;
    edits.set_src(Addr::v4([203, 0, 113, 1]));
    edits.set_src_port(6_000);
    let mut bytes = hex(&V4.replace("FLAG", "0004"));
    let (payload, len) = (bytes[20..].to_vec(), bytes.len());
    wire::apply(&edits, &later, LinkType::RawIp, &mut bytes, &mut (0..len)).unwrap();
    edits.apply_to_headers(&mut later);
    assert_eq!((later.src, later.src_port), (Addr::v4([203, 0, 113, 1]), 6_000));
    assert_eq!((&bytes[12..16], &bytes[20..]), (&[203, 0, 113, 1][..], &payload[..]));
    // First fragments, whole packets and malformed ones follow nothing.
    for flags in ["2000", "4000", "1fff"] {
        let (mut other, _) = read(&V4.replace("FLAG", flags));
        let before = other;
        other.follow(&said);
        assert_eq!(other, before, "{flags}");
    }
}

/// An echo request: its later fragments are of the same query.
#[test]
fn a_later_fragment_of_icmp_has_type_and_identifier() {
    let echo = "4500 0024 beef FLAG 4001 0000 0a00 0001 0a00 0002 0800 0000 1234 0001 0000 0000 0000 0000";
    let (first, _) = read(&echo.replace("FLAG", "2000"));
    // Its payload begins as a reply does.
    let (mut later, _) = read(&echo.replace("FLAG", "0004").replace("0800 0000", "0000 0000"));
    assert_eq!((later.icmp(), later.icmp_ports()), (None, None));
    later.follow(&First::of(&first));
    assert_eq!(later.icmp(), first.icmp());
    assert_eq!((later.icmp_ports(), later.src_port), (Some(IcmpPorts::Request), 0x1234));
    let mut edits = Edits::NONE;
    edits.set_src_port(0x4321);
    edits.apply_to_headers(&mut later);
    assert_eq!((later.src_port, later.icmp().unwrap().identifier), (0x4321, 0x4321));
    assert!(!wire::may_be_answered(&later), "RFC 1122 section 3.2.2");
    assert!(later.marks.contains(Marks::FIRST_FRAGMENT | Marks::LATER_FRAGMENT));
}

proptest! {
    /// Whatever bytes stand where a first fragment's are, headers stay whole.
    #[test]
    fn any_bytes_do_no_harm(bytes in any::<[u8; 16]>()) {
        let (mut later, _) = read(&V4.replace("FLAG", "0004"));
        later.follow(&First::from_bytes(&bytes));
        prop_assert!(later.is_followed() && !later.has_transport() && !later.is_tcp());
        prop_assert_eq!(later.l4_header_len(), 0);
        prop_assert_eq!((later.window_scale(), later.tcp_flags), (None, 0));
    }
}
