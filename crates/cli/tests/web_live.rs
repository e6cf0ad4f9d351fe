//! The page of a run on interfaces: what it asks the run beside counters. `crates/dashboard` has the server's own tests.

use std::net::UdpSocket;

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
