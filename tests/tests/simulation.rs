//! Cores that are simulated: a seed draws the same turns each time, and another seed others.

use std::convert::Infallible;

use engine::strategies::{ALL, RSSPP, SCR_TURNS, Strategy};
use engine::{Chain, Egress, Plan, Progress, Seen, replay_capture};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{alone, generated, small};
use strategy::{Every, Rebalancing};

fn statistics() -> Chain {
    small(alone("flow-statistics", "idle_ms = 500"))
}

fn capture() -> Pcap {
    generated("zipf:flows=300,a=1.1,packets=4000,gap-ns=1000000,seed=2", 4_000)
}

/// Numbers of packets in the order in which they left, and how many each core had.
fn left(strategy: &'static dyn Strategy, capture: &Pcap, simulation: Option<u64>) -> (Vec<u64>, Vec<u64>) {
    let chain = Chain { table_seed: 1, ..statistics() };
    let plan = Plan::new(&chain, strategy, 4).expect("a plan");
    let often = Rebalancing { every: Every::Packets(97), update_latency_ns: 0 };
    let rebalancing = plan.rebalancing.map(|_| often);
    let plan = Plan { rebalancing, simulation, egress: Egress::AsReady, ..plan };
    let mut order = Vec::new();
    let mut see = |seen: &Seen<'_>| {
        order.push(seen.stamp.seq);
        Ok::<(), Infallible>(())
    };
    let outcome = replay_capture(&chain, &plan, capture.open(), &Progress::default(), &mut see);
    let cores = outcome.expect("runs").cores.iter().map(|(counters, _)| counters.packets).collect();
    (order, cores)
}

#[test]
fn a_seed_draws_the_same_order_under_every_strategy() {
    let capture = capture();
    for strategy in ALL.into_iter().filter(|strategy| strategy.info().max_cores >= 4) {
        let first = left(strategy, &capture, Some(7));
        assert_eq!(first.0.len(), 4_000, "{}", strategy.name());
        assert_eq!(left(strategy, &capture, Some(7)), first, "{}", strategy.name());
    }
}

#[test]
fn other_seeds_draw_other_orders() {
    let capture = capture();
    for strategy in [RSSPP, SCR_TURNS] {
        let orders: Vec<_> = (0..4).map(|seed| left(strategy, &capture, Some(seed)).0).collect();
        for (seed, order) in orders.iter().enumerate() {
            assert!(!orders[..seed].contains(order), "{} with seed {seed}", strategy.name());
            assert!(!order.is_sorted(), "{}: no packet leaves ahead of an earlier one", strategy.name());
        }
    }
}

/// What each core gets under `rsspp` does not depend on turns, and neither does it on threads.
#[test]
fn threads_and_simulated_cores_have_the_same_packets() {
    let capture = capture();
    assert_eq!(left(RSSPP, &capture, None).1, left(RSSPP, &capture, Some(1)).1);
}
