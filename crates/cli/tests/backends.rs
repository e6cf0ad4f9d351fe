//! `paceline ctl backend`, and checks of backends: servers go and come back, and only their own connections notice.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::drains::{Connection, Ending, MANY, Net, PATIENCE, connections_to_both, serve, served};
use crate::live::number;
use crate::support::{paceline, stderr, stdout};

const FIRST: &str = "198.51.100.21:8080";
const SECOND: &str = "198.51.100.22:8080";
/// New connections that are opened to see where they go.
const SOME: usize = 16;

impl Net {
    /// The backends of the list, in its order.
    fn backends(&self) -> Vec<Value> {
        let told: Value = serde_json::from_str(&self.ctl(&["backend", "list", "--json"])).expect("JSON");
        told["backends"].as_array().expect("a list").clone()
    }

    /// Waits until checks say so of the first backend.
    fn wait_for(&self, health: &str) -> Duration {
        let begin = Instant::now();
        while self.backends()[0]["health"] != health {
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.backends());
            thread::sleep(Duration::from_millis(10));
        }
        begin.elapsed()
    }

    /// How many of some new connections the first backend gets.
    fn first_gets(&self) -> usize {
        (0..SOME).filter(|_| self.connect().backend == 1).count()
    }

    /// New connections until the first backend gets one.
    fn reaches_first(&self) {
        assert!((0..MANY).any(|_| self.connect().backend == 1), "the first backend takes connections");
    }
}

fn all_go_on(connections: &mut [Connection], backend: u8) -> usize {
    let own = connections.iter_mut().filter(|connection| connection.backend == backend);
    own.map(|connection| connection.round().expect("the connection goes on")).count()
}

fn backends_come_and_go(strategy: &str, cores: &str) {
    let Some(net) = Net::new(&format!("ctl-{strategy}")) else { return };
    let chain = net.chain("both", &[(1, "active"), (2, "active")]);
    let run = net.start(&chain, strategy, cores);
    served(&net, || {
        let mut open = connections_to_both(&net);
        let said = net.ctl(&["backend", "drain", FIRST]);
        assert!(said.starts_with("1 backend drains: it keeps its flows; packets waited "), "{said}");
        assert_eq!(
            net.ctl(&["backend", "drain", FIRST]),
            "1 backend drains: it keeps its flows, as before\n"
        );
        let list = "load-balancer: tcp 198.51.100.10:80\n  198.51.100.21:8080  drain   weight 1\n  \
                    198.51.100.22:8080  active  weight 1\n";
        assert_eq!(net.ctl(&["backend", "list"]), list);
        assert_eq!(net.first_gets(), 0, "a backend that drains gets no new connection");
        assert!(all_go_on(&mut open, 1) >= 2 && all_go_on(&mut open, 2) >= 2);
        // By its address, as by its name.
        net.ctl(&["backend", "up", "198.51.100.21"]);
        net.reaches_first();
        net.ctl(&["backend", "weight", FIRST, "0"]);
        assert_eq!(net.first_gets(), 0, "nor does one of weight 0");
        assert!(all_go_on(&mut open, 1) >= 2);
        let said = net.ctl(&["backend", "up", FIRST]);
        assert!(said.contains("the weight of 1 is 0"), "{said}");
        net.ctl(&["backend", "weight", FIRST, "1000"]);
        assert!(net.first_gets() > SOME / 2, "999 of 1000");
        net.ctl(&["backend", "down", FIRST]);
        assert_eq!(net.first_gets(), 0, "nor does one that is down");
        assert!(all_go_on(&mut open, 2) >= 2);
        // What a connection of a backend that is down sends is dropped, and sent again when the backend is back.
        thread::scope(|scope| {
            let waits = scope.spawn(|| all_go_on(&mut open, 1));
            let begin = Instant::now();
            while dropped(&net) == 0 {
                assert!(begin.elapsed() < PATIENCE, "it sends");
                thread::sleep(Duration::from_millis(5));
            }
            net.ctl(&["backend", "up", FIRST]);
            assert!(waits.join().expect("no panic") >= 2);
        });
    });
    net.ctl(&["stop"]);
    let report = run.ended();
    let balancer = &report["functions"][0];
    assert!(number(&balancer["drops"]["backend-down"]) >= 1, "{balancer:#}");
    assert!(balancer["events"].get("flows-moved").is_none_or(|moved| number(moved) == 0), "{balancer:#}");
    assert_eq!(report["reloads"].as_array().expect("a list").len(), 6);
}

/// Packets that all cores have dropped so far.
fn dropped(net: &Net) -> u64 {
    let told: Value = serde_json::from_str(&net.ctl(&["status", "--json"])).expect("JSON");
    told["status"]["cores"].as_array().expect("a list").iter().map(|core| number(&core["dropped"])).sum()
}

#[test]
fn backends_come_and_go_on_one_core() {
    backends_come_and_go("single", "1");
}

#[test]
fn backends_come_and_go_under_rss() {
    backends_come_and_go("rss", "2");
}

#[test]
fn backends_come_and_go_under_scr() {
    backends_come_and_go("scr", "2");
}

#[test]
fn what_cannot_be_done_to_a_backend_is_refused_with_the_reason() {
    let Some(net) = Net::new("ctl-refused") else { return };
    let run = net.start(&net.chain("both", &[(1, "active"), (2, "active")]), "single", "1");
    for (arguments, expected) in [
        (
            &["drain", "198.51.100.21:8081"][..],
            "the chain has no backend \"198.51.100.21:8081\"; did you mean",
        ),
        (&["down", "198.51.100.23"], "the chain has no backend \"198.51.100.23\""),
        (
            &["up", FIRST, "--service", "udp 198.51.100.10:80"],
            "the chain has no service \"udp 198.51.100.10:80\"",
        ),
        (&["weight", FIRST, "1001"], "has the weight 1001; it may be 0"),
        (&["weight", FIRST, "-1"], "-1"),
        (&["list", "web1"], "the chain has no backend \"web1\""),
    ] {
        let socket = net.folder.file("socket");
        let output = paceline(&[&["ctl", "--control", &socket, "backend"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    let told: Value = serde_json::from_str(&net.ctl(&["status", "--json"])).expect("JSON");
    assert_eq!(told["status"]["reloads"], 0);
    net.ctl(&["stop"]);
    run.ended();
}

/// A server that can be stopped: its listener closes, and the connections that it has.
fn with_server<T>(net: &Net, which: u8, what: impl FnOnce() -> T) -> T {
    let goes_on = AtomicBool::new(true);
    let own = SocketAddr::from(([198, 51, 100, 20 + which], 8_080));
    let listener = net.backends[usize::from(which) - 1].bound(|| TcpListener::bind(own));
    listener.set_nonblocking(true).expect("a socket");
    let told = thread::scope(|scope| {
        let _ending = Ending(&goes_on);
        scope.spawn(|| serve(&listener, which, &goes_on));
        what()
    });
    drop(listener);
    assert!(!goes_on.load(Ordering::Relaxed));
    told
}

/// A server stops: its checks say so, new connections go to the other, and none of the other's is broken. It comes back, and takes
/// connections again, unless a hand says otherwise. A reload of the chain file does not forget what checks found.
fn a_server_stops_and_comes_back(strategy: &str, cores: &str) {
    let Some(net) = Net::new(&format!("checks-{strategy}")) else { return };
    let chain = net.chain("both", &[(1, "active"), (2, "active")]);
    let text = fs::read_to_string(&chain).expect("it was written");
    let text = text
        .replace("rewrite_answers", "check_interval_ms = 100\ncheck_timeout_ms = 100\nrewrite_answers")
        .replace("port = 80\n", "port = 80\ncheck = \"tcp\"\n");
    fs::write(&chain, text).expect("a folder of the test");
    let (mut open, run) = with_server(&net, 2, || {
        let (mut open, run) = with_server(&net, 1, || {
            let run = net.start(&chain, strategy, cores);
            (connections_to_both(&net), run)
        });
        let took = net.wait_for("failed");
        println!("{strategy}: {} ms until a stopped server was held to have failed", took.as_millis());
        assert_eq!(net.first_gets(), 0, "new connections go to the other server");
        assert!(all_go_on(&mut open, 2) >= 2, "no connection of the other is broken");
        let of_first = &net.backends()[0];
        assert_eq!(of_first["state"], "active");
        assert!(of_first["why"].as_str().is_some_and(|why| why.contains("refused")), "{of_first}");
        assert_eq!(net.backends()[1]["health"], "good");
        // The file says nothing of it, and the chain that takes over knows it all the same.
        net.reload(&chain);
        assert_eq!((net.backends()[0]["health"].as_str(), net.first_gets()), (Some("failed"), 0));
        with_server(&net, 1, || {
            net.wait_for("good");
            net.reaches_first();
            // Hand and checks have to allow it, both.
            net.ctl(&["backend", "drain", FIRST]);
            assert_eq!(net.first_gets(), 0);
        });
        net.wait_for("failed");
        let said = net.ctl(&["backend", "up", FIRST]);
        assert!(said.contains("1 failed their checks"), "{said}");
        assert_eq!(net.first_gets(), 0, "a hand does not make a server answer");
        net.ctl(&["backend", "drain", FIRST]);
        with_server(&net, 1, || {
            net.wait_for("good");
            assert_eq!(net.first_gets(), 0, "nor do checks undo what a hand did");
            net.ctl(&["backend", "up", FIRST]);
            net.reaches_first();
            assert!(all_go_on(&mut open, 2) >= 2, "no connection of the other is broken");
        });
        (open, run)
    });
    open.clear();
    let list = net.ctl(&["backend", "list", SECOND]);
    assert!(
        list.starts_with("load-balancer: tcp 198.51.100.10:80\n  198.51.100.22:8080  active  weight 1"),
        "{list}"
    );
    net.ctl(&["stop"]);
    let report = run.ended();
    let balancer = &report["functions"][0];
    assert!(balancer["events"].get("flows-moved").is_none_or(|moved| number(moved) == 0), "{balancer:#}");
}

#[test]
fn a_server_stops_and_comes_back_on_one_core() {
    a_server_stops_and_comes_back("single", "1");
}

#[test]
fn a_server_stops_and_comes_back_under_rss() {
    a_server_stops_and_comes_back("rss", "2");
}

#[test]
fn a_server_stops_and_comes_back_under_scr() {
    a_server_stops_and_comes_back("scr", "2");
}

/// Over a capture nobody is asked, and that is said.
#[test]
fn nobody_checks_over_a_capture_and_that_is_said() {
    let folder = crate::support::Folder::new("checks-capture");
    let (plain, checked) = (folder.file("plain.toml"), folder.file("checked.toml"));
    let text = "[[function]]\nuse = \"load-balancer\"\n[[function.services]]\nvip = \"198.51.100.10\"\nport = 80\n\
                backends = [{ address = \"198.51.100.21\" }]\n";
    fs::write(&plain, text).expect("a folder of the test");
    fs::write(&checked, text.replace("port = 80\n", "port = 80\ncheck = \"tcp\"\n"))
        .expect("a folder of the test");
    for command in ["run", "verify"] {
        for (chain, is_said) in [(&checked, true), (&plain, false)] {
            let output = paceline(&[command, chain, "--pcap", "captures/edge.pcap"]);
            assert!(output.status.success(), "{command}: {}", stderr(&output));
            assert_eq!(
                stderr(&output).contains("note: nobody checks backends over a capture"),
                is_said,
                "{command}"
            );
        }
    }
}
