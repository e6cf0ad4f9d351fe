//! Tunnels: golden vectors, etherparse as oracle, tshark as reader, and where there is no room.

use crate::invariants;
use crate::packets;

use std::io::Write as _;
use std::process::Command;

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, UdpHeader};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use wire::{
    Addr, ApplyError, Checksums, Edits, Fields, Headers, LinkType, Marks, Tunnel, TunnelVia, VlanEdit, apply,
    leave_tunnel, parse, protocol, verify,
};

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn v4(last: u8) -> Addr {
    Addr::v4([192, 0, 2, last])
}

fn v6(last: u8) -> Addr {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[2], bytes[3], bytes[15]) = (0x20, 0x01, 0x0d, 0xb8, last);
    Addr(bytes)
}

fn into(tunnel: Tunnel) -> Edits {
    let mut edits = Edits::NONE;
    edits.set_tunnel(tunnel);
    edits
}

/// IPv6, UDP and a VLAN tag.
const LONGEST: usize = 40 + 8 + 4;

/// The frame with the edits made, with so much room before and behind it.
fn edited(edits: &Edits, link: LinkType, frame: &[u8], room: (usize, usize)) -> Result<Vec<u8>, ApplyError> {
    let headers = parse(link, frame, frame.len() as u32);
    let mut buffer = [&vec![0xa5; room.0][..], frame, &vec![0xa5; room.1]].concat();
    let untouched = buffer.clone();
    let mut range = room.0..room.0 + frame.len();
    let done = apply(edits, &headers, link, &mut buffer, &mut range);
    // A tag that goes gives its room back behind the tunnel's headers.
    let touched = room.0.saturating_sub(LONGEST)..(room.0 + frame.len() + LONGEST).min(buffer.len());
    assert_eq!(buffer[..touched.start], untouched[..touched.start], "what is before it stays");
    assert_eq!(buffer[touched.end..], untouched[touched.end..], "what is behind it stays");
    match done {
        Ok(()) => Ok(buffer[range].to_vec()),
        Err(error) => {
            assert_eq!((buffer, range), (untouched, room.0..room.0 + frame.len()), "nothing changes");
            Err(error)
        }
    }
}

const STATIONS: &str = "0200 0000 0002 0200 0000 0001";
/// From 10.0.0.1, port 1000, to 10.0.0.2, port 80, with DSCP AF41 and ECN ECT(0).
const V4: &str = "458a 0028 0001 4000 4006 2643 0a00 0001 0a00 0002
                  03e8 0050 0102 0304 0000 0000 5002 ffff 93a2 0000";
/// From 2001:db8::1 to 2001:db8::2: UDP of 4 bytes, with CE.
const V6: &str = "68b0 0000 000c 1140 2001 0db8 0000 0000 0000 0000 0000 0001
                  2001 0db8 0000 0000 0000 0000 0000 0002 03e8 0050 000c 4a20 0102 0304";

/// By hand; what is a hash is read from what came out: the flow label, and UDP's source port.
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges, which may have one")]
#[test]
fn golden() {
    let ip = |src, dst| Tunnel { src, dst, via: TunnelVia::Ip };
    let gue = |src, dst| Tunnel { src, dst, via: TunnelVia::Udp(6_080) };
    let ethernet = |kind: &str, packet: &str| hex(&format!("{STATIONS} {kind} {packet}"));
    for (kind, packet, tunnel, new_kind, outer, hashed) in [
        // RFC 2003: protocol 4, DF, TTL 64, the service of the packet inside.
        ("0800", V4, ip(v4(1), v4(9)), "0800", "458a 003c 0000 4000 4004 b629 c000 0201 c000 0209", vec![]),
        // RFC 4213 §3.5: protocol 41.
        ("86dd", V6, ip(v4(1), v4(9)), "0800", "458b 0048 0000 4000 4029 b5f7 c000 0201 c000 0209", vec![]),
        // RFC 2473 §3: next header 4, and 41.
        (
            "0800",
            V4,
            ip(v6(1), v6(9)),
            "86dd",
            "68a0 0000 0028 0440 2001 0db8 0000 0000 0000 0000 0000 0001
             2001 0db8 0000 0000 0000 0000 0000 0009",
            vec![1..4],
        ),
        (
            "86dd",
            V6,
            ip(v6(1), v6(9)),
            "86dd",
            "68b0 0000 0034 2940 2001 0db8 0000 0000 0000 0000 0000 0001
             2001 0db8 0000 0000 0000 0000 0000 0009",
            vec![1..4],
        ),
        // GUE, variant 1: the packet is UDP's payload. No checksum over IPv4.
        (
            "0800",
            V4,
            gue(v4(1), v4(9)),
            "0800",
            "458a 0044 0000 4000 4011 b614 c000 0201 c000 0209 0000 17c0 0030 0000",
            vec![20..22],
        ),
    ] {
        let frame = ethernet(kind, packet);
        let edited = edited(&into(tunnel), LinkType::Ethernet, &frame, (48, 0)).expect("room");
        let mut expected = hex(outer);
        for range in hashed {
            for at in range {
                // The upper half of the flow label's first byte is the traffic class.
                let kept = if expected[0] >> 4 == 6 && at == 1 { 0xf0 } else { 0 };
                expected[at] = expected[at] & kept | edited[14 + at] & !kept;
            }
        }
        let expected = [&hex(&format!("{STATIONS} {new_kind}"))[..], &expected, &frame[14..]].concat();
        assert_eq!(edited, expected, "{tunnel}\n{edited:02x?}\n{expected:02x?}");
    }
}

/// What is wrong with a frame that is to be `inside`, an IP packet of these headers, in a tunnel, as etherparse reads it.
fn judged(frame: &[u8], l3: usize, tunnel: &Tunnel, headers: &Headers, inside: &[u8]) -> Result<(), String> {
    let check = |is_right: bool, what: &str| if is_right { Ok(()) } else { Err(what.to_owned()) };
    let is_v4_inside = headers.marks.contains(Marks::IPV4);
    let tos = if is_v4_inside { inside[1] } else { inside[0] << 4 | inside[1] >> 4 };
    let number = match tunnel.via {
        TunnelVia::Udp(_) => IpNumber::UDP,
        TunnelVia::Ip if is_v4_inside => IpNumber::IPV4,
        TunnelVia::Ip => IpNumber::IPV6,
    };
    let packet = frame.get(l3..).ok_or("no packet")?;
    let (rest, pseudo) = match tunnel.src.to_v4().zip(tunnel.dst.to_v4()) {
        Some((src, dst)) => {
            let (outer, rest) = Ipv4Header::from_slice(packet).map_err(|error| error.to_string())?;
            check(packet[1] == tos, "DSCP and ECN")?;
            check(outer.dont_fragment && !outer.more_fragments && outer.fragment_offset.value() == 0, "DF")?;
            check(outer.identification == 0 && outer.time_to_live == 64, "identification and TTL")?;
            check(outer.source == src && outer.destination == dst, "addresses")?;
            check(outer.protocol == number && outer.options.is_empty(), "protocol")?;
            check(outer.header_checksum == outer.calc_header_checksum(), "checksum")?;
            check(usize::from(outer.total_len) == tunnel.overhead() + inside.len(), "length")?;
            // A reserved bit, which etherparse does not tell.
            check(packet[6] & 0x80 == 0, "reserved")?;
            (rest, None)
        }
        None => {
            let (outer, rest) = Ipv6Header::from_slice(packet).map_err(|error| error.to_string())?;
            check(outer.traffic_class == tos && outer.hop_limit == 64, "traffic class, hop limit")?;
            check(outer.source == tunnel.src.0 && outer.destination == tunnel.dst.0, "addresses")?;
            check(outer.next_header == number, "next header")?;
            check(usize::from(outer.payload_length) + 40 == tunnel.overhead() + inside.len(), "length")?;
            check(outer.flow_label != Ipv6FlowLabel::ZERO, "a label")?;
            (rest, Some((outer.source, outer.destination)))
        }
    };
    let rest = match tunnel.via {
        TunnelVia::Ip => rest,
        TunnelVia::Udp(port) => {
            let (udp, payload) = UdpHeader::from_slice(rest).map_err(|error| error.to_string())?;
            check(udp.source_port >= 49_152 && udp.destination_port == port, "ports")?;
            check(usize::from(udp.length) == 8 + inside.len(), "UDP length")?;
            let sum = match pseudo {
                None => 0,
                Some((src, dst)) => {
                    udp.calc_checksum_ipv6_raw(src, dst, inside).map_err(|error| error.to_string())?
                }
            };
            check(udp.checksum == sum, "UDP checksum")?;
            payload
        }
    };
    check(rest.get(..inside.len()) == Some(inside), "the packet inside")
}

fn tunnel() -> impl Strategy<Value = Tunnel> {
    (any::<bool>(), any::<[u8; 16]>(), any::<[u8; 16]>(), proptest::option::of(1..=u16::MAX)).prop_map(
        |(is_v4, src, dst, port)| {
            let address = |bytes: [u8; 16]| match is_v4 {
                true => Addr::v4(*bytes.first_chunk().unwrap()),
                // Not one that is IPv4's.
                false => Addr([&[0x20], &bytes[1..]].concat().try_into().unwrap()),
            };
            Tunnel { src: address(src), dst: address(dst), via: port.map_or(TunnelVia::Ip, TunnelVia::Udp) }
        },
    )
}

proptest! {
    #![proptest_config(crate::cases(5_000))]

    /// Whatever the packet and the link, and also where other edits are made at once: those are of the packet inside.
    #[test]
    fn a_tunnel_is_what_etherparse_reads(
        packet in packets::packet(),
        tunnel in tunnel(),
        plan in any::<[u8; 32]>(),
        is_other in any::<bool>(),
        room in (0..120_usize, 0..120_usize),
    ) {
        let (is_v4, link) = (packet.headers.marks.contains(Marks::IPV4), packet.link);
        let mut others = Edits::NONE;
        if is_other {
            let plan: [u8; invariants::PLAN_LEN] = [&plan[..], &plan[..]].concat().try_into().unwrap();
            others = invariants::edits_of(&plan, is_v4);
        }
        let mut edits = others;
        edits.append(&into(tunnel));
        prop_assert!(edits.fields().contains(Fields::TUNNEL));
        let Ok(found) = edited(&edits, link, &packet.frame, room) else {
            // Both the tag's and the tunnel's room is before the frame or behind it.
            prop_assert!(room.0 < tunnel.overhead() + 4 && room.1 < tunnel.overhead() + 4);
            return Ok(());
        };
        let without = edited(&others, link, &packet.frame, (64, 64)).expect("room");
        let headers = parse(link, &without, without.len() as u32);
        let l3 = usize::from(headers.l3_offset);
        let inside = &without[l3..l3 + usize::from(headers.l3_len)];
        prop_assert_eq!(judged(&found, l3, &tunnel, &headers, inside), Ok(()));
        prop_assert_eq!(found.len(), without.len() + tunnel.overhead());
        // The link header says which family follows it, and the rest of it stays.
        let outer = invariants::check_parse(link, &found, found.len() as u32);
        prop_assert!(outer.is_well_formed());
        prop_assert_eq!(outer.marks.contains(Marks::IPV4), tunnel.src.to_v4().is_some());
        prop_assert_eq!((outer.src, outer.dst, outer.vlan), (tunnel.src, tunnel.dst, headers.vlan));
        if link == LinkType::Ethernet {
            prop_assert_eq!(&found[..l3 - 2], &without[..l3 - 2]);
        }
        let is_right = !matches!(verify(&found, &outer), Checksums::Wrong { .. });
        prop_assert!(is_right);
        // Taken out of the tunnel it is what it was.
        let mut taken_out = found.clone();
        let begin = leave_tunnel(&outer, link, &mut taken_out);
        prop_assert_eq!(begin, Some(tunnel.overhead()));
        // Loopback captures have several numbers for IPv6.
        let same = if link == LinkType::Ethernet { 0 } else { l3 };
        prop_assert_eq!(&taken_out[tunnel.overhead() + same..], &without[same..]);
        // To functions behind it the packet is what it was.
        let mut seen = packet.headers;
        edits.apply_to_headers(&mut seen);
        let mut expected = packet.headers;
        others.apply_to_headers(&mut expected);
        prop_assert_eq!(seen, expected);
    }
}

/// A check that finds nothing is none: each byte of the outer headers matters, but for the flow label and the port by a hash.
#[test]
fn a_wrong_byte_of_the_outer_headers_is_found() {
    for via in [TunnelVia::Ip, TunnelVia::Udp(6_080)] {
        for (src, dst) in [(v4(1), v4(9)), (v6(1), v6(9))] {
            let tunnel = Tunnel { src, dst, via };
            let inside = hex(V4);
            let headers = parse(LinkType::RawIp, &inside, inside.len() as u32);
            let found = edited(&into(tunnel), LinkType::RawIp, &inside, (64, 0)).expect("room");
            assert_eq!(judged(&found, 0, &tunnel, &headers, &inside), Ok(()));
            for at in 0..tunnel.overhead() {
                let mut wrong = found.clone();
                wrong[at] ^= 0x10;
                let is_label = src.to_v4().is_none() && (2..4).contains(&at);
                let is_port = via != TunnelVia::Ip && (7..=8).contains(&(tunnel.overhead() - at));
                let is_summed = src.to_v4().is_none();
                let is_hash = is_label || is_port && !is_summed;
                assert_eq!(
                    judged(&wrong, 0, &tunnel, &headers, &inside).is_ok(),
                    is_hash,
                    "{tunnel}, byte {at}"
                );
            }
        }
    }
}

/// A flow has one label and one port, whatever its packets hold; flows have many.
#[test]
fn flows_are_spread_and_a_flow_is_not() {
    let tunnel = Tunnel { src: v6(1), dst: v6(9), via: TunnelVia::Udp(6_080) };
    let hashed = |port: u16, seq: u8| {
        let mut packet = hex(V4);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet[27] = seq;
        let found = edited(&into(tunnel), LinkType::RawIp, &packet, (64, 0)).expect("room");
        (found[1] & 0xf, [found[2], found[3]], [found[40], found[41]])
    };
    let flows: std::collections::BTreeSet<_> = (1_000..2_000).map(|port| hashed(port, 1)).collect();
    assert!(flows.len() > 990, "{}", flows.len());
    let ports: std::collections::BTreeSet<_> = flows.iter().map(|(.., port)| port).collect();
    assert!(ports.len() > 950, "{}", ports.len());
    assert_eq!(hashed(1_000, 1), hashed(1_000, 200));
}

#[test]
fn a_tunnel_takes_room_before_the_frame_then_behind_it_then_nowhere() {
    let frame = hex(&format!("{STATIONS} 0800 {V4}"));
    let tunnel = Tunnel { src: v6(1), dst: v6(9), via: TunnelVia::Udp(6_080) };
    let mut edits = into(tunnel);
    let alone = edited(&edits, LinkType::Ethernet, &frame, (48, 0)).expect("room");
    assert_eq!(edited(&edits, LinkType::Ethernet, &frame, (0, 48)), Ok(alone.clone()));
    assert_eq!(edited(&edits, LinkType::Ethernet, &frame, (47, 47)), Err(ApplyError::NoRoom));
    edits.set_vlan(VlanEdit::Push(7));
    let tagged = [&alone[..12], &[0x81, 0, 0, 7], &alone[12..]].concat();
    for room in [(52, 0), (48, 4), (4, 48), (0, 52)] {
        assert_eq!(edited(&edits, LinkType::Ethernet, &frame, room), Ok(tagged.clone()), "{room:?}");
    }
    assert_eq!(edited(&edits, LinkType::Ethernet, &frame, (51, 3)), Err(ApplyError::NoRoom));
}

/// With the outer headers it would be longer than a length field can say.
#[test]
fn a_packet_that_is_too_long_goes_into_no_tunnel() {
    let tunnel = Tunnel { src: v4(1), dst: v4(9), via: TunnelVia::Ip };
    for (len, fits) in [(65_514_u16, true), (65_515, false), (65_535, false)] {
        let mut packet = hex("4500 0000 0001 4000 4011 0000 0a00 0001 0a00 0002 03e8 0050 0000 0000");
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        packet.resize(len.into(), 7);
        let found = edited(&into(tunnel), LinkType::RawIp, &packet, (64, 0));
        assert_eq!(found.is_ok(), fits, "{len}");
    }
}

/// A packet that a capture cut keeps its lengths.
#[test]
fn what_a_capture_cut_keeps_its_length() {
    let whole = hex(V6);
    let headers = parse(LinkType::RawIp, &whole[..50], whole.len() as u32);
    for via in [TunnelVia::Ip, TunnelVia::Udp(6_080)] {
        let tunnel = Tunnel { src: v6(1), dst: v6(9), via };
        let mut buffer = [&[0; 64][..], &whole[..50]].concat();
        let mut range = 64..114;
        apply(&into(tunnel), &headers, LinkType::RawIp, &mut buffer, &mut range).expect("room");
        let found = &buffer[range];
        let len = u16::from_be_bytes([found[4], found[5]]);
        assert_eq!(usize::from(len) + 40, tunnel.overhead() + whole.len());
        assert_eq!(found[tunnel.overhead()..], whole[..50]);
    }
}

/// ARP, and a packet whose IP header is wrong, go into no tunnel.
#[test]
fn what_is_no_ip_packet_stays() {
    let tunnel = Tunnel { src: v4(1), dst: v4(9), via: TunnelVia::Ip };
    for frame in [format!("{STATIONS} 0806 0001"), format!("{STATIONS} 0800 4500 0004")] {
        let frame = hex(&frame);
        assert_eq!(edited(&into(tunnel), LinkType::Ethernet, &frame, (64, 64)), Ok(frame));
    }
}

/// tshark reads each as well-formed, down to the transport inside.
#[test]
fn tshark_reads_all_tunnels() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut file = hex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000");
    let (mut packets, mut depths) = (0, Vec::new());
    while packets < 100 {
        let packet = packets::packet().new_tree(&mut runner).unwrap().current();
        let tunnel = tunnel().new_tree(&mut runner).unwrap().current();
        let headers = &packet.headers;
        // Whatever tshark makes of extension headers, options and payloads.
        let ip = headers.l4_offset - u16::from(headers.l3_offset);
        let is_plain = matches!(headers.protocol, protocol::TCP | protocol::UDP)
            && !headers.is_fragment()
            && matches!(headers.l4_header_len(), 8 | 20)
            && headers.payload_len() == 0
            && (ip == 40 || headers.marks.contains(Marks::IPV4));
        // tshark knows GUE by its port alone, and not its variant 1.
        if packet.link != LinkType::Ethernet || tunnel.via != TunnelVia::Ip || !is_plain {
            continue;
        }
        let frame = edited(&into(tunnel), LinkType::Ethernet, &packet.frame, (64, 0)).expect("room");
        let len = (frame.len() as u32).to_le_bytes();
        file.extend([&[0; 8][..], &len, &len, &frame].concat());
        depths.push(if packet.headers.protocol == protocol::TCP { "tcp" } else { "udp" });
        packets += 1;
    }
    let path = std::env::temp_dir().join(format!("paceline-{}-tunnels.pcap", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&file).unwrap();
    let fields = ["-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed", "-e", "ip.checksum.status"];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-o", "ip.check_checksum:TRUE"])
        .args(fields)
        .output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        println!("skipped: `tshark` does not run");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), packets, "{}", String::from_utf8_lossy(&output.stderr));
    for (line, transport) in text.lines().zip(depths) {
        let mut columns = line.split('\t');
        let protocols = columns.next().unwrap();
        let layers: Vec<&str> = protocols.split(':').collect();
        assert!(layers.iter().filter(|layer| matches!(**layer, "ip" | "ipv6")).count() >= 2, "{line}");
        assert!(layers.contains(&transport), "{line}");
        assert_eq!(columns.next(), Some(""), "{line}");
        // 0 is "bad".
        assert!(columns.next().is_none_or(|status| !status.split(',').any(|status| status == "0")), "{line}");
    }
}
