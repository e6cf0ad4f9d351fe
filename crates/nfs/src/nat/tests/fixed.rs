//! Port forwards, and addresses that are of one host each.

use super::*;

const FIXED: &str = r#"
    forwards = [
        "tcp 203.0.113.1:443 to 10.0.0.5:8443",
        "udp 203.0.113.1:1024 to 10.0.0.5:53",
        "tcp 203.0.113.1:1025 to 10.0.0.6:1025",
    ]
    one_to_one = ["203.0.113.9 to 10.0.0.9"]
"#;
const PEER: &str = "192.0.2.9:5000";

fn query(src: &str, dst: &str) -> Headers {
    Headers { dst_port: 0, tcp_shape: 0x21, ..packet(protocol::ICMP, src, dst) }
}

fn answer(src: &str, dst: &str) -> Headers {
    Headers { src_port: 0, tcp_shape: 0x20 | Headers::ICMP_REPLY, ..packet(protocol::ICMP, src, dst) }
}

#[test]
fn golden_of_fixed_ends() {
    const SYN: u8 = tcp_flags::SYN;
    let mut rig = small(FIXED);
    let fragment = |packet: Headers| Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..packet };
    let steps = [
        // A forward, its answers, and what its endpoint begins itself: always the same external endpoint.
        (tcp(SYN, PEER, "203.0.113.1:443"), "192.0.2.9:5000 > 10.0.0.5:8443"),
        (tcp(SYN, "10.0.0.5:8443", PEER), "203.0.113.1:443 > 192.0.2.9:5000"),
        (udp(PEER, "203.0.113.1:1024"), "192.0.2.9:5000 > 10.0.0.5:53"),
        (udp("10.0.0.5:53", PEER), "203.0.113.1:1024 > 192.0.2.9:5000"),
        (udp(PEER, "203.0.113.1:443"), "no-mapping"), // TCP's only
        (fragment(tcp(0, PEER, "203.0.113.1:443")), "fragment"),
        // Another endpoint of the host, and other hosts: by mappings, which get no forward's port.
        (udp("10.0.0.5:54", PEER), "203.0.113.1:1026 > 192.0.2.9:5000"),
        (tcp(SYN, "10.0.0.7:4001", PEER), "203.0.113.1:1027 > 192.0.2.9:5000"),
        // One host's address: every port, ping both ways, every protocol, fragments too.
        (tcp(SYN, PEER, "203.0.113.9:22"), "192.0.2.9:5000 > 10.0.0.9:22"),
        (tcp(SYN, "10.0.0.9:22", PEER), "203.0.113.9:22 > 192.0.2.9:5000"),
        (query(PEER, "203.0.113.9:0"), "192.0.2.9:5000 > 10.0.0.9:0"),
        (answer("10.0.0.9:0", "192.0.2.9:7"), "203.0.113.9:0 > 192.0.2.9:7"),
        (query("10.0.0.9:7", PEER), "203.0.113.9:7 > 192.0.2.9:0"),
        (packet(47, PEER, "203.0.113.9:0"), "192.0.2.9:5000 > 10.0.0.9:0"),
        (packet(50, "10.0.0.9:0", PEER), "203.0.113.9:0 > 192.0.2.9:5000"),
        (fragment(udp("10.0.0.9:9", PEER)), "203.0.113.9:9 > 192.0.2.9:5000"),
        (fragment(udp(PEER, "203.0.113.9:9")), "192.0.2.9:5000 > 10.0.0.9:9"),
        (Headers { tcp_shape: 0x20, ..packet(protocol::ICMP, PEER, "203.0.113.9:0") }, "untranslated"),
        // Hairpinned: to a forward, and from its host, and both.
        (tcp(SYN, "10.0.0.7:4003", "203.0.113.1:443"), "203.0.113.1:1029 > 10.0.0.5:8443"),
        (tcp(SYN, "10.0.0.5:8443", "203.0.113.1:1029"), "203.0.113.1:443 > 10.0.0.7:4003"),
        (udp("10.0.0.9:6", "203.0.113.1:1024"), "203.0.113.9:6 > 10.0.0.5:53"),
        (udp("10.0.0.5:53", "203.0.113.9:6"), "203.0.113.1:1024 > 10.0.0.9:6"),
        (udp("10.0.0.9:6", "203.0.113.1:1031"), "no-mapping"),
        (query("10.0.0.9:6", "203.0.113.1:0"), "no-mapping"),
        (query("10.0.0.7:6", "203.0.113.9:0"), "203.0.113.1:1024 > 10.0.0.9:0"),
        (answer("10.0.0.9:0", "203.0.113.1:1024"), "203.0.113.9:0 > 10.0.0.7:6"),
        (udp("10.0.0.9:6", "10.0.0.5:53"), "10.0.0.9:6 > 10.0.0.5:53"), // stays inside
        (udp("192.0.2.9:6", "198.51.100.1:53"), "192.0.2.9:6 > 198.51.100.1:53"), // stays outside
    ];
    for (number, (packet, expected)) in steps.into_iter().enumerate() {
        let sent = outcome(&mut rig, 0, &packet);
        assert_eq!(sent, expected, "{number}");
    }
    let events = ["mappings-made", "packets-out", "packets-in", "packets-hairpinned"];
    assert_eq!(events.map(|event| rig.event(event)), [4, 15, 6, 6]);
    assert_eq!(rig.len(), 4, "what is fixed takes no room");
}

#[test]
fn without_hairpinning_nobody_inside_reaches_them() {
    let mut rig = small(&format!("{FIXED}\nhairpinning = false"));
    for to in ["203.0.113.1:1024", "203.0.113.9:1"] {
        for from in ["10.0.0.7:4003", "10.0.0.5:53", "10.0.0.9:1"] {
            assert_eq!(outcome(&mut rig, 0, &udp(from, to)), "no-mapping", "{from} {to}");
        }
    }
    assert_eq!((rig.len(), rig.event("packets-hairpinned")), (0, 0));
}

/// RFC 5508 REQ-4, REQ-5, REQ-7.
#[test]
fn errors_about_what_is_forwarded_are_translated() {
    let error = |protocol: u8, from: &str, about: (&str, &str), is_of_host: bool| {
        // It is about a packet that its receiver sent.
        let shape = match protocol {
            protocol::TCP => 4,
            _ => 5,
        };
        let quoted = packet(protocol, about.1, about.0);
        let src = packet(protocol, from, from).src;
        Headers {
            src,
            protocol: protocol::ICMP,
            tcp_shape: 0x20 | shape | if is_of_host { 0 } else { 8 },
            ..quoted
        }
    };
    let golden = |options: &str, headers: &Headers| outcome(&mut small(options), 0, headers);
    let probe = error(protocol::TCP, "192.0.2.1:0", ("203.0.113.1:443", PEER), false);
    assert!(matches!(probe.icmp_ports(), Some(wire::IcmpPorts::Error { protocol: protocol::TCP, .. })));
    assert_eq!(golden(FIXED, &probe), "192.0.2.1:5000 > 10.0.0.5:8443");
    let of_host = error(protocol::TCP, "10.0.0.5:0", (PEER, "10.0.0.5:8443"), true);
    assert_eq!(golden(FIXED, &of_host), "203.0.113.1:443 > 192.0.2.9:5000");
    let whole = error(protocol::UDP, "192.0.2.1:0", ("203.0.113.9:77", PEER), false);
    assert_eq!(golden(FIXED, &whole), "192.0.2.1:5000 > 10.0.0.9:77");
    let hairpinned = error(protocol::UDP, "10.0.0.5:0", ("203.0.113.9:6", "10.0.0.5:53"), true);
    assert_eq!(golden(FIXED, &hairpinned), "203.0.113.1:1024 > 10.0.0.9:6");
    let mut rig = small(FIXED);
    assert_eq!(outcome(&mut rig, 0, &hairpinned), "203.0.113.1:1024 > 10.0.0.9:6");
    let events = ["packets-out", "packets-in", "packets-hairpinned", "errors-translated"];
    assert_eq!(events.map(|event| rig.event(event)), [0, 0, 1, 1]);
    // Of a host without a mapping, to a forward that never wrote to it.
    let stranger = error(protocol::UDP, "10.0.0.7:0", ("203.0.113.1:1024", "10.0.0.7:9"), true);
    assert_eq!(golden(FIXED, &stranger), "no-mapping");
}

/// Whatever is asked for, a forward's port is given to nobody, with every choice of ports.
#[test]
fn a_forwards_port_is_handed_out_to_nobody() {
    for choice in ["in-turn", "random", "preserve"] {
        let options = SMALL.replace("in-turn", choice);
        let mut rig = Rig::new(function::<Nat>(&format!("{options}\n{FIXED}")));
        let mut got = BTreeSet::new();
        for number in 0..40_u16 {
            let src = format!("10.0.1.{number}:{}", 1020 + number % 16);
            got.extend(port_of(&mut rig, 0, &udp(&src, PEER)));
        }
        assert_eq!(got, (1025..=1031).collect(), "{choice}");
    }
}

#[test]
fn a_flow_that_was_known_before_follows_the_rules_of_a_fixed_receiver() {
    let mut rig = small(FIXED);
    assert_eq!(outcome(&mut rig, 0, &udp("10.0.0.7:4000", PEER)), "203.0.113.1:1026 > 192.0.2.9:5000");
    assert_eq!(
        outcome(&mut rig, 1, &udp("10.0.0.7:4000", "203.0.113.9:53")),
        "203.0.113.1:1026 > 10.0.0.9:53"
    );
    assert_eq!(outcome(&mut rig, 2, &udp("10.0.0.7:4000", PEER)), "203.0.113.1:1026 > 192.0.2.9:5000");
}

#[test]
fn its_sides_name_what_is_fixed() {
    let nat: Nat = function(&format!("{SMALL}\n{FIXED}"));
    let sides = nat.sides().expect("a NAT stands between two");
    let whole = Addr::v4([203, 0, 113, 9]);
    assert!(sides.external.contains(whole) && (Nat::EXTRAS.has_address)(&nat, whole));
    let directed = sides.fixed.directed(&tcp(0, PEER, "203.0.113.1:443"));
    assert_eq!((directed.dst, directed.dst_port), (Addr::v4([10, 0, 0, 5]), 8443));
    let other: Nat = function(SMALL);
    assert!(nat.keeps_flows(&nat).is_ok() && nat.keeps_flows(&other).is_err());
}

#[test]
fn fixed_ends_that_make_no_sense_are_refused() {
    let refused = |option: &str, texts: &str| -> String {
        option_error::<Nat>(&format!("{SMALL}\n{option} = [{texts}]"))
    };
    let forward = |text: &str, expected: &str| {
        let error = refused("forwards", &format!("\"{text}\""));
        assert!(error.starts_with("`forwards` has \"") && error.contains(expected), "{error}");
    };
    forward("tcp 203.0.113.1:443", "is no forward; write one like \"tcp 203.0.113.1:443 to 10.0.0.5:8443\"");
    forward(
        "gre 203.0.113.1:443 to 10.0.0.5:1",
        "begin with \"tcp\" or \"udp\", or give the host an address",
    );
    forward("tcp 203.0.113.1 to 10.0.0.5:1", "\"203.0.113.1\" has no port");
    forward("tcp 203.0.113.1:0 to 10.0.0.5:1", "\"0\" is no port; ports are 1 to 65535");
    forward("tcp 203.0.113.1:443 to 10.0.0.5:70000", "\"70000\" is no port");
    forward("tcp 203.0.113.2:443 to 10.0.0.5:1", "203.0.113.2 is none of `external`; add it there");
    forward("tcp 203.0.113.1:443 to 192.0.2.1:1", "192.0.2.1 is not inside; add it to `inside`");
    forward("tcp [2001:db8::1]:443 to 10.0.0.5:1", "\"[2001:db8::1]\" is no IPv4 address; only IPv4");
    forward("tcp www:443 to 10.0.0.5:1", "\"www\" is no IPv4 address; write one like");
    let one_to_one = |text: &str, expected: &str| {
        let error = refused("one_to_one", &format!("\"{text}\""));
        assert!(error.starts_with("`one_to_one` has \"") && error.contains(expected), "{error}");
    };
    one_to_one("203.0.113.9", "is no pair of addresses; write one like \"203.0.113.9 to 10.0.0.9\"");
    one_to_one("203.0.113.1 to 10.0.0.9", "203.0.113.1 is one of `external`, whose ports others get");
    one_to_one("10.0.0.9 to 203.0.113.9", "10.0.0.9 is inside; name an address of the outside first");
    one_to_one("203.0.113.9 to 192.0.2.1", "192.0.2.1 is not inside");
    one_to_one("224.0.0.1 to 10.0.0.9", "no answer comes to 224.0.0.1");
    one_to_one("203.0.113.9 to 2001:db8::1", "only IPv4 is translated");
    for (option, texts, expected) in [
        (
            "forwards",
            "\"tcp 203.0.113.1:443 to 10.0.0.5:1\", \"tcp 203.0.113.1:443 to 10.0.0.6:1\"",
            "`forwards` has tcp 203.0.113.1:443 twice; one host gets what is sent there",
        ),
        (
            "forwards",
            "\"tcp 203.0.113.1:443 to 10.0.0.5:1\", \"tcp 203.0.113.1:444 to 10.0.0.5:1\"",
            "`forwards` leads to tcp 10.0.0.5:1 from two external ends, and its answers could leave with one of them \
             alone; give it a second port or address inside",
        ),
        (
            "one_to_one",
            "\"203.0.113.8 to 10.0.0.9\", \"203.0.113.9 to 10.0.0.9\"",
            "`one_to_one` leads to 10.0.0.9 from two external ends, and its answers could leave with one of them alone; \
             give it a second port or address inside",
        ),
    ] {
        assert_eq!(refused(option, texts), expected);
    }
    let both = option_error::<Nat>(&format!(
        "{SMALL}\none_to_one = [\"203.0.113.9 to 10.0.0.9\"]\nforwards = [\"udp 203.0.113.1:9 to 10.0.0.9:9\"]"
    ));
    assert!(
        both.starts_with("`forwards` has udp 203.0.113.1:9 to 10.0.0.9, which has an external"),
        "{both}"
    );
}

/// SYNs both ways announce no more; other packets, and those that stay on one side, are as they were.
#[test]
fn syns_that_cross_have_their_segment_size_lowered() {
    let nat = |more: &str| small(&format!("mss_clamp = 1452\n{more}"));
    let clamps = |rig: &mut Rig<Nat>, headers: &Headers| {
        assert_eq!(rig.packet(0, headers), Verdict::Forward);
        rig.edits().mss()
    };
    for more in ["", FIXED] {
        let mut rig = nat(more);
        let (syn, syn_ack) = (tcp_flags::SYN, tcp_flags::SYN | tcp_flags::ACK);
        assert_eq!(clamps(&mut rig, &tcp(syn, "10.0.0.1:4000", PEER)), Some(1452));
        assert_eq!(clamps(&mut rig, &tcp(tcp_flags::ACK, "10.0.0.1:4000", PEER)), None);
        assert_eq!(clamps(&mut rig, &tcp(syn, "10.0.0.1:4000", PEER)), Some(1452), "of a known endpoint");
        let port = port_of(&mut rig, 0, &tcp(0, "10.0.0.1:4000", PEER)).expect("its port");
        let external = format!("203.0.113.1:{port}");
        assert_eq!(clamps(&mut rig, &tcp(syn_ack, PEER, &external)), Some(1452));
        assert_eq!(clamps(&mut rig, &tcp(syn, "10.0.0.2:9", &external)), Some(1452), "hairpinned");
        assert_eq!(clamps(&mut rig, &tcp(syn, "10.0.0.1:4000", "10.0.0.2:80")), None);
        assert_eq!(clamps(&mut rig, &tcp(syn, PEER, "198.51.100.1:80")), None);
    }
    let mut rig = nat(FIXED);
    for (src, dst) in [(PEER, "203.0.113.1:443"), ("10.0.0.5:8443", PEER), (PEER, "203.0.113.9:1")] {
        assert_eq!(clamps(&mut rig, &tcp(tcp_flags::SYN, src, dst)), Some(1452), "{src} {dst}");
    }
    assert_eq!(clamps(&mut small(FIXED), &tcp(tcp_flags::SYN, "10.0.0.1:4000", PEER)), None, "off");
    let refused = option_error::<Nat>(&format!("{SMALL}\nmss_clamp = 535"));
    assert!(refused.starts_with("`mss_clamp` is 535; write at least 536"), "{refused}");
}
