//! The example of a strategy of one's own has every command of the program, and no file but its own names it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

#[path = "../examples/own_strategy.rs"]
#[allow(dead_code, reason = "its `main` takes the arguments of the process")]
mod own_strategy;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// Runs a command under `blocks` that is to end well, and reads the JSON that it leaves.
fn json(command: &str, more: &[&str]) -> Value {
    let out: PathBuf =
        [env!("CARGO_TARGET_TMPDIR"), &format!("own-strategy-{command}.json")].iter().collect();
    let out = out.to_str().expect("UTF-8");
    let (chain, capture) = (format!("{ROOT}examples/edge.toml"), format!("{ROOT}captures/edge.pcap"));
    let args = ["own-strategy", command, &chain, "--pcap", &capture, "--strategy", "blocks", "--json", out];
    let status = own_strategy::program().run([&args[..], more].concat());
    // A status tells nothing else of itself.
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS));
    serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON")
}

#[test]
fn run_reports_what_it_counts() {
    let report = json("run", &["--cores", "3"]);
    assert_eq!(report["strategy"], "blocks");
    assert!(report["moves"]["full_batches"].as_u64() > Some(0), "{report}");
}

#[test]
fn verify_shows_that_four_cores_equal_one() {
    let report = json("verify", &["--cores", "4"]);
    assert_eq!(report["strategy"], "blocks");
    assert!(report["counters"]["full_batches"].as_u64() > Some(0), "{report}");
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
