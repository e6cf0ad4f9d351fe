//! `paceline ctl why`, `move`, `pin`, `unpin`: what a run says of a flow is where its packets go, and entries and shards go where
//! they are asked to.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::number;
use crate::service::{Lan, Run};
use crate::support::{paceline, stderr};

const PATIENCE: Duration = Duration::from_secs(60);
const FLOW: [&str; 3] = ["udp", "192.0.2.1:5000", "192.0.2.2:6000"];
/// More flows, so that loads are such that entries move.
const OTHERS: u16 = 30;

struct Middle {
    lan: Lan,
    run: Run,
    flow: UdpSocket,
    others: Vec<UdpSocket>,
}

impl Middle {
    fn new(strategy: &str) -> Option<Middle> {
        let lan = Lan::new(&format!("why-{strategy}"))?;
        let chain = lan.folder.file("track.toml");
        let run = lan.start(&[&chain, "--strategy", strategy, "--cores", "2"], &[]);
        assert!(lan.left.ping("192.0.2.2", 1));
        let socket = |port: u16| {
            let socket = UdpSocket::bind(("192.0.2.1", port)).expect("the address is its own");
            socket.connect("192.0.2.2:6000").expect("a route");
            socket
        };
        let (flow, others) =
            lan.left.inside(|| (socket(5_000), (0..OTHERS).map(|port| socket(5_001 + port)).collect()));
        Some(Middle { lan, run, flow, others })
    }

    /// A packet of each flow; nobody listens, which ICMP may say.
    fn send(&self) {
        for socket in self.others.iter().chain([&self.flow]) {
            let _ = socket.send(b"squeak");
        }
        thread::sleep(Duration::from_millis(1));
    }

    fn why(&self, flow: &[&str]) -> Value {
        let answer: Value =
            serde_json::from_str(&self.lan.ctl(&[&["why", "--json"], flow].concat())).expect("JSON");
        answer["why"].clone()
    }

    fn flow(&self) -> Value {
        self.why(&FLOW)["flow"].clone()
    }

    /// Sends until it holds of the flow.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            for _ in 0..50 {
                self.send();
            }
            let flow = self.flow();
            if holds(&flow) {
                return flow;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: {flow:#}");
        }
    }

    /// Which core works on the flow's packets.
    fn core_by_its_packets(&self) -> u64 {
        let packets = || -> Vec<u64> {
            let status: Value = serde_json::from_str(&self.lan.ctl(&["status", "--json"])).expect("JSON");
            status["status"]["cores"]
                .as_array()
                .expect("cores")
                .iter()
                .map(|core| number(&core["packets"]))
                .collect()
        };
        // What was on its way, and answers of the other host.
        thread::sleep(Duration::from_millis(300));
        let before = packets();
        for _ in 0..200 {
            let _ = self.flow.send(b"squeak");
            thread::sleep(Duration::from_micros(200));
        }
        let begin = Instant::now();
        loop {
            let more: Vec<u64> = packets().iter().zip(&before).map(|(now, before)| now - before).collect();
            if more.iter().sum::<u64>() >= 200 {
                return u64::from(more[1] > more[0]);
            }
            assert!(begin.elapsed() < PATIENCE, "{more:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn refused(&self, arguments: &[&str], why: &str) {
        let output = paceline(&[&["ctl", "--control", &self.lan.socket()], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }

    fn end(self) -> Value {
        self.run.signal("-TERM");
        self.run.ended()
    }
}

fn put_by_hand(strategy: &str, unit: &str) {
    let Some(middle) = Middle::new(strategy) else { return };
    let first = middle.until("it is somewhere", |flow| flow["core"].is_u64());
    let entry = number(&first["entry"]).to_string();
    for _ in 0..2 {
        let core = number(&middle.flow()["core"]);
        let other = 1 - core;
        let told = middle.lan.ctl(&["pin", &entry, &other.to_string()]);
        assert!(told.starts_with(&format!("{unit} {entry} goes to core {other} ")), "{told}");
        let moved = middle.until("it is pinned", |flow| number(&flow["core"]) == other);
        assert!(number(&moved["since_packet"]) > 0 && number(&moved["since_ns"]) > 0, "{moved:#}");
        assert_eq!(middle.core_by_its_packets(), number(&middle.flow()["stepped_by"]), "{moved:#}");
        assert_eq!(
            middle.why(&[])["pins"],
            serde_json::json!([[entry.parse::<u64>().expect("a number"), other]])
        );
        // It stays through a look at the loads, at least.
        let looks = |why: &Value| number(&why["told"]["looks"]);
        let before = looks(&middle.why(&[]));
        middle.until("looks", |_| looks(&middle.why(&[])) > before + 2);
        assert_eq!(number(&middle.flow()["core"]), other, "pinned");
    }
    middle.lan.ctl(&["unpin", &entry]);
    middle.refused(&["unpin", &entry], "is not pinned");
    let core = number(&middle.flow()["core"]);
    let before = number(&middle.flow()["since_packet"]);
    middle.lan.ctl(&["move", &entry, &(1 - core).to_string()]);
    middle.until("it is moved", |flow| number(&flow["since_packet"]) > before);
    middle.refused(&["pin", "9999", "0"], &format!("there is no {unit} 9999"));
    middle.refused(&["pin", &entry, "2"], "core 2 gets no packets: cores 0 to 1 do");
    middle.lan.ctl(&["cores", "1"]);
    middle.refused(&["move", &entry, "1"], "core 1 gets no packets: cores 0 to 0 do");
    let text = middle.lan.ctl(&["why"]);
    assert!(
        text.contains("the last change, ahead of packet ") && text.contains(&format!("  {unit} ")),
        "{text}"
    );
    let text = middle.lan.ctl(&[&["why"], &FLOW[..]].concat());
    assert!(text.starts_with(&format!("udp 192.0.2.1:5000 > 192.0.2.2:6000: {unit} {entry}")), "{text}");
    let report = middle.end();
    assert_eq!(report["verdicts"]["forward"], report["packets"], "{report:#}");
}

#[test]
fn entries_go_where_they_are_asked_to_under_rsspp() {
    put_by_hand("rsspp", "entry");
}

#[test]
fn shards_go_where_they_are_asked_to_under_dyssect() {
    put_by_hand("dyssect", "shard");
}

/// A flow's packets go where it says, under strategies that put nothing by hand and say so.
#[test]
fn other_strategies_say_where_a_flow_is_and_refuse_to_move_it() {
    for (strategy, why) in [
        ("rss", "entries go to other cores only where the number of cores changes"),
        ("scr", "each core has all flows"),
        ("hybrid", "flows stay on their core, or go to all cores"),
        ("auto", "where flows are changes with what runs"),
        ("shared", "all cores have one table"),
    ] {
        let Some(middle) = Middle::new(strategy) else { return };
        (0..50).for_each(|_| middle.send());
        middle.refused(&["pin", "0", "1"], why);
        let flow = middle.flow();
        let text = middle.lan.ctl(&["why"]);
        println!("{text}");
        match strategy {
            "rss" => assert_eq!(middle.core_by_its_packets(), number(&flow["core"]), "{flow:#}"),
            "scr" | "shared" => {
                assert!(flow["core"].is_null(), "{flow:#}");
                assert_eq!(text, format!("{strategy} decides nothing while it runs\n"));
            }
            "hybrid" => {
                assert!(text.contains("in the last period"), "{text}");
                // Alone it is an elephant.
                let begin = Instant::now();
                while middle.flow()["promoted"] == serde_json::json!(false) {
                    (0..500).for_each(|_| drop(middle.flow.send(b"squeak")));
                    assert!(begin.elapsed() < PATIENCE, "{}", middle.lan.ctl(&["why"]));
                }
                let text = middle.lan.ctl(&["why"]);
                assert!(text.contains("is promoted, with "), "{text}");
            }
            _ => assert!(text.starts_with("auto, which has ") && text.contains("so far"), "{text}"),
        }
        middle.refused(&["why", "tcp", "192.0.2.1", "192.0.2.2:80"], "is no address with a port");
        middle.end();
    }
}
