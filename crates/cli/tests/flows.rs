//! `paceline ctl flows`: the flows of a run on interfaces, listed and removed while packets pass.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::live::number;
use crate::service::{Lan, Run, page};
use crate::support::{paceline, stderr};
use crate::web::Messages;

/// Flows beside one that goes on all the while.
const FLOWS: u16 = 20;

const CHAIN: &str = "name = \"gate\"\n[[function]]\nuse = \"flow-statistics\"\n[[function]]\nuse = \"nat\"\n\
                     inside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\n";

struct Gate {
    lan: Lan,
    run: Run,
    sockets: Vec<UdpSocket>,
    background: UdpSocket,
}

impl Gate {
    /// `label` is the test's own.
    fn new(label: &str, strategy: &str) -> Option<Gate> {
        let lan = Lan::new(&format!("flows-{label}-{strategy}"))?;
        lan.routed();
        let chain = lan.folder.file("gate.toml");
        std::fs::write(&chain, CHAIN).expect("a folder of the test");
        let cores = if strategy == "single" { "1" } else { "2" };
        lan.gateway.ping("10.0.0.10", 1);
        lan.gateway.ping("203.0.113.2", 1);
        let run = lan.start(&[&chain, "--mode", "route", "--strategy", strategy, "--cores", cores], &[]);
        let socket = |port: u16| {
            let socket = UdpSocket::bind(("10.0.0.10", port)).expect("the address is its own");
            socket.connect("203.0.113.2:6000").expect("a route");
            socket
        };
        let (sockets, background) =
            lan.left.inside(|| ((0..FLOWS).map(|port| socket(5_000 + port)).collect(), socket(4_000)));
        Some(Gate { lan, run, sockets, background })
    }

    fn send(&self) {
        for socket in &self.sockets {
            let _ = socket.send(b"squeak");
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn list(&self, filter: &[&str]) -> (Vec<Value>, Value) {
        let text = self.lan.ctl(&[&["flows", "--json"], filter].concat());
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let end = lines.pop().expect("an end");
        assert_eq!(end["end"]["told"], json!(lines.len()), "{end}");
        assert_eq!(end["end"]["missed"], json!(0), "{end}");
        (lines.into_iter().map(|line| line["flow"].clone()).collect(), end["end"]["list"].clone())
    }

    /// Lists until there are so many flows, which are sent meanwhile.
    fn until(&self, filter: &[&str], flows: usize) -> Vec<Value> {
        for _ in 0..200 {
            let (listed, _) = self.list(filter);
            if listed.len() == flows {
                return listed;
            }
            self.send();
        }
        panic!("{flows} flows wanted: {:#?}", self.list(filter));
    }

    fn refused(&self, arguments: &[&str], why: &str) {
        let output = paceline(&[&["ctl", "--control", &self.lan.socket()], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }

    /// Does something while a flow's packets pass.
    fn under_traffic<R>(&self, act: impl FnOnce() -> R) -> R {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = self.background.send(b"on and on");
                    thread::sleep(Duration::from_micros(100));
                }
            });
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            is_over.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn look(&self, strategy: &str) {
        let inside = ["--function", "nat", "--host", "10.0.0.0/24"];
        self.send();
        let mappings = self.until(&inside, usize::from(FLOWS) + 1);
        let mut keys: Vec<&str> = mappings.iter().filter_map(|flow| flow["key"].as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), usize::from(FLOWS) + 1, "each once: {mappings:#?}");
        let one =
            mappings.iter().find(|flow| flow["key"] == json!("udp 10.0.0.10:5000")).expect("it is there");
        assert_eq!((&one["function"], &one["protocol"]), (&json!("nat"), &json!("udp")), "{one:#}");
        let left_s = number(&one["left_ns"]) / 1_000_000_000;
        assert!((1..=300).contains(&left_s), "{one:#}");
        let external =
            one["state"].as_array().expect("a state").iter().find(|field| field["name"] == json!("external"));
        assert!(
            external.is_some_and(|field| field["value"]
                .as_str()
                .is_some_and(|text| text.contains("203.0.113.1:"))),
            "{one:#}"
        );
        let replicated = matches!(strategy, "scr" | "scr-turns" | "shared");
        assert!(replicated || strategy == "auto" || one["core"].is_u64(), "{strategy}: {one:#}");
        assert!(!replicated || one["core"].is_null(), "{strategy}: {one:#}");
        // What the other function counts of the same packets, by their key there.
        let statistics = ["--function", "flow-statistics", "--port", "5000", "--protocol", "udp"];
        let counted = self.list(&statistics).0;
        assert!(counted.iter().any(|flow| number(&flow["packets"]) > 0
            && number(&flow["bytes"]) > 0
            && flow["age_ns"].is_u64()));
        assert!(self.list(&["--state", "phase=closing"]).0.is_empty());
        assert_eq!(self.list(&["--state", "datagrams", "--port", "5001"]).0.len(), 1);
        let (some, list) = self.list(&["--limit", "3"]);
        assert_eq!((some.len(), &list["limited"]), (3, &json!(true)));
        let text = self.lan.ctl(&["flows", "--function", "nat", "--port", "5002"]);
        assert!(
            text.starts_with("nat ") && text.contains("udp 10.0.0.10:5002") && text.contains(" left "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    fn kill(&self) {
        let told = self.lan.ctl(&["flows", "--kill", "--function", "nat", "--port", "5003"]);
        assert!(told.contains(" 1 flow removed by hand"), "{told}");
        assert!(self.list(&["--function", "nat", "--port", "5003"]).0.is_empty());
        assert_eq!(self.list(&["--function", "nat", "--port", "5004"]).0.len(), 1, "others stay");
        assert_eq!(self.list(&["--function", "nat", "--port", "4000"]).0.len(), 1, "others stay");
        let told = self.lan.ctl(&["flows", "--kill", "--function", "nat", "--port", "5003"]);
        assert_eq!(told, "no such flow\n");
        // The next packet begins it anew.
        self.until(&["--function", "nat", "--port", "5003"], 1);
        self.refused(&["flows", "--kill"], "which flows are to be removed?");
        self.refused(&["flows", "--kill", "--port", "5", "--limit", "3"], "cannot be used with");
        self.refused(&["flows", "--function", "nut"], "the chain has no function `nut`");
        self.refused(&["flows", "--host", "10.0.0.0/40"], "10.0.0.0/40");
        self.refused(&["flows", "--protocol", "tpc"], "`tpc` is no protocol");
    }
}

#[test]
fn flows_are_listed_and_removed_while_packets_pass() {
    listed_and_removed(&["rsspp", "scr"]);
}

/// `hybrid` runs no NAT: `tests/tests/listing.rs` has it with functions that it runs.
#[test]
fn other_strategies_list_and_remove_flows() {
    listed_and_removed(&["single", "rss", "dyssect", "scr-turns", "shared", "auto"]);
}

fn listed_and_removed(strategies: &[&str]) {
    for strategy in strategies {
        let Some(gate) = Gate::new("all", strategy) else { return };
        gate.under_traffic(|| {
            gate.look(strategy);
            gate.kill();
        });
        gate.run.signal("-TERM");
        let report = gate.run.ended();
        let removed = report["reloads"].as_array().expect("reloads");
        assert_eq!(removed.len(), 1, "{strategy}: {removed:#?}");
        assert_eq!(removed[0]["removed_flows"], json!(1), "{strategy}");
    }
}

/// `ctl rules`, the page and metrics have what each rule decided; `ctl nat` has a line for each mapping.
#[test]
fn rules_and_mappings_are_shown() {
    let lan = Lan::new("flows-rules");
    let Some(lan) = lan else { return };
    lan.routed();
    let chain = lan.folder.file("rules.toml");
    let rules = "[[function]]\nuse = \"firewall\"\nrules = [\"drop udp from any to any port 6001\", \"accept any from any to any\"]\n";
    std::fs::write(&chain, format!("{rules}{}", CHAIN.split_once('\n').expect("lines").1))
        .expect("a folder of the test");
    lan.gateway.ping("10.0.0.10", 1);
    lan.gateway.ping("203.0.113.2", 1);
    let arguments = [&*chain, "--mode", "route", "--strategy", "rss", "--cores", "2"];
    let served = ["--metrics", "127.0.0.1:9100", "--web", "127.0.0.1:9101"];
    let run = lan.start(&[&arguments[..], &served].concat(), &[]);
    let sockets: Vec<UdpSocket> = lan.left.inside(|| {
        let socket = |port: u16| UdpSocket::bind(("10.0.0.10", port)).expect("the address is its own");
        (5_000..5_004).map(socket).collect()
    });
    for socket in &sockets {
        socket.send_to(b"squeak", "203.0.113.2:6001").expect("a route");
        socket.send_to(b"squeak", "203.0.113.2:6000").expect("a route");
    }
    let decided = |text: &str| -> Vec<u64> {
        let answer: Value = serde_json::from_str(text).expect("JSON");
        answer["rules"].as_array().expect("rules").iter().map(|rule| number(&rule["decided"])).collect()
    };
    let counts = (0..200).map(|_| decided(&lan.ctl(&["rules", "--json"])));
    let counts = counts.inspect(|_| thread::sleep(Duration::from_millis(10))).find(|counts| counts[0] == 4);
    let counts = counts.expect("four packets are dropped");
    assert!(counts.len() == 3 && counts[1] >= 4 && counts[2] == 0, "{counts:?}");
    let text = lan.ctl(&["rules"]);
    assert!(
        text.starts_with("              4  firewall            1  drop udp from any to any port 6001\n"),
        "{text}"
    );
    let metrics = lan.gateway.inside(|| page("127.0.0.1:9100"));
    assert!(
        metrics.contains("paceline_rule_decisions_total{function=\"firewall\",rule=\"1\"} 4\n"),
        "{metrics}"
    );
    let shown = lan.gateway.inside(|| {
        let mut messages = Messages::listen("127.0.0.1:9101");
        let shown = std::iter::from_fn(|| messages.next()).take(60);
        shown.map(|message| message["rules"]["shown"].clone()).find(|shown| shown[0] != Value::Null)
    });
    let shown = shown.expect("the page has rules within a minute");
    assert_eq!((&shown[0]["decided"], &shown[0]["rule"]), (&json!(4), &json!("1")), "{shown:#}");
    assert_eq!(shown[0]["text"], json!("drop udp from any to any port 6001"));
    let text = lan.ctl(&["nat", "--port", "5002"]);
    assert!(text.starts_with("udp 10.0.0.10:5002 ") && text.contains("-> 203.0.113.1:"), "{text}");
    assert!(text.contains(" phase datagrams packets out 1 left 29"), "{text}");
    run.signal("-TERM");
    run.ended();
    let output = paceline(&["ctl", "--control", &lan.socket(), "rules"]);
    assert!(!output.status.success());
}

/// A reader that says nothing holds one portion, and neither packets nor other readers wait for it; one that goes away is forgotten.
#[test]
fn a_slow_reader_holds_nobody_up() {
    let Some(gate) = Gate::new("slow", "rss") else { return };
    gate.send();
    gate.until(&["--function", "nat"], usize::from(FLOWS));
    let ask = || {
        let mut stream = UnixStream::connect(gate.lan.socket()).expect("it listens");
        stream.write_all(b"{\"command\":\"flows\"}\n").expect("it listens");
        stream
    };
    let silent: Vec<UnixStream> = (0..20).map(|_| ask()).collect();
    drop(ask());
    gate.under_traffic(|| {
        assert!(gate.list(&[]).0.len() > usize::from(FLOWS), "others are answered");
    });
    for stream in silent {
        let lines: Vec<String> = BufReader::new(stream).lines().map_while(Result::ok).collect();
        assert!(lines.last().is_some_and(|line| line.contains("\"end\"")), "{lines:?}");
    }
    gate.run.signal("-TERM");
    gate.run.ended();
}
