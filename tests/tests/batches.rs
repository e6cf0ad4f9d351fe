//! What comes out never depends on where batches were cut, and is what plain code gives.

use engine::{Chain, Registry};
use io::Fate;
use nf::{NetworkFunction, Rig, Verdict};
use paceline_conformance::{Packet, chain, run_in_batches, tcp, udp6};
use proptest::prelude::*;
use wire::LinkType;

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

/// Everything that may depend on the order of steps: digests, counters, pools' effects.
fn after(chain: &Chain, packets: &[Packet], sizes: &[usize]) -> (Vec<(Fate, Vec<u8>)>, Vec<String>) {
    let mut core = chain.core().expect("memory");
    let ran = run_in_batches(&mut core, packets, sizes);
    let mut state = Vec::new();
    for stage in core.stages() {
        let counters = stage.counters();
        state.push(format!("{:x} {counters:?}", stage.digest(ran.last)));
    }
    core.settle(ran.last);
    state.extend(core.stages().map(|stage| format!("{:?}", stage.counters())));
    (ran.answers, state)
}

const OPTIONS: &str = "
[[function]]
use = \"access-list\"
flows = FLOWS
table_full = \"FULL\"
default = \"allow\"
rules = [\"deny tcp from 10.0.0.1 to any port 8000\", \"deny udp from any to any port 7000\"]
[[function]]
use = \"conntrack\"
flows = FLOWS
table_full = \"FULL\"
[[function]]
use = \"ddos\"
flows = FLOWS
table_full = \"FULL\"
threshold_packets = 20
window_ms = 1000
block_ms = 1000
[[function]]
use = \"policer\"
flows = FLOWS
table_full = \"FULL\"
rate_bytes_per_s = 1000
burst_bytes = 600
action = \"mark\"
[[function]]
use = \"heavy-hitters\"
flows = FLOWS
table_full = \"FULL\"
threshold_bytes = 500
[[function]]
use = \"port-knock\"
flows = FLOWS
table_full = \"FULL\"
ports = [80, 7000]
[[function]]
use = \"load-balancer\"
flows = FLOWS
table_full = \"FULL\"
policy = \"random\"
services = [{ vip = \"10.0.0.2\", port = 80, backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]
";

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
        let toml = OPTIONS.replace("FLOWS", &flows.to_string()).replace("FULL", full);
        let chain = chain(&toml, &Registry::stock());
        let one_by_one = after(&chain, &packets, &[1]);
        prop_assert_eq!(&one_by_one, &after(&chain, &packets, &[64]));
        prop_assert_eq!(&one_by_one, &after(&chain, &packets, &sizes));
    }
}

/// One function in the engine and in the rig.
fn agree<F: NetworkFunction>(packets: &[Packet]) -> Result<(), TestCaseError> {
    let mut registry = Registry::stock();
    registry.add::<F>();
    let chain = chain(&format!("[[function]]\nuse = \"{}\"", F::NAME), &registry);
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
    for (name, count) in F::EVENTS.iter().zip(stage.counters().events) {
        prop_assert_eq!(rig.event(name), *count, "{}", name);
    }
    let flows: u64 = rig.flows().map(|(key, state)| flow_digest::<F>(key, state)).fold(0, u64::wrapping_add);
    prop_assert_eq!(stage.digest(ran.last), flows);
    Ok(())
}

fn flow_digest<F: NetworkFunction>(key: &F::Key, state: &F::State) -> u64 {
    use zerocopy::IntoBytes;
    nf::hash_bytes(state.as_bytes(), nf::hash_bytes(key.as_bytes(), 0))
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
