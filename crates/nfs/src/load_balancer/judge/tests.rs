//! Tests of the load balancer's judge: what it passes, and what it says is wrong.

use etherparse::{Icmpv4Type, PacketBuilder};
use wire::{LinkType, Stamp};

use super::*;

const SECOND: u64 = 1_000_000_000;
const VIP: [u8; 4] = [192, 0, 2, 80];

fn syn(client: u8, dst: [u8; 4]) -> Vec<u8> {
    tcp((client_addr(client), 4000), (dst, 80), "s")
}

fn client_addr(number: u8) -> [u8; 4] {
    [198, 51, 100, number]
}

/// TCP with these flags: `s`, `a`, `f`, `r`.
fn tcp((src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16), flags: &str) -> Vec<u8> {
    let mut bytes = vec![];
    let mut builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).tcp(src_port, dst_port, 1, 9_000);
    for flag in flags.chars() {
        builder = match flag {
            's' => builder.syn(),
            'a' => builder.ack(1),
            'f' => builder.fin(),
            _ => builder.rst(),
        };
    }
    builder.write(&mut bytes, &[]).expect("writing to memory");
    bytes
}

fn udp((src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).udp(src_port, dst_port);
    builder.write(&mut bytes, b"x").expect("writing to memory");
    bytes
}

/// An ICMP error about a frame.
fn error(src: [u8; 4], dst: [u8; 4], about: &[u8]) -> Vec<u8> {
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).icmpv4(kind);
    builder.write(&mut bytes, &about[14..42]).expect("writing to memory");
    bytes
}

fn backend(number: u8) -> [u8; 4] {
    [10, 0, 0, number]
}

/// A judge of one run with two backends that take flows.
struct Rig(Box<dyn Judge>, u64);

impl Rig {
    fn new() -> Rig {
        Rig::of(false)
    }

    fn of(rewrites: bool) -> Rig {
        let rule = |number| BackendRule {
            addr: Some(Addr::v4(backend(number))),
            port: Some(80),
            mac: None,
            weight: 1,
        };
        // A third one takes no flows, and answers.
        let service = |protocol| ServiceRule {
            name: "web".into(),
            vip: Addr::v4(VIP),
            bits: 128,
            port: Some(80),
            protocol,
            backends: vec![rule(1), rule(2)],
            answering: (1..=3).map(|number| (Addr::v4(backend(number)), 80)).collect(),
        };
        let rules = Rules {
            services: vec![service(protocol::TCP), service(protocol::UDP)],
            rewrites,
            opening_ns: 60 * SECOND,
            open_ns: 900 * SECOND,
            closing_ns: 120 * SECOND,
            datagrams_ns: 300 * SECOND,
            follows_fragments: false,
        };
        Rig(
            judge(
                rules,
                Hearing { is_divided: false, shares: 1, spreads_by_port: false, evicts: false, in_flight: 0 },
            ),
            0,
        )
    }

    /// A client's SYN goes to this backend; says what is wrong with that.
    fn sees(&mut self, time_s: u64, client: u8, to: u8) -> Option<String> {
        let (came, left) = (syn(client, VIP), syn(client, backend(to)));
        self.ruling(time_s, &came, Left::Sent(&left)).wrong
    }

    fn ruling(&mut self, time_s: u64, came: &[u8], left: Left<'_>) -> Ruling {
        let stamp = Stamp { seq: self.1, time_ns: time_s * SECOND };
        self.1 += 1;
        let (link, wire_len) = (LinkType::Ethernet, came.len() as u32);
        self.0.packet(&Passage { stamp, link, wire_len, came, left })
    }

    /// What came leaves as something else; says whether that is right.
    fn is_right(&mut self, time_s: u64, came: &[u8], left: &[u8]) -> bool {
        self.ruling(time_s, came, Left::Sent(left)).wrong.is_none()
    }

    fn ends(&mut self, rejected: u64) -> usize {
        self.0.end(&Counted { events: &[], evicted: 0, rejected }).len()
    }
}

#[test]
fn a_flow_goes_to_a_backend_that_takes_flows() {
    assert_eq!(Rig::new().sees(0, 1, 2), None);
    assert!(Rig::new().sees(0, 1, 3).is_some_and(|why| why.contains("no backend")));
}

#[test]
fn a_flow_stays_as_long_as_it_lives() {
    for (time_s, lives) in [(59, true), (60, false)] {
        let mut rig = Rig::new();
        assert_eq!((rig.sees(0, 1, 1), rig.sees(time_s, 1, 2)), (None, None));
        assert_eq!(rig.ends(0) > 0, lives, "{time_s}");
    }
    let mut rig = Rig::new();
    rig.sees(0, 1, 1);
    rig.sees(1, 1, 2);
    assert_eq!(rig.ends(1), 0, "a table that was full may have forgotten it");
}

#[test]
fn turns_are_even() {
    for (uneven, found) in [(1, 0), (3, 0), (4, 2)] {
        let mut rig = Rig::new();
        (0..uneven).for_each(|client| assert_eq!(rig.sees(0, client, 1), None));
        (100..110).for_each(|client| assert_eq!(rig.sees(0, client, 1 + client % 2), None));
        assert_eq!(rig.ends(0), found, "{uneven}");
    }
}

const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 4000);
const SERVICE: ([u8; 4], u16) = (VIP, 80);

fn at(number: u8) -> ([u8; 4], u16) {
    (backend(number), 80)
}

#[test]
fn what_backends_answer_is_the_services() {
    let mut rig = Rig::of(true);
    // Whichever backend answers, and whether it takes flows.
    for number in 1..=3 {
        let came = tcp(at(number), CLIENT, "sa");
        assert!(rig.is_right(0, &came, &tcp(SERVICE, CLIENT, "sa")), "{number}");
        assert!(!rig.is_right(0, &came, &came), "not rewritten");
        assert!(!rig.is_right(0, &came, &tcp((VIP, 81), CLIENT, "sa")), "another port");
        assert!(!rig.is_right(0, &came, &tcp(([192, 0, 2, 81], 80), CLIENT, "sa")), "another service");
        assert!(!rig.is_right(0, &came, &tcp(SERVICE, (CLIENT.0, 4001), "sa")), "another client");
        assert!(rig.ruling(0, &came, Left::Dropped(NO_BACKEND)).wrong.is_some(), "dropped");
        assert!(rig.ruling(0, &came, Left::Unseen).wrong.is_none());
    }
    let strangers = tcp((backend(1), 81), CLIENT, "sa");
    assert!(rig.is_right(0, &strangers, &strangers), "another port of the backend's host");
    assert!(!rig.is_right(0, &strangers, &tcp(SERVICE, CLIENT, "sa")));
    assert_eq!(rig.ends(0), 0);
    // Without rewriting they pass, and are compared as they are.
    let came = tcp(at(1), CLIENT, "sa");
    assert!(Rig::new().is_right(0, &came, &came));
}

#[test]
fn what_a_client_opens_to_a_backend_stays_as_it_is() {
    let answer = |flags| tcp(at(1), CLIENT, flags);
    let (syn, ack) = (tcp(CLIENT, at(1), "s"), tcp(CLIENT, at(1), "a"));
    let rewritten = |flags| tcp(SERVICE, CLIENT, flags);
    let opened = || {
        let mut rig = Rig::of(true);
        assert!(rig.is_right(0, &syn, &syn));
        assert!(rig.is_right(0, &answer("sa"), &answer("sa")));
        assert!(rig.is_right(1, &ack, &ack) && rig.is_right(1, &answer("a"), &answer("a")));
        rig
    };
    assert_eq!(opened().ends(0), 0);
    // One whose answer leaves as a service's was forgotten: a full table may do that.
    for (forgotten, wrong) in [(0, 1), (1, 0)] {
        let mut rig = opened();
        assert!(rig.is_right(2, &answer("a"), &rewritten("a")));
        assert!(rig.is_right(3, &answer("a"), &rewritten("a")), "from then on it is a service's");
        assert_eq!(rig.ends(forgotten), wrong);
    }
    // Nothing else may be made of it.
    assert!(!opened().is_right(2, &answer("a"), &tcp((VIP, 81), CLIENT, "a")));
    assert!(!opened().is_right(2, &ack, &tcp(CLIENT, at(2), "a")));
    // It lives as long as one to a service.
    assert!(
        opened().is_right(900, &answer("a"), &answer("a")),
        "900 s behind its last packet at 1 s less one"
    );
    assert!(opened().is_right(901, &answer("a"), &rewritten("a")));
    assert_eq!(opened().ends(0), 0);

    // Before the backend's SYN and ACK, what it sends is another connection's.
    let mut rig = Rig::of(true);
    assert!(rig.is_right(0, &syn, &syn));
    assert!(rig.is_right(0, &answer("a"), &rewritten("a")) && rig.is_right(0, &answer("sa"), &answer("sa")));
    // A refusal is of the connection, and ends it.
    let mut rig = Rig::of(true);
    assert!(rig.is_right(0, &syn, &syn) && rig.is_right(0, &answer("ra"), &answer("ra")));
    assert!(rig.is_right(0, &answer("a"), &rewritten("a")));
    // So does the client's end.
    let mut rig = Rig::of(true);
    let reset = tcp(CLIENT, at(1), "r");
    assert!(rig.is_right(0, &syn, &syn) && rig.is_right(0, &reset, &reset));
    assert!(rig.is_right(0, &answer("sa"), &rewritten("sa")));
    assert_eq!(rig.ends(0), 0);
    // Behind a FIN the time-out is short, and a SYN of the backend's answers for a service.
    let mut rig = opened();
    assert!(rig.is_right(2, &answer("fa"), &answer("fa")) && rig.is_right(3, &ack, &ack));
    assert!(rig.is_right(122, &answer("a"), &answer("a")));
    assert!(
        rig.is_right(123, &answer("sa"), &rewritten("sa"))
            && rig.is_right(123, &answer("a"), &rewritten("a"))
    );
    let mut rig = opened();
    assert!(
        rig.is_right(2, &answer("fa"), &answer("fa")) && rig.is_right(122, &answer("a"), &rewritten("a"))
    );
    // The client may open it again.
    let mut rig = opened();
    assert!(rig.is_right(2, &answer("fa"), &answer("fa")) && rig.is_right(3, &syn, &syn));
    assert!(rig.is_right(3, &answer("a"), &rewritten("a")) && rig.is_right(3, &answer("sa"), &answer("sa")));
    assert_eq!(rig.ends(0), 0);
}

#[test]
fn a_datagram_opens_a_direct_connection() {
    let (asks, answers) = (udp(CLIENT, at(1)), udp(at(1), CLIENT));
    let mut rig = Rig::of(true);
    assert!(rig.is_right(0, &answers, &udp(SERVICE, CLIENT)) && rig.is_right(0, &asks, &asks));
    assert!(rig.is_right(299, &answers, &answers) && rig.is_right(599, &answers, &udp(SERVICE, CLIENT)));
    // That of one port is none of another's.
    let other = (CLIENT.0, 4001);
    assert!(rig.is_right(600, &asks, &asks) && rig.is_right(600, &udp(at(1), other), &udp(SERVICE, other)));
    assert_eq!(rig.ends(0), 0);
}

#[test]
fn a_services_answers_let_its_flow_live_with_both_directions_as_one() {
    let answer = tcp(SERVICE, CLIENT, "a");
    for (rewrites, wrong) in [(true, 1), (false, 0)] {
        let mut rig = Rig::of(rewrites);
        assert!(rig.is_right(0, &tcp(CLIENT, SERVICE, "s"), &tcp(CLIENT, at(1), "s")));
        assert!(rig.is_right(59, &answer, &answer));
        assert!(rig.is_right(60, &tcp(CLIENT, SERVICE, "s"), &tcp(CLIENT, at(2), "s")));
        assert_eq!(rig.ends(0), wrong, "{rewrites}");
    }
}

#[test]
fn errors_go_where_what_they_quote_came_from() {
    let router = [203, 0, 113, 1];
    let begun = || {
        let mut rig = Rig::of(true);
        assert!(rig.is_right(0, &tcp(CLIENT, SERVICE, "s"), &tcp(CLIENT, at(2), "s")));
        rig
    };
    let (of_service, of_backend) = (tcp(SERVICE, CLIENT, "a"), |number| tcp(at(number), CLIENT, "a"));
    // A client's is for its flow's backend ...
    let came = error(CLIENT.0, VIP, &of_service);
    let to = |number| error(CLIENT.0, backend(number), &of_backend(number));
    let mut rig = begun();
    let ruling = rig.ruling(1, &came, Left::Sent(&to(2)));
    assert_eq!((ruling.wrong, ruling.own), (None, 1));
    assert!(!ruling.rename.fields().is_empty());
    assert_eq!(rig.ends(0), 0);
    assert!(rig.is_right(1, &came, &to(1)));
    assert_eq!(rig.ends(0), 1, "another backend");
    assert!(!rig.is_right(1, &came, &error(CLIENT.0, backend(2), &of_service)), "with its quote as it came");
    assert!(!rig.is_right(1, &came, &to(3)), "to a backend that takes no flows");
    assert!(!rig.is_right(1, &came, &came));
    assert!(rig.ruling(1, &came, Left::Dropped(NO_BACKEND)).wrong.is_some());
    // ... and a router's, or one about no flow, for the one that the hash says, which is the same in all runs.
    let of_router = error(router, VIP, &of_service);
    let ruling = begun().ruling(1, &of_router, Left::Sent(&error(router, backend(1), &of_backend(1))));
    assert_eq!((ruling.wrong, ruling.own, ruling.rename.fields().is_empty()), (None, 0, true));
    let ruling = Rig::of(true).ruling(1, &came, Left::Sent(&to(1)));
    assert_eq!((ruling.wrong, ruling.own), (None, 0));

    // About what went to a backend, it comes from the service.
    let came = error(router, CLIENT.0, &tcp(CLIENT, at(2), "a"));
    let right = error(VIP, CLIENT.0, &tcp(CLIENT, SERVICE, "a"));
    assert!(begun().is_right(1, &came, &right));
    assert!(!begun().is_right(1, &came, &came));
    assert!(!begun().is_right(1, &came, &error(VIP, CLIENT.0, &tcp(CLIENT, at(2), "a"))));
    // About a direct connection it stays.
    let came = error(backend(2), CLIENT.0, &tcp(CLIENT, at(2), "a"));
    let mut rig = Rig::of(true);
    let syn = tcp(CLIENT, at(2), "s");
    assert!(rig.is_right(0, &came, &right) && rig.is_right(0, &syn, &syn));
    assert!(rig.is_right(0, &came, &came) && rig.ends(0) == 0);
    assert!(rig.is_right(0, &came, &right) && rig.ends(0) == 1, "forgotten");
    // One about others' packets stays.
    let mut rig = begun();
    let came = error(router, CLIENT.0, &tcp(CLIENT, (router, 80), "a"));
    assert!(rig.is_right(1, &came, &came) && !rig.is_right(1, &came, &right));
    assert_eq!(rig.ends(0), 0);
}

/// What a full table did not take, or had to forget, is a service's, and no more often than it was full.
#[test]
fn a_direct_connection_may_be_forgotten_and_begun_anew() {
    let (asks, answers, rewritten) = (udp(CLIENT, at(1)), udp(at(1), CLIENT), udp(SERVICE, CLIENT));
    let mut rig = Rig::of(true);
    assert!(rig.is_right(0, &asks, &asks));
    for left in [&rewritten, &rewritten, &answers, &answers, &rewritten] {
        assert!(rig.is_right(1, &answers, left));
    }
    let (about, as_services) =
        (error(backend(1), CLIENT.0, &udp(CLIENT, at(1))), error(VIP, CLIENT.0, &udp(CLIENT, SERVICE)));
    assert!(rig.is_right(1, &about, &as_services) && rig.is_right(1, &about, &about));
    assert!(!rig.is_right(1, &about, &error(VIP, CLIENT.0, &udp(CLIENT, at(1)))));
    assert!(rig.is_right(1, &about, &as_services));
    assert_eq!(rig.ends(2), 1, "three times");

    // A SYN begins it anew, where it was forgotten: what the backend sends ahead of its own is another's.
    let (syn, answer) = (tcp(CLIENT, at(1), "s"), |flags| tcp(at(1), CLIENT, flags));
    let mut rig = Rig::of(true);
    assert!(rig.is_right(0, &syn, &syn) && rig.is_right(0, &answer("sa"), &tcp(SERVICE, CLIENT, "sa")));
    assert!(rig.is_right(1, &syn, &syn) && rig.is_right(1, &answer("a"), &tcp(SERVICE, CLIENT, "a")));
    assert!(rig.is_right(1, &answer("sa"), &answer("sa")));
    assert_eq!(rig.ends(1), 0);
    // Which answers mean which connection is told.
    assert_eq!(rig.ruling(2, &answer("a"), Left::Sent(&answer("a"))).meant, 1);
    assert_eq!(rig.ruling(2, &tcp(at(2), CLIENT, "a"), Left::Sent(&tcp(SERVICE, CLIENT, "a"))).meant, 0);
}
