//! What cores tell while they run is in the end what the report says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::report::{FunctionSummary, RunReport, Verdicts};
use engine::strategies::{RSS, SINGLE};
use engine::{Plan, Progress, RunOutcome, replay_capture};
use io::capture::CaptureReader;
use paceline_conformance::stock::small;
use paceline_conformance::{captures, example};
use telemetry::{CoreSnapshot, FunctionSnapshot, Snapshot, Telemetry};

/// A run with telemetry, over the recorded capture.
fn run(
    name: &str,
    cores: usize,
    beside: impl FnOnce(&Telemetry, &AtomicBool) + Send,
) -> (RunReport, Snapshot) {
    let chain = small(example(name));
    let plan = Plan::new(&chain, RSS, cores).or_else(|_| Plan::new(&chain, SINGLE, 1));
    let plan = plan.expect("a plan");
    let telemetry = Arc::new(plan.telemetry(&chain));
    let progress = Progress { telemetry: Some(Arc::clone(&telemetry)), ..Progress::default() };
    let reader = CaptureReader::open(&captures()[0]).expect("a capture");
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| beside(&telemetry, &is_over));
        let outcome = replay_capture(&chain, &plan, reader, &progress, &mut |_| Ok::<_, ()>(()));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|_| panic!("{name} runs"))
    });
    let snapshot = telemetry.snapshot();
    assert_eq!(batches(&snapshot.cores), counted_batches(&outcome));
    (RunReport::new(&chain, &plan, &outcome), snapshot)
}

fn batches(cores: &[CoreSnapshot]) -> Vec<u64> {
    cores.iter().map(|core| core.counts.batches).collect()
}

fn counted_batches(outcome: &RunOutcome) -> Vec<u64> {
    outcome.cores.iter().map(|(counters, _)| counters.batches).collect()
}

/// What telemetry tells other than the report.
fn differences(snapshot: &Snapshot, report: &RunReport) -> Vec<String> {
    let mut differences = Differences(Vec::new());
    differences.add("cores", snapshot.cores.len(), report.cores.len());
    let mut drops = BTreeMap::new();
    let mut malformed = BTreeMap::new();
    for (told, reported) in snapshot.cores.iter().zip(&report.cores) {
        let core = |what: &str| format!("core {}: {what}", reported.core);
        let counts = &told.counts;
        differences.add(&core("packets"), counts.packets, reported.packets);
        differences.add(&core("bytes"), counts.bytes, reported.bytes);
        differences.add(&core("busy"), counts.busy_ns as f64 / 1e9, reported.busy_seconds);
        let Verdicts { forward, drop, transmit_back, host } = reported.verdicts;
        let verdicts = [counts.forward, counts.dropped(), counts.transmit_back, counts.host];
        differences.add(&core("verdicts"), verdicts, [forward, drop, transmit_back, host]);
        for (reason, packets) in snapshot.layout.malformed.iter().zip(&told.malformed) {
            *malformed.entry(reason.clone()).or_insert(0) += packets;
            if snapshot.layout.drops_malformed {
                *drops.entry(format!("malformed/{reason}")).or_insert(0) += packets;
            }
        }
        *drops.entry("engine/no-room".to_owned()).or_insert(0) += counts.dropped_no_room;
        let by_function: u64 = told.functions.iter().flat_map(|function| &function.drops).sum();
        differences.add(&core("drops by function"), counts.dropped_by_function, by_function);
        let of_malformed: u64 = told.malformed.iter().sum();
        if snapshot.layout.drops_malformed {
            differences.add(&core("malformed"), counts.dropped_malformed, of_malformed);
        }
    }
    for (index, reported) in report.functions.iter().enumerate() {
        differences.function(snapshot, index, reported, &mut drops);
    }
    drops.retain(|_, packets| *packets > 0);
    malformed.retain(|_, packets| *packets > 0);
    differences.add("drops", &drops, &report.drops);
    differences.add("malformed", &malformed, &report.malformed);
    differences.0
}

struct Differences(Vec<String>);

impl Differences {
    fn add<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, told: T, reported: T) {
        if told != reported {
            self.0.push(format!("{what}: {told:?} was told, {reported:?} is reported"));
        }
    }

    fn function(
        &mut self,
        snapshot: &Snapshot,
        index: usize,
        reported: &FunctionSummary,
        drops: &mut BTreeMap<String, u64>,
    ) {
        let layout = &snapshot.layout.functions[index];
        let told: Vec<&FunctionSnapshot> = snapshot.cores.iter().map(|core| &core.functions[index]).collect();
        let sum = |count: &dyn Fn(&FunctionSnapshot) -> u64| told.iter().map(|told| count(told)).sum::<u64>();
        let name = |what: &str| format!("{}: {what}", layout.name);
        self.add(&name("name"), &layout.name, &reported.name);
        let flows = &reported.flows;
        for (what, told, reported) in [
            ("packets", sum(&|told| told.counts.packets), reported.packets),
            ("forward", sum(&|told| told.counts.forward), reported.verdicts.forward),
            ("transmit back", sum(&|told| told.counts.transmit_back), reported.verdicts.transmit_back),
            ("host", sum(&|told| told.counts.host), reported.verdicts.host),
            ("created", sum(&|told| told.counts.created), flows.created),
            ("removed", sum(&|told| told.counts.removed), flows.removed),
            ("expired", sum(&|told| told.counts.expired), flows.expired),
            ("evicted", sum(&|told| told.counts.evicted), flows.evicted),
            ("rejected", sum(&|told| told.counts.rejected), flows.rejected),
            ("live", sum(&|told| told.counts.live), flows.live),
        ] {
            self.add(&name(what), told, reported);
        }
        for told in &told {
            self.add(&name("capacity"), told.counts.capacity, flows.capacity_per_core);
        }
        for (number, reason) in layout.drop_reasons.iter().enumerate() {
            *drops.entry(format!("{}/{reason}", layout.name)).or_insert(0) += sum(&|told| told.drops[number]);
        }
        let events = layout.events.iter().enumerate();
        let events: BTreeMap<String, u64> =
            events.map(|(number, event)| (event.clone(), sum(&|told| told.events[number]))).collect();
        self.add(&name("events"), &events, &reported.events);
    }
}

const CHAINS: [&str; 6] =
    ["edge.toml", "mixed-keys.toml", "nat-ids.toml", "acl.toml", "ddos.toml", "stats-lb-limiter.toml"];

#[test]
fn what_was_told_in_the_end_is_what_is_reported() {
    for name in CHAINS {
        for cores in [1, 3] {
            let (report, snapshot) = run(name, cores, |_, _| ());
            assert!(report.packets > 1_000);
            assert_eq!(differences(&snapshot, &report), Vec::<String>::new(), "{name} on {cores} cores");
        }
    }
}

/// All counters of a snapshot that the report has, too.
fn cells(snapshot: &mut Snapshot) -> Vec<&mut u64> {
    let mut cells = Vec::new();
    for CoreSnapshot { counts, malformed, functions, .. } in &mut snapshot.cores {
        cells.extend([&mut counts.packets, &mut counts.bytes, &mut counts.busy_ns, &mut counts.forward]);
        cells.extend([&mut counts.transmit_back, &mut counts.host, &mut counts.dropped_by_function]);
        cells.extend([&mut counts.dropped_malformed, &mut counts.dropped_no_room]);
        cells.extend(malformed);
        for FunctionSnapshot { counts, drops, events } in functions {
            cells.extend([&mut counts.packets, &mut counts.forward, &mut counts.transmit_back]);
            cells.extend([&mut counts.host, &mut counts.created, &mut counts.removed, &mut counts.expired]);
            cells.extend([&mut counts.evicted, &mut counts.rejected, &mut counts.live, &mut counts.capacity]);
            cells.extend(drops.iter_mut().chain(events));
        }
    }
    cells
}

/// The planted fault: a counter that is not told, or not to its end.
#[test]
fn a_counter_that_is_not_told_is_found() {
    let (report, snapshot) = run("edge.toml", 2, |_, _| ());
    let all = cells(&mut snapshot.clone()).len();
    assert!(all > 100);
    for cell in 0..all {
        for change in [|_| 0, |value: u64| value.saturating_sub(1), |value| value + 1] {
            let mut faulty = snapshot.clone();
            let mut cells = cells(&mut faulty);
            let before = *cells[cell];
            *cells[cell] = change(before);
            if *cells[cell] != before {
                assert!(!differences(&faulty, &report).is_empty(), "cell {cell}: {before}");
            }
        }
    }
}

#[test]
fn counters_never_run_back_while_cores_work() {
    run("edge.toml", 2, |telemetry, is_over| {
        let mut before = telemetry.snapshot();
        loop {
            // The last look is at what there is in the end.
            let is_last = is_over.load(Ordering::Relaxed);
            let mut after = telemetry.snapshot();
            // Live flows are the one thing among them that may be fewer.
            for snapshot in [&mut before, &mut after] {
                let functions = snapshot.cores.iter_mut().flat_map(|core| &mut core.functions);
                functions.for_each(|function| function.counts.live = 0);
            }
            let late = after.clone();
            for (before, after) in cells(&mut before).into_iter().zip(cells(&mut after)) {
                assert!(before <= after, "{before} then {after}");
            }
            before = late;
            if is_last {
                let packets: u64 = before.cores.iter().map(|core| core.counts.packets).sum();
                return assert!(packets > 1_000);
            }
        }
    });
}
