//! The programs by hand on every model that has the hardware for them.

use traffic::{Kind, Model as TrafficModel, Options as TrafficOptions, Share};

use super::support::{Seen, difference, every_cycle, run, two, with_buffers_of};
use crate::program::Program;
use crate::programs::{FlowCounter, NatBalancer, PortKnocking, SynCookie, TokenBucket, field};
use crate::trace::{Parser, of_model, of_trace};
use crate::{Arrival, Consistency, Model, Options, Outcome, RapidOptions, Reference, WhenFull};

/// Bursts of few flows, so that packets of one follow each other closely.
fn bursts() -> TrafficModel {
    let options = TrafficOptions {
        packets: 3_000,
        flows: Some(100),
        burst: 6,
        ..TrafficOptions::of(Kind::Zipf { exponent: 1.1 })
    };
    TrafficModel::new(Kind::Zipf { exponent: 1.1 }, options).expect("a model")
}

/// A flood, with some connections that mean it.
fn flood() -> TrafficModel {
    let legit = Share::from_millionths(500_000).expect("a share");
    let kind = Kind::SynFlood { legit, sources: Some(40) };
    let options = TrafficOptions { packets: 3_000, flows: Some(20), ..TrafficOptions::of(kind) };
    TrafficModel::new(kind, options).expect("a model")
}

fn lossless() -> Options {
    Options { when_full: WhenFull::Stall, ..every_cycle() }
}

fn agrees<P: Program>(program: &P, model: &Model, packets: &[Arrival<P::Phv>]) -> Outcome<P::State> {
    let (outcome, seen): (_, Seen) = run(program, model, &lossless(), packets).expect("a run");
    assert_eq!(difference(program, packets, &outcome, &seen), None, "{} {}", program.name(), model.name());
    outcome
}

fn on_rapid_and_blocking<P: Parser>(program: &P, traffic: &TrafficModel) -> u64 {
    let packets = of_model(program, traffic);
    agrees(program, &Model::named("blocking").expect("a model"), &packets);
    let strict = RapidOptions { consistency: Some(Consistency::Strict), ..RapidOptions::default() };
    agrees(program, &Model::Rapid(strict), &packets).report.resubmissions
}

#[test]
fn programs_on_the_pipelines_are_the_programs_of_the_reference() {
    assert!(on_rapid_and_blocking(&PortKnocking::new(Consistency::Weak), &flood()) < 3_000);
    assert!(on_rapid_and_blocking(&TokenBucket::new(Consistency::Strict), &bursts()) > 100);
    assert!(on_rapid_and_blocking(&NatBalancer::new(Consistency::Strict), &bursts()) > 10);
    assert!(on_rapid_and_blocking(&SynCookie::new(Consistency::Strict, 24), &flood()) > 0);
    let counter = FlowCounter::default();
    let packets = of_model(&counter, &bursts());
    for model in ["banzai", "flowblaze", "rapid"] {
        agrees(&counter, &Model::named(model).expect("a model"), &packets);
    }
}

/// Knocks in order and out of order, of one pair, back to back: every one changes the state.
#[test]
fn knocks_back_to_back() {
    let ports = [7_000, 8_000, 9_000, 22, 7_000, 7_000, 8_000, 22];
    let packets: Vec<_> = (0..400)
        .map(|number| {
            let mut phv = [0; 12];
            (phv[field::PAIR], phv[field::DST_PORT]) = (number / 7 % 3, ports[number as usize * 5 % 8]);
            Arrival { phv, bytes: 64, time_ns: 0, port: 0 }
        })
        .collect();
    let outcome =
        agrees(&PortKnocking::new(Consistency::Strict), &Model::Rapid(RapidOptions::default()), &packets);
    assert!(outcome.report.resubmissions > 50, "{:?}", outcome.report);
}

/// All packets of the capture, by both functions; those of the first keep their order.
#[test]
fn a_capture_on_rapid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/edge.pcap");
    let reader = io::capture::CaptureReader::open(path).expect("the capture");
    let trace = io::Trace::read(reader).expect("the capture");
    let program = NatBalancer::new(Consistency::Strict);
    let packets = of_trace(&program, &trace);
    let outcome = agrees(&program, &Model::Rapid(RapidOptions::default()), &packets);
    assert_eq!(outcome.report.packets_out, 5_432);
}

/// Two functions with one key in a pipeline of four stages, whose ring they share.
#[test]
fn two_functions_of_one_flow() {
    let program = super::support::TwoTables;
    for (seed, size) in (0..60_u64).zip([1, 3, 64].into_iter().cycle()) {
        let draw = |tag: u64| nf::hash_bytes(&tag.to_le_bytes(), seed);
        let packets: Vec<_> = (0..200)
            .map(|tag| {
                let flow = draw(tag / 5) & 3;
                two(flow, flow, draw(tag) >> 8 & 3 < seed % 4 + 1, tag + 1)
            })
            .collect();
        let model = Model::Rapid(with_buffers_of(size));
        agrees(&program, &model, &packets);
    }
}

/// What a single atom does inside a span, where packets come through more than once: see docs/rapid.md.
#[test]
fn an_atom_in_a_span_is_done_once() {
    let program = SynCookie::new(Consistency::Strict, 20);
    let mut reference = Reference::new(&program);
    let syn = |number: u64| {
        let mut phv = [0; 12];
        (phv[field::FLOW], phv[field::FLAGS]) = (number / 20, u64::from(wire::tcp_flags::SYN));
        phv
    };
    let packets: Vec<_> =
        (0..400).map(|number| Arrival { phv: syn(number), bytes: 64, time_ns: 0, port: 0 }).collect();
    let outcome = agrees(&program, &Model::Rapid(RapidOptions::default()), &packets);
    assert!(outcome.report.resubmissions > 0);
    // The first of each flow is answered, the second one blocks it.
    let outputs: Vec<_> = packets[..4].iter().map(|packet| reference.output(packet.phv)).collect();
    assert_eq!(outputs, [2, 0, 0, 0]);
}
