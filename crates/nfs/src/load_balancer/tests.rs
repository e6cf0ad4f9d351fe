//! Tests of the load balancer.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use nf::{Rig, Verdict, drawn};
use wire::{Addr, Edits, Headers, Marks};

use super::*;
use crate::test_util::{function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

mod direct;
mod down;
mod icmp;
mod maglev;
mod options;
mod ranges;
mod round_robin;
mod spread;
mod tunnels;

/// What follows one direction; [`direct`] and [`icmp`] have the other.
type LoadBalancer = super::LoadBalancer;

const PASS: Verdict = Verdict::Forward;

const SYN: u8 = tcp_flags::SYN;
const ACK: u8 = tcp_flags::ACK;
const FIN: u8 = tcp_flags::FIN | tcp_flags::ACK;
const RST: u8 = tcp_flags::RST;

/// A service at 192.0.2.1:80, where [`tcp`] goes, with these backends.
fn service(backends: &str) -> String {
    format!("[[services]]\nvip = \"192.0.2.1\"\nport = 80\nbackends = [{backends}]")
}

const TWO: &str = "{ address = \"10.9.0.1\", port = 8080 }, { address = \"10.9.0.2\", port = 8080 }";

/// `n` backends, 10.9.0.1:8080 and so on, with their weights.
fn backends(weights: &[u32]) -> String {
    let backend = |(last, weight)| {
        format!("{{ address = \"10.9.{}.{}\", port = 8080, weight = {weight} }}", last / 250, last % 250 + 1)
    };
    (0..).zip(weights).map(backend).collect::<Vec<_>>().join(", ")
}

fn rig(options: &str) -> Rig<LoadBalancer> {
    Rig::new(function(options))
}

fn with_flags(tcp_flags: u8, headers: Headers) -> Headers {
    Headers { tcp_flags, ..headers }
}

fn udp(headers: Headers) -> Headers {
    Headers { protocol: protocol::UDP, ..headers }
}

/// A flow of its own for each number.
fn client(number: u32) -> Headers {
    let [_, b, c, d] = number.to_be_bytes();
    Headers { src: Addr::v4([10, b, c, d]), tcp_flags: SYN, ..tcp(0) }
}

/// The last octet of the address that the packet was sent to; 0 if it stayed.
fn backend(rig: &Rig<LoadBalancer>) -> u8 {
    let mut headers = tcp(1);
    rig.edits().apply_to_headers(&mut headers);
    if rig.edits().is_empty() { 0 } else { headers.dst.0[15] }
}

/// One backend, so that the choice is known.
#[test]
fn golden() {
    let mut rig = rig(&service("{ address = \"10.9.0.1\", port = 8080 }"));
    let other_port = |headers| Headers { dst_port: 81, ..headers };
    let to = |packets, phase| Some((packets, phase));
    let steps = [
        // s, packet, backend, (packets, phase)
        (0, with_flags(SYN, tcp(1)), 1, to(1, Phase::Opening)),
        (1, with_flags(SYN, tcp(1)), 1, to(2, Phase::Opening)), // once more: no answer yet
        (2, with_flags(ACK, tcp(1)), 1, to(3, Phase::Open)),
        (3, with_flags(SYN, tcp(1)), 1, to(4, Phase::Open)), // the backend's business
        (902, with_flags(ACK, tcp(1)), 1, to(5, Phase::Open)),
        (903, with_flags(FIN, tcp(1)), 1, to(6, Phase::Closing)),
        (1022, with_flags(ACK, tcp(1)), 1, to(7, Phase::Closing)), // the other direction is open still
        (1023, with_flags(SYN, tcp(1)), 1, to(1, Phase::Opening)), // another connection
        (1083, with_flags(ACK, tcp(1)), 1, to(1, Phase::Opening)), // 60 s: forgotten, and picked up
        (1084, with_flags(ACK, tcp(1)), 1, to(2, Phase::Open)),
        (1085, with_flags(RST, tcp(1)), 1, to(3, Phase::Closing)),
        (1205, with_flags(RST, tcp(1)), 1, None), // 120 s: forgotten, and an RST begins nothing
        (1206, with_flags(FIN, tcp(2)), 1, to(1, Phase::Closing)),
        (1206, other_port(with_flags(SYN, tcp(1))), 0, None), // not of the service
        (1206, udp(tcp(1)), 0, None),
    ];
    for (time_s, packet, expected, state) in steps {
        assert_eq!(rig.packet(ms(1000 * time_s), &packet), PASS, "at {time_s}");
        assert_eq!(backend(&rig), expected, "at {time_s}");
        let found = rig.state(&packet).map(|state| (state.packets, state.phase));
        assert_eq!(found, state, "at {time_s}");
    }
    let events =
        ["flows-opened", "flows-picked-up", "flows-moved", "packets-without-flow", "answers-rewritten"];
    assert_eq!(events.map(|event| rig.event(event)), [2, 2, 0, 1, 0]);
}

#[test]
fn address_port_and_mac_are_rewritten_as_the_backend_says() {
    let mut expected = Edits::NONE;
    expected.set_dst(Addr::v4([10, 9, 0, 1]));
    expected.set_dst_port(8080);
    let mut rig = rig(&service("{ address = \"10.9.0.1\", port = 8080 }"));
    rig.packet(0, &tcp(1));
    assert_eq!(*rig.edits(), expected);

    let mut rig = self::rig(&service("{ address = \"10.9.0.1\", mac = \"02:00:00:00:00:0a\" }"));
    rig.packet(0, &tcp(1));
    expected.set_dst_port(80);
    expected.set_dst_mac([2, 0, 0, 0, 0, 10]);
    assert_eq!(*rig.edits(), expected);

    let mut rig = self::rig(&service("{ mac = \"02:00:00:00:00:0A\" }"));
    rig.packet(0, &tcp(1));
    let mut expected = Edits::NONE;
    expected.set_dst_mac([2, 0, 0, 0, 0, 10]);
    assert_eq!(*rig.edits(), expected);
    assert!(
        LoadBalancer::EDITS.contains(Fields::ADDRS | Fields::DST_PORT | Fields::SRC_PORT | Fields::DST_MAC)
    );
}

#[test]
fn services_of_all_kinds_side_by_side() {
    let options = r#"
        [[services]]
        vip = "2001:db8::ff"
        port = 80
        backends = [{ address = "2001:db8:9::6" }]
        [[services]]
        vip = "192.0.2.1"
        port = 80
        protocol = "udp"
        backends = [{ address = "10.9.0.17" }]
        [[services]]
        vip = "192.0.2.1"
        port = 80
        backends = [{ address = "10.9.0.6" }]
    "#;
    let mut rig = rig(options);
    for (packet, expected) in [
        (tcp(1), 6),
        (udp(tcp(1)), 17),
        (tcp_v6(1), 6),
        (udp(tcp_v6(1)), 0),
        (Headers { dst: Addr::v4([192, 0, 2, 2]), ..tcp(1) }, 0),
        (Headers { protocol: protocol::ICMP, src_port: 0, dst_port: 0, ..tcp(1) }, 0),
        (not_ip(), 0),
    ] {
        assert_eq!(rig.packet(0, &packet), PASS);
        let mut edited = packet;
        rig.edits().apply_to_headers(&mut edited);
        assert_eq!(if edited == packet { 0 } else { edited.dst.0[15] }, expected, "{packet:?}");
    }
    assert_eq!(rig.len(), 3);
    let titles: Vec<_> = rig.report().into_iter().map(|report| report.title).collect();
    assert_eq!(
        titles,
        [
            "tcp [2001:db8::ff]:80: 1 flows now, 1 packets",
            "udp 192.0.2.1:80: 1 flows now, 1 packets",
            "tcp 192.0.2.1:80: 1 flows now, 1 packets",
        ]
    );
}

#[test]
fn a_flow_stays_with_its_backend_under_either_policy() {
    for policy in ["maglev", "random"] {
        let mut rig = rig(&format!("policy = \"{policy}\"\n{}", service(&backends(&[1, 2, 3]))));
        let first: Vec<u8> = (0..100)
            .map(|number| {
                rig.packet(0, &client(number));
                backend(&rig)
            })
            .collect();
        for time_s in 1..5 {
            for (number, first) in (0..100).zip(&first) {
                rig.packet(ms(1000 * time_s), &with_flags(ACK, client(number)));
                assert_eq!(backend(&rig), *first, "{policy}");
            }
        }
        assert_eq!((rig.len(), rig.event("flows-opened"), rig.event("flows-picked-up")), (100, 100, 0));
        assert!((1..=3).all(|backend| first.contains(&backend)), "{policy}");
    }
}

#[test]
fn udp_flows_have_a_timeout_of_their_own() {
    let options = service(TWO).replace("port = 80\n", "port = 80\nprotocol = \"udp\"\n");
    let mut rig = rig(&format!("udp_timeout_s = 2\n{options}"));
    rig.packet(0, &udp(tcp(1)));
    assert_eq!(rig.state(&udp(tcp(1))).unwrap().phase, Phase::Datagrams);
    rig.packet(ms(1_999), &udp(tcp(1)));
    rig.wait_until(ms(3_998));
    assert_eq!(rig.len(), 1);
    rig.wait_until(ms(3_999));
    assert!(rig.is_empty());
}

#[test]
fn fragments_are_not_torn_apart() {
    let mut rig = rig(&format!("rewrite_answers = true\n{}", service(TWO)));
    let first = Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..tcp(1) };
    let later = Headers { src_port: 0, dst_port: 0, marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..tcp(1) };
    let answer = Headers { src: Addr::v4([10, 9, 0, 1]), src_port: 8080, dst_port: 4000, ..first };
    for (packet, verdict) in [
        (first, Verdict::Drop(FRAGMENT)),
        (later, PASS),
        (answer, Verdict::Drop(FRAGMENT)),
        (Headers { dst_port: 81, ..first }, PASS),
    ] {
        assert_eq!((rig.packet(0, &packet), rig.edits().is_empty()), (verdict, true), "{packet:?}");
    }
    assert!(rig.is_empty());
}

#[test]
fn answers_come_from_the_vip_if_asked_for() {
    let answer = Headers {
        src: Addr::v4([10, 9, 0, 2]),
        dst: Addr::v4([10, 0, 0, 1]),
        src_port: 8080,
        dst_port: 4000,
        ..tcp(1)
    };
    let mut silent = rig(&service(TWO));
    assert_eq!((silent.packet(0, &answer), silent.edits().is_empty()), (PASS, true));

    let mut rig = rig(&format!("rewrite_answers = true\n{}", service(TWO)));
    let mut expected = Edits::NONE;
    expected.set_src(Addr::v4([192, 0, 2, 1]));
    expected.set_src_port(80);
    assert_eq!((rig.packet(0, &answer), *rig.edits()), (PASS, expected));
    for other in [Headers { src_port: 8081, ..answer }, udp(answer), Headers { src: tcp(3).src, ..answer }] {
        assert_eq!((rig.packet(0, &other), rig.edits().is_empty()), (PASS, true));
    }
    assert_eq!((rig.event("answers-rewritten"), rig.len()), (1, 0));
}

#[test]
fn a_full_table_sends_new_flows_by_the_hash_and_always_to_the_same_backend() {
    for policy in ["maglev", "random"] {
        let balancer: LoadBalancer =
            function(&format!("policy = \"{policy}\"\n{}", service(&backends(&[1; 9]))));
        let service = balancer.services.get(0).unwrap();
        let mut sent = Vec::new();
        for number in 0..50 {
            let meta = LoadBalancer::project(&client(number)).unwrap();
            let (mut edits, mut pool, mut events) =
                (Edits::NONE, balancer.pool(), [0; LoadBalancer::ABOUT.events.len()]);
            let stamp = Stamp { seq: number.into(), time_ns: 0 };
            let mut cx = Cx::new(stamp, &mut edits, &mut pool, &mut events, 0);
            let mut flow = None;
            balancer.step(&mut flow, &meta, &mut cx);
            assert_eq!(balancer.rejected(&flow.unwrap(), &meta, &mut cx), PASS);
            let mut expected = Edits::NONE;
            let hash = if policy == "maglev" { meta.hash() } else { drawn(meta.hashed().as_bytes(), 0) };
            service.get(service.maglev.at(hash).unwrap()).unwrap().1.direct(&mut expected);
            assert_eq!(edits, expected, "{policy}");
            assert_eq!(events[PACKETS_WITHOUT_FLOW], 1);
            sent.push(flow.unwrap().backend_id);
        }
        assert!(sent.iter().any(|id| *id != sent[0]));
    }
    assert_eq!(verdict_when_full::<LoadBalancer>(&function(&service(TWO)), &tcp(1)), PASS);
}

/// The packet that opens a flow, and one in its middle that finds it forgotten.
#[test]
fn tcp_in_the_middle_goes_where_the_hash_leads() {
    let list = service(&backends(&[1; 9]));
    let with = |policy: &str| rig(&format!("policy = \"{policy}\"\n{list}"));
    for number in 0..50 {
        let sent = |policy: &str, flags: u8, seed: u64| {
            let mut rig = with(policy).with_seed(seed);
            rig.packet(0, &with_flags(flags, client(number)));
            assert_eq!(rig.event("flows-picked-up"), u64::from(flags == ACK));
            backend(&rig)
        };
        assert_eq!(sent("maglev", SYN, 1), sent("maglev", ACK, 2));
        assert_eq!(sent("random", SYN, 3), sent("random", ACK, 3));
        assert_eq!(sent("round-robin", ACK, 4), sent("maglev", SYN, 4));
    }
}

#[test]
fn random_choices_depend_on_the_seed() {
    let options = format!("policy = \"random\"\n{}", service(&backends(&[1; 9])));
    let choices = |seed| {
        let mut rig = rig(&options).with_seed(seed);
        let choices = (0..50).map(|number| {
            rig.packet(0, &client(number));
            backend(&rig)
        });
        choices.collect::<Vec<u8>>()
    };
    assert_eq!(choices(1), choices(1));
    assert_ne!(choices(1), choices(2));
}

/// One step of a flow that may have begun under another configuration.
fn continued(options: &str, flow: &mut Option<State>, headers: &Headers) -> (Verdict, Edits, usize) {
    let balancer: LoadBalancer = function(options);
    let (mut edits, mut pool, mut events) =
        (Edits::NONE, balancer.pool(), [0; LoadBalancer::ABOUT.events.len()]);
    let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
    let verdict = balancer.step(flow, &LoadBalancer::project(headers).unwrap(), &mut cx);
    (verdict, edits, events[FLOWS_MOVED] as usize)
}

/// Flows that began with backends 10.9.0.1 to 3 meet another list.
#[test]
fn flows_keep_their_backend_when_the_list_changes() {
    let (a, b) = ("{ address = \"10.9.0.1\", port = 8080", "{ address = \"10.9.0.2\", port = 8080");
    let drained = "state = \"drain\" }";
    let lists = [
        // list afterwards; whether flows of 10.9.0.1 stay
        (format!("{b} }}, {a} }}"), true), // another order
        (format!("{{ address = \"10.9.0.7\" }}, {b} }}, {a}, weight = 9 }}"), true),
        (format!("{a}, {drained}, {b} }}"), true),
        (format!("{b} }}"), false),
        (format!("{b} }}, {{ address = \"10.9.0.1\", port = 8081 }}"), false), // another backend
    ];
    for (list, stay) in lists {
        let mut begun = 0;
        for number in 0..60 {
            let mut flow = None;
            continued(&service(&format!("{a} }}, {b} }}")), &mut flow, &client(number));
            let before = flow.unwrap();
            if before.backend != 0 {
                continue;
            }
            begun += 1;
            let (verdict, _, moved) = continued(&service(&list), &mut flow, &with_flags(ACK, client(number)));
            let after = flow.unwrap();
            assert_eq!((verdict, moved), (PASS, usize::from(!stay)), "{list}");
            assert_eq!(after.backend_id == before.backend_id, stay, "{list}");
            assert_eq!((after.packets, after.phase), (2, Phase::Open));
        }
        assert!(begun > 10);
    }
}

#[test]
fn a_drained_backend_takes_no_new_flows_and_with_all_drained_there_is_none() {
    let list = "{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\", state = \"drain\" }";
    for policy in ["maglev", "random"] {
        let mut rig = rig(&format!("policy = \"{policy}\"\n{}", service(list)));
        for number in 0..100 {
            rig.packet(0, &client(number));
            assert_eq!(backend(&rig), 1);
        }
    }
    let none = service(
        "{ address = \"10.9.0.2\", state = \"drain\" }, { address = \"10.9.0.3\", state = \"down\" }",
    );
    let mut rig = rig(&none);
    assert_eq!(rig.packet(0, &tcp(1)), Verdict::Drop(NO_BACKEND));
    assert!(rig.is_empty() && rig.edits().is_empty());
    // A live flow goes on with the drained one.
    let mut flow = None;
    continued(&service("{ address = \"10.9.0.2\" }"), &mut flow, &client(1));
    assert_eq!(continued(&none, &mut flow, &client(1)).0, PASS);
    // One of a backend that is down has nowhere to go.
    let mut flow = None;
    continued(&service("{ address = \"10.9.0.3\" }"), &mut flow, &client(1));
    assert_eq!(continued(&none, &mut flow, &client(1)).0, Verdict::Drop(NO_BACKEND));
    assert_eq!(flow, None);
}

#[test]
fn reports_what_each_backend_has_beside_what_it_should_have() {
    let list = "{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\", weight = 3 }, \
                { address = \"10.9.0.3\", state = \"drain\" }, { address = \"10.9.0.4\", state = \"down\" }";
    let mut rig = rig(&service(list));
    let mut flows: BTreeMap<u8, u64> = BTreeMap::new();
    for number in 0..400 {
        rig.packet(0, &client(number));
        *flows.entry(backend(&rig)).or_default() += 1;
        rig.packet(1, &with_flags(ACK, client(number)));
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "tcp 192.0.2.1:80: 400 flows now, 800 packets");
    let row = |at: usize, column: usize| report.rows[at][column].as_str();
    assert_eq!(report.rows[0][..3], ["10.9.0.1:80", "active", "25.0"]);
    assert_eq!(report.rows[1][..3], ["10.9.0.2:80", "active", "75.0"]);
    assert_eq!(report.rows[2], ["10.9.0.3:80", "drain", "0.0", "0", "0.0", "0", "0.0"]);
    assert_eq!(report.rows[3][1], "down");
    assert_eq!(row(0, 3), format!("{}", flows[&1]));
    assert_eq!(row(1, 5), format!("{}", 2 * flows[&2]));
    assert_eq!(row(0, 4), percent(flows[&1], 400));
    assert!(self::rig("").report().is_empty());
    assert_eq!(["0.0", "66.7", "100.0"], [percent(0, 0), percent(2, 3), percent(7, 7)]);
}
