//! Verification: right checksums are right, any other byte makes them wrong, and etherparse's sum agrees.

use crate::packets;

use etherparse::checksum::Sum16BitWords;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::{Checksums, Headers, LinkType, Malformed, Marks, complete, parse, protocol, verify};

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn verified(frame: &str) -> Checksums {
    let frame = hex(frame);
    verify(&frame, &parse(LinkType::RawIp, &frame, frame.len() as u32))
}

const fn wrong(reason: Malformed) -> Checksums {
    Checksums::Wrong { reason, is_left_to_card: false }
}

/// The example of RFC 1071 is in the crate; these are whole packets.
#[test]
fn golden() {
    // An ICMP echo request, an IPv4 header with options, UDP with and without a checksum.
    let echo = "4500 001c 0001 0000 4001 66de 0a00 0001 0a00 0002 0800 f7fd 0001 0001";
    assert_eq!(verified(echo), Checksums::Right);
    assert_eq!(verified(&echo.replace("f7fd", "f7fe")), wrong(Malformed::IcmpChecksum));
    assert_eq!(verified(&echo.replace("66de", "66dd")), wrong(Malformed::Ipv4Checksum));
    let left = Checksums::Wrong { reason: Malformed::Ipv4Checksum, is_left_to_card: true };
    assert_eq!(verified(&echo.replace("66de", "0000")), left, "a card fills the header's in, too");
    let udp = "4500 001e 0001 0000 4011 66cc 0a00 0001 0a00 0002 03e8 07d0 000a CCCC 6162";
    assert_eq!(verified(&udp.replace("CCCC", "7ebd")), Checksums::Right);
    assert_eq!(verified(&udp.replace("CCCC", "0000")), Checksums::Right, "none was sent: RFC 768");
    assert_eq!(verified(&udp.replace("CCCC", "7ebc")), wrong(Malformed::UdpChecksum));
    // The sum of the pseudo-header: 0a00 + 0001 + 0a00 + 0002 + 0011 + 000a.
    let left = Checksums::Wrong { reason: Malformed::UdpChecksum, is_left_to_card: true };
    assert_eq!(verified(&udp.replace("CCCC", "141e")), left);
    let udp6 = "6000 0000 000a 1140 2001 0db8 0000 0000 0000 0000 0000 0001
                2001 0db8 0000 0000 0000 0000 0000 0002 03e8 07d0 000a CCCC 6162";
    assert_eq!(verified(&udp6.replace("CCCC", "374b")), Checksums::Right);
    assert_eq!(verified(&udp6.replace("CCCC", "0000")), wrong(Malformed::UdpChecksum), "RFC 8200 §8.1");
}

/// What a card would do: the sum of the pseudo-header becomes the whole one, and nothing else changes.
#[test]
fn what_was_left_to_the_card_is_completed() {
    let completed = |text: &str| {
        let mut frame = hex(text);
        let headers = parse(LinkType::RawIp, &frame, frame.len() as u32);
        complete(&mut frame, &headers).then_some(frame)
    };
    let udp = "4500 001e 0001 0000 4011 66cc 0a00 0001 0a00 0002 03e8 07d0 000a CCCC 6162";
    assert_eq!(completed(&udp.replace("CCCC", "141e")), Some(hex(&udp.replace("CCCC", "7ebd"))));
    for other in ["7ebd", "7ebc", "0000"] {
        assert_eq!(completed(&udp.replace("CCCC", other)), None, "right, wrong, and none");
    }
    let echo = "4500 001c 0001 0000 4001 66de 0a00 0001 0a00 0002 0800 f7fd 0001 0001";
    assert_eq!(completed(echo), None, "no card computes those of ICMP");
    // Data that make the sum 0, which would say that there is none (RFC 768): 03e8 + 07d0 + 000a + 141e + e01f.
    let zero = "4500 001e 0001 0000 4011 66cc 0a00 0001 0a00 0002 03e8 07d0 000a CCCC e01f";
    assert_eq!(completed(&zero.replace("CCCC", "141e")), Some(hex(&zero.replace("CCCC", "ffff"))));
    assert_eq!(verified(&zero.replace("CCCC", "ffff")), Checksums::Right);
}

#[test]
fn what_is_not_here_cannot_be_verified() {
    let udp = hex("4500 001e 0001 0000 4011 66cc 0a00 0001 0a00 0002 03e8 07d0 000a ffff 6162");
    // Cut by the capture.
    let cut = &udp[..29];
    assert_eq!(verify(cut, &parse(LinkType::RawIp, cut, 30)), Checksums::Unverifiable);
    // Fragments: the header is verified all the same.
    for (fragment, sum) in [("2000", "46cc"), ("0001", "66cb")] {
        let text =
            format!("4500 001e 0001 {fragment} 4011 {sum} 0a00 0001 0a00 0002 03e8 07d0 000a ffff 6162");
        assert_eq!(verified(&text), Checksums::Unverifiable);
        assert_eq!(verified(&text.replace(sum, "0001")), wrong(Malformed::Ipv4Checksum));
    }
    // Not IP, malformed, no checksum known.
    assert_eq!(verify(&[0; 60], &parse(LinkType::Ethernet, &[0; 60], 60)), Checksums::Absent);
    assert_eq!(verified("4500 0013"), Checksums::Absent);
    assert_eq!(verified("4500 0018 0000 0000 40fd 65e7 0a00 0001 0a00 0002 6162 6364"), Checksums::Right);
}

/// By etherparse's sum, word for word as the RFCs have it; `None` where there is nothing to verify.
fn oracle(packet: &[u8], headers: &Headers) -> Option<Malformed> {
    let is_v4 = headers.marks.contains(Marks::IPV4);
    let l4 = usize::from(headers.l4_offset - u16::from(headers.l3_offset));
    if is_v4 && Sum16BitWords::new().add_slice(&packet[..l4]).ones_complement() != 0 {
        return Some(Malformed::Ipv4Checksum);
    }
    let (reason, at, end) = match headers.protocol {
        protocol::TCP => (Malformed::TcpChecksum, 16, usize::from(headers.l3_len)),
        protocol::UDP => (Malformed::UdpChecksum, 6, l4 + headers.seq as usize),
        protocol::ICMP if is_v4 => (Malformed::IcmpChecksum, 2, usize::from(headers.l3_len)),
        protocol::ICMPV6 if !is_v4 => (Malformed::IcmpChecksum, 2, usize::from(headers.l3_len)),
        _ => return None,
    };
    let segment = &packet[l4..end];
    if headers.protocol == protocol::UDP && segment[at..at + 2] == [0, 0] {
        return (!is_v4).then_some(reason);
    }
    let mut sum = Sum16BitWords::new().add_slice(segment);
    if headers.protocol != protocol::ICMP {
        let (source, destination) = match is_v4 {
            true => (&packet[12..16], &packet[16..20]),
            false => (&packet[8..24], final_destination(packet, l4)),
        };
        sum = sum.add_slice(source).add_slice(destination).add_2bytes([0, headers.protocol]);
        sum = sum.add_2bytes((segment.len() as u16).to_be_bytes());
    }
    (sum.ones_complement() != 0).then_some(reason)
}

/// Where source routing leads in the end (RFC 8754 §2, RFC 6275 §6.4, RFC 2460 §4.4), where it is not there yet.
fn final_destination(packet: &[u8], l4: usize) -> &[u8] {
    let (mut kind, mut at) = (packet[6], 40);
    while at < l4 {
        let len = match kind {
            44 => 8,
            51 => 4 * (usize::from(packet[at + 1]) + 2),
            _ => 8 * (usize::from(packet[at + 1]) + 1),
        };
        if kind == 43 && packet[at + 3] > 0 {
            return match packet[at + 2] {
                0 => &packet[at + len - 16..at + len],
                _ => &packet[at + 8..at + 24],
            };
        }
        (kind, at) = (packet[at], at + len);
    }
    &packet[24..40]
}

proptest! {
    #![proptest_config(crate::cases(20_000))]

    #[test]
    fn a_packet_that_was_made_well_is_right(packet in packets::packet()) {
        let headers = packet.headers;
        if headers.protocol == protocol::ICMP {
            return Ok(()); // the generator leaves its field empty
        }
        let checksums = verify(&packet.frame, &headers);
        let expected = match headers.marks.contains(Marks::IPV4) {
            true => [Checksums::Right, Checksums::Right],
            // Routing headers are used up here.
            false => [Checksums::Right, Checksums::Absent],
        };
        prop_assert!(expected.contains(&checksums), "{checksums:?}: {headers:?}");
    }

    #[test]
    fn a_mangled_packet_is_as_etherparse_has_it(
        packet in packets::packet(), at in any::<Index>(), to in any::<u8>(), len in any::<Index>(),
    ) {
        let mut frame = packet.frame;
        *at.get_mut(&mut frame) = to;
        let headers = parse(packet.link, &frame, frame.len() as u32);
        let checksums = verify(&frame, &headers);
        if headers.is_well_formed() && headers.is_ip() && checksums != Checksums::Unverifiable {
            let ip = &frame[usize::from(headers.l3_offset)..];
            let found = match checksums {
                Checksums::Wrong { reason, .. } => Some(reason),
                _ => None,
            };
            prop_assert_eq!(found, oracle(ip, &headers), "{:?}", headers);
        }
        // Anything cut, anywhere, does no harm, and is not called wrong for what is not here.
        let captured = len.index(frame.len() + 1);
        let cut = parse(packet.link, &frame[..captured], frame.len() as u32);
        let of_cut = verify(&frame[..captured], &cut);
        prop_assert!(of_cut == checksums || matches!(of_cut, Checksums::Unverifiable | Checksums::Absent));
    }

    #[test]
    fn headers_of_another_frame_do_no_harm(
        packet in packets::packet(), bytes in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        verify(&bytes, &packet.headers);
        let mut bytes = bytes;
        complete(&mut bytes, &packet.headers);
    }
}
