//! ICMP errors about balanced flows, byte for byte, over IPv4 and IPv6. Packets are built by etherparse, and their
//! checksums, quoted ones too, are computed by it when they leave.

use core::net::IpAddr;

use etherparse::PacketBuilder;
use nf::Connection;
use wire::LinkType;

use super::*;

/// Where answers get the service's address.
type LoadBalancer = super::super::LoadBalancer<Connection>;

fn rig(options: &str) -> Rig<LoadBalancer> {
    Rig::new(function(options))
}

/// An end of a flow.
type End = (IpAddr, u16);

fn end(text: &str) -> End {
    let end: core::net::SocketAddr = text.parse().unwrap();
    (end.ip(), end.port())
}

const SERVICES: &str = r#"
    rewrite_answers = true
    [[services]]
    vip = "198.51.100.10"
    port = 80
    backends = [{ address = "10.0.0.10", port = 8080 }, { address = "10.0.0.11", port = 8080 }, { address = "10.0.0.12", port = 8080 }]
    [[services]]
    vip = "198.51.100.10"
    port = 53
    protocol = "udp"
    backends = [{ address = "10.0.0.10", port = 5353 }]
    [[services]]
    vip = "2001:db8:5::10"
    port = 80
    backends = [{ address = "2001:db8:1::10", port = 8080 }, { address = "2001:db8:1::11", port = 8080 }]
"#;

/// TCP or UDP from one end to another.
fn packet(is_tcp: bool, (src, src_port): End, (dst, dst_port): End) -> Vec<u8> {
    let mut bytes = Vec::new();
    macro_rules! finish {
        ($builder:expr) => {
            match is_tcp {
                true => $builder.tcp(src_port, dst_port, 7, 1_000).syn().write(&mut bytes, b"probe").unwrap(),
                false => $builder.udp(src_port, dst_port).write(&mut bytes, b"probe").unwrap(),
            }
        };
    }
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => finish!(PacketBuilder::ipv4(src.octets(), dst.octets(), 64)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => finish!(PacketBuilder::ipv6(src.octets(), dst.octets(), 64)),
        _ => panic!("two families"),
    }
    bytes
}

/// "Packet too big", or "port unreachable", about a packet, of which it quotes so many bytes behind the IP header.
fn error(is_too_big: bool, src: IpAddr, dst: IpAddr, about: &[u8], quoted: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (code, rest) = if is_too_big { (4, [0, 0, 5, 0]) } else { (3, [0; 4]) };
            let builder = PacketBuilder::ipv4(src.octets(), dst.octets(), 64).icmpv4_raw(3, code, rest);
            builder.write(&mut bytes, &about[..about.len().min(20 + quoted)]).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (kind, code, rest) = if is_too_big { (2, 0, [0, 0, 5, 0]) } else { (1, 4, [0; 4]) };
            let builder = PacketBuilder::ipv6(src.octets(), dst.octets(), 64).icmpv6_raw(kind, code, rest);
            builder.write(&mut bytes, &about[..about.len().min(40 + quoted)]).unwrap();
        }
        _ => panic!("two families"),
    }
    bytes
}

/// The packet as it leaves.
fn sent<K: Followed>(rig: &mut Rig<super::super::LoadBalancer<K>>, mut bytes: Vec<u8>) -> Vec<u8> {
    let headers = wire::parse(LinkType::RawIp, &bytes, bytes.len() as u32);
    assert!(headers.is_well_formed(), "{headers:?}");
    assert_eq!(rig.packet(0, &headers), PASS);
    let mut frame = 0..bytes.len();
    wire::apply(rig.edits(), &headers, LinkType::RawIp, &mut bytes, &mut frame).unwrap();
    bytes
}

fn ends(bytes: &[u8]) -> [End; 2] {
    let headers = wire::parse(LinkType::RawIp, bytes, bytes.len() as u32);
    [(headers.src.into(), headers.src_port), (headers.dst.into(), headers.dst_port)]
}

/// A client, the service, an address of a router on the client's side, and one on the backends' side.
const WAYS: [(bool, &str, &str, &str, &str); 3] = [
    (true, "203.0.113.2:40000", "198.51.100.10:80", "192.0.2.1", "10.0.0.1"),
    (false, "203.0.113.2:40000", "198.51.100.10:53", "192.0.2.1", "10.0.0.1"),
    (true, "[2001:db8:2::2]:40000", "[2001:db8:5::10]:80", "2001:db8:9::1", "2001:db8:1::1"),
];

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// From a client, and from a router on the way to it, about what the service sent: to the backend, as that knows the flow.
#[test]
fn errors_to_the_service_go_to_the_backend() {
    for policy in ["maglev", "random"] {
        for (is_tcp, client, service, router, _) in WAYS {
            let mut backends = Vec::new();
            for port in 0..40 {
                let mut rig = rig(&format!("policy = \"{policy}\"\n{SERVICES}")).with_seed(5);
                let (client, service) = ((end(client).0, 40_000 + port), end(service));
                let [_, backend] = ends(&sent(&mut rig, packet(is_tcp, client, service)));
                let answer = packet(is_tcp, backend, client);
                let left = sent(&mut rig, answer.clone());
                assert_eq!(left, packet(is_tcp, service, client));
                for (is_too_big, from) in [(true, addr(router)), (false, client.0)] {
                    for quoted in [8, 500] {
                        let came = error(is_too_big, from, service.0, &left, quoted);
                        let expected = error(is_too_big, from, backend.0, &answer, quoted);
                        assert_eq!(sent(&mut rig, came), expected, "{policy} {from} {quoted}");
                    }
                }
                assert_eq!((rig.event("errors-translated"), rig.len()), (4, 1));
                backends.push(backend);
            }
            backends.sort();
            backends.dedup();
            assert!(backends.len() > 1 || !is_tcp, "{backends:?}");
        }
    }
}

/// From a backend, and from a router before it, about what a client sent: from the service, as the client knows the flow.
#[test]
fn errors_from_a_backend_come_from_the_service() {
    for (is_tcp, client, service, _, router) in WAYS {
        let mut rig = rig(SERVICES);
        let (client, service) = (end(client), end(service));
        let asked = packet(is_tcp, client, service);
        let passed = sent(&mut rig, asked.clone());
        let [_, backend] = ends(&passed);
        for (is_too_big, from) in [(true, addr(router)), (false, backend.0)] {
            for quoted in [8, 500] {
                let came = error(is_too_big, from, client.0, &passed, quoted);
                let expected = error(is_too_big, service.0, client.0, &asked, quoted);
                assert_eq!(sent(&mut rig, came), expected, "{from} {quoted}");
            }
        }
        assert_eq!(rig.event("errors-translated"), 4);
    }
}

#[test]
fn other_icmp_passes_as_it_is() {
    let mut rig = rig(SERVICES);
    let mut silent = super::rig(&SERVICES.replace("rewrite_answers = true", ""));
    for (is_tcp, client, service, router, _) in WAYS {
        let (client, service) = (end(client), end(service));
        let elsewhere = (service.0, service.1 + 1);
        let about_another = error(true, addr(router), service.0, &packet(is_tcp, elsewhere, client), 500);
        let of_no_backend =
            error(false, addr(router), client.0, &packet(is_tcp, client, (addr(router), 8_080)), 500);
        let cut = error(true, addr(router), service.0, &packet(is_tcp, service, client), 6);
        for came in [about_another, of_no_backend, cut] {
            assert_eq!(sent(&mut rig, came.clone()), came);
        }
        let [_, backend] = ends(&sent(&mut silent, packet(is_tcp, client, service)));
        let of_a_backend = error(false, backend.0, client.0, &packet(is_tcp, client, backend), 500);
        assert_eq!(sent(&mut silent, of_a_backend.clone()), of_a_backend);
    }
    assert_eq!((rig.event("errors-translated"), silent.event("errors-translated")), (0, 0));
}

/// A direct connection's, from either end: as they came. Over IPv4 an error tells which connection it is about.
#[test]
fn errors_about_direct_connections_pass_as_they_are() {
    let mut rig = rig(SERVICES);
    let (client, backend) = (end("203.0.113.2:40000"), end("10.0.0.11:8080"));
    let there = packet(true, client, backend);
    assert_eq!(sent(&mut rig, there.clone()), there);
    let back = packet(true, backend, client);
    for (about, from, to) in [(&there, backend.0, client.0), (&back, client.0, backend.0)] {
        let error = error(false, from, to, about, 8);
        assert_eq!(sent(&mut rig, error.clone()), error);
    }
    assert_eq!((rig.event("errors-translated"), rig.event("direct-flows")), (0, 1));
}

/// The hash would send errors to another backend than turns have sent the flow to.
#[test]
fn errors_from_a_client_go_to_the_backend_that_has_its_flow() {
    let mut rig = rig(&format!("policy = \"round-robin\"\n{SERVICES}"));
    let service = end("198.51.100.10:80");
    for port in 40_000..40_012 {
        let client = (addr("203.0.113.2"), port);
        let [_, backend] = ends(&sent(&mut rig, packet(true, client, service)));
        let came = error(false, client.0, service.0, &packet(true, service, client), 8);
        let expected = error(false, client.0, backend.0, &packet(true, backend, client), 8);
        assert_eq!(sent(&mut rig, came), expected, "{port}");
    }
}
