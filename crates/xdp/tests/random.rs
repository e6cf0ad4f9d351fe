//! Random programs do in the kernel what they do in the interpreter, under each strategy.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use p4::interpret::Machine;
use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::load::LoadError;
use paceline_xdp::trial::{self, Course, Packet};
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
    /// How long clang, the verifier and the packets took.
    took: [Duration; 3],
}

impl Tally {
    fn report(&self) -> String {
        let mut text = String::new();
        self.equal
            .iter()
            .for_each(|(strategy, many)| writeln!(text, "equal, {strategy}: {many}").expect("text"));
        self.refused.iter().for_each(|(why, many)| writeln!(text, "refused, {why}: {many}").expect("text"));
        let [clang, verifier, packets] = self.took.map(|took| took.as_secs_f64());
        writeln!(text, "clang {clang:.1} s, verifier {verifier:.1} s, packets {packets:.1} s").expect("text");
        text
    }

    fn equal(&self) -> u64 {
        self.equal.values().sum()
    }
}

/// Changes the C of a program; the answer is whether it did.
type Plant = dyn Fn(&mut Compiled) -> bool + Sync;

/// The strategies under which the program of a seed is tried.
type Strategies = dyn Fn(u64) -> &'static [Strategy] + Sync;

/// What is planted where nothing is.
const NOTHING: &Plant = &|_| true;

/// Runs the programs of these seeds, on all processors.
fn run(folder: &str, seeds: std::ops::Range<u64>, strategies: &Strategies, plant: &Plant) -> Tally {
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
                    for strategy in strategies(seed) {
                        one(seed, *strategy, plant, &folder, tally);
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn one(seed: u64, strategy: Strategy, plant: &Plant, folder: &Path, tally: &Mutex<Tally>) {
    let mut took = [Duration::ZERO; 3];
    let found = outcome(seed, strategy, plant, folder, &mut took);
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.took.iter_mut().zip(took).for_each(|(sum, took)| *sum += took);
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

fn outcome(seed: u64, strategy: Strategy, plant: &Plant, folder: &Path, took: &mut [Duration; 3]) -> Found {
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
    let begin = Instant::now();
    let built = clang::build(&source);
    took[0] = begin.elapsed();
    let object = match built {
        Ok(object) => fs::read(object).expect("the object"),
        Err(clang::BuildError::NoClang { clang, error }) => {
            return Found::Skipped(format!("{clang}: {error}"));
        }
        Err(refused) => return Found::Defect(refused.to_string()),
    };
    let mut draw = fastrand::Rng::with_seed(seed);
    let cores = match strategy {
        // Shards of a table that becomes full have room for more than one core has.
        Strategy::Sharded if becomes_full(&program, &random.packets) => 1,
        Strategy::Sharded => draw.u16(2..=4),
        Strategy::Shared => 3,
        Strategy::Scr => draw.u16(2..=14),
    };
    // Up to three packets in ten are lost where replicas recover, which half of the programs do.
    let losses = if strategy == Strategy::Scr && seed % 2 == 1 { draw.u64(1..=30) } else { 0 };
    let lost: Vec<bool> = random.packets.iter().map(|_| draw.u64(..100) < losses).collect();
    let is_lost = |number: u64| lost.get(number as usize).copied().unwrap_or_default();
    let begin = Instant::now();
    let loaded = trial::load(&compiled, &object, cores, losses > 0);
    took[1] = begin.elapsed();
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(LoadError::NoRights(why)) => {
            return Found::Skipped(format!("no rights to load BPF programs: {why}"));
        }
        Err(error) if error.is_too_large() => return Found::Refused("the verifier gives up".to_owned()),
        Err(error) => return Found::Defect(error.to_string()),
    };
    let course = Course { is_lost: &is_lost, ..Course::new(cores, &random.packets) };
    let begin = Instant::now();
    let found = trial::difference(&program, &compiled, &loaded, &course).expect("the maps");
    took[2] = begin.elapsed();
    match found {
        None => Found::Equal,
        Some(differs) => Found::Defect(format!("{cores} cores, {losses}% lost: {differs}")),
    }
}

fn becomes_full(program: &Program, packets: &[Packet]) -> bool {
    let mut machine = Machine::new(program.clone());
    for packet in packets {
        machine.packet(packet.port, &packet.bytes, packet.time_ns);
    }
    machine.state().dump(program).mu_tables.iter().any(|table| table.refused_writes > 0)
}

const ALL: [Strategy; 3] = [Strategy::Sharded, Strategy::Shared, Strategy::Scr];

/// One strategy for each program, by turns.
fn by_turns(seed: u64) -> &'static [Strategy] {
    &ALL[(seed % 3) as usize..][..1]
}

/// All programs of these seeds are equal, and most of them are compiled.
fn all_are_equal(folder: &str, seeds: std::ops::Range<u64>, strategies: &Strategies) {
    let tried: u64 = seeds.clone().map(|seed| strategies(seed).len() as u64).sum();
    let tally = run(folder, seeds, strategies, NOTHING);
    if let Some(why) = &tally.skipped {
        eprintln!("skipped: {why}");
        return;
    }
    println!("{}", tally.report());
    assert!(tally.defects.is_empty(), "{} defects: {:#?}", tally.defects.len(), tally.defects);
    assert!(tally.equal() * 10 >= tried * 6, "of {tried}:\n{}", tally.report());
}

#[test]
fn some_programs_equal_the_interpreter() {
    all_are_equal("random", 1..5, &|_| &ALL);
}

/// The verifier once walked each number of logs that lack an item: with ten replicas and more it gave up on these.
#[test]
fn many_replicas_that_recover_are_not_too_much_for_the_verifier() {
    for seed in [3001, 3011] {
        let tally = run("random-recover", seed..seed + 1, &|_| &ALL[2..], NOTHING);
        if let Some(why) = &tally.skipped {
            return eprintln!("skipped: {why}");
        }
        assert_eq!(tally.equal(), 1, "seed {seed}: {} {:?}", tally.report(), tally.defects);
    }
}

/// Each program under one strategy, so that it takes a minute or two. `PACELINE_PROGRAMS` says how many programs go through all
/// strategies instead, `PACELINE_SEED` which is the first.
#[test]
fn three_hundred_programs_equal_the_interpreter() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("PACELINE_SEED").unwrap_or(1000);
    match number("PACELINE_PROGRAMS") {
        Some(many) => all_are_equal("random-many", first..first + many, &|_| &ALL),
        None => all_are_equal("random-300", first..first + 300, &by_turns),
    }
}

/// Whether some programs show a planted bug under one of all strategies.
fn finds(folder: &str, strategy: usize, plant: &Plant) -> bool {
    let tally = run(folder, 1..6, &move |_| &ALL[strategy..][..1], plant);
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
    let plant = |compiled: &mut Compiled| {
        let widths = [1, 3, 5, 7, 9, 11, 13, 17, 31, 33, 47].map(|bits: u32| (1_u64 << bits) - 1);
        // As many ones, and one more.
        let wider =
            widths.map(|mask| (format!(" & {}ull)", hex(mask)), format!(" & {}ull)", hex(2 * mask + 1))));
        wider.iter().fold(false, |has, (from, to)| replace(compiled, from, to) || has)
    };
    assert!(finds("random-width", 1, &plant));
}

/// A number as it stands in the C.
fn hex(value: u64) -> String {
    if value < 10 { value.to_string() } else { format!("{value:#x}") }
}

#[test]
fn a_replica_without_replay_is_found() {
    let plant = |compiled: &mut Compiled| replace(compiled, "replay_ingress(&p, s);", "");
    assert!(finds("random-replay", 2, &plant));
}

#[test]
fn a_dispatch_by_something_else_is_found() {
    let plant = |compiled: &mut Compiled| {
        replace(compiled, "return (spread(", "return (spread(p->standard_packet_length, 0) ^ spread(")
    };
    assert!(finds("random-dispatch", 0, &plant));
}
