//! Pipelines that share a ring (RAPID §8): each gives what its own reference gives, whatever the others send round the ring.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::support::{Case, Seen, case, difference, every_cycle, run, updates};
use crate::port::Arrival;
use crate::program::Program;
use crate::programs::{Synthetic, SyntheticPhv};
use crate::{EmulateError, Model, Options, Outcome, RapidOptions, SetupError};

const PIPELINES: usize = 2;

fn shared(model: Model) -> Model {
    let Model::Rapid(rapid) = model else { panic!("not RAPID") };
    Model::Rapid(RapidOptions { pipelines: PIPELINES, ..rapid })
}

/// A case on two pipelines, with stages as long as the ring of both needs, and each packet by a port that is drawn.
fn on_two(case: Case, seed: u64) -> Case {
    let Case { program, model, options, mut packets } = case;
    for (number, packet) in (0_u64..).zip(&mut packets) {
        packet.port = (nf::hash_bytes(&number.to_le_bytes(), seed) % 5) as u16;
    }
    let span = program.tables()[0].span();
    let least = (PIPELINES * program.stages() - span + 4).div_ceil(span);
    Case {
        options: Options { stage_cycles: options.stage_cycles.max(Some(least)), ..options },
        model: shared(model),
        program,
        packets,
    }
}

/// What differs from the references, one for each pipeline, of which each has the packets that `pipeline_of` gives it.
fn differs(
    program: &Synthetic,
    packets: &[Arrival<SyntheticPhv>],
    outcome: &Outcome<u64>,
    seen: &Seen,
    pipeline_of: impl Fn(&Arrival<SyntheticPhv>) -> usize,
) -> Option<String> {
    (0..PIPELINES).find_map(|pipeline| {
        let own: Vec<u64> = (0..)
            .zip(packets)
            .filter(|(_, packet)| pipeline_of(packet) == pipeline)
            .map(|(at, _)| at)
            .collect();
        let place: BTreeMap<u64, u64> = own.iter().copied().zip(0..).collect();
        let departures = seen
            .departures
            .iter()
            .filter_map(|&(number, output, cycle)| Some((*place.get(&number)?, output, cycle)));
        let lost = seen.lost.iter().filter_map(|(number, cause)| Some((*place.get(number)?, *cause)));
        let own_seen = Seen { departures: departures.collect(), lost: lost.collect() };
        let own: Vec<_> = own.iter().map(|at| packets[*at as usize]).collect();
        let tables = outcome.tables.len() / PIPELINES;
        let tables = outcome.tables[pipeline * tables..][..tables].to_vec();
        let outcome = Outcome { tables, ..outcome.clone() };
        difference(program, &own, &outcome, &own_seen).map(|what| format!("pipeline {pipeline}: {what}"))
    })
}

fn pipeline_of(packet: &Arrival<SyntheticPhv>) -> usize {
    usize::from(packet.port) % PIPELINES
}

proptest! {
    #[test]
    fn each_pipeline_is_its_own_reference(case in case(), seed in any::<u64>()) {
        let Case { program, model, options, packets } = on_two(case, seed);
        let (outcome, seen) = run(&program, &model, &options, &packets).expect("a run");
        prop_assert_eq!(differs(&program, &packets, &outcome, &seen, pipeline_of), None);
    }
}

/// The comparison above finds packets that went through the other pipeline.
#[test]
fn packets_of_the_other_pipeline_are_noticed() {
    let mut runner = TestRunner::deterministic();
    let noticed = (0..64_u64).filter(|seed| {
        let case = on_two(case().new_tree(&mut runner).expect("a case").current(), *seed);
        let (outcome, seen) = run(&case.program, &case.model, &case.options, &case.packets).expect("a run");
        differs(&case.program, &case.packets, &outcome, &seen, |packet| 1 - pipeline_of(packet)).is_some()
    });
    assert!(noticed.count() > 32);
}

/// Two pipelines take a packet each in a cycle, and the ring has the nodes of both.
#[test]
fn pipelines_do_not_wait_for_each_other() {
    let program = Synthetic::new(2);
    let mut packets = updates(&[1, 1, 2, 2, 3, 3, 4, 4]);
    (0_u16..).zip(&mut packets).for_each(|(port, packet)| packet.port = port % 2);
    let (outcome, seen) =
        run(&program, &shared(Model::Rapid(RapidOptions::default())), &every_cycle(), &packets)
            .expect("a run");
    assert_eq!(differs(&program, &packets, &outcome, &seen, pipeline_of), None);
    let cycles: Vec<_> = seen.departures.iter().map(|(.., cycle)| *cycle).collect();
    assert_eq!(cycles, [36, 36, 37, 37, 38, 38, 39, 39]);
    assert_eq!(outcome.tables.len(), 2);
    assert!(outcome.report.occupancy_max.contains_key("ring.3.from_ring"));
    assert!(outcome.report.occupancy_max.contains_key("flows[1].rb"), "{:?}", outcome.report.occupancy_max);
}

#[test]
fn what_does_not_fit_on_a_ring_is_refused_by_name() {
    let refused = |pipelines, stages, stage_cycles| {
        let model = Model::Rapid(RapidOptions { pipelines, ..RapidOptions::default() });
        let options =
            Options { stages: Some(stages), stage_cycles: Some(stage_cycles), ..Options::default() };
        match run(&Synthetic::new(2), &model, &options, &[]) {
            Err(EmulateError::Setup(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(refused(0, 2, 18), SetupError::Size { what: "the number of pipelines", .. }));
    assert!(matches!(refused(3, 16, 18), SetupError::Size { value: 48, most: 32, .. }));
    // Alone the pipeline has stages that are long enough.
    assert!(matches!(refused(2, 8, 8), SetupError::SignalTooSlow { signal_cycles: 18, .. }));
}
