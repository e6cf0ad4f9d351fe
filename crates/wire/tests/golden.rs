//! Packets written out, checked by hand and by another dissector: what they read as, and what edits
//! make of them.

use wire::{
    Addr, ApplyError, Edits, Headers, LinkType, Malformed, Marks, VlanEdit, apply, parse, protocol, tcp_flags,
};

/// Bytes from hexadecimal digits; white space is free.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn read(link: LinkType, frame: &[u8]) -> Headers {
    parse(link, frame, frame.len() as u32)
}

fn v6(addr: &str) -> Addr {
    addr.parse::<std::net::IpAddr>().unwrap().into()
}

/// Checks that `edits` make `after` of `before`, and what is read follows.
fn check(link: LinkType, before: &str, edits: impl FnOnce(&mut Edits), after: &str) {
    let frame = hex(before);
    let headers = read(link, &frame);
    let mut chosen = Edits::default();
    edits(&mut chosen);
    // Room for a tag before the frame, none behind.
    let mut buffer = [&[0xa5; 4][..], &frame].concat();
    let mut range = 4..buffer.len();
    apply(&chosen, &headers, link, &mut buffer, &mut range).unwrap();
    assert_eq!(buffer[range], hex(after), "\n{:02x?} expected", hex(after));
}

// ---- whole packets --------------------------------------------------------------------------

/// Ethernet, IPv4, TCP SYN from 192.168.0.5:50000 to 198.51.100.7:443 with MSS, SACK permitted,
/// timestamp, window scale.
const SYN: &str = "
    0200 0000 0002 0200 0000 0001 0800
    4500 003c 1c46 4000 4006 338e c0a8 0005 c633 6407
    c350 01bb 1234 5678 0000 0000 a002 faf0 3466 0000
    0204 05b4 0402 080a 0000 0001 0000 0000 0103 030f";

#[test]
fn a_syn_over_ethernet() {
    let headers = read(LinkType::Ethernet, &hex(SYN));
    let expected = Headers {
        src: Addr::v4([192, 168, 0, 5]),
        dst: Addr::v4([198, 51, 100, 7]),
        seq: 0x1234_5678,
        src_port: 50_000,
        dst_port: 443,
        window: 64_240,
        l3_len: 60,
        l3_offset: 14,
        l4_offset: 34,
        protocol: protocol::TCP,
        tcp_flags: tcp_flags::SYN,
        ttl: 64,
        tcp_shape: 0xae,
        marks: Marks::IPV4 | Marks::SACK_PERMITTED,
        ..Headers::default()
    };
    assert_eq!(headers, expected);
    assert_eq!(headers.window_scale(), Some(14), "the option says 15: RFC 7323 §2.3");
    assert_eq!((headers.payload_offset(), headers.payload_len()), (74, 0));
}

/// RFC 9293 §3.1, MUST-6 and MUST-7: what a receiver does not understand it skips by its length. Only a
/// length that cannot be ends the options.
#[test]
fn an_option_with_the_wrong_length_is_skipped_by_it() {
    // A SYN-ACK to the acknowledgment number 1,000 with these options.
    let read = |options: &str| {
        let options = hex(options);
        let mut frame = hex(&format!(
            "4500 {:04x} 0000 0000 4006 0000 0a00 0001 0a00 0002
             03e8 07d0 0000 0000 0000 03e8 {:02x}12 ffff 0000 0000",
            40 + options.len(),
            (20 + options.len()) * 4,
        ));
        frame.extend(&options);
        read(LinkType::RawIp, &frame)
    };
    let block = "0000 07d0 0000 0bb8"; // up to 3,000
    for (wrong, is_skipped) in [
        ("0302", true),
        ("0304 0901", true),
        ("0305 090909", true),
        ("0403 09", true),
        ("040a 0303 0903 0309 0303", true), // what looks like options in it is not read
        ("0502", true),
        ("0506 0000 ffff", true),
        ("0509 0000 0000 0000 00", true),
        ("0203 05", true),
        ("fe02", true),
        ("0300", false),
        ("0301", false),
        ("0401", false),
        ("05ff", false),
    ] {
        let headers =
            read(&format!("{wrong} 0303 07 0402 050a {block} {}", "01".repeat((17 - hex(wrong).len()) % 4)));
        assert_eq!(headers.malformed(), None, "{wrong}");
        let expected = if is_skipped { (Some(7), true, 3_000) } else { (None, false, 1_000) };
        let found = (headers.window_scale(), headers.marks.contains(Marks::SACK_PERMITTED), headers.sack);
        assert_eq!(found, expected, "{wrong}");
    }
    // The right one counts, wherever the wrong one is.
    assert_eq!(read("0303 07 0302 010101").window_scale(), Some(7));
    assert_eq!(read("0303 07 0304 0909 01").window_scale(), Some(7));
}

#[test]
fn source_nat_of_a_syn() {
    check(
        LinkType::Ethernet,
        SYN,
        |edits| {
            edits.set_src(Addr::v4([203, 0, 113, 1]));
            edits.set_src_port(40_000);
            edits.set_ttl(63);
        },
        "0200 0000 0002 0200 0000 0001 0800
         4500 003c 1c46 4000 3f06 b939 cb00 7101 c633 6407
         9c40 01bb 1234 5678 0000 0000 a002 faf0 e021 0000
         0204 05b4 0402 080a 0000 0001 0000 0000 0103 030f",
    );
}

/// Ethernet, 802.1ad 0xa064, 802.1Q 0x000a, IPv6, UDP to port 53, five bytes.
const QINQ: &str = "
    0200 0000 0002 0200 0000 0001 88a8 a064 8100 000a 86dd
    6b8c 1234 000d 1140 2001 0db8 0000 0000 0000 0000 0000 0001 2001 0db8 0000 0000 0000 0000 0000 0002
    1388 0035 000d 4cd0 6865 6c6c 6f";

#[test]
fn udp_over_ipv6_in_two_tags() {
    let headers = read(LinkType::Ethernet, &hex(QINQ));
    let expected = Headers {
        src: v6("2001:db8::1"),
        dst: v6("2001:db8::2"),
        seq: 13,
        src_port: 5_000,
        dst_port: 53,
        vlan: 0xa064,
        l3_len: 53,
        l3_offset: 22,
        l4_offset: 62,
        protocol: protocol::UDP,
        ttl: 64,
        tos: 0xb8,
        tcp_shape: 0x20,
        marks: Marks::IPV6 | Marks::VLAN,
        ..Headers::default()
    };
    assert_eq!(headers, expected);
    assert_eq!((headers.payload_offset(), headers.payload_len()), (70, 5));
}

#[test]
fn destination_nat_of_udp_over_ipv6_without_its_outer_tag() {
    check(
        LinkType::Ethernet,
        QINQ,
        |edits| {
            edits.set_dst(v6("2001:db8:1::beef"));
            edits.set_dst_port(8_053);
            edits.set_tos(0);
            edits.set_vlan(VlanEdit::Pop);
        },
        "0200 0000 0002 0200 0000 0001 8100 000a 86dd
         600c 1234 000d 1140 2001 0db8 0000 0000 0000 0000 0000 0001 2001 0db8 0001 0000 0000 0000 0000 beef
         1388 1f75 000d 6ea1 6865 6c6c 6f",
    );
}

#[test]
fn tags_and_mac_addresses() {
    let tag = |edit| move |edits: &mut Edits| edits.set_vlan(edit);
    let arp = "ffff ffff ffff 0200 0000 0001 0806 0001";
    let tagged = "ffff ffff ffff 0200 0000 0001 8100 2064 0806 0001";
    check(LinkType::Ethernet, arp, tag(VlanEdit::Push(0x2064)), tagged);
    check(LinkType::Ethernet, tagged, tag(VlanEdit::Pop), arp);
    check(LinkType::Ethernet, arp, tag(VlanEdit::Pop), arp);
    check(LinkType::Ethernet, arp, tag(VlanEdit::Rewrite(1)), arp);
    check(LinkType::Ethernet, QINQ, tag(VlanEdit::Push(1)), QINQ);
    let retagged = "ffff ffff ffff 0200 0000 0001 8100 0007 0806 0001";
    check(LinkType::Ethernet, tagged, tag(VlanEdit::Rewrite(7)), retagged);
    check(
        LinkType::Ethernet,
        tagged,
        |edits| {
            edits.set_src_mac([6; 6]);
            edits.set_dst_mac([2; 6]);
        },
        "0202 0202 0202 0606 0606 0606 8100 2064 0806 0001",
    );
}

#[test]
fn a_tag_takes_room_before_the_frame_then_behind_it_then_nowhere() {
    let frame = hex("ffff ffff ffff 0200 0000 0001 0806 0001");
    let tagged = hex("ffff ffff ffff 0200 0000 0001 8100 2064 0806 0001");
    let headers = read(LinkType::Ethernet, &frame);
    let mut edits = Edits::default();
    edits.set_vlan(VlanEdit::Push(0x2064));
    edits.set_src_mac([0x02, 0, 0, 0, 0, 0x01]);
    for (before, behind, expected) in
        [(4, 4, Ok(0..20)), (5, 0, Ok(1..21)), (3, 4, Ok(3..23)), (3, 3, Err(ApplyError::NoRoom))]
    {
        let mut buffer = [&vec![0xa5; before][..], &frame, &vec![0xa5; behind]].concat();
        let untouched = buffer.clone();
        let mut range = before..before + frame.len();
        let result = apply(&edits, &headers, LinkType::Ethernet, &mut buffer, &mut range);
        match expected {
            Ok(expected) => {
                assert_eq!((result, &range), (Ok(()), &expected));
                assert_eq!(buffer[range], tagged);
            }
            Err(error) => {
                assert_eq!((result, range), (Err(error), before..before + frame.len()));
                assert_eq!(buffer, untouched);
            }
        }
    }
}

// ---- fragments ------------------------------------------------------------------------------

/// A UDP datagram of 28 bytes in two fragments.
const FIRST: &str = "
    4500 0024 1c46 2000 4011 2a81 0a00 0001 0a00 0002
    03e8 07d0 001c 8597 0001 0203 0405 0607";
const SECOND: &str = "
    4500 0020 1c46 0002 4011 4a83 0a00 0001 0a00 0002
    0809 0a0b 0c0d 0e0f 1011 1213";

#[test]
fn fragments_of_a_datagram() {
    let first = read(LinkType::RawIp, &hex(FIRST));
    assert_eq!(first.marks, Marks::IPV4 | Marks::FIRST_FRAGMENT);
    assert_eq!((first.src_port, first.dst_port, first.payload_len()), (1_000, 2_000, 8));
    let second = read(LinkType::RawIp, &hex(SECOND));
    assert_eq!(second.marks, Marks::IPV4 | Marks::LATER_FRAGMENT);
    assert_eq!((second.src_port, second.dst_port, second.payload_len()), (0, 0, 12));
    assert_eq!((second.payload_offset(), second.is_well_formed()), (20, true));
}

#[test]
fn nat_of_fragments_mends_the_datagram_checksum_in_the_first() {
    let nat = |edits: &mut Edits| {
        edits.set_src(Addr::v4([172, 16, 5, 4]));
        edits.set_dst_port(2_001);
    };
    let first = "4500 0024 1c46 2000 4011 836d ac10 0504 0a00 0002 03e8 07d1 001c de82 0001 0203 0405 0607";
    let second = "4500 0020 1c46 0002 4011 a36f ac10 0504 0a00 0002 0809 0a0b 0c0d 0e0f 1011 1213";
    check(LinkType::RawIp, FIRST, nat, first);
    check(LinkType::RawIp, SECOND, nat, second);
}

// ---- checksums that are special -------------------------------------------------------------

#[test]
fn a_checksum_of_udp_that_is_absent_stays_so() {
    let nat = |edits: &mut Edits| edits.set_src(Addr::v4([10, 0, 0, 9]));
    let before = "4500 001c 0000 0000 4011 66cf 0a00 0001 0a00 0002 03e8 07d0 0008 0000";
    let after = "4500 001c 0000 0000 4011 66c7 0a00 0009 0a00 0002 03e8 07d0 0008 0000";
    check(LinkType::RawIp, before, nat, after);
}

#[test]
fn a_checksum_of_udp_that_becomes_0_is_sent_as_ffff() {
    // The port grows by the checksum, so the sum becomes ffff and its complement 0.
    let grow = |edits: &mut Edits| edits.set_dst_port(0x07d0 + 0xe023);
    let before = "4500 001c 0000 0000 4011 66cf 0a00 0001 0a00 0002 03e8 07d0 0008 e023";
    let after = "4500 001c 0000 0000 4011 66cf 0a00 0001 0a00 0002 03e8 e7f3 0008 ffff";
    check(LinkType::RawIp, before, grow, after);
}

#[test]
fn the_crc_of_sctp_follows_its_ports() {
    check(
        LinkType::RawIp,
        "4500 0024 1c46 4000 4084 0a0e 0a00 0001 0a00 0002 8e3c 8e3d 0102 0304 d940 4c2f 0b00 0004",
        |edits| edits.set_dst_port(9),
        "4500 0024 1c46 4000 4084 0a0e 0a00 0001 0a00 0002 8e3c 0009 0102 0304 756f bf25 0b00 0004",
    );
}

#[test]
fn dccp_behind_a_loopback_header_of_the_other_byte_order() {
    let before = "0200 0000
        4500 0028 1c46 4000 4021 0a6d 0a00 0001 0a00 0002
        138c 1389 0500 be07 0100 0000 0000 00aa 0000 0001";
    let headers = read(LinkType::Null, &hex(before));
    assert_eq!((headers.src_port, headers.dst_port, headers.l4_offset), (5_004, 5_001, 24));
    check(
        LinkType::Null,
        before,
        |edits| {
            edits.set_src(Addr::v4([10, 9, 9, 9]));
            edits.set_src_port(5);
            edits.set_vlan(VlanEdit::Push(1)); // Only Ethernet has tags.
        },
        "0200 0000
        4500 0028 1c46 4000 4021 015c 0a09 0909 0a00 0002
        0005 1389 0500 c87d 0100 0000 0000 00aa 0000 0001",
    );
}

#[test]
fn icmpv6_behind_a_routing_header_sums_the_final_destination() {
    // Linux cooked v2, IPv6 to ::a, routing header type 4 with {left} segments left to ::f, echo request.
    let packet = |left: &str, hop_limit: &str, to: &str, checksum: &str| {
        format!(
            "86dd 0000 0000 0003 0001 0006 0200 0000 0001 0000
             6000 0000 0024 2b{hop_limit} 2001 0db8 0000 0000 0000 0000 0000 0001
             2001 0db8 0000 0000 0000 0000 0000 00{to}
             3a02 04{left} 0000 0000 2001 0db8 0000 0000 0000 0000 0000 000f
             8000 {checksum} 1234 0001 7069 6e67"
        )
    };
    let move_on = |edits: &mut Edits| {
        edits.set_dst(v6("2001:db8::b"));
        edits.set_ttl(63);
    };
    let link = LinkType::LinuxSll2;
    check(link, &packet("01", "40", "0a", "3331"), move_on, &packet("01", "3f", "0b", "3331"));
    check(link, &packet("00", "40", "0a", "3336"), move_on, &packet("00", "3f", "0b", "3335"));
    let headers = read(link, &hex(&packet("00", "40", "0a", "3336")));
    let icmp = headers.icmp().unwrap();
    assert_eq!((icmp.kind, icmp.code, icmp.identifier), (128, 0, 0x1234));
    assert_eq!((headers.l3_offset, headers.l4_offset, headers.payload_len()), (20, 84, 4));
}

#[test]
fn what_has_no_checksum_that_edits_could_mend_keeps_its_bytes() {
    let nat = |edits: &mut Edits| {
        edits.set_src(Addr::v4([10, 0, 0, 9]));
        edits.set_dst_port(9);
    };
    let check_rest = |before: &str, after: &str, rest: &str| {
        check(LinkType::RawIp, &format!("{before} {rest}"), nat, &format!("{after} {rest}"));
    };
    // ICMPv6 in IPv4, where there is no pseudo-header to sum.
    check_rest(
        "4500 001c 0000 0000 403a 66a6 0a00 0001 0a00 0002",
        "4500 001c 0000 0000 403a 669e 0a00 0009 0a00 0002",
        "8000 7fff 0000 0000",
    );
    // 4 bytes of TCP, then padding where its checksum would be.
    check_rest(
        "4500 0018 0000 0000 4006 66de 0a00 0001 0a00 0002",
        "4500 0018 0000 0000 4006 66d6 0a00 0009 0a00 0002",
        "03e8 07d0 eeee eeee eeee eeee eeee eeee eeee eeee",
    );
    // The first fragment of SCTP: its CRC32c covers bytes that are not here, so its ports stay.
    check_rest(
        "4500 0024 0000 2000 4084 4654 0a00 0001 0a00 0002",
        "4500 0024 0000 2000 4084 464c 0a00 0009 0a00 0002",
        "8e3c 8e3d 0102 0304 d940 4c2f 0b00 0004",
    );
}

/// A defect takes edits from its own layer on, and leaves those before it.
#[test]
fn what_is_before_a_defect_takes_edits() {
    let mut edits = Edits::default();
    edits.set_dst_mac([7; 6]);
    edits.set_ttl(9);
    edits.set_dst_port(8);
    let malformed = |reason: Malformed| Headers {
        malformed_code: reason as u8,
        marks: Marks::IPV4,
        protocol: protocol::UDP,
        ttl: 64,
        l3_offset: 14,
        l4_offset: 34,
        ..Headers::default()
    };
    for (reason, ttl, takes_mac) in [
        (Malformed::UdpLength, 9, true),
        (Malformed::Ipv4HeaderLength, 64, true),
        (Malformed::LinkTruncated, 64, false),
    ] {
        let mut headers = malformed(reason);
        edits.apply_to_headers(&mut headers);
        assert_eq!((headers.ttl, headers.dst_port), (ttl, 0), "{reason:?}");
        let mut frame = [0; 42];
        apply(&edits, &malformed(reason), LinkType::Ethernet, &mut frame, &mut (0..42)).expect("room");
        assert_eq!(frame[..6] == [7; 6], takes_mac, "{reason:?}");
    }
}

#[test]
fn an_address_of_the_other_family_is_not_written() {
    check(LinkType::Ethernet, SYN, |edits| edits.set_src(v6("2001:db8::9")), SYN);
    check(LinkType::Ethernet, QINQ, |edits| edits.set_src(Addr::v4([1, 2, 3, 4])), QINQ);
}

// ---- lengths and bounds ---------------------------------------------------------------------

/// Each defect, next to the packet that just lacks it.
#[test]
fn every_reason_to_be_malformed() {
    use LinkType::{Ethernet, Loop, RawIp};
    let ethernet = |rest: &str| hex(&format!("0200 0000 0002 0200 0000 0001 {rest}"));
    let v4 = |first: &str, len: &str, fragment: &str, protocol: &str, rest: &str| {
        hex(&format!("{first}00 {len} 0000 {fragment} 40{protocol} 0000 0a00 0001 0a00 0002 {rest}"))
    };
    let v6 = |len: &str, next: &str, rest: &str| {
        hex(&format!("6000 0000 {len} {next}40 {} {} {rest}", "fd".repeat(16), "fe".repeat(16)))
    };
    let tcp = |offset: &str| format!("03e8 07d0 0000 0001 0000 0002 {offset}10 ffff 0000 0000");
    let options = |count: usize, then: &str| {
        let chain = "3c00 0104 0000 0000 ".repeat(count - 1);
        format!("{chain} {then}00 0104 0000 0000")
    };
    let ok = None;
    for (what, link, frame, expected) in [
        ("an Ethernet header", Ethernet, ethernet("88b5"), ok),
        ("13 bytes of one", Ethernet, ethernet("88"), Some(Malformed::LinkTruncated)),
        ("a tag", Ethernet, ethernet("8100 0001 88b5"), ok),
        ("half a tag", Ethernet, ethernet("8100 0001 88"), Some(Malformed::LinkTruncated)),
        ("half a second tag", Ethernet, ethernet("88a8 0001 8100 00"), Some(Malformed::LinkTruncated)),
        ("two tags", Ethernet, ethernet("88a8 0001 8100 0002 88b5"), ok),
        ("three", Ethernet, ethernet("9100 0001 8100 0002 8100 0003 0800"), Some(Malformed::TooManyVlanTags)),
        ("802.3 with LLC", Ethernet, ethernet("0003 4242 03"), ok),
        ("no frame", RawIp, vec![], Some(Malformed::LinkTruncated)),
        ("a family that is not IP", Loop, hex("0000 0010 45"), ok),
        ("half a family", Loop, hex("0000 00"), Some(Malformed::LinkTruncated)),
        ("version 5", RawIp, hex("5500"), Some(Malformed::IpVersion)),
        ("IPv6 where IPv4 should be", Ethernet, ethernet("0800 60"), Some(Malformed::IpVersion)),
        ("IPv4 where IPv6 should be", Loop, hex("0000 001c 45"), Some(Malformed::IpVersion)),
        ("no IPv4 at all", Ethernet, ethernet("0800"), Some(Malformed::Ipv4Truncated)),
        ("IPv4 alone", RawIp, v4("45", "0014", "0000", "fd", ""), ok),
        (
            "19 bytes",
            RawIp,
            v4("45", "0014", "0000", "fd", "")[..19].to_vec(),
            Some(Malformed::Ipv4Truncated),
        ),
        ("options cut", RawIp, v4("46", "0018", "0000", "fd", "0101 01"), Some(Malformed::Ipv4Truncated)),
        ("options", RawIp, v4("46", "0018", "0000", "fd", "0101 0100"), ok),
        ("a header of 16", RawIp, v4("44", "0014", "0000", "fd", ""), Some(Malformed::Ipv4HeaderLength)),
        ("length 19", RawIp, v4("45", "0013", "0000", "fd", ""), Some(Malformed::Ipv4TotalLength)),
        ("length 0", RawIp, v4("45", "0000", "0000", "fd", "aa"), ok),
        ("length beyond", RawIp, v4("45", "0015", "0000", "fd", ""), Some(Malformed::Ipv4TotalLength)),
        ("a last fragment to 65,535", RawIp, v4("45", "0017", "1ffd", "11", "aaaa aa"), ok),
        ("65,536", RawIp, v4("45", "0018", "1ffd", "11", "aaaa aaaa"), Some(Malformed::FragmentOverflow)),
        ("IPv6 alone", RawIp, v6("0000", "3b", ""), ok),
        ("39 bytes", RawIp, v6("0000", "3b", "")[..39].to_vec(), Some(Malformed::Ipv6Truncated)),
        ("payload beyond", RawIp, v6("0001", "3b", ""), Some(Malformed::Ipv6PayloadLength)),
        ("payload there", RawIp, v6("0001", "3b", "aa"), ok),
        (
            "half an option",
            RawIp,
            v6("0007", "3c", "3b00 0104 0000 00"),
            Some(Malformed::Ipv6ExtensionTruncated),
        ),
        ("one byte of one", RawIp, v6("0001", "2b", "3b"), Some(Malformed::Ipv6ExtensionTruncated)),
        ("a whole one", RawIp, v6("0008", "3c", "3b00 0104 0000 0000"), ok),
        (
            "half an AH",
            RawIp,
            v6("000b", "33", "3b01 0000 0000 0000 0000 00"),
            Some(Malformed::Ipv6ExtensionTruncated),
        ),
        ("a whole AH", RawIp, v6("000c", "33", "3b01 0000 0000 0000 0000 0000"), ok),
        // Options are not read, however many: RFC 8200 §4 has routers pass them by, and hosts may refuse more than 8 of them
        // (RFC 8504 §5.3).
        ("46 Pad1", RawIp, v6("0030", "3c", &format!("3b05 {}", "00".repeat(46))), ok),
        ("40 PadN", RawIp, v6("0058", "00", &format!("3b0a {} 0104 0000 0000", "0100".repeat(40))), ok),
        (
            "40 unknown ones",
            RawIp,
            v6("00a8", "3c", &format!("3b14 {} 0104 0000 0000", "1e02 abcd".repeat(40))),
            ok,
        ),
        ("8 extensions", RawIp, v6("0040", "3c", &options(8, "3b")), ok),
        ("9", RawIp, v6("0048", "3c", &options(9, "3b")), Some(Malformed::TooManyIpv6Extensions)),
        ("the longest datagram", RawIp, v6("000f", "2c", "1100 fff8 0000 0000 aaaa aaaa aaaa aa"), ok),
        (
            "one longer",
            RawIp,
            v6("0010", "2c", "1100 fff8 0000 0000 aaaa aaaa aaaa aaaa"),
            Some(Malformed::FragmentOverflow),
        ),
        ("TCP", RawIp, v4("45", "0028", "0000", "06", &tcp("50")), ok),
        ("19 bytes of it", RawIp, v4("45", "0027", "0000", "06", &tcp("50")), Some(Malformed::TcpTruncated)),
        ("data at 16", RawIp, v4("45", "0028", "0000", "06", &tcp("40")), Some(Malformed::TcpDataOffset)),
        ("data beyond", RawIp, v4("45", "0028", "0000", "06", &tcp("60")), Some(Malformed::TcpDataOffset)),
        ("UDP", RawIp, v4("45", "001c", "0000", "11", "03e8 07d0 0008 0000"), ok),
        (
            "7 bytes of it",
            RawIp,
            v4("45", "001b", "0000", "11", "03e8 07d0 0008 0000"),
            Some(Malformed::UdpTruncated),
        ),
        (
            "UDP length 7",
            RawIp,
            v4("45", "001c", "0000", "11", "03e8 07d0 0007 0000"),
            Some(Malformed::UdpLength),
        ),
        (
            "UDP length 0",
            RawIp,
            v4("45", "001c", "0000", "11", "03e8 07d0 0000 0000"),
            Some(Malformed::UdpLength),
        ),
        (
            "UDP beyond",
            RawIp,
            v4("45", "001c", "0000", "11", "03e8 07d0 0009 0000"),
            Some(Malformed::UdpLength),
        ),
        (
            "within padding",
            RawIp,
            v4("45", "001c", "0000", "11", "03e8 07d0 0009 0000 aa"),
            Some(Malformed::UdpLength),
        ),
        ("first of more", RawIp, v4("45", "001c", "2000", "11", "03e8 07d0 0900 0000"), ok),
        ("UDP in a jumbogram", RawIp, v6("0000", "11", "03e8 07d0 0000 0000 aa"), ok),
        ("and not", RawIp, v6("0008", "11", "03e8 07d0 0000 0000"), Some(Malformed::UdpLength)),
        ("ICMP", RawIp, v4("45", "001c", "0000", "01", "0800 0000 1234 0001"), ok),
        (
            "7 bytes",
            RawIp,
            v4("45", "001b", "0000", "01", "0800 0000 1234 00"),
            Some(Malformed::IcmpTruncated),
        ),
        ("ICMPv6 of 7", RawIp, v6("0007", "3a", "8000 0000 1234 00"), Some(Malformed::IcmpTruncated)),
        ("ports", RawIp, v4("45", "0018", "0000", "84", "03e8 07d0"), ok),
        ("half of them", RawIp, v4("45", "0017", "0000", "84", "03e8 07"), Some(Malformed::PortsTruncated)),
        ("DCCP with half", RawIp, v4("45", "0017", "0000", "21", "03e8 07"), Some(Malformed::PortsTruncated)),
    ] {
        assert_eq!(read(link, &frame).malformed(), expected, "{what}: {frame:02x?}");
    }
}

#[test]
fn every_reason_leaves_the_fields_before_it() {
    let mut bytes = hex(SYN);
    bytes[46] = 0x40; // Data offset 16.
    let headers = read(LinkType::Ethernet, &bytes);
    assert_eq!(headers.malformed(), Some(Malformed::TcpDataOffset));
    assert_eq!((headers.src_port, headers.dst_port, headers.seq), (50_000, 443, 0x1234_5678));
    assert_eq!((headers.marks, headers.l3_len), (Marks::IPV4, 60));
    assert_eq!((headers.l4_header_len(), headers.window_scale()), (0, None));
}

/// RFC 6890 §2.2.3: neither source nor destination. As an address it would alias the IPv4 one.
#[test]
fn mapped_addresses_are_not_believed_in_an_ipv6_header() {
    let mapped = "00000000000000000000ffff0a000001";
    let plain = "20010db8000000000000000000000001";
    for (src, dst, expected) in [
        (mapped, plain, Some(Malformed::MappedAddress)),
        (plain, mapped, Some(Malformed::MappedAddress)),
        (plain, plain, None),
    ] {
        let bytes = hex(&format!("6000 0000 0008 11 40 {src} {dst} 03e8 07d0 0008 0000"));
        let headers = read(LinkType::RawIp, &bytes);
        assert_eq!(headers.malformed(), expected);
        assert_eq!(headers.marks, Marks::IPV6);
    }
}

#[test]
fn lengths_where_the_ip_header_has_none() {
    // Segmentation offload: IPv4 length 0 before a payload of 70,000 bytes.
    let mut large = hex("4500 0000 0000 0000 4006 0000 0a00 0001 0a00 0002
        03e8 07d0 0000 0001 0000 0002 5010 ffff 0000 0000");
    large.resize(40 + 70_000, 0);
    let headers = read(LinkType::RawIp, &large);
    assert_eq!((headers.l3_len, headers.payload_offset()), (65_535, 40));
    let headers = read(LinkType::RawIp, &large[..1_000]);
    assert_eq!((headers.l3_len, headers.payload_len()), (1_000, 960));
    // What counts is the wire, not the capture.
    let headers = parse(LinkType::RawIp, &large[..60], 1_000);
    assert_eq!((headers.l3_len, headers.payload_len()), (1_000, 960));
    assert!(headers.marks.contains(Marks::SNAPPED) && headers.is_well_formed());
    let headers = parse(LinkType::RawIp, &large[..39], 1_000);
    assert_eq!(headers.malformed(), Some(Malformed::TcpTruncated));
}

#[test]
fn highest_selective_acknowledgment_across_the_end_of_sequence_space() {
    let segment = |flags: &str| {
        hex(&format!(
            "4500 0040 0000 0000 4006 0000 0a00 0001 0a00 0002
             03e8 07d0 0000 0001 ffff ff00 b0{flags} ffff 0000 0000
             0101 0512 ffff ff80 ffff ff90 0000 0010 0000 0020 0101 0000"
        ))
    };
    let headers = read(LinkType::RawIp, &segment("10"));
    assert_eq!((headers.ack, headers.sack), (0xffff_ff00, 0x20));
    let without_ack = read(LinkType::RawIp, &segment("04"));
    assert_eq!(without_ack.sack, 0xffff_ff00);
}
