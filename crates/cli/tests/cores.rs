//! Cores of a run are parked and get packets again while connections go through it.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::{Ending, LONGER, Lan, PATIENCE, TRACK, ask, number, transfer};
use crate::lab::Namespace;
use crate::support::{paceline, stderr};

/// So many connections that some of them move at each change, whatever ports the kernel chooses.
const CONNECTIONS: usize = 8;
/// So long may one of them stand still.
const LONG: Duration = PATIENCE.saturating_mul(3);

/// A run in the middle, and how it is asked.
struct Middle<'a> {
    hosts: [&'a Namespace; 2],
    /// What the second host answers at.
    address: [u8; 4],
    socket: &'a Path,
    /// Whether a change of cores takes some time, since a table in the kernel changes.
    takes_time: bool,
}

/// Connections go through a run on three cores while the number of those that get packets changes, and chains take over.
/// What it counted before and after the last bytes, when one core was active.
fn transfers_through(middle: &Middle<'_>, chains: [&str; 2]) -> [Value; 2] {
    let asked = |request: &Value| {
        let answer = ask(middle.socket, request);
        assert_eq!(answer["ok"], json!(true), "{answer:#}");
        answer
    };
    let goes_on = AtomicBool::new(true);
    let received: [AtomicU64; CONNECTIONS] = Default::default();
    thread::scope(|scope| {
        let transfers: Vec<_> = (7_000..)
            .zip(&received)
            .map(|(port, received)| {
                let goes_on = &goes_on;
                let address = (middle.address, port).into();
                scope.spawn(move || transfer(middle.hosts, address, goes_on, received))
            })
            .collect();
        // Also where something fails, or the connections would go on.
        let ending = Ending(&goes_on);
        let bytes_flow = || {
            let all = || received.each_ref().map(|received| received.load(Ordering::Relaxed));
            let (before, begin) = (all(), Instant::now());
            while all().iter().zip(before).any(|(now, before)| *now <= before) {
                assert!(begin.elapsed() < LONG, "each connection goes on: {before:?} {:?}", all());
                thread::sleep(Duration::from_millis(1));
            }
        };
        for (turn, active) in [1, 3, 2, 1, 2, 3, 2, 3, 2, 1].into_iter().enumerate() {
            bytes_flow();
            asked(&json!({ "command": "cores", "cores": active }));
            // A chain that takes over leaves parked cores parked.
            bytes_flow();
            asked(&json!({ "command": "reload", "name": "test.toml", "text": chains[turn % 2] }));
        }
        bytes_flow();
        let status = || asked(&json!({ "command": "status" }))["status"].clone();
        let parked = |status: &Value| [1, 2].map(|core| number(&status["cores"][core]["packets"]));
        let (mut before, begin) = (status(), Instant::now());
        let after = loop {
            bytes_flow();
            let after = status();
            if !middle.takes_time || parked(&before) == parked(&after) || begin.elapsed() > LONG {
                break after;
            }
            before = after;
        };
        drop(ending);
        for transfer in transfers {
            transfer.join().expect("no panic").expect("the connection goes on");
        }
        [before, after]
    })
}

fn nothing_is_lost(report: &Value) {
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let interfaces = report["interfaces"].as_array().expect("a list");
    assert!(interfaces.iter().all(|interface| interface["lost"] == json!({})), "{interfaces:#?}");
    let opened = &report["functions"][0]["events"]["opened"];
    assert_eq!(number(opened), CONNECTIONS as u64, "no connection was tracked anew: {report:#}");
    assert_eq!(report["reloads"].as_array().expect("a list").len(), 10);
}

fn transfers_survive_changes_of_cores(strategy: &str, more: &[&str]) {
    let Some(lan) = Lan::new(&format!("cores-{strategy}-{}", more.join(""))) else { return };
    let run = lan.start_with(strategy, "3", more);
    let socket = lan.socket();
    let middle = Middle {
        hosts: [&lan.left, &lan.right],
        address: [192, 0, 2, 2],
        socket: Path::new(&socket),
        takes_time: more.is_empty(),
    };
    let statuses = transfers_through(&middle, [LONGER, TRACK]);
    let [before, after] =
        statuses.each_ref().map(|status| [1, 2].map(|core| number(&status["cores"][core]["packets"])));
    assert_eq!(before, after, "cores 1 and 2 are parked: {statuses:#?}");
    // One of them alone may have had no connection, as the kernel chose their ports.
    assert!(before.iter().sum::<u64>() > 0, "and were not: {statuses:#?}");
    let status = &statuses[1];
    assert_eq!(number(&status["active_cores"]), 1);
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    nothing_is_lost(&run.ended());
    if strategy == "dyssect" {
        assert!(status["updates"].is_null(), "shards move, and no entries: {status:#}");
        return;
    }
    let updates = &status["updates"];
    let microseconds = |what: &str| updates[what].as_f64().expect("a number");
    assert!(number(&updates["entries"]) >= 128, "{updates:#}");
    assert!(microseconds("mean_microseconds") > 0.0, "{updates:#}");
    assert!(microseconds("longest_microseconds") >= microseconds("mean_microseconds"), "{updates:#}");
    eprintln!("{strategy}: {updates}");
}

/// The NAT's ports go with the flows that have them.
#[test]
fn transfers_through_a_nat_survive_changes_of_cores_and_reloads() {
    const NAT: &str = "[[function]]\nuse = \"conntrack\"\npick_up = false\n\
                       [[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\n";
    for (strategy, more) in [
        ("rss", &["--front"][..]),
        ("rsspp", &["--front"]),
        ("rsspp", &["--socket", "xdp"]),
        ("dyssect", &["--front"]),
    ] {
        let Some(lan) = crate::service::Lan::new(&format!("cores-nat-{strategy}")) else { return };
        lan.routed();
        let chain = lan.folder.file("nat.toml");
        fs::write(&chain, NAT).expect("a folder of the test");
        // Of what is to leave by an unknown neighbour only the latest packet waits.
        // Asked behind the run's start, the NAT would drop the answers.
        lan.gateway.ping("10.0.0.10", 1);
        lan.gateway.ping("203.0.113.2", 1);
        let arguments =
            [&[&*chain, "--mode", "route", "--strategy", strategy, "--cores", "3"], more].concat();
        let run = lan.start(&arguments, &[]);
        assert_eq!(run.said.contains("sockets of its own"), more != ["--front"], "{}", run.said);
        let socket = lan.socket();
        let middle = Middle {
            hosts: [&lan.left, &lan.right],
            address: [203, 0, 113, 2],
            socket: Path::new(&socket),
            takes_time: more != ["--front"],
        };
        let longer = format!("{NAT}udp_ms = 120000\n");
        transfers_through(&middle, [&longer, NAT]);
        run.signal("-TERM");
        let report = run.ended();
        nothing_is_lost(&report);
        assert_eq!(report["routing"]["dropped"], json!({}), "{report:#}");
    }
}

#[test]
fn transfers_survive_changes_of_cores_under_rss() {
    transfers_survive_changes_of_cores("rss", &["--front"]);
}

#[test]
fn transfers_survive_changes_of_cores_under_rsspp() {
    transfers_survive_changes_of_cores("rsspp", &["--front"]);
}

#[test]
fn transfers_survive_changes_of_cores_with_sockets_of_their_own() {
    transfers_survive_changes_of_cores("rsspp", &[]);
}

#[test]
fn transfers_survive_changes_of_cores_under_dyssect() {
    transfers_survive_changes_of_cores("dyssect", &["--front"]);
}

#[test]
fn a_change_of_cores_that_cannot_be_is_refused() {
    let Some(lan) = Lan::new("cores-refused") else { return };
    for (strategy, number, asked, why) in [
        ("single", "1", "2", "the run has one core"),
        ("scr", "2", "1", "under strategy `scr` no core can be parked"),
        ("rss", "2", "3", "so 1 to 2 can get packets"),
    ] {
        let run = lan.start(strategy, number);
        let refused = paceline(&["ctl", "--control", &lan.socket(), "cores", asked]);
        assert_eq!(refused.status.code(), Some(2), "{strategy}");
        assert!(stderr(&refused).contains(why), "{strategy}: {}", stderr(&refused));
        assert!(lan.left.ping("192.0.2.2", 2), "packets pass as before");
        lan.ask(&json!({ "command": "stop" }));
        run.ended();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn cores_change_within_a_capture() {
    let edge = ["examples/edge.toml", "--pcap", "captures/edge.pcap", "--cores", "3"];
    let at = ["--cores-at", "500=1", "--cores-at", "1500=3", "--reload-at", "1000", "examples/edge.toml"];
    for strategy in ["rss", "rsspp", "dyssect"] {
        let output = paceline(&[&["verify"], &edge[..], &["--strategy", strategy], &at[..]].concat());
        assert!(output.status.success(), "{strategy}: {}", stderr(&output));
        assert!(said(&output).contains("EQUALS single"), "{}", said(&output));
    }
    for (wrong, why) in [
        (&["--strategy", "scr", "--cores-at", "5=1"][..], "no core can be parked"),
        (&["--strategy", "rss", "--cores-at", "5=4"], "so 1 to 3 can get packets"),
        (&["--strategy", "rss", "--cores-at", "5"], "PACKETS=N"),
        (&["--strategy", "rss", "--cores-at", "5=1", "--cores-at", "4=2"], "in their order"),
    ] {
        let output = paceline(&[&["run"], &edge[..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(why), "{wrong:?}: {}", stderr(&output));
    }
}

/// A comparison in which nothing changed is no proof of the change.
#[test]
fn changes_that_no_packet_came_behind_are_told_of() {
    for (at, is_told) in [("5431", false), ("5432", true), ("100000", true)] {
        let cores_at = format!("{at}=1");
        let (edge, capture) = ("examples/edge.toml", "captures/edge.pcap");
        for command in ["run", "verify"] {
            let args = [command, edge, "--pcap", capture, "--strategy", "rss", "--cores", "2"];
            let changes = ["--reload-at", at, edge, "--cores-at", &cores_at];
            let output = paceline(&[&args[..], &changes].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(0), "{said}");
            for option in ["--reload-at", "--cores-at"] {
                let told = format!("note: {option} {at} did nothing: no more than 5,432 packets came");
                assert_eq!(said.contains(&told), is_told, "{command}: {said}");
            }
        }
    }
}
