//! Cores of a run are parked and get packets again while connections go through it.

use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::{Ending, LONGER, Lan, PATIENCE, number, transfer};
use crate::support::{paceline, stderr};

/// So many connections that some of them move at each change.
const CONNECTIONS: usize = 4;
/// So long may one of them stand still.
const LONG: Duration = PATIENCE.saturating_mul(3);

fn cores(lan: &Lan, cores: usize) -> Value {
    lan.ask(&json!({ "command": "cores", "cores": cores }))
}

fn transfers_survive_changes_of_cores(strategy: &str) {
    let Some(lan) = Lan::new(&format!("cores-{strategy}")) else { return };
    let run = lan.start(strategy, "3");
    let goes_on = AtomicBool::new(true);
    let received: [AtomicU64; CONNECTIONS] = Default::default();
    let parked = thread::scope(|scope| {
        let transfers: Vec<_> = (7_000..)
            .zip(&received)
            .map(|(port, received)| {
                let (lan, goes_on) = (&lan, &goes_on);
                scope.spawn(move || transfer(lan, port, goes_on, received))
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
        for active in [1, 3, 2, 1, 2, 3, 1] {
            bytes_flow();
            let answer = cores(&lan, active);
            assert_eq!(answer["ok"], json!(true), "{answer:#}");
        }
        // A chain that takes over leaves parked cores parked.
        bytes_flow();
        assert_eq!(lan.reload(LONGER)["ok"], json!(true));
        bytes_flow();
        let before = lan.ask(&json!({ "command": "status" }))["status"].clone();
        bytes_flow();
        let after = lan.ask(&json!({ "command": "status" }))["status"].clone();
        drop(ending);
        for transfer in transfers {
            transfer.join().expect("no panic").expect("the connection goes on");
        }
        [before, after]
    });
    for core in [1, 2] {
        let [before, after] = parked.each_ref().map(|status| number(&status["cores"][core]["packets"]));
        assert_eq!(before, after, "core {core} is parked: {parked:#?}");
        assert!(before > 0, "and was not: {parked:#?}");
    }
    let status = &parked[1];
    assert_eq!(number(&status["active_cores"]), 1);
    let updates = &status["updates"];
    let microseconds = |what: &str| updates[what].as_f64().expect("a number");
    assert!(number(&updates["entries"]) >= 128, "{updates:#}");
    assert!(microseconds("mean_microseconds") > 0.0, "{updates:#}");
    assert!(microseconds("longest_microseconds") >= microseconds("mean_microseconds"), "{updates:#}");
    eprintln!("{strategy}: {updates}");
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    let report = run.ended();
    // Not a packet is lost, and none is dropped.
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let interfaces = report["interfaces"].as_array().expect("a list");
    assert!(interfaces.iter().all(|interface| interface["lost"] == json!({})), "{interfaces:#?}");
    let opened = &report["functions"][0]["events"]["opened"];
    assert_eq!(number(opened), CONNECTIONS as u64, "no connection was tracked anew: {report:#}");
}

#[test]
fn transfers_survive_changes_of_cores_under_rss() {
    transfers_survive_changes_of_cores("rss");
}

#[test]
fn transfers_survive_changes_of_cores_under_rsspp() {
    transfers_survive_changes_of_cores("rsspp");
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
    for strategy in ["rss", "rsspp"] {
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
