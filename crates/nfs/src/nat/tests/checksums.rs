//! Translated packets have the checksums that computing them in full gives.

use wire::LinkType;

use super::*;

/// One's complement sum of 16-bit words, folded (RFC 1071): 0xffff where a checksum is right.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum: u32 = 0;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn transport_sum(ip: &[u8]) -> u16 {
    let transport = &ip[20..];
    let pseudo = [0, ip[9], (transport.len() >> 8) as u8, transport.len() as u8];
    sum(&[&ip[12..20], &pseudo, transport])
}

fn has_right_checksums(ip: &[u8]) -> bool {
    sum(&[&ip[..20]]) == 0xffff && transport_sum(ip) == 0xffff
}

/// An IPv4 packet, its checksums computed in full.
fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let is_tcp = headers.protocol == protocol::TCP;
    let transport_len = if is_tcp { 20 } else { 8 };
    let len = (20 + transport_len + payload.len()) as u16;
    let mut ip = std::vec![0x45, 0];
    ip.extend(len.to_be_bytes());
    ip.extend([0x12, 0x34, 0x40, 0, 64, headers.protocol, 0, 0]);
    ip.extend(headers.src.to_v4().unwrap());
    ip.extend(headers.dst.to_v4().unwrap());
    ip.extend(headers.src_port.to_be_bytes());
    ip.extend(headers.dst_port.to_be_bytes());
    let at = if is_tcp {
        ip.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, headers.tcp_flags, 0xff, 0xff, 0, 0, 0, 0]);
        36
    } else {
        ip.extend((len - 20).to_be_bytes());
        ip.extend([0, 0]);
        26
    };
    ip.extend(payload);
    let checksum = !sum(&[&ip[..20]]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let checksum = match !transport_sum(&ip) {
        0 if !is_tcp => 0xffff,
        checksum => checksum,
    };
    ip[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    ip
}

/// The packet as it leaves.
fn translated(rig: &mut Rig<Nat>, mut ip: Vec<u8>) -> Vec<u8> {
    let headers = wire::parse(LinkType::RawIp, &ip, ip.len() as u32);
    assert!(headers.is_well_formed(), "{headers:?}");
    assert_eq!(rig.packet(0, &headers), Verdict::Forward);
    let mut frame = 0..ip.len();
    wire::apply(rig.edits(), &headers, LinkType::RawIp, &mut ip, &mut frame).unwrap();
    ip
}

#[test]
fn out_in_and_hairpinned() {
    let options = SMALL.replace("1031", "65535").replace("in-turn", "random");
    for protocol in [protocol::UDP, protocol::TCP] {
        let mut rig = Rig::new(function::<Nat>(&options));
        for number in 0..500_u16 {
            let payload: Vec<u8> = (0..number % 37).map(|i| (i * number) as u8).collect();
            let [high, low] = number.wrapping_mul(40_503).to_be_bytes();
            let src = format!("10.{high}.{low}.9:{}", number.wrapping_mul(7_919));
            let out = frame(&packet(protocol, &src, "192.0.2.1:80"), &payload);
            assert!(has_right_checksums(&out));
            let sent = translated(&mut rig, out.clone());
            assert!(sent != out && has_right_checksums(&sent), "{sent:02x?}");

            let external = u16::from_be_bytes([sent[20], sent[21]]);
            let to = format!("203.0.113.1:{external}");
            let back = translated(&mut rig, frame(&packet(protocol, "192.0.2.1:80", &to), &payload));
            assert!(has_right_checksums(&back), "{back:02x?}");
            assert_eq!(
                (&back[16..20], &back[22..24]),
                (&out[12..16], &out[20..22]),
                "back where it came from"
            );

            let peer = format!("10.0.0.1:{}", 10_000 + number);
            let hairpinned = translated(&mut rig, frame(&packet(protocol, &peer, &to), &payload));
            assert!(has_right_checksums(&hairpinned), "{hairpinned:02x?}");
            assert_eq!((&hairpinned[12..16], &hairpinned[16..20]), (&sent[12..16], &out[12..16]));
        }
        assert_eq!(rig.event("packets-hairpinned"), 500);
    }
}

/// A check that cannot fail is a defect.
#[test]
fn a_wrong_checksum_is_seen() {
    let ip = frame(&udp("10.0.0.1:4000", "192.0.2.1:80"), &[1, 2, 3]);
    for at in 0..ip.len() {
        let mut wrong = ip.clone();
        wrong[at] ^= 0x10;
        assert!(!has_right_checksums(&wrong), "byte {at}");
    }
}

/// RFC 768: a UDP checksum of 0 is none, and stays none.
#[test]
fn no_udp_checksum_stays_none() {
    let mut ip = frame(&udp("10.0.0.1:4000", "192.0.2.1:80"), &[1, 2, 3]);
    ip[26..28].fill(0);
    let sent = translated(&mut small(""), ip);
    assert_eq!((&sent[12..16], &sent[26..28]), (&[203, 0, 113, 1][..], &[0, 0][..]));
    assert_eq!(sum(&[&sent[..20]]), 0xffff);
}
