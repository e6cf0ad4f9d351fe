//! Tests of states that all cores share.

use std::thread;

use crate::strategies::RSS;
use io::capture::CaptureReader;
use nf::{About, Cx, Extras, Guarantees, OptionError, Records, SrcAddr, Verdict};
use wire::{Addr, Fields, Headers};

use zerocopy::IntoBytes;

use super::*;
use crate::store::private::KeyGroup;
use crate::store::shared_member::SharedMember;
use crate::{Chain, Plan, Progress, Registry, Seen, replay_capture};

const IDLE_NS: u64 = 100;

/// Counts each source's packets.
struct Counter;

impl NetworkFunction for Counter {
    const ABOUT: About = About { name: "counter", ..About::NONE };
    const READS: Fields = Fields::SRC_ADDR;
    const EXTRAS: Extras<Self> = Extras {
        records: Records { totals: Self::totals, ..Records::NONE },
        guarantees: Guarantees { when_shared: Some(WhenShared::Totals), ..Guarantees::NONE },
        ..Extras::NONE
    };
    type Key = SrcAddr;
    type Meta = SrcAddr;
    type State = u64;
    type Pool = ();
    type Options = u64;

    fn new(_: u64) -> Result<Self, OptionError> {
        Ok(Counter)
    }

    fn project(headers: &Headers) -> Option<SrcAddr> {
        Some(SrcAddr::of(headers))
    }

    fn key(meta: &SrcAddr) -> SrcAddr {
        *meta
    }

    fn step(&self, _: &mut Option<u64>, _: &SrcAddr, _: &mut Cx<'_, ()>) -> Verdict {
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        IDLE_NS
    }
}

impl Counter {
    fn totals(&self, state: &u64) -> [u64; 2] {
        [*state, 0]
    }
}

fn states(capacity: usize, cores: usize) -> SharedStates<Counter> {
    SharedStates::new(Arc::new(Counter), capacity, cores, 7).expect("memory")
}

fn source(number: u8) -> SrcAddr {
    SrcAddr(Addr::v4([10, 0, 0, number]))
}

fn at(time_ns: u64) -> Stamp {
    Stamp { seq: 0, time_ns }
}

/// Counts one packet: the time at which it was counted, and the count.
fn count(states: &SharedStates<Counter>, slot: Slot, time_ns: u64) -> (u64, u64) {
    let one_more = |state: &mut Option<u64>, stamp: Stamp| {
        let count = state.get_or_insert(0);
        *count += 1;
        (stamp.time_ns, *count)
    };
    states.step(slot, at(time_ns), one_more).0
}

#[test]
fn time_never_runs_back_for_a_state() {
    let states = states(4, 2);
    let slot = states.refer(&source(1), 50).expect("room");
    assert_eq!(count(&states, slot, 50), (50, 1));
    assert_eq!(count(&states, slot, 20), (50, 2), "a core that lags");
    assert_eq!(count(&states, slot, 149), (149, 3));
    assert_eq!(count(&states, slot, 249), (249, 1), "dead from its deadline on");
    assert_eq!(count(&states, slot, 130), (249, 2), "the next one is no younger");
    let FlowCounters { created, expired, .. } = states.counters();
    assert_eq!((created, expired), (2, 1));
}

/// A state stays as long as anybody refers to it, or a core may yet need it.
#[test]
fn a_state_goes_with_its_last_reference_and_not_before_its_time() {
    let states = states(1, 2);
    let slot = states.refer(&source(1), 10).expect("room");
    assert_eq!(states.refer(&source(1), 10), Some(slot), "one state for both");
    count(&states, slot, 10);
    assert_eq!(states.referred(), (1, 2));
    let clocks = |times: [u64; 2]| {
        times.iter().enumerate().for_each(|(core, time)| states.tick(core, Watermark::claim(*time)))
    };
    clocks([500, 500]);
    states.release(slot);
    assert_eq!(states.refer(&source(2), 500), None, "one refers to it");
    states.release(slot);
    assert_eq!(states.referred(), (0, 0));
    clocks([105, 500]);
    assert_eq!(states.refer(&source(2), 105), None, "alive until 110");
    assert_eq!(states.refer(&source(1), 105), Some(slot));
    assert_eq!(count(&states, slot, 105), (105, 2), "the same as before");
    states.release(slot);
    clocks([300, 300]);
    let slot = states.refer(&source(2), 300).expect("room");
    assert_eq!(count(&states, slot, 300), (300, 1));
    let FlowCounters { created, expired, evicted, .. } = states.counters();
    assert_eq!((created, expired, evicted), (2, 1, 0));
}

#[test]
fn a_full_table_takes_what_is_dead_for_one_core_and_says_so() {
    let states = states(1, 2);
    let slot = states.refer(&source(1), 10).expect("room");
    count(&states, slot, 10);
    states.release(slot);
    states.tick(0, Watermark::claim(1_000));
    // Core 1 has not been heard of.
    assert!(states.refer(&source(2), 1_000).is_some());
    assert_eq!((states.counters().expired, states.counters().evicted), (0, 1));
}

#[test]
fn records_add_up_however_they_are_cut() {
    let whole = states(4, 1);
    let slot = whole.refer(&source(1), 0).expect("room");
    (0..9).for_each(|time_ns| assert_eq!(count(&whole, slot, time_ns).0, time_ns));
    let cut = states(4, 1);
    let slot = cut.refer(&source(1), 0).expect("room");
    for step in 0..9 {
        // Each third packet comes after the record's end.
        count(&cut, slot, step / 3 * 1_000);
    }
    assert_eq!(cut.counters().expired, 2);
    assert_eq!(cut.totals(), whole.totals());
    count(&cut, slot, 9_000);
    assert_ne!(cut.totals(), whole.totals());
    assert_ne!(weigh(1, [1, 2]), weigh(1, [2, 1]));
    assert_ne!(weigh(1, [1, 0]), weigh(2, [1, 0]));
}

#[test]
fn no_step_is_lost_between_cores() {
    let states = states(4, 4);
    thread::scope(|scope| {
        for core in 0..4 {
            let states = &states;
            scope.spawn(move || {
                for step in 0..2_000 {
                    let slot = states.refer(&source((step % 3) as u8), step).expect("room");
                    states.tick(core, Watermark::claim(step));
                    count(states, slot, step);
                    states.release(slot);
                }
            });
        }
    });
    let [a, b, c] = [0, 1, 2].map(|number| hash_bytes(source(number).as_bytes(), 0));
    let counts = [(a, 667), (b, 667), (c, 666)].map(|(key, count)| weigh(key, [4 * count, 0]));
    assert_eq!(states.totals(), counts.iter().fold(0, |sum: u64, count| sum.wrapping_add(*count)));
    assert_eq!(states.referred(), (0, 0));
}

/// Over a whole run, references and the blocks that hold them are as many; and all go in the end.
#[test]
fn coarse_states_go_when_their_last_flow_does() {
    let text = "[[function]]\nuse = \"source-statistics\"\nidle_ms = 200\n\
                [[function]]\nuse = \"destination-policer\"\nrate_bytes_per_s = 20000\nburst_bytes = 5000\n\
                [[function]]\nuse = \"flow-statistics\"\nidle_ms = 100\n";
    let chain = Chain::parse("test", text, &Registry::of_tests()).expect("a chain");
    let plan = Plan::new(&chain, RSS, 3).expect("a plan");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/edge.pcap");
    let reader = CaptureReader::open(path).expect("the capture");
    let mut see = |_: &Seen<'_>| Ok::<(), ()>(());
    let mut ran = replay_capture(&chain, &plan, reader, &Progress::default(), &mut see).expect("runs");

    fn shared<F: NetworkFunction>(core: &crate::ChainCore, index: usize) -> &SharedStates<F> {
        let stage = core.stage(index);
        let group = (stage.group as &dyn std::any::Any)
            .downcast_ref::<KeyGroup<nf::FiveTuple>>()
            .expect("by 5-tuple");
        group.member::<SharedMember<F>>(stage.member).expect("shared").states()
    }
    let core = &ran.cores[0].1;
    let sources = shared::<nfs::SourceStatistics>(core, 0);
    let live = sources.live(ran.last).len();
    let counters = sources.counters();
    assert!(live > 0 && counters.expired > 100, "{live} live, {counters:?}");
    assert_eq!(counters.live(), live);
    assert_eq!(sources.referred().0, live);

    let much_later = at(ran.last.time_ns + 1_000_000_000_000);
    ran.cores.iter_mut().for_each(|(_, core)| core.settle(much_later));
    let core = &ran.cores[0].1;
    let (sources, destinations) =
        (shared::<nfs::SourceStatistics>(core, 0), shared::<nfs::DestinationPolicer>(core, 1));
    assert_eq!((sources.referred(), destinations.referred()), ((0, 0), (0, 0)));
    assert_eq!((sources.counters().live(), destinations.counters().live()), (0, 0));
    // Core 0 settled while the others still referred: their settling freed the rest.
    assert_eq!((sources.len(), destinations.len()), (0, 0));
}

#[test]
fn the_dead_make_room_though_a_core_has_had_no_packet() {
    let states = states(32, 2);
    for number in 0..32 {
        let slot = states.refer(&source(number), 10).expect("room");
        count(&states, slot, 10);
        states.release(slot);
    }
    states.tick(0, Watermark::claim(1_000_000));
    // Core 1 has had no packet. All 32 states are dead for core 0.
    let room = (100..132).filter(|n| states.refer(&source(*n), 1_000_000).is_some()).count();
    assert_eq!(room, 32);
}
