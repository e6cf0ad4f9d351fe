//! `paceline run --connections`: a line of JSON for each connection, or IPFIX.

use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{self, Folder, paceline, root, stderr, stdout};

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

/// What a record says in both forms, added up: packets and bytes of each direction.
type Counts = [u64; 4];

fn of_lines(lines: &[String]) -> Counts {
    let records: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    ["orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"]
        .map(|name| records.iter().filter_map(|record| record[name].as_u64()).sum())
}

/// tshark reads the file of IPFIX messages, and finds the records that the lines of JSON have.
#[test]
fn tshark_reads_the_file() {
    let folder = Folder::new("connections-ipfix");
    let (_, lines) = run(&folder, CHAIN, &[]);
    let (path, out) = (folder.file("chain.toml"), folder.file("conn.ipfix"));
    let output = paceline(&["run", &path, "--pcap", "captures/edge.pcap", "--connections", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("{} connections written to", lines.len())));
    let names = ["cflow.packets", "cflow.octets", "cflow.srcport", "_ws.malformed"];
    let fields = names.iter().flat_map(|name| ["-e", name]);
    let args = ["-r", &out, "-T", "fields"].into_iter().chain(fields);
    let Some(told) = program("tshark", args) else { return };
    let column = |at: usize| -> Vec<u64> {
        let cells = told.lines().map(|line| line.split('\t').nth(at).unwrap_or("").to_owned());
        cells
            .flat_map(|cell| cell.split(',').filter_map(|value| value.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    // Each record has a count of either direction, the asking one first.
    let both =
        |at: usize| -> [u64; 2] { [0, 1].map(|side| column(at).into_iter().skip(side).step_by(2).sum()) };
    let (packets, bytes) = (both(0), both(1));
    assert_eq!(column(2).len(), lines.len(), "{told}");
    assert_eq!([packets[0], bytes[0], packets[1], bytes[1]], of_lines(&lines));
    assert!(told.lines().all(|line| line.ends_with('\t')), "malformed: {told}");
}

/// nfcapd, a collector, takes the datagrams, and counts what the lines of JSON have.
#[test]
fn a_collector_takes_the_datagrams() {
    let folder = Folder::new("connections-collector");
    let (_, lines) = run(&folder, CHAIN, &[]);
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let free = free.expect("a port").port();
    let (port, files) = (free.to_string(), folder.file(""));
    let begin = ["-l", &files, "-b", "127.0.0.1", "-p", &port, "-t", "3600"];
    let Ok(collector) =
        Command::new("nfcapd").args(begin).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    else {
        println!("skipped: nfcapd is not installed (apt-get install nfdump)");
        return;
    };
    let mut collector = Ended(collector);
    let address = format!("udp:127.0.0.1:{free}");
    let path = folder.file("chain.toml");
    let args = ["run", &path, "--pcap", "captures/edge.pcap", "--connections", &address];
    // Until it listens, its host refuses.
    let until = Instant::now() + Duration::from_secs(60);
    let output = loop {
        let output = paceline(&args);
        if output.status.success() {
            break output;
        }
        assert!(stderr(&output).contains("took no connections"), "{}", stderr(&output));
        assert!(Instant::now() < until, "nfcapd does not listen");
    };
    assert!(stdout(&output).contains(&format!("{} connections sent to", lines.len())), "{}", stdout(&output));
    // Its file gets its name when it ends.
    kill(Pid::from_raw(collector.0.id().cast_signed()), Signal::SIGINT).expect("a child of this test");
    collector.0.wait().expect("it ends");
    let file =
        folder.names().into_iter().find(|name| name.starts_with("nfcapd.2")).expect("a file of nfcapd");
    let told = program("nfdump", ["-I", "-r", &folder.file(&file)]).expect("nfdump, which comes with nfcapd");
    let count = |name: &str| -> u64 {
        let line =
            told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).expect("a count");
        line.trim().parse().expect("a number")
    };
    let [packets, bytes, back, bytes_back] = of_lines(&lines);
    assert_eq!(count("Flows"), lines.len() as u64, "{told}");
    assert_eq!([count("Packets"), count("Bytes")], [packets + back, bytes + bytes_back], "{told}");
}

/// Nobody listens, or it is no address.
#[test]
fn a_collector_that_is_not_there_is_told() {
    let folder = Folder::new("connections-nobody");
    let path = folder.file("chain.toml");
    fs::write(&path, CHAIN).expect("a folder of the test");
    // What is bound and not connected takes datagrams: a port that was free a moment ago does not.
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let output =
        paceline(&["run", &path, "--pcap", "captures/edge.pcap", "--connections", &format!("udp:{free}")]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("took no connections"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Verdicts"), "{}", stdout(&output));
    let output = paceline(&["run", &path, "--pcap", "captures/edge.pcap", "--connections", "udp:nowhere"]);
    assert!(stderr(&output).contains("Give its address and port"), "{}", stderr(&output));
}

/// A program that ends with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        support::end(&mut self.0);
    }
}

/// What a program prints; says that the test is skipped where it is not installed.
fn program<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Option<String> {
    match Command::new(name).args(args).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            println!("skipped: {name} is not installed");
            None
        }
    }
}
