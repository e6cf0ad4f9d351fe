//! Names are asked for through a gateway: datagrams, each from a port of its own, and answers that find back.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::live::{number, of};
use crate::service::Lan;

/// How long an answer may take. A busy machine holds it up.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = "203.0.113.2:53";
/// What every name is answered with.
const ANSWER: [u8; 4] = [192, 0, 2, 53];
const QUERIES: u16 = 32;

/// RFC 1035 §4.1: a question for an address.
pub fn query(id: u16, name: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    // Recursion desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The answer to a question: its name, by a pointer, has the one address.
pub fn answer(query: &[u8]) -> Vec<u8> {
    answers(query, 1)
}

/// An answer that says the address so many times, 16 bytes each.
pub fn answers(query: &[u8], times: u16) -> Vec<u8> {
    let name_len = query[12..].iter().position(|byte| *byte == 0).expect("a name ends") + 1;
    // What follows the question, such as EDNS, is left out.
    let mut bytes = query[..12 + name_len + 4].to_vec();
    bytes[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes[6..8].copy_from_slice(&times.to_be_bytes());
    for _ in 0..times {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        bytes.extend(ANSWER);
    }
    bytes
}

/// Answers until it is told to end; returns the senders of all questions. Before each answer comes a forged one,
/// from another port.
fn serve(server: &UdpSocket, forger: &UdpSocket, goes_on: &AtomicBool) -> Vec<SocketAddr> {
    let (mut buffer, mut asked) = ([0; 512], Vec::new());
    while goes_on.load(Ordering::Relaxed) {
        let Ok((len, from)) = server.recv_from(&mut buffer) else { continue };
        forger.send_to(b"forged", from).expect("it is sent");
        server.send_to(&answer(&buffer[..len]), from).expect("it is sent");
        asked.push(from);
    }
    asked
}

/// Ends the server, after a panic, too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn names_are_answered(strategy: &str, cores: &str) {
    let Some(lan) = Lan::new(&format!("dns-{strategy}")) else { return };
    lan.routed();
    for host in [&lan.left, &lan.right] {
        host.offload("eth0");
    }
    // Neighbours first: of packets to one that is unknown only the latest waits.
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let route = ["--mode", "route", "--socket", "xdp", "--strategy", strategy, "--cores", cores];
    let run = lan.start(&[&["examples/gateway.toml"], &route[..]].concat(), &[]);
    let bind = |address: &str| lan.right.bound(|| UdpSocket::bind(address));
    let (server, forger) = (bind(SERVER), bind("203.0.113.2:5353"));
    server.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let goes_on = AtomicBool::new(true);
    let (asked, has_dig) = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&server, &forger, &goes_on));
        let ending = Ending(&goes_on);
        for id in 0..QUERIES {
            let socket = lan.left.bound(|| UdpSocket::bind("10.0.0.10:0"));
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let query = query(id, &format!("host{id}.example.com"));
            socket.send_to(&query, SERVER).expect("it is sent");
            let mut buffer = [0; 512];
            let (len, from) = socket.recv_from(&mut buffer).expect("an answer comes");
            assert_eq!(from.to_string(), SERVER, "not the forged one");
            assert!(buffer[..len] == answer(&query), "{:?}", &buffer[..len]);
        }
        let has_dig = dig(&lan);
        drop(ending);
        (serving.join().expect("no panic"), has_dig)
    });
    run.signal("-TERM");
    let report = run.ended();
    let queries = u64::from(QUERIES) + u64::from(has_dig);
    assert_eq!(asked.len() as u64, queries);
    assert!(asked.iter().all(|from| from.ip().to_string() == "203.0.113.1"), "the NAT's address: {asked:?}");
    // Questions and answers, and nothing else: the forged ones were dropped, for a reason.
    let verdicts = &report["verdicts"];
    assert_eq!(number(&verdicts["forward"]), 2 * queries, "{report:#}");
    assert_eq!(number(&verdicts["drop"]), queries, "{report:#}");
    for interface in ["in", "out"] {
        let interface = of(&report, interface);
        assert_eq!(interface["lost"], json!({}), "{interface:#}");
        assert_eq!(number(&interface["sent"]), queries, "{interface:#}");
    }
}

/// Whether there is `dig`; what it asks is answered.
fn dig(lan: &Lan) -> bool {
    if std::process::Command::new("dig").arg("-v").output().is_err() {
        println!("`dig` (package dnsutils) is not asked: it does not run");
        return false;
    }
    let output = lan.left.run("dig", "+short +tries=1 +time=10 +noedns @203.0.113.2 paceline.example.com");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "192.0.2.53", "{said}");
    true
}

#[test]
fn names_are_answered_through_a_nat_on_one_core() {
    names_are_answered("single", "1");
}

#[test]
fn names_are_answered_through_a_nat_under_rss() {
    names_are_answered("rss", "2");
}

#[test]
fn names_are_answered_through_a_nat_under_scr() {
    names_are_answered("scr", "2");
}
