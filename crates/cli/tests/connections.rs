//! `paceline run --connections`: a line of JSON for each connection.

use std::fs;

use serde_json::Value;

use crate::support::{Folder, paceline, root, stderr, stdout};

const CHAIN: &str = "name = \"connections\"\n[[function]]\nuse = \"conntrack\"\nrecords = 100000\ninvalid = \"pass\"\n\
                     out_of_window = \"pass\"\n";

fn run(folder: &Folder, chain: &str, more: &[&str]) -> (String, Vec<String>) {
    let (path, out) = (folder.file("chain.toml"), folder.file("conn.jsonl"));
    fs::write(&path, chain).expect("a folder of the test");
    let args = ["run", &path, "--pcap", "captures/edge.pcap", "--connections", &out];
    let output = paceline(&[&args[..], more].concat());
    assert!(output.status.success(), "{more:?}: {}", stderr(&output));
    let lines = fs::read_to_string(&out).expect("a file").lines().map(str::to_owned).collect();
    (stdout(&output), lines)
}

/// Whatever strategy runs and on how many cores, the file is the same; and it says as much as the report.
#[test]
fn every_strategy_writes_the_same_file() {
    let folder = Folder::new("connections");
    let (text, lines) = run(&folder, CHAIN, &["--strategy", "single"]);
    assert!(lines.len() > 500, "{}", lines.len());
    assert!(text.contains(&format!("{} connections written to", lines.len())), "{text}");
    assert!(!text.contains("\"uid\""), "{text}");
    for more in [
        &["--strategy", "rss", "--cores", "3"][..],
        &["--strategy", "rsspp", "--cores", "2"],
        &["--strategy", "scr", "--cores", "3"],
        &["--strategy", "hybrid", "--cores", "2"],
        &["--strategy", "dyssect", "--cores", "2"],
    ] {
        let (_, others) = run(&folder, CHAIN, more);
        assert!(lines == others, "{more:?}: {} and {} lines", lines.len(), others.len());
    }
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let count = |name: &str| records.iter().filter_map(|record| record[name].as_u64()).sum::<u64>();
    let packets = count("orig_pkts") + count("resp_pkts");
    assert!((5_000..=5_432).contains(&packets), "{packets}");
    for state in ["SF", "S0", "RSTO", "REJ", "OTH"] {
        assert!(records.iter().any(|record| record["conn_state"] == state), "{state}");
    }
    let times: Vec<f64> = records.iter().filter_map(|record| record["ts"].as_f64()).collect();
    assert!(times.len() == records.len() && times.is_sorted());
}

/// Cores that share the table have the same connections; where they race, letters of a history may change places.
#[test]
fn cores_that_share_a_table_write_the_same_connections() {
    let folder = Folder::new("connections-shared");
    let (_, single) = run(&folder, CHAIN, &["--strategy", "single"]);
    let (_, shared) = run(&folder, CHAIN, &["--strategy", "shared", "--cores", "2"]);
    let ends = |lines: &[String]| -> Vec<String> {
        let field = |record: &Value, name: &str| record[name].to_string();
        // Which end came first is a matter of the race.
        let names = [["id.orig_h", "id.orig_p"], ["id.resp_h", "id.resp_p"]];
        let mut ends: Vec<String> = lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .map(|record: Value| {
                let mut both = names.map(|end| end.map(|name| field(&record, name)).join(" "));
                both.sort();
                both.join(" ") + &field(&record, "proto")
            })
            .collect();
        ends.sort();
        ends.dedup();
        ends
    };
    let (single, shared) = (ends(&single), ends(&shared));
    let alike = single.iter().filter(|ends| shared.binary_search(ends).is_ok()).count();
    assert!(alike * 100 >= single.len() * 99, "{alike} of {} and {}", single.len(), shared.len());
}

#[test]
fn what_cannot_be_written_is_told_ahead_of_the_run() {
    let folder = Folder::new("connections-refused");
    let path = folder.file("chain.toml");
    fs::write(&path, "[[function]]\nuse = \"conntrack\"\n").expect("a folder of the test");
    let refused = |chain: &str, file: &str| {
        let output = paceline(&["run", chain, "--pcap", "captures/edge.pcap", "--connections", file]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let said = refused(&path, &folder.file("conn.jsonl"));
    assert!(said.contains("Set `records = 100000` for its `conntrack`"), "{said}");
    fs::write(&path, CHAIN).expect("a folder of the test");
    let said = refused(&path, &folder.file("no/such/folder.jsonl"));
    assert!(said.contains("no/such/folder.jsonl"), "{said}");
    let said = refused(&path, root().join("captures/edge.pcap").to_str().expect("text"));
    assert!(said.contains("--connections") && said.contains("would overwrite"), "{said}");
    assert_eq!(folder.names(), ["chain.toml"], "nothing is left of them");
}

/// A full disk ends in an error, and the report is whole.
#[test]
fn a_full_disk_is_told_after_the_report() {
    let folder = Folder::new("connections-full");
    let path = folder.file("chain.toml");
    fs::write(&path, CHAIN).expect("a folder of the test");
    let output = paceline(&["run", &path, "--pcap", "captures/edge.pcap", "--connections", "/dev/full"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("/dev/full"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Verdicts"), "{}", stdout(&output));
}
