//! Trials behind a card that steers.

use std::collections::HashMap;

use engine::Plan;
use engine::strategies::{HYBRID, SINGLE, Steer, Steered};
use strategy::{Every, Rebalancing};

use super::tests::{NEVER, trace};
use super::*;
use crate::offered::packets;

/// With room for all packets of a trial: nothing is lost where the machine does something else meanwhile.
const VIRTUAL: Settings =
    Settings { clock: Clock::Virtual, descriptors: 16_384, is_shaped: false, dispatch_ns: 0 };

/// What is refused depends on each source's packets, all of them and each once, within so many milliseconds.
fn chain(window_ms: u32, block_ms: u32) -> Chain {
    let text = format!(
        "name = \"test\"\n[[function]]\nuse = \"ddos\"\nflows = 4096\nthreshold_packets = 5\n\
         window_ms = {window_ms}\nblock_ms = {block_ms}"
    );
    Chain::parse("test.toml", &text, &stock::registry()).expect("a chain")
}

fn bench(cores: usize, every: Every, model: &str) -> Bench {
    bench_of(&chain(2, 5), cores, every, model)
}

fn bench_of(chain: &Chain, cores: usize, every: Every, model: &str) -> Bench {
    let strategy = if cores == 1 { SINGLE } else { HYBRID };
    let plan = Plan::new(chain, strategy, cores).expect("a plan");
    let rebalancing = plan.rebalancing.map(|rebalancing| Rebalancing { every, ..rebalancing });
    let plan = Plan { rebalancing, ..plan };
    let offered = packets(chain, &plan, &trace(model)).expect("packets");
    Bench::new(chain, &plan, offered, VIRTUAL).expect("a bench")
}

/// What functions have counted on all cores: packets, those forwarded, those dropped, flows that began and that expired.
fn counted(bench: &mut Bench) -> [u64; 5] {
    let last = bench.next;
    let of_core = |core: &mut ChainCore| {
        core.settle(last);
        let counters = core.stage(0).counters();
        let flows = counters.flows;
        [counters.packets, counters.forward, counters.drops.iter().sum(), flows.created, flows.expired]
    };
    let add = |all: [u64; 5], one: [u64; 5]| std::array::from_fn(|index| all[index] + one[index]);
    bench.cores.iter_mut().map(of_core).fold([0; 5], add)
}

const MODEL: &str = "zipf:packets=3000,flows=600,a=1.1";

/// A rate at which flows expire within a trial.
const PPS: f64 = 500_000.0;

const COUNTS: [u32; 2] = [9_000, 3_500];

fn counted_by_one() -> [u64; 5] {
    let mut bench = bench(1, Every::Never, MODEL);
    for count in COUNTS {
        bench.trial(PPS, count, false, &NEVER).expect("a trial");
    }
    counted(&mut bench)
}

/// Whatever is promoted and demoted, from trial to trial, functions count what they count on one core; and packets that are
/// not told pass the sequencer by.
#[test]
fn functions_count_what_they_count_on_one_core() {
    let expected = counted_by_one();
    assert!(expected[2] > 0 && expected[4] > 0, "{expected:?}");
    for cores in [2, 3, 7] {
        for every in [Every::Packets(37), Every::Packets(500), Every::Period(1_000_000)] {
            let mut bench = bench(cores, every, MODEL);
            for count in COUNTS {
                let trial = bench.trial(PPS, count, true, &NEVER).expect("a trial");
                let sequencer = trial.sequencer.expect("one in front");
                let case = format!("{cores} cores, {every:?}: {:?}", trial.cores);
                let all = u64::from(count);
                assert_eq!((trial.offered, trial.received()), (all, all), "{case}");
                assert_eq!(sequencer.received + trial.straight, all, "{case}");
                // By loads, flows may find room on single cores.
                let may_be_level = matches!(every, Every::Period(_));
                assert!((sequencer.received > 0 || may_be_level) && trial.straight > 0, "{case}");
                assert_eq!(trial.latency.as_ref().map(|all| all.len()), Some(all), "{case}");
            }
            assert_eq!(counted(&mut bench), expected, "{cores} cores, {every:?}");
        }
    }
}

/// What is too much is dropped at the queue where it is, and counted.
#[test]
fn each_packet_is_received_or_dropped() {
    for pps in [3e6, 3e7, 1e9] {
        let mut bench = bench(3, Every::Packets(200), MODEL);
        bench.settings.descriptors = 256;
        let trial = bench.trial(pps, 20_000, false, &NEVER).expect("a trial");
        assert_eq!(trial.received() + trial.dropped(), 20_000, "{:?}", trial.cores);
        assert_eq!(trial.dropped() > 0, trial.loss() > 0.0);
    }
}

/// All packets are there at once, and the sequencer is faster than cores that have others to step ahead of those that it tells of. A core
/// with more of its own than the others gets few of these, so that its ring is not full when the history is.
#[test]
fn where_the_history_is_full_the_sequencer_waits() {
    const COUNT: u32 = 400_000;
    // A closed loop's packets bear the time at which they are taken: no window ends while the machine does something else.
    let chain = chain(600_000, 600_000);
    let counted_on = |cores, every| {
        let mut bench = bench_of(&chain, cores, every, "zipf:packets=300000,flows=5,a=1.2");
        // Room for all of them, however long the machine does something else.
        let descriptors = std::mem::replace(&mut bench.settings.descriptors, 1 << 19);
        bench.trial(10.0 * PPS, 300_000, false, &NEVER).expect("a trial");
        bench.settings.descriptors = descriptors;
        bench.settings.dispatch_ns = 105;
        let trial = bench.closed_loop(COUNT, &NEVER).expect("nobody is ahead of the history");
        let told = trial.sequencer.map(|sequencer| sequencer.received);
        (counted(&mut bench), trial.received(), told)
    };
    let (expected, received, _) = counted_on(1, Every::Never);
    assert_eq!((expected[0], received), (700_000, COUNT.into()), "nothing is lost");
    let (counted, received, told) = counted_on(7, Every::Period(20_000_000));
    assert_eq!((counted, received), (expected, COUNT.into()));
    assert!(told > Some(u64::from(COUNT) / 20), "{told:?}");
}

/// The elephant is promoted and demoted in turn. Once it is demoted next to nothing is told, and its packets wait at its core until the
/// sequencer has placed the change: it does so at once, not with the next told packet.
#[test]
fn changes_do_not_wait_for_the_next_told_packet() {
    let mut bench = bench(3, Every::Packets(1_000), "elephant:packets=20000,flows=1000,share=0.9");
    bench.settings.descriptors = 64;
    // They have room for what comes in 25 ms: longer than the machine does something else for, and shorter than the wait that is looked for.
    let trial = bench.trial(PPS / 200.0, 20_000, false, &NEVER).expect("a trial");
    assert_eq!(trial.received(), 20_000, "{:?}", trial.cores);
}

/// Where no flow is too much for a core, the sequencer has nothing to do.
#[test]
fn without_elephants_nothing_passes_the_sequencer() {
    let mut bench = bench(4, Every::Period(1_000_000), "uniform:packets=20000,flows=3000");
    let trial = bench.trial(PPS, 20_000, false, &NEVER).expect("a trial");
    let sequencer = trial.sequencer.expect("one in front");
    assert_eq!((sequencer.arrived, sequencer.busy_ns, trial.straight), (0, 0, 20_000));
}

/// Planted: a card that sends the first packet of a promoted entry where those before went.
struct Late {
    card: Box<dyn Steer>,
    last: HashMap<u16, Result<usize, u16>>,
}

impl Steer for Late {
    fn steer(&mut self, entry: u16, stamp: Stamp, sent: &[u64]) -> Steered {
        let steered = self.card.steer(entry, stamp, sent);
        match (self.last.insert(entry, steered.place), steered.place) {
            (Some(Ok(core)), Err(_)) => Steered { place: Ok(core), ..steered },
            _ => steered,
        }
    }
}

#[test]
fn a_card_that_acts_late_is_found() {
    let mut bench = bench(3, Every::Packets(37), MODEL);
    if let Some(team) = &mut bench.steered {
        team.tamper(|card| Box::new(Late { card, last: HashMap::new() }));
    }
    for count in COUNTS {
        bench.trial(PPS, count, false, &NEVER).expect("a trial");
    }
    assert_ne!(counted(&mut bench), counted_by_one(), "packets of flows that are elsewhere");
}
