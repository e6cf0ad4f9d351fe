//! `--egress` and `paceline bench egress` as a user meets them.

use crate::support::{Scratch, json, paceline, stderr, stdout};
use io::capture::CaptureReader;

const RUN: [&str; 4] = ["run", "examples/perimeter.toml", "--pcap", "captures/edge.pcap"];

/// The output and the report of a run.
fn run(name: &str, options: &[&str]) -> (Vec<u8>, serde_json::Value) {
    let out = Scratch::new(&format!("{name}.pcap"), b"");
    let run = paceline(&[&RUN, &["--json", "-", "--out", out.path()][..], options].concat());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    (std::fs::read(out.path()).expect("written"), json(&run))
}

/// Packets with their times, sorted.
fn packets(pcap: Vec<u8>) -> Vec<(u64, u32, Vec<u8>)> {
    // In the order in which they left, so times may run back.
    let mut reader = CaptureReader::from_bytes(pcap).expect("a capture").as_written();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().expect("whole") {
        packets.push((record.time_ns, record.wire_len, record.data.to_vec()));
    }
    packets.sort();
    packets
}

#[test]
fn packets_leave_in_order_unless_they_may_leave_as_they_are_ready() {
    let (single, report) = run("egress-single", &[]);
    assert_eq!(report["egress"]["order"], "ordered");
    assert!(single.len() > 10_000);
    for egress in [&[][..], &["--egress", "ordered"]] {
        let (out, report) = run("egress-ordered", &[&["--strategy", "scr", "--cores", "3"], egress].concat());
        assert!(out == single, "order or bytes differ");
        assert_eq!(report["egress"]["order"], "ordered");
        assert!(report["egress"]["blocked_batches"].is_u64() && report["egress"]["reordering"].is_null());
    }
    let history = ["--sequencer", "external"];
    for history in [&[][..], &history] {
        let options = ["--strategy", "scr", "--cores", "3", "--egress", "as-ready"];
        let (out, report) = run("egress-ready", &[&options, history].concat());
        assert!(packets(out) == packets(single.clone()), "a packet was lost or changed");
        assert_eq!(report["egress"]["order"], "as-ready");
        let reordering = &report["egress"]["reordering"];
        let number = |of: &serde_json::Value| of.as_u64().expect("a number");
        let verdicts = &report["verdicts"];
        let left = number(&verdicts["forward"]) + number(&verdicts["transmit_back"]);
        assert_eq!(number(&reordering["packets"]), left);
        assert!(number(&reordering["reordered_in_flow"]) <= number(&reordering["reordered"]));
        assert!(number(&reordering["extent_p50"]) <= number(&reordering["extent_max"]));
        assert_eq!(reordering["extent_at_least"], 0);
        let ratio = number(&reordering["reordered"]) as f64 / left as f64;
        assert!((reordering["ratio"].as_f64().expect("a share") - ratio).abs() < 1e-12);
    }
}

#[test]
fn text_says_how_far_packets_left_out_of_order() {
    let options = ["--strategy", "rss", "--cores", "2", "--egress"];
    let chain = ["run", "examples/edge.toml", "--pcap", "captures/edge.pcap"];
    let told = |egress| stdout(&paceline(&[&chain[..], &options, &[egress]].concat()));
    let heading = "Reordering at the egress (RFC 4737)";
    assert!(told("as-ready").contains(heading) && !told("ordered").contains(heading));
}

#[test]
fn an_order_that_there_is_not_is_refused() {
    let refused = paceline(&[&RUN[..], &["--egress", "random"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("ordered, as-ready"), "{}", stderr(&refused));
}

#[test]
fn both_orders_are_measured() {
    let command = ["bench", "egress", "examples/ddos.toml", "--pcap", "captures/edge.pcap", "--rounds", "2"];
    let report = json(&paceline(&[&command[..], &["--json", "-"]].concat()));
    let orders = report["orders"].as_array().expect("both");
    let names: Vec<_> = orders.iter().map(|order| order["egress"]["order"].clone()).collect();
    assert_eq!(names, ["ordered", "as-ready"]);
    for order in orders {
        let times = order["ns_per_packet"].as_array().expect("times");
        assert_eq!(times.len(), 2);
        let is_time = |ns: &serde_json::Value| ns.as_f64().is_some_and(|ns| ns > 0.0);
        assert!(times.iter().all(is_time) && is_time(&order["taking_ns"]));
    }
    let measuring = |order: &serde_json::Value| order["measuring_ns"].as_f64();
    assert!(measuring(&orders[0]) == Some(0.0) && measuring(&orders[1]) > Some(0.0));
    assert!(orders[1]["egress"]["reordering"]["packets"].as_u64() > Some(0));
    let text = stdout(&paceline(&command));
    for expected in ["strategy scr on 2 cores (measured)", "ns per packet", "as-ready", "Reordering"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let refused = paceline(&["bench", "egress", "examples/ddos.toml", "--strategy", "single"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}
