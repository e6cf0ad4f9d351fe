//! `paceline sweep` as a user meets it.

use std::fs;

use crate::support::{Folder, json, paceline, stderr, stdout};

const QUICK: [&str; 10] = [
    "--chains",
    "examples/edge.toml",
    "examples/perimeter.toml",
    "--flows",
    "8,default",
    "--packets",
    "200",
    "--cores",
    "2",
    "--json",
];

fn sweep(captures: &[&str], more: &[&str]) -> std::process::Output {
    paceline(&[&["sweep"], captures, &QUICK, &["-"], more].concat())
}

#[test]
fn a_folder_is_swept_once_and_gone_on_with() {
    let folder = Folder::new("sweep");
    let out = format!("{}/out", folder.path());
    let garbage = format!("{}/garbage.pcap", folder.path());
    fs::write(&garbage, b"no capture").expect("room");
    fs::write(format!("{}/notes.txt", folder.path()), b"not looked at").expect("room");
    let captures = ["captures", folder.path()];
    let first = sweep(&captures, &["--mutate", "1", "--out", &out]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let summary = json(&first);
    // Two chains in three sizes of tables, under rss, rsspp twice, scr twice, and shared; three captures with a
    // mutation each.
    assert_eq!(summary["runs"], 2 * 3 * 6 * 3 * 2);
    assert_eq!(summary["complete"], true);
    assert_eq!(summary["outcomes"]["unreadable"].as_u64().map(|runs| runs >= 72), Some(true), "{summary}");
    // No hash serves the perimeter, in any size of table, with rss or rsspp.
    assert_eq!(summary["outcomes"]["refused"].as_u64().map(|runs| runs >= 9), Some(true), "{summary}");
    assert_eq!(summary["findings"].as_array().map(Vec::len), Some(0));

    let lines = || fs::read_to_string(format!("{out}/runs.jsonl")).expect("the journal").lines().count();
    let before = lines();
    let refused = sweep(&captures, &["--mutate", "1", "--out", &out]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--resume"), "{}", stderr(&refused));
    let again = sweep(&captures, &["--mutate", "1", "--out", &out, "--resume"]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(json(&again)["outcomes"], summary["outcomes"]);
    assert!(!stderr(&again).contains("other options"), "{}", stderr(&again));
    assert_eq!(lines(), before, "nothing was compared again");
}

/// And what was simulated is not yet compared on threads.
#[test]
fn cores_can_be_simulated() {
    let folder = Folder::new("sweep-simulated");
    let out = format!("{}/out", folder.path());
    let swept = sweep(&["captures/edge.pcap"], &["--simulate", "--out", &out]);
    assert_eq!(swept.status.code(), Some(0), "{}", stderr(&swept));
    let lines = fs::read_to_string(format!("{out}/runs.jsonl")).expect("the journal");
    assert!(lines.lines().all(|line| line.contains(r#""simulated":true"#)), "{lines}");
    let on_threads = sweep(&["captures/edge.pcap"], &["--resume", "--out", &out]);
    assert_eq!(json(&on_threads)["runs"], 2 * lines.lines().count(), "both");
    let said =
        format!("{} comparisons in {out}/runs.jsonl were made with other options", lines.lines().count());
    assert!(stderr(&on_threads).contains(&said), "{}", stderr(&on_threads));
}

#[test]
fn verify_simulates_cores_and_says_so() {
    let verify = |more: &[&str]| {
        let of = ["verify", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--strategy", "rsspp"];
        paceline(&[&of[..], &["--cores", "4", "--move-every", "37", "--simulate", "7"], more].concat())
    };
    let text = verify(&[]);
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    assert!(
        stdout(&text).contains("rsspp on 4 cores, simulated with seed 7, EQUALS single"),
        "{}",
        stdout(&text)
    );
    let of_json = verify(&["--json", "-"]);
    assert_eq!(json(&of_json)["simulated"], 7);
}

#[test]
fn what_cannot_be_swept_is_said() {
    let folder = Folder::new("sweep-nothing");
    let out = format!("{}/out", folder.path());
    let none = sweep(&[folder.path()], &["--out", &out]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("no captures in these folders"), "{}", stderr(&none));
    let absent = sweep(&["no-such.pcap"], &["--out", &out]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(stderr(&absent).contains("cannot read no-such.pcap"), "{}", stderr(&absent));
    let garbage = format!("{}/garbage.pcap", folder.path());
    fs::write(&garbage, b"no capture").expect("room");
    let unreadable = sweep(&[folder.path()], &["--out", &out]);
    assert_eq!(unreadable.status.code(), Some(3), "nothing was compared: {}", stderr(&unreadable));
}

/// Tables that the command line sizes, as the commands of reproducers do: what fills up is named.
#[test]
fn verify_takes_other_tables_than_the_chain_says() {
    let chain = ["verify", "examples/stats-limiter.toml", "--pcap", "captures/edge.pcap", "--cores", "2"];
    let tables = ["--flows", "4", "--table-full", "evict-oldest", "--table-seed", "7"];
    let verified = paceline(&[&chain[..], &tables].concat());
    assert!(stdout(&verified).contains("flow-statistics"), "{}", stdout(&verified));
    assert!(stdout(&verified).contains("full at some time"), "{}", stdout(&verified));
    let zero = paceline(&[&chain[..], &["--flows", "0"]].concat());
    assert_eq!(zero.status.code(), Some(2));
}
