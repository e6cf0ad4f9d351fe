//! `paceline run --report`: a page of a run over time, and the same as JSON.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::number;
use crate::service::Lan;
use crate::support::{Folder, paceline, stderr};

/// A capture of so many packets, so many ns apart, where few flows send most.
fn capture(folder: &Folder, packets: &str, gap_ns: &str) -> String {
    let path = folder.file("in.pcap");
    let model =
        ["generate", "zipf:flows=400,a=1.4", "--packets", packets, "--gap-ns", gap_ns, "--out", &path];
    let output = paceline(&model);
    assert!(output.status.success(), "{}", stderr(&output));
    path
}

/// A run with a page: its report, and the page.
fn page(folder: &Folder, chain: &str, pcap: &str, more: &[&str]) -> (Value, String) {
    let (path, html, json) = (folder.file("chain.toml"), folder.file("run.html"), folder.file("run.json"));
    fs::write(&path, chain).expect("a folder of the test");
    let output =
        paceline(&[&["run", &path, "--pcap", pcap, "--report", &html, "--json", &json], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |path: &str| fs::read_to_string(path).expect("it was written");
    (serde_json::from_str(&read(&json)).expect("JSON"), read(&html))
}

const TRACK: &str = "name = \"<track>\"\n[[function]]\nuse = \"conntrack\"\n";

#[test]
fn a_page_has_time_lines_and_the_runs_json() {
    let folder = Folder::new("timeline");
    let pcap = capture(&folder, "20000", "50000");
    for (strategy, what) in
        [("rsspp", "moves"), ("dyssect", "moves"), ("hybrid", "promotions"), ("auto", "changes")]
    {
        let mut more = vec!["--strategy", strategy, "--cores", "2", "--speed", "2"];
        if strategy == "auto" {
            more.extend(["--move-every", "2000"]);
        }
        let (report, html) = page(&folder, TRACK, &pcap, &more);
        let (_, rest) = html.split_once("<script type=\"application/json\" id=\"run\">").expect("its JSON");
        let json = rest.split_once("</script>").expect("its end").0;
        assert_eq!(serde_json::from_str::<Value>(json).expect("JSON"), report, "{strategy}");
        let periods = report["timeline"]["periods"].as_array().expect("periods");
        assert!(periods.len() > 10, "{strategy}: {}", periods.len());
        let sum = |of: &dyn Fn(&Value) -> u64| periods.iter().map(of).sum::<u64>();
        let packets = |period: &Value| -> u64 {
            period["cores"].as_array().expect("cores").iter().map(|core| number(&core["packets"])).sum()
        };
        assert_eq!(sum(&packets), 20_000, "{strategy}");
        assert!(sum(&|period| number(&period[what])) > 0, "{strategy}: {what}");
        assert!(periods.iter().any(|period| number(&period["cores_in_use"]) == 2), "{strategy}");
        // Cores in use, load, packets, and what changed.
        assert_eq!(html.matches("<svg viewBox=\"0 0 400 ").count(), 4, "{strategy}");
        assert!(html.contains("<h1>&lt;track&gt;: a run under "), "{strategy}");
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let parsed = roxmltree::Document::parse_with_options(&html, options).map(drop);
        assert_eq!(parsed, Ok(()), "{strategy}");
        for other in ["src=", "href=", "url(http", "@import"] {
            assert!(!html.contains(other), "{strategy}: {other}");
        }
    }
}

/// A thousand packets a second keep no core busy. A core that sleeps meanwhile does not serve: else packets would seem to take
/// so long that no number of cores were enough.
#[test]
fn waits_by_the_model_are_those_of_packets_and_not_of_pauses() {
    let folder = Folder::new("timeline-slo");
    let pcap = capture(&folder, "2000", "1000000");
    let chain = TRACK.replace("[[function]]", "[slo]\np99_us = 500\n[[function]]");
    let (report, html) =
        page(&folder, &chain, &pcap, &["--strategy", "dyssect", "--cores", "2", "--speed", "1"]);
    let periods = report["timeline"]["periods"].as_array().expect("periods");
    let predicted: Vec<f64> =
        periods.iter().filter_map(|period| period["predicted_p99_us"].as_f64()).collect();
    assert!(periods.iter().any(|period| period["slo_p99_us"] == 500.0), "{report:#}");
    let last = *predicted.last().unwrap_or_else(|| panic!("it says something: {report:#}"));
    // Half a millisecond, the time between two packets of a core, would be some hundred.
    assert!(last < 50.0, "{predicted:?}");
    assert!(html.contains("Wait against the objective"));
    // Packets of a capture bring their times along.
    assert!(periods.iter().all(|period| period["measured_p99_us"].is_null()), "{report:#}");
}

/// On interfaces packets are stamped as they arrive: how long they waited for their core is measured, on one core and behind a front.
#[test]
fn waits_are_measured_on_interfaces() {
    for cores in ["1", "2"] {
        let Some(lan) = Lan::new(&format!("waits-{cores}")) else { return };
        let (chain, html) = (lan.folder.file("slo.toml"), lan.folder.file("run.html"));
        fs::write(&chain, TRACK.replace("[[function]]", "[slo]\np99_us = 500000\n[[function]]"))
            .expect("a folder of the test");
        let more = ["--strategy", "dyssect", "--cores", cores, "--report", &html];
        let run = lan.start(&[&[chain.as_str()], &more[..]].concat(), &[]);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            assert!(lan.left.ping("192.0.2.2", 1));
        }
        run.signal("-TERM");
        let report = run.ended();
        let periods = report["timeline"]["periods"].as_array().expect("periods");
        let measured: Vec<f64> =
            periods.iter().filter_map(|period| period["measured_p99_us"].as_f64()).collect();
        let last = *measured.last().unwrap_or_else(|| panic!("it was measured: {report:#}"));
        // Longer than nothing, and shorter than the run.
        assert!(last > 0.0 && last < 1e6, "{measured:?}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_refused_ahead_of_the_run() {
    let folder = Folder::new("timeline-refused");
    let json = folder.file("same");
    for (report, more, expected) in [
        ("-", &[][..], "--report takes no `-`"),
        ("/no/such/folder/run.html", &[], "cannot write /no/such/folder/run.html"),
        (&*json, &["--json", &json], "would overwrite --json"),
    ] {
        let arguments = ["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--report", report];
        let output = paceline(&[&arguments[..], more].concat());
        assert!(!output.status.success() && stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
