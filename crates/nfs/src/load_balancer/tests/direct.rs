//! Connections that clients open to a backend itself, beside those of the service: `rewrite_answers = true`.

use nf::Connection;

use super::*;

type Balancer = super::super::LoadBalancer<Connection>;

const SYN_ACK: u8 = tcp_flags::SYN | tcp_flags::ACK;

fn rig(options: &str) -> Rig<Balancer> {
    Rig::new(function(&format!("rewrite_answers = true\n{}", service(options))))
}

const ONE: &str = "{ address = \"10.9.0.1\", port = 8080 }";

/// From 10.0.0.1:4000 to the backend itself, 10.9.0.1:8080.
fn to_backend(tcp_flags: u8) -> Headers {
    Headers { dst: Addr::v4([10, 9, 0, 1]), dst_port: 8080, tcp_flags, ..tcp(0) }
}

/// From there, to the client.
fn from_backend(tcp_flags: u8) -> Headers {
    let Headers { src, dst, src_port, dst_port, .. } = to_backend(0);
    Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..to_backend(tcp_flags) }
}

/// Whether the packet leaves as it came; else as an answer of the service's.
fn passes(rig: &mut Rig<Balancer>, now: Stamp, headers: &Headers) -> bool {
    assert_eq!(rig.step(now, headers), PASS);
    let mut vip = Edits::NONE;
    vip.set_src(Addr::v4([192, 0, 2, 1]));
    vip.set_src_port(80);
    assert!(rig.edits().is_empty() || *rig.edits() == vip, "{:?}", rig.edits());
    rig.edits().is_empty()
}

fn at(seconds: u64, seq: u64) -> Stamp {
    Stamp { seq, time_ns: seconds * 1_000_000_000 }
}

fn follow(rig: &mut Rig<Balancer>, packets: &[(u64, Headers, bool, Option<Phase>)]) {
    for (seq, (seconds, packet, as_it_is, phase)) in (0..).zip(packets) {
        assert_eq!(passes(rig, at(*seconds, seq), packet), *as_it_is, "packet {seq}");
        assert_eq!(rig.state(&to_backend(0)).map(|state| state.phase), *phase, "packet {seq}");
    }
}

#[test]
fn golden() {
    let mut rig = rig(ONE);
    follow(
        &mut rig,
        &[
            (0, to_backend(SYN), true, Some(Phase::Opening)),
            (1, to_backend(SYN), true, Some(Phase::Opening)),
            (2, from_backend(SYN_ACK), true, Some(Phase::Open)),
            (2, to_backend(ACK), true, Some(Phase::Open)),
            (3, from_backend(ACK), true, Some(Phase::Open)),
            (902, from_backend(ACK), true, Some(Phase::Open)),
            (902, from_backend(FIN), true, Some(Phase::Closing)),
            (903, to_backend(FIN), true, Some(Phase::Closing)),
            (903, from_backend(ACK), true, Some(Phase::Closing)),
            // Another connection of the same ends.
            (904, to_backend(SYN), true, Some(Phase::Opening)),
            (904, from_backend(SYN_ACK), true, Some(Phase::Open)),
            (904, to_backend(RST), true, Some(Phase::Closing)),
            // The client then opens one to the service with the same port.
            (905, from_backend(SYN_ACK), false, None),
            (905, from_backend(ACK), false, None),
        ],
    );
    assert_eq!((rig.event("direct-flows"), rig.event("answers-rewritten")), (1, 2));
}

#[test]
fn what_a_backend_refuses_is_forgotten() {
    let mut rig = rig(ONE);
    follow(
        &mut rig,
        &[
            (0, to_backend(SYN), true, Some(Phase::Opening)),
            (0, from_backend(RST), true, None),
            (1, to_backend(SYN), true, Some(Phase::Opening)),
            (61, from_backend(SYN_ACK), false, None), // too late
            (62, to_backend(SYN), true, Some(Phase::Opening)),
            (62, to_backend(RST), true, None),
        ],
    );
}

/// The backend has the connection already, and answers with an ACK; a client's port is all that a stranger has to guess.
#[test]
fn forged_packets_take_no_connection_from_the_service() {
    let mut rig = rig(ONE);
    rig.packet(0, &with_flags(SYN, tcp(0)));
    assert!(!passes(&mut rig, at(0, 1), &from_backend(SYN_ACK)));
    rig.packet(0, &with_flags(ACK, tcp(0)));
    for flags in [SYN, ACK, FIN, RST] {
        assert!(passes(&mut rig, at(1, 4), &to_backend(SYN)));
        assert!(passes(&mut rig, at(1, 5), &to_backend(flags)));
        assert!(!passes(&mut rig, at(1, 6), &from_backend(ACK)), "{flags}");
    }
    assert_eq!(rig.state(&tcp(0)).unwrap().phase, Phase::Open);
}

/// A connection in the middle is the service's, and so is what goes elsewhere.
#[test]
fn only_what_opens_is_direct() {
    let mut rig = rig(ONE);
    for packet in
        [to_backend(ACK), to_backend(RST), to_backend(SYN_ACK), Headers { dst_port: 81, ..to_backend(SYN) }]
    {
        assert!(passes(&mut rig, at(0, 0), &packet));
        assert!(!passes(&mut rig, at(0, 1), &from_backend(ACK)));
    }
    assert!(rig.is_empty());
}

#[test]
fn datagrams_too() {
    let mut rig: Rig<Balancer> = Rig::new(function(
        "rewrite_answers = true\n[[services]]\nvip = \"192.0.2.1\"\nport = 80\nprotocol = \"udp\"\n\
         backends = [{ address = \"10.9.0.1\", port = 8080 }]",
    ));
    let answer = udp(from_backend(0));
    assert!(!passes(&mut rig, at(0, 0), &answer));
    assert!(passes(&mut rig, at(1, 1), &udp(to_backend(0))));
    assert!(passes(&mut rig, at(300, 2), &answer));
    assert!(passes(&mut rig, at(599, 3), &answer));
    assert!(!passes(&mut rig, at(899, 4), &answer));
}

/// Either end may be the lesser one, and fragments of direct packets are whole packets' business.
#[test]
fn of_every_client() {
    for src in [[1, 0, 0, 1], [10, 9, 0, 1], [200, 0, 0, 1]] {
        let mut rig = rig(ONE);
        let marks = Marks::IPV4 | Marks::FIRST_FRAGMENT;
        let (to, from) = (to_backend(SYN), from_backend(SYN_ACK));
        assert!(passes(&mut rig, at(0, 0), &Headers { src: Addr::v4(src), marks, ..to }));
        assert!(passes(&mut rig, at(0, 1), &Headers { dst: Addr::v4(src), marks, ..from }));
        assert!(passes(&mut rig, at(0, 2), &Headers { dst: Addr::v4(src), ..from_backend(ACK) }));
    }
}

/// Then answers are the service's, as if nobody had opened anything.
#[test]
fn a_full_table_lets_the_opening_pass() {
    let balancer: Balancer = function(&format!("rewrite_answers = true\n{}", service(TWO)));
    assert_eq!(verdict_when_full(&balancer, &to_backend(SYN)), PASS);
}
