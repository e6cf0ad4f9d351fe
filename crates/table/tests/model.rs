//! The table against a plain model, step by step, driven as the engine drives it.

use nf::{FiveTuple, SrcAddr, hash_bytes};
use paceline_table::WhenFull::{self, EvictOldest, Reject};
use proptest::prelude::*;

mod driver;

use driver::{Act, Answer, Departure, Driver, Fault, Numbered, Packet};

/// Numbers that look random: the same in each run.
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn new(seed: u64) -> Random {
        Random { seed, drawn: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        hash_bytes(&self.drawn.to_le_bytes(), self.seed) % bound
    }
}

/// Traffic: how many flows, for how long they live, and how often one ends by a step.
#[derive(Clone, Copy)]
struct Traffic {
    flows: u32,
    /// States live for at most this long; some for much less.
    idle_timeout_ns: u64,
    /// One packet in so many ends its flow in all functions.
    packets_per_end: u64,
}

impl Traffic {
    /// The next packet; 1 ns passes on average.
    fn packet(&self, random: &mut Random, now_ns: &mut u64) -> Packet {
        *now_ns += random.below(3);
        let ends = random.below(self.packets_per_end) == 0;
        let acts = std::array::from_fn(|_| match random.below(20) {
            _ if ends => Act::End,
            0 => Act::End,
            1 | 2 => Act::Ignore,
            3 => Act::Set { salt: random.below(u64::MAX), idle_timeout_ns: random.below(50) },
            _ => {
                let half = self.idle_timeout_ns / 2;
                Act::Set { salt: random.below(u64::MAX), idle_timeout_ns: half + random.below(half) }
            }
        });
        Packet { number: random.below(self.flows.into()) as u32, time_ns: *now_ns, acts }
    }
}

/// Packets of a run under Miri, which takes a thousand times as long: for one maintenance.
const MIRI_PACKETS: usize = 300;

/// Whether a table is one of the few small ones that Miri sees.
fn is_quick(capacity: usize) -> bool {
    !cfg!(miri) || [3, 7, 20, 40].contains(&capacity)
}

/// Runs so many packets in batches of all sizes; the mean load in percent, and the driver.
fn run<K: Numbered>(
    capacity: usize,
    when_full: WhenFull,
    traffic: Traffic,
    packets: usize,
    fault: Option<Fault>,
) -> (usize, Driver<K>) {
    let packets = if cfg!(miri) { MIRI_PACKETS } else { packets };
    let mut driver = Driver::<K>::new(capacity, when_full, capacity as u64, fault);
    let mut random = Random::new(capacity as u64 + 1);
    let (mut now_ns, mut done, mut batches, mut loads) = (0, 0, 0, 0);
    while done < packets {
        let size = 1 + random.below(64) as usize;
        let batch: Vec<_> = (0..size).map(|_| traffic.packet(&mut random, &mut now_ns)).collect();
        driver.batch(&batch);
        driver.departures.clear();
        (done, batches) = (done + size, batches + 1);
        loads += driver.load_percent();
        // About a hundred times in a run.
        if random.below((packets as u64 / 3_200).max(8)) == 0 {
            driver.check(now_ns);
        }
    }
    driver.settle(now_ns);
    driver.check(now_ns);
    (loads / batches, driver)
}

/// Flows for a load of so many percent that seldom end by themselves.
fn lasting(flows: usize) -> Traffic {
    Traffic { flows: flows as u32, idle_timeout_ns: 40 * flows as u64, packets_per_end: 200 }
}

/// Under capacity the table is a map whose entries die at their deadline: at loads from half to nearly
/// all, buckets as full as they get (9 of 12) and half as full.
fn is_a_map_at_all_loads<K: Numbered>() {
    let n = 9 << 7;
    let loads = [(n, 50), (n, 80), (n, 99), (n + 1, 99), (9 << 3, 95), (36, 90), (20, 75)];
    for (capacity, load_percent) in loads.into_iter().filter(|(capacity, _)| is_quick(*capacity)) {
        let traffic = lasting(capacity * load_percent / 100);
        let (load, driver) = run::<K>(capacity, Reject, traffic, 250_000, None);
        assert_eq!((driver.rejected, driver.evicted), (0, 0));
        assert!(cfg!(miri) || load + 5 > load_percent, "{load} % of {capacity}, not {load_percent} %");
    }
}

#[test]
fn short_keys_are_a_map_at_all_loads() {
    is_a_map_at_all_loads::<SrcAddr>();
}

#[test]
fn long_keys_are_a_map_at_all_loads() {
    is_a_map_at_all_loads::<FiveTuple>();
}

/// Over capacity no key finds another's flow, every flow that is told to leave leaves, and no block is lost.
fn loses_nothing_when_full<K: Numbered>(when_full: WhenFull) {
    let sizes = [(9 << 6, 9 << 7), (300, 310), (40, 45), (16, 40), (3, 8), (1, 2)];
    for (capacity, flows) in sizes.into_iter().filter(|(capacity, _)| is_quick(*capacity)) {
        let (load, driver) = run::<K>(capacity, when_full, lasting(flows), 100_000, None);
        assert!(cfg!(miri) || load >= 90, "{load} % of {capacity}");
        let (expected, other) = match when_full {
            Reject => (driver.rejected, driver.evicted),
            EvictOldest => (driver.evicted, driver.rejected),
        };
        assert!(cfg!(miri) || expected > 1_000, "{expected} of {flows} flows in {capacity} blocks");
        assert_eq!(other, 0);
    }
}

#[test]
fn a_full_table_that_rejects_loses_nothing() {
    loses_nothing_when_full::<SrcAddr>(Reject);
    loses_nothing_when_full::<FiveTuple>(Reject);
}

#[test]
fn a_full_table_that_evicts_loses_nothing() {
    loses_nothing_when_full::<SrcAddr>(EvictOldest);
    loses_nothing_when_full::<FiveTuple>(EvictOldest);
}

/// Flows that come and go: most blocks go to another flow by expiry, in each of the three ways.
#[test]
fn short_lives_are_followed() {
    let tables = [(9 << 6, Reject), (9 << 6, EvictOldest), (40, Reject), (7, EvictOldest)];
    for (capacity, when_full) in tables.into_iter().filter(|(capacity, _)| is_quick(*capacity)) {
        for timeouts in [1, 4] {
            let idle_timeout_ns = timeouts * capacity as u64;
            let traffic = Traffic { flows: 1 << 20, idle_timeout_ns, packets_per_end: 20 };
            run::<FiveTuple>(capacity, when_full, traffic, 100_000, None);
        }
    }
}

#[test]
#[should_panic(expected = "free blocks")]
fn a_lost_state_that_nobody_hears_of_is_noticed() {
    let traffic = Traffic { packets_per_end: 10, ..lasting(80) };
    run::<SrcAddr>(100, Reject, traffic, 10_000, Some(Fault::ForgetsLostStates));
}

/// At 9 of 12 entries some flows live in their other bucket, and some behind one with the same tag.
#[test]
#[should_panic(expected = "the block of flow")]
#[cfg_attr(miri, ignore = "takes a large table")]
fn a_look_up_that_goes_no_further_is_noticed() {
    run::<FiveTuple>(9 << 7, Reject, lasting(9 << 7), 100_000, Some(Fault::LooksNoFurther));
}

#[test]
#[should_panic(expected = "the block of flow")]
#[cfg_attr(miri, ignore = "takes a large table")]
fn a_candidate_taken_for_the_flow_is_noticed() {
    run::<SrcAddr>(9 << 7, Reject, lasting(9 << 7), 100_000, Some(Fault::TrustsCandidates));
}

#[test]
#[should_panic]
fn a_state_left_behind_is_noticed() {
    run::<SrcAddr>(40, EvictOldest, lasting(80), 10_000, Some(Fault::LeavesAStateBehind));
}

/// What must be the same wherever batches were cut.
#[derive(Debug, PartialEq)]
struct Trace {
    answers: Vec<Answer>,
    departures: Vec<Departure>,
}

/// The packets in batches of these sizes, over and over.
fn trace<K: Numbered>(
    capacity: usize,
    when_full: WhenFull,
    packets: &[Packet],
    sizes: &[usize],
    fault: Option<Fault>,
) -> Trace {
    let mut driver = Driver::<K>::new(capacity, when_full, 5, fault);
    let (mut answers, mut rest) = (Vec::new(), packets);
    for size in sizes.iter().cycle() {
        let (batch, after) = rest.split_at((*size).min(rest.len()));
        answers.extend(driver.batch(batch));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let now_ns = packets.last().map_or(0, |packet| packet.time_ns);
    driver.check(now_ns);
    driver.settle(now_ns);
    driver.check(now_ns);
    Trace { answers, departures: driver.departures }
}

/// Packets of a traffic that fills a table of `capacity` more or less.
fn packets(capacity: usize, load_percent: usize, lives: u64, seed: u64, count: usize) -> Vec<Packet> {
    let flows = (capacity * load_percent).div_ceil(100) as u32;
    let idle_timeout_ns = 2 + lives * capacity as u64;
    let traffic = Traffic { flows, idle_timeout_ns, packets_per_end: 20 };
    let (mut random, mut now_ns) = (Random::new(seed), 0);
    (0..count).map(|_| traffic.packet(&mut random, &mut now_ns)).collect()
}

fn when_full() -> impl Strategy<Value = WhenFull> {
    prop_oneof![Just(Reject), Just(EvictOldest)]
}

const fn cases(cases: u32) -> u32 {
    if cfg!(miri) { 1 } else { cases }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, // Miri has no files.
        ..ProptestConfig::with_cases(cases(100))
    })]

    /// Answers, blocks, and who left in which order do not depend on where batches were cut.
    #[test]
    fn batch_borders_leave_no_trace(
        capacity in prop_oneof![1..20usize, 20..150usize],
        when_full in when_full(),
        load_percent in 40..250usize,
        lives in 1..30u64,
        seed in any::<u64>(),
        sizes in prop::collection::vec(1..=64usize, 1..6),
    ) {
        let packets = packets(capacity, load_percent, lives, seed, if cfg!(miri) { MIRI_PACKETS } else { 3_000 });
        let run = |sizes: &[usize]| trace::<FiveTuple>(capacity, when_full, &packets, sizes, None);
        let one_by_one = run(&[1]);
        prop_assert_eq!(&one_by_one, &run(&[64]));
        prop_assert_eq!(&one_by_one, &run(&sizes));
    }
}

/// Packets up to `at` in one table, which another becomes that has seen other packets; the rest in both.
fn copied(
    capacity: usize,
    when_full: WhenFull,
    packets: &[Packet],
    at: usize,
    fault: Option<Fault>,
) -> [Trace; 2] {
    let new = |fault| Driver::<FiveTuple>::new(capacity, when_full, 5, fault);
    let (mut original, mut copy) = (new(None), new(fault));
    let (before, after) = packets.split_at(at);
    before.chunks(64).for_each(|batch| _ = original.batch(batch));
    after.chunks(64).for_each(|batch| _ = copy.batch(batch));
    copy.copy_from(&original);
    [original, copy].map(|mut driver| {
        let answers = after.chunks(64).flat_map(|batch| driver.batch(batch)).collect();
        driver.settle(packets[packets.len() - 1].time_ns);
        Trace { answers, departures: driver.departures }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases(100))
    })]

    /// A copy goes on as its original does, whatever was in it before.
    #[test]
    fn a_copy_goes_on_as_its_original(
        capacity in prop_oneof![1..20usize, 20..150usize],
        when_full in when_full(),
        load_percent in 40..250usize,
        lives in 1..30u64,
        seed in any::<u64>(),
        at_percent in 0..100usize,
    ) {
        let count = if cfg!(miri) { MIRI_PACKETS } else { 3_000 };
        let packets = packets(capacity, load_percent, lives, seed, count);
        let [original, copy] = copied(capacity, when_full, &packets, count * at_percent / 100, None);
        prop_assert_eq!(original, copy);
    }
}

/// A copy that is a step off is found where it matters which block is whose.
#[test]
#[cfg_attr(miri, ignore = "too few packets for it to matter")]
fn a_copy_that_is_a_step_off_is_found() {
    for when_full in [Reject, EvictOldest] {
        let packets = packets(40, 120, 20, 3, 20_000);
        let [original, copy] = copied(40, when_full, &packets, 1_000, Some(Fault::CopiesLate));
        assert!(original != copy, "{when_full:?}");
    }
}

/// An engine that gives blocks back where a batch ends is right each time, and differs.
#[test]
fn blocks_given_back_where_batches_end_would_leave_a_trace() {
    for fault in [Fault::GivesBackPerBatch, Fault::MaintainsPerBatch] {
        for when_full in [Reject, EvictOldest] {
            let packets = packets(40, 120, 20, 3, if cfg!(miri) { MIRI_PACKETS } else { 1_000 });
            let run = |size, fault| trace::<SrcAddr>(40, when_full, &packets, &[size], fault);
            assert!(run(1, None) == run(64, None));
            assert!(run(1, Some(fault)) != run(64, Some(fault)), "{fault:?}, {when_full:?}");
        }
    }
}
