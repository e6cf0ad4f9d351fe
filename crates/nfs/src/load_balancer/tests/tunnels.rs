//! Backends that get packets as they came: by their MAC address, in IP, in UDP. And pings.

use wire::{Tunnel, TunnelVia};

use super::*;

/// A service at 192.0.2.1:80 that forwards so.
fn forwards(forward: &str, backends: &str) -> String {
    let sources = "tunnel_sources = [\"192.0.2.254\", \"2001:db8::254\"]\n";
    let service = service(backends);
    format!("{sources}{}", service.replace("port = 80\n", &format!("port = 80\nforward = \"{forward}\"\n")))
}

fn address(text: &str) -> Addr {
    text.parse::<core::net::IpAddr>().unwrap().into()
}

#[test]
fn a_packet_goes_as_it_came_into_the_backends_tunnel() {
    for (forward, to, from, via) in [
        ("ipip", "10.9.0.1", "192.0.2.254", TunnelVia::Ip),
        ("ipip", "2001:db8::1", "2001:db8::254", TunnelVia::Ip),
        ("gue", "10.9.0.1", "192.0.2.254", TunnelVia::Udp(6_080)),
        ("gue", "2001:db8::1", "2001:db8::254", TunnelVia::Udp(6_080)),
    ] {
        let mut rig = rig(&forwards(forward, &format!("{{ address = \"{to}\" }}")));
        let mut expected = Edits::NONE;
        expected.set_tunnel(Tunnel { src: address(from), dst: address(to), via });
        // Each packet of the flow, by whichever way the step goes.
        for (packet, flags) in [SYN, ACK, ACK, FIN].into_iter().enumerate() {
            assert_eq!(rig.packet(packet as u64, &with_flags(flags, tcp(1))), PASS);
            assert_eq!(*rig.edits(), expected, "{forward} to {to}, packet {packet}");
            let mut headers = tcp(1);
            rig.edits().apply_to_headers(&mut headers);
            assert_eq!(headers, tcp(1), "functions behind it see the packet that came");
        }
        // A table without room.
        let balancer = function(&forwards(forward, &format!("{{ address = \"{to}\" }}")));
        assert_eq!(verdict_when_full::<LoadBalancer>(&balancer, &client(7)), PASS);
    }
    let mut rig = rig(&format!("gue_port = 5555\n{}", forwards("gue", "{ address = \"10.9.0.1\" }")));
    rig.packet(0, &tcp(1));
    assert_eq!(rig.edits().tunnel().map(|tunnel| tunnel.via), Some(TunnelVia::Udp(5_555)));
}

/// An IPv6 VIP with backends of either version.
#[test]
fn a_tunnel_takes_packets_of_either_version() {
    let options = forwards("ipip", "{ address = \"10.9.0.1\" }").replace("\"192.0.2.1\"", "\"2001:db8::80\"");
    let mut rig = rig(&options);
    let packet = Headers { dst: address("2001:db8::80"), dst_port: 80, marks: Marks::IPV6, ..tcp_v6(1) };
    assert_eq!(rig.packet(0, &packet), PASS);
    assert_eq!(rig.edits().tunnel().map(|tunnel| tunnel.dst), Some(address("10.9.0.1")));
}

/// With `forward = "mac"` an address names the backend, and is where it is checked.
#[test]
fn a_mac_address_alone_is_written_where_that_is_asked_for() {
    let backend = "{ address = \"10.9.0.1\", mac = \"02:00:00:00:00:0a\" }";
    let mut rig = rig(&forwards("mac", backend));
    rig.packet(0, &tcp(1));
    let mut expected = Edits::NONE;
    expected.set_dst_mac([2, 0, 0, 0, 0, 10]);
    assert_eq!(*rig.edits(), expected);
    // In a tunnel it is the next hop's.
    let mut rig = self::rig(&forwards("ipip", backend));
    rig.packet(0, &tcp(1));
    assert_eq!(rig.edits().dst_mac(), Some([2, 0, 0, 0, 0, 10]));
    assert!(rig.edits().tunnel().is_some());
}

/// What a backend behind a tunnel sends is nobody's answer: it comes from the VIP already, or is the backend's own.
#[test]
fn what_comes_from_a_backend_behind_a_tunnel_stays() {
    let options = format!("rewrite_answers = true\n{}", forwards("ipip", "{ address = \"10.9.0.1\" }"));
    let mut rig: Rig<super::super::LoadBalancer<nf::Connection>> = Rig::new(function(&options));
    let answer = Headers { src: address("10.9.0.1"), src_port: 80, dst_port: 4_000, ..tcp(1) };
    assert_eq!(rig.packet(0, &Headers { dst: address("10.0.0.9"), ..answer }), PASS);
    assert!(rig.edits().is_empty());
}

#[test]
fn forwards_that_make_no_sense_are_refused() {
    for (options, expected) in [
        (forwards("ipip", "{ mac = \"02:00:00:00:00:0a\" }"), "has no `address`, at which the tunnel"),
        (
            forwards("gue", "{ address = \"10.9.0.1\", port = 81 }"),
            "has a `port`, and `forward = \"gue\"` leaves",
        ),
        (forwards("mac", "{ address = \"10.9.0.1\" }"), "has no `mac`, to which `forward = \"mac\"` sends"),
        (forwards("ipip", "{ address = \"192.0.2.1\" }"), "is the service itself"),
        (
            service("{ address = \"2001:db8::1\" }"),
            "of another IP version than the service; `forward = \"ipip\"` or \"gue\" takes packets there as they are",
        ),
        (
            forwards("ipip", "{ address = \"10.9.0.1\" }").replace("\"192.0.2.254\", ", ""),
            "`tunnel_sources` has no IPv4 address for a tunnel to begin at; write one of this host's",
        ),
        (
            forwards("ipip", "{ address = \"2001:db8::1\" }").replace(", \"2001:db8::254\"", ""),
            "`tunnel_sources` has no IPv6 address",
        ),
        (
            format!("policy = \"round-robin\"\n{}", forwards("ipip", "{ address = \"10.9.0.1\" }")),
            "which `policy = \"round-robin\"` does not know",
        ),
        ("tunnel_sources = [\"0.0.0.0\"]".to_string(), "has the address 0.0.0.0, which is nobody's"),
        ("tunnel_sources = [\"10.0.0.1\", \"10.0.0.2\"]".to_string(), "has two addresses of one IP version"),
        ("gue_port = 0".to_string(), "`gue_port` is 0; write a port from 1 to 65535"),
    ] {
        let error = option_error::<LoadBalancer>(&options);
        assert!(error.contains(expected), "{options}: {error}");
    }
}

/// A flow goes on with its backend where a reload has another way to it.
#[test]
fn another_way_to_a_backend_keeps_its_flows() {
    let three = "{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }, { address = \"10.9.0.3\" }";
    let by_rewriting: LoadBalancer = function(&service(three));
    let in_tunnels: LoadBalancer = function(&forwards("ipip", three));
    assert_eq!(in_tunnels.keeps_flows(&by_rewriting), Ok(()));
    let mut rig = Rig::new(by_rewriting);
    rig.packet(0, &client(1));
    let before = *rig.state(&client(1)).expect("it was remembered");
    let mut flow = Some(before);
    let meta = <LoadBalancer as NetworkFunction>::project(&client(1)).expect("TCP");
    let (mut edits, mut pool, mut events) = (Edits::NONE, Turns::default(), [0; 7]);
    let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
    assert_eq!(in_tunnels.step(&mut flow, &meta, &mut cx), PASS);
    assert_eq!(flow.map(|state| state.backend_id), Some(before.backend_id));
}

/// An echo request, or another ICMP message, over IPv4 or IPv6.
fn icmp(to: &str, kind: u8, code: u8) -> Headers {
    let dst = address(to);
    let is_v4 = dst.to_v4().is_some();
    Headers {
        dst,
        protocol: if is_v4 { protocol::ICMP } else { protocol::ICMPV6 },
        marks: if is_v4 { Marks::IPV4 } else { Marks::IPV6 },
        seq: u32::from_be_bytes([kind, code, 0, 7]),
        src_port: 0,
        dst_port: 0,
        tcp_flags: 0,
        tcp_shape: 0,
        ..if is_v4 { tcp(1) } else { tcp_v6(1) }
    }
}

#[test]
fn a_ping_to_a_vip_is_answered_while_a_backend_takes_flows() {
    let answered = Verdict::Drop(PING_ANSWERED);
    let active = "[[services]]\nvip = \"192.0.2.1\"\nport = 80\nbackends = [{ address = \"10.9.0.1\" }]\n";
    let down = "[[services]]\nvip = \"192.0.2.1\"\nport = 81\nbackends = [{ address = \"10.9.0.1\", state = \"down\" }]\n";
    let v6 = "[[services]]\nvip = \"2001:db8::80\"\nport = 80\nbackends = [{ address = \"2001:db8::1\", weight = 0 }]\n";
    let range = "[[services]]\nvip = \"198.18.0.0/15\"\nport = 80\nbackends = [{ address = \"10.9.0.1\" }]\n";
    let all = format!("{down}{active}{v6}{range}");
    for (options, packet, expected) in [
        (&*all, icmp("192.0.2.1", 8, 0), answered),
        (&*all, icmp("2001:db8::80", 128, 0), Verdict::Drop(NO_BACKEND)),
        (&*v6.replace("weight = 0", "weight = 1"), icmp("2001:db8::80", 128, 0), answered),
        (down, icmp("192.0.2.1", 8, 0), Verdict::Drop(NO_BACKEND)),
        // A range is no address that a balancer has; a backend answers for itself.
        (&*all, icmp("198.18.0.1", 8, 0), PASS),
        (&*all, icmp("10.9.0.1", 8, 0), PASS),
        // A reply, a timestamp request, another code; and IPv6's number over IPv4.
        (&*all, icmp("192.0.2.1", 0, 0), PASS),
        (&*all, icmp("192.0.2.1", 13, 0), PASS),
        (&*all, icmp("192.0.2.1", 8, 1), PASS),
        (&*all, icmp("192.0.2.1", 128, 0), PASS),
        (&*format!("answer_pings = false\n{all}"), icmp("192.0.2.1", 8, 0), PASS),
    ] {
        let mut rig = rig(options);
        assert_eq!(rig.packet(0, &packet), expected, "{packet:?}");
        assert!(rig.edits().is_empty() && rig.state(&packet).is_none(), "it leaves no state");
    }
    let mut rig = rig(&all);
    for part in [Marks::FIRST_FRAGMENT, Marks::LATER_FRAGMENT] {
        let packet = icmp("192.0.2.1", 8, 0);
        let fragment = Headers { marks: packet.marks | part, ..packet };
        assert_eq!(rig.packet(0, &fragment), PASS, "a fragment is not answered");
    }
    let answers = LoadBalancer::EXTRAS.answers;
    let balancer = function::<LoadBalancer>(&all);
    let told: Vec<_> = (0..4).map(|reason| answers(&balancer, reason)).collect();
    assert_eq!(told, [None, None, None, Some(wire::AnswerTo::Ping)]);
}
