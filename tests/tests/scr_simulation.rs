//! Replicas in simulation: whatever the order in which cores work, each has after *n* packets what a single core has
//! after *n* packets, for many *n*; and what would make replicas differ is seen.
//!
//! ```sh
//! cargo test -p paceline-conformance --test all scr_simulation::
//! PACELINE_RUNS=100000 cargo test --release -p paceline-conformance --test all scr_simulation::replicas_equal
//! PACELINE_SEED=17 cargo test -p paceline-conformance --test all scr_simulation::replicas_equal -- --nocapture
//! ```
//!
//! The last runs one seed, such as one that failed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::strategies::SCR;
use engine::{Chain, FlowCounters, Forgotten, Plan, Progress, Registry, verify};
use nf::{About, Cx, Extras, FiveTuple, FlowKey, NetworkFunction, OptionError, Pooled, Verdict};
use paceline_conformance::crowded::{ONE_TABLE, SEVERAL_KEYS, filled_in, traffic};
use paceline_conformance::draw::{Draw, each_seed, is_one_seed};
use paceline_conformance::faulty::NoOptions;
use paceline_conformance::pcap;
use paceline_conformance::replicas::{Ask, Compared, History, Memory, Pace, Sprayed, Told, faithful};
use paceline_conformance::{Packet, chain};
use wire::{Fields, Headers};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// Runs of a test that is given no other number.
const RUNS: u64 = 2_000;

/// A few ports for many hosts.
const POOLS: &str = "
[[function]]
use = \"nat\"
flows = FLOWS
table_full = \"FULL\"
inside = [\"10.0.0.8/29\", \"10.0.0.16/28\"]
external = [\"203.0.113.1\"]
ports = [70, 79]
[[function]]
use = \"load-balancer\"
flows = FLOWS
table_full = \"reject\"
policy = \"round-robin\"
services = [{ vip = \"10.0.0.2\", port = 80, backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]
[[function]]
use = \"flow-statistics\"
flows = FLOWS
table_full = \"FULL\"
idle_ms = 100
";

/// No hash keeps these keys on one core; what looks into payloads comes last.
const NO_HASH: &str = "
[[function]]
use = \"conntrack\"
flows = FLOWS
table_full = \"FULL\"
[[function]]
use = \"port-scan\"
flows = FLOWS
table_full = \"FULL\"
threshold_ports = 3
block_ms = 100
action = \"drop\"
[[function]]
use = \"destination-policer\"
flows = FLOWS
table_full = \"FULL\"
rate_bytes_per_s = 2000
burst_bytes = 500
[[function]]
use = \"source-statistics\"
flows = FLOWS
table_full = \"FULL\"
idle_ms = 50
active_ms = 300
[[function]]
use = \"pattern-scanner\"
patterns = [\"|00 00 00|\"]
";

/// Functions alone: packets that are alike in what these read are stepped without a look-up.
const ALONE: [(&str, &str); 16] = [
    ("access-list", "default = \"allow\"\nrules = [\"deny udp from any to any port 7000\"]"),
    ("conntrack", "tcp_timeout_syn_sent = 1"),
    ("ddos", "threshold_packets = 20\nwindow_ms = 100\nblock_ms = 100"),
    ("destination-policer", "rate_bytes_per_s = 2000\nburst_bytes = 500"),
    (
        "firewall",
        "default = \"accept\"\nudp_timeout_s = 1\nsyn_sent_timeout_s = 1\n\
         rules = [\"drop tcp from 10.0.0.1 to any state new\", \"drop any from any to any state invalid\"]",
    ),
    (
        "firewall",
        "default = \"accept\"\nudp_timeout_s = 1\nrules = [\"drop tcp from any to any rate over 20/s burst 3\", \
         \"accept any from any to any rate 50/s burst 9\", \"drop udp from any to any\"]",
    ),
    ("flow-statistics", "idle_ms = 20\nactive_ms = 100"),
    ("heavy-hitters", "threshold_bytes = 500"),
    (
        "load-balancer",
        "policy = \"random\"\nsyn_timeout_s = 1\ntcp_timeout_s = 1\nservices = [{ vip = \"10.0.0.2\", port = 80, \
         backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]",
    ),
    ("policer", "rate_bytes_per_s = 1000\nburst_bytes = 600"),
    ("policer", "rate_bytes_per_s = 1000\nburst_bytes = 600\naction = \"mark\""),
    ("port-knock", "ports = [80, 7000]"),
    ("port-scan", "threshold_ports = 3\nblock_ms = 100\naction = \"drop\""),
    ("rate-limiter", "rate_packets_per_s = 20\nburst_packets = 3\nwhen_full = \"drop\""),
    ("source-statistics", "idle_ms = 20\nactive_ms = 100"),
    ("synthetic", "idle_ms = 20"),
];

fn alone(name: &str, options: &str) -> String {
    format!("[[function]]\nuse = \"{name}\"\nflows = FLOWS\ntable_full = \"FULL\"\n{options}")
}

fn draw_chain(draw: &mut Draw) -> (String, Chain) {
    let text = match draw.below(8) {
        0 => SEVERAL_KEYS.to_owned(),
        1 => ONE_TABLE.to_owned(),
        2 => POOLS.to_owned(),
        3 => NO_HASH.to_owned(),
        _ => {
            let (name, options) = draw.of(&ALONE);
            alone(name, options)
        }
    };
    let flows = draw.of(&[2, 5, 12, 40, 300]);
    let text = filled_in(&text, flows, draw.of(&["evict-oldest", "reject"]));
    let policy = draw.of(&["drop", "pass"]);
    let mut chain = chain(&format!("malformed = \"{policy}\"\n{text}"), &stock::registry());
    // Else the same seed would not be the same run.
    chain.table_seed = draw.below(u64::MAX);
    (text, chain)
}

/// Some are cut short, so that they are malformed; some come again and again, or at the very time at which a flow dies.
fn draw_packets(count: u64, draw: &mut Draw) -> Vec<Packet> {
    let again = draw.of(&[0, 0, 20, 90]);
    let tick_ns = draw.of(&[1, 1, 10_000_000]);
    let mut packets = traffic(draw.below(1 << 40), 4 + draw.below(80), count as usize);
    for index in 0..packets.len() {
        packets[index].time_ns -= packets[index].time_ns % tick_ns;
        if draw.hits(1, 25) {
            let bytes = &mut packets[index].bytes;
            bytes.truncate(draw.below(bytes.len() as u64) as usize);
        }
        if index > 0 && draw.hits(again, 100) {
            packets[index].bytes = packets[index - 1].bytes.clone();
        }
    }
    packets
}

/// What a seed stands for.
struct Scenario {
    text: String,
    sprayed: Sprayed,
    pace: Pace,
}

impl Scenario {
    fn draw(seed: u64) -> Scenario {
        let draw = &mut Draw::new(seed);
        let (text, chain) = draw_chain(draw);
        Scenario::of(text, chain, draw)
    }

    fn of(text: String, chain: Chain, draw: &mut Draw) -> Scenario {
        let cores = draw.of(&[1, 2, 2, 3, 4, 7, 14]);
        // The last is past a table's maintenance.
        let count = draw.of(&[20, 100, 100, 100, 600]);
        let packets = draw_packets(count, draw);
        Scenario { text, sprayed: Sprayed { chain, cores, packets }, pace: Pace::draw(cores, draw) }
    }

    fn compare(&self, history: &History) -> Compared {
        self.sprayed.compare(&self.pace, history)
    }

    fn describe(&self) -> String {
        let Scenario { text, sprayed, pace } = self;
        format!("{} packets on {} cores, {pace:?}:{text}", sprayed.packets.len(), sprayed.cores)
    }
}

/// What all runs together came to.
#[derive(Debug, Default)]
struct Seen {
    runs: u64,
    comparisons: u64,
    replayed: u64,
    after: BTreeSet<u64>,
    flows: FlowCounters,
}

impl Seen {
    fn add(&mut self, compared: &Compared) {
        self.runs += 1;
        self.comparisons += compared.comparisons;
        self.replayed += compared.replayed;
        self.after.extend(&compared.after);
        for flows in &compared.flows {
            self.flows.created += flows.created;
            self.flows.removed += flows.removed;
            self.flows.expired += flows.expired;
            self.flows.evicted += flows.evicted;
            self.flows.rejected += flows.rejected;
        }
    }
}

/// The promise of `scr`: each replica is what a single core is, at every number of packets at which it can be seen.
/// Flows end in each way there is while it is looked at.
#[test]
fn replicas_equal_a_single_core_at_every_batch() {
    let mut seen = Seen::default();
    each_seed("replicas_equal", RUNS, |seed| {
        let scenario = Scenario::draw(seed);
        if is_one_seed() {
            println!("{}", scenario.describe());
        }
        let compared = scenario.compare(&faithful().into());
        assert!(compared.is_same(), "seed {seed}: {:?}\n{}", compared.first, scenario.describe());
        seen.add(&compared);
    });
    println!("{} comparisons, {} packets replayed, {:?}", seen.comparisons, seen.replayed, seen.flows);
    if seen.runs >= RUNS {
        assert!(seen.after.iter().copied().eq(1..=600), "after each number of packets");
        let FlowCounters { removed, expired, evicted, rejected, .. } = seen.flows;
        assert!([removed, expired, evicted, rejected].iter().all(|ends| *ends > RUNS), "{:?}", seen.flows);
    }
}

/// A history that is wrong is seen in the states of nearly all runs, of a chain that minds each packet and its time.
/// How many have a wrong answer, too, shows that looking at answers alone is not enough.
#[derive(Debug, Default)]
struct Caught {
    runs: u64,
    by_states: u64,
    by_answers: u64,
}

/// Minds lengths, times and the order of packets of a source.
const MINDFUL: &str = "
[[function]]
use = \"flow-statistics\"
flows = 64
idle_ms = 20
active_ms = 100
[[function]]
use = \"policer\"
flows = 64
rate_bytes_per_s = 1000
burst_bytes = 600
[[function]]
use = \"conntrack\"
flows = 64
";

const PLANTED_RUNS: u64 = 100;

/// Runs with a history that is wrong in some way; `plant` draws how.
fn planted(toml: &str, plant: impl Fn(&Sprayed, &mut Draw) -> History) -> Caught {
    let mut caught = Caught::default();
    for seed in 0..PLANTED_RUNS {
        let draw = &mut Draw::new(seed);
        let chain = chain(toml, &registry());
        let cores = draw.of(&[2, 3, 7, 14]);
        // Close together, so that what is wrong has not expired when it is looked at; nothing is malformed.
        let packets = traffic(seed, 8, 100);
        let sprayed = Sprayed { chain, cores, packets };
        let pace = Pace::draw(cores, draw);
        let right = sprayed.compare(&pace, &faithful().into());
        let history = plant(&sprayed, draw);
        let is_right = right.is_same();
        let wrong = sprayed.compare(&pace, &history);
        caught.runs += u64::from(is_right);
        caught.by_states += u64::from(wrong.different > 0);
        caught.by_answers += u64::from(wrong.different_answers > 0);
    }
    println!("{caught:?}");
    caught
}

/// Nothing is wrong without the fault, which is seen nearly always.
fn assert_caught(caught: &Caught) {
    assert_eq!(caught.runs, PLANTED_RUNS);
    assert!(caught.by_states >= PLANTED_RUNS * 95 / 100, "{caught:?}");
}

fn memory(memory: impl Fn(&Ask) -> Option<Told> + Send + Sync + 'static) -> Memory {
    Arc::new(memory)
}

fn told(seq: u64) -> Option<Told> {
    Some(Told { headers_of: Some(seq), time_of: seq })
}

#[test]
fn planted_an_item_of_history_that_is_dropped_is_seen() {
    let caught = planted(MINDFUL, |sprayed, draw| {
        let dropped = draw.below(sprayed.packets.len() as u64);
        memory(move |ask| {
            Some(Told { headers_of: (ask.seq != dropped).then_some(ask.seq), time_of: ask.seq })
        })
        .into()
    });
    assert_caught(&caught);
    assert!(caught.by_answers < caught.by_states, "{caught:?}");
}

/// SCR's §3.4 has time in the history for this.
#[test]
fn planted_replay_with_the_live_packets_time_is_seen() {
    let caught = planted(MINDFUL, |_, _| {
        memory(|ask| {
            let until_own = (ask.core + ask.cores - ask.seq % ask.cores) % ask.cores;
            let time_of = (ask.seq + until_own).min(ask.packets - 1);
            Some(Told { headers_of: Some(ask.seq), time_of })
        })
        .into()
    });
    assert_caught(&caught);
}

/// Each own packet changes places with the one before.
#[test]
fn planted_own_packets_ahead_of_their_history_are_seen() {
    let caught = planted(MINDFUL, |_, _| {
        let memory = memory(|ask| {
            let is_own = |seq: u64| seq % ask.cores == ask.core;
            match ask.seq {
                seq if is_own(seq + 1) && seq + 1 < ask.packets => told(seq + 1),
                seq if is_own(seq) && seq > 0 => told(seq - 1),
                seq => told(seq),
            }
        });
        History { own_come_early: true, ..History::from(memory) }
    });
    assert_caught(&caught);
}

/// A core that is told nothing any more stops there, and was right till then.
#[test]
fn a_core_that_is_told_nothing_stops_before_it_is_wrong() {
    let (mut untold, mut whole) = (0, 0);
    each_seed("a_core_that_is_told_nothing", RUNS / 4, |seed| {
        let scenario = Scenario::draw(seed);
        let until = seed * 7 % 200;
        let noticed = memory(move |ask| told(ask.seq).filter(|_| ask.seq < until || ask.core == 0));
        let compared = scenario.compare(&noticed.into());
        assert!(compared.is_same(), "seed {seed}: {:?}\n{}", compared.first, scenario.describe());
        for core in &compared.forgotten {
            match core {
                Some(Forgotten { seq }) => {
                    assert_eq!(*seq, until);
                    untold += 1;
                }
                None => whole += 1,
            }
        }
    });
    if untold + whole >= RUNS / 4 {
        assert!(untold > RUNS / 8 && whole > RUNS / 8, "{untold} were told too little, {whole} were not");
    }
}

/// Counts each flow's packets, with a fault.
struct Counter<const FAULT: u8>;

/// None.
const WELL: u8 = 0;
/// Draws a number from a source that each core has of its own.
const DRAWS_LOCALLY: u8 = 1;
/// Reads the TTL and does not say so.
const HIDES_A_FIELD: u8 = 2;

#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
struct CounterMeta {
    flow: FiveTuple,
    ttl: u32,
}

/// What the next core's source begins with.
static SOURCES: AtomicU64 = AtomicU64::new(1);

impl<const FAULT: u8> NetworkFunction for Counter<FAULT> {
    const ABOUT: About = About {
        name: match FAULT {
            DRAWS_LOCALLY => "draws-locally",
            HIDES_A_FIELD => "hides-a-field",
            _ => "counter",
        },
        ..About::NONE
    };
    const READS: Fields = match FAULT {
        HIDES_A_FIELD => Fields::FIVE_TUPLE.union(Fields::MARKS),
        _ => Fields::FIVE_TUPLE.union(Fields::MARKS).union(Fields::TTL),
    };
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled { make: Self::pool, steps_in_order: Self::steps_in_order, ..Pooled::NONE },
        ..Extras::NONE
    };
    type Key = FiveTuple;
    type Meta = CounterMeta;
    type State = u64;
    /// Where numbers are drawn from.
    type Pool = u64;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Counter)
    }

    fn project(headers: &Headers) -> Option<CounterMeta> {
        headers.is_ip().then(|| CounterMeta { flow: FiveTuple::of(headers), ttl: headers.ttl.into() })
    }

    fn key(meta: &CounterMeta) -> FiveTuple {
        meta.flow
    }

    fn step(&self, flow: &mut Option<u64>, meta: &CounterMeta, cx: &mut Cx<'_, u64>) -> Verdict {
        *cx.pool = cx.pool.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let drawn = if FAULT == DRAWS_LOCALLY { *cx.pool >> 32 } else { cx.random() };
        let sum = flow.unwrap_or(0).wrapping_add(drawn % 1_000);
        *flow = Some(sum.wrapping_add(meta.ttl.into()));
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

impl<const FAULT: u8> Counter<FAULT> {
    /// Without a fault nothing that counts comes from the pool.
    fn steps_in_order(&self) -> bool {
        FAULT == DRAWS_LOCALLY
    }

    fn pool(&self) -> u64 {
        if FAULT == DRAWS_LOCALLY { SOURCES.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }
}

fn registry() -> Registry {
    let mut registry = stock::registry();
    registry.add::<Counter<WELL>>();
    registry.add::<Counter<DRAWS_LOCALLY>>();
    registry.add::<Counter<HIDES_A_FIELD>>();
    registry
}

/// In how many runs replicas differ: in simulation, and with threads, by `verify`. No answer shows it.
fn differ(name: &str) -> (u64, u64) {
    let toml = format!("[[function]]\nuse = \"{name}\"\nflows = 64");
    let (mut simulated, mut verified) = (0, 0);
    for seed in 0..RUNS_OF_A_FUNCTION {
        let mut packets = traffic(seed, 8, 100);
        // Of three packets two are like the one before, so that steps without a look-up are among those compared.
        (1..100).filter(|n| n % 3 > 0).for_each(|n| packets[n].bytes = packets[n - 1].bytes.clone());
        let draw = &mut Draw::new(seed);
        let chain = chain(&toml, &registry());
        let pcap = pcap::of(&packets);
        let plan = Plan::new(&chain, SCR, 3).expect("replicable");
        let found = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs");
        assert_eq!(found.different, 0, "no answer differs");
        verified += u64::from(!found.holds());
        let compared = Sprayed { chain, cores: 3, packets }.compare(&Pace::draw(3, draw), &faithful().into());
        assert_eq!(compared.different_answers, 0, "no answer differs");
        simulated += u64::from(!compared.is_same());
    }
    (simulated, verified)
}

const RUNS_OF_A_FUNCTION: u64 = 20;

#[test]
fn what_is_drawn_from_the_stamp_is_the_same_on_every_replica() {
    assert_eq!(differ("counter"), (0, 0));
}

#[test]
fn planted_a_number_drawn_on_one_core_is_seen() {
    assert_eq!(differ("draws-locally"), (RUNS_OF_A_FUNCTION, RUNS_OF_A_FUNCTION));
}

/// In simulation history holds what the chain says that it reads, as it does where it comes with packets. In one process
/// a function projects each packet itself, whatever it says.
#[test]
fn planted_a_field_that_is_read_and_not_declared_is_seen() {
    assert_eq!(differ("hides-a-field"), (RUNS_OF_A_FUNCTION, 0));
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Counter<WELL>>();
    paceline_conformance::check_reads::<Counter<DRAWS_LOCALLY>>();
}

/// It is seen before it runs on several cores, too.
#[test]
#[should_panic(expected = "read but not declared in READS: TTL")]
fn a_field_that_is_not_declared_is_named() {
    paceline_conformance::check_reads::<Counter<HIDES_A_FIELD>>();
}
