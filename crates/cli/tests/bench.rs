//! `paceline bench mlffr` and `bench compare` as a user meets them. No figure is expected: only what holds of all.

use std::fs;

use crate::support::{Folder, by_line, root, stdout};
use serde_json::Value;

fn json(args: &str) -> Value {
    let output = by_line(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&stdout(&output)).expect("nothing but JSON")
}

const SMALL: &str = "--packets 20000 --searches 2 --latency 0.5";

#[test]
fn a_rate_of_virtual_cores_is_found_and_told() {
    let command =
        format!("bench mlffr examples/edge.toml --pcap captures/edge.pcap --cores 3 --virtual {SMALL}");
    let report = json(&format!("{command} --json -"));
    let point = &report["point"];
    assert_eq!((&point["clock"], &point["cores"]), (&"virtual".into(), &3.into()));
    let found: Vec<f64> = point["found_mpps"]
        .as_array()
        .expect("rates")
        .iter()
        .map(|rate| rate.as_f64().expect("one"))
        .collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&point["mpps"].as_f64().expect("a rate")) && found.iter().all(|rate| *rate > 0.0));
    assert!(point["loss"].as_f64().expect("a share") <= 0.04);
    let shares = point["loads"].as_array().expect("cores").iter().map(|load| load["share"].as_f64());
    assert!((shares.map(Option::unwrap_or_default).sum::<f64>() - 1.0).abs() < 1e-9);
    let latency = &point["latency"][0];
    assert!(latency["p50_us"].as_f64() <= latency["max_us"].as_f64());
    assert!(report["command"].as_str().expect("text").starts_with("paceline bench mlffr examples/edge.toml"));

    let text = stdout(&by_line(&command));
    for expected in
        ["(virtual), strategy rss on 3 virtual cores", "Cores at that rate", "Latency from arrival"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn strategies_are_compared_and_what_cannot_run_is_told() {
    let comparison = json(
        "bench compare examples/mixed-keys.toml --pcap captures/edge.pcap --strategies single,rss --cores 1,64 \
         --packets 20000 --searches 1 --latency '' --virtual --json -"
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .as_str(),
    );
    let points = |series: usize| comparison["series"][series]["points"].as_array().map(Vec::len);
    assert_eq!((points(0), points(1)), (Some(1), Some(1)), "one core each: {comparison}");
    let refused = &comparison["refused"][0];
    assert_eq!((&refused["strategy"], &refused["cores"]), (&"rss".into(), &64.into()));
    assert!(refused["reason"].as_str().expect("text").contains("virtual cores cannot show"), "{refused}");
    assert_eq!(comparison["trace"]["packets"], 5_432);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, expected) in [
        ("--loss 1", "below 1; 4% is 0.04"),
        ("--packets 0", "0 is not in 1.."),
        ("--cores 129 --virtual", "must be 1 to 128"),
        ("--latency 0.5,0", "above 0 and no more than 1"),
        ("--strategy fastest", "possible values"),
        ("--traffic zipff", "zipf"),
        ("--move-every 100", "under strategy `rss` flows stay where they are"),
        ("--strategy rsspp --move-every 0", "a whole number, at least 1"),
        ("--strategy rsspp --rebalance-ms 0", "must be above 0"),
        ("--indirection-entries 129", "128 or 512"),
        ("--pcap captures/none.pcap", "cannot open captures/none.pcap"),
    ] {
        let output = by_line(&format!("bench mlffr examples/ddos.toml {args}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {error}");
        assert!(error.contains(expected), "{args}: {error}");
    }
}

/// One flow cannot be sharded, and the comparison says so.
#[test]
fn one_flow_is_told_from_many() {
    let comparison = json(
        "bench compare examples/ddos.toml --traffic single-flow:one-way=true,packets=20000 --strategies rss,rsspp \
         --cores 1,4 --packets 20000 --searches 1 --latency '' --virtual --json -"
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .as_str(),
    );
    let findings = comparison["findings"].as_array().expect("findings");
    let expected =
        "One source address carries 100% of the packets, which sharding has on one core at a time.";
    assert!(findings.iter().any(|finding| finding == expected), "{findings:?}");
    for series in 0..2 {
        let loads = comparison["series"][series]["points"][1]["loads"].as_array().expect("four cores");
        let shares: Vec<f64> = loads.iter().map(|load| load["share"].as_f64().expect("a share")).collect();
        let one = shares.iter().filter(|share| **share > 0.99).count();
        assert_eq!(one, 1, "all on one core: {shares:?}");
    }
}

/// One core with more and more shards, and several cores under more and more skew: moving shards helps, and more so the more
/// skew there is. An objective that takes offloaders has packets with priority wait less than on as many cores under `rsspp`.
#[test]
fn dyssect_is_shown_beside_its_paper() {
    let report = json(
        "bench dyssect examples/nat.toml --flows 20000 --packets 100000 --rounds 1 --trial-ms 5 --trials 1 --json -",
    );
    let shards: Vec<u64> = report["shards"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["shards"].as_u64().expect("a number"))
        .collect();
    assert_eq!(shards, [0, 1, 2, 4, 8, 16, 32, 64, 128]);
    assert!(report["shards"].as_array().expect("rows").iter().all(|row| row["mpps"].as_f64() > Some(0.0)));
    for row in report["skew"].as_array().expect("rows") {
        let speedup = |strategy: usize| row["strategies"][strategy]["speedup"].as_f64().expect("a number");
        let [rss, dyssect] = [speedup(0), speedup(2)];
        assert!(1.0 < rss && rss < dyssect && dyssect <= 8.0, "{row}");
        assert!(row["strategies"][2]["moves"].as_u64() <= row["strategies"][1]["moves"].as_u64(), "{row}");
    }
    let waits = report["waits"].as_array().expect("rows");
    assert_eq!(waits.len(), 20, "two objectives, five rates, two strategies");
    // The second objective is tighter. At 5, 10 and 15 Gbit/s.
    for pair in waits[12..18].chunks(2) {
        let of = |row: usize, what: &str| pair[row][what].as_f64().expect("a number");
        assert!(of(1, "cores") <= of(0, "cores") && of(1, "cores") < 8.0, "{pair:?}");
        assert!(of(1, "p995_priority_us") < 0.9 * of(0, "p995_priority_us"), "{pair:?}");
        assert!(of(1, "missed") <= 0.01 && of(1, "moves") < of(0, "moves"), "{pair:?}");
    }
    let throughput = report["throughput"].as_array().expect("rows");
    assert_eq!(throughput.len(), 15, "five rates, three strategies");
    for row in throughput {
        let of = |what: &str| row[what].as_f64().expect("a number");
        assert!((0.0..=1.0).contains(&of("loss")) && of("gbps") <= of("offered_gbps"), "{row}");
    }
    let flows = |row: usize| report["look_ups"][row]["card_flows"].as_u64();
    assert_eq!([flows(0), flows(1)], [Some(0), Some(10_000)]);
    let card = report["card"]["packets"].as_f64().expect("a share");
    assert!(card > 0.3 && card < 1.0, "{card}");
    let refused =
        by_line("bench mlffr examples/ddos.toml --strategy dyssect --cores 2 --traffic zipf:packets=1000");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("cannot hand packets from core to core on real cores"), "{said}");
}

/// By force, since loads may be even before anything is counted. The count is of all trials.
#[test]
fn entries_that_moved_are_counted() {
    let report = json(
        "bench mlffr examples/ddos.toml --traffic elephant:packets=20000,flows=500,share=0.3 --strategy rsspp \
         --cores 4 --virtual --move-every 5000 --packets 20000 --searches 2 --latency '' --json -"
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .as_str(),
    );
    // One trial has four changes at most, each of no more than all 128 entries.
    assert!(report["point"]["moves"].as_u64() > Some(4 * 128), "{report}");
}

/// Real cores and virtual ones in one comparison: each rate is beside one core of its own clock.
#[test]
fn one_core_is_measured_on_each_clock() {
    // With a table for its 500 flows: to fill 64 tables for a million each with zeros takes longer than all else.
    let folder = Folder::new("each-clock");
    let ddos = fs::read_to_string(root().join("examples/ddos.toml")).expect("an example");
    let chain = folder.file("ddos.toml");
    fs::write(&chain, ddos.replace("flows = 1_048_576", "flows = 8_192")).expect("a folder of the test");
    let comparison = json(&format!(
        "bench compare {chain} --traffic uniform:packets=5000,flows=500 --strategies single,rss --cores 1,64 \
         --packets 20000 --searches 1 --latency '' --json -"
    ));
    let refused = comparison["refused"].as_array().expect("a list");
    if refused
        .iter()
        .any(|refused| refused["reason"].as_str().is_some_and(|why| why.contains("no rate was found")))
    {
        return println!("skipped: the machine has too much else to do for a real core: {refused:?}");
    }
    let single = comparison["series"][0]["points"].as_array().expect("points");
    let clocks: Vec<_> = single.iter().map(|point| point["clock"].as_str().expect("a clock")).collect();
    assert_eq!(clocks, ["measured", "virtual"], "{comparison}");
    let off = &single[0]["conditions"]["off_processor_share"];
    assert!(off.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{comparison}");
}

#[test]
fn moves_and_spread_at_hand_do_not_go_together() {
    let output = by_line("bench chain examples/ddos.toml --strategy rsspp --cores 2 --seconds 0.1");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bench mlffr"));
}

/// The smallest grid: every figure there is, each with `scr` on each number of cores.
#[test]
fn the_papers_figures_are_measured() {
    let bench = json("bench scr --quick --packets 2000 --cores 1,3 --json -");
    let figures = bench["figures"].as_array().expect("figures");
    let numbers: Vec<_> = figures.iter().map(|figure| figure["figure"].as_str().expect("a number")).collect();
    assert_eq!(numbers, ["1", "6", "7", "9", "10a", "10b", "11"]);
    for (figure, series) in
        figures.iter().zip(["scr", "scr", "scr", "0 accesses", "scr", "on, 0.1%", "measured"])
    {
        for chart in figure["charts"].as_array().expect("charts") {
            let all = chart["comparison"]["series"].as_array().expect("series");
            let of = all.iter().find(|one| one["strategy"] == series).unwrap_or_else(|| panic!("{chart}"));
            let points = of["points"].as_array().expect("points");
            let cores: Vec<_> = points.iter().filter_map(|point| point["cores"].as_u64()).collect();
            assert!(cores.starts_with(&[1]) && cores.contains(&3), "{cores:?}: {chart}");
            assert!(points.iter().all(|point| point["mpps"].as_f64() > Some(0.0)));
        }
    }
    let history = figures[5]["charts"][0]["history"].as_array().expect("what history costs");
    let places: Vec<_> = history.iter().map(|cost| cost["placement"].as_str().expect("a place")).collect();
    assert_eq!(places, ["log", "packets", "packets-recovered", "packets-of-headers"]);
    let links = figures[4]["charts"][0]["links"].as_array().expect("links");
    assert!(links[1]["frame_bytes"].as_u64() > links[0]["frame_bytes"].as_u64());
    let growing = figures[3]["charts"][0]["comparison"]["series"].as_array().expect("series");
    let names: Vec<_> = growing.iter().map(|series| series["strategy"].as_str().expect("a name")).collect();
    assert_eq!(names, ["0 accesses", "32 accesses", "256 accesses"]);

    let text = stdout(&by_line("bench scr --quick --figure 1,10a,10b --packets 2000 --cores 1,3"));
    for expected in [
        "Figure 1: ",
        "Figure 10a: ",
        "conntrack over single-flow",
        "a link of 100 Gbit/s",
        "packets, recovery on",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let html = stdout(&by_line("bench scr --quick --figure 1 --packets 2000 --cores 1,3 --html -"));
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("conntrack over single-flow"), "{html}");
}

#[test]
fn figures_that_there_are_not_are_refused() {
    for (args, expected) in [
        ("--figure 2", "possible values: 1, 6, 7, 9, 10a, 10b, 11"),
        ("--cores 0", "a whole number, 1 to 128"),
        ("--packets 10", "10 is not in 1000.."),
        ("--json - --html -", "both want standard output"),
    ] {
        let output = by_line(&format!("bench scr {args}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {error}");
        assert!(error.contains(expected), "{args}: {error}");
    }
}
