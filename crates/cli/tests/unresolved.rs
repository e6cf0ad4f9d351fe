//! A router's first packet to a neighbour that nobody knows yet: it waits while the kernel resolves the neighbour.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};

use crate::own_sockets::IN_TURNS;
use crate::service::Lan;
use crate::soak::adds_up;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// What `ping` says of `count` requests, the answers to which are waited for patiently.
fn ping(lan: &Lan, address: &str, count: u32) -> String {
    let output = lan.left.run("ping", &format!("-n -i 0.3 -W 20 -c {count} {address}"));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn lost_nothing(report: &Value) {
    for interface in report["interfaces"].as_array().expect("a list") {
        assert_eq!(interface["lost"], json!({}), "{interface}");
    }
}

/// The first request is answered, though the router has never seen the neighbour, and nothing is lost.
fn the_first_request_is_answered(label: &str, arguments: &[&str]) {
    let Some(lan) = Lan::new(&format!("unresolved-{label}")) else { return };
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    for (host, address, interface) in [
        (&lan.left, "2001:db8:1::10", "eth0"),
        (&lan.gateway, "2001:db8:1::1", "in"),
        (&lan.gateway, "fe80::1", "in"),
        (&lan.gateway, "2001:db8:2::1", "out"),
        (&lan.gateway, "fe80::2", "out"),
        (&lan.right, "2001:db8:2::2", "eth0"),
    ] {
        host.ip(&format!("addr add {address}/64 dev {interface} nodad"));
    }
    lan.left.ip("-6 route add default via 2001:db8:1::1");
    lan.right.ip("-6 route add default via 2001:db8:2::1");
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&[chain.as_str(), "--mode", "route"], arguments].concat(), &[]);
    for address in ["203.0.113.2", "2001:db8:2::2"] {
        let said = ping(&lan, address, 1);
        assert!(said.contains(" 1 received"), "{address}: {said}");
    }
    lan.ctl(&["stop"]);
    let report = run.ended();
    let routing = &report["routing"];
    assert_eq!((number(&routing["sent"]), &routing["dropped"]), (4, &json!({})), "{report:#}");
    lost_nothing(&report);
    adds_up(&report);
}

#[test]
fn the_first_request_is_answered_on_one_core() {
    the_first_request_is_answered("xdp", &["--socket", "xdp"]);
}

#[test]
fn the_first_request_is_answered_by_af_packet() {
    the_first_request_is_answered("packet", &["--socket", "packet"]);
}

#[test]
fn the_first_request_is_answered_on_two_cores() {
    the_first_request_is_answered("rss", &["--socket", "xdp", "--strategy", "rss", "--cores", "2"]);
}

#[test]
fn the_first_request_is_answered_behind_a_front() {
    let front = ["--socket", "xdp", "--strategy", "rss", "--cores", "2", "--front"];
    the_first_request_is_answered("front", &front);
}

#[test]
fn the_first_request_is_answered_by_cores_that_take_turns() {
    let turns = [&["--socket", "xdp", "--cores", "2"], &IN_TURNS[..]].concat();
    the_first_request_is_answered("turns", &turns);
}

/// A neighbour that does not answer: packets wait, are dropped when the kernel gives the neighbour up, and their sender is told of
/// each of them as it sent it, past the NAT, by the router's address inside.
#[test]
fn the_sender_is_told_of_a_neighbour_that_does_not_answer() {
    let Some(lan) = Lan::new("unresolved-silent") else { return };
    lan.routed();
    let chain = lan.folder.nat_chain();
    let run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    let said = ping(&lan, "203.0.113.77", 3);
    for number in 1..=3 {
        let told = format!("From 10.0.0.1 icmp_seq={number} Destination Host Unreachable");
        assert!(said.contains(&told), "{said}");
    }
    lan.ctl(&["stop"]);
    let report = run.ended();
    let routing = &report["routing"];
    assert_eq!(routing["dropped"], json!({ "no-neighbour": 3 }), "{report:#}");
    assert_eq!([number(&routing["icmp_errors"]), number(&routing["sent"])], [3, 0], "{report:#}");
    lost_nothing(&report);
    adds_up(&report);
}

/// As a resolver asks for A and AAAA at once: both questions arrive.
#[test]
fn two_packets_at_once_to_a_neighbour_that_is_not_known_both_arrive() {
    let Some(lan) = Lan::new("unresolved-two") else { return };
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    lan.right.ip("addr add 203.0.113.53/24 dev eth0");
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    let server = lan.right.bound(|| UdpSocket::bind("203.0.113.53:53"));
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let client = lan.left.bound(|| UdpSocket::bind("10.0.0.10:0"));
    for question in [b"A", b"B"] {
        client.send_to(question, "203.0.113.53:53").expect("it is sent");
    }
    let mut buffer = [0; 9];
    for question in [b"A", b"B"] {
        let (len, _) = server.recv_from(&mut buffer).expect("both arrive");
        assert_eq!(&buffer[..len], question);
    }
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], json!({}), "{report:#}");
    lost_nothing(&report);
}

/// A packet that waits outlives a reload. When the run ends it is counted, and its frame is back in the pool.
#[test]
fn what_waits_when_the_run_ends_is_counted() {
    let Some(lan) = Lan::new("unresolved-end") else { return };
    lan.routed();
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    let socket = lan.left.bound(|| UdpSocket::bind("10.0.0.10:0"));
    for host in 77..80 {
        socket.send_to(b"hello", format!("203.0.113.{host}:9")).expect("it is sent");
    }
    // As soon as they are there.
    let has_come = || lan.ctl(&["status"]).contains("in: 3 packets");
    assert!((0..100).any(|_| has_come() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
    lan.ctl(&["reload", &chain]);
    lan.ctl(&["stop"]);
    let report = run.ended();
    let routing = &report["routing"];
    assert_eq!(
        (number(&routing["sent"]), &routing["dropped"]),
        (0, &json!({ "no-neighbour": 3 })),
        "{report:#}"
    );
    lost_nothing(&report);
    adds_up(&report);
}
