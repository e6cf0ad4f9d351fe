//! `paceline ctl set`: addresses come into sets of a chain and leave them while packets pass.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::{Lan, PATIENCE};
use crate::support::{paceline, stderr, stdout};

/// Senders in the block list are dropped, and all others pass.
const BLOCKING: &str = "name = \"blocking.1\"\n[[function]]\nuse = \"firewall\"\n\
    rules = [\"drop any from @blocklist to any\", \"accept any from any to any\"]\n\
    sets = { blocklist = [\"198.51.100.0/24\"], others = [] }\n";

impl Lan {
    /// `paceline ctl set` with these arguments, and what it says.
    fn set(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl", "set"], arguments, &["--control", &self.socket()]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn set_refused(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl", "set"], arguments, &["--control", &self.socket()]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        stderr(&output)
    }

    fn blocklist(&self) -> Value {
        self.ask(&json!({ "command": "sets", "name": "blocklist" }))["sets"][0].clone()
    }
}

/// What is added is dropped at once, on all cores, and passes again when it is removed; the flow is kept throughout.
fn comes_and_goes(label: &str, strategy: &str, cores: &str) {
    let Some(lan) = Lan::new(label) else { return };
    fs::write(lan.folder.file("track.toml"), BLOCKING).expect("a folder of the test");
    let run = lan.start(strategy, cores);
    assert!(lan.left.ping("192.0.2.2", 1), "nothing is blocked yet");
    let answer =
        lan.ask(&json!({ "command": "set", "name": "blocklist", "add": ["192.0.2.1", "2001:db8::/32"] }));
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(answer["told"].as_str().expect("text").starts_with("2 prefixes came into blocklist"), "{answer}");
    assert!(answer["reload"]["functions"][0]["kept_flows"].as_u64() >= Some(1), "{answer}");
    assert!(!lan.left.ping("192.0.2.2", 1), "it is blocked");
    let said = lan.set(&["list", "blocklist"]);
    assert_eq!(said, "blocklist of firewall: 3 prefixes\n  198.51.100.0/24\n  192.0.2.1\n  2001:db8::/32\n");
    let said = lan.set(&["add", "blocklist", "192.0.2.1/32"]);
    assert_eq!(said, "all of it was in blocklist\n");
    lan.set(&["remove", "blocklist", "192.0.2.1"]);
    assert!(lan.left.ping("192.0.2.2", 1), "it is blocked no more");
    let status = lan.ask(&json!({ "command": "status" }));
    assert_eq!((&status["status"]["chain"], &status["status"]["reloads"]), (&"blocking.1".into(), &2.into()));
    lan.ask(&json!({ "command": "stop" }));
    let report = run.ended();
    assert!(report["verdicts"]["drop"].as_u64() >= Some(1), "{report:#}");
}

#[test]
fn addresses_come_and_go_on_one_core() {
    comes_and_goes("sets-single", "single", "1");
}

#[test]
fn addresses_come_and_go_on_two_cores() {
    comes_and_goes("sets-rss", "rss", "2");
}

#[test]
fn addresses_come_and_go_on_replicas() {
    comes_and_goes("sets-scr", "scr", "2");
}

/// A prefix leaves when its time is over, and one that was there for good stays.
#[test]
fn an_address_leaves_when_its_time_is_over() {
    let Some(lan) = Lan::new("sets-for") else { return };
    fs::write(lan.folder.file("track.toml"), BLOCKING).expect("a folder of the test");
    let run = lan.start("single", "1");
    lan.set(&["add", "blocklist", "192.0.2.77", "--for", "1h"]);
    let said = lan.set(&["add", "blocklist", "192.0.2.1", "198.51.100.0/24", "--for", "1 s"]);
    assert!(said.starts_with("1 prefix came into blocklist, for 1 s; packets waited "), "{said}");
    let begin = Instant::now();
    while lan.blocklist()["prefixes"] != 2 {
        assert!(begin.elapsed() < PATIENCE, "{}", lan.blocklist());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(begin.elapsed() > Duration::from_millis(500), "it stayed a while");
    assert!(lan.left.ping("192.0.2.2", 1), "it is blocked no more");
    let list = lan.blocklist();
    assert_eq!(
        (&list["members"][0]["prefix"], &list["members"][0]["seconds"]),
        (&"198.51.100.0/24".into(), &Value::Null)
    );
    let left = list["members"][1]["seconds"].as_u64().expect("a time");
    assert!((3_000..=3_600).contains(&left), "{list}");
    // Another chain file has its own sets, and no times.
    lan.ask(&json!({ "command": "reload", "name": "again.toml", "text": BLOCKING }));
    assert_eq!(lan.blocklist()["prefixes"], 1);
    lan.ask(&json!({ "command": "stop" }));
    run.ended();
}

/// What cannot be done is said, and the chain goes on as it was.
#[test]
fn what_cannot_be_changed_is_refused_with_the_reason() {
    let Some(lan) = Lan::new("sets-refused") else { return };
    fs::write(lan.folder.file("track.toml"), BLOCKING).expect("a folder of the test");
    let run = lan.start("single", "1");
    for (arguments, expected) in [
        (&["add", "blocklost", "192.0.2.1"][..], "no set \"blocklost\"; did you mean \"blocklist\"? it has"),
        (&["add", "blocklist", "192.0.2.1/8"], "write \"192.0.0.0/8\""),
        (&["add", "blocklist", "nonsense"], "is no IP prefix"),
        (&["remove", "blocklist", "192.0.2.1"], "192.0.2.1/32 is no prefix that blocklist lists"),
        (&["list", "nothing"], "no set \"nothing\""),
        (&["add", "blocklist", "192.0.2.1", "--for", "soon"], "--for \"soon\""),
        (&["add", "blocklist", "192.0.2.1", "--for", "10 ms"], "--for"),
        (&["list", "--most", "10001"], "10001"),
    ] {
        let said = lan.set_refused(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let status = lan.ask(&json!({ "command": "status" }));
    assert_eq!(status["status"]["reloads"], 0);
    lan.ask(&json!({ "command": "stop" }));
    run.ended();
}
