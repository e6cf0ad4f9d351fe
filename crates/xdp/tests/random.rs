//! Random programs do in the kernel what they do in the interpreter, under each strategy.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use p4::{Options, lower};
use paceline_xdp::load::LoadError;
use paceline_xdp::trial::{self, Course};
use paceline_xdp::{Compiled, Strategy, clang, compile};

use crate::programs::random;

/// Packets for each program.
const PACKETS: usize = 200;

/// What came of some programs.
#[derive(Default)]
struct Tally {
    /// By strategy: programs that equal the interpreter.
    equal: BTreeMap<String, u64>,
    /// By strategy and reason: programs that are not compiled.
    refused: BTreeMap<String, u64>,
    /// Programs that differ, or that clang or the verifier refuses: the seed, the strategy and what was found.
    defects: Vec<String>,
    /// Why nothing was tried.
    skipped: Option<String>,
}

impl Tally {
    fn report(&self) -> String {
        let mut text = String::new();
        self.equal
            .iter()
            .for_each(|(strategy, many)| writeln!(text, "equal, {strategy}: {many}").expect("text"));
        self.refused.iter().for_each(|(why, many)| writeln!(text, "refused, {why}: {many}").expect("text"));
        text
    }

    fn equal(&self) -> u64 {
        self.equal.values().sum()
    }
}

/// Changes the C of a program; the answer is whether it did.
type Plant = dyn Fn(&mut Compiled) -> bool + Sync;

/// What is planted where nothing is.
const NOTHING: &Plant = &|_| true;

/// Runs the programs of these seeds, on all processors.
fn run(folder: &str, seeds: std::ops::Range<u64>, strategies: &[Strategy], plant: &Plant) -> Tally {
    let (next, tally) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for worker in 0..processors {
            let (next, tally) = (&next, &tally);
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{folder}-{worker}"));
            scope.spawn(move || {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < seeds.end
                {
                    for strategy in strategies {
                        one(seed, *strategy, plant, &folder, tally);
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn one(seed: u64, strategy: Strategy, plant: &Plant, folder: &Path, tally: &Mutex<Tally>) {
    let found = outcome(seed, strategy, plant, folder);
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    match found {
        Found::Equal => *tally.equal.entry(strategy.to_string()).or_default() += 1,
        Found::Refused(why) => *tally.refused.entry(format!("{strategy}: {why}")).or_default() += 1,
        Found::Defect(what) => tally.defects.push(format!("seed {seed}, {strategy}: {what}")),
        Found::Skipped(why) => tally.skipped = Some(why),
        Found::NothingPlanted => {}
    }
}

enum Found {
    Equal,
    Refused(String),
    Defect(String),
    Skipped(String),
    NothingPlanted,
}

fn outcome(seed: u64, strategy: Strategy, plant: &Plant, folder: &Path) -> Found {
    let random = random(seed, PACKETS);
    let (program, _) = lower(&format!("r{seed}.p4"), &random.source, &Options::default())
        .unwrap_or_else(|errors| panic!("seed {seed}: {errors:?}\n{}", random.source));
    let mut compiled = match compile(&program, strategy) {
        Ok(compiled) => compiled,
        Err(refusals) => {
            // Without names: what is said of all such programs.
            let said = refusals[0].message.rsplit_once(": ").map_or(&*refusals[0].message, |(_, said)| said);
            return Found::Refused(said.to_owned());
        }
    };
    if !plant(&mut compiled) {
        return Found::NothingPlanted;
    }
    let source = clang::write(&compiled, folder).expect("a folder for tests");
    let object = match clang::build(&source) {
        Ok(object) => fs::read(object).expect("the object"),
        Err(clang::BuildError::NoClang { clang, error }) => {
            return Found::Skipped(format!("{clang}: {error}"));
        }
        Err(refused) => return Found::Defect(refused.to_string()),
    };
    let mut draw = fastrand::Rng::with_seed(seed);
    let cores = match strategy {
        Strategy::Sharded => draw.u16(2..=4),
        Strategy::Shared => 3,
        Strategy::Scr => draw.u16(2..=14),
    };
    // Up to three packets in ten are lost where replicas recover, which half of the programs do.
    let losses = if strategy == Strategy::Scr && seed % 2 == 1 { draw.u64(1..=30) } else { 0 };
    let lost: Vec<bool> = random.packets.iter().map(|_| draw.u64(..100) < losses).collect();
    let is_lost = |number: u64| lost.get(number as usize).copied().unwrap_or_default();
    let loaded = match trial::load(&compiled, &object, cores, losses > 0) {
        Ok(loaded) => loaded,
        Err(LoadError::NoRights(why)) => {
            return Found::Skipped(format!("no rights to load BPF programs: {why}"));
        }
        Err(LoadError::Refused { log, .. }) if log.contains("BPF program is too large") => {
            return Found::Refused("the verifier gives up".to_owned());
        }
        Err(error) => return Found::Defect(error.to_string()),
    };
    let course = Course { is_lost: &is_lost, ..Course::new(cores, &random.packets) };
    match trial::difference(&program, &compiled, &loaded, &course).expect("the maps") {
        None => Found::Equal,
        Some(differs) => Found::Defect(format!("{cores} cores, {losses}% lost: {differs}")),
    }
}

const ALL: [Strategy; 3] = [Strategy::Sharded, Strategy::Shared, Strategy::Scr];

/// All programs of these seeds are equal, and most of them are compiled.
fn all_are_equal(folder: &str, seeds: std::ops::Range<u64>) {
    let many = seeds.end - seeds.start;
    let tally = run(folder, seeds, &ALL, NOTHING);
    if let Some(why) = &tally.skipped {
        eprintln!("skipped: {why}");
        return;
    }
    println!("{}", tally.report());
    assert!(tally.defects.is_empty(), "{} defects: {}", tally.defects.len(), tally.defects[0]);
    let of = |strategy: Strategy| tally.equal.get(&strategy.to_string()).copied().unwrap_or_default();
    assert!(
        of(Strategy::Shared) * 10 >= many * 9 && of(Strategy::Scr) * 10 >= many * 9,
        "{}",
        tally.report()
    );
    assert!(of(Strategy::Sharded) * 10 >= many * 4, "{}", tally.report());
}

#[test]
fn some_programs_equal_the_interpreter() {
    all_are_equal("random", 1..13);
}

/// `PACELINE_PROGRAMS` says how many, `PACELINE_SEED` which is the first.
#[test]
fn three_hundred_programs_equal_the_interpreter() {
    let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let first = number("PACELINE_SEED", 1000);
    all_are_equal("random-300", first..first + number("PACELINE_PROGRAMS", 300));
}

/// Of some programs, how many show a planted bug.
fn finds(folder: &str, strategy: Strategy, plant: &Plant) -> bool {
    let tally = run(folder, 1..9, &[strategy], plant);
    if let Some(why) = &tally.skipped {
        eprintln!("skipped: {why}");
        return true;
    }
    println!("{} of {} find it", tally.defects.len(), tally.defects.len() as u64 + tally.equal());
    tally.defects.iter().any(|defect| defect.contains(" is ") || defect.contains("expected"))
}

fn replace(compiled: &mut Compiled, from: &str, to: &str) -> bool {
    let has = compiled.c.contains(from);
    compiled.c = compiled.c.replace(from, to);
    has
}

#[test]
fn an_operator_of_the_wrong_width_is_found() {
    assert!(finds("random-width", Strategy::Shared, &|compiled| {
        let wider = [
            (" & 0x1ffull)", " & 0x3ffull)"),
            (" & 0x1fffull)", " & 0x3fffull)"),
            (" & 0x7full)", " & 0xffull)"),
        ];
        wider.iter().fold(false, |has, (from, to)| replace(compiled, from, to) || has)
    }));
}

#[test]
fn a_replica_without_replay_is_found() {
    let plant = |compiled: &mut Compiled| replace(compiled, "replay_ingress(&p, s);", "");
    assert!(finds("random-replay", Strategy::Scr, &plant));
}

#[test]
fn a_dispatch_by_something_else_is_found() {
    let plant = |compiled: &mut Compiled| {
        replace(compiled, "return (spread(", "return (spread(p->standard_packet_length, 0) ^ spread(")
    };
    assert!(finds("random-dispatch", Strategy::Sharded, &plant));
}
