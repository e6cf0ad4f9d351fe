//! Views of made-up snapshots.

use std::sync::Arc;
use std::time::Duration;

use telemetry::{FunctionLayout, Layout, PromotionSnapshot, StrategySnapshot};

use super::*;

/// A second in which each of two cores has these packets, so many of which a NAT drops, and flows.
fn snapshot(seconds: u64, packets: u64, dropped: u64, live: u64) -> Snapshot {
    let function = FunctionSnapshot {
        counts: FunctionCounts { packets, live, capacity: 1_000, ..FunctionCounts::default() },
        drops: vec![dropped, 0],
        events: vec![packets / 2],
    };
    let counts = CoreCounts {
        packets,
        bytes: 100 * packets,
        busy_ns: seconds * 500_000_000,
        forward: packets - dropped,
        dropped_by_function: dropped,
        queue_depth: UNKNOWN,
        ..CoreCounts::default()
    };
    let core = CoreSnapshot { counts, functions: vec![function], ..CoreSnapshot::default() };
    let layout = Layout {
        chain: "edge".to_owned(),
        strategy: "rss".to_owned(),
        functions: vec![FunctionLayout {
            name: "nat".to_owned(),
            drop_reasons: vec!["no-port".to_owned(), "never".to_owned()],
            events: vec!["mappings".to_owned()],
        }],
        ..Layout::default()
    };
    Snapshot {
        layout: Arc::new(layout),
        elapsed: Duration::from_secs(seconds),
        cores: vec![core.clone(), core],
        interfaces: Vec::new(),
        strategy: StrategySnapshot::default(),
        rules: Vec::new(),
    }
}

#[test]
fn rates_are_of_the_last_period_and_counts_of_the_run() {
    let mut watch = Watch::default();
    watch.look(snapshot(1, 1_000, 0, 10));
    let view = watch.look(snapshot(2, 3_000, 180, 10));
    assert_eq!((view.packets, view.packets_per_s, view.bits_per_s), (6_000, 4_000.0, 3_200_000.0));
    let drop = DropView { by: "nat".to_owned(), reason: "no-port".to_owned(), per_s: 360.0, total: 360 };
    assert_eq!(view.drops, [drop], "what dropped nothing is not there");
    let verdicts: Vec<_> =
        view.verdicts.iter().map(|one| (one.verdict.as_str(), one.per_s, one.total)).collect();
    assert_eq!(verdicts, [("forward", 3_640.0, 5_640), ("drop", 360.0, 360)]);
    assert_eq!(view.cores[1].busy, 0.5);
    assert_eq!(view.cores[1].queue, None);
    assert_eq!(view.events[0].total, 3_000);
    assert_eq!(
        view.headline,
        "4.00 k packets/s, 3.20 Mbit/s; 9.0% is dropped, all of it for no-port by nat."
    );
    assert!(view.interfaces.is_empty() && view.told.is_none());
    assert_eq!(watch.points().len(), 2);
}

#[test]
fn a_run_without_packets_says_so() {
    let mut watch = Watch::default();
    let begin = watch.look(snapshot(0, 0, 0, 0));
    assert_eq!(begin.headline, "No packet has come in yet.");
    assert!(watch.points().is_empty(), "there is no rate yet");
    watch.look(snapshot(1, 10, 0, 0));
    let quiet = watch.look(snapshot(2, 10, 0, 0));
    assert_eq!(quiet.headline, "No packets come in now.");
    assert!(quiet.warnings.is_empty() && quiet.log.is_empty());
}

/// The last look may come right behind the one before, and the first one right behind the begin.
#[test]
fn a_short_time_gives_no_rates_of_its_own() {
    let mut watch = Watch::default();
    let at = |milliseconds: u64, packets: u64| Snapshot {
        elapsed: Duration::from_millis(milliseconds),
        ..snapshot(1, packets, 0, 10)
    };
    let first = watch.look(at(2, 5_000));
    assert_eq!((first.packets_per_s, first.headline.as_str()), (0.0, "The run has just begun."));
    assert!(watch.points().is_empty() && first.warnings.is_empty());
    watch.look(at(1_002, 6_000));
    let last = watch.look(at(1_003, 6_001));
    assert!((last.packets_per_s - 2_000.0).abs() < 2.0, "{}", last.packets_per_s);
}

#[test]
fn a_table_is_full_when_it_grew_to_be() {
    let mut watch = Watch::default();
    let of = |view: View| view.functions[0].table.clone().expect("a table");
    let first = of(watch.look(snapshot(1, 10, 0, 100)));
    assert_eq!((first.flows, first.fullest_flows, first.load), (200, 100, 0.1));
    assert_eq!(first.full_in_seconds, None, "one look shows no growth");
    assert_eq!(of(watch.look(snapshot(2, 20, 0, 102))).full_in_seconds, Some(449.0));
    let view = watch.look(snapshot(3, 30, 0, 110));
    assert_eq!(
        view.warnings,
        ["The table of nat is 11% full on core 1, and full in 178 s as it grows.".replace("178 s", "3 min")]
    );
    assert!(of(view).full_in_seconds.is_some_and(|seconds| (seconds - 178.0).abs() < 0.1));
    assert_eq!(of(watch.look(snapshot(4, 40, 0, 100))).full_in_seconds, None, "it shrank again");
    let view = watch.look(snapshot(5, 50, 0, 1_000));
    assert_eq!(view.warnings, ["The table of nat is 100% full on core 1."]);
    assert_eq!(of(view).full_in_seconds, None);
}

#[test]
fn full_tables_and_busy_cores_are_wrong_and_drops_by_rule_are_not() {
    let mut watch = Watch::default();
    watch.look(snapshot(1, 1_000, 500, 10));
    let mut now = snapshot(2, 2_000, 1_000, 10);
    assert!(watch.look(now.clone()).warnings.is_empty());
    now.elapsed = Duration::from_secs(3);
    now.cores[0].functions[0].counts.rejected = 20;
    now.cores[1].counts.busy_ns += 990_000_000;
    now.cores[0].counts.dropped_no_room = 7;
    let expected = [
        "7 packets/s are dropped, as edits do not fit their buffers.",
        "nat refuses 20 new flows/s: its table is full.",
        "Core 1 is busy for 99% of its time.",
    ];
    assert_eq!(watch.look(now).warnings, expected);
}

#[test]
fn counters_that_begin_anew_give_no_rate_below_nothing() {
    let mut watch = Watch::default();
    watch.look(snapshot(1, 1_000_000, 0, 10));
    let view = watch.look(snapshot(2, 500, 0, 10));
    assert_eq!(view.packets_per_s, 1_000.0);
}

#[test]
fn what_the_strategy_does_and_what_begins_and_ends_is_written_down() {
    let mut watch = Watch::default();
    let with = |seconds: u64, moves: u64, promotions: u64, busy: u64| {
        let mut now = snapshot(seconds, 10 * seconds, 0, 10);
        now.cores[0].counts.busy_ns = busy;
        let promotion = Some(PromotionSnapshot { promotions, ..PromotionSnapshot::default() });
        let runs = "rsspp".to_owned();
        now.strategy = StrategySnapshot { runs, cores: 2, moves, promotion, ..StrategySnapshot::default() };
        now
    };
    watch.look(with(1, 0, 0, 0));
    watch.look(with(2, 3, 1, 1_000_000_000));
    // It comes and goes: one warning.
    watch.look(with(3, 3, 1, 1_000_000_000));
    watch.look(with(4, 3, 1, 2_000_000_000));
    let mut view = watch.look(with(14, 3, 1, 2_000_000_000));
    let written = |view: &View| view.log.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>();
    let so_far = [
        "3 entries moved to other cores",
        "1 value of the hash promoted",
        "begins: core 0 is busy all the time",
    ];
    assert_eq!(written(&view), so_far);
    view = watch.look(with(15, 3, 1, 2_000_000_000));
    assert_eq!(written(&view)[3..], ["over: core 0 is busy all the time"]);
    for seconds in 16..700 {
        view = watch.look(with(seconds, seconds, 1, 0));
    }
    assert_eq!((view.log.len(), watch.points().len(), watch.recent.len()), (30, POINTS, RECENT));
    assert!(view.log.is_sorted_by(|a, b| a.number < b.number));
}
