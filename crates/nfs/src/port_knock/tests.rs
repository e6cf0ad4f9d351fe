//! Tests of port knocking.

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::{Headers, Marks};

use super::*;
use crate::test_util::{
    function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full, verdicts_without_expiry,
};

const PASS: Verdict = Verdict::Forward;
const CLOSED: Verdict = Verdict::Drop(NOT_OPEN);
const FRAGMENT: Verdict = Verdict::Drop(LATER_FRAGMENT);
const OTHER: Verdict = Verdict::Drop(OTHER_PROTOCOL);

fn rig(options: &str) -> Rig<PortKnock> {
    Rig::new(function(options))
}

fn knock(source: u8, dst_port: u16) -> Headers {
    Headers { dst_port, ..tcp(source) }
}

fn udp(headers: Headers) -> Headers {
    Headers { protocol: protocol::UDP, ..headers }
}

fn later_fragment(headers: Headers) -> Headers {
    Headers { src_port: 0, dst_port: 0, marks: headers.marks | Marks::LATER_FRAGMENT, ..headers }
}

/// Right knocks, and when the last of them or the last packet came, in ms.
fn state(rig: &Rig<PortKnock>, headers: &Headers) -> Option<(u64, u64)> {
    rig.state(headers).map(|State { knocks, last_ns }| (*knocks, last_ns / ms(1)))
}

/// Fig. 12 with ports 7000, 8000, 9000: at most 1 s between knocks, open for 10 s.
#[test]
fn golden() {
    let mut rig = rig("step_ms = 1000\nopen_ms = 10000");
    let steps = [
        // ms, source, port, verdict, (right knocks, last)
        (0, 1, 22, CLOSED, None),
        (100, 1, 7000, CLOSED, Some((1, 100))),
        (200, 1, 8000, CLOSED, Some((2, 200))),
        (250, 2, 9000, CLOSED, None), // another source
        (300, 1, 8000, CLOSED, None), // once too often
        (400, 1, 9000, CLOSED, None),
        (500, 1, 7000, CLOSED, Some((1, 500))),
        (600, 1, 7000, CLOSED, None), // wrong, although the first port: CLOSED_1, not CLOSED_2
        (700, 1, 8000, CLOSED, None),
        (800, 1, 7000, CLOSED, Some((1, 800))),
        (1799, 1, 8000, CLOSED, Some((2, 1799))), // in time by a millisecond
        (2799, 1, 9000, CLOSED, None),            // too late
        (3000, 1, 7000, CLOSED, Some((1, 3000))),
        (3001, 1, 8000, CLOSED, Some((2, 3001))),
        (3002, 1, 9000, PASS, Some((3, 3002))), // SCR §C: the knock that opens is forwarded
        (3003, 1, 22, PASS, Some((3, 3003))),
        (3004, 2, 22, CLOSED, None),
        (13002, 1, 7000, PASS, Some((3, 13002))), // open: any port keeps it so
        (23002, 1, 22, CLOSED, None),             // 10 s without a packet
    ];
    for (time_ms, source, port, verdict, expected) in steps {
        let packet = knock(source, port);
        assert_eq!(rig.packet(ms(time_ms), &packet), verdict, "at {time_ms}");
        assert_eq!(state(&rig, &packet), expected, "at {time_ms}");
    }
    assert_eq!((rig.event("sources-opened"), rig.event("sequences-broken")), (1, 2));
}

#[test]
fn an_open_source_may_send_anything_and_a_closed_one_nothing() {
    let anything = |source: fn(u8) -> Headers| {
        [source(1), udp(source(1)), later_fragment(source(1)), later_fragment(udp(source(1)))]
    };
    for source in [tcp, tcp_v6] {
        let mut rig = rig("ports = [7000]");
        let closed = anything(source).map(|packet| rig.packet(0, &packet));
        assert_eq!(closed, [CLOSED, OTHER, FRAGMENT, OTHER]);
        assert_eq!(rig.packet(0, &Headers { dst_port: 7000, ..source(1) }), PASS);
        assert_eq!(anything(source).map(|packet| rig.packet(0, &packet)), [PASS; 4]);
        assert_eq!(rig.packet(0, &not_ip()), PASS);
    }
}

#[test]
fn with_other_pass_no_fragment_of_the_guarded_protocol_passes() {
    let mut rig = rig("other = \"pass\"");
    let first_fragment = Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..tcp(1) };
    for (packet, verdict) in [
        (udp(tcp(1)), PASS),
        (later_fragment(udp(tcp(1))), PASS),
        (first_fragment, CLOSED),
        (later_fragment(tcp(1)), FRAGMENT),
        (later_fragment(tcp_v6(1)), FRAGMENT),
    ] {
        assert_eq!(rig.packet(0, &packet), verdict, "{packet:?}");
    }
    assert!(rig.is_empty());
}

#[test]
fn with_guard_other_ports_pass_and_are_wrong_knocks_all_the_same() {
    let mut rig = rig("guard = [22]");
    let steps = [
        (knock(1, 80), PASS, None),
        (knock(1, 22), CLOSED, None),
        (knock(1, 9000), CLOSED, None),
        (knock(1, 7000), CLOSED, Some((1, 0))),
        (later_fragment(tcp(1)), PASS, Some((1, 0))),
        (knock(1, 7001), PASS, None), // a scan in order gets no further
        (knock(1, 8000), CLOSED, None),
        (knock(1, 7000), CLOSED, Some((1, 0))),
        (knock(1, 8000), CLOSED, Some((2, 0))),
        (knock(1, 9000), PASS, Some((3, 0))),
        (knock(1, 22), PASS, Some((3, 0))),
    ];
    for (packet, verdict, expected) in steps {
        assert_eq!(rig.packet(0, &packet), verdict, "{packet:?}");
        assert_eq!(state(&rig, &packet), expected, "{packet:?}");
    }
}

/// As the module says: with guard or without, neither holds up a sequence of neighbours.
#[test]
fn a_scan_in_order_opens_a_sequence_of_ports_that_follow_each_other_alone() {
    for (ports, opens) in [("[7000, 8000, 9000]", false), ("[7000, 7001, 7002]", true), ("[7000]", true)] {
        let mut rig = rig(&format!("ports = {ports}\nguard = [22]"));
        (1..=10_000).for_each(|port| _ = rig.packet(0, &knock(1, port)));
        assert_eq!(rig.event("sources-opened") > 0, opens, "{ports}");
    }
}

#[test]
fn allowed_sources_need_not_knock_and_leave_no_trace() {
    let mut rig = rig("allow = [\"10.0.0.8/29\", \"2001:db8::7\"]");
    let anything = |source: Headers| [source, Headers { dst_port: 7000, ..source }, udp(source)];
    for source in [tcp(8), tcp(15), tcp_v6(7)] {
        assert_eq!(anything(source).map(|packet| rig.packet(0, &packet)), [PASS; 3]);
    }
    assert!(rig.is_empty());
    for source in [tcp(16), tcp_v6(8)] {
        assert_eq!(anything(source).map(|packet| rig.packet(0, &packet)), [CLOSED, CLOSED, OTHER]);
    }
    assert!(option_error::<PortKnock>("allow = [\"10.0.0.8/28x\"]").contains("10.0.0.8/28x"));
}

#[test]
fn only_knocks_change_the_state_of_a_closed_source_and_only_they_restart_the_clock() {
    let mut rig = rig("step_ms = 1000");
    let steps = [
        (0, knock(1, 7000), CLOSED, Some((1, 0))),
        (500, udp(knock(1, 8000)), OTHER, Some((1, 0))),
        (900, later_fragment(tcp(1)), FRAGMENT, Some((1, 0))),
        (999, knock(1, 8000), CLOSED, Some((2, 999))),
        (1500, udp(tcp(1)), OTHER, Some((2, 999))),
        (1999, later_fragment(tcp(1)), FRAGMENT, None), // more than a step since the last knock
        (2000, knock(1, 9000), CLOSED, None),
    ];
    for (time_ms, packet, verdict, expected) in steps {
        assert_eq!(rig.packet(ms(time_ms), &packet), verdict, "at {time_ms}");
        assert_eq!(state(&rig, &packet), expected, "at {time_ms}");
    }
}

#[test]
fn udp_can_knock_and_the_sequence_may_repeat_a_port() {
    let mut rig = rig("ports = [53, 53, 1]\nprotocol = \"udp\"");
    let steps = [
        (udp(knock(1, 53)), CLOSED),
        (knock(1, 53), OTHER),
        (udp(knock(1, 53)), CLOSED),
        (udp(knock(1, 1)), PASS),
        (knock(1, 22), PASS),
    ];
    for (packet, verdict) in steps {
        assert_eq!(rig.packet(0, &packet), verdict, "{packet:?}");
    }
}

#[test]
fn limits_are_exact_to_the_nanosecond() {
    for (gap_ns, verdict) in [(999_999, PASS), (1_000_000, CLOSED)] {
        let mut rig = rig("ports = [1, 2]\nstep_ms = 1\nopen_ms = 1");
        rig.packet(0, &knock(1, 1));
        assert_eq!(rig.packet(gap_ns, &knock(1, 2)), verdict, "a knock after {gap_ns}");
        assert_eq!(rig.packet(2 * gap_ns, &knock(1, 22)), verdict, "a packet after {gap_ns}");
    }
}

#[test]
fn zero_means_no_limit() {
    let mut rig = rig("ports = [1, 2]\nstep_ms = 0\nopen_ms = 0");
    assert_eq!(rig.packet(0, &knock(1, 1)), CLOSED);
    assert_eq!(rig.packet(u64::MAX / 2, &knock(1, 2)), PASS);
    assert_eq!(rig.packet(u64::MAX - 1, &knock(1, 22)), PASS);
    assert_eq!(rig.report()[0].rows[0], ["10.0.0.1", "0", "never closes"]);
}

#[test]
fn reports_who_is_open_latest_first() {
    let mut rig = rig("ports = [7000, 8000]\nopen_ms = 1000");
    for source in 1..=25 {
        rig.packet(ms(source), &knock(source as u8, 7000));
    }
    for source in [3, 1, 2] {
        rig.packet(ms(100), &knock(source, 8000));
    }
    rig.packet(ms(150), &knock(2, 22));
    let report = &rig.report()[0];
    assert_eq!(report.title, "Sources open now: 3, latest first");
    assert_eq!(report.rows[0], ["10.0.0.2", "0", "1000"]);
    assert_eq!(report.rows[1], ["10.0.0.1", "50", "950"]);
    assert_eq!(report.rows[2], ["10.0.0.3", "50", "950"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("ports = []", "`ports` must have 1 to 8 ports; it has 0"),
        ("ports = [1, 2, 3, 4, 5, 6, 7, 8, 9]", "`ports` must have 1 to 8 ports; it has 9"),
        ("ports = [1, 0]", "`ports` has port 0, which no packet goes to; write ports from 1 to 65535"),
    ] {
        assert_eq!(option_error::<PortKnock>(options), expected);
    }
    assert!(toml::from_str::<Options>("ports = [65536]").is_err());
    assert!(toml::from_str::<Options>("protocol = \"icmp\"").is_err());
}

#[test]
fn a_full_table_opens_to_nobody_new() {
    let one_port = function::<PortKnock>("ports = [7000]");
    assert_eq!(verdict_when_full(&one_port, &knock(1, 7000)), Verdict::Drop(TABLE_FULL));
    let three_ports = function::<PortKnock>("");
    assert_eq!(verdict_when_full(&three_ports, &knock(1, 7000)), Verdict::Drop(TABLE_FULL));
}

/// Fig. 12, after the paper's listing, and the two time-outs.
#[derive(Clone, Copy, PartialEq)]
enum Model {
    Closed1,
    Closed2,
    Closed3,
    Open,
}

impl Model {
    fn get_new_state(self, dport: u16) -> Model {
        match (self, dport) {
            (Model::Closed1, 7000) => Model::Closed2,
            (Model::Closed2, 8000) => Model::Closed3,
            (Model::Closed3, 9000) => Model::Open,
            (Model::Open, _) => Model::Open,
            _ => Model::Closed1,
        }
    }
}

fn any_packet() -> impl Strategy<Value = Headers> {
    let port = prop_oneof![3 => Just(7000_u16), 3 => Just(8000), 3 => Just(9000), 1 => Just(22)];
    let kind = prop_oneof![
        12 => Just((|packet| packet) as fn(Headers) -> Headers),
        1 => Just(udp as fn(Headers) -> Headers),
        1 => Just(later_fragment as fn(Headers) -> Headers),
    ];
    (port, kind).prop_map(|(port, kind)| kind(knock(1, port)))
}

proptest! {
    #[test]
    fn agrees_with_the_paper(
        packets in proptest::collection::vec((0_u64..120, any_packet()), 1..400), pass: bool,
    ) {
        let other = if pass { "pass" } else { "drop" };
        let options = format!("step_ms = 100\nopen_ms = 110\nother = \"{other}\"");
        let (mut model, mut last_ms, mut now_ms) = (Model::Closed1, 0, 0);
        let mut rig = rig(&options);
        let (mut verdicts, mut timed) = (Vec::new(), Vec::new());
        for (gap_ms, packet) in packets {
            now_ms += gap_ms;
            if now_ms - last_ms >= if model == Model::Open { 110 } else { 100 } {
                model = Model::Closed1;
            }
            let is_knock = packet.is_tcp();
            if model == Model::Open || is_knock {
                model = model.get_new_state(packet.dst_port);
                last_ms = now_ms;
            }
            let passes = model == Model::Open || (pass && packet.protocol == protocol::UDP);
            let verdict = rig.packet(ms(now_ms), &packet);
            prop_assert_eq!(verdict == PASS, passes, "at {} ms", now_ms);
            verdicts.push(verdict);
            timed.push((ms(now_ms), packet));
        }
        prop_assert_eq!(verdicts, verdicts_without_expiry(&function::<PortKnock>(&options), &timed));
    }
}
