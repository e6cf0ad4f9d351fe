//! A chain with two directions: each function sees the addresses of its own place in both, whatever the strategy, and
//! a small office behind a NAT keeps its connections.

use engine::report::RunReport;
use engine::strategies::{RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE};
use engine::{Chain, Plan, PlanError, Progress, Verified, replay_capture, verify};
use io::Fate;
use io::capture::CaptureReader;
use paceline_conformance::crowded::filled_in;
use paceline_conformance::draw::Draw;
use paceline_conformance::office::{GATEWAY, traffic};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::replicas::{History, Pace, Sprayed, faithful};
use paceline_conformance::{Packet, chain, example, root, run_in_batches};
use strategy::{Every, Rebalancing};
use wire::Headers;

/// TCP connections that the recording gateway, a Linux kernel, saw established.
const ESTABLISHED: u64 = 22;

fn capture() -> Pcap {
    pcap::first_of(&root().join("captures/gateway.pcap"), usize::MAX)
}

/// Runs a chain over the capture on one core: its report, and each packet as it came with what became of it.
fn run(chain: &Chain) -> (RunReport, Vec<(Headers, Fate)>) {
    let plan = Plan::new(chain, SINGLE, 1).expect("any chain");
    let mut reader = capture().open();
    let mut packets = Vec::new();
    let mut see = |seen: &engine::Seen<'_>| {
        let record = reader.next().expect("whole").expect("as many");
        packets.push((wire::parse(record.link, record.data, record.wire_len), seen.fate));
        Ok::<_, ()>(())
    };
    let outcome = replay_capture(chain, &plan, capture().open(), &Progress::default(), &mut see);
    (RunReport::new(chain, &plan, &outcome.expect("runs")), packets)
}

fn event(report: &RunReport, function: &str, name: &str) -> u64 {
    let function = report.functions.iter().find(|f| f.name == function).expect("in the chain");
    function.events.get(name).copied().unwrap_or(0)
}

/// Whether a stranger sent it: the one host that nobody inside talks to.
fn is_from_stranger(headers: &Headers) -> bool {
    headers.src.to_v4() == Some([192, 0, 2, 66])
}

/// No packet of hosts inside is dropped, nor of hosts that they asked.
fn assert_drops_strangers_alone(packets: &[(Headers, Fate)]) {
    for (number, (headers, fate)) in packets.iter().enumerate() {
        // A later fragment has no port, and which host it is for nobody knows.
        let is_legitimate = !is_from_stranger(headers) && !headers.is_fragment();
        assert!(*fate == Fate::Forward || !is_legitimate, "packet {}: {headers:?} {fate:?}", number + 1);
    }
}

#[test]
fn the_nat_alone_forwards_all_that_its_hosts_get_and_send() {
    let mut nat = example("gateway.toml");
    nat.functions.drain(..3);
    let (report, packets) = run(&nat);
    assert!(report.packets > 1_000 && event(&report, "nat", "packets-in") > 300, "{report:?}");
    assert_drops_strangers_alone(&packets);
}

#[test]
fn the_whole_chain_keeps_every_connection_and_drops_strangers_alone() {
    let (report, packets) = run(&example("gateway.toml"));
    assert_drops_strangers_alone(&packets);
    assert_eq!(event(&report, "conntrack", "established"), ESTABLISHED);
    let passed = packets.iter().filter(|(headers, fate)| is_from_stranger(headers) && *fate == Fate::Forward);
    assert_eq!(passed.count(), 0, "no stranger gets in");
    let sides = report.sides.expect("a gateway has two");
    assert_eq!(sides.inside, "10.0.0.0/24");
    assert!(sides.packets_from_outside > 500 && sides.packets_from_outside < report.packets - 300);
}

/// Either order of the file keeps the connections: the tracker sees inside addresses both ways, or outside ones.
#[test]
fn the_tracker_may_stand_on_either_side_of_the_nat() {
    let mut chain = example("gateway.toml");
    chain.functions.remove(0);
    chain.functions.reverse();
    let (report, packets) = run(&chain);
    assert_eq!(event(&report, "conntrack", "established"), ESTABLISHED);
    assert_drops_strangers_alone(&packets);
}

/// Planted: one order for both directions, as it was. Beside a NAT the tracker then sees two connections where there
/// is one.
#[test]
fn one_order_for_both_directions_would_break_every_connection() {
    let mut chain = example("gateway.toml");
    chain.sides = None;
    let (report, _) = run(&chain);
    assert_eq!(event(&report, "conntrack", "established"), 0);
    assert!(report.verdicts.drop > report.packets / 3, "{:?}", report.verdicts);
}

fn gateway(flows: usize, full: &str) -> Chain {
    chain(&filled_in(GATEWAY, flows, full), &stock::registry())
}

/// The gateway as a row of boxes, each with one function, with a cable between any two: a packet from inside goes
/// through them one by one, one from outside the other way. What a chain with two directions has to be.
struct Boxes(Vec<engine::ChainCore>);

impl Boxes {
    fn new(whole: &Chain) -> Boxes {
        let one = |spec: &engine::FunctionSpec| {
            let alone = Chain { functions: vec![spec.clone()], ..whole.clone() };
            alone.core().expect("memory")
        };
        Boxes(whole.functions.iter().map(one).collect())
    }

    fn packet(&mut self, packet: &Packet, is_from_outside: bool) -> (Fate, Vec<u8>) {
        let mut packet = packet.clone();
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        if is_from_outside {
            order.reverse();
        }
        for function in order {
            let (fate, bytes) =
                run_in_batches(&mut self.0[function], &[packet.clone()], &[1]).answers.remove(0);
            packet.bytes = bytes;
            match fate {
                Fate::Forward => {}
                Fate::DropBy { reason, .. } => {
                    return (Fate::DropBy { function: function as u8, reason }, packet.bytes);
                }
                other => return (other, packet.bytes),
            }
        }
        (Fate::Forward, packet.bytes)
    }
}

#[test]
fn a_chain_with_two_directions_is_a_row_of_boxes() {
    let mut kinds = [0; 3];
    for seed in 0..12 {
        // Hairpinned packets too: they come from inside.
        let toml = filled_in(GATEWAY, 1_000, "reject").replace("hairpinning = false", "hairpinning = true");
        let chain = chain(&toml, &stock::registry());
        let packets = traffic(seed, 60, 1_500);
        let ran = run_in_batches(&mut chain.core().expect("memory"), &packets, &[64]);
        let mut boxes = Boxes::new(&chain);
        for (number, (packet, answer)) in packets.iter().zip(&ran.answers).enumerate() {
            let source = &packet.bytes[26..29];
            let is_from_outside = source != [10, 0, 0];
            let (fate, bytes) = boxes.packet(packet, is_from_outside);
            assert_eq!(answer.0, fate, "seed {seed}, packet {number}");
            if fate == Fate::Forward {
                assert_eq!(answer.1, bytes, "seed {seed}, packet {number}");
            }
            kinds[usize::from(fate == Fate::Forward)
                + usize::from(fate == Fate::Forward && is_from_outside)] += 1;
        }
    }
    assert!(kinds.iter().all(|packets| *packets > 1_000), "dropped, from inside, from outside: {kinds:?}");
}

fn verify_plan(chain: &Chain, plan: &Plan, pcap: &Pcap) -> Verified {
    verify(chain, plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs")
}

fn inputs() -> [(&'static str, Pcap); 2] {
    [("the capture", capture()), ("generated", pcap::of(&traffic(5, 300, 4_000)))]
}

const CORES: [usize; 3] = [2, 4, 8];

#[test]
fn sharded_by_the_inside_port_it_is_equal() {
    for chain in [example("gateway.toml"), gateway(1_000, "reject")] {
        for (name, pcap) in inputs() {
            for cores in CORES {
                let plan = Plan::new(&chain, RSS, cores).expect("shardable");
                let fields = plan.hash_fields.expect("a hash");
                assert_eq!((fields.to_string().as_str(), plan.shared.len()), ("source port", 0));
                let verified = verify_plan(&chain, &plan, &pcap);
                assert!(verified.filled.is_empty(), "{:?}", verified.filled);
                assert!(verified.holds(), "{} on {cores} cores, {name}: {verified:#?}", chain.name);
            }
        }
    }
}

#[test]
fn it_is_equal_while_flows_move() {
    for chain in [example("gateway.toml"), gateway(1_000, "evict-oldest")] {
        for (name, pcap) in inputs() {
            for (cores, packets) in [(2, 2), (4, 17), (8, 100)] {
                let plan = Plan::new(&chain, RSSPP, cores).expect("shardable");
                let rebalancing = Rebalancing { every: Every::Packets(packets), update_latency_ns: 0 };
                let simulation = (packets < 100).then_some(packets);
                let plan = Plan { rebalancing: Some(rebalancing), simulation, ..plan };
                let verified = verify_plan(&chain, &plan, &pcap);
                assert!(verified.moves.entries_in > 100, "{name}");
                assert_eq!(verified.out_of_order, Some(0));
                assert!(verified.filled.is_empty(), "{:?}", verified.filled);
                assert!(verified.holds(), "{} on {cores} cores, {name}: {verified:#?}", chain.name);
            }
        }
    }
}

#[test]
fn replicas_are_equal_in_everything_full_tables_too() {
    for (name, pcap) in inputs() {
        for (flows, full) in [(1_000, "reject"), (3, "reject"), (3, "evict-oldest"), (16, "evict-oldest")] {
            let chain = gateway(flows, full);
            for cores in CORES {
                let plan = Plan::new(&chain, SCR, cores).expect("replicable");
                let verified = verify_plan(&chain, &plan, &pcap);
                assert!(verified.allocated.is_empty() && verified.shared.is_empty(), "all is compared");
                assert_eq!(verified.filled.is_empty(), flows == 1_000, "{:?}", verified.filled);
                assert!(verified.holds(), "{flows} {full} on {cores} cores, {name}: {verified:#?}");
            }
        }
    }
}

/// What cores share is stepped in no order that a run repeats, and from outside all stand behind the NAT: nothing but
/// the promise that no two mappings share a port is left to compare.
#[test]
fn where_cores_share_their_tables_what_is_promised_holds() {
    for (name, pcap) in inputs() {
        for cores in CORES {
            let chain = gateway(1_000, "reject");
            let plan = Plan::new(&chain, SHARED, cores).expect("any chain");
            let verified = verify_plan(&chain, &plan, &pcap);
            assert!(verified.is_same(), "{cores} cores, {name}: {verified:#?}");
            assert_eq!(verified.shared.len(), chain.functions.len());
            let behind = |check: &engine::SharedCheck| check.behind.as_deref() == Some("nat");
            assert_eq!(
                verified.shared.iter().filter(|check| behind(check)).count(),
                chain.functions.len() - 1
            );
        }
    }
}

/// A replica that does not hear from which side a packet came steps it in the wrong order.
#[test]
fn history_without_the_side_would_be_seen() {
    let mut found = 0;
    for seed in 0..8 {
        let mut draw = Draw::new(seed);
        let sprayed = Sprayed { chain: gateway(1_000, "reject"), cores: 3, packets: traffic(seed, 30, 400) };
        let pace = Pace::draw(sprayed.cores, &mut draw);
        let compared = sprayed.compare(&pace, &History::from(faithful()));
        assert!(compared.is_same(), "{:?}", compared.first);
        let planted = History { has_no_sides: true, ..History::from(faithful()) };
        found += usize::from(!sprayed.compare(&pace, &planted).is_same());
    }
    assert_eq!(found, 8);
}

fn refusal(toml: &str) -> String {
    match Chain::parse("test", toml, &stock::registry()) {
        Ok(_) => panic!("accepted: {toml}"),
        Err(error) => error.to_string(),
    }
}

const NAT: &str = "[[function]]\nuse = \"nat\"\nexternal = [\"203.0.113.1\"]\ninside = [\"10.0.0.0/8\"]\n";

#[test]
fn chains_that_make_no_sense_are_refused_with_the_reason() {
    let second = |external: &str, inside: &str| {
        format!("{NAT}[[function]]\nuse = \"nat\"\nexternal = [\"{external}\"]\ninside = [\"{inside}\"]\n")
    };
    for (toml, expected) in [
        (
            format!("inside = [\"192.168.0.0/16\"]\n{NAT}"),
            "says that 192.168.0.0/16 is inside, and `nat` that 10.0.0.0/8",
        ),
        (
            "[[function]]\nuse = \"conntrack\"\nopen_from = \"inside\"".to_owned(),
            "add `inside = [\"10.0.0.0/8\"]`",
        ),
        (second("203.0.113.2", "10.1.0.0/16"), "`nat` and `nat#2` both translate 10.1.0.0"),
        (second("203.0.113.1", "192.168.0.0/16"), "both have the external address 203.0.113.1"),
        (second("10.0.0.1", "192.168.0.0/16"), "put `nat#2` before `nat`"),
        (format!("inside = []\n{NAT}"), "nothing is inside"),
        (format!("inside = [\"10.1.2.3/8\"]\n{NAT}"), "write \"10.0.0.0/8\""),
    ] {
        let message = refusal(&toml);
        assert!(message.contains(expected), "{toml}: {message}");
    }
    // One behind the other, and one beside the other.
    for (external, inside) in [("198.51.100.1", "203.0.113.0/24"), ("203.0.113.2", "192.168.0.0/16")] {
        let both = chain(&second(external, inside), &stock::registry());
        assert!(both.sides.is_some());
    }
    // IPv6 prefixes are the chain's own business.
    let chain = chain(&format!("inside = [\"10.0.0.0/8\", \"fd00::/8\"]\n{NAT}"), &stock::registry());
    assert_eq!(chain.sides.expect("two").inside(), "10.0.0.0/8, fd00::/8");
}

/// What is keyed by one end of a packet is an inside host one way and a server the other; and what stands outside of a
/// NAT is keyed by ports that each core gives out otherwise.
#[test]
fn what_sharding_cannot_keep_on_one_core_is_refused_with_the_reason() {
    let sources = "[[function]]\nuse = \"rate-limiter\"\n";
    for (toml, expected) in [
        (format!("[[function]]\nuse = \"ddos\"\n{NAT}"), "`ddos` is keyed by [source address]"),
        (format!("{NAT}[[function]]\nuse = \"conntrack\"\n"), "put `conntrack` first"),
        (format!("{NAT}{sources}"), "`nat` changes header fields"),
    ] {
        let chain = chain(&toml, &stock::registry());
        let error = Plan::new(&chain, RSS, 2).expect_err("no hash");
        assert!(matches!(error, PlanError::Conflict { .. }));
        assert!(error.to_string().contains(expected), "{toml}: {error}");
        for strategy in [SCR, SCR_TURNS, SHARED] {
            Plan::new(&chain, strategy, 2).expect("runs");
        }
    }
}

/// Without sides nothing changes: no mark, one order.
#[test]
fn a_chain_without_an_inside_has_no_sides() {
    let chain = example("edge.toml");
    assert!(chain.sides.is_none());
    let mut reader = CaptureReader::open(root().join("captures/gateway.pcap")).expect("a capture");
    while let Some(record) = reader.next().expect("whole") {
        let headers = chain.headers(record.link, record.data, record.wire_len);
        assert!(!headers.marks.contains(wire::Marks::FROM_OUTSIDE));
    }
}
