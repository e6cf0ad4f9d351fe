//! Exchanges of what is not TCP.

use std::string::ToString;

use super::*;

const ECHO_REQUEST: u32 = 8 << 24;
const ECHO_REPLY: u32 = 0;
const ROUTER: Addr = Addr::v4([198, 51, 100, 9]);

/// A packet of another protocol.
fn other(protocol: u8, from: (Addr, u16), to: (Addr, u16)) -> Headers {
    let transport = if protocol == protocol::UDP { 2 << 4 } else { 0 };
    Headers { protocol, window: 0, tcp_shape: transport, l3_len: 48, ..tcp(from, to, 0) }
}

fn udp(from: (Addr, u16), to: (Addr, u16)) -> Headers {
    other(protocol::UDP, from, to)
}

/// An echo request, or a reply, with this identifier.
fn echo(from: Addr, to: Addr, identifier: u16, is_request: bool) -> Headers {
    let (ports, kind, shape) = match is_request {
        true => ((identifier, 0), ECHO_REQUEST, 1),
        false => ((0, identifier), ECHO_REPLY, 2),
    };
    let headers = other(protocol::ICMP, (from, ports.0), (to, ports.1));
    Headers { seq: kind | u32::from(identifier), tcp_shape: (2 << 4) | shape, ..headers }
}

/// An error of the other end about a UDP packet `from` `to`.
fn unreachable(from: (Addr, u16), to: (Addr, u16)) -> Headers {
    let headers = other(protocol::ICMP, to, from);
    Headers { seq: (3 << 24) | (3 << 16), tcp_shape: (2 << 4) | 5, ack: Headers::word_of(to.0), ..headers }
}

/// Such an error, as a router outside sends it.
fn from_router(error: Headers) -> Headers {
    Headers { src: ROUTER, tcp_shape: error.tcp_shape | 8, marks: error.marks | Marks::FROM_OUTSIDE, ..error }
}

fn outside(headers: Headers) -> Headers {
    Headers { marks: headers.marks | Marks::FROM_OUTSIDE, ..headers }
}

/// Packets at times in seconds, each with what must come of it: `pass` or a drop reason, and seconds until its connection
/// expires or `-`.
fn play(options: &str, packets: &[(f64, Headers, &str)]) -> Rig<Conntrack> {
    let mut rig = Rig::new(conntrack(options));
    for (number, (at_s, headers, expected)) in packets.iter().enumerate() {
        let verdict = match rig.packet((at_s * 1e9) as u64, headers) {
            Verdict::Forward => "pass",
            Verdict::Drop(reason) => Conntrack::ABOUT.drop_reasons[usize::from(reason)],
            verdict => panic!("{verdict:?}"),
        };
        // A state's time is as of its last packet.
        let left = rig
            .state(headers)
            .map(|state| (conntrack("").idle_timeout_ns(state) / 1_000_000_000).to_string());
        let came = format!("{verdict} {}", left.as_deref().unwrap_or("-"));
        assert_eq!(came, *expected, "packet {number} at {at_s} s");
    }
    rig
}

/// Linux: 30 s, also with the first answers; 120 s from the first packet on that comes after two seconds and an answer.
#[test]
fn udp_that_lasts_and_is_answered_is_a_stream() {
    let (ask, answer) = (udp(CLIENT, SERVER), udp(SERVER, CLIENT));
    let rig = play(
        "",
        &[
            (0.0, ask, "pass 30"),
            (1.0, ask, "pass 30"),
            (1.5, answer, "pass 30"),
            (2.0, answer, "pass 30"),
            (2.001, ask, "pass 120"),
            (100.0, answer, "pass 120"),
        ],
    );
    assert_eq!(rig.event("opened"), 1);
    assert!(rig.state(&ask).is_some_and(State::is_assured));
    // Without an answer it is none, however long it lasts; and the first answer does not make one yet.
    play(
        "",
        &[(0.0, ask, "pass 30"), (20.0, ask, "pass 30"), (40.0, answer, "pass 30"), (40.1, ask, "pass 120")],
    );
    // Forgotten, and begun by the other end.
    let rig = play("", &[(0.0, ask, "pass 30"), (30.1, answer, "pass 30")]);
    assert_eq!(rig.event("opened"), 2);
}

#[test]
fn each_time_out_of_what_is_not_tcp_is_taken_from_its_option() {
    let options = "udp_timeout = 11\nudp_timeout_stream = 12\nicmp_timeout = 13\nicmpv6_timeout = 14\n\
                   gre_timeout = 15\ngre_timeout_stream = 16\ngeneric_timeout = 17";
    let (ask, answer) = (udp(CLIENT, SERVER), udp(SERVER, CLIENT));
    play(options, &[(0.0, ask, "pass 11"), (3.0, answer, "pass 11"), (4.0, ask, "pass 12")]);
    let ping = |is_request| match is_request {
        true => echo(CLIENT.0, SERVER.0, 7, true),
        false => echo(SERVER.0, CLIENT.0, 7, false),
    };
    play(
        options,
        &[(0.0, ping(true), "pass 13"), (9.0, ping(false), "pass 13"), (18.0, ping(true), "pass 13")],
    );
    let (a, b) = (Addr([0x20; 16]), Addr([0x30; 16]));
    let ping6 = |from, to, kind: u32| Headers {
        seq: (kind << 24) | 7,
        tcp_shape: 2 << 4,
        ..other(protocol::ICMPV6, (from, 0), (to, 0))
    };
    let exchange = [(0.0, ping6(a, b, 128), "pass 14"), (3.0, ping6(b, a, 129), "pass 14")];
    play(options, &exchange);
    let gre = |from: Addr, to: Addr| other(crate::conntrack::part::GRE, (from, 0), (to, 0));
    let (out, back) = (gre(CLIENT.0, SERVER.0), gre(SERVER.0, CLIENT.0));
    play(options, &[(0.0, out, "pass 15"), (0.1, back, "pass 15"), (0.2, out, "pass 16")]);
    for protocol in [protocol::SCTP, protocol::DCCP, 50] {
        let (out, back) = (other(protocol, CLIENT, SERVER), other(protocol, SERVER, CLIENT));
        play(options, &[(0.0, out, "pass 17"), (5.0, back, "pass 17"), (10.0, out, "pass 17")]);
    }
}

#[test]
fn a_reply_needs_its_request() {
    let (request, reply) = (echo(CLIENT.0, SERVER.0, 7, true), echo(SERVER.0, CLIENT.0, 7, false));
    let stray = echo(SERVER.0, CLIENT.0, 8, false);
    let other_way = echo(CLIENT.0, SERVER.0, 7, false);
    play(
        "",
        &[
            (0.0, reply, "reply-without-request -"),
            (1.0, request, "pass 30"),
            (2.0, reply, "pass 30"),
            (3.0, reply, "pass 30"),
            (4.0, stray, "reply-without-request -"),
            (5.0, other_way, "reply-without-request -"),
        ],
    );
    let rig = play("invalid = \"pass\"", &[(0.0, reply, "pass -")]);
    assert_eq!(rig.event("passed-invalid"), 1);
}

/// Over IPv6 the key has no identifier, so both ends' requests are one connection: each reply needs one from its receiver.
#[test]
fn both_ends_may_ask_in_one_connection() {
    let (a, b) = (Addr([0x20; 16]), Addr([0x30; 16]));
    let ping = |from, to, kind: u32| Headers {
        seq: (kind << 24) | 7,
        tcp_shape: 2 << 4,
        ..other(protocol::ICMPV6, (from, 0), (to, 0))
    };
    let exchange = [
        (0.0, ping(a, b, 128), "pass 30"),
        (1.0, ping(a, b, 129), "reply-without-request 29"),
        (2.0, ping(b, a, 128), "pass 30"),
        (3.0, ping(a, b, 129), "pass 30"),
        (4.0, ping(b, a, 129), "pass 30"),
    ];
    play("", &exchange);
    // Neighbour discovery and other messages are of no connection.
    for kind in [133, 134, 135, 136, 143] {
        play("open_from = \"inside\"", &[(0.0, outside(ping(a, b, kind)), "pass -")]);
    }
    // Nor may a stranger ask a host that asks it.
    let exchange = [
        (0.0, ping(a, b, 128), "pass 30"),
        (1.0, outside(ping(b, a, 128)), "opened-from-outside 29"),
        (2.0, outside(ping(b, a, 129)), "pass 30"),
    ];
    play("open_from = \"inside\"", &exchange);
}

#[test]
fn errors_are_of_the_connection_that_they_quote_and_do_not_keep_it_alive() {
    let ask = udp(CLIENT, SERVER);
    let (error, router) = (unreachable(CLIENT, SERVER), from_router(unreachable(CLIENT, SERVER)));
    let inside = "open_from = \"inside\"";
    let rig = play(
        inside,
        &[
            (0.0, error, "unrelated-error -"),
            (0.0, router, "unrelated-error -"),
            (1.0, ask, "pass 30"),
            (11.0, error, "pass 20"),
            (21.0, router, "pass 10"),
            (31.5, router, "unrelated-error -"),
        ],
    );
    assert_eq!(rig.event("related"), 2);
    // A TCP connection has errors, too.
    let quotes_tcp = |headers: Headers| Headers { tcp_shape: (2 << 4) | 4, ..headers };
    let syn = tcp(CLIENT, SERVER, tcp_flags::SYN);
    play("", &[(0.0, syn, "pass 120"), (60.0, quotes_tcp(error), "pass 60")]);
    play("", &[(0.0, ask, "pass 30"), (1.0, quotes_tcp(error), "unrelated-error -")]);
}

/// With an inside, an inside host's flow passes both ways, and a stranger begins none.
#[test]
fn from_outside_no_protocol_opens_where_the_inside_alone_may() {
    let ping = echo(CLIENT.0, SERVER.0, 7, true);
    for (out, back) in [
        (udp(CLIENT, SERVER), udp(SERVER, CLIENT)),
        (ping, echo(SERVER.0, CLIENT.0, 7, false)),
        (other(50, (CLIENT.0, 0), (SERVER.0, 0)), other(50, (SERVER.0, 0), (CLIENT.0, 0))),
    ] {
        let mut rig = Rig::new(conntrack("open_from = \"inside\""));
        assert_eq!(rig.packet(0, &outside(back)), Verdict::Drop(reason::FROM_OUTSIDE));
        assert_eq!(rig.packet(1, &out), Verdict::Forward);
        assert_eq!(rig.packet(2, &outside(back)), Verdict::Forward);
        assert_eq!(rig.packet(3, &out), Verdict::Forward);
        assert_eq!((rig.event("opened"), rig.len()), (1, 1));
    }
}

/// A stranger's first packets leave nothing in strict mode, whatever they are.
#[test]
fn what_is_refused_makes_no_entry() {
    let mut rig = Rig::new(conntrack("open_from = \"inside\""));
    for host in 0..200 {
        let from = Addr::v4([198, 18, 0, host]);
        for headers in [
            udp((from, 9), CLIENT),
            echo(from, CLIENT.0, 9, true),
            echo(from, CLIENT.0, 9, false),
            other(47, (from, 0), (CLIENT.0, 0)),
            unreachable(CLIENT, (from, 9)),
        ] {
            assert_ne!(rig.packet(u64::from(host), &outside(headers)), Verdict::Forward);
        }
    }
    assert!(rig.is_empty());
}

#[test]
fn what_is_not_tcp_has_a_table_of_its_own_in_the_report() {
    let mut rig = Rig::new(conntrack(""));
    rig.packet(0, &udp(CLIENT, SERVER));
    rig.packet(0, &other(50, (CLIENT.0, 0), (SERVER.0, 0)));
    rig.packet(0, &other(50, (SERVER.0, 0), (CLIENT.0, 0)));
    let tables = rig.report();
    assert_eq!(tables[0].title, "TCP connections now: 0, 0 half-open");
    assert_eq!(tables[1].title, "Other connections now: 2");
    assert_eq!(tables[1].rows, [["udp", "1", "0"], ["other", "1", "1"]]);
}

/// What a packet that is not TCP brings into an item of history is the same, whatever it has where TCP has numbers.
#[test]
fn a_segment_of_another_protocol_holds_its_ends_and_its_part() {
    let headers = udp(CLIENT, SERVER);
    let meta = Conntrack::project(&headers).expect("of a connection");
    let filled = Headers { seq: 8, ack: 7, sack: 9, window: 5, tcp_flags: 0, ..headers };
    let again = Conntrack::project(&filled).expect("of a connection");
    assert_eq!(zerocopy::IntoBytes::as_bytes(&meta), zerocopy::IntoBytes::as_bytes(&again));
    assert_eq!(meta.protocol(), protocol::UDP);
    // No TCP can be taken for it: a scale without an offer is none.
    for shape in 0..=u8::MAX {
        let syn = Headers { tcp_shape: (5 << 4) | (shape & 15), ..tcp(CLIENT, SERVER, tcp_flags::SYN) };
        let meta = Conntrack::project(&syn).expect("TCP");
        assert!(meta.other().is_none() && meta.protocol() == protocol::TCP, "{shape}");
    }
}
