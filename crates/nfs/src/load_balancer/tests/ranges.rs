//! Services of more than one address or port.

use super::*;

fn range(vip: &str, port: &str, backends: &str) -> String {
    format!("[[services]]\nvip = \"{vip}\"\nport = {port}\nbackends = [{backends}]\n")
}

const ONE: &str = "{ address = \"10.9.0.1\" }";

/// The destination that a packet to `dst` and `port` leaves with, if it is another.
fn leaves(rig: &mut Rig<LoadBalancer>, dst: Addr, port: u16) -> Option<(Addr, u16)> {
    let mut headers = Headers { dst, dst_port: port, ..tcp(1) };
    if dst.to_v4().is_none() {
        headers.marks = Marks::IPV6;
    }
    assert_eq!(rig.packet(0, &headers), PASS);
    rig.edits().apply_to_headers(&mut headers);
    (!rig.edits().is_empty()).then_some((headers.dst, headers.dst_port))
}

fn v6(first: u16, last: u16) -> Addr {
    core::net::IpAddr::from([first, 0xdb8, 0, 0, 0, 0, 0, last]).into()
}

#[test]
fn a_range_holds_its_addresses_and_ports_and_no_others() {
    let options = range("198.18.0.0/15", "\"any\"", ONE)
        + &range("203.0.113.0/31", "53", "{ address = \"10.9.0.2\", port = 5353 }")
        + &range("192.0.2.7", "\"any\"", "{ address = \"10.9.0.3\", port = 7 }")
        + &range("2001:db8::/32", "\"any\"", "{ address = \"2001:db8:9::1\" }");
    let mut rig = rig(&options);
    let backend = |last| Addr::v4([10, 9, 0, last]);
    for (dst, port, expected) in [
        (Addr::v4([198, 18, 0, 0]), 1, Some((backend(1), 1))), // the port stays
        (Addr::v4([198, 19, 255, 255]), 65_535, Some((backend(1), 65_535))),
        (Addr::v4([198, 17, 255, 255]), 1, None),
        (Addr::v4([198, 20, 0, 0]), 1, None),
        (Addr::v4([203, 0, 113, 1]), 53, Some((backend(2), 5353))),
        (Addr::v4([203, 0, 113, 1]), 54, None),
        (Addr::v4([203, 0, 113, 2]), 53, None),
        (Addr::v4([192, 0, 2, 7]), 9, Some((backend(3), 7))),
        (Addr::v4([192, 0, 2, 8]), 9, None),
        (v6(0x2001, 5), 80, Some((core::net::IpAddr::from([0x2001, 0xdb8, 9, 0, 0, 0, 0, 1]).into(), 80))),
        (v6(0x2002, 5), 80, None),
    ] {
        assert_eq!(leaves(&mut rig, dst, port), expected, "{dst} port {port}");
    }
    let udp = Headers { dst: Addr::v4([198, 18, 0, 0]), protocol: protocol::UDP, ..tcp(1) };
    assert_eq!((rig.packet(0, &udp), rig.edits().is_empty()), (PASS, true));
    let titles: Vec<_> = rig.report().into_iter().map(|report| report.title).collect();
    assert_eq!(titles[0], "tcp 198.18.0.0/15 port any: 2 flows now, 2 packets");
    assert_eq!(titles[1], "tcp 203.0.113.0/31 port 53: 1 flows now, 1 packets");
    assert_eq!(rig.report()[0].rows[0][..2], ["10.9.0.1", "active"]);
}

/// One address and port come before ranges, and of ranges the first in the list.
#[test]
fn the_nearest_service_has_the_packet() {
    let backend = |last: u8| format!("{{ address = \"10.9.0.{last}\" }}");
    let options = range("0.0.0.0/0", "80", &backend(1))
        + &range("192.0.2.0/24", "\"any\"", &backend(2))
        + &range("192.0.2.1", "80", &backend(3))
        + &range("0.0.0.0/0", "\"any\"", &backend(4));
    let mut rig = rig(&options);
    for (dst, port, last) in
        [([192, 0, 2, 1], 80, 3), ([192, 0, 2, 2], 80, 1), ([192, 0, 2, 1], 81, 2), ([203, 0, 113, 1], 81, 4)]
    {
        for _ in 0..2 {
            let left = leaves(&mut rig, Addr::v4(dst), port);
            assert_eq!(left, Some((Addr::v4([10, 9, 0, last]), port)), "{dst:?} port {port}");
        }
    }
    assert_eq!(rig.len(), 4);
    assert_eq!(leaves(&mut rig, v6(0x2001, 1), 80), None);
}

/// The place of a flow's service is looked at first, and believed only if the packet is that service's.
#[test]
fn a_flow_finds_its_service_in_another_list() {
    let (here, there) = (service(ONE), range("203.0.113.1", "80", "{ address = \"10.9.0.9\" }"));
    for list in [format!("{there}{here}"), here.clone(), format!("{here}\n{there}")] {
        let mut flow = None;
        continued(&format!("{there}{here}"), &mut flow, &client(1));
        let begun = flow.unwrap();
        assert_eq!(begun.service, 1);
        let (verdict, edits, moved) = continued(&list, &mut flow, &with_flags(ACK, client(1)));
        assert_eq!((verdict, edits.is_empty(), moved), (PASS, false, 0));
        assert_eq!(flow.unwrap().backend_id, begun.backend_id);
        let mut headers = client(1);
        edits.apply_to_headers(&mut headers);
        assert_eq!(headers.dst, Addr::v4([10, 9, 0, 1]));
    }
    // Gone altogether: the packet is nobody's, even where another service has the same backend.
    for list in [there, range("203.0.113.1", "80", "{ address = \"10.9.0.1\" }")] {
        let mut flow = None;
        continued(&here, &mut flow, &client(1));
        assert!(continued(&list, &mut flow, &client(1)).1.is_empty());
    }
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let twice = range("10.0.0.0/8", "\"any\"", ONE).repeat(2);
    assert_eq!(
        option_error::<LoadBalancer>(&twice),
        "`services` name tcp 10.0.0.0/8 port any twice; give it all its backends in one place"
    );
    let answered = format!("rewrite_answers = true\n{}", range("192.0.2.1", "\"any\"", ONE));
    let error = option_error::<LoadBalancer>(&answered);
    assert!(
        error.starts_with("`rewrite_answers` cannot be true while tcp 192.0.2.1 port any is a service"),
        "{error}"
    );
    let itself = range("192.0.2.1", "\"any\"", "{ address = \"192.0.2.1\" }");
    let error = option_error::<LoadBalancer>(&itself);
    assert!(error.contains("service 192.0.2.1 port any that has a backend, number 1, that is the service"));
    for (vip, port, expected) in [
        ("192.0.2.1/24", "80", "vip has the prefix \"192.0.2.1/24\", which has bits set behind its length"),
        ("web", "80", "vip has the prefix \"web\", which is no IP prefix"),
        ("::/0", "80", "write \"2000::/3\" for all of the Internet"),
        ("::/80", "80", "which holds more than IPv6's addresses"),
        ("192.0.2.1", "\"all\"", "expected a port from 1 to 65535, or \"any\""),
        ("192.0.2.1", "65536", "expected a port from 1 to 65535, or \"any\""),
        ("192.0.2.1", "-1", "expected a port from 1 to 65535, or \"any\""),
    ] {
        let error = toml::from_str::<Options>(&range(vip, port, ONE)).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
    // One that holds no IPv4 address is fine, and so is IPv6 that is nearly mapped.
    toml::from_str::<Options>(&range("2000::/3", "80", "{ address = \"2001:db8::1\" }")).unwrap();
    toml::from_str::<Options>(&range("::1:0:0:0/80", "80", "{ address = \"2001:db8::1\" }")).unwrap();
}
