//! Answers to rejected packets: golden vectors, etherparse as oracle, tshark as reader, and all that is not answered.

use crate::invariants;
use crate::packets;

use std::io::Write as _;
use std::process::Command;

use etherparse::{
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header,
    PacketBuilder, TcpHeader,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use wire::{
    Answer, AnswerKind, AnswerTo, Checksums, Headers, LinkType, Marks, answer, parse, protocol, tcp_flags,
    verify,
};

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The answer, written in the frame's own buffer; it is also what its parts say.
fn answered(link: LinkType, frame: &[u8]) -> Option<Vec<u8>> {
    let answer = answer(link, frame, frame.len() as u32)?;
    let parts = answer.parts(frame).concat();
    let mut buffer = [&[0xee; Answer::ROOM][..], frame].concat();
    let data = Answer::ROOM..buffer.len();
    let data = answer.write(&mut buffer, data).expect("the room that it says");
    assert_eq!(buffer[data], parts);
    Some(parts)
}

const STATIONS: &str = "0200 0000 0002 0200 0000 0001";
const BACK: &str = "0200 0000 0001 0200 0000 0002";
/// From 10.0.0.1, port 1000, to 10.0.0.2, port 80: number 0x01020304.
const SYN: &str = "0800 4510 0028 0001 4000 4006 26bd 0a00 0001 0a00 0002
                   03e8 0050 0102 0304 0000 0000 5002 ffff 93a2 0000";

#[test]
fn golden() {
    // Without ACK: the number is 0, and what came is acknowledged, SYN counted (RFC 9293 §3.10.7.1).
    let reset = "0800 4500 0028 0000 4000 4006 26ce 0a00 0002 0a00 0001
                 0050 03e8 0000 0000 0102 0305 5014 0000 938f 0000";
    let frame = hex(&format!("{STATIONS} {SYN}"));
    assert_eq!(answered(LinkType::Ethernet, &frame), Some(hex(&format!("{BACK} {reset}"))));
    // What pads the frame is not answered, nor counted.
    let padded = [&frame[..], &[0; 6]].concat();
    assert_eq!(answered(LinkType::Ethernet, &padded), Some(hex(&format!("{BACK} {reset}"))));
    // Tags stay.
    let tagged = |stations: &str, packet: &str| hex(&format!("{stations} 88a8 0001 8100 2007 {packet}"));
    assert_eq!(answered(LinkType::Ethernet, &tagged(STATIONS, SYN)), Some(tagged(BACK, reset)));
    // With ACK the number is what it acknowledged; FIN, and two bytes of payload, do not matter then.
    let ack = "4500 002a 0001 4000 4006 26cb 0a00 0001 0a00 0002
               03e8 0050 0102 0304 1122 3344 5011 ffff edc8 0000 6162";
    let reset = "4500 0028 0000 4000 4006 26ce 0a00 0002 0a00 0001
                 0050 03e8 1122 3344 0000 0000 5004 0000 5340 0000";
    assert_eq!(answered(LinkType::RawIp, &hex(ack)), Some(hex(reset)));
    // UDP, with an option in the IPv4 header, which is quoted.
    let udp = "4628 0021 0001 0000 4011 639f 0a00 0001 0a00 0002 0101 0101 03e8 07d0 0009 7f21 61";
    let error = "45c8 003d 0000 4000 4001 25f6 0a00 0002 0a00 0001 030d 1110 0000 0000";
    assert_eq!(answered(LinkType::RawIp, &hex(&format!("{udp} eeee"))), Some(hex(&format!("{error} {udp}"))));
    // An echo request over IPv6.
    let echo = "6000 0000 0008 3a40 2001 0db8 0000 0000 0000 0000 0000 0001
                2001 0db8 0000 0000 0000 0000 0000 0002 8000 2440 0007 0001";
    let error = "6000 0000 0038 3a40 2001 0db8 0000 0000 0000 0000 0000 0002
                 2001 0db8 0000 0000 0000 0000 0000 0001 0101 0911 0000 0000";
    assert_eq!(answered(LinkType::RawIp, &hex(echo)), Some(hex(&format!("{error} {echo}"))));
}

/// What etherparse makes as the answer to a packet of these headers, which is `packet` from its IP header on.
fn expected(headers: &Headers, packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (src, dst) = (headers.src, headers.dst);
    let quoted = |most: usize| &packet[..usize::from(headers.l3_len).min(most)];
    match (src.to_v4(), dst.to_v4()) {
        (Some(src), Some(dst)) => {
            let mut header = Ipv4Header::new(0, 64, IpNumber::TCP, dst, src).unwrap();
            header.dont_fragment = true;
            if headers.is_tcp() {
                let mut tcp = reset(headers);
                tcp.checksum = tcp.calc_checksum_ipv4_raw(dst, src, &[]).unwrap();
                header.set_payload_len(20).unwrap();
                header.header_checksum = header.calc_header_checksum();
                header.write(&mut bytes).unwrap();
                tcp.write(&mut bytes).unwrap();
            } else {
                let quoted = quoted(548);
                header.protocol = IpNumber::ICMP;
                header.set_payload_len(8 + quoted.len()).unwrap();
                let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 13, bytes5to8: [0; 4] };
                let mut head = Vec::new();
                header.write(&mut head).unwrap();
                head[1] = headers.tos & 0x1c | 0xc0;
                let sum = Ipv4Header::from_slice(&head).unwrap().0.calc_header_checksum();
                head[10..12].copy_from_slice(&sum.to_be_bytes());
                bytes.extend(head);
                Icmpv4Header::with_checksum(kind, quoted).write(&mut bytes).unwrap();
                bytes.extend(quoted);
            }
        }
        _ => {
            let mut header = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 20,
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: dst.0,
                destination: src.0,
            };
            if headers.is_tcp() {
                let mut tcp = reset(headers);
                tcp.checksum = tcp.calc_checksum_ipv6_raw(dst.0, src.0, &[]).unwrap();
                header.write(&mut bytes).unwrap();
                tcp.write(&mut bytes).unwrap();
            } else {
                let quoted = quoted(1_232);
                header.next_header = IpNumber::IPV6_ICMP;
                header.payload_length = 8 + quoted.len() as u16;
                header.write(&mut bytes).unwrap();
                let kind = Icmpv6Type::Unknown { type_u8: 1, code_u8: 1, bytes5to8: [0; 4] };
                Icmpv6Header::with_checksum(kind, dst.0, src.0, quoted).unwrap().write(&mut bytes).unwrap();
                bytes.extend(quoted);
            }
        }
    }
    bytes
}

/// RFC 9293 §3.10.7.1, in etherparse's words.
fn reset(headers: &Headers) -> TcpHeader {
    let has = |flag| headers.tcp_flags & flag != 0;
    let mut tcp = TcpHeader::new(headers.dst_port, headers.src_port, 0, 0);
    tcp.rst = true;
    if has(tcp_flags::ACK) {
        tcp.sequence_number = headers.ack;
    } else {
        tcp.ack = true;
        let controls = [tcp_flags::SYN, tcp_flags::FIN].into_iter().filter(|flag| has(*flag)).count();
        let len = u32::from(headers.payload_len()) + controls as u32;
        tcp.acknowledgment_number = headers.seq.wrapping_add(len);
    }
    tcp
}

/// Why a packet with these headers is to have no answer, by a plain reading of the RFCs.
fn is_unanswerable(headers: &Headers) -> bool {
    let is_no_host = |address: wire::Addr| match std::net::IpAddr::from(address) {
        std::net::IpAddr::V4(v4) => {
            v4.octets()[0] == 0 || v4.is_loopback() || v4.is_multicast() || v4.octets()[0] >= 240
        }
        std::net::IpAddr::V6(v6) => v6.is_unspecified() || v6.is_loopback() || v6.is_multicast(),
    };
    let is_error = match (headers.protocol, headers.icmp()) {
        (protocol::ICMP, Some(icmp)) if headers.marks.contains(Marks::IPV4) => {
            ![0, 8, 9, 10, 13, 14, 15, 16, 17, 18].contains(&icmp.kind)
        }
        (protocol::ICMPV6, Some(icmp)) if headers.marks.contains(Marks::IPV6) => {
            icmp.kind < 128 || icmp.kind == 137
        }
        _ => false,
    };
    let is_reset = headers.is_tcp() && headers.tcp_flags & tcp_flags::RST != 0;
    is_error || is_reset || is_no_host(headers.src) || is_no_host(headers.dst)
}

proptest! {
    #![proptest_config(crate::cases(8_000))]

    #[test]
    fn an_answer_is_what_etherparse_makes(packet in packets::packet()) {
        let headers = packet.headers;
        let found = answered(packet.link, &packet.frame);
        // IPv6 with such a checksum is refused (RFC 8200 §8.1).
        let is_right = !matches!(verify(&packet.frame, &headers), Checksums::Wrong { .. });
        if is_unanswerable(&headers) || !is_right {
            prop_assert_eq!(found, None);
            return Ok(());
        }
        let (found, l3) = (found.expect("an answer"), usize::from(headers.l3_offset));
        prop_assert_eq!(&found[l3..], &expected(&headers, &packet.frame[l3..])[..]);
        let of_answer = invariants::check_parse(packet.link, &found, found.len() as u32);
        prop_assert!(of_answer.is_well_formed());
        prop_assert_eq!(verify(&found, &of_answer), Checksums::Right);
        prop_assert_eq!((of_answer.src, of_answer.dst), (headers.dst, headers.src));
        prop_assert_eq!((of_answer.l3_offset, of_answer.vlan), (headers.l3_offset, headers.vlan));
        // It is short, and nothing answers it.
        prop_assert!(found.len() <= packet.frame.len() + Answer::ROOM);
        prop_assert!(!of_answer.is_tcp() || found.len() <= packet.frame.len());
        prop_assert_eq!(answered(packet.link, &found), None);
    }

    #[test]
    fn any_bytes_do_no_harm(
        link in select(&invariants::LINKS),
        bytes in vec(any::<u8>(), 0..200),
        wire_len in any::<u32>(),
    ) {
        if let Some(answer) = answer(link, &bytes, wire_len) {
            let mut buffer = [&[0; Answer::ROOM][..], &bytes].concat();
            prop_assert!(answer.write(&mut buffer, Answer::ROOM..Answer::ROOM + bytes.len()).is_some());
        }
    }

    #[test]
    fn a_mangled_packet_is_answered_in_its_own_room_or_not(
        packet in packets::packet(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        room in 0..Answer::ROOM,
    ) {
        let mut frame = packet.frame;
        *at.get_mut(&mut frame) = byte;
        answered(packet.link, &frame);
        // With too little room nothing is written.
        if let Some(answer) = answer(packet.link, &frame, 0) {
            let mut buffer = [&vec![0xee; room][..], &frame].concat();
            let (before, len) = (buffer.clone(), buffer.len());
            if answer.write(&mut buffer, room..len).is_none() {
                prop_assert_eq!(buffer, before);
            }
        }
    }
}

/// IPv4 or IPv6 with UDP of so many bytes.
fn udp(is_v4: bool, len: usize) -> Vec<u8> {
    let builder = match is_v4 {
        true => PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 64),
        false => {
            PacketBuilder::ipv6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0x20; 16], 64)
        }
    };
    let mut bytes = Vec::new();
    builder.udp(1_000, 53).write(&mut bytes, &vec![7; len]).unwrap();
    bytes
}

#[test]
fn an_error_quotes_no_more_than_fits_everywhere() {
    for (is_v4, most) in [(true, 576), (false, 1_280)] {
        let headers_len = if is_v4 { 20 } else { 40 };
        for (len, expected) in [(10, 2 * headers_len + 8 + 8 + 10), (1_400, most), (3_000, most)] {
            let found = answered(LinkType::RawIp, &udp(is_v4, len)).expect("an answer");
            assert_eq!(found.len(), expected);
            let headers = parse(LinkType::RawIp, &found, found.len() as u32);
            assert_eq!(verify(&found, &headers), Checksums::Right);
        }
    }
}

/// A SYN with these changes, whose checksums are right again.
fn syn(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = hex(&format!("{STATIONS} {SYN}"));
    change(&mut frame);
    let range = 14..34;
    frame[24..26].fill(0);
    let sum = wire::internet_checksum(&[&frame[range]]);
    frame[24..26].copy_from_slice(&sum);
    frame[50..52].fill(0);
    let sum = wire::internet_checksum(&[&frame[26..34], &[0, 6, 0, 20], &frame[34..54]]);
    frame[50..52].copy_from_slice(&sum);
    frame
}

#[test]
fn what_is_not_to_be_answered_is_not() {
    assert_eq!(syn(|_| ()), hex(&format!("{STATIONS} {SYN}")));
    type Change = fn(&mut Vec<u8>);
    let silent: [(&str, Change); 15] = [
        ("a reset", |frame| frame[47] = tcp_flags::RST),
        ("a reset with ACK", |frame| frame[47] = tcp_flags::RST | tcp_flags::ACK),
        ("a later fragment", |frame| frame[20..22].copy_from_slice(&[0, 8])),
        ("a first fragment of TCP", |frame| frame[20..22].copy_from_slice(&[0x20, 0])),
        ("from a group", |frame| frame[26] = 224),
        ("to a group", |frame| frame[30] = 239),
        ("from everyone", |frame| frame[26..30].fill(255)),
        ("to everyone", |frame| frame[30..34].fill(255)),
        ("from loopback", |frame| frame[26] = 127),
        ("to loopback", |frame| frame[30] = 127),
        ("from nobody", |frame| frame[26..30].fill(0)),
        ("to nobody", |frame| frame[30..34].fill(0)),
        ("to a group of stations", |frame| frame[0] |= 1),
        ("from a group of stations", |frame| frame[6] |= 1),
        ("from no station", |frame| frame[6..12].fill(0)),
    ];
    for (what, change) in silent {
        assert_eq!(answered(LinkType::Ethernet, &syn(change)), None, "{what}");
    }
    // Wrong checksums: of TCP, of IPv4. What is left to a card is none.
    for at in [24, 50] {
        let mut frame = syn(|_| ());
        frame[at] ^= 0x40;
        assert_eq!(answered(LinkType::Ethernet, &frame), None, "byte {at}");
    }
    let mut left = syn(|_| ());
    left[50..52].copy_from_slice(&[0x14, 0x1d]);
    assert!(answered(LinkType::Ethernet, &left).is_some(), "a card completes it");
    // ICMP errors, and unknown types, are not answered; queries are.
    for kind in 0..=255 {
        let mut message = vec![kind, 0, 0, 0, 0, 7, 0, 1];
        let sum = wire::internet_checksum(&[&message]);
        message[2..4].copy_from_slice(&sum);
        let mut packet = hex("4500 001c 0001 0000 4001 66de 0a00 0001 0a00 0002");
        packet.extend(message);
        let is_query = matches!(kind, 0 | 8..=10 | 13..=18);
        assert_eq!(answered(LinkType::RawIp, &packet).is_some(), is_query, "type {kind}");
    }
    // The first fragment of another protocol is: its sender is to learn of it.
    let mut first = udp(true, 32);
    first[6..8].copy_from_slice(&[0x20, 0]);
    let sum = wire::internet_checksum(&[&first[..10], &[0, 0], &first[12..20]]);
    first[10..12].copy_from_slice(&sum);
    assert_eq!(answer(LinkType::RawIp, &first, 60).map(|answer| answer.kind()), Some(AnswerKind::Prohibited));
    assert_eq!(answered(LinkType::Ethernet, &hex(&format!("{STATIONS} 0806 0001"))), None, "ARP");
}

/// A capture cut the packet: what is not here is not quoted, but the length that is acknowledged is the packet's.
#[test]
fn what_a_capture_cut_is_answered_by_what_is_here() {
    let whole = udp(true, 400);
    let cut = answer(LinkType::RawIp, &whole[..100], whole.len() as u32).expect("an answer");
    let bytes = cut.parts(&whole[..100]).concat();
    assert_eq!(bytes.len(), 28 + 100);
    let headers = parse(LinkType::RawIp, &bytes, bytes.len() as u32);
    assert!(headers.is_well_formed());
    assert_eq!(verify(&bytes, &headers), Checksums::Right);
}

/// The reply to a ping, written in the frame's own buffer; it is also what its parts say.
fn ponged(link: LinkType, frame: &[u8]) -> Option<Vec<u8>> {
    let answer = AnswerTo::Ping.answer(link, frame, frame.len() as u32)?;
    assert_eq!(answer.kind(), AnswerKind::Echo);
    let parts = answer.parts(frame).concat();
    let mut buffer = frame.to_vec();
    let data = answer.write(&mut buffer, 0..frame.len()).expect("it needs no room");
    assert_eq!(buffer[data], parts);
    Some(parts)
}

#[test]
fn pings_golden() {
    // An echo request with an IPv4 option and TTL 9, which are not sent back; its service is.
    let request = "4610 0023 0001 0000 0901 9ac5 0a00 0001 0a00 0002 0101 0101 0800 3395 0007 0001 6162 63";
    let reply = "4510 001f 0000 4000 4001 26cc 0a00 0002 0a00 0001 0000 3b95 0007 0001 6162 63";
    let frame = hex(&format!("{STATIONS} 0800 {request}"));
    let (found, l3) = (ponged(LinkType::Ethernet, &frame).expect("a reply"), 14);
    assert_eq!(found[..l3], hex(&format!("{BACK} 0800")));
    assert_eq!(found[l3..], hex(reply), "{found:02x?}");
    // What pads the frame is not sent back.
    assert_eq!(ponged(LinkType::Ethernet, &[&frame[..], &[0; 9]].concat()), Some(found));
    let request = "6000 0000 0008 3a40 2001 0db8 0000 0000 0000 0000 0000 0001
                   2001 0db8 0000 0000 0000 0000 0000 0002 8000 2440 0007 0001";
    let reply = "6000 0000 0008 3a40 2001 0db8 0000 0000 0000 0000 0000 0002
                 2001 0db8 0000 0000 0000 0000 0000 0001 8100 2340 0007 0001";
    assert_eq!(ponged(LinkType::RawIp, &hex(request)), Some(hex(reply)));
    // What was rejected is answered otherwise.
    assert_eq!(
        answer(LinkType::RawIp, &hex(request), 48).map(|answer| answer.kind()),
        Some(AnswerKind::Prohibited)
    );
}

/// A ping over IPv4 with this change, whose checksums are right again.
fn ping(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = hex(&format!(
        "{STATIONS} 0800 4500 001e 0001 0000 4001 0000 0a00 0001 0a00 0002 0800 0000 0007 0001 6162"
    ));
    change(&mut frame);
    for (range, at) in [(14..34, 24), (34..44, 36)] {
        frame[at..at + 2].fill(0);
        let sum = wire::internet_checksum(&[&frame[range]]);
        frame[at..at + 2].copy_from_slice(&sum);
    }
    frame
}

#[test]
fn what_is_no_ping_is_not_answered_as_one() {
    assert!(ponged(LinkType::Ethernet, &ping(|_| ())).is_some());
    type Change = fn(&mut Vec<u8>);
    let silent: [(&str, Change); 12] = [
        ("a reply", |frame| frame[34] = 0),
        ("a timestamp request", |frame| frame[34] = 13),
        ("an unknown code", |frame| frame[35] = 1),
        ("a first fragment", |frame| frame[20] = 0x20),
        ("a later fragment", |frame| frame[21] = 8),
        ("from a group", |frame| frame[26] = 224),
        ("to a group", |frame| frame[30] = 239),
        ("from everyone", |frame| frame[26..30].fill(255)),
        ("from nobody", |frame| frame[26..30].fill(0)),
        ("to a group of stations", |frame| frame[0] |= 1),
        ("another protocol", |frame| frame[23] = protocol::UDP),
        ("from no station", |frame| frame[6..12].fill(0)),
    ];
    for (what, change) in silent {
        assert_eq!(ponged(LinkType::Ethernet, &ping(change)), None, "{what}");
    }
    for at in [24, 36, 43] {
        let mut frame = ping(|_| ());
        frame[at] ^= 0x40;
        assert_eq!(ponged(LinkType::Ethernet, &frame), None, "a wrong checksum, byte {at}");
    }
    // What a capture has cut cannot be sent back.
    let whole = ping(|_| ());
    assert_eq!(AnswerTo::Ping.answer(LinkType::Ethernet, &whole[..43], whole.len() as u32), None);
}

proptest! {
    #![proptest_config(crate::cases(4_000))]

    #[test]
    fn a_reply_is_the_request_with_its_ends_exchanged(packet in packets::packet(), data in vec(any::<u8>(), 0..300)) {
        // Whatever the link and the addresses are of.
        let is_v4 = packet.headers.marks.contains(Marks::IPV4);
        let (src, dst) = (packet.headers.src, packet.headers.dst);
        let mut ip = Vec::new();
        match (src.to_v4(), dst.to_v4()) {
            (Some(src), Some(dst)) if is_v4 => {
                PacketBuilder::ipv4(src, dst, 9).icmpv4_echo_request(7, 9).write(&mut ip, &data).unwrap();
            }
            _ => PacketBuilder::ipv6(src.0, dst.0, 9).icmpv6_echo_request(7, 9).write(&mut ip, &data).unwrap(),
        }
        let l3 = usize::from(packet.headers.l3_offset);
        let frame = [&packet.frame[..l3], &ip].concat();
        let headers = parse(packet.link, &frame, frame.len() as u32);
        let Some(found) = ponged(packet.link, &frame) else {
            prop_assert!(is_unanswerable(&headers));
            return Ok(());
        };
        let of_reply = invariants::check_parse(packet.link, &found, found.len() as u32);
        prop_assert_eq!(verify(&found, &of_reply), Checksums::Right);
        prop_assert_eq!((of_reply.src, of_reply.dst, of_reply.ttl), (headers.dst, headers.src, 64));
        let l4 = usize::from(of_reply.l4_offset);
        prop_assert_eq!(found[l4], if is_v4 { 0 } else { 129 });
        prop_assert_eq!(&found[l4 + 4..], &frame[usize::from(headers.l4_offset) + 4..]);
        // Nothing answers it.
        prop_assert_eq!(ponged(packet.link, &found), None);
    }

    #[test]
    fn mangled_pings_do_no_harm(
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        wire_len in any::<u32>(),
    ) {
        let mut frame = ping(|_| ());
        *at.get_mut(&mut frame) = byte;
        AnswerTo::Ping.answer(LinkType::Ethernet, &frame, wire_len);
        ponged(LinkType::Ethernet, &frame);
    }
}

/// tshark reads each answer as well-formed, with right checksums.
#[test]
fn tshark_accepts_all_answers() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut file = hex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000");
    let mut answers = 0;
    while answers < 300 {
        let packet = packets::packet().new_tree(&mut runner).unwrap().current();
        if packet.link != LinkType::Ethernet {
            continue;
        }
        if let Some(answer) = answered(LinkType::Ethernet, &packet.frame) {
            file.extend([0; 8]);
            file.extend((answer.len() as u32).to_le_bytes());
            file.extend((answer.len() as u32).to_le_bytes());
            file.extend(answer);
            answers += 1;
        }
    }
    let path = std::env::temp_dir().join(format!("paceline-answers-{}.pcap", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&file).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    tshark.args(["-T", "fields", "-e", "ip.checksum.status", "-e", "tcp.checksum.status"]);
    tshark.args(["-e", "icmp.checksum.status", "-e", "icmpv6.checksum.status"]);
    tshark.args(["-e", "icmp.code", "-e", "icmpv6.code", "-e", "tcp.flags.reset"]);
    // Only the answer itself is looked at: what it quotes may be anything.
    tshark.args(["-E", "occurrence=f"]);
    let output = tshark.output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else { return println!("skipped: no tshark") };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), answers, "{}", String::from_utf8_lossy(&output.stderr));
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        // 1 is good.
        let is_right = matches!(
            fields[..],
            ["1", "1", "", "", "", "", "1" | "True"]
                | ["", "1", "", "", "", "", "1" | "True"]
                | ["1", "", "1", "", "13", "", ""]
                | ["", "", "", "1", "", "1", ""]
        ) || is_quoting(&fields);
        assert!(is_right, "{line}");
    }
}

/// An error whose quoted transport tshark lists, too.
fn is_quoting(fields: &[&str]) -> bool {
    matches!(fields, ["1", _, "1", _, "13", _, _] | ["", _, _, "1", _, "1", _])
}
