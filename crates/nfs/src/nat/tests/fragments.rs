//! RFC 4787 REQ-14, where a chain has later fragments follow their first: translated fragments make the datagram that the whole packet
//! becomes.

use proptest::prelude::*;
use wire::{First, LinkType};

use super::*;

const MORE: &str = r#"
    forwards = ["udp 203.0.113.1:1025 to 10.0.0.5:53"]
    one_to_one = ["203.0.113.9 to 10.0.0.9"]
"#;

fn following(more: &str) -> Rig<Nat> {
    let nat: Nat = function(&format!("{SMALL}\n{more}"));
    Rig::new((Nat::EXTRAS.following_fragments)(&nat).expect("it makes a difference"))
}

/// What the entrance of a chain does: later fragments get what the first of these said.
#[derive(Default)]
struct Entrance(First);

impl Entrance {
    fn headers(&mut self, bytes: &[u8]) -> Headers {
        let mut headers = wire::parse(LinkType::RawIp, bytes, bytes.len() as u32);
        assert!(headers.is_well_formed(), "{headers:?}");
        if headers.is_first_fragment() {
            self.0 = First::of(&headers);
        }
        headers.follow(&self.0);
        headers
    }
}

/// A packet as it leaves, or why it does not.
fn sent(rig: &mut Rig<Nat>, entrance: &mut Entrance, mut bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let headers = entrance.headers(&bytes);
    match rig.packet(0, &headers) {
        Verdict::Forward => {
            let mut frame = 0..bytes.len();
            wire::apply(rig.edits(), &headers, LinkType::RawIp, &mut bytes, &mut frame).unwrap();
            Ok(bytes)
        }
        Verdict::Drop(reason) => Err(Nat::ABOUT.drop_reasons[usize::from(reason)]),
        other => panic!("{other:?}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A datagram of 10.0.0.1:4000 to 192.0.2.9:53 in two fragments, and its answer. Checksums of IPv4 change in both fragments, that of UDP
/// in the first alone; it is over all 40 bytes.
#[test]
fn golden_of_fragments() {
    let data = ["66726167 6d656e74 7320666f 6c6c6f77", "20746865 69722066 69727374 206f6e65"];
    #[rustfmt::skip]
    let steps = [
        ("4500002c 12342000 40117c83 0a000001 c0000209  0fa00035 00284c2a", data[0],
         "4500002c 12342000 40114a82 cb007101 c0000209  04000035 002825c9"),
        ("45000024 12340003 40119c88 0a000001 c0000209", data[1],
         "45000024 12340003 40116a87 cb007101 c0000209"),
        ("4500002c 12342000 40114a82 c0000209 cb007101  00350400 002825c9", data[0],
         "4500002c 12342000 40117c83 c0000209 0a000001  00350fa0 00284c2a"),
        ("45000024 12340003 40116a87 c0000209 cb007101", data[1],
         "45000024 12340003 40119c88 c0000209 0a000001"),
    ];
    let (mut rig, mut entrance) = (following(""), Entrance::default());
    for (came, data, left) in steps {
        let [came, left] = [came, left].map(|header| hex(&format!("{header}{data}")));
        assert_eq!(sent(&mut rig, &mut entrance, came), Ok(left));
    }
    let events = ["mappings-made", "packets-out", "packets-in"];
    assert_eq!(events.map(|event| rig.event(event)), [1, 2, 2]);
    // Planted: where the later fragments do not follow, they do not pass.
    let mut plain = small("");
    let mut entrance = Entrance::default();
    for (came, data, _) in steps {
        let came = hex(&format!("{came}{data}"));
        let headers = wire::parse(LinkType::RawIp, &came, came.len() as u32);
        entrance.headers(&came);
        assert_eq!(plain.packet(0, &headers), Verdict::Drop(FRAGMENT));
    }
}

#[test]
fn a_later_fragment_makes_no_mapping_and_tells_nothing_of_tcp() {
    let mut rig = following("");
    let piece = |marks: Marks, packet: Headers| Headers { marks: Marks::IPV4 | marks, ..packet };
    let later = |packet| piece(Marks::FIRST_FRAGMENT | Marks::LATER_FRAGMENT, packet);
    let lone = |packet: Headers| piece(Marks::LATER_FRAGMENT, Headers { src_port: 0, dst_port: 0, ..packet });
    let out = tcp(tcp_flags::SYN, "10.0.0.1:4000", "192.0.2.9:443");
    let without_flags = Headers { tcp_flags: 0, ..out };
    assert_eq!(outcome(&mut rig, 0, &later(without_flags)), "fragment");
    assert!(rig.is_empty());
    assert_eq!(outcome(&mut rig, 0, &piece(Marks::FIRST_FRAGMENT, out)), "203.0.113.1:1024 > 192.0.2.9:443");
    let phase = |rig: &Rig<Nat>| rig.state(&out).map(|state| (state.phase, state.packets));
    assert_eq!(phase(&rig), Some((Phase::Opening, 1)));
    assert_eq!(outcome(&mut rig, 0, &later(without_flags)), "203.0.113.1:1024 > 192.0.2.9:443");
    assert_eq!(phase(&rig), Some((Phase::Opening, 2)), "an ACK would have established it");
    // One that follows no first has no ports.
    assert_eq!(outcome(&mut rig, 0, &lone(without_flags)), "fragment");
    assert_eq!(outcome(&mut rig, 0, &lone(udp("192.0.2.9:0", "203.0.113.1:0"))), "fragment");
    assert_eq!(rig.len(), 1);
}

/// What the datagram between two ends is of.
fn packets(protocol: u8, data: &[u8]) -> [Vec<u8>; 1] {
    [transport(protocol, ([10, 0, 0, 1], 4000), ([192, 0, 2, 9], 53), data)]
}

type At = ([u8; 4], u16);

fn sum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// UDP, TCP, or ICMP: an echo of the port of its end inside, which is the source's unless that is 0.
fn transport(of: u8, (src, src_port): At, (dst, dst_port): At, data: &[u8]) -> Vec<u8> {
    let (mut bytes, at) = match of {
        protocol::UDP => (Vec::from([0; 8]), 6),
        protocol::TCP => {
            let mut header = Vec::from([0; 20]);
            (header[12], header[13]) = (0x50, tcp_flags::SYN);
            (header, 16)
        }
        _ => (Vec::from([if src_port == 0 { 0 } else { 8 }, 0, 0, 0, 0, 0, 0, 1]), 2),
    };
    let ports = if of == protocol::ICMP { 4 } else { 0 };
    match of {
        protocol::ICMP => bytes[4..6].copy_from_slice(&src_port.max(dst_port).to_be_bytes()),
        _ => {
            bytes[ports..ports + 2].copy_from_slice(&src_port.to_be_bytes());
            bytes[ports + 2..ports + 4].copy_from_slice(&dst_port.to_be_bytes());
        }
    }
    bytes.extend(data);
    let len = (bytes.len() as u16).to_be_bytes();
    if of == protocol::UDP {
        bytes[4..6].copy_from_slice(&len);
    }
    let pseudo = [&src[..], &dst, &[0, of], &len].concat();
    let checksum = sum(&[if of == protocol::ICMP { &[] } else { &pseudo }, &bytes]);
    bytes[at..at + 2].copy_from_slice(&checksum);
    bytes
}

/// IPv4 packets with the pieces of `data` that end at these places, multiples of 8 but for the last.
fn in_pieces(of: u8, src: [u8; 4], dst: [u8; 4], data: &[u8], ends: &[usize]) -> Vec<Vec<u8>> {
    let mut begin = 0;
    let piece = |end: &usize| {
        let field = (begin / 8) as u16 | u16::from(*end < data.len()) << 13;
        let piece = &data[begin..*end];
        begin = *end;
        let mut ip = [&[0x45, 0][..], &(20 + piece.len() as u16).to_be_bytes(), &[0x12, 0x34]].concat();
        ip.extend([&field.to_be_bytes()[..], &[64, of, 0, 0], &src, &dst].concat());
        let checksum = sum(&[&ip]);
        ip[10..12].copy_from_slice(&checksum);
        [ip, piece.to_vec()].concat()
    };
    ends.iter().map(piece).collect()
}

/// Puts a datagram together: source, destination, and its data. All checksums of IPv4 have to be right.
fn together(pieces: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let mut data = Vec::new();
    let mut ends = Vec::new();
    for packet in pieces {
        assert_eq!(sum(&[&packet[..20]]), [0, 0], "IPv4: {packet:02x?}");
        let at = usize::from(u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff) * 8;
        assert_eq!(at, data.len(), "in order");
        data.extend(&packet[20..]);
        assert!(ends.is_empty() || ends == packet[12..20]);
        ends = packet[12..20].to_vec();
    }
    (ends, data)
}

fn way(number: usize, of: u8) -> (At, At) {
    let identifier = of == protocol::ICMP;
    let port = |port: u16| if identifier { 0 } else { port };
    [
        (([10, 0, 0, 1], 4000), ([192, 0, 2, 9], port(53))),
        (([192, 0, 2, 9], port(53)), ([203, 0, 113, 1], 1024)),
        (([192, 0, 2, 9], port(53)), ([203, 0, 113, 1], 1025)),
        (([10, 0, 0, 5], 53), ([192, 0, 2, 9], port(53))),
        (([10, 0, 0, 9], 4000), ([192, 0, 2, 9], port(53))),
        (([192, 0, 2, 9], port(53)), ([203, 0, 113, 9], 4000)),
        (([10, 0, 0, 2], 4000), ([203, 0, 113, 1], 1024)),
        (([10, 0, 0, 2], 4000), ([203, 0, 113, 1], 1025)),
        (([10, 0, 0, 2], 4000), ([203, 0, 113, 9], port(4000))),
        (([10, 0, 0, 9], 4000), ([203, 0, 113, 1], 1024)),
    ][number]
}

proptest! {
    /// Out, in, by a forward, by an address of one host, and hairpinned each; cut anywhere.
    #[test]
    fn fragments_become_what_the_whole_becomes(
        number in 0..10_usize,
        of in prop::sample::select(std::vec![protocol::UDP, protocol::TCP, protocol::ICMP]),
        data in prop::collection::vec(any::<u8>(), 64..400),
        cuts in prop::collection::btree_set(3..50_usize, 1..6),
    ) {
        let (src, dst) = way(number, of);
        let mut rigs = [following(MORE), following(MORE)];
        for rig in &mut rigs {
            // Those outside may answer.
            let asks = transport(of, ([10, 0, 0, 1], 4000), ([192, 0, 2, 9], if of == 1 { 0 } else { 53 }), b"");
            let asked = in_pieces(of, [10, 0, 0, 1], [192, 0, 2, 9], &asks, &[asks.len()]);
            sent(rig, &mut Entrance::default(), asked[0].clone()).expect("it goes out");
        }
        let bytes = transport(of, src, dst, &data);
        let ends: Vec<usize> =
            cuts.into_iter().map(|cut| cut * 8).filter(|cut| *cut < bytes.len()).chain([bytes.len()]).collect();
        let through = |rig: &mut Rig<Nat>, ends: &[usize]| {
            let mut entrance = Entrance::default();
            let pieces = in_pieces(of, src.0, dst.0, &bytes, ends).into_iter();
            let sent: Result<Vec<_>, _> = pieces.map(|piece| sent(rig, &mut entrance, piece)).collect();
            sent.map(|sent| together(&sent))
        };
        let [whole, pieces] = &mut rigs;
        let expected = through(whole, &[bytes.len()]);
        prop_assert_eq!(&through(pieces, &ends), &expected);
        if let Ok((ends, data)) = expected {
            let pseudo = [&ends[..], &[0, of], &(data.len() as u16).to_be_bytes()].concat();
            let is_right = sum(&[if of == protocol::ICMP { &[] } else { &pseudo }, &data]) == [0, 0];
            prop_assert!(is_right, "the transport's checksum");
        }
    }
}

/// The ways above are all taken; those that the options refuse are so for whole packets, too.
#[test]
fn ways_lead_somewhere() {
    let mut led = 0;
    for of in [protocol::UDP, protocol::TCP, protocol::ICMP] {
        for number in 0..10 {
            let (src, dst) = way(number, of);
            let bytes = transport(of, src, dst, &[7; 100]);
            let mut rig = following(MORE);
            let mut entrance = Entrance::default();
            let asks = &packets(of, b"")[0];
            let asks = if of == protocol::ICMP {
                transport(of, ([10, 0, 0, 1], 4000), ([192, 0, 2, 9], 0), b"")
            } else {
                asks.clone()
            };
            let asked = in_pieces(of, [10, 0, 0, 1], [192, 0, 2, 9], &asks, &[asks.len()]);
            sent(&mut rig, &mut entrance, asked[0].clone()).expect("it goes out");
            let pieces = in_pieces(of, src.0, dst.0, &bytes, &[40, bytes.len()]);
            led += usize::from(pieces.into_iter().all(|piece| sent(&mut rig, &mut entrance, piece).is_ok()));
        }
    }
    assert!(led >= 22, "{led}");
}
