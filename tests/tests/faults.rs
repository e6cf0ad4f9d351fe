//! What goes wrong beside packets: a core that stalls, a card whose update comes late or never, all flows in one shard, a solver that
//! never answers or says what cannot be. No packet is
//! lost, no flow is in two places, and answers are those of one core. (A core that is taken away: `cores`; one that dies:
//! `RunError::CorePanicked`; many new flows: `flood`; load that jumps: `objective.rs` of dyssect.)

use std::thread;
use std::time::Duration;

use control::{Answer, Greedy, Question, Solver, SolverKind};
use engine::strategies::{AUTO, DYSSECT, HYBRID, RSSPP, Solving, Strategy};
use engine::{Chain, Plan, Progress, Told, verify};
use nf::{About, Cx, FlowKey, NetworkFunction, OptionError, SrcAddr, Verdict};
use paceline_conformance::chain;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{alone, generated, small};
use strategy::{Every, Rebalancing};
use wire::{Fields, Headers, LinkType, parse_into};

const CORES: usize = 3;
const MOVING: [&dyn Strategy; 3] = [RSSPP, DYSSECT, HYBRID];
/// Packets from one stall to the next.
const STALL_EVERY: u64 = 700;
const STALL: Duration = Duration::from_millis(10);
/// The slowest update of a card's table in the paper (Dyssect §IV-A).
const SLOWEST_UPDATE_NS: u64 = 359_000_000;

/// Counts packets of a source, and lets its core stand still now and then.
struct Stalls;

#[derive(serde::Deserialize)]
struct NoOptions {}

impl NetworkFunction for Stalls {
    const ABOUT: About = About { name: "stalls", ..About::NONE };
    const READS: Fields = Fields::SRC_ADDR.union(Fields::MARKS);

    type Key = SrcAddr;
    type Meta = SrcAddr;
    type State = u64;
    type Pool = ();
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Stalls)
    }

    fn project(headers: &Headers) -> Option<SrcAddr> {
        headers.is_ip().then(|| SrcAddr::of(headers))
    }

    fn key(meta: &SrcAddr) -> SrcAddr {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, _: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
        if cx.stamp.seq % STALL_EVERY == STALL_EVERY - 1 {
            thread::sleep(STALL);
        }
        *flow.get_or_insert(0) += 1;
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

/// Few flows send most: loads have much to ask for.
fn input(packets: usize, gap_ns: u64) -> Pcap {
    generated(&format!("zipf:flows=400,a=1.2,packets={packets},gap-ns={gap_ns},seed=3"), packets)
}

/// Runs a chain beside one core, and says what the strategy said of itself.
fn verified(chain: &Chain, plan: &Plan, pcap: &Pcap, what: &str) -> Told {
    let verified = verify(chain, plan, &|| Ok(pcap.open()), &Progress::default()).expect("it is compared");
    let name = plan.strategy.name();
    assert!(verified.is_same() && verified.filled.is_empty(), "{name}, {what}: {verified:#?}");
    assert_eq!(verified.packets, pcap.packets() as u64, "{name}, {what}: all packets");
    assert!(verified.out_of_order.is_none_or(|packets| packets == 0), "{name}, {what}: {verified:#?}");
    plan.account.told()
}

fn moves(told: &Told) -> u64 {
    told.moves + told.ratio_changes + told.promotion.as_ref().map_or(0, |promotion| promotion.promotions)
}

#[test]
fn a_core_that_stalls_holds_up_packets_and_loses_none() {
    let mut registry = stock::registry();
    registry.add::<Stalls>();
    let chain = chain("[[function]]\nuse = \"stalls\"\n", &registry);
    let pcap = input(6_000, 50_000);
    for strategy in [MOVING.as_slice(), &[AUTO]].concat() {
        for every in [Every::Period(5_000_000), Every::Packets(100)] {
            let plan = Plan::new(&chain, strategy, CORES).expect("it runs");
            let rebalancing = Some(Rebalancing { every, update_latency_ns: 0 });
            let told = verified(&chain, &Plan { rebalancing, ..plan }, &pcap, "stalls");
            assert!(strategy == AUTO || moves(&told) > 0, "{}: {told:#?}", strategy.name());
        }
    }
}

/// Answers to every other question within the deadline, and then what cannot be carried out.
struct Unreliable(u32);

impl Solver for Unreliable {
    fn solve(&mut self, question: &Question) -> Option<Answer> {
        self.0 += 1;
        let mut answer = Greedy.solve(question)?;
        match self.0 % 4 {
            0 => thread::sleep(4 * DEADLINE),
            2 => answer.placement.offloaders[0] = Some(0),
            _ => (),
        }
        Some(answer)
    }
}

const DEADLINE: Duration = Duration::from_millis(50);

#[test]
fn a_solver_that_is_late_or_wrong_changes_nothing_and_one_that_answers_moves_flows() {
    let chain = small(alone("conntrack", ""));
    let pcap = input(8_000, 500_000);
    let of = |kind: SolverKind| {
        let plan = Plan::new(&chain, DYSSECT, CORES).expect("it runs");
        let every = Every::Period(200_000_000);
        let rebalancing = Some(Rebalancing { every, update_latency_ns: 0 });
        let solving = Some(Solving { kind, deadline: DEADLINE });
        let told = verified(&chain, &Plan { rebalancing, solving, ..plan }, &pcap, kind.name);
        (moves(&told), told.solver.expect("it was asked"))
    };
    let (moved, told) = of(SolverKind { name: "greedy, beside", make: |_| Box::new(Greedy) });
    assert!(moved > 0 && told.answers > 10 && told.refused == 0, "{moved} {told:?}");
    let (_, told) = of(SolverKind { name: "unreliable", make: |_| Box::new(Unreliable(0)) });
    assert!(told.answers > 0 && told.missed > 0 && told.refused > 0, "{told:?}");
    let (moved, told) = of(SolverKind { name: "none", make: |_| Box::new(Never) });
    assert!(moved == 0 && told.answers == 0 && told.missed > 10, "{moved} {told:?}");
}

/// Never answers.
struct Never;

impl Solver for Never {
    fn solve(&mut self, _: &Question) -> Option<Answer> {
        loop {
            thread::park();
        }
    }
}

/// Packets go to the old core until the update comes. Where it never comes nothing moves, and all else goes on.
#[test]
fn an_update_of_the_table_that_comes_late_or_never_loses_nothing() {
    let chain = small(alone("conntrack", ""));
    let pcap = input(8_000, 500_000);
    for strategy in [RSSPP, DYSSECT] {
        let of = |update_latency_ns: u64| {
            let plan = Plan::new(&chain, strategy, CORES).expect("it runs");
            let rebalancing = Some(Rebalancing { every: Every::Period(100_000_000), update_latency_ns });
            verified(&chain, &Plan { rebalancing, ..plan }, &pcap, &format!("{update_latency_ns} ns"))
        };
        let (at_once, late, never) = (of(0), of(SLOWEST_UPDATE_NS), of(u64::MAX));
        assert!(moves(&late) > 0, "{}: {late:#?}", strategy.name());
        // 4 s are 40 periods. A decision is not overtaken by the next before it is in force.
        assert!(at_once.looks > 35 && (5..=12).contains(&late.looks), "{} {}", at_once.looks, late.looks);
        assert_eq!((moves(&never), never.looks), (0, 1), "{}: {never:#?}", strategy.name());
        let decided = late.last_change.expect("it changed").time_ns;
        let first_ns = pcap.record(0).time_ns;
        for place in late.places.iter().filter(|place| place.moves > 0) {
            assert!(
                place.since_ns >= first_ns + 100_000_000 + SLOWEST_UPDATE_NS,
                "{place:?}, decided {decided}"
            );
        }
    }
}

/// The packets whose flows a plan has in shard, or entry, or value, number `wanted` modulo `modulus`.
fn only(pcap: &Pcap, chain: &Chain, plan: &Plan, (modulus, wanted): (u16, u16)) -> Pcap {
    let assign = plan.assign(chain);
    let is_wanted = |index: &usize| {
        let record = pcap.record(*index);
        let mut headers = Headers::default();
        parse_into(LinkType::Ethernet, record.data, record.wire_len, &mut headers);
        assign.entry(&headers) % modulus == wanted
    };
    let indices: Vec<usize> = (0..pcap.packets()).filter(is_wanted).collect();
    pcap.select(&indices)
}

/// One core has them all at first. RSS++ can do nothing about one entry, and does nothing; Dyssect has others step parts of the one
/// shard.
#[test]
fn all_flows_in_one_shard() {
    let chain = small(alone("conntrack", ""));
    let pcap = generated("uniform:flows=3000,packets=60000,gap-ns=20000,seed=9", 60_000);
    for (strategy, modulus) in [(RSSPP, 128), (DYSSECT, 16)] {
        let plan = Plan::new(&chain, strategy, CORES).expect("it runs");
        let few = only(&pcap, &chain, &plan, (modulus, 5));
        assert!(few.packets() > 200, "{} packets", few.packets());
        let told = verified(&chain, &plan, &few, "one shard");
        let used: Vec<u16> = told.places.iter().map(|place| place.core).collect();
        match strategy.name() {
            "dyssect" => {
                let offloaded = told.places[5].offloaded;
                assert!((16..=48).contains(&offloaded), "about half of 64 buckets: {told:#?}");
                assert!(told.offloaders[usize::from(used[5])].is_some(), "{told:#?}");
            }
            _ => assert!(told.moves <= 2 && told.looks > 50, "{told:#?}"),
        }
    }
}
