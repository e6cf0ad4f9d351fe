//! PISA, Banzai, Blocking, FlowBlaze.

use proptest::prelude::*;
use traffic::Share;

use super::support::{arrivals, difference, every_cycle, flow_of, run};
use crate::options::BlockingOptions;
use crate::port::{Arrival, Line, Pacing};
use crate::programs::{FlowCounter, Synthetic};
use crate::{DropCause, Model, Options, WhenFull};

#[test]
fn a_stateless_pipeline_takes_a_packet_each_cycle() {
    let program = Synthetic::new(4);
    let packets: Vec<_> = (0..100).map(|tag| (Synthetic::packet(1, true, tag + 1), 64)).collect();
    let (outcome, seen) = run(&program, &Model::Pisa, &every_cycle(), &arrivals(&packets)).unwrap();
    let report = outcome.report;
    assert_eq!((report.cycles, report.packets_out, report.stalls), (64 + 100, 100, 0));
    assert_eq!((report.latency_cycles.p50, report.latency_cycles.max), (64, 64));
    // Nothing is written, so nothing is seen.
    assert!(outcome.tables[0].is_empty());
    assert!(seen.departures.iter().all(|(_, output, _)| *output == 0));
}

#[test]
fn an_atom_is_right_at_any_rate() {
    let program = FlowCounter::default();
    let phv = |flow: u64| {
        let mut fields = [0; 12];
        (fields[0], fields[5]) = (flow % 3, flow);
        fields
    };
    let packets: Vec<_> = (0..200).map(|number| (phv(number), 64)).collect();
    let packets = arrivals(&packets);
    let (outcome, seen) = run(&program, &Model::Banzai, &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    assert_eq!(outcome.report.throughput, 200.0 / 216.0);
}

#[test]
fn packets_of_one_queue_follow_each_other_by_the_latency() {
    let program = Synthetic::new(3);
    let packets: Vec<_> = (0..5).map(|tag| (Synthetic::packet(1, false, tag + 1), 64)).collect();
    let packets = arrivals(&packets);
    let model = Model::Blocking(BlockingOptions::BLOCKING);
    let (outcome, seen) = run(&program, &model, &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    let cycles: Vec<_> = seen.departures.iter().map(|(_, _, cycle)| *cycle).collect();
    assert_eq!(cycles, [54, 108, 162, 216, 270]);
    assert_eq!(outcome.report.occupancy_max["flows.flow_queue"], 4);
}

#[test]
fn a_full_queue_drops_or_stalls() {
    let program = Synthetic::new(2);
    let packets: Vec<_> = (0..50).map(|tag| (Synthetic::packet(1, true, tag + 1), 64)).collect();
    let packets = arrivals(&packets);
    let model = Model::Blocking(BlockingOptions { queues: 4, depth: 32 });
    let (outcome, seen) = run(&program, &model, &every_cycle(), &packets).unwrap();
    // One in the function and 32 waiting; one more after 36 cycles.
    assert_eq!(outcome.report.drops["queue_full"], 50 - 32 - 2);
    assert!(seen.lost.values().all(|cause| *cause == DropCause::QueueFull));
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    let stalling = Options { when_full: WhenFull::Stall, ..every_cycle() };
    let (outcome, seen) = run(&program, &model, &stalling, &packets).unwrap();
    assert_eq!((outcome.report.packets_out, outcome.report.lost()), (50, 0));
    assert!(outcome.report.stalls > 0);
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
}

#[test]
fn flowblaze_blocks_for_one_stage() {
    let program = FlowCounter::default();
    let packets = arrivals(&[([0; 12], 64), ([0; 12], 64), ([0; 12], 64)]);
    let model = Model::named("flowblaze").unwrap();
    let (outcome, seen) = run(&program, &model, &every_cycle(), &packets).unwrap();
    assert_eq!(seen.departures.iter().map(|(_, _, cycle)| *cycle).collect::<Vec<_>>(), [21, 42, 63]);
    assert_eq!(outcome.report.writebacks, 3);
}

proptest! {
    #[test]
    fn blocking_agrees_with_the_reference(
        stages in 2_usize..5,
        packets in prop::collection::vec((0_u64..6, any::<bool>(), 60_u32..600), 1..200),
        queues in 1_usize..5, depth in 1_usize..8, drops: bool, busy in 0_u32..500_000,
    ) {
        let program = Synthetic::new(stages);
        let packet = |(tag, &(key, updates, bytes)): (usize, &(u64, bool, u32))|
            (Synthetic::packet(key, updates, tag as u64 + 1), bytes);
        let packets = arrivals(&packets.iter().enumerate().map(packet).collect::<Vec<_>>());
        let when_full = if drops { WhenFull::Drop } else { WhenFull::Stall };
        let egress_busy = Share::from_millionths(busy).unwrap();
        let options = Options { when_full, egress_busy, ..Options::default() };
        let model = Model::Blocking(BlockingOptions { queues, depth });
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        prop_assert!(drops || seen.lost.is_empty());
        prop_assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    }
}

/// Cycles in which nothing is anywhere are not computed, and nobody can tell.
#[test]
fn an_empty_pipeline_waits_at_no_cost() {
    let program = Synthetic::new(2);
    // Pairs of updates of one flow 10 ns apart, a pair every 100 us.
    let packets: Vec<_> = (0..100_u64)
        .map(|number| Arrival {
            time_ns: number / 2 * 100_000 + number % 2 * 10,
            ..flow_of(1, true, number + 1)
        })
        .collect();
    let options = Options { line: Line { pacing: Pacing::Timed, ..Line::default() }, ..every_cycle() };
    let model = Model::named("rapid").unwrap();
    let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    assert!(outcome.report.cycles > 49 * 100_000);
    assert!(outcome.report.cycles_simulated < 100 * 200, "{}", outcome.report.cycles_simulated);
    // Each pair takes as long as the first: what a wait leaves out does not show.
    let cycles: Vec<_> =
        seen.departures.iter().map(|(number, _, cycle)| cycle - number / 2 * 100_000).collect();
    assert_eq!(cycles, [36, 79 + 36].repeat(50));
}
