//! Defects that the other tests must notice: each is planted, and what the tests compare has to differ.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::support::{Case, case, difference, every_cycle, flow_of, run, run_with, two, updates};
use crate::port::Arrival;
use crate::program::{Program, TableSpec};
use crate::programs::Recorded;
use crate::rapid::{Faults, Sound};
use crate::{Consistency, EmulateError, Model, Options, RapidOptions, WhenFull};

/// In how many of `cases` random pipelines what comes out is wrong, or nothing does.
fn noticed<F: Faults>(cases: u32) -> u32 {
    let mut runner = TestRunner::deterministic();
    let cases = (0..cases).map(|_| case().new_tree(&mut runner).expect("a case").current());
    cases.map(|case| u32::from(is_wrong::<F>(&case))).sum()
}

fn is_wrong<F: Faults>(case: &Case) -> bool {
    let Case { program, model, options, packets } = case;
    // A wrong model may also run against an assertion.
    let run = || run_with::<_, F>(program, model, options, packets);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok((outcome, seen))) => difference(program, packets, &outcome, &seen).is_some(),
        Ok(Err(error)) => matches!(error, EmulateError::Stuck(_)),
        Err(_) => true,
    }
}

macro_rules! fault {
    ($name:ident, $constant:ident) => {
        struct $name;
        impl Faults for $name {
            const $constant: bool = true;
        }
    };
}

fault!(NoCancel, NO_CANCEL);
fault!(ShortTimer, SHORT_TIMER);
fault!(HeedlessHeartbeat, HEEDLESS_HEARTBEAT);
fault!(NoResubmission, NO_RESUBMISSION);
fault!(Appended, APPENDED);
fault!(OneMore, ONE_MORE);
fault!(HastyBlocking, HASTY_BLOCKING);

#[test]
fn random_pipelines_find_what_is_wrong() {
    assert_eq!(noticed::<Sound>(100), 0);
    let found = [
        ("no cancel_dirty", noticed::<NoCancel>(100)),
        ("short timer", noticed::<ShortTimer>(400)),
        ("no resubmission", noticed::<NoResubmission>(100)),
        ("appended", noticed::<Appended>(100)),
    ];
    assert!(found.iter().all(|(_, cases)| *cases > 0), "{found:?}");
}

/// By hand: the last stale packet entered one cycle before the new state was back.
#[test]
fn a_timer_one_cycle_short_lets_a_packet_pass_another() {
    let program = crate::programs::Synthetic::new(2);
    // The update is back in cycle 40. Packet 1 enters in cycle 39, packet 2 in cycle 40 has to wait.
    let mut packets = vec![flow_of(1, true, 1)];
    packets.extend((0..38).map(|other| flow_of(100 + other, false, 50 + other)));
    packets.extend([flow_of(1, true, 2), flow_of(1, true, 3)]);
    let options = every_cycle();
    let model = Model::Rapid(RapidOptions::default());
    let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    let (outcome, seen) = run_with::<_, ShortTimer>(&program, &model, &options, &packets).unwrap();
    assert!(difference(&program, &packets, &outcome, &seen).is_some());
}

#[test]
fn without_cancel_dirty_packets_go_round_for_ever() {
    let program = crate::programs::Synthetic::new(2);
    let packets = updates(&[1, 1]);
    let model = Model::Rapid(RapidOptions::default());
    let result = run_with::<_, NoCancel>(&program, &model, &every_cycle(), &packets);
    assert!(matches!(result, Err(EmulateError::Stuck(_))));
}

/// Two functions: signals of one delay packets of the other, and their heartbeats must be late as well.
#[test]
fn heartbeats_that_pass_packets_are_noticed() {
    let program = super::support::TwoTables;
    let model = Model::Rapid(RapidOptions::unbounded());
    let options = Options { stage_cycles: Some(4), ..every_cycle() };
    let mut wrong = 0;
    for seed in 0..40_u64 {
        let draw = |tag: u64| nf::hash_bytes(&tag.to_le_bytes(), seed);
        let packets: Vec<_> = (0..200)
            .map(|tag| two(draw(tag) % 3, draw(tag) >> 8 & 3, draw(tag) >> 16 & 1 == 0, tag + 1))
            .collect();
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        assert!(seen.lost.is_empty());
        assert_eq!(tables_of_first(&program, &packets), outcome.tables[0]);
        let fault = || run_with::<_, HeedlessHeartbeat>(&program, &model, &options, &packets);
        wrong += match std::panic::catch_unwind(std::panic::AssertUnwindSafe(fault)) {
            Ok(Ok((outcome, _))) => u32::from(tables_of_first(&program, &packets) != outcome.tables[0]),
            _ => 1,
        };
    }
    assert!(wrong > 0);
}

/// What the first of two functions leaves behind, in order of arrival. (Flows of the second are other flows: that
/// they see packets in order of arrival is not promised.)
fn tables_of_first<P: Program>(
    program: &P,
    packets: &[Arrival<P::Phv>],
) -> std::collections::BTreeMap<u64, P::State> {
    let mut reference = crate::Reference::new(program);
    packets.iter().for_each(|packet| {
        reference.output(packet.phv);
    });
    reference.tables()[0].clone()
}

/// A blocked flow must not read before its last state is written.
#[test]
fn blocking_one_cycle_too_short_is_noticed() {
    let program = crate::programs::Synthetic::new(2);
    let model = Model::Rapid(RapidOptions { blocking_threshold: Some(0), ..RapidOptions::unbounded() });
    let packets = updates(&[1; 120]);
    let (outcome, seen) = run(&program, &model, &every_cycle(), &packets).unwrap();
    assert_eq!(difference(&program, &packets, &outcome, &seen), None);
    let (outcome, seen) = run_with::<_, HastyBlocking>(&program, &model, &every_cycle(), &packets).unwrap();
    assert!(difference(&program, &packets, &outcome, &seen).is_some());
}

#[test]
fn one_stale_packet_too_many_is_noticed() {
    let program = crate::programs::Synthetic::new(2)
        .consistency(Consistency::BoundedStaleness(2))
        .recording(Recorded::LastWriter);
    let packets = updates(&[1; 30]);
    let model = Model::Rapid(RapidOptions::default());
    let (_, seen) = run_with::<_, OneMore>(&program, &model, &every_cycle(), &packets).unwrap();
    assert_eq!(super::rapid::most_stale(&packets, &seen.departures), 3);
}

/// RAPID §5.2, Fig. 11: D is read, then decremented. With renaming the new value goes to a container of its own.
#[derive(Clone, Debug)]
struct Decrements {
    tables: [TableSpec; 1],
    is_renamed: bool,
}

impl Decrements {
    fn new(is_renamed: bool) -> Decrements {
        Decrements { tables: [TableSpec::new("sums", 0, 1)], is_renamed }
    }
}

/// Key, D, the state read, A = the state and D, D renamed.
type DecrementsPhv = [u64; 5];

impl Program for Decrements {
    type Phv = DecrementsPhv;
    type State = u64;

    fn name(&self) -> &str {
        "decrements"
    }

    fn stages(&self) -> usize {
        2
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &DecrementsPhv) -> Option<u64> {
        Some(phv[0])
    }

    fn read(&self, _: usize, state: &u64, phv: &mut DecrementsPhv) {
        phv[2] = *state;
    }

    fn step(&self, stage: usize, phv: &mut DecrementsPhv) {
        match stage {
            0 => phv[3] = phv[2] + phv[1],
            _ if self.is_renamed => phv[4] = phv[1] - 1,
            _ => {
                phv[1] -= 1;
                phv[4] = phv[1];
            }
        }
    }

    fn write(&self, _: usize, phv: &DecrementsPhv) -> Option<u64> {
        Some(phv[3])
    }

    fn output(&self, phv: &DecrementsPhv) -> u64 {
        phv[3] << 8 | phv[4]
    }
}

#[test]
fn without_renaming_a_packet_sees_its_own_edits() {
    let packets: Vec<_> =
        (0..10).map(|_| Arrival { phv: [1, 64, 0, 0, 0], bytes: 64, time_ns: 0, port: 0 }).collect();
    let options = Options { when_full: WhenFull::Stall, ..every_cycle() };
    for is_renamed in [true, false] {
        let program = Decrements::new(is_renamed);
        let model = Model::Rapid(RapidOptions::default());
        let (outcome, seen) = run(&program, &model, &options, &packets).unwrap();
        let is_right = difference(&program, &packets, &outcome, &seen).is_none();
        assert_eq!(is_right, is_renamed);
        assert!(outcome.report.resubmissions > 0);
    }
}
