//! RAPID against the reference, with adversarial arrivals and every size down to 1.

use proptest::prelude::*;
use traffic::Share;

use super::support::{Case, case, difference, every_cycle, flow_of, run, updates, with_buffers_of};
use crate::port::{Line, Pacing};
use crate::programs::Synthetic;
use crate::{Consistency, Model, Options, RapidOptions, WhenFull};

fn rapid() -> Model {
    Model::Rapid(RapidOptions::default())
}

/// The worst for speculation: every packet is of one flow and updates it.
#[test]
fn one_flow_back_to_back_all_updating() {
    let program = Synthetic::new(2);
    let packets = updates(&[1; 40]);
    let (outcome, seen) = run(&program, &rapid(), &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    assert!(outcome.report.resubmissions > 40, "{:?}", outcome.report);
    assert_eq!(outcome.report.packets_out + outcome.report.lost(), 40);
}

/// §4.4, by the cycle: an update of a flow with one packet behind it, which has read the old state.
#[test]
fn a_speculation_that_fails_takes_a_turnaround() {
    let program = Synthetic::new(2);
    let packets = updates(&[1, 1]);
    let (outcome, seen) = run(&program, &rapid(), &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    // c(m) = 36, m + 2 = 4. The new state is back in cycle 36 + 4, the stale packet in 1 + 36 + 4. Forty
    // heartbeats from cycle 40 on, that one's included, are through in cycle 79; then the packet goes.
    let departures: Vec<_> = seen.departures.iter().map(|(number, _, cycle)| (*number, *cycle)).collect();
    assert_eq!(departures, [(0, 36), (1, 79 + 36)]);
    assert_eq!((outcome.report.resubmissions, outcome.report.writebacks), (1, 2));
}

/// A packet that arrives while its flow is dirty waits, and others pass it.
#[test]
fn others_pass_a_dirty_flow() {
    let program = Synthetic::new(2);
    let mut keys = vec![1];
    keys.extend([2; 45]);
    keys.push(1);
    keys.extend([3; 3]);
    let packets: Vec<_> =
        keys.iter().enumerate().map(|(tag, &key)| flow_of(key, key == 1, tag as u64 + 1)).collect();
    let (outcome, seen) = run(&program, &rapid(), &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    let order: Vec<_> = seen.departures.iter().map(|(number, ..)| *number).collect();
    assert_eq!(order.last(), Some(&46));
    assert_eq!(outcome.report.resubmissions, 0);
    assert_eq!(outcome.report.occupancy_max["flows.pb"], 1);
}

/// Fig. 9: a flow whose every packet updates it is blocked after a while, and its packets go by turnarounds.
#[test]
fn a_flow_that_updates_all_the_time_is_blocked() {
    let program = Synthetic::new(2);
    // More than come in within a turnaround: else the backlog is empty before the next update is back.
    let packets = updates(&[1; 150]);
    let blocking =
        |threshold| Model::Rapid(RapidOptions { blocking_threshold: threshold, ..RapidOptions::unbounded() });
    let (speculative, _) = run(&program, &blocking(None), &every_cycle(), &packets).unwrap();
    assert_eq!(speculative.report.occupancy_max["flows.blocked_flows"], 0);
    let (outcome, seen) = run(&program, &blocking(Some(2)), &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    assert_eq!(outcome.report.occupancy_max["flows.blocked_flows"], 1);
    assert!(outcome.report.resubmissions < speculative.report.resubmissions);
    // One after the other, by T = 40.
    let cycles: Vec<_> = seen.departures.iter().map(|(.., cycle)| *cycle).collect();
    assert!(cycles.windows(2).rev().take(10).all(|pair| pair[1] - pair[0] == 40), "{cycles:?}");
}

/// Whatever is too small loses packets, says which buffer it was, and stays right.
#[test]
fn drops_name_what_was_full() {
    let program = Synthetic::new(2);
    let small = |change: fn(&mut RapidOptions)| {
        let mut options = RapidOptions::default();
        change(&mut options);
        Model::Rapid(options)
    };
    let cases = [
        ("resubmitted_buffer_full", small(|options| options.resubmitted_buffer = 1), vec![1; 60]),
        ("phv_buffer_full", small(|options| options.phv_buffer = 1), vec![1; 60]),
        ("dirty_table_full", small(|options| options.dirty_table = 1), vec![1, 2, 3]),
        ("dirty_table_full", small(|options| options.suspend_queue = 1), vec![1, 2, 3]),
    ];
    for (cause, model, keys) in cases {
        let packets = updates(&keys);
        let (outcome, seen) = run(&program, &model, &every_cycle(), &packets).unwrap();
        assert!(outcome.report.drops.contains_key(cause), "{cause}: {:?}", outcome.report.drops);
        assert_eq!(difference(&program, &packets, &outcome, &seen), None, "{cause}");
    }
}

/// Packets of two functions on one ring: `cancel_dirty` of one delays packets of the other, whose heartbeats
/// are withheld.
#[test]
fn a_ring_node_that_is_full_drops() {
    let options = RapidOptions { ring_from_pipeline: 1, ..RapidOptions::default() };
    let program = super::support::TwoTables;
    let mut packets = Vec::new();
    for tag in 0..400_u64 {
        packets.push(super::support::two(tag % 3, tag / 40 % 2, true, tag + 1));
    }
    let (outcome, _) = run(&program, &Model::Rapid(options), &every_cycle(), &packets).unwrap();
    assert!(outcome.report.drops.contains_key("ring_buffer_full"), "{:?}", outcome.report.drops);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn strict_rapid_agrees_with_the_reference(case in case()) {
        let Case { program, model, options, packets } = case;
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        prop_assert!(options.when_full == WhenFull::Drop || seen.lost.is_empty());
        prop_assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    }
}

/// A million cycles with back-pressure and the smallest buffers: nothing stops, nothing is lost.
#[test]
#[ignore = "takes half a minute"]
fn a_million_cycles_with_back_pressure() {
    back_pressure(1_000_000);
}

#[test]
fn cycles_with_back_pressure() {
    back_pressure(30_000);
}

fn back_pressure(cycles: u64) {
    let sizes = [1, 2, 16];
    for (turn, size) in sizes.into_iter().enumerate() {
        let model = Model::Rapid(with_buffers_of(size));
        let options = Options {
            when_full: WhenFull::Stall,
            egress_busy: Share::from_millionths(300_000).unwrap(),
            line: Line { pacing: Pacing::EveryCycle, ..Line::default() },
            stage_cycles: Some(5),
            seed: turn as u64,
            patience_cycles: 10_000,
            ..Options::default()
        };
        let program = super::support::TwoTables;
        let share = cycles / sizes.len() as u64;
        let mut packets = Vec::new();
        let mut random = turn as u64;
        // Some cycles a packet: the smallest tables let one flow in at a time.
        for tag in 0..share / if size == 1 { 20 } else { 4 } {
            random = nf::hash_bytes(&tag.to_le_bytes(), random);
            packets.push(super::support::two(random % 3, random >> 8 & 3, random >> 16 & 3 == 0, tag + 1));
        }
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        assert!(outcome.report.cycles > share, "{} cycles", outcome.report.cycles);
        assert_eq!(seen.lost.len(), 0);
        assert_eq!(seen.departures.len(), packets.len());
    }
}

/// §4.5: with bounded staleness no more than K packets of a flow pass one behind the other without having seen
/// the update before them.
pub fn most_stale(packets: &[crate::Arrival<[u64; 5]>], departures: &[(u64, u64, u64)]) -> u32 {
    let mut flows = std::collections::BTreeMap::new();
    let mut most = 0;
    for &(number, seen, _) in departures {
        let [key, updates, tag, ..] = packets[number as usize].phv;
        let (last_writer, stale) = flows.entry(key).or_insert((0, 0));
        *stale = if seen == *last_writer { 0 } else { *stale + 1 };
        most = most.max(*stale);
        if updates == 1 {
            *last_writer = tag;
        }
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bounded_staleness_keeps_its_bound(case in case(), stale in 0_u32..5) {
        let Case { program, model, options, packets } = case;
        let program = program
            .consistency(Consistency::BoundedStaleness(stale))
            .recording(crate::programs::Recorded::LastWriter);
        let (_, seen) = run(&program, &model, &options, &packets).unwrap();
        prop_assert!(most_stale(&packets, &seen.departures) <= stale);
        if stale == 0 {
            let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
            prop_assert_eq!(difference(&program, &packets, &outcome, &seen), None);
        }
    }

    /// At the end every state is what the flow's last update wrote, and nothing was ever sent back.
    #[test]
    fn weak_consistency_converges(case in case()) {
        let Case { program, model, options, packets } = case;
        let program =
            program.consistency(Consistency::Weak).recording(crate::programs::Recorded::LastWriter);
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        prop_assert_eq!(outcome.report.resubmissions, 0);
        prop_assert!(seen.lost.is_empty());
        let mut last = std::collections::BTreeMap::new();
        for packet in &packets {
            let [key, updates, tag, ..] = packet.phv;
            if updates == 1 {
                last.insert(key, tag);
            }
        }
        prop_assert_eq!(&outcome.tables[0], &last);
    }
}

/// The bound is reached: otherwise the test above would hold for strict consistency as well.
#[test]
fn staleness_is_used() {
    for stale in [1, 3] {
        let program = Synthetic::new(2)
            .consistency(Consistency::BoundedStaleness(stale))
            .recording(crate::programs::Recorded::LastWriter);
        let packets = updates(&[1; 30]);
        let (outcome, seen) = run(&program, &rapid(), &every_cycle(), &packets).unwrap();
        assert_eq!(most_stale(&packets, &seen.departures), stale, "{:?}", outcome.report);
    }
}
