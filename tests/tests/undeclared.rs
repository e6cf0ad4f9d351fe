//! A function that uses a number for which it declares no name: the run ends in an error that names both, under each
//! strategy, and no core panics.

use std::convert::Infallible;

use engine::strategies::{ALL, RSS, SINGLE};
use engine::{Chain, Plan, Progress, RunError, Undeclared, UndeclaredError, replay_capture, verify};
use nf::{About, Cx, FlowKey, NetworkFunction, OptionError, Rig, SrcAddr, Verdict};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{chain, tcp};
use wire::{Fields, Headers};

/// Counts packets of a source: drops the tenth of each for `reason`, and counts `event` at the fifth.
struct Careless {
    reason: u8,
    event: usize,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    reason: u8,
    event: usize,
}

impl NetworkFunction for Careless {
    const ABOUT: About =
        About { name: "careless", drop_reasons: &["tenth", "other"], events: &["fifth"], ..About::NONE };
    const READS: Fields = Fields::SRC_ADDR.union(Fields::MARKS);

    type Key = SrcAddr;
    type Meta = SrcAddr;
    type State = u64;
    type Pool = ();
    type Options = Options;

    fn new(Options { reason, event }: Options) -> Result<Self, OptionError> {
        Ok(Careless { reason, event })
    }

    fn project(headers: &Headers) -> Option<SrcAddr> {
        headers.is_ip().then(|| SrcAddr::of(headers))
    }

    fn key(meta: &SrcAddr) -> SrcAddr {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, _: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
        let seen = flow.get_or_insert(0);
        *seen += 1;
        match *seen {
            5 => cx.count(self.event),
            10 => return Verdict::Drop(self.reason),
            _ => {}
        }
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

#[test]
fn what_is_read_is_what_is_declared() {
    paceline_conformance::check_reads::<Careless>();
}

fn careless(reason: u8, event: usize) -> Chain {
    let mut registry = stock::registry();
    registry.add::<Careless>();
    chain(&format!("[[function]]\nuse = \"careless\"\nreason = {reason}\nevent = {event}\n"), &registry)
}

fn capture() -> Pcap {
    let packet = |number: u64| tcp(number, (number % 6) as u8 + 1, 9, (1_000, 80), 0x10, 1, 10);
    pcap::of(&(0..120).map(packet).collect::<Vec<_>>())
}

fn run(chain: &Chain, plan: &Plan) -> Result<(), UndeclaredError> {
    let mut see = |_: &engine::Seen<'_>| Ok::<(), Infallible>(());
    match replay_capture(chain, plan, capture().open(), &Progress::default(), &mut see) {
        Ok(_) => Ok(()),
        Err(RunError::Undeclared(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_run_names_the_function_and_the_number() {
    for strategy in ALL {
        let cores = if strategy == SINGLE { 1 } else { 2 };
        let run = |reason, event| {
            let chain = careless(reason, event);
            run(&chain, &Plan::new(&chain, strategy, cores).expect("runs"))
        };
        assert_eq!(run(1, 0), Ok(()));
        for (used, result) in [
            (Undeclared::Drop(7), run(7, 0)),
            (Undeclared::Drop(2), run(2, 0)),
            (Undeclared::Event(9), run(0, 9)),
            (Undeclared::Event(1), run(0, 1)),
        ] {
            let error = result.expect_err("not declared");
            assert_eq!((error.function.as_str(), error.used), ("careless", used), "{strategy:?}");
        }
    }
}

#[test]
fn the_error_says_what_there_is_and_what_to_do() {
    let message = |reason, event| {
        let chain = careless(reason, event);
        run(&chain, &Plan::new(&chain, SINGLE, 1).expect("runs")).expect_err("not declared").to_string()
    };
    assert_eq!(
        message(7, 0),
        "function `careless` drops for reason number 7, which it does not declare: its `drop_reasons` have numbers 0 \
         to 1: tenth, other\nAdd a name to `drop_reasons` in the function's ABOUT, or use another number."
    );
    assert_eq!(
        message(0, 9),
        "function `careless` counts event number 9, which it does not declare: its `events` have numbers 0 to 0: fifth\n\
         Add a name to `events` in the function's ABOUT, or use another number."
    );
}

#[test]
fn verify_ends_in_the_same_error() {
    let chain = careless(7, 0);
    let plan = Plan::new(&chain, RSS, 2).expect("runs");
    let error =
        verify(&chain, &plan, &|| Ok(capture().open()), &Progress::default()).expect_err("not declared");
    assert!(error.to_string().contains("`careless` drops for reason number 7"), "{error}");
}

#[test]
#[should_panic(expected = "`careless` counts event 9")]
fn a_rig_finds_it_in_the_functions_own_tests() {
    let mut rig = Rig::new(Careless { reason: 0, event: 9 });
    (0..5).for_each(|time_ns| {
        let _ = rig.packet(time_ns, &Headers { marks: wire::Marks::IPV4, ..Headers::default() });
    });
}

#[test]
#[should_panic(expected = "`careless` drops for reason 7")]
fn a_rig_finds_drops_too() {
    let mut rig = Rig::new(Careless { reason: 7, event: 0 });
    (0..10).for_each(|time_ns| {
        let _ = rig.packet(time_ns, &Headers { marks: wire::Marks::IPV4, ..Headers::default() });
    });
}
