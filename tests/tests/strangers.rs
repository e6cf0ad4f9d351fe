//! What strangers can fill, and what happens then: the table of docs/floods.md, function by function.
//!
//! Each function stands alone with a small table. A host is known before the flood, forged sources send many packets,
//! each its first, and then the known host and a new one go on.

use std::net::Ipv4Addr;

use engine::report::RunReport;
use engine::strategies::SINGLE;
use engine::{Chain, ChainCore, Plan, Progress, replay_capture};
use io::Fate;
use paceline_conformance::office::{icmp_error, packet};
use paceline_conformance::{Packet, chain, example, pcap, run_in_batches};

const CAPACITY: usize = 512;
/// Several tables full, in a fifth of a second.
const FLOOD: u32 = 8 * CAPACITY as u32;
const SECOND_NS: u64 = 1_000_000_000;

const SYN: Option<u8> = Some(0x02);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GATE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// A source that nobody has seen before.
fn forged(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 + number)
}

/// A function, who fills its table, and whether the packets of a new host pass then.
struct Case {
    name: &'static str,
    options: &'static str,
    /// Whether the flood leaves state.
    fills: bool,
    passes_when_full: bool,
}

const fn case(name: &'static str, options: &'static str, fills: bool, passes_when_full: bool) -> Case {
    Case { name, options, fills, passes_when_full }
}

const CASES: [Case; 19] = [
    case("access-list", "rules = [\"allow tcp from 10.0.0.0/8 to any\"]", false, true),
    case("access-list", "default = \"allow\"", true, false),
    case("access-list", "default = \"allow\"\nwhen_full = \"pass\"", true, true),
    case("conntrack", "", true, false),
    case("conntrack", "when_full = \"pass\"", true, true),
    case("ddos", "", true, true),
    case("ddos", "when_full = \"drop\"", true, false),
    case("firewall", "rules = [\"accept tcp from 10.0.0.0/8 to any\"]", false, true),
    case("firewall", "default = \"accept\"", true, false),
    case("firewall", "default = \"accept\"\nwhen_full = \"pass\"", true, true),
    case("flow-statistics", "", true, true),
    case("heavy-hitters", "threshold_bytes = 1000", true, true),
    case(
        "load-balancer",
        "services = [{ vip = \"192.0.2.1\", port = 80, backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]",
        true,
        true,
    ),
    case("nat", "inside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]", false, true),
    case("policer", "rate_bytes_per_s = 40\nburst_bytes = 2000", true, true),
    case("port-knock", "", true, false),
    case("port-scan", "", true, true),
    case("rate-limiter", "rate_packets_per_s = 1\nburst_packets = 5", true, true),
    case("source-statistics", "", true, true),
];

fn core(Case { name, options, .. }: &Case, full: &str) -> ChainCore {
    let toml =
        format!("[[function]]\nuse = \"{name}\"\nflows = {CAPACITY}\ntable_full = \"{full}\"\n{options}\n");
    chain(&toml, &stock::registry()).core().expect("memory")
}

/// What a host does that is let in: it opens a connection, and where it has to knocks before.
fn begins(name: &str, time_ns: u64, from: Ipv4Addr) -> Vec<Packet> {
    let ports: &[u16] = if name == "port-knock" { &[7000, 8000, 9000] } else { &[80] };
    ports.iter().map(|port| packet(time_ns, (from, 4_000), (SERVER, *port), SYN, 7, 0)).collect()
}

fn flood(name: &str, time_ns: u64) -> Vec<Packet> {
    let to = match name {
        "nat" => |number: u32| (GATE, 1_024 + number as u16),
        "port-knock" => |_| (SERVER, 7_000),
        _ => |_| (SERVER, 80),
    };
    let at = |number: u32| time_ns + u64::from(number) * SECOND_NS / 5 / u64::from(FLOOD);
    (0..FLOOD).map(|number| packet(at(number), (forged(number), 4_000), to(number), SYN, 7, 0)).collect()
}

/// Whether the last of these packets passes.
fn pass(core: &mut ChainCore, packets: &[Packet]) -> bool {
    run_in_batches(core, packets, &[64]).answers.last().is_some_and(|(fate, _)| *fate == Fate::Forward)
}

#[test]
fn a_flood_of_forged_sources_fills_what_the_table_in_the_docs_says() {
    for case in &CASES {
        for full in ["reject", "evict-oldest"] {
            let Case { name, fills, passes_when_full, .. } = *case;
            let mut core = core(case, full);
            assert!(pass(&mut core, &begins(name, SECOND_NS, host(1))), "{name} {full}: nobody floods yet");
            run_in_batches(&mut core, &flood(name, 2 * SECOND_NS), &[64]);
            let counters = core.stage(0).counters();
            let (live, refused) = (counters.live, counters.flows.rejected + counters.flows.evicted);
            match fills {
                true => assert!(
                    live == CAPACITY && refused > u64::from(FLOOD) / 2,
                    "{name} {full}: {live} {refused}"
                ),
                false => assert!(live <= 1 && refused == 0, "{name} {full}: {live} live, {refused} refused"),
            }
            let soon_ns = 2 * SECOND_NS + SECOND_NS / 5;
            let port = if name == "port-knock" { 22 } else { 80 };
            let goes_on = packet(soon_ns, (host(1), 4_000), (SERVER, port), SYN, 7, 0);
            assert!(pass(&mut core, &[goes_on]), "{name} {full}: a host that was known goes on");
            let passes = pass(&mut core, &begins(name, soon_ns, host(2)));
            assert_eq!(passes, passes_when_full || full == "evict-oldest", "{name} {full}: a new host");
        }
    }
}

/// A source that is held back stays so, however many others come: its state has the latest deadline.
#[test]
fn no_flood_frees_a_source_that_is_held_back() {
    for (name, options) in [
        ("ddos", "threshold_packets = 20\nwindow_ms = 1000\nblock_ms = 60000"),
        ("policer", "rate_bytes_per_s = 40\nburst_bytes = 1000"),
        ("destination-policer", "rate_bytes_per_s = 40\nburst_bytes = 1000"),
        ("port-scan", "action = \"drop\""),
        ("rate-limiter", "rate_packets_per_s = 1\nburst_packets = 20"),
    ] {
        for full in ["reject", "evict-oldest"] {
            let mut core = core(&case(name, options, true, true), full);
            let many = |time_ns: u64| -> Vec<Packet> {
                let port = |number: u16| if name == "port-scan" { number } else { 80 };
                (1..60)
                    .map(|number| packet(time_ns, (host(1), 4_000), (SERVER, port(number)), SYN, 7, 0))
                    .collect()
            };
            assert!(!pass(&mut core, &many(SECOND_NS)), "{name} {full}: held back");
            // To as many destinations as there are sources.
            let time_ns = |number: u32| SECOND_NS + u64::from(number) * 10_000;
            let flood =
                |number: u32| packet(time_ns(number), (forged(number), 1), (forged(number), 2), SYN, 7, 0);
            run_in_batches(&mut core, &(0..FLOOD).map(flood).collect::<Vec<_>>(), &[64]);
            assert!(
                !pass(&mut core, &many(SECOND_NS + SECOND_NS / 5)[..1]),
                "{name} {full}: still held back"
            );
        }
    }
}

fn gateway() -> Chain {
    example("gateway.toml")
}

/// Runs packets through the chain on one core: what became of each.
fn fates(chain: &Chain, packets: &[Packet]) -> (Vec<Fate>, RunReport) {
    let plan = Plan::new(chain, SINGLE, 1).expect("any chain");
    let mut fates = Vec::new();
    let mut see = |seen: &engine::Seen<'_>| {
        fates.push(seen.fate);
        Ok::<_, ()>(())
    };
    let outcome = replay_capture(chain, &plan, pcap::of(packets).open(), &Progress::default(), &mut see);
    (fates, RunReport::new(chain, &plan, &outcome.expect("runs")))
}

/// 50 hosts inside open a connection each.
fn open_50(time_ns: u64) -> Vec<Packet> {
    let open = |number: u16| packet(time_ns, (host(50), 30_000 + number), (SERVER, 443), SYN, 7, 0);
    (0..50).map(open).collect()
}

/// 70,000 SYNs that a rule denies, ten thousand a second: more than the table holds.
#[test]
fn denied_syns_keep_nobody_out() {
    let list = "[[function]]\nuse = \"access-list\"\nflows = 65536\nrules = [\"allow any from 10.0.0.0/24 to any\"]\n";
    let list = chain(list, &stock::registry());
    let mut packets: Vec<Packet> = (0..70_000)
        .map(|number| {
            packet(SECOND_NS + u64::from(number) * 100_000, (forged(number), 9), (host(1), 22), SYN, 7, 0)
        })
        .collect();
    packets.extend(open_50(8 * SECOND_NS));
    for chain in [list, gateway()] {
        let (fates, _) = fates(&chain, &packets);
        let (flood, good) = fates.split_at(70_000);
        assert!(flood.iter().all(|fate| *fate != Fate::Forward), "{}", chain.name);
        assert!(good.iter().all(|fate| *fate == Fate::Forward), "{}: {good:?}", chain.name);
    }
}

/// A mapping of the NAT lets everybody in, and `access-list` lets in hosts that the host inside asked: 8,000 small datagrams
/// a second for ten seconds leave no state that lasts.
#[test]
fn a_flood_at_an_open_mapping_keeps_nobody_out() {
    let dns = (SERVER, 53);
    let mut packets = vec![packet(SECOND_NS, (host(2), 5_000), dns, None, 0, 20)];
    packets.extend((0..80_000).map(|number| {
        packet(SECOND_NS + u64::from(number) * 125_000, (forged(number), 53), (GATE, 5_000), None, 0, 1)
    }));
    packets.push(packet(11 * SECOND_NS, dns, (GATE, 5_000), None, 0, 20));
    packets.extend(open_50(11 * SECOND_NS));
    let (fates, report) = fates(&gateway(), &packets);
    assert!(fates[1..=80_000].iter().all(|fate| *fate != Fate::Forward));
    assert!(fates[80_001..].iter().all(|fate| *fate == Fate::Forward), "{:?}", &fates[80_001..]);
    assert!(report.functions.iter().all(|function| function.flows.rejected == 0), "{:?}", report.drops);
}

/// Where functions share a table, a function that is refused says which one filled it.
#[test]
fn a_report_says_which_function_filled_a_table_that_others_share() {
    let toml = "[[function]]\nuse = \"access-list\"\nflows = 64\ndefault = \"allow\"\n\
                [[function]]\nuse = \"conntrack\"\nflows = 64\npick_up = false\n";
    let mut packets: Vec<Packet> = (0..200)
        .map(|number| packet(SECOND_NS, (forged(number), 9), (host(1), 53), Some(0x10), 7, 0))
        .collect();
    packets.extend(open_50(SECOND_NS));
    let open = "[[function]]\nuse = \"access-list\"\nflows = 64\ndefault = \"allow\"\nwhen_full = \"pass\"\n\
                [[function]]\nuse = \"conntrack\"\nflows = 64\npick_up = false\n";
    let (_, report) = fates(&chain(open, &stock::registry()), &packets);
    let note = "`conntrack` found the table full for 50 new flows and has 0 in it: it shares the table with \
                `access-list`, which has 64";
    assert!(report.oddities.iter().any(|oddity| oddity.starts_with(note)), "{:?}", report.oddities);
    assert!(report.to_string().contains(note));
    // A function that fills its own table needs no such word.
    let (_, report) = fates(&chain(toml, &stock::registry()), &packets);
    assert!(report.functions[0].flows.rejected > 0);
    assert!(
        report.oddities.iter().all(|oddity| !oddity.contains("shares the table")),
        "{:?}",
        report.oddities
    );
}

/// RFC 1191: what a router outside says about an open connection passes, and nothing else from it does.
#[test]
fn a_router_outside_is_heard_about_open_connections_alone() {
    let router = Ipv4Addr::new(100, 64, 0, 9);
    let (inside, server) = ((host(2), 40_000), (SERVER, 443));
    let mapped = (GATE, 40_000);
    let packets = [
        packet(SECOND_NS, inside, server, SYN, 7, 0),
        // Acknowledges 8: see `packet`.
        packet(SECOND_NS, server, mapped, Some(0x12), 1_144, 0),
        icmp_error(SECOND_NS, router, mapped, server, false),
        icmp_error(SECOND_NS, SERVER, mapped, server, false),
        icmp_error(SECOND_NS, router, mapped, (SERVER, 444), false),
        icmp_error(SECOND_NS, router, mapped, (forged(1), 443), false),
        icmp_error(SECOND_NS, router, mapped, server, true),
    ];
    let (fates, report) = fates(&gateway(), &packets);
    let passed: Vec<bool> = fates.iter().map(|fate| *fate == Fate::Forward).collect();
    assert_eq!(passed, [true, true, true, true, false, false, false], "{:?}", report.drops);
    assert_eq!(report.functions[0].flows.created, 1, "errors leave nothing behind");
}

/// Datagrams and pings fill a tracker's table as SYNs do, and an open connection outlives them; in strict mode those of
/// strangers leave nothing, and an inside host's own pass both ways.
#[test]
fn a_flood_of_datagrams_cuts_no_connection_and_fills_no_strict_tracker() {
    let ack = Some(0x10);
    let flood = |number: u32| packet(time(number), (forged(number), 53), (host(9), 5_000), None, 0, 1);
    fn time(number: u32) -> u64 {
        2 * SECOND_NS + u64::from(number) * 10_000
    }
    let flood: Vec<Packet> = (0..FLOOD).map(flood).collect();
    let (inside, server) = ((host(1), 4_000), (SERVER, 80));
    let open = [
        packet(SECOND_NS, inside, server, SYN, 6, 0),
        packet(SECOND_NS, server, inside, Some(0x12), 1, 0),
        packet(SECOND_NS, inside, server, ack, 7, 0),
    ];
    for (full, options, live) in
        [("evict-oldest", "", CAPACITY), ("reject", "", CAPACITY), ("reject", "open_from = \"inside\"", 2)]
    {
        let toml = format!(
            "inside = [\"10.0.0.0/8\"]\n[[function]]\nuse = \"conntrack\"\nflows = {CAPACITY}\npick_up = false\n\
             out_of_window = \"pass\"\ntable_full = \"{full}\"\n{options}\n"
        );
        let mut core = chain(&toml, &stock::registry()).core().expect("memory");
        assert!(pass(&mut core, &open), "{full}");
        let question = packet(SECOND_NS, (host(2), 5_353), (SERVER, 53), None, 0, 1);
        assert!(pass(&mut core, &[question]), "{full}");
        let passed = run_in_batches(&mut core, &flood, &[64]).answers;
        let passed = passed.iter().filter(|(fate, _)| *fate == Fate::Forward).count();
        let is_strict = !options.is_empty();
        assert_eq!(core.stage(0).counters().live, live, "{full} {options}");
        assert!(if is_strict { passed == 0 } else { passed >= CAPACITY - 2 }, "{full} {options}: {passed}");
        let goes_on = packet(time(FLOOD), inside, server, ack, 7, 0);
        assert!(pass(&mut core, &[goes_on]), "{full} {options}: an open connection goes on");
        let answer = packet(time(FLOOD), (SERVER, 53), (host(2), 5_353), None, 0, 1);
        // Under eviction the question was the next to end, and its answer is a new flow.
        assert!(pass(&mut core, &[answer]), "{full} {options}: an answer");
    }
}
