//! Tests of what cores publish, and when.

use io::{Port, Queue};

use super::*;
use crate::Registry;
use crate::path::batch::Batch;
use crate::path::moves::OwnCounters;
use crate::path::receive::{Intake, IntakeCounters};
use crate::strategies::{ALL, DYSSECT, RSS, SINGLE};

const CHAIN: &str = "[[function]]\nuse = \"policer\"\nrate_bytes_per_s = 1000\nflows = 100\n";

fn chain() -> (Chain, Plan) {
    let chain = Chain::parse("test", CHAIN, &Registry::of_tests()).expect("valid");
    let plan = Plan::new(&chain, SINGLE, 1).expect("runs");
    (chain, plan)
}

/// All different.
fn counters() -> CoreCounters {
    CoreCounters {
        from_outside: 0,
        packets: 1,
        bytes: 2,
        batches: 3,
        forward: 4,
        transmit_back: 5,
        host: 6,
        dropped_by_function: 7,
        dropped_malformed: 8,
        dropped_no_room: 9,
        malformed: std::array::from_fn(|reason| 100 + reason as u64),
        unverifiable: 11,
        busy_ns: 10,
    }
}

/// Counts these moves.
struct Moved(Moves);

impl Intake for Moved {
    fn receive(&mut self, _: &mut dyn Port, _: &mut ChainCore, _: &mut Batch) -> Received {
        Received::End
    }

    fn counters(&self) -> IntakeCounters {
        IntakeCounters { moves: self.0, ..IntakeCounters::default() }
    }
}

/// What a strategy declares is laid out under its name, and goes on where another phase counted before.
#[test]
fn what_a_strategy_counts_of_its_own_is_told_by_name() {
    let (chain, _) = chain();
    let plan = Plan::new(&chain, DYSSECT, 2).expect("runs");
    let telemetry = plan.telemetry(&chain);
    let mut publisher = Publisher::new(&telemetry, 1).expect("a core");
    let counters = DYSSECT.info().counters;
    let moves = |each: u64| {
        let own = OwnCounters::new(counters.iter().copied().zip(each..));
        Moves { own, ..Moves::default() }
    };
    publisher.goes_on_from(moves(100));
    let core = chain.core().expect("memory");
    let (idle, moved) = (CoreCounters::default(), Moved(moves(1)));
    let turn =
        |received| Turn { received, counters: &idle, chain: &core, queue: Queue::default(), intake: &moved };
    publisher.turned(&turn(Received::Frames));
    publisher.turned(&turn(Received::End));
    let snapshot = telemetry.snapshot();
    let names: Vec<&str> = counters.iter().map(|counter| counter.name).collect();
    assert_eq!(snapshot.layout.strategy_events, names);
    assert_eq!(snapshot.cores[1].strategy_events, [101, 103, 105, 107, 109]);
}

#[test]
fn everything_that_is_known_after_a_turn_is_told() {
    let (chain, plan) = chain();
    let telemetry = plan.telemetry(&chain);
    let mut publisher = Publisher::new(&telemetry, 0);
    let counters = counters();
    let mut turn = Turn {
        received: Received::Frames,
        counters: &counters,
        chain: &chain.core().expect("memory"),
        queue: Queue { depth: Some(11), lost: 12 },
        intake: &Moved(Moves {
            entries_in: 3,
            entries_out: 13,
            held_packets: 15,
            waited_packets: 16,
            own: OwnCounters::default(),
        }),
    };
    // What it counted under the strategy before.
    let before = Moves { entries_in: 10, entries_out: 1, ..Moves::default() };
    publisher.iter_mut().for_each(|publisher| publisher.goes_on_from(before));
    let expected = CoreCounts {
        packets: 1,
        bytes: 2,
        batches: 3,
        busy_ns: 10,
        forward: 4,
        transmit_back: 5,
        host: 6,
        dropped_by_function: 7,
        dropped_malformed: 8,
        dropped_no_room: 9,
        lost_queue_full: 12,
        moved_in: 13,
        moved_out: 14,
        held: 15,
        queue_depth: 11,
    };
    publisher.turned(&turn);
    assert_eq!(telemetry.snapshot().cores[0].counts, expected);
    turn.queue.depth = None;
    publisher.turned(&turn);
    assert_eq!(telemetry.snapshot().cores[0].counts.queue_depth, UNKNOWN);
}

#[test]
fn functions_are_told_every_few_batches_and_before_a_rest() {
    let (chain, plan) = chain();
    let core = chain.core().expect("memory");
    let counters = counters();
    let turn =
        |received| Turn { received, counters: &counters, chain: &core, queue: Queue::default(), intake: &() };
    let is_told = |telemetry: &Telemetry| {
        let core = telemetry.snapshot().cores.remove(0);
        assert_eq!(core.functions[0].counts.capacity > 0, core.malformed[0] == 100);
        core.malformed[0] == 100
    };
    for (received, frames) in
        [(Received::Frames, BATCHES_PER_FUNCTIONS - 1), (Received::Idle, 1), (Received::End, 1)]
    {
        let telemetry = plan.telemetry(&chain);
        let mut publisher = Publisher::new(&telemetry, 0);
        for _ in 0..frames {
            publisher.turned(&turn(Received::Frames));
            assert!(!is_told(&telemetry));
        }
        publisher.turned(&turn(received));
        assert!(is_told(&telemetry), "{received:?}");
    }
}

/// How long updates take is told where entries of the indirection table move. Elsewhere it would be 0 for ever.
#[test]
fn updates_are_told_where_entries_move() {
    let (chain, _) = chain();
    let tells = |plan: &Plan| plan.telemetry(&chain).snapshot().strategy.updates.is_some();
    for strategy in ALL {
        let plan = Plan::new(&chain, strategy, 2.min(strategy.info().max_cores)).expect("runs");
        assert_eq!(tells(&plan), strategy.name() == "rsspp", "{strategy:?}");
    }
    let parks = Plan::new(&chain, RSS, 2).expect("runs").with_cores_to_park(&chain);
    assert!(tells(&parks.expect("a core to park")));
}
