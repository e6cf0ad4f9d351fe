use std::string::String;
use std::vec::Vec;

use nf::{Rig, Verdict};
use wire::{Headers, Marks};

use super::*;
use crate::test_util::{function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

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
    let phase = |rule, phase| Some((rule, phase));
    let steps = [
        // s, packet, verdict, (rule, phase)
        (0, back(with_flags(SYN_ACK, tcp(1))), DEFAULT, phase(DEFAULT_RULE, Phase::Denied)), // too early
        (0, with_flags(SYN, tcp(1)), PASS, phase(1, Phase::Unanswered)), // which shuts nobody out
        (1, with_flags(SYN, tcp(1)), PASS, phase(1, Phase::Unanswered)),
        (2, back(with_flags(SYN_ACK, tcp(1))), PASS, phase(1, Phase::OpenTcp)),
        (7441, with_flags(ACK, tcp(1)), PASS, phase(1, Phase::OpenTcp)),
        (7442, back(with_flags(FIN, tcp(1))), PASS, phase(1, Phase::Closing)),
        (7500, with_flags(ACK, tcp(1)), PASS, phase(1, Phase::Closing)),
        (7619, with_flags(FIN, tcp(1)), PASS, phase(1, Phase::Closing)),
        (7620, back(with_flags(SYN, tcp(1))), DEFAULT, phase(DEFAULT_RULE, Phase::Denied)), // meets the rules
        (7621, with_flags(SYN, tcp(1)), PASS, phase(1, Phase::Unanswered)),
        (7681, back(with_flags(ACK, tcp(1))), DEFAULT, phase(DEFAULT_RULE, Phase::Denied)), // 60 s: forgotten
        (7682, login(tcp(1)), RULE, phase(0, Phase::Denied)),
        (7683, login(tcp(1)), RULE, phase(0, Phase::Denied)),
        (7684, tcp(9), DEFAULT, phase(DEFAULT_RULE, Phase::Denied)),
        (7685, with_flags(RST, tcp(2)), PASS, phase(1, Phase::Closing)),
        (7686, udp(tcp(1)), DEFAULT, phase(DEFAULT_RULE, Phase::Denied)),
    ];
    for (time_s, packet, verdict, expected) in steps {
        assert_eq!(rig.packet(ms(1000 * time_s), &packet), verdict, "at {time_s}");
        let found = rig.state(&packet).map(|state| (state.rule, state.phase));
        assert_eq!(found, expected, "at {time_s}");
    }
    assert_eq!((rig.event("connections-allowed"), rig.event("connections-denied")), (3, 6));
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
        (std::vec![back(tcp(1))], 10),
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
    for (source, strictly, laxly) in
        [(1, Verdict::Drop(TABLE_FULL), PASS), (2, RULE, RULE), (3, DEFAULT, DEFAULT)]
    {
        assert_eq!(verdict_when_full(&strict, &tcp(source)), strictly);
        assert_eq!(verdict_when_full(&lax, &tcp(source)), laxly);
    }
}

#[test]
fn reports_connections_and_packets_by_rule() {
    let mut rig = rig(&rules(&["allow tcp from 10.0.0.1 to any", "deny  tcp from 10.0.0.2 to any"]));
    for packet in [tcp(1), back(tcp(1)), tcp(1), tcp(2), tcp(2), Headers { src_port: 1, ..tcp(2) }, tcp(3)] {
        rig.packet(0, &packet);
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Connections now: 4, by the rule that they met");
    assert_eq!(report.rows[0], ["1", "allow tcp from 10.0.0.1 to any", "1", "3"]);
    assert_eq!(report.rows[1], ["2", "deny  tcp from 10.0.0.2 to any", "2", "3"]);
    assert_eq!(report.rows[2], ["default", "deny what is left", "1", "1"]);
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
