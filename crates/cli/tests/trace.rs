//! `paceline run --trace`: the way of single packets through a chain.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Folder, json as json_of, paceline, stderr, stdout};

const EDGE: [&str; 4] = ["run", "examples/edge.toml", "--pcap", "captures/edge.pcap"];

fn run(more: &[&str]) -> std::process::Output {
    paceline(&[&EDGE[..], more].concat())
}

/// Whether libpcap is missing, which filters need.
fn lacks_libpcap() -> bool {
    let lacks = stderr(&run(&["--trace", "ip"])).contains("libpcap0.8");
    if lacks {
        eprintln!("skipped: no libpcap");
    }
    lacks
}

#[test]
fn a_packets_way_reads_like_this() {
    if lacks_libpcap() {
        return;
    }
    let output = run(&["--trace", "tcp port 80 and tcp[tcpflags] & tcp-syn == 0", "--trace-limit", "1"]);
    let text = stdout(&output);
    let begin = "\
packet 32 at 1795203597.618885477 s, core 0: tcp 192.0.2.11:54136 > 198.51.100.10:80, 66 bytes
  conntrack      forward; counted established
                 key                tcp 192.0.2.11:54136 <-> 198.51.100.10:80
                 tcp                syn-received -> established
                 originator_ack     0 -> 2503837337
                 originator_window  64240 -> 64512
                 responder_seq_max  2503837337 -> 2503901849
                 expires in         60 s -> 7200 s
";
    assert!(text.starts_with(begin), "{text}");
    let policer = "
  policer        forward
                 key         tcp 192.0.2.11:54136 -> 198.51.100.10:80
                 debt_bytes  60 -> 52
                 last        63.375 us ago -> now
                 expires in  9.937 ms -> 10 ms
";
    assert!(text.contains(policer), "{text}");
    assert!(text.contains("\n  => forward\n\ntraced the first 1 of "), "{text}");
    assert!(text.contains("\nedge: 5,432 packets"), "the report comes behind it: {text}");
}

#[test]
fn a_drop_says_who_and_why() {
    let text = stdout(&run(&["--trace", "", "--trace-limit", "6000"]));
    let dropped = text.split("\n\n").filter(|block| block.contains("=> drop: policer/over-rate"));
    let dropped: Vec<&str> = dropped.collect();
    assert_eq!(dropped.len(), 128);
    for block in dropped {
        assert!(block.contains("policer    drop: over-rate; counted packets-over-rate"), "{block}");
        assert!(!block.contains("heavy-hitters"), "what comes behind does not see it: {block}");
    }
    assert!(text.contains("traced 5,432 packets that matched\n"), "none is left out");
}

#[test]
fn lines_of_json_are_for_programs() {
    let folder = Folder::new("trace-json");
    let lines = folder.file("trace.jsonl");
    let output = run(&["--trace", "", "--trace-limit", "40", "--trace-json", &lines, "--json", "-"]);
    assert_eq!(json_of(&output)["packets"], json!(5_432), "the report is as ever");
    let text = fs::read_to_string(&lines).expect("a file");
    let traced: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(
        traced
            .iter()
            .map(|traced| &traced["packet"])
            .eq((1..=40).map(|packet| json!(packet)).collect::<Vec<_>>().iter())
    );
    let syn = &traced[29];
    assert_eq!((&syn["src"], &syn["dst_port"]), (&json!("192.0.2.11"), &json!(80)), "{syn:#}");
    let conntrack = &syn["functions"][0];
    assert_eq!(conntrack["function"], json!("conntrack"));
    assert_eq!(conntrack["before"], Value::Null);
    assert_eq!(conntrack["after"]["values"][0], json!({ "name": "tcp", "value": "syn-sent" }));
    assert_eq!(conntrack["events"], json!(["opened"]));
    // On standard output, the report goes to standard error.
    let output = run(&["--trace", "", "--trace-limit", "3", "--trace-json", "-"]);
    assert_eq!(stdout(&output).lines().count(), 3);
    assert!(stderr(&output).contains("edge: 5,432 packets"));
}

#[test]
fn what_leaves_and_what_stays_are_as_without() {
    let folder = Folder::new("trace-same");
    for strategy in ["single", "rss", "rsspp", "scr"] {
        let cores = if strategy == "single" { "1" } else { "3" };
        let run = |name: &str, more: &[&str]| {
            let out = folder.file(name);
            let report = json_of(&run(&[
                &["--strategy", strategy, "--cores", cores, "--out", &out, "--json", "-"],
                more,
            ]
            .concat()));
            (fs::read(out).expect("packets"), report["digest"].clone(), report["drops"].clone())
        };
        let traced = folder.file("trace.jsonl");
        let dropped = folder.file("drops.pcapng");
        let with = run(
            "with.pcap",
            &["--trace", "", "--trace-json", &traced, "--trace-limit", "6000", "--drops", &dropped],
        );
        assert!(run("without.pcap", &[]) == with, "{strategy}");
        assert_eq!(fs::read_to_string(&traced).expect("a trace").lines().count(), 5_432);
    }
}

#[test]
fn a_wrong_filter_is_pointed_at() {
    if lacks_libpcap() {
        return;
    }
    let output = run(&["--trace", "tcp port 80 and and ip"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("this is no filter") && text.contains("[filter:1:17]"), "{text}");
    for wrong in ["tcp prot 80", "host 192.0.2.300", "tcp[", "("] {
        let output = run(&["--trace", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", stderr(&output));
        assert!(stderr(&output).contains("pcap-filter(7)"), "{wrong}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{wrong}: nothing ran");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (more, why) in [
        (&["--trace", "", "--json", "-"][..], "--json - takes all of standard output"),
        (&["--trace-json", "x.jsonl"], "--trace"),
        (&["--trace", "", "--trace-limit", "0"], "1..=100000"),
        (&["--trace", "", "--trace-json", "-", "--drops", "-"], "standard output"),
        (&["--drops-per-second", "3"], "--drops"),
    ] {
        let output = run(more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(why), "{more:?}: {}", stderr(&output));
    }
    let output = paceline(&["run", "examples/edge.toml", "--mirror", "lo", "--trace", ""]);
    assert!(stderr(&output).contains("paceline ctl trace"), "{}", stderr(&output));
}
