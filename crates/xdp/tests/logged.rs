//! The history in a log: more replicas, and longer items, than fit in front of packets do what the interpreter does. An item that
//! is written over is never used.

use paceline_xdp::Strategy;
use paceline_xdp::live::LiveError;
use paceline_xdp::load::{LoadError, Loaded};
use paceline_xdp::trial::{self, Course};

use crate::common::{EXAMPLES, compiled, example, object, random_packets};
use crate::rig::{Outcome, PACED, Pace, Rig};

/// The least steps that a live run has.
const STEPS: u32 = 16;

/// A program whose history is in a log, after a change of its C; nothing, with a word why, where this process has no rights.
fn with_log<T>(
    label: &str,
    name: &str,
    (cores, steps): (u16, u32),
    change: &dyn Fn(String) -> String,
    does: impl FnOnce(&Loaded<'_>) -> T,
) -> Option<T> {
    let mut compiled = compiled(&example(name), Strategy::Scr);
    compiled.c = change(compiled.c);
    let object = object(&compiled, &format!("logged-{label}"))?;
    match trial::load_logged(&compiled, &object, cores, steps) {
        Ok(loaded) => Some(does(&loaded)),
        Err(LoadError::NoRights(why)) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// The first difference from the interpreter, where each of these packets is lost before its core.
fn difference(name: &str, loaded: &Loaded<'_>, cores: u16, is_lost: &dyn Fn(u64) -> bool) -> Option<String> {
    let packets = random_packets(41, 1500);
    let course = Course { is_lost, ..Course::new(cores, &packets) };
    trial::logged_difference(&example(name), loaded, &course).expect("the maps")
}

fn all_equal(label: &str, programs: impl IntoIterator<Item = (&'static str, u16)>) {
    for (name, cores) in programs {
        let steps = u32::from(cores).max(STEPS);
        let found = with_log(label, name, (cores, steps), &|c| c, |loaded| {
            let found = difference(name, loaded, cores, &|_| false);
            (0..cores).for_each(|core| assert_eq!(loaded.missed(core.into()).expect("the map"), 0));
            found
        });
        let Some(found) = found else { return };
        assert_eq!(found, None, "{name}, {cores} replicas");
    }
}

#[test]
fn replicas_with_a_log_equal_the_interpreter() {
    all_equal("equal", [("scr/token_bucket", 5), ("scr/ddos", 24), ("scr/ddos", 1)]);
}

#[test]
fn examples_with_a_log_equal_the_interpreter() {
    all_equal("examples", EXAMPLES.map(|name| (name, 5)).into_iter().chain([("port_knocking", 64)]));
}

/// What a queue loses is in the log: all replicas step it, also those that have more to step than one packet may.
#[test]
fn what_is_lost_is_in_the_log() {
    for (name, share, steps) in
        [("scr/token_bucket", 3, STEPS), ("scr/ddos", 2, STEPS), ("port_knocking", 2, 6)]
    {
        let found = with_log("lost", name, (5, steps), &|c| c, |loaded| {
            let is_lost = |number: u64| number.wrapping_mul(0x9e37_79b9).rotate_left(7).is_multiple_of(share);
            let found = difference(name, loaded, 5, &is_lost);
            let recovered: u64 = (0..5).map(|core| loaded.progress(core).expect("the map").recovered).sum();
            assert!(recovered > 100, "{recovered}");
            found
        });
        let Some(found) = found else { return };
        assert_eq!(found, None, "{name}");
    }
}

/// How many packets a replica counts as missed that sleeps while 9,000 are logged.
fn missed_by_a_sleeper(label: &str, change: &dyn Fn(String) -> String) -> Option<u64> {
    let packets = random_packets(43, 9000);
    with_log(label, "scr/ddos", (2, STEPS), change, |loaded| {
        for packet in &packets {
            loaded.log(&packet.bytes).expect("it is numbered");
        }
        loaded.flush_log(9000, 0, 1000).expect("it steps");
        let progress = loaded.progress(0).expect("the map");
        assert_eq!(progress.next, 9000);
        progress.missed
    })
}

/// A replica that lags by more than the log has counts what it missed, and steps what is left.
#[test]
fn what_is_written_over_is_counted_and_never_used() {
    let replaced = |c: String, from: &str, to: &str| {
        assert!(c.contains(from), "{from}");
        c.replace(from, to)
    };
    let one_by_one = |c: String| replaced(c, "until > s->progress->next + LOGGED", "0");
    let checked = "before != number + 1 || __sync_fetch_and_or(&items->slots[slot].mark, 0) != before";
    let blind = |c: String| replaced(one_by_one(c), checked, "before == ~0ull");
    let Some(missed) = missed_by_a_sleeper("over", &|c| c) else { return };
    assert_eq!(missed, 9000 - 8192);
    // Each item is checked by its number, too.
    assert_eq!(missed_by_a_sleeper("over-each", &one_by_one), Some(9000 - 8192));
    assert_eq!(
        missed_by_a_sleeper("over-blind", &blind),
        Some(0),
        "the fault: what was written over is used"
    );
}

/// Faults of the log: each makes a replica use what it should not, or leave out what it should step.
#[test]
fn a_log_with_a_fault_is_found() {
    for (label, from, to) in [
        // The item of another packet is taken for this one.
        (
            "slot",
            "u64 number = s->progress->next, slot = number;",
            "u64 number = s->progress->next, slot = number ^ 1;",
        ),
        ("unmarked", "__sync_lock_test_and_set(&items->slots[slot].mark, number + 1);", ""),
        (
            "early",
            "log_item(items, sequence, q->item);",
            "if (sequence % 7) log_item(items, sequence, q->item);",
        ),
        ("left-out", "replay_ingress(&p, s);", ""),
    ] {
        let plant = |c: String| {
            assert!(c.contains(from), "{from}");
            c.replace(from, to)
        };
        let found = with_log(label, "scr/token_bucket", (5, STEPS), &plant, |loaded| {
            difference("scr/token_bucket", loaded, 5, &|_| false).is_some()
                || (0..5).any(|core| loaded.missed(core).expect("the map") > 0)
        });
        let Some(found) = found else { return };
        assert!(found, "{label}");
    }
}

/// A program live between namespaces with so many replicas on two CPUs, its history in a log.
fn outcome(label: &str, name: &str, replicas: u32, queue: u32, pace: &Pace) -> Option<Outcome> {
    let program = example(name);
    let compiled = compiled(&program, Strategy::Scr);
    let object = object(&compiled, &format!("live-{label}"))?;
    let rig = Rig::new(label)?;
    let frames: Vec<Vec<u8>> = random_packets(23, 3000).into_iter().map(|packet| packet.bytes).collect();
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32).min(2);
    let cpus: Vec<u32> = (0..replicas).map(|replica| replica % cpus).collect();
    let mut live = match rig.start_logged(&compiled, &object, &cpus, queue, frames.len() as u32) {
        Err(LiveError::Load(LoadError::NoRights(why))) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            return None;
        }
        started => started.unwrap_or_else(|error| panic!("{error}")),
    };
    assert!(live.is_logged());
    let outcome = rig.run(&program, &mut live, &frames, pace).expect("the maps");
    println!("{name}, {replicas} replicas: {:?}\n{}", outcome.progress, outcome.verdict);
    Some(outcome)
}

#[test]
fn logs_between_namespaces_equal_the_interpreter() {
    for (name, replicas) in [("scr/token_bucket", 2), ("port_knocking", 40)] {
        let Some(outcome) = outcome(&format!("log-{replicas}"), name, replicas, 2048, &PACED) else { return };
        assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
        assert!(outcome.progress.iter().all(|progress| progress.missed == 0 && progress.next == 3000));
    }
}

/// What full queues lose is stepped by all replicas.
#[test]
fn full_queues_lose_no_item_of_a_log() {
    let Some(outcome) = outcome("log-full", "scr/token_bucket", 2, 1, &PACED) else { return };
    assert!(outcome.verdict.lost > 0, "{}", outcome.verdict);
    assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
    assert!(outcome.progress.iter().any(|progress| progress.recovered > 0), "{:?}", outcome.progress);
    assert!(outcome.progress.iter().all(|progress| progress.missed == 0), "{:?}", outcome.progress);
}
