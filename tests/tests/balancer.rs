//! A connection stays with its backend, whatever becomes of its entry in the table: refused, let in later, evicted.

use std::collections::BTreeMap;

use engine::strategies::{DYSSECT, HYBRID, RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE};
use engine::{Chain, Plan, Progress, verify};
use etherparse::PacketBuilder;
use paceline_conformance::draw::Draw;
use paceline_conformance::{Packet, chain, pcap, run_in_batches, tcp, udp6};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN_ACK: u8 = 0x11;
const RST: u8 = 0x04;

/// Both services with five backends each, given by their MAC addresses 02::1 to 02::5. One takes no new flows.
fn text(policy: &str, flows: usize, full: &str) -> String {
    let backend = |last| format!("{{ mac = \"02:00:00:00:00:0{last}\", weight = {last} }}");
    let active: Vec<String> = (1..=4).map(backend).collect();
    let backends = format!("{}, {{ mac = \"02:00:00:00:00:05\", state = \"drain\" }}", active.join(", "));
    format!(
        "[[function]]\nuse = \"load-balancer\"\nflows = {flows}\ntable_full = \"{full}\"\npolicy = \"{policy}\"\n\
         syn_timeout_s = 10\ntcp_timeout_s = 10\nclosing_timeout_s = 10\nudp_timeout_s = 10\n\
         services = [\n{{ vip = \"10.0.0.200\", port = 80, backends = [{backends}] }},\n\
         {{ vip = \"fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdc8\", port = 53, protocol = \"udp\", backends = [{backends}] }}]"
    )
}

fn balancer(policy: &str, flows: usize, full: &str) -> Chain {
    chain(&text(policy, flows, full), &stock::registry())
}

/// Connections of which between one and 20 are open at a time, so that a small table is full now, and has room then.
/// None is silent for longer than its time-out. With each packet goes the number of its connection.
fn connections(seed: u64, count: usize) -> Vec<(u32, Packet)> {
    let mut draw = Draw::new(seed);
    let (mut now_ns, mut open, mut next, mut most) = (SECOND_NS, Vec::new(), 0_u32, 1);
    let mut packets = Vec::new();
    while packets.len() < count {
        now_ns += draw.below(200_000_000);
        if draw.below(20) == 0 {
            most = 1 + draw.below(20) as usize;
        }
        if open.len() < most {
            open.push((next, now_ns, 0_u32));
            next += 1;
        }
        let oldest = (0..open.len()).min_by_key(|at| open[*at].1).unwrap_or(0);
        let at = if draw.below(3) == 0 { oldest } else { draw.below(open.len() as u64) as usize };
        let (number, last_ns, sent) = &mut open[at];
        let (client, port) = (1 + (*number / 400 % 190) as u8, 10_000 + (*number % 400) as u16);
        let is_last = now_ns - *last_ns > 8 * SECOND_NS;
        let packet = match *number % 2 {
            0 => {
                // A SYN may come several times.
                let flags = match *sent {
                    0 => SYN,
                    1..3 if draw.below(2) == 0 => SYN,
                    _ if is_last && draw.below(4) == 0 => RST,
                    _ if is_last => FIN_ACK,
                    _ => ACK,
                };
                tcp(now_ns, client, 200, (port, 80), flags, 1, 0)
            }
            _ => udp6(now_ns, client, 200, (port, 53), 10),
        };
        packets.push((*number, packet));
        *last_ns = now_ns;
        *sent += 1;
        if is_last || open.len() > most {
            open.swap_remove(at);
        }
    }
    packets
}

/// The connections that were sent to more than one backend, of how many.
fn torn(chain: &Chain, connections: &[(u32, Packet)]) -> (usize, usize) {
    let packets: Vec<Packet> = connections.iter().map(|(_, packet)| packet.clone()).collect();
    let mut core = chain.core().expect("memory");
    let ran = run_in_batches(&mut core, &packets, &[1, 7, 64]);
    let mut backends: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for ((number, _), (_, bytes)) in connections.iter().zip(&ran.answers) {
        assert!((1..5).contains(&bytes[5]), "sent to a backend that takes flows");
        backends.entry(*number).or_default().push(bytes[5]);
    }
    let is_torn = |backends: &&Vec<u8>| backends.iter().any(|backend| *backend != backends[0]);
    (backends.values().filter(is_torn).count(), backends.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_connection_stays_with_its_backend_in_a_table_that_is_full_at_times(
        seed in any::<u64>(), flows in 1..24_usize,
    ) {
        let connections = connections(seed, 1_500);
        for (policy, full) in [
            ("maglev", "reject"),
            ("maglev", "evict-oldest"),
            ("random", "reject"),
            ("random", "evict-oldest"),
            ("round-robin", "reject"),
        ] {
            let (torn, of) = torn(&balancer(policy, flows, full), &connections);
            prop_assert_eq!(torn, 0, "of {} under {} with {}", of, policy, full);
        }
    }
}

/// A report from a user: 20 connections that meet a full table, which has room again a little later.
#[test]
fn connections_that_began_in_a_full_table_go_on_when_it_has_room() {
    for policy in ["maglev", "random", "round-robin"] {
        let mut packets = Vec::new();
        let mut push = |time_s: u64, number: u32, is_udp: bool| {
            let (time_ns, port) = (time_s * SECOND_NS, 20_000 + number as u16);
            packets.push((
                number,
                match is_udp {
                    true => udp6(time_ns, 1, 200, (port, 53), 10),
                    false => tcp(time_ns, 1, 200, (port, 80), if time_s < 10 { SYN } else { ACK }, 1, 0),
                },
            ));
        };
        // Two fill the table and end; the others come before that and after it.
        (0..2).for_each(|number| push(1, number, true));
        (2..22).for_each(|number| push(2, number, true));
        (22..42).for_each(|number| push(2, number, false));
        for time_s in [9, 11, 12] {
            (2..4).for_each(|number| push(time_s, number, true));
            (22..24).for_each(|number| push(time_s, number, false));
        }
        for number in [2, 22] {
            push(13, number, number == 2);
        }
        let (torn, of) = torn(&balancer(policy, 2, "reject"), &packets);
        assert_eq!((torn, of), (0, 42), "{policy}");
    }
}

/// A turn is known to the table alone, so that nothing could send an evicted connection back where it was.
#[test]
fn turns_are_refused_in_a_table_that_evicts() {
    let error = Chain::parse("test", &text("round-robin", 8, "evict-oldest"), &stock::registry());
    let error = error.err().expect("refused");
    assert!(error.to_string().contains("round-robin"), "{error}");
    assert_eq!(error.position(), (4, 14), "points at `table_full`");
}

/// UDP between an address of IPv4, or of IPv6, and another one of the same family.
fn udp(is_v6: bool, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = Vec::new();
    match is_v6 {
        false => PacketBuilder::ipv4(from.0, to.0, 64).udp(from.1, to.1).write(&mut bytes, b"question"),
        true => {
            PacketBuilder::ipv6(v6(from.0), v6(to.0), 64).udp(from.1, to.1).write(&mut bytes, b"question")
        }
    }
    .expect("writing to memory");
    bytes
}

fn v6([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 1]
}

/// "Packet too big" about an IP packet.
fn too_big(is_v6: bool, from: [u8; 4], to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match is_v6 {
        false => PacketBuilder::ipv4(from, to, 64).icmpv4_raw(3, 4, [0, 0, 5, 0]).write(&mut bytes, about),
        true => {
            PacketBuilder::ipv6(v6(from), v6(to), 64).icmpv6_raw(2, 0, [0, 0, 5, 0]).write(&mut bytes, about)
        }
    }
    .expect("writing to memory");
    bytes
}

/// Errors of routers about balanced flows may come to any core: each gives the answer that a single one gives.
#[test]
fn errors_about_balanced_flows_are_equal_under_every_strategy() {
    const VIP: [u8; 4] = [198, 51, 100, 10];
    let text = |policy: &str, is_v6: bool| {
        let address = |ip: [u8; 4]| match is_v6 {
            false => std::net::IpAddr::from(ip),
            true => std::net::IpAddr::from(v6(ip)),
        };
        let backend = |last| format!("{{ address = \"{}\", port = 5353 }}", address([10, 0, 0, last]));
        let backends: Vec<String> = (1..=5).map(backend).collect();
        format!(
            "[[function]]\nuse = \"load-balancer\"\npolicy = \"{policy}\"\nrewrite_answers = true\n\
             services = [{{ vip = \"{}\", port = 53, protocol = \"udp\", backends = [{}] }}]",
            address(VIP),
            backends.join(", ")
        )
    };
    for is_v6 in [false, true] {
        let mut packets = Vec::new();
        let mut push = |packet: Vec<u8>| {
            let kind = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
            let bytes = [&[2; 6][..], &[4; 6][..], &kind[..], &packet[..]].concat();
            packets.push(Packet { time_ns: (1 + packets.len() as u64) * 1_000_000, bytes });
        };
        for number in 0..200_u16 {
            let client = ([192, 0, (number % 7) as u8, number as u8], 30_000 + number);
            let backend = ([10, 0, 0, 1 + (number % 5) as u8], 5_353);
            push(udp(is_v6, client, (VIP, 53)));
            push(udp(is_v6, backend, client));
            let router = [203, 0, 113, (number % 11) as u8];
            push(too_big(is_v6, router, VIP, &udp(is_v6, (VIP, 53), client)));
            push(too_big(is_v6, router, client.0, &udp(is_v6, client, backend)));
            push(too_big(is_v6, router, client.0, &udp(is_v6, client, (router, 5_353))));
        }
        let pcap = pcap::of(&packets);
        for policy in ["maglev", "random", "round-robin"] {
            let chain = chain(&text(policy, is_v6), &stock::registry());
            for strategy in [RSS, RSSPP, SCR, SCR_TURNS, HYBRID, DYSSECT, SHARED] {
                let plan = match Plan::new(&chain, strategy, 3) {
                    Ok(plan) => plan,
                    // States that all cores share have no turns.
                    Err(error) => {
                        assert_eq!(policy, "round-robin", "{}: {error}", strategy.name());
                        continue;
                    }
                };
                let verified =
                    verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs");
                // Nothing is promised of a balancer whose states all cores share; its errors need none.
                let holds = verified.holds() || strategy.name() == SHARED.name() && verified.different == 0;
                assert!(holds, "{policy}, {}: {verified:#?}", strategy.name());
            }
        }
        let single = chain(&text("maglev", is_v6), &stock::registry());
        assert!(Plan::new(&single, SINGLE, 1).is_ok());
        let mut core = single.core().expect("memory");
        let ran = run_in_batches(&mut core, &packets, &[64]);
        let changed =
            packets.iter().zip(&ran.answers).filter(|(packet, answer)| packet.bytes != answer.1).count();
        assert_eq!(changed, 800, "all but errors about packets to others");
    }
}

/// Clients talk to the service, and to backends themselves, from few ports: the two differ in nothing that an answer has. Under
/// every strategy, with tables that fill too.
#[test]
fn direct_connections_are_equal_under_every_strategy() {
    const VIP: ([u8; 4], u16) = ([198, 51, 100, 10], 53);
    let text = |policy: &str, flows: usize| {
        let backend = |last| format!("{{ address = \"10.0.0.{last}\", port = 5353 }}");
        let backends: Vec<String> = (1..=5).map(backend).collect();
        format!(
            "[[function]]\nuse = \"load-balancer\"\nflows = {flows}\npolicy = \"{policy}\"\nrewrite_answers = true\n\
             services = [{{ vip = \"198.51.100.10\", port = 53, protocol = \"udp\", backends = [{}] }}]",
            backends.join(", ")
        )
    };
    let mut packets = Vec::new();
    let mut push = |seconds: u64, packet: Vec<u8>| {
        let bytes = [&[2; 6][..], &[4; 6][..], &[8, 0][..], &packet[..]].concat();
        let time_ns = seconds * 1_000_000_000 + packets.len() as u64 * 1_000;
        packets.push(Packet { time_ns, bytes });
    };
    let mut draw = Draw::new(7);
    for number in 0..2_000_u64 {
        let client = ([192, 0, 2, draw.below(3) as u8], 30_000 + draw.below(8) as u16);
        let backend = ([10, 0, 0, 1 + draw.below(5) as u8], 5_353);
        match draw.below(4) {
            0 => push(number, udp(false, client, VIP)),
            1 => push(number, udp(false, client, backend)),
            _ => push(number, udp(false, backend, client)),
        }
    }
    let pcap = pcap::of(&packets);
    let single = chain(&text("maglev", 65_536), &stock::registry());
    let mut core = single.core().expect("memory");
    let ran = run_in_batches(&mut core, &packets, &[64]);
    let from_backend = |packet: &Packet| packet.bytes[26] == 10;
    let answers = packets.iter().zip(&ran.answers).filter(|(packet, _)| from_backend(packet));
    let (direct, of_service): (Vec<_>, Vec<_>) =
        answers.partition(|(packet, answer)| packet.bytes == answer.1);
    assert!(direct.len() > 100 && of_service.len() > 100, "{} {}", direct.len(), of_service.len());
    for (policy, flows) in [("maglev", 65_536), ("random", 65_536), ("round-robin", 65_536), ("maglev", 64)] {
        let chain = chain(&text(policy, flows), &stock::registry());
        for strategy in [RSS, RSSPP, SCR, SCR_TURNS, HYBRID, DYSSECT] {
            // A replica does not know whose turn it is for another core's packet.
            let Ok(plan) = Plan::new(&chain, strategy, 3) else {
                assert_eq!((policy, strategy.name()), ("round-robin", HYBRID.name()));
                continue;
            };
            let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs");
            let is_filled = flows == 64 && !matches!(strategy.name(), "scr" | "scr-turns");
            assert!(verified.holds() || is_filled, "{policy}, {}: {verified:#?}", strategy.name());
        }
    }
}
