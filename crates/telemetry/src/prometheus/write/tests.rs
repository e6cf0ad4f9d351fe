//! Tests of the text that Prometheus reads.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::prometheus::{Sample, parse};
use crate::{
    ChoosingSnapshot, CoreCounts, Layout, ObjectiveSnapshot, PromotionSnapshot, ShardSnapshot, UpdateSnapshot,
};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Two cores: one that counted something everywhere, and one that has not begun.
fn snapshot() -> Snapshot {
    let function = |name: &str, drops: &[&str], events: &[&str]| FunctionLayout {
        name: name.to_owned(),
        drop_reasons: names(drops),
        events: names(events),
    };
    let layout = Layout {
        chain: "a \"b\" \\c\nd".to_owned(),
        strategy: "rss".to_owned(),
        malformed: names(&["ip-version"]),
        strategy_events: vec!["lent".to_owned(), "sent".to_owned()],
        drops_malformed: true,
        functions: vec![
            function("policer", &["over-rate", "unnamed"], &["packets-over-rate"]),
            function("pattern-scanner", &["unnamed"], &[]),
        ],
    };
    let busy = CoreSnapshot {
        counts: CoreCounts {
            packets: 1_000,
            bytes: 64_000,
            batches: 20,
            busy_ns: 1_250_000_000,
            forward: 980,
            transmit_back: 3,
            host: 2,
            dropped_by_function: 9,
            dropped_malformed: 5,
            dropped_no_room: 1,
            lost_queue_full: 7,
            moved_in: 4,
            moved_out: 6,
            held: 8,
            queue_depth: 64,
        },
        malformed: vec![5],
        strategy_events: vec![31, 32],
        functions: vec![
            FunctionSnapshot {
                counts: FunctionCounts {
                    packets: 995,
                    forward: 982,
                    transmit_back: 3,
                    host: 1,
                    created: 50,
                    removed: 11,
                    expired: 12,
                    evicted: 13,
                    rejected: 14,
                    live: 16,
                    capacity: 64,
                },
                drops: vec![8, 1],
                events: vec![21],
            },
            FunctionSnapshot {
                counts: FunctionCounts { packets: 30, forward: 30, ..FunctionCounts::default() },
                drops: vec![0],
                events: vec![],
            },
        ],
    };
    let quiet = CoreSnapshot {
        counts: CoreCounts { queue_depth: UNKNOWN, ..CoreCounts::default() },
        malformed: vec![0],
        strategy_events: vec![0, 0],
        functions: vec![
            FunctionSnapshot { drops: vec![0, 0], events: vec![0], ..FunctionSnapshot::default() },
            FunctionSnapshot { drops: vec![0], ..FunctionSnapshot::default() },
        ],
    };
    let interface = InterfaceSnapshot {
        name: "eth1".to_owned(),
        received: 400,
        received_bytes: 40_000,
        sent: 390,
        sent_bytes: 39_000,
        lost: vec![("link-down", 7)],
        overflowed: 0,
    };
    Snapshot {
        layout: Arc::new(layout),
        elapsed: Duration::from_millis(2_500),
        cores: vec![busy, quiet],
        interfaces: vec![interface],
        strategy: strategy(),
        rules: vec![crate::RuleSnapshot {
            function: "firewall".to_owned(),
            rule: "3".to_owned(),
            text: "drop udp from any to any port 53".to_owned(),
            decided: 41,
        }],
    }
}

/// More than one strategy says at a time: something of each kind.
fn strategy() -> StrategySnapshot {
    StrategySnapshot {
        runs: "dyssect".to_owned(),
        cores: 2,
        active_cores: Some(1),
        looks: 30,
        moves: 5,
        updates: Some(UpdateSnapshot { entries: 4, seconds: 0.5, longest_seconds: 0.25 }),
        shards: vec![ShardSnapshot { core: 0, offloaded: 0.5 }, ShardSnapshot { core: 1, offloaded: 0.0 }],
        roles: vec![(true, false), (true, true)],
        ratio_changes: 3,
        priority: vec![7, 0],
        objective: Some(ObjectiveSnapshot {
            p99_seconds: 0.0005,
            predicted_p99_seconds: Some(0.00025),
            measured_p99_seconds: Some(0.000125),
            utilisation: 0.5,
            most: 0.75,
        }),
        promotion: Some(PromotionSnapshot { values: 2, promotions: 7, demotions: 5, share: 0.25 }),
        choosing: Some(ChoosingSnapshot {
            changes: 6,
            predicted_mpps: Some(1.5),
            measured_mpps: None,
            candidates: vec![("scr".to_owned(), 2, 1.75)],
        }),
    }
}

#[test]
fn a_snapshot_as_text() {
    // Made by hand.
    let golden = include_str!("golden.txt").replace("VERSION", env!("CARGO_PKG_VERSION"));
    let mut one_core = snapshot();
    one_core.cores.truncate(1);
    let text = write(&one_core);
    for (line, golden) in text.lines().zip(golden.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(text.lines().count(), golden.lines().count());
}

/// What Prometheus' own checker would say: of families out of order, without type, with samples twice.
fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut family = "";
    let mut typed = HashSet::new();
    let mut seen = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            family = name;
            if !typed.insert(name) {
                faults.push(format!("{name} has its type twice"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                faults.push(format!("{name} is a {kind}"));
            }
        } else if !line.starts_with("# HELP ") {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            if &line[..end] != family {
                faults.push(format!("{line} is in the family {family}"));
            }
            if !seen.insert(line.rsplit_once(' ').map_or(line, |(series, _)| series)) {
                faults.push(format!("{line} is there twice"));
            }
        }
    }
    if let Err(error) = parse(text) {
        faults.push(error.to_string());
    }
    if !text.ends_with('\n') {
        faults.push("the last line does not end".to_owned());
    }
    faults
}

#[test]
fn the_text_is_well_formed() {
    assert_eq!(faults(&write(&snapshot())), Vec::<String>::new());
}

#[test]
fn faults_are_found() {
    let type_of = "# TYPE a_total counter\n";
    for bad in [
        "a_total 1\n".to_owned(),
        format!("{type_of}b_total 1\n"),
        format!("{type_of}a_total 1\na_total 2\n"),
        format!("{type_of}{type_of}"),
        "# TYPE a_total gauge\n".to_owned(),
        "# TYPE a counter\n".to_owned(),
        format!("{type_of}a_total 1"),
        format!("{type_of}a_total{{b=\"c}} 1\n"),
    ] {
        assert!(!faults(&bad).is_empty(), "{bad}");
    }
    assert!(faults(&format!("{type_of}a_total 1\n")).is_empty());
}

#[test]
fn what_is_written_is_read_back() {
    let snapshot = snapshot();
    let samples = parse(&write(&snapshot)).expect("valid");
    let value = |name: &str, labels: &[(&str, &str)]| {
        let is_it = |sample: &&Sample| {
            sample.name == name && labels.iter().all(|(label, value)| sample.label(label) == *value)
        };
        let found: Vec<_> = samples.iter().filter(is_it).collect();
        assert!(found.len() <= 1, "{name} {labels:?}: {found:?}");
        found.first().map(|sample| sample.value)
    };
    let info = samples.iter().find(|sample| sample.name == "paceline_info").expect("info");
    assert_eq!(info.label("chain"), snapshot.layout.chain);
    assert_eq!(value("paceline_run_seconds", &[]), Some(2.5));
    assert_eq!(value("paceline_packets_total", &[("core", "0")]), Some(1_000.0));
    assert_eq!(value("paceline_packets_total", &[("core", "1")]), Some(0.0));
    assert_eq!(value("paceline_busy_seconds_total", &[("core", "0")]), Some(1.25));
    assert_eq!(value("paceline_queue_depth", &[("core", "0")]), Some(64.0));
    assert_eq!(value("paceline_queue_depth", &[("core", "1")]), None, "nobody knows it");
    // Every packet has one verdict; every drop has one reason, and those that the queue lost come on top.
    let sum = |name: &str| samples.iter().filter(|s| s.name == name).map(|s| s.value).sum::<f64>();
    assert_eq!(sum("paceline_verdicts_total"), 1_000.0);
    let dropped = value("paceline_verdicts_total", &[("core", "0"), ("verdict", "drop")]);
    assert_eq!(dropped.map(|dropped| dropped + 7.0), Some(sum("paceline_drops_total")));
}

#[test]
fn passed_malformed_packets_are_no_drops() {
    let mut snapshot = snapshot();
    Arc::make_mut(&mut snapshot.layout).drops_malformed = false;
    let text = write(&snapshot);
    assert!(!text.contains("function=\"malformed\""));
    assert!(text.contains("paceline_malformed_total{core=\"0\",reason=\"ip-version\"} 5\n"));
}

/// The page of metrics is made from the families: their labels are those of the samples.
#[test]
fn families_have_the_labels_of_their_samples() {
    let samples = parse(&write(&snapshot())).expect("the text");
    let mut seen = 0;
    for family in FAMILIES {
        let mut of_it = samples.iter().filter(|sample| sample.name == family.name).peekable();
        seen += usize::from(of_it.peek().is_some());
        for sample in of_it {
            let labels: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(labels, family.labels, "{}", family.name);
        }
    }
    assert!(seen > 20, "{seen} families have samples here");
}
