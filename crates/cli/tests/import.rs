//! `paceline import nftables`: the command, its files and its exit status. What its rules mean is tested beside the command.

use std::io::Write;

use crate::support::{Folder, Scratch, paceline, start, stderr, stdout};

const OFFICE: &str = "crates/cli/src/commands/import/nftables/tests/office.json";

/// A ruleset of which all fits.
const WHOLE: &str = r#"{"nftables": [
    {"chain": {"family": "inet", "table": "t", "name": "forward", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}},
    {"rule": {"family": "inet", "table": "t", "chain": "forward", "handle": 2, "expr": [
        {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}, {"accept": null}]}}]}"#;

#[test]
fn what_fits_is_status_0_and_a_chain_that_runs() {
    let (ruleset, folder) = (Scratch::new("import-whole.json", WHOLE.as_bytes()), Folder::new("import"));
    let chain = folder.file("chain.toml");
    let output = paceline(&["import", "nftables", ruleset.path(), "--out", &chain]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    let output = paceline(&["run", &chain, "--pcap", "captures/edge.pcap"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("accept tcp from any to any port 80"), "{}", stdout(&output));
}

#[test]
fn standard_input_is_read_and_standard_output_written() {
    let mut child = start(&["import", "nftables", "-"]);
    child.stdin.take().expect("a pipe").write_all(WHOLE.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("\"accept tcp from any to any port 80\",\n"), "{}", stdout(&output));
}

/// What is left out is told with its place, and the file is written.
#[test]
fn what_does_not_fit_is_told_and_status_1() {
    let folder = Folder::new("import-partly");
    let chain = folder.file("chain.toml");
    let sides = ["--inside", "eth1", "--outside", "eth0", "--inside-prefixes", "10.0.0.0/8"];
    let args =
        [&["import", "nftables", OFFICE, "--leave-out", "ip nat", "--out", &chain], &sides[..]].concat();
    let output = paceline(&args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("limit"), "{said}");
    assert!(said.contains("does not fit: inet filter forward rule 18: log: this is not done"), "{said}");
    assert!(said.contains("by which interface does IPv6 leave?"), "{said}");
    let output = paceline(&["check", &chain]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Nothing is written where other chains have a say, or where the file is no ruleset; what stood there is left.
#[test]
fn what_is_refused_leaves_the_file_as_it_was() {
    let (other, chain) =
        (Scratch::new("import-none.json", b"table inet t {}"), Scratch::new("import-kept.toml", b"kept"));
    for (file, expected) in [
        (OFFICE, "--leave-out 'ip nat'"),
        (other.path(), "nft -j list ruleset"),
        ("no-such.json", "cannot read"),
    ] {
        let output = paceline(&["import", "nftables", file, "--out", chain.path()]);
        assert_eq!(output.status.code(), Some(2), "{file}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{file}: {}", stderr(&output));
        assert_eq!(std::fs::read_to_string(chain.path()).expect("it is there"), "kept", "{file}");
    }
}
