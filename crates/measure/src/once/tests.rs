//! Tests of single trials, where each packet takes a fixed time.

use engine::strategies::{DYSSECT, RSS, RSSPP, Strategy};
use strategy::{Every, Rebalancing};

use super::*;
use crate::bench::tests::{Fixed, NEVER, trace};
use crate::offered::packets;

/// What each packet takes, ns.
const PACKET_NS: u64 = 100;

const DESCRIPTORS: usize = 256;

fn chain() -> Chain {
    let toml = "[[function]]\nuse = \"conntrack\"\nflows = 4096\n";
    Chain::parse("test.toml", toml, &stock::registry()).expect("a chain")
}

fn plan_of(strategy: &'static dyn Strategy, cores: usize, every: Every) -> Plan {
    let plan = Plan::new(&chain(), strategy, cores).expect("a plan");
    let rebalancing = plan.rebalancing.map(|rebalancing| Rebalancing { every, ..rebalancing });
    Plan { rebalancing, ..plan }
}

/// Each packet takes [`PACKET_NS`].
fn by_hand(plan: &Plan, model: &str, load: Load, card: Card) -> Result<Once, OnceError> {
    let offered = packets(&chain(), plan, &trace(model)).expect("packets");
    let mut meters: Vec<Fixed> = (0..=plan.cores).map(|_| Fixed(PACKET_NS)).collect();
    metered(&chain(), plan, offered, load, (DESCRIPTORS, card), (&mut meters, &NEVER))
}

fn at(pps: f64, count: u32) -> Load {
    Load { pps: Some(pps), count, warm_up: 0 }
}

const SKEWED: &str = "zipf:packets=3000,flows=400,a=1.2";

/// Shards, ratios and offloaders change all the time: each packet is taken through the chain once.
#[test]
fn all_packets_are_done_whatever_is_handed_on() {
    for (cores, every) in [(1, 100), (2, 37), (4, 1_000)] {
        let plan = plan_of(DYSSECT, cores, Every::Packets(every));
        let offered = packets(&chain(), &plan, &trace(SKEWED)).expect("packets");
        let load = Load { pps: None, count: 20_000, warm_up: 0 };
        let once = once(&chain(), &plan, offered, load, DESCRIPTORS, &NEVER).expect("a trial");
        assert_eq!((once.offered, once.dropped(), once.received), (20_000, 0, 20_000));
        assert!(once.elapsed_ns > 0 && once.cores.len() == cores, "{once:?}");
        assert!(once.cores.iter().all(|core| core.busy_ns > 0), "{once:?}");
    }
}

/// At a rate that cores can do nothing is dropped.
#[test]
fn nothing_is_dropped_that_cores_can_do() {
    for (strategy, cores, every) in
        [(DYSSECT, 2, 2_000), (DYSSECT, 4, 500), (DYSSECT, 8, 2_000), (RSSPP, 4, 500)]
    {
        let plan = plan_of(strategy, cores, Every::Packets(every));
        let load = at(1e6, 30_000);
        let once = by_hand(&plan, SKEWED, load, with_queues).expect("a trial");
        assert_eq!((once.dropped(), once.received), (0, 30_000), "{once:?}");
        assert!(once.check(load.count).is_ok() && once.moves > 0, "{once:?}");
    }
}

/// Real times: what is too much is dropped and counted, under each strategy.
#[test]
fn too_high_a_rate_is_lost() {
    for (strategy, cores) in [(RSS, 2), (RSSPP, 3), (DYSSECT, 2), (DYSSECT, 4)] {
        let plan = Plan::new(&chain(), strategy, cores).expect("a plan");
        let offered = packets(&chain(), &plan, &trace(SKEWED)).expect("packets");
        let once = once(&chain(), &plan, offered, at(1e9, 30_000), DESCRIPTORS, &NEVER).expect("a trial");
        assert!(once.dropped() > 0 && once.dropped() + once.received == 30_000, "{once:?}");
        assert!(once.loss() > 0.0 && once.loss() < 1.0, "{once:?}");
    }
}

/// Nine packets in ten are of one flow, and come to a core that can do ten million a second: twelve are offered.
const ELEPHANT: &str = "elephant:packets=20000,flows=300,share=0.9";
const ELEPHANT_LOAD: Load = Load { pps: Some(12e6), count: 120_000, warm_up: 0 };

/// What is wrong with a trial in which one core alone has too much, which drops what is beyond its rate and its queue: the others lose
/// nothing.
fn fault(once: &Once, arrivals: &[u64]) -> Option<String> {
    let busiest = (0..arrivals.len()).max_by_key(|core| arrivals[*core])?;
    for (core, (part, arrived)) in once.cores.iter().zip(arrivals).enumerate() {
        if part.taken + part.dropped != *arrived {
            return Some(format!("core {core} has {} of {arrived} packets", part.taken + part.dropped));
        }
        let expected = match core == busiest {
            // It works until the last packet comes, and then on what waits.
            true => arrived - (once.offered * 1_000 / 12) / PACKET_NS - DESCRIPTORS as u64,
            false => 0,
        };
        if part.dropped.abs_diff(expected) > 128 {
            return Some(format!("core {core} lost {} packets, not {expected}", part.dropped));
        }
    }
    None
}

/// How many packets come to each core, by the dispatcher's own table: nothing moves.
fn arrivals(plan: &Plan, model: &str, count: usize) -> Vec<u64> {
    let offered = packets(&chain(), plan, &trace(model)).expect("packets");
    let (mut assign, mut arrivals) = (plan.assign(&chain()), vec![0; plan.cores]);
    let (packets, len) = (offered.packets(), offered.packets().len());
    (0..count).for_each(|number| arrivals[assign.core(packets.entry(number % len))] += 1);
    arrivals
}

#[test]
fn an_elephant_fills_the_queue_of_its_core_alone() {
    for (strategy, cores) in [(RSS, 2), (RSS, 4), (DYSSECT, 2), (DYSSECT, 4), (DYSSECT, 8)] {
        let plan = plan_of(strategy, cores, Every::Never);
        let arrivals = arrivals(&plan, ELEPHANT, 120_000);
        let once = by_hand(&plan, ELEPHANT, ELEPHANT_LOAD, with_queues).expect("a trial");
        assert!(once.check(120_000).is_ok(), "{once:?}");
        assert_eq!(fault(&once, &arrivals), None, "{cores} cores: {once:?}");
        assert_eq!(once.dropped(), 120_000 - once.received);
    }
}

/// Planted: a card that a full queue stops, for all cores.
#[test]
fn a_full_queue_that_stops_the_others_is_found() {
    for cores in [2, 4, 8] {
        let plan = plan_of(DYSSECT, cores, Every::Never);
        let arrivals = arrivals(&plan, ELEPHANT, 120_000);
        let once = by_hand(&plan, ELEPHANT, ELEPHANT_LOAD, with_rings).expect("a trial");
        let fault = fault(&once, &arrivals).expect("others lose packets");
        assert!(fault.contains("packets"), "{fault}");
        let lost: u64 = once.cores.iter().zip(&arrivals).map(|(core, arrived)| arrived - core.taken).sum();
        let of_elephant = arrivals.iter().zip(&once.cores).map(|(arrived, core)| arrived - core.taken).max();
        assert!(of_elephant < Some(lost), "some of them are of other cores");
        // And what the card drops ahead of its dispatcher is of no core.
        assert!(matches!(once.check(120_000), Err(TrialError::LostSight { dropped: 0, .. })));
    }
}

/// The first half is not counted, neither what is lost nor the time.
#[test]
fn a_warm_up_counts_for_nothing() {
    let plan = plan_of(DYSSECT, 2, Every::Never);
    let whole = by_hand(&plan, ELEPHANT, ELEPHANT_LOAD, with_queues).expect("a trial");
    let half = Load { warm_up: 60_000, ..ELEPHANT_LOAD };
    let half = by_hand(&plan, ELEPHANT, half, with_queues).expect("a trial");
    assert_eq!((half.offered, half.dropped(), half.received), (60_000, whole.dropped(), whole.received));
    let late: u64 = half.cores.iter().map(|core| core.dropped_late).sum();
    // The queue fills in the first half.
    let expected = (whole.dropped() + DESCRIPTORS as u64) / 2;
    assert!(late.abs_diff(expected) <= 128, "{late} of {}", whole.dropped());
    for (half, whole) in half.cores.iter().zip(&whole.cores) {
        assert!(half.busy_ns.abs_diff(whole.busy_ns / 2) < whole.busy_ns / 20, "{half:?} of {whole:?}");
    }
}

/// A card decides at the packets' own time and waits for nobody, so it may have more to tell a core than the core has room for.
#[test]
fn decisions_that_cores_do_not_come_to_are_said() {
    let plan = plan_of(DYSSECT, 2, Every::Packets(37));
    let error = by_hand(&plan, SKEWED, at(1e9, 100_000), with_queues).expect_err("too many decisions");
    assert!(matches!(error, OnceError::Trial(TrialError::Untold)), "{error}");
}
