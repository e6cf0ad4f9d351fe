//! What comes out never depends on where batches were cut, and is what plain code gives.

use engine::{Chain, ChainCore, FlowCounters, Stage};
use io::Fate;
use nf::{
    About, Cx, Extras, FiveTuple, FlowKey, FullTable, NetworkFunction, OptionError, Pooled, Rig, Verdict,
    hash_bytes,
};
use paceline_conformance::crowded::{ONE_TABLE, SEVERAL_KEYS, filled_in, traffic};
use paceline_conformance::{Packet, chain, office, run_in_batches, tcp, udp6};
use proptest::prelude::*;
use wire::{Fields, Headers, LinkType, Stamp, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

fn packet() -> impl Strategy<Value = (u64, Packet)> {
    let ports = prop_oneof![Just((4000, 80)), Just((80, 4000)), Just((4001, 7000)), Just((4001, 8000))];
    let tcp = (1..6u8, 1..6u8, ports.clone(), any::<u8>(), any::<u32>(), 0..60usize).prop_map(
        |(src, dst, ports, flags, seq, payload)| {
            // Half of the flag bytes as they are in nature.
            let flags =
                if flags & 1 == 0 { [0x02, 0x12, 0x10, 0x18, 0x11, 0x04][flags as usize % 6] } else { flags };
            tcp(0, src, dst, ports, flags, seq >> 20, payload)
        },
    );
    let udp = (1..6u8, 1..6u8, ports, 0..600usize)
        .prop_map(|(src, dst, ports, payload)| udp6(0, src, dst, ports, payload));
    // Mostly close together, now and then past every time-out.
    let gap_ns = prop_oneof![20 => 0..50_000_000u64, 1 => 0..200_000_000_000u64];
    (gap_ns, prop_oneof![3 => tcp, 1 => udp])
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    prop::collection::vec(packet(), 1..400).prop_map(|packets| {
        let mut now_ns = 1_000_000_000;
        let arrive = |(gap_ns, packet): (u64, Packet)| {
            now_ns += gap_ns;
            Packet { time_ns: now_ns, ..packet }
        };
        packets.into_iter().map(arrive).collect()
    })
}

/// Everything that may depend on the order of steps: answers, digests, who left and how, counters, pools'
/// effects.
#[derive(Debug, PartialEq)]
struct After {
    answers: Vec<(Fate, Vec<u8>)>,
    state: Vec<String>,
}

fn after(chain: &Chain, packets: &[Packet], sizes: &[usize]) -> After {
    let mut core = chain.core().expect("memory");
    let ran = run_in_batches(&mut core, packets, sizes);
    After { answers: ran.answers, state: state(&mut core, ran.last) }
}

/// All that can be seen of a core at the end of a run, before and after it is settled.
fn state(core: &mut ChainCore, last: Stamp) -> Vec<String> {
    let look = |core: &ChainCore| {
        let stages = core.stages();
        let line = |stage: Stage<'_>| {
            format!("{:x} {:x} {:?}", stage.digest(last), stage.audit(last), stage.counters())
        };
        stages.map(line).collect::<Vec<_>>()
    };
    let mut state = look(core);
    core.settle(last);
    state.extend(look(core));
    state
}

/// Answers are the same wherever batches are cut: one by one, as large as they get, and as `sizes` say.
fn borders_leave_no_trace(chain: &Chain, packets: &[Packet], sizes: &[usize]) -> Result<(), TestCaseError> {
    let one_by_one = after(chain, packets, &[1]);
    for sizes in [&[64], sizes] {
        let cut = after(chain, packets, sizes);
        let differs = one_by_one.answers.iter().zip(&cut.answers).position(|(one, other)| one != other);
        prop_assert_eq!(differs, None, "the first packet with another answer");
        prop_assert_eq!(&one_by_one.state, &cut.state);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The promise that replication rests on, with tables that overflow and flows that expire.
    #[test]
    fn batch_borders_leave_no_trace(
        packets in packets(),
        sizes in prop::collection::vec(1..=64usize, 1..8),
        flows in prop_oneof![Just(2usize), Just(5), Just(1000)],
        evict in any::<bool>(),
    ) {
        let full = if evict { "evict-oldest" } else { "reject" };
        let toml = filled_in(SEVERAL_KEYS, flows, full);
        borders_leave_no_trace(&chain(&toml, &stock::registry()), &packets, &sizes)?;
    }
}

/// Two share a table whose flows end by steps, and two of another key share one behind a function that
/// drops some of the packets. The last has a pool.
const MIXED: &str = "
[[function]]
use = \"access-list\"
flows = FLOWS
table_full = \"FULL\"
unanswered_timeout_s = 1
tcp_timeout_s = 1
closing_timeout_s = 1
default = \"allow\"
rules = [\"deny tcp from 10.0.0.1 to any port 8000\", \"deny udp from any to any port 7000\"]
[[function]]
use = \"conntrack\"
flows = FLOWS
table_full = \"FULL\"
out_of_window = \"pass\"
tcp_timeout_syn_sent = 1
[[function]]
use = \"ddos\"
flows = FLOWS
table_full = \"FULL\"
threshold_packets = 40
window_ms = 100
block_ms = 100
[[function]]
use = \"heavy-hitters\"
flows = FLOWS
table_full = \"FULL\"
threshold_bytes = 500
[[function]]
use = \"rate-limiter\"
flows = FLOWS
table_full = \"FULL\"
rate_packets_per_s = 20
burst_packets = 3
[[function]]
use = \"lease\"
flows = FLOWS
table_full = \"FULL\"
";

fn long_chain(toml: &str, flows: usize, full: &str) -> Chain {
    let mut registry = stock::registry();
    registry.add::<Lease<true>>();
    registry.add::<Lease<false>>();
    chain(&filled_in(toml, flows, full), &registry)
}

#[test]
fn functions_share_tables_in_these_chains() {
    let groups = |toml: &str| format!("{:?}", long_chain(toml, 7, "reject").groups());
    assert_eq!(groups(ONE_TABLE), "[0..3]");
    assert_eq!(groups(MIXED), "[0..2, 2..3, 3..5, 5..6]");
    assert_eq!(groups(&ONE_TABLE.replacen("FLOWS", "8", 1)), "[0..1, 1..3]");
    // From outside the balancer comes first, and edits what the others are keyed by.
    assert_eq!(groups(&format!("inside = [\"10.0.0.0/24\"]\n{ONE_TABLE}")), "[0..2, 2..3]");
    assert_eq!(groups(office::GATEWAY), "[0..2, 2..3, 3..4]");
}

/// Packets of a long run: four maintenances and more.
const LONG: usize = 4 * 256 + 300;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Functions share tables that are full, nearly full and never full; flows end in each way there is.
    #[test]
    fn batch_borders_leave_no_trace_over_many_maintenances(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1..=64usize, 1..8),
        flows in 4..160u64,
        room in prop_oneof![6 => 2..=40usize, 1 => Just(1000usize)],
        evict in any::<bool>(),
        mixed in any::<bool>(),
    ) {
        let full = if evict { "evict-oldest" } else { "reject" };
        let chain = long_chain(if mixed { MIXED } else { ONE_TABLE }, room, full);
        borders_leave_no_trace(&chain, &traffic(seed, flows, LONG), &sizes)?;
    }

    /// What a function takes from its pool depends on who came before.
    #[test]
    fn batch_borders_leave_no_trace_in_a_pool(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1..=64usize, 1..8),
        flows in 4..80u64,
        room in 2..=40usize,
        evict in any::<bool>(),
    ) {
        let full = if evict { "evict-oldest" } else { "reject" };
        let chain = long_chain("[[function]]\nuse = \"lease\"\nflows = FLOWS\ntable_full = \"FULL\"", room, full);
        borders_leave_no_trace(&chain, &traffic(seed, flows, LONG), &sizes)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Packets of both sides in one batch meet the functions in two orders, each function in the order of arrival.
    #[test]
    fn batch_borders_leave_no_trace_in_a_chain_with_two_directions(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1..=64usize, 1..8),
        flows in 4..80u64,
        room in prop_oneof![6 => 2..=40usize, 1 => Just(1000usize)],
        evict in any::<bool>(),
        with_groups in any::<bool>(),
    ) {
        let full = if evict { "evict-oldest" } else { "reject" };
        let toml = if with_groups {
            // Two share a table, in either order; a balancer edits what it would share.
            format!("inside = [\"10.0.0.0/24\"]\n{}", ONE_TABLE)
        } else {
            office::GATEWAY.replace("hairpinning = false", "hairpinning = true")
        };
        let chain = long_chain(&toml, room, full);
        borders_leave_no_trace(&chain, &office::traffic(seed, flows, LONG), &sizes)?;
    }
}

/// That the traffic does what it is for: flows come and go in each way while functions share a table.
#[test]
fn flows_end_in_each_way() {
    for (toml, full) in
        [(ONE_TABLE, "evict-oldest"), (ONE_TABLE, "reject"), (MIXED, "evict-oldest"), (MIXED, "reject")]
    {
        let chain = long_chain(toml, 12, full);
        let mut core = chain.core().expect("memory");
        run_in_batches(&mut core, &traffic(1, 60, LONG), &[64]);
        let mut sum = FlowCounters::default();
        for stage in core.stages() {
            let FlowCounters { created, removed, expired, evicted, rejected, .. } = stage.counters().flows;
            sum.created += created;
            sum.removed += removed;
            sum.expired += expired;
            sum.evicted += evicted;
            sum.rejected += rejected;
        }
        assert!(sum.created > 300 && sum.expired > 100, "{sum:?}");
        assert!(toml == ONE_TABLE || sum.removed > 5, "{sum:?}");
        assert!(if full == "reject" { sum.rejected } else { sum.evicted } > 50, "{full}: {sum:?}");
    }
}

/// Planted: a core that gives blocks back where its batches end.
#[test]
fn blocks_given_back_where_batches_end_would_leave_a_trace() {
    let run = |chain: &Chain, packets: &[Packet], size: usize, settles: bool| {
        let mut core = chain.core().expect("memory");
        let (mut answers, mut last) = (Vec::new(), Stamp::default());
        for batch in packets.chunks(size) {
            let ran = run_in_batches(&mut core, batch, &[size]);
            last = ran.last;
            answers.extend(ran.answers);
            if settles {
                core.settle(last);
            }
        }
        After { answers, state: state(&mut core, last) }
    };
    let packets = traffic(2, 60, LONG);
    for full in ["evict-oldest", "reject"] {
        // Each batch here begins to count anew, so nothing is drawn by a packet's number.
        let chain = long_chain(&ONE_TABLE.replace("random", "maglev"), 30, full);
        let differs = |settles| run(&chain, &packets, 1, settles) != run(&chain, &packets, 64, settles);
        assert_eq!((differs(false), differs(true)), (false, true), "{full}");
    }
}

/// Planted: a function that draws from a pool and says that the order does not matter.
#[test]
fn a_pool_that_is_not_used_in_order_would_leave_a_trace() {
    for (name, differs) in [("lease", false), ("lease-in-any-order", true)] {
        let chain = long_chain(&format!("[[function]]\nuse = \"{name}\""), 0, "");
        let packets = traffic(3, 60, LONG);
        assert_eq!(after(&chain, &packets, &[1]) != after(&chain, &packets, &[64]), differs, "{name}");
    }
}

/// Leases each flow one of few numbers, and writes it into the packet.
struct Lease<const IN_ORDER: bool>;

/// Numbers that there are.
const LEASES: u8 = 24;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
struct LeaseMeta {
    flow: FiveTuple,
    ends: u32,
}

impl<const IN_ORDER: bool> NetworkFunction for Lease<IN_ORDER> {
    const ABOUT: About = About {
        name: if IN_ORDER { "lease" } else { "lease-in-any-order" },
        drop_reasons: &["all-leased", "table-full"],
        ..About::NONE
    };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::TCP_FLAGS).union(Fields::MARKS);
    const EDITS: Fields = Fields::TTL;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: Self::pool,
            steps_in_order: Self::steps_in_order,
            gone: Self::gone,
            ..Pooled::NONE
        },
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        ..Extras::NONE
    };
    type Key = FiveTuple;
    type Meta = LeaseMeta;
    type State = u8;
    /// The free numbers, the next one last.
    type Pool = Vec<u8>;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Lease)
    }

    fn project(headers: &Headers) -> Option<LeaseMeta> {
        let ends = headers.tcp_flags & (tcp_flags::FIN | tcp_flags::RST);
        headers.is_ip().then(|| LeaseMeta { flow: FiveTuple::of(headers), ends: ends.into() })
    }

    fn key(meta: &LeaseMeta) -> FiveTuple {
        meta.flow
    }

    fn step(&self, flow: &mut Option<u8>, meta: &LeaseMeta, cx: &mut Cx<'_, Vec<u8>>) -> Verdict {
        let Some(number) = flow.or_else(|| cx.pool.pop()) else { return Verdict::Drop(0) };
        cx.edits.set_ttl(number);
        *flow = Some(number);
        if meta.ends != 0 {
            cx.pool.push(number);
            *flow = None;
        }
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u8) -> u64 {
        30_000_000
    }
}

impl<const IN_ORDER: bool> Lease<IN_ORDER> {
    fn pool(&self) -> Vec<u8> {
        (1..=LEASES).collect()
    }

    fn steps_in_order(&self) -> bool {
        IN_ORDER
    }

    fn rejected(&self, number: &u8, _: &LeaseMeta, cx: &mut Cx<'_, Vec<u8>>) -> Verdict {
        cx.pool.push(*number);
        Verdict::Drop(1)
    }

    fn gone(&self, _: &FiveTuple, number: &u8, pool: &mut Vec<u8>) {
        pool.push(*number);
    }
}

/// One function in the engine and in the rig.
fn agree<F: NetworkFunction>(packets: &[Packet]) -> Result<(), TestCaseError> {
    let mut registry = stock::registry();
    registry.add::<F>();
    let chain = chain(&format!("[[function]]\nuse = \"{}\"", F::ABOUT.name), &registry);
    let mut core = chain.core().expect("memory");
    let ran = run_in_batches(&mut core, packets, &[64, 3]);

    let function = F::new(serde::Deserialize::deserialize(Nothing).expect("defaults")).expect("defaults");
    let mut rig = Rig::new(function);
    for (packet, (fate, _)) in packets.iter().zip(&ran.answers) {
        let headers = wire::parse(LinkType::Ethernet, &packet.bytes, packet.bytes.len() as u32);
        let expected = match rig.packet(packet.time_ns, &headers) {
            Verdict::Forward => Fate::Forward,
            Verdict::Drop(reason) => Fate::DropBy { function: 0, reason },
            Verdict::TransmitBack => Fate::TransmitBack,
            Verdict::Host => Fate::Host,
        };
        prop_assert_eq!(*fate, expected);
    }
    let stage = core.stage(0);
    for (name, count) in F::ABOUT.events.iter().zip(stage.counters().events) {
        prop_assert_eq!(rig.event(name), *count, "{}", name);
    }
    let flows: u64 = rig.flows().map(|(key, state)| flow_digest::<F>(key, state)).fold(0, u64::wrapping_add);
    prop_assert_eq!(stage.digest(ran.last), flows);
    Ok(())
}

fn flow_digest<F: NetworkFunction>(key: &F::Key, state: &F::State) -> u64 {
    hash_bytes(state.as_bytes(), hash_bytes(key.as_bytes(), 0))
}

/// Options that say nothing.
struct Nothing;

impl<'de> serde::Deserializer<'de> for Nothing {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_map(serde::de::value::MapDeserializer::new(std::iter::empty::<(&str, &str)>()))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_engine_gives_what_plain_code_gives(packets in packets()) {
        agree::<nfs::AccessList>(&packets)?;
        agree::<nfs::Conntrack>(&packets)?;
        agree::<nfs::Ddos>(&packets)?;
        agree::<nfs::DestinationPolicer>(&packets)?;
        agree::<nfs::Firewall>(&packets)?;
        agree::<nfs::FlowStatistics>(&packets)?;
        agree::<nfs::HeavyHitters>(&packets)?;
        agree::<nfs::Policer>(&packets)?;
        agree::<nfs::PortKnock>(&packets)?;
        agree::<nfs::PortScan>(&packets)?;
        agree::<nfs::RateLimiter>(&packets)?;
        agree::<nfs::SourceStatistics>(&packets)?;
        agree::<nfs::Synthetic>(&packets)?;
    }
}

/// On a line with one packet a second, too, the sweep finds the dead: a port is given to another in time.
#[test]
fn ports_of_dead_mappings_come_back_on_a_quiet_line() {
    let toml = "
[[function]]
use = \"nat\"
inside = [\"10.0.0.8/29\"]
external = [\"10.0.0.2\"]
ports = [70, 71]
";
    const SECOND: u64 = 1_000_000_000;
    let of_others = |time_ns| tcp(time_ns, 4, 5, (1, 2), 16, 0, 0);
    // The sweep's hand is past the first blocks when both ports are taken.
    let mut packets: Vec<_> = (0..256).map(|_| of_others(SECOND)).collect();
    packets.extend([8, 9].map(|host| tcp(SECOND, host, 3, (4000, 80), 2, 0, 0)));
    packets.extend((2..7_000).map(|second| of_others(second * SECOND)));
    packets.push(tcp(7_000 * SECOND, 10, 3, (4000, 80), 2, 0, 0));
    let chain = chain(toml, &stock::registry());
    let ran = run_in_batches(&mut chain.core().expect("memory"), &packets, &[64]);
    assert_eq!(ran.answers.last().map(|answer| answer.0), Some(Fate::Forward));
}

/// A step that is refused has not happened: nothing that it counted stays.
#[test]
fn a_refused_step_counts_nothing() {
    let toml = "
[[function]]
use = \"nat\"
flows = 1
inside = [\"10.0.0.8/29\"]
external = [\"10.0.0.2\"]
";
    let packets = [8, 9].map(|host| tcp(1, host, 3, (4000, 80), 2, 0, 0));
    let chain = chain(toml, &stock::registry());
    let mut core = chain.core().expect("memory");
    run_in_batches(&mut core, &packets, &[64]);
    assert_eq!(core.stage(0).counters().events, [1, 0, 1, 0, 0, 0]);
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Lease<true>>();
}
