//! Cores that share a table are not in step: what time a flow sees, when it is forgotten, and that no flow is
//! refused early. One thread plays both cores, so that who comes first is known.

use std::sync::Mutex;

use engine::strategies::SHARED;
use engine::{ChainCore, FlowCounters, Plan, Registry};
use io::Fate;
use nf::{About, Cx, FlowKey, NetworkFunction, OptionError, SrcAddr, Verdict};
use paceline_conformance::{Packet, chain, run_in_batches, tcp};
use wire::{Fields, Headers, tcp_flags};

const MS: u64 = 1_000_000;

fn two_cores(toml: &str, registry: &Registry, table_seed: u64) -> [ChainCore; 2] {
    let mut chain = chain(toml, registry);
    chain.table_seed = table_seed;
    let plan = Plan::new(&chain, SHARED, 2).expect("a plan");
    plan.cores_of(&chain).expect("memory").try_into().unwrap_or_else(|_| panic!("two cores"))
}

/// 100 bytes with the IP header from 10.0.0.`src`, port `port`.
fn packet(time_ns: u64, src: u8, port: u16) -> Packet {
    tcp(time_ns, src, 200, (port, 80), tcp_flags::ACK, 0, 60)
}

fn forwards(core: &mut ChainCore, packets: &[Packet]) -> Vec<bool> {
    let ran = run_in_batches(core, packets, &[7]);
    let own_ns = packets.last().expect("a packet").time_ns;
    assert_eq!(ran.last.time_ns, own_ns, "a packet comes back with its own stamp");
    ran.answers.iter().map(|(fate, _)| *fate == Fate::Forward).collect()
}

fn counters(cores: &[ChainCore; 2]) -> FlowCounters {
    let [a, b] = cores.each_ref().map(|core| core.stage(0).counters().flows);
    FlowCounters {
        created: a.created + b.created,
        removed: a.removed + b.removed,
        expired: a.expired + b.expired,
        evicted: a.evicted + b.evicted,
        rejected: a.rejected + b.rejected,
        ..FlowCounters::default()
    }
}

/// Notes the times of steps, by the last byte of the source.
struct Times;

static TIMES: Mutex<Vec<(u8, u64)>> = Mutex::new(Vec::new());

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl NetworkFunction for Times {
    const ABOUT: About = About { name: "times", ..About::NONE };
    const READS: Fields = Fields::SRC_ADDR.union(Fields::MARKS);
    type Key = SrcAddr;
    type Meta = SrcAddr;
    type State = u64;
    type Pool = ();
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Times)
    }

    fn project(headers: &Headers) -> Option<SrcAddr> {
        headers.is_ip().then(|| SrcAddr::of(headers))
    }

    fn key(meta: &SrcAddr) -> SrcAddr {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, meta: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        TIMES.lock().expect("one thread").push((meta.0.0[15], now_ns));
        *flow = Some(now_ns);
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

#[test]
fn time_never_runs_back_for_a_flow_and_other_flows_do_not_move_it() {
    let mut registry = stock::registry();
    registry.add::<Times>();
    // One stripe: the flows are beside each other.
    let [mut first, mut second] = two_cores("[[function]]\nuse = \"times\"\nflows = 64", &registry, 1);
    forwards(&mut first, &[packet(10 * MS, 1, 1)]);
    forwards(&mut second, &[packet(2 * MS, 1, 1), packet(3 * MS, 2, 1)]);
    forwards(&mut first, &[packet(12 * MS, 1, 1)]);
    forwards(&mut second, &[packet(11 * MS, 1, 1)]);
    let times = [(1, 10), (1, 10), (2, 3), (1, 12), (1, 12)].map(|(src, ms)| (src, ms * MS));
    assert_eq!(*TIMES.lock().expect("one thread"), times);
}

/// A bucket of one packet that is full again after 100 ms.
const POLICER: &str =
    "[[function]]\nuse = \"policer\"\nflows = 64\nrate_bytes_per_s = 1000\nburst_bytes = 100";

#[test]
fn a_core_that_lags_finds_no_fresh_flow_in_a_past_that_is_spent() {
    let mut cores = two_cores(POLICER, &stock::registry(), 1);
    let [first, second] = &mut cores;
    assert_eq!(forwards(second, &[packet(1_000 * MS, 9, 9)]), [true]);
    assert_eq!(forwards(first, &[packet(1_000 * MS, 1, 1)]), [true]);
    // To core 0 the bucket is long full; it steps others, and sweeps many times.
    let others: Vec<Packet> = (0..2_000).map(|i| packet((90_000 + i) * MS, 2, 2)).collect();
    forwards(first, &others);
    assert_eq!(forwards(second, &[packet(1_050 * MS, 1, 1)]), [false], "half full");
    assert_eq!(counters(&cores).expired, 0);
    // Once core 1 is past it, too, it goes.
    let [first, second] = &mut cores;
    forwards(second, &[packet(91_000 * MS, 9, 9)]);
    forwards(first, &others);
    assert_eq!(counters(&cores).expired, 2);
    let [_, second] = &mut cores;
    assert_eq!(forwards(second, &[packet(91_000 * MS, 1, 1)]), [true]);
}

/// A full table takes what is dead for one core, and says so: `verify` then tells that it was full.
#[test]
fn what_makes_room_while_a_core_lags_counts_as_evicted() {
    let mut cores = two_cores(POLICER, &stock::registry(), 1);
    let [first, second] = &mut cores;
    forwards(second, &[packet(1_000 * MS, 9, 9)]);
    let many = |from_ms: u64| -> Vec<Packet> {
        (0..63).map(|port| packet((from_ms + u64::from(port)) * MS, 1, port)).collect()
    };
    forwards(first, &many(1_000));
    forwards(
        first,
        &many(50_000).iter().map(|it| Packet { bytes: it.bytes.clone(), ..*it }).collect::<Vec<_>>(),
    );
    assert_eq!(counters(&cores), FlowCounters { created: 64 + 63, expired: 63, ..FlowCounters::default() });
    let [first, _] = &mut cores;
    let strangers: Vec<Packet> = (0..10).map(|port| packet(90_000 * MS, 3, port)).collect();
    forwards(first, &strangers);
    let FlowCounters { evicted, rejected, .. } = counters(&cores);
    assert_eq!((evicted, rejected), (10, 0));
}

#[test]
fn as_many_flows_as_are_asked_for_find_room() {
    for (seed, flows) in [(1, 64u16), (2, 500), (3, 4_000), (4, 32_000), (5, 60_000)] {
        let toml = format!("[[function]]\nuse = \"flow-statistics\"\nflows = {flows}");
        let mut cores = two_cores(&toml, &stock::registry(), seed);
        for (core, of_core) in [0, 1].into_iter().zip(&mut cores) {
            let packets: Vec<Packet> =
                (0..flows).filter(|port| port % 2 == core).map(|port| packet(MS, 1, port)).collect();
            run_in_batches(of_core, &packets, &[64]);
        }
        let FlowCounters { created, rejected, .. } = counters(&cores);
        assert_eq!((created, rejected), (flows.into(), 0));
        let [live, other] = cores.each_ref().map(|core| core.stage(0).counters().live);
        assert_eq!((live, other), (flows.into(), 0), "core 0 speaks for the table");
    }
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Times>();
}
