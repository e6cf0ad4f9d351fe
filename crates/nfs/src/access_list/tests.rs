//! Tests of the access list: rules, connections, and errors about them.

use std::string::String;
use std::vec::Vec;

use nf::{Rig, Verdict};
use wire::{Headers, Marks};

use super::*;
use crate::test_util::{function, icmp_error, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

mod properties;
mod rules;

const PASS: Verdict = Verdict::Forward;
const RULE: Verdict = Verdict::Drop(DENIED_BY_RULE);
const DEFAULT: Verdict = Verdict::Drop(DENIED_BY_DEFAULT);

const SYN: u8 = tcp_flags::SYN;
const SYN_ACK: u8 = tcp_flags::SYN | tcp_flags::ACK;
const ACK: u8 = tcp_flags::ACK;
const FIN: u8 = tcp_flags::FIN | tcp_flags::ACK;
const RST: u8 = tcp_flags::RST;

fn rig(options: &str) -> Rig<AccessList> {
    Rig::new(function(options))
}

/// The option `rules`.
fn rules(rules: &[&str]) -> String {
    format!("rules = {rules:?}")
}

fn with_flags(tcp_flags: u8, headers: Headers) -> Headers {
    Headers { tcp_flags, ..headers }
}

fn udp(headers: Headers) -> Headers {
    Headers { protocol: protocol::UDP, ..headers }
}

fn icmp(kind: u8, headers: Headers) -> Headers {
    let protocol = if headers.marks.contains(Marks::IPV6) { protocol::ICMPV6 } else { protocol::ICMP };
    Headers { protocol, src_port: 0, dst_port: 0, seq: u32::from(kind) << 24, ..headers }
}

fn later_fragment(headers: Headers) -> Headers {
    Headers { src_port: 0, dst_port: 0, marks: headers.marks | Marks::LATER_FRAGMENT, ..headers }
}

/// The packet's answer.
fn back(headers: Headers) -> Headers {
    let Headers { src, dst, src_port, dst_port, .. } = headers;
    Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..headers }
}

/// 10.0.0.1 and 10.0.0.2 may connect to port 80 of anyone, others to nobody.
#[test]
fn golden() {
    let mut rig =
        rig(&rules(&["deny tcp from any to any port 22", "allow tcp from 10.0.0.0/30 to any port 80"]));
    let login = |headers| Headers { dst_port: 22, ..headers };
    let phase = |phase| Some((1, phase));
    let steps = [
        // s, packet, verdict, (rule, phase)
        (0, back(with_flags(SYN_ACK, tcp(1))), DEFAULT, None), // too early
        (0, with_flags(SYN, tcp(1)), PASS, phase(Phase::Unanswered)), // which shuts nobody out
        (1, with_flags(SYN, tcp(1)), PASS, phase(Phase::Unanswered)),
        (2, back(with_flags(SYN_ACK, tcp(1))), PASS, phase(Phase::OpenTcp)),
        (7441, with_flags(ACK, tcp(1)), PASS, phase(Phase::OpenTcp)),
        (7442, back(with_flags(FIN, tcp(1))), PASS, phase(Phase::Closing)),
        (7500, with_flags(ACK, tcp(1)), PASS, phase(Phase::Closing)),
        (7619, with_flags(FIN, tcp(1)), PASS, phase(Phase::Closing)),
        (7620, back(with_flags(SYN, tcp(1))), DEFAULT, phase(Phase::Closing)), // meets the rules, ends nothing
        (7621, with_flags(ACK, tcp(1)), PASS, phase(Phase::Closing)),
        (7621, with_flags(SYN, tcp(1)), PASS, phase(Phase::Unanswered)),
        (7681, back(with_flags(ACK, tcp(1))), DEFAULT, None), // 60 s: forgotten
        (7682, login(tcp(1)), RULE, None),
        (7683, login(tcp(1)), RULE, None),
        (7684, tcp(9), DEFAULT, None),
        (7685, with_flags(RST, tcp(2)), PASS, phase(Phase::Closing)),
        (7686, udp(tcp(1)), DEFAULT, None),
    ];
    for (time_s, packet, verdict, expected) in steps {
        assert_eq!(rig.packet(ms(1000 * time_s), &packet), verdict, "at {time_s}");
        let found = rig.state(&packet).map(|state| (state.rule, state.phase));
        assert_eq!(found, expected, "at {time_s}");
    }
    assert_eq!(rig.event("connections-allowed"), 3);
}

/// Strangers that no rule allows leave nothing behind, however many they are.
#[test]
fn denied_packets_take_no_room() {
    let mut rig = rig(&rules(&["deny tcp from any to any port 22", "allow tcp from 10.0.0.1 to any"]));
    for port in 0..1_000 {
        for packet in [tcp(2), tcp_v6(2), udp(tcp(1)), Headers { dst_port: 22, ..tcp(1) }] {
            let packet = Headers { src_port: port, ..packet };
            assert!(matches!(rig.packet(0, &packet), Verdict::Drop(_)), "{packet:?}");
        }
    }
    assert!(rig.is_empty());
}

/// RFC 1191: path MTU discovery needs what routers on the way say.
#[test]
fn icmp_errors_about_known_connections_pass_and_leave_things_as_they_are() {
    const ROUTER: [u8; 4] = [198, 51, 100, 254];
    let mut rig = rig(&rules(&["allow tcp from 10.0.0.1 to any"]));
    let server = tcp(1).dst.last4();
    for sender in [ROUTER, server] {
        assert_eq!(rig.packet(0, &icmp_error(sender, true)), DEFAULT, "nobody knows the connection");
    }
    assert!(rig.is_empty());
    rig.packet(0, &with_flags(SYN, tcp(1)));
    let before = *rig.state(&tcp(1)).unwrap();
    for (sender, from_outside, verdict) in
        [(ROUTER, true, PASS), (server, true, PASS), (server, false, PASS), (ROUTER, false, DEFAULT)]
    {
        assert_eq!(
            rig.packet(ms(59_000), &icmp_error(sender, from_outside)),
            verdict,
            "{sender:?} {from_outside}"
        );
    }
    let about = |change: fn(Headers) -> Headers| change(icmp_error(ROUTER, true));
    for other in [
        about(|error| Headers { ack: error.ack + 1, ..error }),
        about(|error| Headers { src_port: 81, ..error }),
        about(|error| Headers { dst_port: 4001, ..error }),
        about(|error| Headers { dst: tcp(2).src, ..error }),
        about(|error| Headers { tcp_shape: error.tcp_shape | 1, ..error }),
    ] {
        assert_eq!(rig.packet(ms(59_000), &other), DEFAULT, "{other:?}");
    }
    assert_eq!((rig.len(), rig.state(&tcp(1))), (1, Some(&before)));
    // Sent by anyone, it keeps nothing alive.
    rig.wait_until(ms(60_000));
    assert!(rig.is_empty());
    // The rules decide about the error itself, and it is no connection.
    let mut rig = self::rig(&rules(&["allow icmp from 198.51.100.0/24 to 10.0.0.0/8"]));
    assert_eq!(rig.packet(0, &icmp_error(ROUTER, true)), PASS);
    assert_eq!(rig.packet(0, &icmp_error(server, true)), DEFAULT);
    assert!(rig.is_empty());
}

/// RFC 4443: over IPv6 the end itself has to say it.
#[test]
fn icmpv6_errors_of_the_other_end_pass() {
    let mut rig = rig(&rules(&["allow tcp from 2001:db8::1 to any"]));
    let Headers { src, dst, src_port, dst_port, .. } = tcp_v6(1);
    let error = Headers {
        src: dst,
        dst: src,
        src_port: dst_port,
        dst_port: src_port,
        protocol: wire::protocol::ICMPV6,
        seq: 0x0104_0000,
        tcp_shape: 0x20 | 4,
        ..tcp_v6(1)
    };
    assert_eq!(rig.packet(0, &error), DEFAULT);
    rig.packet(0, &with_flags(SYN, tcp_v6(1)));
    assert_eq!(rig.packet(0, &error), PASS);
    assert_eq!(rig.packet(0, &Headers { src: tcp_v6(9).src, tcp_shape: 0x20 | 4 | 8, ..error }), DEFAULT);
    assert_eq!(rig.packet(0, &Headers { src_port: 81, ..error }), DEFAULT);
    let mut rig = self::rig(&rules(&["allow icmpv6 from 2001:db8::ff to any"]));
    assert_eq!(rig.packet(0, &error), PASS);
}

/// A connection goes on by the rule that it met, and is shown by that.
#[test]
fn after_a_reload_old_connections_are_shown_by_the_rules_that_they_met() {
    let old: AccessList = function(&rules(&["deny udp from any to any", "allow tcp from 10.0.0.1 to any"]));
    let new: AccessList = function(&rules(&["allow any from 10.0.0.0/8 to any"]));
    let new = new.following(&old).unwrap();
    let state = |list: &AccessList, packet: &Headers| {
        let mut flow = None;
        let meta = AccessList::project(packet).unwrap();
        let (mut edits, mut pool, mut events) = (wire::Edits::NONE, (), [0; 2]);
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        assert_eq!(list.step(&mut flow, &meta, &mut cx), PASS);
        flow.unwrap()
    };
    let rule = |list: &AccessList, state: &State| {
        let StateValue::Text(text) = &list.state(state)[2].1 else { panic!("a text") };
        text.clone()
    };
    let before = state(&old, &tcp(1));
    let after = state(&new, &udp(tcp(2)));
    assert_eq!(rule(&old, &before), "allow tcp from 10.0.0.1 to any");
    assert_eq!(rule(&new, &before), "allow tcp from 10.0.0.1 to any (of an earlier chain file)");
    assert_eq!(rule(&new, &after), "allow any from 10.0.0.0/8 to any");

    let report = |list: &AccessList| {
        let keys = [Connection::of(&tcp(1)), Connection::of(&udp(tcp(2)))];
        let mut flows = keys.iter().zip([&before, &after]);
        list.report(&mut flows, &EndedOf::<AccessList>::new(0), Stamp::default()).remove(0).rows
    };
    assert_eq!(
        report(&new),
        [
            ["1", "allow any from 10.0.0.0/8 to any", "1", "1"],
            ["default", "deny what is left", "-", "-"],
            ["2 of an earlier chain file", "allow tcp from 10.0.0.1 to any", "1", "1"],
        ]
    );
    // Another time-out is no other rule.
    let same: AccessList =
        function(&format!("other_timeout_s = 9\n{}", rules(&["allow any from 10.0.0.0/8 to any"])));
    assert_eq!(report(&same.following(&new).unwrap()), report(&new));
    // However often rules change, numbers do not run out.
    let mut list = new;
    for number in 0..40_000_u32 {
        let rules = rules(&[&format!("allow tcp from 10.0.{}.{} to any", number >> 8 & 255, number & 255)]);
        list = function::<AccessList>(&rules).following(&list).unwrap();
        if number % 10_000 == 0 {
            let now = state(
                &list,
                &Headers { src: Addr::v4([10, 0, (number >> 8) as u8, number as u8]), ..tcp(1) },
            );
            assert!(!rule(&list, &now).contains("earlier"), "{number}");
        }
    }
}

#[test]
fn time_outs_are_exact_and_those_of_the_phase() {
    let options = rules(&["allow any from 10.0.0.0/8 to any", "allow any from 2001:db8::/32 to any"]);
    for (packets, timeout_s) in [
        (std::vec![with_flags(SYN, tcp(1))], 60),
        (std::vec![with_flags(SYN, tcp(1)), back(with_flags(SYN_ACK, tcp(1)))], 7440),
        (std::vec![with_flags(SYN, tcp(1)), back(with_flags(RST, tcp(1)))], 120),
        (std::vec![udp(tcp(1)), udp(tcp(1))], 60),
        (std::vec![udp(tcp_v6(1)), back(udp(tcp_v6(1))), udp(tcp_v6(1))], 300),
        (std::vec![icmp(8, tcp(1)), back(icmp(0, tcp(1)))], 300),
    ] {
        let mut rig = rig(&options);
        for packet in &packets {
            rig.packet(7, packet);
        }
        rig.wait_until(ms(1000 * timeout_s) + 6);
        assert_eq!(rig.len(), 1, "{packets:?}");
        rig.wait_until(ms(1000 * timeout_s) + 7);
        assert_eq!(rig.len(), 0, "{packets:?}");
    }
}

#[test]
fn without_rules_the_default_decides_and_arp_and_its_like_pass() {
    let solicitation = Headers { ttl: 255, ..icmp(135, tcp_v6(1)) };
    let advertisement = Headers { ttl: 255, ..icmp(136, tcp_v6(1)) };
    let router_advertisement = Headers { ttl: 255, ..icmp(134, tcp_v6(1)) };
    let routed = Headers { ttl: 254, ..solicitation };
    let v4 = Headers { ttl: 255, ..icmp(135, tcp(1)) };
    let mut deny = rig("");
    for (packet, verdict) in [
        (not_ip(), PASS),
        (solicitation, PASS),
        (advertisement, PASS),
        (router_advertisement, DEFAULT),
        (routed, DEFAULT),
        (v4, DEFAULT),
        (tcp(1), DEFAULT),
        (later_fragment(tcp(1)), DEFAULT),
    ] {
        assert_eq!(deny.packet(0, &packet), verdict, "{packet:?}");
    }
    let mut allow = rig("default = \"allow\"");
    for packet in [not_ip(), routed, tcp(1), tcp_v6(1), later_fragment(tcp(3))] {
        assert_eq!(allow.packet(0, &packet), PASS, "{packet:?}");
    }
    assert_eq!(allow.len(), 3);
}

#[test]
fn later_fragments_pass_where_their_first_one_might_or_its_answer() {
    let list = [
        "deny udp from any to 192.0.2.1 port 53",
        "deny udp from 10.0.0.7 to any",
        "allow udp from 10.0.0.0/8 to 192.0.2.0/24 port 80",
        "deny tcp from any to any",
        "allow any from 10.0.0.0/8 to any",
    ];
    let mut rig = rig(&rules(&list));
    for (packet, verdict) in [
        (udp(tcp(1)), PASS),       // port 80 it may be
        (back(udp(tcp(1))), PASS), // a large answer's
        (udp(tcp(7)), RULE),
        (tcp(1), RULE),
        (Headers { dst: Addr::v4([198, 51, 100, 1]), ..udp(tcp(1)) }, PASS),
        (Headers { src: Addr::v4([198, 51, 100, 1]), ..udp(tcp(1)) }, DEFAULT),
        (icmp(8, tcp(1)), PASS),
    ] {
        assert_eq!(rig.packet(0, &later_fragment(packet)), verdict, "{packet:?}");
    }
    assert!(rig.is_empty());
    // Their address pair is nobody's connection: no ports are not ports 0.
    rig.packet(0, &later_fragment(udp(tcp(1))));
    assert_eq!(rig.packet(0, &Headers { src_port: 0, dst_port: 0, ..back(udp(tcp(1))) }), DEFAULT);
    let first = Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..tcp(1) };
    assert_eq!(rig.packet(0, &first), RULE);
}

#[test]
fn a_full_table_fails_closed_unless_told_otherwise() {
    let list = rules(&["allow tcp from 10.0.0.1 to any", "deny tcp from 10.0.0.2 to any"]);
    let strict: AccessList = function(&list);
    let lax: AccessList = function(&format!("when_full = \"pass\"\n{list}"));
    assert_eq!(verdict_when_full(&strict, &tcp(1)), Verdict::Drop(TABLE_FULL));
    assert_eq!(verdict_when_full(&lax, &tcp(1)), PASS);
}

#[test]
fn reports_connections_and_packets_by_rule() {
    let mut rig = rig(&rules(&["allow tcp from 10.0.0.1 to any", "deny  tcp from 10.0.0.2 to any"]));
    for packet in [tcp(1), back(tcp(1)), tcp(1), tcp(2), tcp(2), Headers { src_port: 1, ..tcp(2) }, tcp(3)] {
        rig.packet(0, &packet);
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Connections now: 1, by the rule that they met");
    assert_eq!(report.rows[0], ["1", "allow tcp from 10.0.0.1 to any", "1", "3"]);
    assert_eq!(report.rows[1], ["2", "deny  tcp from 10.0.0.2 to any", "-", "-"]);
    assert_eq!(report.rows[2], ["default", "deny what is left", "-", "-"]);
    assert_eq!(
        self::rig("default = \"allow\"").report()[0].rows,
        [["default", "allow what is left", "0", "0"]]
    );
}

#[test]
fn packets_are_counted_up_to_what_fits() {
    let mut flow = Some(State { packets: u32::MAX, rule: 0, phase: Phase::Unanswered, is_from_low: 1 });
    let list: AccessList = function("");
    let meta = AccessList::project(&tcp(1)).unwrap();
    let (mut edits, mut pool, mut events) = (wire::Edits::NONE, (), [0; 2]);
    let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
    assert_eq!(list.step(&mut flow, &meta, &mut cx), PASS);
    assert_eq!(flow.unwrap().packets, u32::MAX);
}

/// Each rule counts the packets that met it: those that begin connections, and those that are denied. Others ask no rule.
#[test]
fn rules_count_what_they_decide() {
    let mut rig = rig(&rules(&["allow tcp from 10.0.0.1 to any", "deny  tcp from 10.0.0.2 to any"]));
    for (packet, counts) in [
        (tcp(1), [1, 0, 0]),
        (back(tcp(1)), [1, 0, 0]),
        (tcp(1), [1, 0, 0]),
        (tcp(2), [1, 1, 0]),
        (tcp(2), [1, 2, 0]),
        (tcp(3), [1, 2, 1]),
        (later_fragment(tcp(2)), [1, 3, 1]),
    ] {
        rig.packet(0, &packet);
        assert_eq!(rig.rules(), counts, "{packet:?}");
    }
}
