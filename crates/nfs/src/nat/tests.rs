//! Tests of the NAT.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::string::String;
use std::vec::Vec;

use nf::{Rig, Verdict};
use wire::{Headers, Marks, protocol, tcp_flags};
use zerocopy::IntoBytes;

use super::*;
use crate::test_util::{function, ms, not_ip, option_error, tcp_v6};

mod checksums;
mod fixed;
mod fragments;
mod hosts;
mod icmp;
mod model;
mod phases;
mod preserve;
mod requirements;

/// Eight ports, in turn: which one a mapping gets can be told by hand.
const SMALL: &str = r#"
    inside = ["10.0.0.0/8"]
    external = ["203.0.113.1"]
    ports = [1024, 1031]
    port_choice = "in-turn"
"#;

fn small(more: &str) -> Rig<Nat> {
    Rig::new(function(&format!("{SMALL}\n{more}")))
}

fn packet(protocol: u8, src: &str, dst: &str) -> Headers {
    let end = |text: &str| -> (Addr, u16) {
        let end: SocketAddrV4 = text.parse().unwrap();
        (Addr::v4(end.ip().octets()), end.port())
    };
    let ((src, src_port), (dst, dst_port)) = (end(src), end(dst));
    Headers { src, dst, src_port, dst_port, protocol, marks: Marks::IPV4, ..Headers::default() }
}

fn udp(src: &str, dst: &str) -> Headers {
    packet(protocol::UDP, src, dst)
}

fn tcp(flags: u8, src: &str, dst: &str) -> Headers {
    Headers { tcp_flags: flags, ..packet(protocol::TCP, src, dst) }
}

/// A replica that is rebuilt gives out what the other would have, and the other hears nothing of it.
#[test]
fn a_clone_of_the_pool_shares_nothing_with_it() {
    let nat: Nat = function(SMALL);
    let mut pool = nat.pool();
    let (host, other) = (([10, 0, 0, 1], 4000), ([10, 0, 0, 2], 4000));
    let wanted = |inside| ports::Wanted {
        protocol: protocol::UDP,
        inside,
        keeps_port: false,
        random: None,
        now_ns: 0,
        deadline_ns: 100,
    };
    let first = pool.take(&wanted(host)).unwrap().external;
    let mut copy = pool.clone();
    let second = copy.take(&wanted(other)).unwrap().external;
    assert_eq!((copy.inside(first, 0), copy.inside(second, 0)), (Some(host), Some(other)));
    assert_eq!((pool.inside(first, 0), pool.inside(second, 0)), (Some(host), None));
    copy.set_deadline(first, 200);
    assert_eq!((copy.inside(first, 100), pool.inside(first, 100)), (Some(host), None));
    assert_eq!(pool.take(&wanted(other)).unwrap().external, second);
}

/// What becomes of a packet: its ends as it leaves, or why it does not.
fn outcome(rig: &mut Rig<Nat>, time_ms: u64, headers: &Headers) -> String {
    match rig.packet(ms(time_ms), headers) {
        Verdict::Forward => {
            let mut sent = *headers;
            rig.edits().apply_to_headers(&mut sent);
            format!("{}:{} > {}:{}", sent.src, sent.src_port, sent.dst, sent.dst_port)
        }
        Verdict::Drop(reason) => Nat::ABOUT.drop_reasons[usize::from(reason)].into(),
        other => panic!("{other:?}"),
    }
}

/// The external port that a packet leaves with.
fn port_of(rig: &mut Rig<Nat>, time_ms: u64, headers: &Headers) -> Option<u16> {
    (rig.packet(ms(time_ms), headers) == Verdict::Forward).then(|| {
        let mut sent = *headers;
        rig.edits().apply_to_headers(&mut sent);
        sent.src_port
    })
}

/// A UDP packet from an endpoint of its own for each number, all with even ports.
fn numbered(number: u16) -> Headers {
    let [high, low] = number.to_be_bytes();
    Headers { src: Addr::v4([10, 1, high, low]), ..udp("10.0.0.1:4000", "192.0.2.1:53") }
}

#[test]
fn golden() {
    const OUTSIDE: &str = "192.0.2.9:53";
    let mut rig = small("");
    let steps = [
        (udp("10.0.0.1:4000", OUTSIDE), "203.0.113.1:1024 > 192.0.2.9:53"),
        (udp(OUTSIDE, "203.0.113.1:1024"), "192.0.2.9:53 > 10.0.0.1:4000"),
        (udp("10.0.0.2:4000", OUTSIDE), "203.0.113.1:1026 > 192.0.2.9:53"),
        (udp("10.0.0.2:4001", OUTSIDE), "203.0.113.1:1025 > 192.0.2.9:53"),
        (tcp(tcp_flags::SYN, "10.0.0.2:4000", OUTSIDE), "203.0.113.1:1024 > 192.0.2.9:53"), // TCP's own ports
        (tcp(tcp_flags::ACK, OUTSIDE, "203.0.113.1:1024"), "192.0.2.9:53 > 10.0.0.2:4000"),
        (udp(OUTSIDE, "203.0.113.1:1026"), "192.0.2.9:53 > 10.0.0.2:4000"),
        (udp(OUTSIDE, "203.0.113.1:1028"), "no-mapping"),
        (tcp(tcp_flags::SYN, OUTSIDE, "203.0.113.1:1026"), "no-mapping"), // UDP's only
        (udp(OUTSIDE, "203.0.113.1:1023"), "no-mapping"),                 // out of the range, both ways
        (udp(OUTSIDE, "203.0.113.1:1032"), "no-mapping"),
        (udp(OUTSIDE, "203.0.113.1:0"), "no-mapping"),
        (udp("10.0.0.1:4000", "10.0.0.2:53"), "10.0.0.1:4000 > 10.0.0.2:53"), // stays inside
        (udp("192.0.2.9:53", "198.51.100.1:53"), "192.0.2.9:53 > 198.51.100.1:53"), // stays outside
        (udp("192.0.2.9:53", "10.0.0.1:4000"), "192.0.2.9:53 > 10.0.0.1:4000"), // not this one's business
    ];
    for (packet, expected) in steps {
        assert_eq!(outcome(&mut rig, 0, &packet), expected, "{packet:?}");
    }
    let events = ["mappings-made", "parity-lost", "packets-out", "packets-in", "packets-hairpinned"];
    assert_eq!(events.map(|event| rig.event(event)), [4, 0, 4, 3, 0]);
    assert_eq!(rig.len(), 4);
}

#[test]
fn what_is_not_translated() {
    let sctp = packet(protocol::SCTP, "10.0.0.1:9", "192.0.2.1:9");
    let back = packet(protocol::SCTP, "192.0.2.1:9", "203.0.113.1:9");
    let mut rig = small("");
    for other in [sctp, back] {
        assert_eq!(outcome(&mut rig, 0, &other), "untranslated");
    }
    let home = packet(protocol::SCTP, "10.0.0.1:9", "10.0.0.2:9");
    assert_eq!(outcome(&mut rig, 0, &home), "10.0.0.1:9 > 10.0.0.2:9");

    let mut passing = small("other_protocols = \"pass\"");
    assert_eq!(outcome(&mut passing, 0, &sctp), "10.0.0.1:9 > 192.0.2.1:9");
    assert_eq!(outcome(&mut passing, 0, &back), "192.0.2.1:9 > 203.0.113.1:9");

    let whole = udp("10.0.0.1:4000", "192.0.2.1:53");
    let first = Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..whole };
    let later = Headers { marks: Marks::IPV4 | Marks::LATER_FRAGMENT, src_port: 0, dst_port: 0, ..whole };
    let inbound = Headers { marks: later.marks, ..udp("192.0.2.1:0", "203.0.113.1:0") };
    for fragment in [first, later, inbound] {
        assert_eq!(outcome(&mut rig, 0, &fragment), "fragment");
    }
    assert!(rig.is_empty() && passing.is_empty(), "none of these makes a mapping");

    for untouched in [not_ip(), tcp_v6(1)] {
        assert_eq!(rig.packet(0, &untouched), Verdict::Forward);
        assert!(rig.edits().is_empty());
    }
}

#[test]
fn a_full_table_drops_the_packet_and_gives_the_port_back() {
    let nat: Nat = function(SMALL);
    let (mut edits, mut pool, mut events) = (Edits::NONE, nat.pool(), [0; 8]);
    for number in 0..100 {
        let meta = Nat::project(&numbered(number)).unwrap();
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        let mut flow = None;
        assert_eq!(nat.step(&mut flow, &meta, &mut cx), Verdict::Forward, "{number}");
        assert_eq!(nat.rejected(&flow.unwrap(), &meta, &mut cx), Verdict::Drop(TABLE_FULL));
    }
    let free: usize = pool.free().flatten().map(|(free, _)| free).sum();
    assert_eq!(free, 24, "eight for UDP, eight for TCP, eight for ICMP");
}

/// The queues have room for all their ports from the start on.
#[test]
fn the_pool_takes_no_memory_after_it_was_made() {
    let mut rig = small("");
    let capacities = |rig: &Rig<Nat>| -> Vec<usize> {
        rig.pool().free().flatten().map(|(_, capacity)| capacity).collect()
    };
    let before = capacities(&rig);
    for round in 0..40_u64 {
        for number in 0..12 {
            outcome(&mut rig, round * 400_000, &numbered(number));
        }
    }
    rig.wait_until(ms(100_000_000));
    assert_eq!(capacities(&rig), before);
}

#[test]
fn live_mappings_share_nothing_and_are_found_out_if_they_do() {
    let mut rig = small("");
    for number in 0..8 {
        assert!(port_of(&mut rig, 0, &numbered(number)).is_some());
    }
    rig.packet(0, &tcp(tcp_flags::SYN, "10.0.0.1:4000", "192.0.2.1:80"));
    let nat: Nat = function(SMALL);
    assert_eq!(nat.invariant(&mut rig.flows()), Ok(()));

    // Planted: a ninth, on the other core of a run, was given a port that is taken.
    let (first, state) = rig.flows().find(|(key, _)| key.protocol == protocol::UDP).unwrap();
    let stranger = SrcEndpoint { port: 9, ..*first };
    let mut flows = rig.flows().chain([(&stranger, state)]);
    let error = nat.invariant(&mut flows).unwrap_err();
    assert!(error.contains(&first.to_string()) && error.contains("udp 10.1.0.0:9"), "{error}");
    assert!(error.ends_with(&format!("both have 203.0.113.1:{}", state.port)), "{error}");
    let other_protocol = SrcEndpoint { protocol: protocol::TCP, ..stranger };
    let elsewhere = State { port: 1031, ..*state };
    assert_eq!(nat.invariant(&mut [(first, state), (&other_protocol, &elsewhere)].into_iter()), Ok(()));
}

#[test]
fn states_are_alike_but_for_the_allocation() {
    let nat: Nat = function(SMALL);
    let mut rig = small("");
    let states: BTreeSet<Vec<u8>> = (0..8)
        .map(|number| {
            rig.packet(0, &numbered(number));
            nat.without_allocation(rig.state(&numbered(number)).unwrap()).as_bytes().to_vec()
        })
        .collect();
    assert_eq!(states.len(), 1);
    rig.packet(0, &numbered(0));
    let twice = nat.without_allocation(rig.state(&numbered(0)).unwrap());
    assert!(!states.contains(twice.as_bytes()), "the rest still counts");
}

#[test]
fn packets_for_an_external_port_name_its_entry_ahead() {
    let (nat, rig) = (function::<Nat>(SMALL), small(""));
    let line = |headers: &Headers| nat.prefetch(None, &Nat::project(headers).unwrap(), rig.pool());
    let lines: Vec<*const u8> = (1024..=1031)
        .flat_map(|port| {
            let to = format!("203.0.113.1:{port}");
            [udp("192.0.2.1:53", &to), tcp(0, "10.0.0.1:4000", &to)]
        })
        .map(|headers| line(&headers))
        .collect();
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 16);
    assert!(!lines.contains(&core::ptr::null()));
    for other in ["203.0.113.1:1032", "203.0.113.1:0", "192.0.2.1:1024"] {
        assert!(line(&udp("10.0.0.1:4000", other)).is_null(), "{other}");
    }
}

#[test]
fn its_sides_are_those_of_its_options() {
    let nat: Nat = function(SMALL);
    let sides = nat.sides().expect("a NAT stands between two");
    let packet = udp("10.0.0.1:53", "203.0.113.1:1024");
    assert!(sides.inside.contains(packet.src) && !sides.inside.contains(packet.dst));
    assert!(sides.external.contains(packet.dst) && !sides.external.contains(packet.src));
}

#[test]
fn reports_ports_and_mappings() {
    let mut rig = Rig::new(function::<Nat>(&SMALL.replace("[\"203.", "[\"203.0.113.0\", \"203.")));
    let busy = udp("10.0.0.1:4000", "192.0.2.1:53");
    for _ in 0..3 {
        rig.packet(0, &busy);
    }
    rig.packet(0, &tcp(tcp_flags::SYN, "10.0.0.1:4001", "192.0.2.1:80"));
    let [ports, mappings] = rig.report().try_into().unwrap();
    assert_eq!(ports.title, "Ports in use now: 1 for UDP, 1 for TCP, 0 identifiers for ICMP");
    assert_eq!(ports.columns, ["external", "udp", "tcp", "icmp", "of_each"]);
    let mut rows = ports.rows;
    rows.sort_by_key(|row| row[1].clone());
    let [unused, used] = rows.try_into().unwrap();
    assert_eq!(
        (&unused[1..], &used[1..]),
        (&["0", "0", "0", "8"].map(String::from)[..], &["1", "1", "0", "8"].map(String::from)[..])
    );
    assert_eq!(mappings.title, "Top 2 of 2 mappings now, by packets");
    let address = &used[0];
    assert_eq!(mappings.rows[0], ["udp 10.0.0.1:4000", &format!("{address}:1024"), "datagrams", "3"]);
    assert_eq!(mappings.rows[1], ["tcp 10.0.0.1:4001", &format!("{address}:1025"), "opening", "1"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("inside = []", "`inside` is empty; name the prefixes to translate, such as \"10.0.0.0/8\""),
        ("inside = [\"2001:db8::/32\"]", "`inside` has \"2001:db8::/32\"; only IPv4 is translated"),
        (
            "inside = [\"10.0.0.1/8\"]",
            "`inside` has the prefix \"10.0.0.1/8\", which has bits set behind its length; write \"10.0.0.0/8\"",
        ),
        (
            "",
            "`external` is empty; name the IPv4 addresses that the inside hosts share outside, such as \
             \"203.0.113.1\"",
        ),
        ("external = [\"2001:db8::1\"]", "`external` has \"2001:db8::1\"; only IPv4 is translated"),
        (
            "external = [\"203.0.113.0/24\"]",
            "`external` has \"203.0.113.0/24\", which is no IPv4 address; write one like \"203.0.113.1\"",
        ),
        ("external = [\"203.0.113.1\", \"203.0.113.1\"]", "`external` has 203.0.113.1 twice"),
        (
            "external = [\"10.0.0.1\"]",
            "`external` has 10.0.0.1, which is inside too; take it out of one of them",
        ),
        (
            "external = [\"224.0.0.1\"]",
            "`external` has 224.0.0.1, to which no answer comes; name unicast addresses",
        ),
        (
            "external = [\"203.0.113.1\"]\nports = [0, 9]",
            "`ports` are 0 to 9; write the first and then the last, from 1 to 65535, such as [1024, 65535]",
        ),
        (
            "external = [\"203.0.113.1\"]\nports = [9, 8]",
            "`ports` are 9 to 8; write the first and then the last, from 1 to 65535, such as [1024, 65535]",
        ),
        (
            "external = [\"203.0.113.1\"]\nports = [1, 2, 3]",
            "`ports` has 3 ports; write the first and the last, such as [1024, 65535]",
        ),
        (
            "external = [\"203.0.113.1\"]\nudp_ms = 119999",
            "`udp_ms` must be at least 120000 (RFC 4787 REQ-5)",
        ),
        (
            "external = [\"203.0.113.1\"]\ntcp_established_ms = 7439999",
            "`tcp_established_ms` must be at least 7440000 (RFC 5382 REQ-5)",
        ),
        (
            "external = [\"203.0.113.1\"]\ntcp_transitory_ms = 239999",
            "`tcp_transitory_ms` must be at least 240000 (RFC 5382 REQ-5)",
        ),
        (
            "external = [\"203.0.113.1\"]\ntcp_closing_ms = 239999",
            "`tcp_closing_ms` must be at least 240000 (RFC 5382 REQ-5)",
        ),
        (
            "external = [\"203.0.113.1\"]\ntcp_opening_ms = 999",
            "`tcp_opening_ms` must be at least 1000 (or 0, as `tcp_transitory_ms`)",
        ),
        (
            "external = [\"203.0.113.1\"]\nicmp_ms = 59999",
            "`icmp_ms` must be at least 60000 (RFC 5508 REQ-2)",
        ),
    ] {
        assert_eq!(option_error::<Nat>(options), expected);
    }
    let many: Vec<String> = (0..257).map(|i| format!("\"203.0.{}.{}\"", i / 250, i % 250)).collect();
    assert_eq!(
        option_error::<Nat>(&format!("external = [{}]", many.join(","))),
        "`external` has 257 addresses; at most 256 are possible"
    );
    function::<Nat>(&format!("ports = [1, 1]\nexternal = [{}]", many[..256].join(",")));
    function::<Nat>("external = [\"203.0.113.1\"]\nudp_ms = 120000");
}
