//! What RFC 4787 and RFC 5382 require, each by its number there.

use super::*;

/// RFC 4787 REQ-1, RFC 5382 REQ-1: endpoint-independent mapping.
#[test]
fn req_1_one_external_endpoint_for_all_peers() {
    for protocol in [protocol::UDP, protocol::TCP] {
        let mut rig = small("");
        for peer in ["192.0.2.1:53", "192.0.2.1:54", "198.51.100.7:53"] {
            let to = packet(protocol, "10.0.0.1:4000", peer);
            assert_eq!(outcome(&mut rig, 0, &to), format!("203.0.113.1:1024 > {peer}"));
        }
        assert_eq!(rig.len(), 1);
    }
}

/// RFC 4787 REQ-2: paired.
#[test]
fn req_2_one_external_address_for_all_of_a_host() {
    const ADDRESSES: usize = 5;
    let external: Vec<String> = (1..=ADDRESSES).map(|last| format!("\"203.0.113.{last}\"")).collect();
    let options = format!("external = [{}]", external.join(","));
    let mut rig = Rig::new(function::<Nat>(&options));
    let mut hosts_of: BTreeMap<Addr, usize> = BTreeMap::new();
    for host in 0..200 {
        let mut addresses = BTreeSet::new();
        for (port, protocol) in [(4000, 17), (4001, 17), (4000, 6), (9, 6), (53, 17)] {
            let src = format!("10.7.0.{host}:{port}");
            let packet = packet(protocol, &src, "192.0.2.1:80");
            assert_eq!(rig.packet(0, &packet), Verdict::Forward);
            let mut sent = packet;
            rig.edits().apply_to_headers(&mut sent);
            addresses.insert(sent.src);
        }
        assert_eq!(addresses.len(), 1, "host {host}");
        *hosts_of.entry(addresses.into_iter().next().unwrap()).or_default() += 1;
    }
    assert_eq!(hosts_of.len(), ADDRESSES);
    // 40 each, give or take three standard deviations.
    assert!(hosts_of.values().all(|hosts| (23..=57).contains(hosts)), "{hosts_of:?}");
}

/// When its own address is out of ports a host is refused, and others are not.
#[test]
fn req_2_an_address_that_is_out_of_ports_is_not_replaced() {
    let options = r#"external = ["203.0.113.1", "203.0.113.2"]
        ports = [1024, 1031]"#;
    let mut rig = Rig::new(function::<Nat>(options));
    let mut made: BTreeMap<u8, usize> = BTreeMap::new();
    for number in 0..40 {
        if rig.packet(0, &numbered(number)) == Verdict::Forward {
            *made.entry(rig.state(&numbered(number)).unwrap().address).or_default() += 1;
        }
    }
    assert_eq!(made, BTreeMap::from([(0, 8), (1, 8)]));
    let refused = (0..40).filter(|number| rig.state(&numbered(*number)).is_none()).count();
    assert_eq!(refused, 24);
}

/// RFC 4787 REQ-3, RFC 5382 REQ-7: a port is nobody else's, and when there is none there is none.
#[test]
fn req_3_no_port_is_given_twice() {
    let mut rig = small("");
    let ports: Vec<_> = (0..8).map(|number| port_of(&mut rig, 0, &numbered(number)).unwrap()).collect();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 8);
    assert!(ports.iter().all(|port| (1024..=1031).contains(port)));
    assert_eq!(outcome(&mut rig, 0, &numbered(8)), "no-port");
    assert!(rig.state(&numbered(8)).is_none());
    assert_eq!(rig.event("mappings-made"), 8);
    assert_eq!(port_of(&mut rig, 0, &numbered(3)), Some(ports[3]), "who has one keeps it");
    let syn = tcp(tcp_flags::SYN, "10.0.0.1:4000", "192.0.2.1:80");
    assert_eq!(port_of(&mut rig, 0, &syn), Some(1024), "TCP has ports of its own");
}

/// RFC 4787 REQ-4: port parity.
#[test]
fn req_4_parity_is_preserved_while_it_can_be() {
    for (choice, seed) in [("in-turn", 0), ("random", 1), ("random", 2)] {
        let options = SMALL.replace("in-turn", choice);
        let mut rig = Rig::new(function::<Nat>(&options)).with_seed(seed);
        for (src, parity) in [("10.0.0.1:4000", 0), ("10.0.0.1:4001", 1), ("10.0.0.2:7", 1)] {
            let port = port_of(&mut rig, 0, &udp(src, "192.0.2.1:53")).unwrap();
            assert_eq!(port % 2, parity, "{src}");
        }
        for number in 0..3 {
            assert_eq!(port_of(&mut rig, 0, &numbered(number)).unwrap() % 2, 0);
        }
        assert_eq!(rig.event("parity-lost"), 0);
        for number in 3..5 {
            assert_eq!(port_of(&mut rig, 0, &numbered(number)).unwrap() % 2, 1, "no even one is left");
        }
        assert_eq!(rig.event("parity-lost"), 2);
        assert_eq!(outcome(&mut rig, 0, &numbered(5)), "no-port");
    }
}

/// RFC 4787 REQ-5: five minutes by default, not less than two.
#[test]
fn req_5_a_mapping_lasts_until_it_was_idle_for_its_time() {
    let from = udp("10.0.0.1:4000", "192.0.2.1:53");
    let back = udp("192.0.2.1:53", "203.0.113.1:1024");
    for (options, timeout_ms) in [("", 300_000), ("udp_ms = 120000", 120_000)] {
        let mut rig = small(options);
        rig.packet(0, &from);
        assert_eq!(outcome(&mut rig, timeout_ms - 1, &back), "192.0.2.1:53 > 10.0.0.1:4000");
        assert_eq!(outcome(&mut rig, timeout_ms, &back), "no-mapping");
    }
}

/// RFC 4787 REQ-6: outbound packets refresh a mapping, inbound ones do not.
#[test]
fn req_6_outbound_packets_refresh() {
    let from = udp("10.0.0.1:4000", "192.0.2.1:53");
    let back = udp("192.0.2.1:53", "203.0.113.1:1024");
    let mut rig = small("");
    rig.packet(0, &from);
    for time_ms in (0..300_000).step_by(10_000) {
        assert_eq!(outcome(&mut rig, time_ms, &back), "192.0.2.1:53 > 10.0.0.1:4000");
    }
    assert_eq!(outcome(&mut rig, 300_000, &back), "no-mapping");

    rig.packet(ms(300_000), &from);
    let port = rig.state(&from).unwrap().port;
    for time_ms in [599_999, 899_998, 1_199_997] {
        assert_eq!(port_of(&mut rig, time_ms, &from), Some(port));
    }
    assert_eq!(rig.event("mappings-made"), 2);
}

/// RFC 4787 REQ-8, RFC 5382 REQ-3: endpoint-independent filtering.
#[test]
fn req_8_whoever_sends_to_a_mapping_gets_in() {
    let mut rig = small("");
    rig.packet(0, &udp("10.0.0.1:4000", "192.0.2.1:53"));
    for stranger in ["192.0.2.1:54", "198.51.100.99:9", "203.0.113.77:1024"] {
        let packet = udp(stranger, "203.0.113.1:1024");
        assert_eq!(outcome(&mut rig, 0, &packet), format!("{stranger} > 10.0.0.1:4000"));
    }
    assert_eq!(rig.len(), 1, "who comes from outside leaves no state");
}

/// RFC 4787 REQ-9a, RFC 5382 REQ-8: hairpinning with external source address and port.
#[test]
fn req_9_inside_hosts_meet_by_their_external_endpoints() {
    let mut rig = small("");
    let steps = [
        ("10.0.0.1:4000", "192.0.2.1:53", "203.0.113.1:1024 > 192.0.2.1:53"),
        ("10.0.0.2:5000", "203.0.113.1:1024", "203.0.113.1:1026 > 10.0.0.1:4000"), // mapped by this packet
        ("10.0.0.1:4000", "203.0.113.1:1026", "203.0.113.1:1024 > 10.0.0.2:5000"), // and answered
        ("10.0.0.1:4000", "203.0.113.1:1024", "203.0.113.1:1024 > 10.0.0.1:4000"), // to itself
        ("10.0.0.3:5000", "203.0.113.1:1028", "no-mapping"),
    ];
    for (src, dst, expected) in steps {
        assert_eq!(outcome(&mut rig, 0, &udp(src, dst)), expected, "{src} to {dst}");
    }
    assert_eq!(rig.len(), 2, "a packet to nobody takes no port");
    let events = ["packets-out", "packets-in", "packets-hairpinned"];
    assert_eq!(events.map(|event| rig.event(event)), [4, 0, 3]);

    let mut without = small("hairpinning = false");
    without.packet(0, &udp("10.0.0.1:4000", "192.0.2.1:53"));
    assert_eq!(outcome(&mut without, 0, &udp("10.0.0.2:5000", "203.0.113.1:1024")), "no-mapping");
}

/// Such as those to a server of the router itself.
#[test]
fn unmatched_packets_may_pass_as_they_are() {
    let mut rig = small("unmatched = \"pass\"");
    for (src, dst) in [("192.0.2.1:53", "203.0.113.1:22"), ("10.0.0.1:4000", "203.0.113.1:22")] {
        assert_eq!(outcome(&mut rig, 0, &udp(src, dst)), format!("{src} > {dst}"));
    }
    assert!(rig.is_empty());
}

/// RFC 5382 REQ-2: who opens, and both at once.
#[test]
fn req_2_of_tcp_every_way_to_open_a_connection() {
    const SYN: u8 = tcp_flags::SYN;
    const SYN_ACK: u8 = tcp_flags::SYN | tcp_flags::ACK;
    let (host, peer, external) = ("10.0.0.1:4000", "192.0.2.1:80", "203.0.113.1:1024");
    let out = format!("{external} > {peer}");
    let back = format!("{peer} > {host}");
    // Three-way handshake; simultaneous open (RFC 9293 §3.5); opened from outside, once it is mapped.
    let ways: [&[(u8, bool)]; 3] = [
        &[(SYN, true), (SYN_ACK, false), (tcp_flags::ACK, true)],
        &[(SYN, true), (SYN, false), (SYN_ACK, true), (SYN_ACK, false)],
        &[(SYN, true), (tcp_flags::RST, false), (SYN, false), (SYN_ACK, true), (tcp_flags::ACK, false)],
    ];
    for way in ways {
        let mut rig = small("");
        for (flags, is_out) in way {
            let (packet, expected) =
                if *is_out { (tcp(*flags, host, peer), &out) } else { (tcp(*flags, peer, external), &back) };
            assert_eq!(outcome(&mut rig, 0, &packet), *expected);
        }
    }
    // REQ-4: an unsolicited SYN is dropped in silence.
    assert_eq!(outcome(&mut small(""), 0, &tcp(SYN, peer, external)), "no-mapping");
}

/// A port that became free is taken last.
#[test]
fn freed_ports_are_reused_last() {
    let mut rig = small("");
    let take = |rig: &mut Rig<Nat>, time_ms, number| port_of(rig, time_ms, &numbered(number)).unwrap();
    assert_eq!(take(&mut rig, 0, 0), 1024);
    assert_eq!(take(&mut rig, 1, 1), 1026);
    rig.wait_until(ms(300_001)); // both are free again
    assert_eq!([2, 3, 4, 5].map(|number| take(&mut rig, 300_001, number)), [1028, 1030, 1024, 1026]);
    assert_eq!(rig.event("parity-lost"), 0);
}

#[test]
fn expired_mappings_give_their_ports_back() {
    let mut rig = small("");
    for round in 0..5_u64 {
        let number = |i: u16| numbered(100 * round as u16 + i);
        for i in 0..8 {
            assert!(port_of(&mut rig, round * 300_000, &number(i)).is_some(), "round {round}");
        }
        assert_eq!(outcome(&mut rig, round * 300_000, &number(8)), "no-port");
        assert_eq!(outcome(&mut rig, round * 300_000 + 299_999, &number(9)), "no-port");
    }
}

/// RFC 7857 §9: outsiders cannot guess the next one; and what was just freed is not among those drawn.
#[test]
fn random_ports_are_drawn_from_those_free_for_longest() {
    let options = SMALL.replace("in-turn", "random").replace("1031", "1151"); // 64 even ones
    let ports = |seed| -> Vec<u16> {
        let mut rig = Rig::new(function::<Nat>(&options)).with_seed(seed);
        (0..64).map(|number| port_of(&mut rig, 0, &numbered(number)).unwrap()).collect()
    };
    assert_eq!(ports(1), ports(1));
    assert_ne!(ports(1), ports(2));
    assert!(!ports(1).is_sorted());
    assert_eq!(ports(1).into_iter().collect::<BTreeSet<_>>().len(), 64, "all of them, each once");

    let mut rig = Rig::new(function::<Nat>(&options)).with_seed(3);
    let freed = port_of(&mut rig, 0, &numbered(0)).unwrap();
    rig.wait_until(ms(300_000));
    let next: Vec<u16> =
        (1..=32).map(|number| port_of(&mut rig, 300_000, &numbered(number)).unwrap()).collect();
    assert!(!next.contains(&freed), "half of the others come first");
}
