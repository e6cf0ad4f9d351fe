//! Tests of the blocks of counters.

use std::thread;

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn layout() -> Layout {
    let function = |name: &str, drops: &[&str], events: &[&str]| FunctionLayout {
        name: name.to_owned(),
        drop_reasons: names(drops),
        events: names(events),
    };
    Layout {
        chain: "test".to_owned(),
        strategy: "rss".to_owned(),
        malformed: names(&["link-truncated", "ip-version"]),
        strategy_events: vec!["lent".to_owned(), "sent".to_owned()],
        drops_malformed: true,
        functions: vec![
            function("policer", &["over-rate", "unnamed"], &["packets-over-rate"]),
            function("scanner", &["unnamed"], &[]),
            function("statistics", &[], &["a", "b", "c"]),
        ],
    }
}

/// Counts that are all different: `first`, `first + 1` and so on.
fn core_counts(first: u64) -> CoreCounts {
    let cells: [u64; CORE_CELLS] = std::array::from_fn(|cell| first + cell as u64);
    zerocopy::transmute!(cells)
}

fn function_counts(first: u64) -> FunctionCounts {
    let cells: [u64; FUNCTION_CELLS] = std::array::from_fn(|cell| first + cell as u64);
    zerocopy::transmute!(cells)
}

#[test]
fn what_is_written_is_read_and_nothing_else() {
    let telemetry = Telemetry::new(layout(), 3);
    let untouched = telemetry.snapshot();
    let mut writer = telemetry.writer(1).expect("a core");
    writer.core(&core_counts(100));
    writer.malformed(&[200, 201]);
    writer.strategy(|name| 250 + name.len() as u64 + u64::from(name == "sent"));
    writer.function(0, &function_counts(300), &[320, 321], &[330]);
    writer.function(1, &function_counts(400), &[420], &[]);
    writer.function(2, &function_counts(500), &[], &[530, 531, 532]);
    let snapshot = telemetry.snapshot();
    let function = |first, drops: &[u64], events: &[u64]| FunctionSnapshot {
        counts: function_counts(first),
        drops: drops.to_vec(),
        events: events.to_vec(),
    };
    let expected = CoreSnapshot {
        counts: core_counts(100),
        malformed: vec![200, 201],
        strategy_events: vec![254, 255],
        functions: vec![
            function(300, &[320, 321], &[330]),
            function(400, &[420], &[]),
            function(500, &[], &[530, 531, 532]),
        ],
    };
    assert_eq!(snapshot.cores[1], expected);
    for core in [0, 2] {
        assert_eq!(snapshot.cores[core], untouched.cores[core]);
        let nothing = CoreCounts { queue_depth: UNKNOWN, ..CoreCounts::default() };
        assert_eq!(snapshot.cores[core].counts, nothing);
    }
}

#[test]
fn a_block_has_one_writer() {
    let telemetry = Telemetry::new(layout(), 2);
    let first = telemetry.writer(0);
    assert!(first.is_some());
    assert!(telemetry.writer(0).is_none());
    assert!(telemetry.writer(1).is_some());
    assert!(telemetry.writer(2).is_none(), "there is no such core");
}

#[test]
fn blocks_share_no_cache_line() {
    let telemetry = Telemetry::new(Layout::default(), 8);
    let mut lines: Vec<_> = telemetry.blocks.iter().map(|(block, _)| block.lines.as_ptr() as usize).collect();
    assert!(lines.iter().all(|line| line % 128 == 0));
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[1] - pair[0] >= 128));
}

#[test]
#[should_panic(expected = "a count for each event")]
fn counts_fit_their_names() {
    let mut writer = Telemetry::new(layout(), 1).writer(0).expect("a core");
    writer.function(0, &function_counts(0), &[0, 0], &[]);
}

/// Whether counters ran back from one reading to the next.
fn ran_back(before: &CoreSnapshot, after: &CoreSnapshot) -> bool {
    let packets = |core: &CoreSnapshot| [core.counts.packets, core.counts.busy_ns, core.counts.forward];
    let function = |core: &CoreSnapshot| {
        [core.functions[0].counts.packets, core.functions[0].drops[1], core.functions[0].events[0]]
    };
    let (before, after) = (
        packets(before).into_iter().chain(function(before)),
        packets(after).into_iter().chain(function(after)),
    );
    before.zip(after).any(|(before, after)| after < before)
}

#[test]
fn a_reader_beside_the_writer_sees_counters_that_never_run_back() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let telemetry = Telemetry::new(layout(), 1);
    let mut writer = telemetry.writer(0).expect("a core");
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..=ROUNDS {
                writer.core(&core_counts(round));
                writer.function(0, &function_counts(round), &[round, round], &[round]);
            }
        });
        let mut before = telemetry.snapshot().cores.remove(0);
        while before.functions[0].events[0] < ROUNDS {
            let after = telemetry.snapshot().cores.remove(0);
            assert!(!ran_back(&before, &after), "{before:?} then {after:?}");
            before = after;
        }
    });
    let late = telemetry.snapshot().cores.remove(0);
    assert_eq!(late.counts, core_counts(ROUNDS));
    // The check would find it.
    let mut early = late.clone();
    early.functions[0].drops[1] -= 1;
    assert!(ran_back(&late, &early));
}
