//! Cores in virtual time: losses one by one and in bursts, stalls, slow cores, queues that overflow, logs that are
//! too short, flushes that get lost as well. Everything is drawn from a seed. Run
//!
//! ```sh
//! cargo test -p paceline-recovery simulation
//! PACELINE_RUNS=100000 cargo test --release -p paceline-recovery simulation::agreement
//! PACELINE_SEED=17 cargo test -p paceline-recovery simulation::agreement -- --nocapture
//! ```
//!
//! The last runs one seed, such as one that failed, and tells what happens in it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::core_loop::{Core, cores, flush, got, packet};
use crate::sync::{Fault, plant};
use crate::{Advance, Counters};

/// Runs of a test that is given no other number.
const RUNS: u64 = 2_000;

/// A core that still waits after this many rounds waits for ever.
const ENDLESS: u64 = 100_000;

/// The round after which no core begins to stall, so that a run comes to its end.
const LAST_STALL: u64 = 10_000;

/// What happens in a run.
#[derive(Clone, Debug)]
struct Scenario {
    cores: usize,
    packets: u64,
    /// Items that a packet has besides its own.
    history: u64,
    log_records: usize,
    queue_packets: usize,
    /// Packets lost of a million, and how many are lost in a row.
    loss_ppm: u64,
    burst: u64,
    /// Rounds of the sequencer that lose everything, of a million, and how many there are in a row.
    outage_ppm: u64,
    outage: u64,
    /// By core: turns in a thousand rounds.
    speed: Vec<u64>,
    /// Rounds in which a core begins to stall, of a million, and for how long.
    stall_ppm: u64,
    stall: u64,
    /// Packets that overtake the one before them, or come twice, of a million.
    disorder_ppm: u64,
    /// Packets sequenced in a thousand rounds.
    rate: u64,
    /// Rounds from flush to flush. `None`: no flushes.
    flush_every: Option<u64>,
    max_steps: usize,
    has_two_calls: bool,
}

impl Scenario {
    fn draw(draw: &mut Draw) -> Scenario {
        let cores = 1 + draw.below(14) as usize;
        let slowest = draw.of(&[1000, 500, 100, 20]);
        Scenario {
            cores,
            packets: 1 + draw.below(300),
            history: cores as u64 - 1 + draw.of(&[0, 0, 0, 1, cores as u64, 20]),
            log_records: draw.of(&[1, 2, 4, 8, 16, 32, 64, 256, 1024]) as usize,
            queue_packets: draw.of(&[1, 4, 16, 1000]) as usize,
            loss_ppm: draw.of(&[0, 1_000, 10_000, 50_000, 100_000, 300_000]),
            burst: 1 + draw.of(&[0, 0, 0, 1, 5, 50]),
            outage_ppm: draw.of(&[0, 0, 1_000, 10_000]),
            outage: 1 + draw.below(100),
            speed: (0..cores).map(|_| slowest + draw.below(1001 - slowest)).collect(),
            stall_ppm: draw.of(&[0, 0, 1_000, 10_000]),
            stall: 1 + draw.of(&[5, 50, 500]),
            disorder_ppm: draw.of(&[0, 0, 0, 10_000, 200_000]),
            rate: draw.of(&[100, 500, 900, 1000]),
            flush_every: Some(1 + draw.of(&[3, 30, 300])),
            max_steps: draw.of(&[1, 3, 64, 1_000_000]) as usize,
            has_two_calls: draw.hits(1, 2),
        }
    }

    /// Runs to the end; what the cores counted, and how often their logs were full.
    fn run(&self, draw: &mut Draw, tells: bool) -> (Counters, u64) {
        let mut world = World::new(self);
        for round in 0..ENDLESS {
            world.sequence(round, draw);
            for core in 0..self.cores {
                world.turn(core, round, draw, tells);
            }
            if world.is_over() {
                return world.check();
            }
        }
        let next: Vec<_> = world.cores.iter().map(Core::next).collect();
        panic!("somebody waits for ever: of {} packets, cores are at {next:?}", self.packets);
    }
}

struct World<'a> {
    scenario: &'a Scenario,
    cores: Vec<Core>,
    stalled_until: Vec<u64>,
    /// The number of the next packet.
    seq: u64,
    /// How many packets are still to be lost in this burst.
    burst: u64,
    out_until: u64,
    /// What was put into any queue.
    delivered: Vec<Range<u64>>,
}

impl World<'_> {
    fn new(scenario: &Scenario) -> World<'_> {
        let mut cores = cores(scenario.cores, scenario.log_records, scenario.packets);
        cores.iter_mut().for_each(|core| core.has_two_calls = scenario.has_two_calls);
        World {
            scenario,
            cores,
            stalled_until: vec![0; scenario.cores],
            seq: 0,
            burst: 0,
            out_until: 0,
            delivered: Vec::new(),
        }
    }

    fn sequence(&mut self, round: u64, draw: &mut Draw) {
        let now = self.scenario;
        if round >= self.out_until && self.seq < now.packets && draw.hits(now.outage_ppm, 1_000_000) {
            self.out_until = round + now.outage;
        }
        if self.seq < now.packets && draw.hits(now.rate, 1000) {
            self.send(self.seq as usize % now.cores, packet(self.seq, now.history), round, draw);
            self.seq += 1;
        }
        if now.flush_every.is_some_and(|every| round % every == every - 1) {
            for core in 0..now.cores {
                self.send(core, flush(self.seq, now.history), round, draw);
            }
        }
    }

    /// Puts a packet into a core's queue, or loses it.
    fn send(&mut self, core: usize, range: Range<u64>, round: u64, draw: &mut Draw) {
        if self.burst == 0 && draw.hits(self.scenario.loss_ppm, 1_000_000) {
            self.burst = self.scenario.burst;
        }
        let queue = &mut self.cores[core].queue;
        let is_lost = self.burst > 0 || round < self.out_until || queue.len() == self.scenario.queue_packets;
        self.burst = self.burst.saturating_sub(1);
        if is_lost {
            return;
        }
        queue.push_back(range.clone());
        if draw.hits(self.scenario.disorder_ppm, 1_000_000) {
            match (queue.len(), draw.hits(1, 2)) {
                (2.., true) => queue.swap(queue.len() - 1, queue.len() - 2),
                _ => queue.push_back(range.clone()),
            }
        }
        self.delivered.push(range);
    }

    fn turn(&mut self, core: usize, round: u64, draw: &mut Draw, tells: bool) {
        let may_stall = round >= self.stalled_until[core] && round < LAST_STALL;
        if may_stall && draw.hits(self.scenario.stall_ppm, 1_000_000) {
            self.stalled_until[core] = round + self.scenario.stall;
        }
        if round < self.stalled_until[core] || !draw.hits(self.scenario.speed[core], 1000) {
            return;
        }
        let before = self.cores[core].next();
        let pick = |ahead: &[usize]| ahead[draw.below(ahead.len() as u64) as usize];
        let advance = self.cores[core].turn(self.scenario.max_steps, pick);
        if tells && (self.cores[core].next() > before || advance != Advance::CaughtUp) {
            println!("round {round}, core {core}: from {before} to {}, {advance:?}", self.cores[core].next());
        }
    }

    fn is_over(&self) -> bool {
        self.seq == self.scenario.packets && self.cores.iter().all(|core| core.is_over)
    }

    /// All have stepped what any got; where packets came late, that is what any core still had a use for.
    fn check(self) -> (Counters, u64) {
        let mut got = got(&self.delivered);
        if self.scenario.disorder_ppm > 0 {
            let stepped = &self.cores[0].stepped;
            assert!(stepped.iter().all(|seq| got.binary_search(seq).is_ok()), "not all of it came");
            got.clone_from(stepped);
        }
        let mut total = Counters::default();
        let mut full = 0;
        for (number, core) in self.cores.iter().enumerate() {
            assert!(core.stepped == got, "core {number} stepped {:?}, and {got:?} came", core.stepped);
            let of = core.counters();
            assert_eq!(of.stepped + of.lost_to_all + of.skipped, self.scenario.packets, "{of:?}");
            total.recovered += of.recovered;
            total.lost_to_all += of.lost_to_all;
            total.rebuilt += of.rebuilt;
            full += core.full;
        }
        (total, full)
    }
}

/// Draws from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn of(&mut self, values: &[u64]) -> u64 {
        values[self.below(values.len() as u64) as usize]
    }

    fn hits(&mut self, many: u64, of: u64) -> bool {
        self.below(of) < many
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

fn runs() -> u64 {
    number("PACELINE_RUNS").unwrap_or(RUNS)
}

/// Runs a seed; says how to run it again if it fails.
fn run(seed: u64, change: impl Fn(&mut Scenario), tells: bool) -> (Counters, u64) {
    let mut draw = Draw(seed);
    let mut scenario = Scenario::draw(&mut draw);
    change(&mut scenario);
    if tells {
        println!("{scenario:?}");
    }
    catch_unwind(AssertUnwindSafe(|| scenario.run(&mut draw, tells))).unwrap_or_else(|failure| {
        println!("seed {seed} fails: {scenario:?}");
        println!(
            "again: PACELINE_SEED={seed} cargo test -p paceline-recovery simulation::agreement -- --nocapture"
        );
        resume_unwind(failure)
    })
}

/// Every core steps what any core got, in order, once, and comes to the end. All that is there for bad days is
/// used in these runs.
#[test]
fn agreement() {
    if let Some(seed) = number("PACELINE_SEED") {
        println!("{:?}", run(seed, |_| (), true));
        return;
    }
    let (mut total, mut full) = (Counters::default(), 0);
    let runs = runs();
    for seed in 0..runs {
        let (counters, times) = run(seed, |_| (), false);
        total.recovered += counters.recovered;
        total.lost_to_all += counters.lost_to_all;
        total.rebuilt += counters.rebuilt;
        full += times;
    }
    println!("{runs} runs: {total:?}, full {full}");
    assert!(
        total.recovered > 0 && total.lost_to_all > 0 && total.rebuilt > 0 && full > 0,
        "{total:?} {full}"
    );
}

/// Without loss nothing is recovered, however short the logs are.
#[test]
fn without_loss_nothing_is_recovered() {
    for seed in 0..runs() / 4 {
        let (counters, _) = run(
            seed,
            |scenario| {
                (scenario.loss_ppm, scenario.outage_ppm, scenario.disorder_ppm) = (0, 0, 0);
                scenario.queue_packets = 100_000;
            },
            false,
        );
        assert_eq!(counters, Counters::default(), "seed {seed}");
    }
}

/// Runs seeds with a fault until one fails.
fn planted(fault: Fault) {
    let _planted = plant(fault);
    for seed in 0..runs() {
        run(seed, |_| (), false);
    }
}

#[test]
#[should_panic(expected = "waits for ever")]
fn planted_no_flush_is_found() {
    for seed in 0..runs() {
        run(seed, |scenario| scenario.flush_every = None, false);
    }
}

#[test]
#[should_panic(expected = "not the item of")]
fn planted_numbers_not_looked_at_are_found() {
    planted(Fault::NoNumber);
}

#[test]
#[should_panic(expected = "not ahead")]
fn planted_a_log_that_runs_ahead_of_its_steps_is_found() {
    planted(Fault::NoRoomNeeded);
}

#[test]
#[should_panic(expected = "came")]
fn planted_an_early_loss_is_found() {
    planted(Fault::LostEarly);
}

#[test]
#[should_panic(expected = "came")]
fn planted_not_yet_taken_for_lost_is_found() {
    planted(Fault::NotYetIsLost);
}

#[test]
#[should_panic(expected = "came")]
fn planted_overwritten_taken_for_lost_is_found() {
    planted(Fault::OverwrittenIsLost);
}

#[test]
#[should_panic(expected = "stepped twice")]
fn planted_a_number_looked_up_before_the_state_is_found() {
    planted(Fault::NumberTooEarly);
}

#[test]
#[should_panic(expected = "came")]
fn planted_a_state_copied_before_its_steps_is_found() {
    planted(Fault::StateTooEarly);
}

#[test]
#[should_panic(expected = "waits for ever")]
fn planted_a_core_that_leaves_while_others_may_ask_is_found() {
    planted(Fault::LeavesEarly);
}
