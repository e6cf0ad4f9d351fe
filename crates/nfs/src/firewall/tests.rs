//! Tests of the firewall: states, connections, errors about them, reloads.

use std::string::String;
use std::vec::Vec;

use nf::{FlowKey, Rig, Verdict};
use wire::{Addr, Headers, Marks, tcp_flags};

use super::*;
use crate::test_util::{function, icmp_error, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

mod classifier;
mod properties;
mod rates;
mod rule_texts;

const PASS: Verdict = Verdict::Forward;
const RULE: Verdict = Verdict::Drop(state::DROPPED_BY_RULE);
const REJECTED: Verdict = Verdict::Drop(state::REJECTED);
const DEFAULT: Verdict = Verdict::Drop(state::DROPPED_BY_DEFAULT);

const SYN: u8 = tcp_flags::SYN;
const SYN_ACK: u8 = tcp_flags::SYN | tcp_flags::ACK;
const ACK: u8 = tcp_flags::ACK;
const FIN: u8 = tcp_flags::FIN | tcp_flags::ACK;
const RST: u8 = tcp_flags::RST;

/// What nearly every list begins with.
const STATEFUL: [&str; 2] =
    ["accept any from any to any state established,related", "drop any from any to any state invalid"];

fn rig(options: &str) -> Rig<Firewall> {
    Rig::new(function(options))
}

/// The option `rules`.
fn rules(rules: &[&str]) -> String {
    format!("rules = {rules:?}\n")
}

/// The option `rules`: [`STATEFUL`], and these.
fn stateful(list: &[&str]) -> String {
    rules(&[&STATEFUL, list].concat())
}

/// A TCP packet with flags, and numbers that fit those of the other end in these tests: all are 1 behind the SYN.
fn with_flags(tcp_flags: u8, headers: Headers) -> Headers {
    let seq = u32::from(tcp_flags & SYN == 0);
    let ack = u32::from(tcp_flags & ACK != 0);
    // Headers of 20 bytes each, and a SYN without window scale.
    let tcp_shape = 5 << 4 | 15;
    let l3_len = if headers.marks.contains(Marks::IPV6) { 60 } else { 40 };
    let (l3_offset, l4_offset) = (14, 14 + l3_len - 20);
    let sack = ack;
    Headers { tcp_flags, seq, ack, sack, tcp_shape, l3_len, l3_offset, l4_offset, window: 1_000, ..headers }
}

fn udp(headers: Headers) -> Headers {
    Headers { protocol: protocol::UDP, ..headers }
}

fn from_outside(headers: Headers) -> Headers {
    Headers { marks: headers.marks | Marks::FROM_OUTSIDE, ..headers }
}

/// An ICMPv6 message of a type, or one of ICMP that is no query.
fn icmp(kind: u8, headers: Headers) -> Headers {
    let protocol = if headers.marks.contains(Marks::IPV6) { protocol::ICMPV6 } else { protocol::ICMP };
    Headers { protocol, src_port: 0, dst_port: 0, seq: u32::from(kind) << 24, ..headers }
}

/// An echo request of ICMP with an identifier.
fn ping(identifier: u16) -> Headers {
    Headers { src_port: identifier, tcp_shape: 0x20 | 1, ..icmp(8, tcp(1)) }
}

/// The reply to it.
fn pong(identifier: u16) -> Headers {
    Headers { dst_port: identifier, src_port: 0, tcp_shape: 0x20 | 2, ..icmp(0, back(tcp(1))) }
}

fn later_fragment(headers: Headers) -> Headers {
    Headers { src_port: 0, dst_port: 0, marks: headers.marks | Marks::LATER_FRAGMENT, ..headers }
}

/// The packet's answer.
fn back(headers: Headers) -> Headers {
    let Headers { src, dst, src_port, dst_port, .. } = headers;
    Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..headers }
}

fn at(number: u32, packet: &Headers, rig: &mut Rig<Firewall>) -> Verdict {
    rig.packet(ms(u64::from(number) * 1_000), packet)
}

/// 10.0.0.1 may connect to anyone, others to nobody.
#[test]
fn golden() {
    let mut rig = rig(&stateful(&["accept tcp from 10.0.0.1 to any flags syn,!ack state new"]));
    let invalid = with_flags(SYN | tcp_flags::FIN, tcp(1));
    let beyond = Headers { seq: 5_000_000, ..with_flags(ACK, tcp(1)) };
    let steps = [
        // s, packet, verdict, connections
        (0, back(with_flags(SYN_ACK, tcp(1))), RULE, 0), // too early: invalid
        (0, with_flags(ACK, tcp(1)), DEFAULT, 0),        // new, and no SYN
        (0, back(with_flags(SYN, tcp(1))), DEFAULT, 0),
        (1, with_flags(SYN, tcp(1)), PASS, 1),
        (1, with_flags(SYN, tcp(2)), DEFAULT, 1),
        (2, with_flags(SYN, tcp(1)), PASS, 1),
        (3, back(with_flags(SYN_ACK, tcp(1))), PASS, 1),
        (4, with_flags(ACK, tcp(1)), PASS, 1),
        (5, invalid, RULE, 1),
        (6, beyond, RULE, 1),
        (400_000, back(with_flags(ACK, tcp(1))), PASS, 1),
        (400_001, with_flags(FIN, tcp(1)), PASS, 1),
        (400_002, back(with_flags(RST, tcp(1))), PASS, 1),
        (400_003, with_flags(SYN, tcp(1)), PASS, 1),    // anew
        (400_004, with_flags(RST, tcp(1)), DEFAULT, 0), // nobody has answered: it is new, and no SYN
        (400_005, back(with_flags(ACK, tcp(1))), DEFAULT, 0),
    ];
    for (number, (time_s, packet, verdict, connections)) in (0..).zip(steps) {
        assert_eq!(at(time_s, &packet, &mut rig), verdict, "step {number}");
        assert_eq!(rig.len(), connections, "step {number}");
    }
    let counts = ["accepted", "related", "invalid", "untracked"].map(|name| rig.event(name));
    assert_eq!(counts, [2, 0, 3, 0]);
}

/// Strangers that no rule accepts leave nothing behind, however many they are.
#[test]
fn dropped_packets_take_no_room() {
    let mut rig = rig(&stateful(&["drop tcp from any to any port 22", "accept tcp from 10.0.0.1 to any"]));
    for port in 0..1_000 {
        for packet in [tcp(2), tcp_v6(2), udp(tcp(1)), Headers { dst_port: 22, ..tcp(1) }] {
            let packet = with_flags(SYN, Headers { src_port: port, ..packet });
            assert!(matches!(rig.packet(0, &packet), Verdict::Drop(_)), "{packet:?}");
        }
        assert!(matches!(rig.packet(0, &ping(port)), Verdict::Drop(_)));
    }
    assert!(rig.is_empty());
}

/// A rule is about packets, as in nftables: that a connection began says nothing of its answers.
#[test]
fn answers_pass_if_a_rule_accepts_them() {
    for (list, new, again, answer, later) in [
        (&["accept udp from 10.0.0.1 to any"][..], PASS, PASS, DEFAULT, PASS),
        (&["accept udp from 10.0.0.1 to any state new"], PASS, PASS, DEFAULT, DEFAULT),
        (&["accept udp from any to any state new", STATEFUL[0]], PASS, PASS, PASS, PASS),
        (
            &["drop udp from any port 80 to any state established", "accept any from any to any"],
            PASS,
            PASS,
            RULE,
            PASS,
        ),
        (&["accept udp from any to any state established"], DEFAULT, DEFAULT, DEFAULT, DEFAULT),
    ] {
        let mut rig = rig(&rules(list));
        let packets = [udp(tcp(1)), udp(tcp(1)), back(udp(tcp(1))), udp(tcp(1))];
        let found = packets.map(|packet| rig.packet(0, &packet));
        assert_eq!(found, [new, again, answer, later], "{list:?}");
        // What is kept says the same once more.
        assert_eq!(packets.map(|packet| rig.packet(0, &packet))[2..], [answer, later], "{list:?}");
    }
}

#[test]
fn without_pick_up_only_a_syn_is_new() {
    let list = rules(&["drop tcp from any to any state invalid", "accept tcp from any to any state new"]);
    let mut strict = rig(&format!("pick_up = false\n{list}"));
    assert_eq!(strict.packet(0, &with_flags(ACK, tcp(1))), RULE);
    assert_eq!(strict.packet(0, &with_flags(SYN, tcp(1))), PASS);
    assert_eq!(rig(&list).packet(0, &with_flags(ACK, tcp(1))), PASS);
    let mut liberal =
        rig(&format!("liberal = true\n{}", stateful(&["accept any from any to any state new"])));
    for packet in [with_flags(SYN, tcp(1)), back(with_flags(SYN_ACK, tcp(1))), with_flags(ACK, tcp(1))] {
        assert_eq!(liberal.packet(0, &packet), PASS);
    }
    assert_eq!(liberal.packet(0, &Headers { seq: 5_000_000, ..with_flags(ACK, tcp(1)) }), PASS);
}

/// RFC 1191: path MTU discovery needs what routers on the way say.
#[test]
fn errors_about_known_connections_are_related_and_leave_things_as_they_are() {
    const ROUTER: [u8; 4] = [198, 51, 100, 254];
    let server = tcp(1).dst.last4();
    let mut rig = rig(&stateful(&["accept tcp from 10.0.0.1 to any state new"]));
    for sender in [ROUTER, server] {
        assert_eq!(rig.packet(0, &icmp_error(sender, true)), RULE, "nobody knows the connection: invalid");
    }
    assert!(rig.is_empty());
    rig.packet(0, &with_flags(SYN, tcp(1)));
    let before = *rig.state(&tcp(1)).unwrap();
    for (sender, outside, verdict) in
        // What the last one is about cannot be looked up: untracked.
        [(ROUTER, true, PASS), (server, true, PASS), (server, false, PASS), (ROUTER, false, DEFAULT)]
    {
        assert_eq!(rig.packet(ms(119_000), &icmp_error(sender, outside)), verdict, "{sender:?} {outside}");
    }
    let about = |change: fn(Headers) -> Headers| change(icmp_error(ROUTER, true));
    for other in [
        about(|error| Headers { ack: error.ack + 1, ..error }),
        about(|error| Headers { src_port: 81, ..error }),
        about(|error| Headers { dst_port: 4001, ..error }),
        about(|error| Headers { dst: tcp(2).src, ..error }),
        about(|error| Headers { tcp_shape: error.tcp_shape | 1, ..error }),
    ] {
        assert_eq!(rig.packet(ms(119_000), &other), RULE, "{other:?}");
    }
    let after = rig.state(&tcp(1)).unwrap();
    assert_eq!((rig.len(), after.packets, after.rulings), (1, before.packets, before.rulings));
    assert_eq!(["related", "invalid", "untracked"].map(|name| rig.event(name)), [3, 7, 1]);
    // Sent by anyone, it keeps nothing alive.
    rig.wait_until(ms(120_000));
    assert!(rig.is_empty());
    // The rules judge the error itself, and it is no connection.
    let mut rig = self::rig(&rules(&[
        "accept tcp from any to any state new",
        "accept icmp from 198.51.100.0/24 to 10.0.0.0/8 type destination-unreachable state related",
    ]));
    rig.packet(0, &with_flags(SYN, tcp(1)));
    assert_eq!(rig.packet(0, &icmp_error(ROUTER, true)), PASS);
    assert_eq!(rig.packet(0, &icmp_error(server, true)), DEFAULT);
    assert_eq!(rig.packet(0, &Headers { seq: 0x0b00_0000, ..icmp_error(ROUTER, true) }), DEFAULT);
    assert_eq!(rig.len(), 1);
}

/// An ICMPv6 error as it is on the wire, of which the last `cut` bytes are missing: from `sender` to 2001:db8::1 (RFC 4443 §3), about
/// a TCP packet from port 4000 of host `about` to port 80 of 2001:db8::ff, with a header of options before TCP if asked for.
fn icmpv6_error(kind: u8, sender: u8, about: u8, has_options: bool, cut: usize) -> Headers {
    let addr = |last| tcp_v6(last).src.0;
    let ip = |next: u8, len: usize, from: u8, to: u8| {
        [&[0x60, 0, 0, 0, 0, len as u8, next, 64], &addr(from)[..], &addr(to)[..]].concat()
    };
    let (ports, rest) = ([0x0f, 0xa0, 0, 80], [0, 0, 0, 1]);
    let quoted = match has_options {
        false => [ip(protocol::TCP, 8, about, 255), ports.into(), rest.into()].concat(),
        true => {
            let options = [protocol::TCP, 0, 1, 4, 0, 0, 0, 0];
            [ip(60, 16, about, 255), options.into(), ports.into(), rest.into()].concat()
        }
    };
    let message = [&[kind, 4, 0, 0, 0, 0, 5, 0], &quoted[..quoted.len() - cut]].concat();
    let packet = [ip(protocol::ICMPV6, message.len(), sender, 1), message].concat();
    let headers = wire::parse(wire::LinkType::RawIp, &packet, packet.len() as u32);
    assert!(headers.is_well_formed() && headers.protocol == protocol::ICMPV6, "{headers:?}");
    headers
}

/// RFC 4443 §3, RFC 5927 §4: an error over IPv6 is related where the end that it quotes sent it.
#[test]
fn icmpv6_errors_about_known_connections_are_related() {
    let list = stateful(&["accept tcp from 2001:db8::1 to any state new"]);
    for kind in 1..=4 {
        let mut rig = rig(&list);
        let error = icmpv6_error(kind, 255, 1, false, 0);
        assert_eq!(Firewall::key(&Firewall::project(&error).unwrap()), Connection::of(&error));
        assert_eq!(rig.packet(0, &error), RULE, "nobody knows the connection: invalid");
        assert!(rig.is_empty());
        rig.packet(0, &with_flags(SYN, tcp_v6(1)));
        let before = *rig.state(&tcp_v6(1)).unwrap();
        for (error, verdict) in [
            (error, PASS),
            (from_outside(error), PASS),
            // Another port, another host's packet, a quote that is cut or has options, a router: not by this rule.
            (Headers { src_port: 81, ..error }, RULE),
            (Headers { dst_port: 4001, ..error }, RULE),
            (icmpv6_error(kind, 255, 2, false, 0), DEFAULT),
            (icmpv6_error(kind, 255, 1, false, 1), DEFAULT),
            (icmpv6_error(kind, 255, 1, true, 0), DEFAULT),
            (icmpv6_error(kind, 9, 1, false, 0), DEFAULT),
            (from_outside(icmpv6_error(kind, 9, 1, false, 0)), DEFAULT),
        ] {
            assert_eq!(rig.packet(ms(119_000), &error), verdict, "{error:?}");
        }
        let after = rig.state(&tcp_v6(1)).unwrap();
        assert_eq!((rig.len(), after.packets, after.rulings), (1, before.packets, before.rulings));
        assert_eq!(["related", "invalid", "untracked"].map(|name| rig.event(name)), [2, 3, 5]);
        // It keeps nothing alive.
        rig.wait_until(ms(120_000));
        assert!(rig.is_empty());
    }
    // The other direction: the host that answered sends it. The rules judge it by its own sender and type.
    let mut rig = rig(&rules(&[
        "accept tcp from any to any state new",
        "accept icmpv6 from 2001:db8::ff to 2001:db8::1 type destination-unreachable state related",
    ]));
    rig.packet(0, &back(with_flags(SYN, tcp_v6(1))));
    assert_eq!(rig.packet(0, &icmpv6_error(1, 255, 1, false, 0)), PASS);
    assert_eq!(rig.packet(0, &icmpv6_error(2, 255, 1, false, 0)), DEFAULT);
}

/// Where an answer finds its request, and where it does not.
#[test]
fn icmp_replies_belong_to_requests() {
    let list = stateful(&["accept 1 from any to any type echo-request state new"]);
    let mut rig = rig(&list);
    assert_eq!(rig.packet(0, &pong(7)), RULE);
    assert_eq!(rig.packet(0, &ping(7)), PASS);
    assert_eq!(rig.packet(0, &pong(8)), RULE);
    assert_eq!(rig.packet(0, &pong(7)), PASS);
    assert_eq!(rig.packet(0, &ping(7)), PASS, "established");
    assert_eq!(rig.packet(0, &icmp(9, tcp(1))), DEFAULT, "untracked");
    assert_eq!(rig.event("untracked"), 1);

    // Over IPv6 requests of both ends are of one connection, and each is judged.
    let [request, reply] = [128, 129].map(|kind| icmp(kind, tcp_v6(1)));
    let list = stateful(&["accept icmpv6 from 2001:db8::1 to any type echo-request state new"]);
    let mut strict = self::rig(&list);
    for (packet, verdict) in [
        (reply, RULE),
        (back(reply), RULE),
        (back(request), DEFAULT),
        (request, PASS),
        (back(reply), PASS),
        (back(request), DEFAULT),
        (reply, RULE),
        (icmp(2, tcp_v6(1)), DEFAULT),
        (icmp(128, udp(tcp_v6(2))), DEFAULT),
    ] {
        assert_eq!(strict.packet(0, &packet), verdict, "{packet:?}");
    }
    let mut both = self::rig(&stateful(&["accept icmp from any to any type echo-request state new"]));
    for packet in [request, back(request), back(reply), reply, request] {
        assert_eq!(both.packet(0, &packet), PASS, "{packet:?}");
    }
    assert_eq!(both.len(), 1);
    let packet_too_big = "accept icmpv6 from any to any type packet-too-big state untracked";
    assert_eq!(self::rig(&stateful(&[packet_too_big])).packet(0, &icmp(2, tcp_v6(1))), PASS);
}

#[test]
fn time_outs_are_those_of_the_protocol() {
    let options = stateful(&["accept any from any to any state new"]);
    let v6 = tcp_v6(1);
    for (packets, timeout_s) in [
        (std::vec![with_flags(SYN, tcp(1))], 120),
        (std::vec![with_flags(SYN, v6), back(with_flags(SYN_ACK, v6)), with_flags(ACK, v6)], 432_000),
        (std::vec![udp(tcp(1)), udp(tcp(1))], 30),
        (std::vec![udp(v6), back(udp(v6)), udp(v6)], 120),
        (std::vec![udp(v6), back(udp(v6)), udp(v6), back(udp(v6))], 120),
        (std::vec![ping(1), pong(1)], 30),
        (std::vec![Headers { protocol: 47, src_port: 0, dst_port: 0, ..tcp(1) }], 600),
    ] {
        let mut rig = rig(&options);
        for packet in &packets {
            assert_eq!(rig.packet(7, packet), PASS);
        }
        rig.wait_until(ms(1000 * timeout_s) - 1);
        assert_eq!(rig.len(), 1, "{packets:?}");
        rig.wait_until(ms(1000 * timeout_s) + 7);
        assert_eq!(rig.len(), 0, "{packets:?}");
    }
}

#[test]
fn without_rules_the_default_decides_and_arp_and_its_like_pass() {
    let solicitation = Headers { ttl: 255, ..icmp(135, tcp_v6(1)) };
    let routed = Headers { ttl: 254, ..solicitation };
    let mut drop = rig("");
    for (packet, verdict) in [
        (not_ip(), PASS),
        (solicitation, PASS),
        (Headers { ttl: 255, ..icmp(136, tcp_v6(1)) }, PASS),
        (routed, DEFAULT),
        (tcp(1), DEFAULT),
        (with_flags(SYN, tcp(1)), DEFAULT),
        (later_fragment(tcp(1)), DEFAULT),
    ] {
        assert_eq!(drop.packet(0, &packet), verdict, "{packet:?}");
    }
    assert!(drop.is_empty());
    let mut accept = rig("default = \"accept\"");
    for packet in [not_ip(), routed, with_flags(SYN, tcp(1)), udp(tcp_v6(1)), later_fragment(tcp(3)), pong(1)]
    {
        assert_eq!(accept.packet(0, &packet), PASS, "{packet:?}");
    }
    assert_eq!(accept.len(), 2);
}

#[test]
fn later_fragments_pass_where_their_first_one_might_or_its_answer() {
    let list = [
        STATEFUL[0],
        "drop udp from any to 192.0.2.1 port 53",
        "drop udp from 10.0.0.7 to any",
        "accept udp from 10.0.0.0/8 to 192.0.2.0/24 port 80 state new",
        "drop tcp from any to any flags syn state new",
        "accept icmp from 10.0.0.0/8 to any type echo-request",
        "drop any from any to any",
    ];
    let mut rig = rig(&rules(&list));
    for (packet, verdict) in [
        (udp(tcp(1)), PASS),       // port 80 it may be
        (back(udp(tcp(1))), PASS), // a large answer's
        (udp(tcp(7)), RULE),
        (tcp(1), RULE),
        (Headers { dst: Addr::v4([198, 51, 100, 1]), ..udp(tcp(1)) }, RULE),
        (icmp(8, tcp(1)), PASS),
        (icmp(0, back(tcp(1))), PASS),
    ] {
        assert_eq!(rig.packet(0, &later_fragment(packet)), verdict, "{packet:?}");
    }
    assert!(rig.is_empty());
    let sided = rules(&["accept udp from any to any in inside"]);
    let mut rig = self::rig(&sided);
    for packet in [udp(tcp(1)), from_outside(back(udp(tcp(1))))] {
        assert_eq!(rig.packet(0, &later_fragment(packet)), PASS, "{packet:?}");
    }
}

/// As with nftables: a rule that is added stops what goes on.
#[test]
fn after_a_reload_known_connections_meet_the_new_rules() {
    let open: Firewall = function(&stateful(&["accept any from any to any state new"]));
    let list = ["drop any from 10.0.0.1 to any", STATEFUL[0]];
    let shut = function::<Firewall>(&rules(&list)).following(&open).unwrap();
    let step = |firewall: &Firewall, flow: &mut Option<State>, packet: &Headers| {
        let meta = Firewall::project(packet).unwrap();
        let (mut edits, mut pool, mut events) = (Edits::NONE, firewall.buckets(), [0; 5]);
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        firewall.step(flow, &meta, &mut cx)
    };
    let talk = [udp(tcp(1)), back(udp(tcp(1))), udp(tcp(1)), back(udp(tcp(1)))];
    let mut flow = None;
    for packet in &talk {
        assert_eq!(step(&open, &mut flow, packet), PASS);
    }
    assert_eq!(flow.unwrap().rulings, [Ruling::Accept; 3]);
    let rule = |firewall: &Firewall, state: &State| firewall.state(state).remove(0).1;
    assert_eq!(rule(&open, &flow.unwrap()), "accept any from any to any state new".into());
    assert_eq!(rule(&shut, &flow.unwrap()), "one of an earlier chain file".into());
    let report = |firewall: &Firewall, state: &State| {
        let key = Connection::of(&talk[0]);
        let mut flows = [(&key, state)].into_iter();
        firewall.report(&mut flows, &EndedOf::<Firewall>::new(0), Stamp::default()).remove(0).rows
    };
    assert_eq!(report(&shut, &flow.unwrap())[3], ["earlier", "rules of an earlier chain file", "1", "4"]);
    for (packet, verdict) in talk.iter().zip([RULE, PASS, RULE, PASS]) {
        assert_eq!(step(&shut, &mut flow, packet), verdict);
    }
    assert_eq!(report(&shut, &flow.unwrap()).len(), 3);
    // Other time-outs are no other rules: what is known stays.
    let same =
        function::<Firewall>(&format!("udp_timeout_s = 9\n{}", rules(&list))).following(&shut).unwrap();
    assert_eq!(same.rules.number, shut.rules.number);
    // A set that has changed is another rule.
    let with_set = |set: &str| {
        let rules = rules(&["drop any from @bad to any", STATEFUL[0]]);
        function::<Firewall>(&format!("sets = {{ bad = [{set}] }}\n{rules}"))
    };
    let empty = with_set("").following(&open).unwrap();
    let (mut flow, full) = (None, with_set("\"10.0.0.1\"").following(&empty).unwrap());
    for packet in &talk {
        assert_eq!(step(&open, &mut flow, packet), PASS);
    }
    assert_eq!(step(&empty, &mut flow, &talk[0]), PASS);
    assert_eq!(step(&full, &mut flow, &talk[0]), RULE);
    assert!(with_set("").following(&full).unwrap().rules.number != full.rules.number);
}

#[test]
fn a_full_table_fails_closed_unless_told_otherwise() {
    let list = rules(&["accept tcp from 10.0.0.1 to any"]);
    let strict: Firewall = function(&list);
    let lax: Firewall = function(&format!("when_full = \"pass\"\n{list}"));
    let syn = with_flags(SYN, tcp(1));
    assert_eq!(verdict_when_full(&strict, &syn), Verdict::Drop(TABLE_FULL));
    assert_eq!(verdict_when_full(&lax, &syn), PASS);
}

#[test]
fn reports_connections_and_packets_by_rule() {
    let mut rig = rig(&rules(&["accept udp from 10.0.0.1 to any", "drop  udp from 10.0.0.2 to any"]));
    for packet in [tcp(1), back(tcp(1)), tcp(1), tcp(2), tcp(3)] {
        rig.packet(0, &udp(packet));
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Connections now: 1, by the rule that accepted them");
    assert_eq!(report.rows[0], ["1", "accept udp from 10.0.0.1 to any", "1", "3"]);
    assert_eq!(report.rows[1], ["2", "drop  udp from 10.0.0.2 to any", "0", "0"]);
    assert_eq!(report.rows[2], ["default", "drop what is left", "0", "0"]);
    assert_eq!(report.rows.len(), 3);
}

#[test]
fn only_rules_with_a_side_want_one() {
    let wants = |list: &[&str]| function::<Firewall>(&rules(list)).wants_sides();
    assert_eq!(wants(&["accept any from any to any"]), None);
    assert_eq!(wants(&["accept any from any to any in inside"]), Some("a rule with `in`"));
}

/// On interfaces nobody gets the benefit of doubt.
#[test]
fn live_it_is_strict() {
    assert!(function::<Firewall>("").live().is_some());
    assert!(function::<Firewall>("gaps = \"strict\"").live().is_none());
    assert!(function::<Firewall>("gaps = \"resync\"").live().is_none());
}

/// A rule with `log` is known by its drop reason, also for packets of a known connection, of none, and later fragments; verdicts
/// and counts are as without.
#[test]
fn packets_that_a_rule_with_log_drops_name_it() {
    let list = |log: &str| {
        let rules = [
            &std::format!("drop tcp from 10.0.0.2 to any{log}"),
            "accept any from 10.0.0.1 to any state new",
            &std::format!("drop udp from any to any state established{log}"),
            "drop udp from 10.0.0.3 to any",
            &std::format!("drop any from any to any{log}"),
        ];
        self::rules(&rules)
    };
    let (mut rig, mut silent): (Rig<Firewall>, _) = (rig(&list("  log")), self::rig(&list("")));
    let [first, second, third] = [0, 1, 2].map(state::logged);
    let beyond = with_flags(ACK, tcp(2));
    for (packet, verdict) in [
        (with_flags(SYN, tcp(2)), first),
        (beyond, first),
        (later_fragment(tcp(2)), first),
        (udp(tcp(1)), PASS),
        (back(udp(tcp(1))), second),
        (back(udp(tcp(1))), second),
        (udp(tcp(1)), second),
        (udp(tcp(3)), RULE),
        (pong(7), third),
        (udp(tcp(4)), third),
    ] {
        assert_eq!(rig.packet(0, &packet), verdict, "{packet:?}");
        let without = silent.packet(0, &packet);
        assert_eq!(without == PASS, verdict == PASS, "{packet:?}");
        assert_eq!(rig.len(), silent.len());
    }
    // One rule is asked for each logged packet; without a log what it said once is kept.
    assert_eq!((rig.rules(), silent.rules()), (&[3, 1, 3, 1, 2, 0][..], &[3, 1, 2, 1, 2, 0][..]));
    let firewall: Firewall = function(&list(" log"));
    let named = |verdict: Verdict| match verdict {
        Verdict::Drop(reason) => (Firewall::EXTRAS.logged_rule)(&firewall, reason),
        _ => None,
    };
    let text = "drop udp from any to any state established log";
    assert_eq!(named(second), Some(("3".to_string(), text.to_string())));
    assert_eq!(
        [PASS, RULE, DEFAULT, Verdict::Drop(TABLE_FULL), state::logged(3)].map(named),
        [None, None, None, None, None]
    );
}

/// A rule that rejects drops for a reason of its own, which asks for an answer; with `log` it is known as one that drops is.
#[test]
fn senders_of_rejected_packets_are_told() {
    let list = self::rules(&[
        "drop tcp from 10.0.0.2 to any log",
        "accept udp from 10.0.0.1 to any state new",
        "reject udp from any to any state established",
        "reject tcp from any to any port 80 log",
        "drop tcp from any to any",
    ]);
    let mut rig = rig(&std::format!("{list}default = \"reject\""));
    let web = |packet| Headers { dst_port: 80, ..packet };
    for (packet, verdict) in [
        (with_flags(SYN, tcp(2)), state::logged(0)),
        (with_flags(SYN, web(tcp(3))), state::logged(1)),
        (with_flags(SYN, Headers { dst_port: 81, ..tcp(3) }), RULE),
        (udp(tcp(1)), PASS),
        (back(udp(tcp(1))), REJECTED),
        // The ruling is kept with the connection.
        (back(udp(tcp(1))), REJECTED),
        (udp(tcp(3)), REJECTED),
        // By the default: of no connection, and a later fragment.
        (pong(7), REJECTED),
        (later_fragment(udp(tcp(5))), REJECTED),
    ] {
        assert_eq!(rig.packet(0, &packet), verdict, "{packet:?}");
    }
    assert_eq!(rig.len(), 1);
    let firewall: Firewall = function(&std::format!("{list}default = \"reject\""));
    let answers =
        |reason: &u8| (Firewall::EXTRAS.answers)(&firewall, *reason) == Some(wire::AnswerTo::Rejected);
    let told: Vec<u8> = (0..=255).filter(answers).collect();
    let reason = |verdict| match verdict {
        Verdict::Drop(reason) => reason,
        _ => u8::MAX,
    };
    assert_eq!(told, [reason(state::logged(1)), reason(REJECTED)], "of those with log the second alone");
    assert_eq!(DROP_REASONS[usize::from(reason(REJECTED))], "rejected");
    let names = firewall.rules_in_words();
    assert_eq!(names[5].1, "reject what is left");
}

/// Each rule counts what it decided: packets that begin connections, those that are dropped without one, and of a known connection
/// the first from each end. Others ask no rule.
#[test]
fn rules_count_what_they_decide() {
    let options = rules(&[
        "accept any from any to any state established",
        "drop udp from 10.0.0.2 to any",
        "accept tcp from any to any state new",
    ]);
    let (mut rig, firewall): (_, Firewall) = (rig(&options), function(&options));
    assert_eq!(rig.rules(), [0; 4]);
    for (packet, counts) in [
        (with_flags(SYN, tcp(1)), [0, 0, 1, 0]),
        // Its own rule is known.
        (with_flags(SYN, tcp(1)), [0, 0, 1, 0]),
        (back(with_flags(SYN_ACK, tcp(1))), [1, 0, 1, 0]),
        (with_flags(ACK, tcp(1)), [2, 0, 1, 0]),
        (with_flags(ACK, tcp(1)), [2, 0, 1, 0]),
        (udp(tcp(2)), [2, 1, 1, 0]),
        (udp(tcp(2)), [2, 2, 1, 0]),
        (udp(tcp(3)), [2, 2, 1, 1]),
        // Of no connection: the default.
        (pong(7), [2, 2, 1, 2]),
    ] {
        at(1, &packet, &mut rig);
        assert_eq!(rig.rules(), counts, "{packet:?}");
    }
    let names = firewall.rules_in_words();
    assert_eq!(names[1], ("2".to_string(), "drop udp from 10.0.0.2 to any".to_string()));
    assert_eq!(names[3].0, "default");
}
