//! The page of a run on interfaces: what it asks the run beside counters. `crates/dashboard` has the server's own tests.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::live::number;
use crate::service::{Lan, Run};
use crate::web::Messages;

const PAGE: &str = "127.0.0.1:9101";

const CHAIN: &str = "name = \"watched\"\n[[function]]\nuse = \"flow-statistics\"\n[[function]]\nuse = \"nat\"\n\
                     inside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\n";

/// A router with a page, and hosts on both sides of it.
struct Watched {
    lan: Lan,
    run: Run,
    socket: UdpSocket,
}

impl Watched {
    fn new(label: &str, options: &[&str]) -> Option<Watched> {
        let lan = Lan::new(&format!("web-{label}"))?;
        lan.routed();
        let chain = lan.folder.file("watched.toml");
        std::fs::write(&chain, CHAIN).expect("a folder of the test");
        lan.gateway.ping("10.0.0.10", 1);
        lan.gateway.ping("203.0.113.2", 1);
        let arguments = [&*chain, "--mode", "route", "--strategy", "rss", "--cores", "2", "--web", PAGE];
        let run = lan.start(&[&arguments[..], options].concat(), &[]);
        let socket = lan.left.inside(|| UdpSocket::bind(("10.0.0.10", 5_000)).expect("its own address"));
        Some(Watched { lan, run, socket })
    }

    fn send(&self, packets: usize) {
        for _ in 0..packets {
            self.socket.send_to(b"squeak", "203.0.113.2:6000").expect("a route");
        }
    }
}

#[test]
fn the_fastest_flows_are_listed_while_packets_pass() {
    let Some(watched) = Watched::new("flows", &[]) else { return };
    let view = watched.lan.gateway.inside(|| {
        let mut messages = Messages::of(PAGE, "/flows");
        let views = std::iter::from_fn(|| messages.next()).take(60).inspect(|_| watched.send(500));
        views.into_iter().find(|view| view["flows"][0]["packets_per_s"].as_f64() > Some(100.0))
    });
    let view = view.expect("a fast flow within a minute");
    let flow = &view["flows"][0];
    assert_eq!(
        flow["function"],
        json!("flow-statistics"),
        "the NAT counts no packets of all a flow: {view:#}"
    );
    assert_eq!(flow["key"], json!("udp 10.0.0.10:5000 -> 203.0.113.2:6000"), "{view:#}");
    assert!(number(&flow["packets"]) >= 500 && view["error"] == Value::Null, "{view:#}");
    assert!(view["core_percent"].as_f64() <= Some(1.0), "{view:#}");
    watched.run.signal("-TERM");
    watched.run.ended();
}

/// Head and body of an answer to a request of the page.
fn post(path: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(PAGE).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a bounded wait");
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {PAGE}\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[test]
fn packets_are_traced_by_a_filter_of_the_page() {
    let Some(watched) = Watched::new("trace", &[]) else { return };
    let json = "Content-Type: application/json\r\n";
    // The trace before keeps its place for a moment.
    let trace = |filter: &str| {
        let begin = Instant::now();
        loop {
            let (head, told) = watched.lan.gateway.inside(|| post("/trace", json, filter));
            if !head.starts_with("HTTP/1.1 409 ") {
                return told;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{told}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for (filter, why) in [
        ("{\"host\":\"gateway.example\"}", "no address and no prefix"),
        ("{\"protocol\":\"icmp\",\"port\":53}", "expression rejects all packets"),
    ] {
        let told = trace(filter);
        assert!(told.contains("refused") && told.contains(why), "{filter}: {told}");
    }
    let told = std::thread::scope(|scope| {
        let traced = scope.spawn(|| trace("{\"protocol\":\"udp\",\"port\":6000,\"host\":\"10.0.0.0/24\"}"));
        while !traced.is_finished() {
            watched.send(1);
            std::thread::sleep(Duration::from_millis(2));
        }
        traced.join().expect("no panic")
    });
    assert!(told.contains("udp and net 10.0.0.0/24 and port 6000"), "{told}");
    assert_eq!(told.matches("udp 10.0.0.10:5000 > 203.0.113.2:6000").count(), 20, "{told}");
    assert!(told.contains("flow-statistics") && told.contains("\"by\":\"packets\""), "{told}");
    watched.run.signal("-TERM");
    watched.run.ended();
}

#[test]
fn who_has_the_token_reloads_by_the_page() {
    let Some(mut watched) = Watched::new("reload", &["--web-control"]) else { return };
    watched.send(1);
    let (_, token) = watched.run.said.split_once("token of the page: ").expect("a token");
    let token = token.lines().next().expect("a line").to_owned();
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let reload = |token: &str, text: &str| {
        let headers = format!("Content-Type: application/toml\r\nAuthorization: Bearer {token}\r\n");
        watched.lan.gateway.inside(|| post("/reload", &headers, text))
    };
    let (head, _) = reload("00000000000000000000000000000000", CHAIN);
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    let (head, told) = reload(&token, "[[function]]\nuse = \"natt\"\n");
    assert!(
        head.starts_with("HTTP/1.1 422 ") && told.contains("`nat`"),
        "a misspelt name gets a suggestion: {head}{told}"
    );
    let (head, told) = reload(&token, &format!("{CHAIN}ports = [2048, 4095]\n"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}{told}");
    assert!(
        told.contains("flow-statistics goes on with ") && told.contains("nat begins anew, because"),
        "{told}"
    );
    let (head, told) = reload(&token, "");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && told.contains("nat begins anew"),
        "the run's own file again: {head}{told}"
    );
    watched.run.hear("reloaded by the page");
    watched.run.signal("-TERM");
    assert_eq!(watched.run.ended()["reloads"].as_array().map(Vec::len), Some(2));
}
