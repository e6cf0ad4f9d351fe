//! The example of a strategy of one's own has every command of the program, and no file but its own names it.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::control::Lan;
use crate::support::{paceline, stderr, stdout};

#[path = "../examples/own_strategy.rs"]
#[allow(dead_code, reason = "its `main` takes the arguments of the process")]
mod own_strategy;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// Runs a command under a strategy that is to end well, and reads the JSON that it leaves.
fn json(command: &str, strategy: &str, more: &[&str]) -> Value {
    let out: PathBuf =
        [env!("CARGO_TARGET_TMPDIR"), &format!("own-strategy-{command}-{strategy}.json")].iter().collect();
    let out = out.to_str().expect("UTF-8");
    let (chain, capture) = (format!("{ROOT}examples/edge.toml"), format!("{ROOT}captures/edge.pcap"));
    let args = ["own-strategy", command, &chain, "--pcap", &capture, "--strategy", strategy, "--json", out];
    let status = own_strategy::program().run([&args[..], more].concat());
    // A status tells nothing else of itself.
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS));
    serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON")
}

#[test]
fn run_reports_what_it_counts() {
    let report = json("run", "blocks", &["--cores", "3"]);
    assert_eq!(report["strategy"], "blocks");
    assert!(report["moves"]["full_batches"].as_u64() > Some(0), "{report}");
}

/// Where one packet fills a batch there are more full ones than where it takes as many as fit.
#[test]
fn what_it_declares_can_be_set() {
    let full = |value: &str| {
        let report = json("run", "blocks", &["--cores", "3", "--tune", &format!("full={value}")]);
        report["moves"]["full_batches"].as_u64().expect("a count")
    };
    // A batch has 64 packets at most: of those that are full with 64 there are at most as many as it takes, of all at least.
    assert!(full("1") > full("64"));
}

/// What the test below has the program do: the arguments as JSON.
const ARGUMENTS: &str = "PACELINE_TEST_OF_OWN_STRATEGY";

/// The program itself, where the test below starts this one in a process of its own.
#[test]
fn as_a_process() {
    let Ok(arguments) = env::var(ARGUMENTS) else { return };
    let arguments: Vec<String> = serde_json::from_str(&arguments).expect("JSON");
    own_strategy::program().run(["own-strategy".to_owned()].into_iter().chain(arguments));
}

/// A number that may change is changed while packets pass, stays so when another chain takes over, and is told with all others.
#[test]
fn what_it_declares_is_set_while_packets_pass() {
    let Some(lan) = Lan::new("tune") else { return };
    let test = env::current_exe().expect("a test");
    let mut program = lan.gateway.command(test.to_str().expect("UTF-8"));
    let arguments = [lan.arguments("blocks", "2"), vec!["--tune".to_owned(), "full=32".to_owned()]].concat();
    program.env(ARGUMENTS, serde_json::to_string(&arguments).expect("strings"));
    let _run = lan.started({
        program.args(["--exact", "strategy_from_outside::as_a_process", "--nocapture"]);
        program
    });
    assert!(lan.left.ping("192.0.2.2", 1));
    let tune = |set: Value| lan.ask(&json!({ "command": "tune", "set": set }));
    let tunables = |value: u64| {
        let help = "packets that make a batch full";
        json!([{ "name": "full", "value": value, "range": [1, 64], "live": true, "help": help }])
    };
    assert_eq!(tune(Value::Null)["tunables"], tunables(32));
    assert_eq!(tune(json!(["full", 1]))["tunables"], tunables(1));
    let refused = tune(json!(["full", 65]));
    assert_eq!(refused["error"], "strategy `blocks`: `full` is 1 to 64, not 65", "{refused}");
    let refused = tune(json!(["half", 1]));
    assert_eq!(
        refused["error"], "strategy `blocks`: the strategy has no tunable `half`: it has `full`",
        "{refused}"
    );
    let reload =
        json!({ "command": "reload", "name": "x.toml", "text": "[[function]]\nuse = \"flow-statistics\"\n" });
    assert_eq!(lan.ask(&reload)["ok"], true);
    let said = paceline(&["ctl", "tune", "--control", &lan.socket()]);
    assert_eq!(stdout(&said), "full = 1  packets that make a batch full (1 to 64)\n", "{}", stderr(&said));
    assert!(lan.left.ping("192.0.2.2", 1));
    assert_eq!(lan.ask(&json!({ "command": "stop" }))["ok"], true);
}

/// What is wrong on a command line is said before anything runs, and a stock strategy has nothing to be set.
#[test]
fn what_cannot_be_set_is_refused() {
    let (chain, capture) = (format!("{ROOT}examples/edge.toml"), format!("{ROOT}captures/edge.pcap"));
    let run = |tune: &str| {
        let said = paceline(&["run", &chain, "--pcap", &capture, "--strategy", "rss", "--tune", tune]);
        assert_eq!(said.status.code(), Some(2), "{}", stdout(&said));
        stderr(&said)
    };
    assert!(run("full=1").contains("strategy `rss`: the strategy has no tunable `full`, nor any other"));
    assert!(run("full").contains("is written NAME=VALUE"));
    assert!(run("full=-1").contains("`-1` is not a whole number"));
}

#[test]
fn verify_shows_that_four_cores_equal_one() {
    let report = json("verify", "blocks", &["--cores", "4"]);
    assert_eq!(report["strategy"], "blocks");
    assert!(report["counters"]["full_batches"].as_u64() > Some(0), "{report}");
}

#[test]
fn plan_says_what_it_is_expected_to_do() {
    let out: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "own-strategy-plan.json"].iter().collect();
    let (chain, capture) = (format!("{ROOT}examples/edge.toml"), format!("{ROOT}captures/edge.pcap"));
    let out = out.to_str().expect("UTF-8");
    let args = ["own-strategy", "plan", &chain, "--pcap", &capture, "--packets", "4000", "--rounds", "1"];
    let status = own_strategy::program().run([&args[..], &["--json", out]].concat());
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS));
    let report: Value = serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON");
    let choices = report["choices"].as_array().expect("choices");
    let of = |strategy: &str, cores: u64| {
        let of_it = choices.iter().find(|choice| choice["strategy"] == strategy && choice["cores"] == cores);
        of_it.unwrap_or_else(|| panic!("{strategy} on {cores}: {report}"))["mpps"].as_f64().expect("a rate")
    };
    // Entries are spread otherwise, and the packets of some weigh more.
    assert!(of("blocks", 4) > of("single", 1) && of("blocks", 4) != of("rss", 4), "{report}");
}

/// `auto` changes between it and the stock strategies at random places, and answers as one core does.
#[test]
fn auto_has_it_run_the_chain() {
    let report = json("verify", "auto", &["--cores", "3", "--move-every", "300"]);
    let ran = report["changes"]["phases"]
        .as_array()
        .expect("changes")
        .iter()
        .filter(|change| change["strategy"] == "blocks");
    assert!(ran.count() > 1, "{report}");
    assert!(report["counters"]["full_batches"].as_u64().is_some(), "{report}");
}

#[test]
fn no_file_names_it_but_its_own() {
    let own = ["crates/cli/examples/own_strategy.rs", "crates/cli/tests/own_strategy.rs"];
    let mut folders = vec![PathBuf::from(format!("{ROOT}crates"))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("rs") => {
                    let text = fs::read_to_string(&path).expect("a source file");
                    let is_own = own.iter().any(|own| path.ends_with(own));
                    assert!(is_own || !text.contains("full_batches"), "{}", path.display());
                }
                _ => (),
            }
        }
    }
}
