//! A NAT's port forwards and one-to-one addresses under every strategy, with tiny tables: they take no room, any core says the
//! same of them, and a tracker on the inside sees both directions of what is forwarded.

use std::collections::BTreeMap;

use engine::strategies::{ALL, DYSSECT, HYBRID, RSS, RSSPP, SHARED, SINGLE, Strategy};
use engine::{Chain, NoOwnPorts, Plan, Progress, Verified, replay_capture, verify};
use etherparse::{Icmpv4Type, PacketBuilder, TcpOptionElement};
use io::Fate;
use paceline_conformance::draw::Draw;
use paceline_conformance::faulty_nat::{
    FORWARDS_PORT, FaultyNat, HIS_FORWARDS_PORT, OTHER_HOST, QUOTE, UNTRANSLATED, WELL,
};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};
use strategy::{Every, Rebalancing};

const CORES: usize = 3;
const PEER: ([u8; 4], u16) = ([192, 0, 2, 9], 5_000);
const ROUTER: [u8; 4] = [198, 51, 100, 1];
const OWN: [u8; 4] = [203, 0, 113, 9];
const HOST: [u8; 4] = [10, 0, 0, 9];

/// An address and a port.
type End = ([u8; 4], u16);

/// External end, inside end; TCP, TCP, UDP.
const FORWARDS: [(End, End); 3] = [
    (([203, 0, 113, 1], 2_443), ([10, 0, 0, 5], 8_443)),
    (([203, 0, 113, 1], 25), ([10, 0, 0, 7], 25)),
    (([203, 0, 113, 1], 2_053), ([10, 0, 0, 6], 53)),
];

fn nat(more: &str) -> String {
    format!(
        "[[function]]\nuse = \"nat\"\ntable_full = \"reject\"\ninside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\n\
         ports = [2000, 8191]\nmss_clamp = 1400\n\
         forwards = [\"tcp 203.0.113.1:2443 to 10.0.0.5:8443\", \"tcp 203.0.113.1:25 to 10.0.0.7:25\", \
         \"udp 203.0.113.1:{HIS_FORWARDS_PORT} to 10.0.0.6:53\"]\none_to_one = [\"203.0.113.9 to 10.0.0.9\"]\n{more}\n"
    )
}

fn tcp((src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16), is_syn: bool) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).tcp(src_port, dst_port, 1, 9_000);
    let mut bytes = Vec::new();
    let options = [TcpOptionElement::Noop, TcpOptionElement::MaximumSegmentSize(1_460)];
    match is_syn {
        true => builder.syn().options(&options).expect("short").write(&mut bytes, b""),
        false => builder.ack(1).write(&mut bytes, b"x"),
    }
    .expect("writing to memory");
    bytes
}

fn udp((src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).udp(src_port, dst_port);
    builder.write(&mut bytes, b"x").expect("writing to memory");
    bytes
}

fn icmp(src: [u8; 4], dst: [u8; 4], kind: Icmpv4Type, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).icmpv4(kind);
    builder.write(&mut bytes, payload).expect("writing to memory");
    bytes
}

fn gre(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
    builder
        .write(&mut bytes, etherparse::IpNumber::GRE, &[0, 0, 8, 0, 1, 2, 3, 4])
        .expect("writing to memory");
    bytes
}

/// An error about a frame.
fn error(src: [u8; 4], about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..];
    let dst = [quoted[12], quoted[13], quoted[14], quoted[15]];
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    icmp(src, dst, kind, &quoted[..28])
}

/// A packet of what is fixed, drawn: any of the kinds that there are.
fn of_fixed(draw: &mut Draw) -> Vec<u8> {
    let forward = FORWARDS[draw.below(3) as usize];
    let (external, inside) = forward;
    let peer = (PEER.0, PEER.1 + draw.below(4) as u16);
    let frame = |src, dst, is_syn| if forward == FORWARDS[2] { udp(src, dst) } else { tcp(src, dst, is_syn) };
    let echo = |src, dst, is_request| {
        let header = etherparse::IcmpEchoHeader { id: 7, seq: 1 };
        let kind = if is_request { Icmpv4Type::EchoRequest(header) } else { Icmpv4Type::EchoReply(header) };
        icmp(src, dst, kind, b"x")
    };
    match draw.below(16) {
        0..3 => frame(peer, external, draw.below(2) == 0),
        3..6 => frame(inside, peer, draw.below(2) == 0),
        6 => error(ROUTER, &frame(external, peer, false)),
        7 => error(inside.0, &frame(peer, inside, false)),
        8 => tcp(peer, (OWN, 22), draw.below(2) == 0),
        9 => tcp((HOST, 22), peer, draw.below(2) == 0),
        10 => echo(PEER.0, OWN, draw.below(2) == 0),
        11 => echo(HOST, PEER.0, draw.below(2) == 0),
        12 => gre(PEER.0, OWN),
        13 => gre(HOST, PEER.0),
        14 => error(ROUTER, &udp((OWN, 9), peer)),
        _ => frame((HOST, 6), external, false),
    }
}

/// With hosts that have mappings, more than a table has room for.
fn traffic(seed: u64, count: usize, with_others: bool, with_hairpins: bool) -> Pcap {
    let mut draw = Draw::new(seed);
    let packet = |number: usize| {
        let host = ([10, 0, 0, 20 + draw.below(8) as u8], 2_000 + draw.below(16) as u16);
        let bytes = match draw.below(8) {
            0..2 if with_others => udp(host, (PEER.0, 53)),
            2 if with_others => tcp(host, (PEER.0, 80), true),
            3 if with_others && with_hairpins => tcp(host, FORWARDS[0].0, true),
            _ => loop {
                let bytes = of_fixed(&mut draw);
                let is_hairpinned = bytes[26] == 10 && bytes[30] == 203;
                if with_hairpins || !is_hairpinned {
                    break bytes;
                }
            },
        };
        Packet { time_ns: 1_000_000 * (1 + number as u64), bytes }
    };
    pcap::of(&(0..count).map(packet).collect::<Vec<_>>())
}

fn plan(chain: &Chain, strategy: &'static dyn Strategy) -> Option<Plan> {
    let cores = if strategy.name() == SINGLE.name() { 1 } else { CORES };
    let plan = Plan::new(chain, strategy, cores).ok()?;
    let rebalancing =
        plan.rebalancing.map(|_| Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
    Some(Plan { rebalancing, simulation: Some(1), ..plan })
}

fn verified(chain: &Chain, strategy: &'static dyn Strategy, capture: &Pcap) -> Option<Verified> {
    let plan = plan(chain, strategy)?;
    Some(verify(chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs"))
}

fn with_fault<const FAULT: u8>(more: &str) -> Chain {
    let mut registry = stock::registry();
    registry.add::<FaultyNat<FAULT>>();
    chain(&nat(more), &registry).with_seed(7)
}

/// With a judge of each run, whatever ports it gives to others.
#[test]
fn what_is_fixed_is_right_under_every_strategy() {
    let mut refused = Vec::new();
    for choice in ["random", "preserve", "in-turn"] {
        let options = format!("flows = 1024\nport_choice = \"{choice}\"");
        let chain = chain(&nat(&options), &stock::registry()).with_seed(7);
        for strategy in ALL {
            // There the ports of others follow from an order that no run repeats, and nothing is judged.
            if strategy.name() == SHARED.name() {
                continue;
            }
            let name = format!("{}, {choice}", strategy.name());
            let capture = traffic(3, 900, true, true);
            let Some(verified) = verified(&chain, strategy, &capture) else {
                refused.push(strategy.name());
                continue;
            };
            assert!(verified.is_same(), "{name}: {verified:#?}");
            assert!(
                verified.judged.iter().all(|judged| judged.not_judged.is_none()),
                "{name}: {verified:#?}"
            );
        }
    }
    refused.dedup();
    assert_eq!(refused, [HYBRID.name()], "it cannot copy flows whose ports come from a pool");
}

/// However few flows a table holds, and whomever it turns away: what has no end with a mapping needs no room, and leaves byte for
/// byte as on one core with a large table.
#[test]
fn a_full_table_turns_away_nothing_that_is_fixed() {
    let capture = traffic(5, 900, true, true);
    let fixed = |flows: usize, strategy: &'static dyn Strategy| {
        let chain = chain(&nat(&format!("flows = {flows}")), &stock::registry()).with_seed(7);
        let plan = plan(&chain, strategy)?;
        let (mut fixed, mut turned_away) = (BTreeMap::new(), 0);
        let mut see = |seen: &engine::Seen<'_>| {
            let port = u16::from_be_bytes([seen.bytes[34], seen.bytes[35]]);
            let is_forwards = |addr: &[u8]| FORWARDS.iter().any(|(_, inside)| addr == inside.0);
            let (src, dst) = (&seen.bytes[26..30], &seen.bytes[30..34]);
            let to_host = is_forwards(dst) || dst == HOST;
            let from_external = src == FORWARDS[0].0.0;
            // Each protocol has ports of its own, and others may get those of the other one.
            let of = |index: usize| if index == 2 { 17 } else { 6 };
            let is_forward = |index: usize| FORWARDS[index].0.1 == port && seen.bytes[23] == of(index);
            let is_answer = from_external && (0..3).any(is_forward);
            match seen.fate {
                Fate::Forward if src == OWN || to_host && !from_external || is_answer && !to_host => {
                    fixed.insert(seen.stamp.seq, seen.bytes.to_vec());
                }
                Fate::Forward => {}
                _ => turned_away += 1,
            }
            Ok::<_, ()>(())
        };
        replay_capture(&chain, &plan, capture.open(), &Progress::default(), &mut see).expect("it runs");
        Some((fixed, turned_away))
    };
    let (expected, _) = fixed(1_024, SINGLE).expect("any chain");
    assert!(expected.len() > 300, "{}", expected.len());
    for (flows, strategy) in [4, 16].into_iter().flat_map(|flows| ALL.map(|strategy| (flows, strategy))) {
        let Some((sent, turned_away)) = fixed(flows, strategy) else { continue };
        assert!(turned_away > 50, "{}: {turned_away}", strategy.name());
        assert!(
            sent == expected,
            "{}, {flows} flows: {} and {}",
            strategy.name(),
            sent.len(),
            expected.len()
        );
    }
}

/// Answers come to the core that saw what was forwarded, though the forward changes address and port: else the tracker would
/// drop them, which one core does not.
#[test]
fn a_tracker_on_the_inside_sees_both_directions() {
    for choice in ["random", "preserve"] {
        let text = format!(
            "[[function]]\nuse = \"conntrack\"\nflows = 1024\n{}",
            nat(&format!("flows = 1024\nhairpinning = false\nport_choice = \"{choice}\""))
        );
        let chain = chain(&text, &stock::registry()).with_seed(7);
        for strategy in ALL {
            // What cores share is stepped in no order that a run repeats.
            if strategy.name() == SHARED.name() {
                continue;
            }
            let capture = traffic(8, 900, true, false);
            let Some(verified) = verified(&chain, strategy, &capture) else { continue };
            assert!(verified.is_same(), "{}, {choice}: {verified:#?}", strategy.name());
        }
    }
}

/// A card hashes what it sees, and cannot know which inside end an external one stands for: one thread spreads packets then,
/// unless no function but the NAT would hear of it.
#[test]
fn a_card_does_not_spread_what_is_forwarded_beside_a_tracker() {
    let own = |text: &str| {
        let chain = chain(text, &stock::registry());
        Plan::new(&chain, RSS, CORES).expect("shardable").with_own_ports(&chain).map(|_| ())
    };
    let tracker = "[[function]]\nuse = \"conntrack\"\n";
    assert_eq!(own(&format!("{tracker}{}", nat("hairpinning = false"))), Err(NoOwnPorts::FixedEnds));
    assert_eq!(own(&nat("")), Ok(()));
    let plain = "[[function]]\nuse = \"nat\"\nexternal = [\"203.0.113.1\"]\nhairpinning = false\n";
    assert_eq!(own(&format!("{tracker}{plain}")), Ok(()));
}

/// On many cores alone: to another host, answers as they were, quotes by halves, and a forward's port for another host.
#[test]
fn what_goes_wrong_with_forwards_is_found() {
    let (fixed, others) = (traffic(1, 600, false, true), traffic(2, 600, true, true));
    let mut wrong = Vec::new();
    for strategy in [RSS, RSSPP, DYSSECT] {
        let options = "flows = 1024";
        let right = verified(&with_fault::<WELL>(options), strategy, &others).expect("it runs");
        assert!(right.is_same(), "{right:#?}");
        let planted = [
            ("other host", verified(&with_fault::<OTHER_HOST>(options), strategy, &fixed)),
            ("untranslated", verified(&with_fault::<UNTRANSLATED>(options), strategy, &fixed)),
            ("quote", verified(&with_fault::<QUOTE>(options), strategy, &fixed)),
            ("forward's port", verified(&with_fault::<FORWARDS_PORT>(options), strategy, &others)),
        ];
        for (fault, verified) in planted {
            let verified = verified.expect("it runs");
            if verified.is_same() {
                wrong.push(format!("{}: {fault}: {:?}", strategy.name(), verified.judged));
            }
        }
    }
    assert!(wrong.is_empty(), "not found: {wrong:?}");
}
