//! RFC 5508, RFC 4787 REQ-12, RFC 5382 REQ-9 and REQ-10: ping, traceroute and path MTU discovery, byte for byte.
//! Packets are built by etherparse, and their checksums, quoted ones too, are computed by it when they leave.

use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Slice, Icmpv4Type, IpNumber, Ipv4Header, TcpHeader, UdpHeader,
};
use wire::LinkType;

use super::*;

const HOST: &str = "10.0.0.1:4000";
const OTHER: &str = "10.0.0.2:5000";
const PEER: &str = "192.0.2.9:443";
const ROUTER: &str = "198.51.100.1";
const EXTERNAL: &str = "203.0.113.1";
/// Bytes behind the quoted IPv4 header that every router quotes (RFC 792), and all of them (RFC 1812 §4.3.2.3).
const QUOTED: [usize; 2] = [8, 500];

fn end(text: &str) -> ([u8; 4], u16) {
    let end: SocketAddrV4 = text.parse().unwrap();
    (end.ip().octets(), end.port())
}

fn ip(number: IpNumber, src: [u8; 4], dst: [u8; 4], behind: &[u8]) -> Vec<u8> {
    let mut header = Ipv4Header::new(behind.len() as u16, 64, number, src, dst).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = Vec::new();
    header.write(&mut bytes).unwrap();
    bytes.extend(behind);
    bytes
}

/// A datagram, a segment, or a query between two ends.
fn probe(protocol: u8, src: &str, dst: &str) -> Vec<u8> {
    let ((src, src_port), (dst, dst_port)) = (end(src), end(dst));
    let payload = b"probe";
    let mut bytes = Vec::new();
    match protocol {
        protocol::UDP => {
            let ip = Ipv4Header::new(0, 64, IpNumber::UDP, src, dst).unwrap();
            let header = UdpHeader::with_ipv4_checksum(src_port, dst_port, &ip, payload).unwrap();
            header.write(&mut bytes).unwrap();
        }
        protocol::TCP => {
            let mut header = TcpHeader::new(src_port, dst_port, 7, 1_000);
            header.syn = true;
            header.checksum = header.calc_checksum_ipv4_raw(src, dst, payload).unwrap();
            header.write(&mut bytes).unwrap();
        }
        _ => {
            let query = Icmpv4Type::EchoRequest(IcmpEchoHeader { id: src_port, seq: 3 });
            Icmpv4Header::with_checksum(query, payload).write(&mut bytes).unwrap();
        }
    }
    bytes.extend(payload);
    ip(IpNumber(protocol), src, dst, &bytes)
}

fn message(kind: Icmpv4Type, src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Icmpv4Header::with_checksum(kind, payload).write(&mut bytes).unwrap();
    bytes.extend(payload);
    let addr = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    ip(IpNumber::ICMP, addr(src), addr(dst), &bytes)
}

fn reply(src: &str, dst: &str, id: u16) -> Vec<u8> {
    message(Icmpv4Type::EchoReply(IcmpEchoHeader { id, seq: 3 }), src, dst, b"pong")
}

/// An error about a packet, to the packet's sender, which quotes so much of it.
fn error(kind: u8, code: u8, src: &str, about: &[u8], quoted: usize) -> Vec<u8> {
    let to = Ipv4Addr::new(about[12], about[13], about[14], about[15]);
    let mtu = if (kind, code) == (3, 4) { [0, 0, 5, 0] } else { [0; 4] };
    let kind = Icmpv4Type::Unknown { type_u8: kind, code_u8: code, bytes5to8: mtu };
    message(kind, src, &to.to_string(), &about[..about.len().min(20 + quoted)])
}

/// The packet as it leaves, or why it does not.
fn sent(rig: &mut Rig<Nat>, time_ms: u64, mut bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let headers = wire::parse(LinkType::RawIp, &bytes, bytes.len() as u32);
    assert!(headers.is_well_formed(), "{headers:?}");
    match rig.packet(ms(time_ms), &headers) {
        Verdict::Forward => {
            let mut frame = 0..bytes.len();
            wire::apply(rig.edits(), &headers, LinkType::RawIp, &mut bytes, &mut frame).unwrap();
            Ok(bytes)
        }
        Verdict::Drop(reason) => Err(Nat::ABOUT.drop_reasons[usize::from(reason)]),
        other => panic!("{other:?}"),
    }
}

/// A packet in words, all of its checksums checked as far as they can be.
fn shown(bytes: &[u8]) -> String {
    let (header, _) = Ipv4Header::from_slice(bytes).unwrap();
    assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4: {bytes:02x?}");
    let behind = &bytes[header.header_len()..];
    let is_whole = usize::from(header.total_len) == bytes.len();
    let (src, dst) = (header.source, header.destination);
    let ports = || [0, 2].map(|at| u16::from_be_bytes([behind[at], behind[at + 1]]));
    let [a, b] = [src, dst].map(Ipv4Addr::from);
    match header.protocol {
        IpNumber::UDP => {
            if is_whole {
                let (udp, payload) = UdpHeader::from_slice(behind).unwrap();
                assert_eq!(udp.checksum, udp.calc_checksum_ipv4_raw(src, dst, payload).unwrap(), "UDP");
            }
            let [src_port, dst_port] = ports();
            format!("udp {a}:{src_port} > {b}:{dst_port}")
        }
        IpNumber::TCP => {
            if is_whole {
                let (tcp, payload) = TcpHeader::from_slice(behind).unwrap();
                assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4_raw(src, dst, payload).unwrap(), "TCP");
            }
            let [src_port, dst_port] = ports();
            format!("tcp {a}:{src_port} > {b}:{dst_port}")
        }
        _ => {
            if is_whole {
                let (icmp, payload) = Icmpv4Header::from_slice(behind).unwrap();
                assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload), "ICMP: {bytes:02x?}");
            }
            let icmp = Icmpv4Slice::from_slice(behind).unwrap();
            let id = u16::from_be_bytes([behind[4], behind[5]]);
            match icmp.type_u8() {
                8 => format!("request {id} {a} > {b}"),
                0 => format!("reply {id} {a} > {b}"),
                kind => format!("error {kind}/{} {a} > {b} [{}]", icmp.code_u8(), shown(&behind[8..])),
            }
        }
    }
}

fn told(rig: &mut Rig<Nat>, time_ms: u64, bytes: Vec<u8>) -> String {
    sent(rig, time_ms, bytes).map_or_else(String::from, |bytes| shown(&bytes))
}

#[test]
fn ping() {
    let mut rig = small("");
    let ask = |src: &str| probe(protocol::ICMP, src, PEER);
    assert_eq!(told(&mut rig, 0, ask("10.0.0.1:70")), "request 1024 203.0.113.1 > 192.0.2.9");
    assert_eq!(told(&mut rig, 0, ask("10.0.0.2:70")), "request 1026 203.0.113.1 > 192.0.2.9");
    assert_eq!(told(&mut rig, 0, ask("10.0.0.2:7")), "request 1025 203.0.113.1 > 192.0.2.9");
    assert_eq!(told(&mut rig, 0, ask("10.0.0.2:0")), "request 1028 203.0.113.1 > 192.0.2.9");
    assert_eq!(told(&mut rig, 0, reply("192.0.2.9", EXTERNAL, 1026)), "reply 70 192.0.2.9 > 10.0.0.2");
    assert_eq!(told(&mut rig, 0, reply("192.0.2.9", EXTERNAL, 1028)), "reply 0 192.0.2.9 > 10.0.0.2");
    assert_eq!(told(&mut rig, 0, reply("192.0.2.9", EXTERNAL, 1030)), "no-mapping");
    assert_eq!(told(&mut rig, 0, probe(protocol::UDP, HOST, PEER)), "udp 203.0.113.1:1024 > 192.0.2.9:443");
    assert_eq!(rig.event("mappings-made"), 5);
    // An identifier has no parity to keep.
    assert_eq!(rig.event("parity-lost"), 0);
}

/// RFC 5508 REQ-1a, REQ-2: external-host independent, a minute without a request.
#[test]
fn a_query_lasts_for_a_minute() {
    for (options, timeout_ms) in [("", 60_000), ("icmp_ms = 90000", 90_000)] {
        let mut rig = small(options);
        let ask = probe(protocol::ICMP, "10.0.0.1:70", PEER);
        told(&mut rig, 0, ask.clone());
        for elsewhere in ["192.0.2.9", ROUTER] {
            let expected = format!("reply 70 {elsewhere} > 10.0.0.1");
            assert_eq!(told(&mut rig, timeout_ms - 1, reply(elsewhere, EXTERNAL, 1024)), expected);
        }
        assert_eq!(
            told(&mut rig, timeout_ms, reply(PEER.split_once(':').unwrap().0, EXTERNAL, 1024)),
            "no-mapping"
        );
        told(&mut rig, timeout_ms, ask.clone());
        told(&mut rig, timeout_ms + 1_000, ask);
        let last = 2 * timeout_ms + 999;
        assert_ne!(told(&mut rig, last, reply("192.0.2.9", EXTERNAL, 1025)), "reply");
        assert_eq!(rig.len(), 1, "the second request refreshed it");
    }
}

/// Each hop says "time exceeded", the last one "port unreachable" or answers.
#[test]
fn traceroute() {
    for (number, name) in [(17, "udp"), (6, "tcp")] {
        for quoted in QUOTED {
            let mut rig = small("");
            let out = sent(&mut rig, 0, probe(number, HOST, PEER)).unwrap();
            assert_eq!(shown(&out), format!("{name} 203.0.113.1:1024 > 192.0.2.9:443"));
            let back = told(&mut rig, 0, error(11, 0, ROUTER, &out, quoted));
            let about = format!("[{name} 10.0.0.1:4000 > 192.0.2.9:443]");
            assert_eq!(back, format!("error 11/0 198.51.100.1 > 10.0.0.1 {about}"));
            let back = told(&mut rig, 0, error(3, 3, "192.0.2.9", &out, quoted));
            assert_eq!(back, format!("error 3/3 192.0.2.9 > 10.0.0.1 {about}"));
            assert_eq!((rig.event("errors-translated"), rig.event("packets-in")), (2, 0));
        }
    }
    for quoted in QUOTED {
        let mut rig = small("");
        let out = sent(&mut rig, 0, probe(protocol::ICMP, "10.0.0.1:70", PEER)).unwrap();
        let back = told(&mut rig, 0, error(11, 0, ROUTER, &out, quoted));
        assert_eq!(back, "error 11/0 198.51.100.1 > 10.0.0.1 [request 70 10.0.0.1 > 192.0.2.9]");
    }
}

/// "Fragmentation needed", to the inside and to the outside.
#[test]
fn path_mtu_discovery() {
    for (number, name) in [(17, "udp"), (6, "tcp")] {
        for quoted in QUOTED {
            let mut rig = small("");
            let out = sent(&mut rig, 0, probe(number, HOST, PEER)).unwrap();
            assert_eq!(
                told(&mut rig, 0, error(3, 4, ROUTER, &out, quoted)),
                format!("error 3/4 198.51.100.1 > 10.0.0.1 [{name} 10.0.0.1:4000 > 192.0.2.9:443]")
            );
            let came = sent(&mut rig, 0, probe(number, PEER, "203.0.113.1:1024")).unwrap();
            assert_eq!(
                told(&mut rig, 0, error(3, 4, "10.0.0.1", &came, quoted)),
                format!("error 3/4 203.0.113.1 > 192.0.2.9 [{name} 192.0.2.9:443 > 203.0.113.1:1024]")
            );
        }
    }
}

/// RFC 5508 REQ-8: the quoted packet is that which its sender sent.
#[test]
fn hairpinned_errors() {
    for quoted in QUOTED {
        let mut rig = small("");
        told(&mut rig, 0, probe(protocol::UDP, HOST, PEER));
        let came = sent(&mut rig, 0, probe(protocol::UDP, OTHER, "203.0.113.1:1024")).unwrap();
        assert_eq!(shown(&came), "udp 203.0.113.1:1026 > 10.0.0.1:4000");
        assert_eq!(
            told(&mut rig, 0, error(3, 3, "10.0.0.1", &came, quoted)),
            "error 3/3 203.0.113.1 > 10.0.0.2 [udp 10.0.0.2:5000 > 203.0.113.1:1024]"
        );
        assert_eq!(rig.event("packets-hairpinned"), 2);
    }
    let mut without = small("");
    told(&mut without, 0, probe(protocol::UDP, HOST, PEER));
    let came = sent(&mut without, 0, probe(protocol::UDP, OTHER, "203.0.113.1:1024")).unwrap();
    let mut without = small("hairpinning = false");
    told(&mut without, 0, probe(protocol::UDP, HOST, PEER));
    assert_eq!(told(&mut without, 0, error(3, 3, "10.0.0.1", &came, 8)), "no-mapping");
}

/// RFC 5508 REQ-4, REQ-5: dropped in silence. RFC 5508 REQ-6, RFC 4787 REQ-12, RFC 5382 REQ-10: mappings stay as
/// they are.
#[test]
fn errors_make_refresh_and_end_no_mapping() {
    let mut rig = small("");
    let about = |src: &str, dst: &str| probe(protocol::UDP, src, dst);
    let inward = error(3, 3, ROUTER, &about("203.0.113.1:1024", PEER), 8);
    let outward = error(3, 3, "10.0.0.1", &about(PEER, HOST), 8);
    for error in [&inward, &outward] {
        assert_eq!(told(&mut rig, 0, error.clone()), "no-mapping");
        assert!(rig.is_empty());
    }
    told(&mut rig, 0, probe(protocol::UDP, HOST, PEER));
    for time_ms in [100_000, 200_000, 299_999] {
        for error in [&inward, &outward] {
            assert!(sent(&mut rig, time_ms, error.clone()).is_ok());
            assert_eq!(rig.len(), 1);
        }
    }
    for error in [inward, outward] {
        assert_eq!(told(&mut rig, 300_000, error), "no-mapping");
    }
    assert!(rig.is_empty());
    // A router inside says something of a host: what that one sees of it is no packet of this NAT's.
    told(&mut rig, 300_000, probe(protocol::UDP, HOST, PEER));
    let from_router = error(3, 4, "10.9.9.9", &about(PEER, HOST), 8);
    assert_eq!(told(&mut rig, 300_000, from_router), "no-mapping");
}

/// What gets no mapping: requests from outside, replies from inside, queries to the inside by an external
/// address, and messages that are neither query nor error.
#[test]
fn what_does_not_go_through() {
    for others in ["", "other_protocols = \"pass\""] {
        let mut rig = small(others);
        told(&mut rig, 0, probe(protocol::ICMP, "10.0.0.1:70", PEER));
        let to_external = |src: &str| probe(protocol::ICMP, src, "203.0.113.1:0");
        assert_eq!(told(&mut rig, 0, to_external("192.0.2.9:1024")), "no-mapping");
        assert_eq!(told(&mut rig, 0, to_external("10.0.0.2:1024")), "no-mapping");
        assert_eq!(told(&mut rig, 0, reply("10.0.0.1", "192.0.2.9", 70)), "no-mapping");
        let redirect = error(5, 1, "10.0.0.1", &probe(protocol::UDP, PEER, HOST), 8);
        assert_eq!(told(&mut rig, 0, redirect), "untranslated");
        let cut = error(3, 1, "10.0.0.1", &probe(protocol::UDP, PEER, HOST), 7);
        assert_eq!(told(&mut rig, 0, cut), "untranslated");
        let home = probe(protocol::ICMP, "10.0.0.1:70", "10.0.0.2:0");
        assert_eq!(told(&mut rig, 0, home), "request 70 10.0.0.1 > 10.0.0.2");
        assert_eq!(rig.len(), 1);
    }
    let mut passing = small("unmatched = \"pass\"");
    let ask = probe(protocol::ICMP, "192.0.2.9:9", "203.0.113.1:0");
    assert_eq!(told(&mut passing, 0, ask), "request 9 192.0.2.9 > 203.0.113.1");
    assert_eq!(told(&mut passing, 0, reply("10.0.0.1", "192.0.2.9", 70)), "no-mapping");
}

/// The issue: with `other_protocols = "pass"` inside addresses got out.
#[test]
fn nothing_of_icmp_tells_an_inside_address() {
    let options = "external = [\"203.0.113.1\"]\nother_protocols = \"pass\"\nunmatched = \"pass\"";
    let mut rig = Rig::new(function::<Nat>(options));
    let is_inside = |addr: Addr| addr.to_v4().is_some_and(|addr| addr[0] == 10);
    let mut went_out = 0;
    for headers in nf::sample_headers(3).filter(|headers| headers.is_well_formed()).take(100_000) {
        let is_out = is_inside(headers.src) && !is_inside(headers.dst);
        if headers.protocol == protocol::ICMP
            && is_out
            && headers.dst.to_v4() != Some([203, 0, 113, 1])
            && rig.packet(0, &headers) == Verdict::Forward
        {
            let mut sent = headers;
            rig.edits().apply_to_headers(&mut sent);
            assert_eq!(sent.src, Addr::v4([203, 0, 113, 1]), "{headers:?}");
            went_out += 1;
        }
    }
    assert!(went_out > 10, "{went_out}");
}
