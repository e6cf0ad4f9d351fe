//! `paceline plan` as a user meets it. No figure is expected: only what holds of all.

use std::process::Output;

use crate::support::{by_line, stdout};
use serde_json::Value;

fn plan(args: &str) -> Output {
    by_line(&format!("plan {args}"))
}

fn json(args: &str) -> Value {
    let output = plan(&format!("{args} {SMALL} --json -"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&stdout(&output)).expect("nothing but JSON")
}

fn sentences(forecast: &Value) -> Vec<&str> {
    let sentences = forecast["advice"]["sentences"].as_array().expect("advice");
    sentences.iter().map(|sentence| sentence.as_str().expect("text")).collect()
}

const SMALL: &str = "--packets 20000 --rounds 2";

/// With a dispatch of 20 us and replay of some ns, each core adds what one has, whatever else this machine does.
#[test]
fn one_flow_with_dear_dispatch_is_replicated() {
    let forecast = json(
        "examples/ddos.toml --traffic single-flow:one-way=true,packets=20000 --dispatch-ns 20000 --cores 8",
    );
    let fastest = &forecast["advice"]["fastest"];
    assert_eq!((&fastest["strategy"], &fastest["cores"]), (&"scr".into(), &8.into()), "beside the cheapest");
    assert!(sentences(&forecast).iter().any(|sentence| sentence.starts_with("Fastest on 8 cores: `scr`, ")));
    assert_eq!((&forecast["advice"]["strategy"], &forecast["advice"]["cores"]), (&"scr".into(), &8.into()));
    let points = forecast["points"].as_array().expect("points");
    assert_eq!(points.len(), 8);
    let rate = |cores: usize, name: &str| points[cores - 1][name].as_f64().expect("a rate");
    assert!(rate(8, "scr_mpps") > 7.0 * rate(1, "scr_mpps"), "{forecast}");
    assert_eq!(rate(8, "rss_mpps"), rate(1, "rss_mpps"), "one flow is on one core");
    assert_eq!(rate(8, "rsspp_mpps"), rate(1, "rss_mpps"));
    let cores: Vec<_> =
        forecast["checks"].as_array().expect("checks").iter().map(|check| &check["cores"]).collect();
    assert_eq!(cores, [1, 2, 4, 7]);
    assert!(forecast["command"].as_str().expect("text").starts_with("paceline plan examples/ddos.toml"));
}

#[test]
fn chains_that_no_hash_serves_are_told() {
    let forecast =
        json("examples/perimeter.toml --pcap captures/edge.pcap --max-cores 4 --dispatch-ns 20000");
    let only =
        "`scr` and `scr-turns` alone give the answers of one core on several: sharding refuses this chain";
    assert!(sentences(&forecast).iter().any(|sentence| sentence.starts_with(only)), "{forecast}");
    assert_eq!(forecast["advice"]["strategy"], "scr");
    assert_eq!(forecast["points"][3]["rss_mpps"], Value::Null);
    let refused: Vec<_> =
        forecast["refused"].as_array().expect("refused").iter().map(|refused| &refused["strategy"]).collect();
    assert_eq!(refused, ["rss", "rsspp"]);

    let forecast =
        json("examples/mixed-keys.toml --pcap captures/edge.pcap --max-cores 4 --dispatch-ns 20000");
    assert_eq!(forecast["shared"], Value::from(vec!["source-statistics", "destination-policer"]));
    assert_eq!(forecast["advice"]["strategy"], "scr", "not what shares states");
}

#[test]
fn people_read_advice_costs_and_rates() {
    let text =
        stdout(&plan(&format!("examples/edge.toml --pcap captures/edge.pcap --max-cores 5 {SMALL} -v")));
    for expected in [
        "What a packet costs a core, ns",
        "c2: replay of another core's packet",
        " | history | replicas",
        "Prediction against measurement",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, expected) in [
        ("examples/none.toml", "cannot read the chain file examples/none.toml"),
        ("examples/ddos.toml --max-cores 0", "a whole number, 1 to 128"),
        ("examples/ddos.toml --max-cores 129", "a whole number, 1 to 128"),
        ("examples/ddos.toml --rounds 0", "a whole number, 1 to 1000"),
        ("examples/ddos.toml --packets 0", "0 is not in 1.."),
        ("examples/ddos.toml --dispatch-ns -1", "no option takes a number below 0"),
        ("examples/ddos.toml --dispatch-ns 100001", "100001 is not in 0..=100000"),
        ("examples/ddos.toml --indirection-entries 100", "128 or 512"),
        ("examples/ddos.toml --traffic zipff", "zipf"),
        ("examples/ddos.toml --pcap captures/none.pcap", "cannot open captures/none.pcap"),
        ("examples/ddos.toml --pcap captures/edge.pcap --traffic zipf", "cannot be used with"),
        ("examples/ddos.toml --pcap captures/edge.pcap --json captures/edge.pcap", "would overwrite"),
    ] {
        let output = plan(args);
        let error = String::from_utf8_lossy(&output.stderr).replace('│', " ");
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{args}: {error}");
        assert!(error.contains(expected), "{args}: {error}");
    }
}

/// What matters first, in a screen; `-v` and the page have the rest.
#[test]
fn a_recommendation_and_its_reason_come_first() {
    let folder = crate::support::Folder::new("plan-page");
    let page = folder.file("plan.html");
    let at = format!("examples/edge.toml --pcap captures/edge.pcap {SMALL}");
    let text = stdout(&plan(&format!("{at} --report {page}")));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 40 && lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    assert!(lines[3].starts_with("Use `") || lines[3].starts_with("Stay on one core"), "{text}");
    assert_eq!(lines.iter().any(|line| line.starts_with("Why: ")), lines[3].starts_with("Use `"), "{text}");
    let full = stdout(&plan(&format!("{at} -v")));
    assert!(
        full.contains("Prediction against measurement") && !text.contains("Prediction against"),
        "{full}"
    );
    let html = std::fs::read_to_string(&page).expect("the page");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    assert!(roxmltree::Document::parse_with_options(&html, options).is_ok(), "{html}");
    assert!(html.contains("<svg ") && html.contains("id=\"plan\""), "{html}");
}
