//! Packets leave in order of arrival, or as cores are done with them: each as it would have on one core, either way.
//! What is reported of their order is held to RFC 4737's definitions, each packet beside all that left before it.

use std::collections::HashMap;

use engine::strategies::{RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE, Strategy};
use engine::{
    Chain, Egress, EgressOutcome, ExternalInput, ExternalPackets, MAX_N, Plan, Progress, Recovery, Reordered,
    RunError, RunOutcome, Seen, SequencedAs, replay_capture, replay_external,
};
use io::Fate;
use nf::{FiveTuple, FlowKey};
use paceline_conformance::example;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{alone, beginnings, every_model, small};

/// A packet as it came out.
#[derive(Clone, Debug, PartialEq)]
struct Left {
    seq: u64,
    time_ns: u64,
    fate: Fate,
    bytes: Vec<u8>,
    flow: Option<FiveTuple>,
}

impl Left {
    fn new(seen: &Seen<'_>) -> Left {
        let headers = wire::parse(seen.link, seen.bytes, seen.wire_len);
        let is_flow = headers.is_ip() && headers.is_well_formed();
        Left {
            seq: seen.stamp.seq,
            time_ns: seen.stamp.time_ns,
            fate: seen.fate,
            bytes: seen.bytes.to_vec(),
            flow: is_flow.then(|| FiveTuple::of(&headers)),
        }
    }

    fn leaves(&self) -> bool {
        matches!(self.fate, Fate::Forward | Fate::TransmitBack)
    }
}

/// What came out, as it did, and what was told of it.
type Ran = (Vec<Left>, EgressOutcome);

fn ran(
    run: impl FnOnce(&mut dyn FnMut(&Seen<'_>) -> Result<(), ()>) -> Result<RunOutcome, RunError<()>>,
) -> Ran {
    let mut left = Vec::new();
    let outcome = run(&mut |seen| {
        left.push(Left::new(seen));
        Ok(())
    });
    let outcome = outcome.unwrap_or_else(|_| panic!("it runs"));
    assert_eq!(outcome.packets, left.len() as u64);
    (left, outcome.egress)
}

fn run(chain: &Chain, strategy: &'static dyn Strategy, cores: usize, egress: Egress, capture: &Pcap) -> Ran {
    let plan = Plan { egress, ..Plan::new(chain, strategy, cores).expect("a plan") };
    ran(|see| replay_capture(chain, &plan, capture.open(), &Progress::default(), see))
}

/// With history from outside.
fn run_external(chain: &Chain, cores: usize, egress: Egress, capture: &Pcap) -> Ran {
    let plan = Plan { egress, ..Plan::new(chain, SCR, cores).expect("a plan") };
    let packets = ExternalPackets::Capture(capture.open().into(), SequencedAs::Newest);
    let input = ExternalInput { packets, speed: None, loss: None, recovery: Recovery::On };
    ran(|see| replay_external(chain, &plan, input, &Progress::default(), see))
}

/// What is not as on one core where packets leave in order.
fn check_ordered(single: &[Left], left: &[Left]) -> Result<(), String> {
    if single.len() != left.len() {
        return Err(format!("{} packets, not {}", left.len(), single.len()));
    }
    match single.iter().zip(left).position(|(a, b)| a != b) {
        Some(place) => Err(format!("packet {} left as number {place}, or changed", left[place].seq)),
        None => Ok(()),
    }
}

/// What is not as on one core where packets leave in any order.
fn check_as_ready(single: &[Left], left: &[Left]) -> Result<(), String> {
    let mut sorted = left.to_vec();
    sorted.sort_by_key(|left| left.seq);
    check_ordered(single, &sorted)
}

/// RFC 4737's definitions, over packets as they left.
fn by_definition(left: &[Left]) -> Reordered {
    let left: Vec<&Left> = left.iter().filter(|left| left.leaves()).collect();
    let mut found = Reordered { packets: left.len() as u64, ..Reordered::default() };
    let mut extents = Vec::new();
    let mut highest: HashMap<FiveTuple, u64> = HashMap::new();
    for (i, packet) in left.iter().enumerate() {
        let is_above = |other: &&Left| other.seq > packet.seq;
        let before = &left[..i];
        extents.extend(before.iter().position(is_above).map(|first| (i - first) as u64));
        let n = before.iter().rev().take(MAX_N).take_while(|other| is_above(other)).count();
        found.n_reordered[..n].iter_mut().for_each(|count| *count += 1);
        if let Some(flow) = packet.flow {
            let highest = highest.entry(flow).or_insert(0);
            found.in_flow += u64::from(packet.seq < *highest);
            *highest = packet.seq.max(*highest);
        }
    }
    found.reordered = extents.len() as u64;
    extents.sort_unstable();
    let quantile = |share: f64| match extents.len() {
        0 => 0,
        len => extents[((len as f64 * share).ceil() as usize).max(1) - 1],
    };
    (found.extent_p50, found.extent_p99) = (quantile(0.5), quantile(0.99));
    found.extent_max = extents.last().copied().unwrap_or(0);
    found
}

/// To the three digits that quantiles have.
fn assert_reordered(told: Option<Reordered>, left: &[Left], at: &str) -> Reordered {
    let (told, mut expected) = (told.expect("it is measured"), by_definition(left));
    for (told, expected) in
        [(told.extent_p50, &mut expected.extent_p50), (told.extent_p99, &mut expected.extent_p99)]
    {
        assert!(told.abs_diff(*expected) * 1000 <= *expected, "{at}: {told}, not {expected}");
        *expected = told;
    }
    assert_eq!(told, expected, "{at}");
    told
}

const PACKETS: usize = 4_000;

fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    inputs.push(("every model".to_owned(), every_model(PACKETS / 8)));
    inputs
}

/// Strategies whose answers are those of one core, with a chain that each runs; under `shared` these are functions
/// that let everything pass.
fn subjects() -> Vec<(&'static dyn Strategy, Chain)> {
    let edge = || small(example("edge.toml"));
    vec![
        (SINGLE, edge()),
        (RSS, edge()),
        (RSSPP, edge()),
        (SCR, edge()),
        (SCR_TURNS, edge()),
        (SCR, small(example("knock.toml"))),
        (SHARED, small(alone("flow-statistics", ""))),
    ]
}

#[test]
fn each_packet_is_the_same_in_either_order() {
    let mut reordered = 0;
    for (strategy, chain) in subjects() {
        let cores: &[usize] = if strategy == SINGLE { &[1] } else { &[2, 5] };
        for (name, capture) in inputs() {
            let (single, _) = run(&chain, SINGLE, 1, Egress::Ordered, &capture);
            for cores in cores {
                let at = format!("{} under {} on {cores} over {name}", chain.name, strategy.name());
                let (left, egress) = run(&chain, strategy, *cores, Egress::Ordered, &capture);
                check_ordered(&single, &left).unwrap_or_else(|error| panic!("{at}: {error}"));
                assert_eq!(egress.reordered, None, "{at}");

                let (left, egress) = run(&chain, strategy, *cores, Egress::AsReady, &capture);
                check_as_ready(&single, &left).unwrap_or_else(|error| panic!("{at}: {error}"));
                let told = assert_reordered(egress.reordered, &left, &at);
                if strategy == SINGLE {
                    assert_eq!(told.reordered, 0, "{at}");
                } else if [RSS, RSSPP].contains(&strategy) {
                    // What one core sends is in order, and flows that move take their order with them.
                    assert_eq!(told.in_flow, 0, "{at}");
                } else {
                    reordered += told.reordered;
                }
            }
        }
    }
    assert!(reordered > 0, "packets that are sprayed overtake each other");
}

#[test]
fn packets_with_history_from_outside_are_the_same_in_either_order() {
    let chain = small(example("perimeter.toml"));
    for (name, capture) in inputs() {
        let (single, _) = run(&chain, SINGLE, 1, Egress::Ordered, &capture);
        for cores in [2, 5] {
            let at = format!("{cores} cores over {name}");
            let (left, egress) = run_external(&chain, cores, Egress::Ordered, &capture);
            check_ordered(&single, &left).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(egress.reordered, None, "{at}");
            let (left, egress) = run_external(&chain, cores, Egress::AsReady, &capture);
            check_as_ready(&single, &left).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_reordered(egress.reordered, &left, &at);
        }
    }
}

/// Flows that move all the time keep their order, whichever core they are on.
#[test]
fn flows_that_move_keep_their_order() {
    let chain = small(example("edge.toml"));
    for (name, capture) in inputs() {
        let mut plan = Plan::new(&chain, RSSPP, 3).expect("a plan");
        plan.egress = Egress::AsReady;
        plan.rebalancing =
            Some(strategy::Rebalancing { every: strategy::Every::Packets(100), ..Default::default() });
        let mut moved = 0;
        let (left, egress) = ran(|see| {
            let outcome = replay_capture(&chain, &plan, capture.open(), &Progress::default(), see)?;
            moved = outcome.moves.entries_out;
            Ok(outcome)
        });
        assert!(moved > 0, "{name}");
        assert_eq!(assert_reordered(egress.reordered, &left, &name).in_flow, 0, "{name}");
    }
}

/// A collector that lets a single packet pass the one before it, gives it twice, loses it or changes it is noticed.
#[test]
fn a_faulty_collector_is_noticed() {
    let chain = small(example("edge.toml"));
    let (_, capture) = &inputs()[0];
    let (single, _) = run(&chain, SINGLE, 1, Egress::Ordered, capture);
    let (left, _) = run(&chain, SCR, 2, Egress::Ordered, capture);
    assert_eq!(check_ordered(&single, &left), Ok(()));
    for place in [0, 1, left.len() / 2, left.len() - 2] {
        let mut early = left.clone();
        early.swap(place, place + 1);
        assert!(check_ordered(&single, &early).is_err(), "packet {place} passes the one before it");
        assert_eq!(check_as_ready(&single, &early), Ok(()), "any order is right there");
        let mut twice = left.clone();
        twice[place + 1] = twice[place].clone();
        let mut lost = left.clone();
        lost.remove(place);
        let mut changed = left.clone();
        changed[place].bytes[20] ^= 1;
        for faulty in [twice, lost, changed] {
            assert!(check_ordered(&single, &faulty).is_err() && check_as_ready(&single, &faulty).is_err());
        }
    }
}

/// The definitions tell an order from another that differs by one exchange.
#[test]
fn the_definitions_tell_orders_apart() {
    let chain = small(alone("flow-statistics", ""));
    let (_, capture) = &inputs()[0];
    let (mut left, _) = run(&chain, SINGLE, 1, Egress::Ordered, capture);
    assert_eq!(by_definition(&left).reordered, 0);
    left.swap(10, 12);
    let found = by_definition(&left);
    assert_eq!((found.reordered, found.extent_max, found.n_reordered[..3].to_vec()), (2, 2, vec![2, 1, 0]));
}
