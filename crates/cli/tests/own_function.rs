//! The example of a function of one's own has every command of the program.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

#[path = "../examples/own_function.rs"]
#[allow(dead_code, reason = "its `main` takes the arguments of the process")]
mod own_function;

/// Runs a command that is to end well, and reads the JSON that it leaves.
fn json(test: &str, args: &[&str]) -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let out: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("own-function-{test}.json")].iter().collect();
    let out = out.to_str().expect("UTF-8");
    let at_root = |arg: &&str| if arg.contains('/') { format!("{root}{arg}") } else { (*arg).to_owned() };
    let args = [&["own-function"][..], args].concat().iter().map(at_root).collect::<Vec<_>>();
    let args = args.into_iter().chain(["--json".to_owned(), out.to_owned()]);
    let status = own_function::program().run(args);
    // A status tells nothing else of itself.
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS), "{test}");
    serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON")
}

const CHAIN: &str = "crates/cli/examples/fair.toml";
const CAPTURE: &str = "captures/edge.pcap";

#[test]
fn run_counts_its_drops_and_events_by_name() {
    let report = json("run", &["run", CHAIN, "--pcap", CAPTURE]);
    assert_eq!(report["functions"][0]["name"], "quota");
    assert!(report["functions"][0]["events"]["quotas-begun"].as_u64() > Some(0), "{report}");
    assert!(report["drops"]["quota/over-quota"].as_u64() > Some(0), "{report}");
}

#[test]
fn verify_shows_that_two_cores_equal_one() {
    for strategy in ["rss", "rsspp", "scr"] {
        let args = ["verify", CHAIN, "--pcap", CAPTURE, "--strategy", strategy, "--cores", "2"];
        assert!(json(&format!("verify-{strategy}"), &args).is_object());
    }
}

#[test]
fn nfs_lists_its_options() {
    let list = json("nfs", &["nfs", "quota"]);
    assert_eq!(list[0]["options"][0]["name"], "bytes");
    assert_eq!(list[0]["drop_reasons"][0], "over-quota");
}

#[test]
fn bench_measures_it() {
    let report =
        json("bench", &["bench", "chain", CHAIN, "--seconds", "0.05", "--packets", "1000", "--flows", "100"]);
    assert!(report["mpps"].as_f64() > Some(0.0), "{report}");
}
