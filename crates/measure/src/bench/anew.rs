//! Trials of cores that hand packets on, which begin without flows.

use engine::strategies::DYSSECT;
use strategy::Rebalancing;

use super::sequenced::{VIRTUAL, bench_of};
use super::tests::{NEVER, chain, trace};
use super::*;
use crate::search::{Limits, search};

/// Shards move, and are where they were first at the beginning of the next trial: each packet is received or dropped, whatever the trial
/// before left behind.
#[test]
fn each_packet_is_received_or_dropped() {
    let (chain, trace) = (chain("conntrack"), trace("zipf:packets=3000,flows=400,a=1.2"));
    for cores in [2, 4, 7] {
        let mut bench = bench_of(DYSSECT, &chain, cores, &trace, VIRTUAL);
        let all = bench.warm_up(&NEVER).expect("a trial");
        assert_eq!((all.received(), all.dropped(), all.cores.len()), (3_000, 0, cores));
        for every in [Every::Period(100_000), Every::Packets(2_000)] {
            bench.plan.rebalancing = Some(Rebalancing { every, ..Rebalancing::default() });
            let mut moves = 0;
            for pps in [1e6, 1e9, 1e5] {
                // Room for all of them, but where there are too many.
                bench.settings.descriptors = if pps == 1e9 { 64 } else { 32_768 };
                let trial = bench.trial(pps, 20_000, false, &NEVER).expect("a trial");
                assert_eq!((trial.offered, trial.received() + trial.dropped()), (20_000, 20_000));
                assert_eq!(trial.dropped() > 0, pps == 1e9, "{pps}: {:?}", trial.cores);
                assert!(trial.elapsed_ns() > 0, "{:?}", trial.cores);
                moves += trial.moves;
            }
            assert!(moves > 0, "{cores} cores, {every:?}");
        }
    }
}

/// The rate of two cores is found, from a closed loop on.
#[test]
fn a_rate_is_found() {
    let (chain, trace) = (chain("conntrack"), trace("uniform:packets=2000,flows=100"));
    let mut bench = bench_of(DYSSECT, &chain, 2, &trace, Settings { descriptors: 256, ..VIRTUAL });
    let every = Every::Period(100_000);
    bench.plan.rebalancing = Some(Rebalancing { every, ..Rebalancing::default() });
    let upper_pps = bench.closed_loop(20_000, &NEVER).expect("a trial").received_pps();
    let limits = Limits { width_share: 0.1, ..Limits::default() };
    let found = search(upper_pps, limits, |pps| {
        let trial = bench.trial(pps, 20_000, false, &NEVER)?;
        Ok::<_, TrialError>((trial.loss(), trial))
    });
    let found = found.expect("no defect").expect("a rate");
    assert!(found.pps > 0.1 * upper_pps && found.trial.loss() <= 0.04, "{found:?}");
}

/// Latency is that of packets behind the warm-up, whichever core they were handed to.
#[test]
fn latency_is_of_packets_that_count() {
    let (chain, trace) = (chain("conntrack"), trace("zipf:packets=3000,flows=400,a=1.2"));
    let mut bench = bench_of(DYSSECT, &chain, 2, &trace, Settings { descriptors: 32_768, ..VIRTUAL });
    bench.plan.rebalancing = Some(Rebalancing { every: Every::Packets(2_000), ..Rebalancing::default() });
    let trial = bench.trial(1e5, 20_000, true, &NEVER).expect("a trial");
    let latency = trial.latency.as_ref().expect("it was asked for");
    // The last batch of a core is sent, and nothing received behind it.
    assert!(latency.len() <= 20_000 && latency.len() > 19_000, "{}", latency.len());
    assert!(bench.trial(1e5, 20_000, false, &NEVER).expect("a trial").latency.is_none());
}
