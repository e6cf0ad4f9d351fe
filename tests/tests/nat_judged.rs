//! `verify` sees what a NAT does on many cores, whatever ports it gives out there: over traffic with answers to what either
//! run sent, each planted fault is found, and without one both runs are alike.

use engine::strategies::{AUTO, DYSSECT, HYBRID, RSS, RSSPP, SCR, SINGLE, Strategy};
use engine::{Chain, Plan, Progress, Verified, replay_capture, verify, verify_answered};
use etherparse::{Icmpv4Type, PacketBuilder};
use io::Fate;
use paceline_conformance::draw::Draw;
use paceline_conformance::faulty_nat::{DEAD_ANSWERED, FAULTS, FaultyNat, HAIRPIN_FAULTS, WELL};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};
use strategy::{Every, Rebalancing};

const STRATEGIES: [&dyn Strategy; 4] = [RSS, RSSPP, DYSSECT, AUTO];
const CORES: usize = 3;
const SECOND: u64 = 1_000_000_000;
const PEER: [u8; 4] = [192, 0, 2, 9];
const ROUTER: [u8; 4] = [198, 51, 100, 1];
/// Nobody has it: what is sent to it stands for an answer that is not known yet.
const NOBODY: ([u8; 4], u16) = ([203, 0, 113, 1], 9);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    Tcp,
    Icmp,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// By an inside endpoint.
    Out { inside: ([u8; 4], u16), kind: Kind },
    /// By the peer, who answers an earlier item as this run sent it: with an error about it, or with the same protocol.
    Answer { to: usize, of_single: bool, is_error: bool },
    /// By an inside endpoint, to the external one that an earlier item left with in this run: or an error about what came from
    /// there.
    Hairpin { inside: ([u8; 4], u16), to: usize, of_single: bool, is_error: bool },
}

/// Each host has ports of its own. Of ten packets so many are hairpinned.
fn items(seed: u64, count: usize, hairpins: u64) -> Vec<(u64, Item)> {
    let mut draw = Draw::new(seed);
    let (mut items, mut now_ns): (Vec<(u64, Item)>, u64) = (Vec::new(), SECOND);
    for number in 0..count {
        now_ns += match draw.below(100) {
            // All but TCP in use is dead then.
            _ if number == count / 3 || number == 2 * count / 3 => 400 * SECOND,
            0 => 70 * SECOND,
            _ => 1_000_000,
        };
        let outs: Vec<usize> =
            (0..number).filter(|index| matches!(items[*index].1, Item::Out { .. })).collect();
        let is_hairpinned = hairpins > 0 && !outs.is_empty() && draw.below(10) < hairpins;
        let item = match draw.below(2) {
            _ if is_hairpinned => hairpin(&mut draw, &outs, &items),
            0 if !outs.is_empty() => {
                // Most are of late.
                let most = if draw.below(4) == 0 { outs.len() } else { outs.len().min(20) };
                let back = 1 + draw.below(most as u64);
                let to = outs[outs.len() - back as usize];
                Item::Answer { to, of_single: draw.below(3) == 0, is_error: draw.below(4) == 0 }
            }
            _ => {
                let host = draw.below(5) as u8;
                let kind = [Kind::Udp, Kind::Udp, Kind::Tcp, Kind::Icmp][draw.below(4) as usize];
                let port = 3_000 + 64 * u16::from(host) + draw.below(6) as u16;
                Item::Out { inside: ([10, 0, 0, 1 + host], port), kind }
            }
        };
        items.push((now_ns, item));
    }
    items
}

/// Most senders have a mapping, and most receivers.
fn hairpin(draw: &mut Draw, outs: &[usize], items: &[(u64, Item)]) -> Item {
    let any = |draw: &mut Draw| outs[outs.len() - 1 - draw.below(outs.len().min(20) as u64) as usize];
    let (from, to) = (any(draw), any(draw));
    let Item::Out { inside, .. } = items[from].1 else { panic!("it goes out") };
    Item::Hairpin { inside, to, of_single: draw.below(3) == 0, is_error: draw.below(4) == 0 }
}

fn frame(kind: Kind, (src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16)) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
    let mut bytes = Vec::new();
    let write = match kind {
        Kind::Udp => builder.udp(src_port, dst_port).write(&mut bytes, b"x"),
        Kind::Tcp => builder.tcp(src_port, dst_port, 1, 9_000).ack(1).write(&mut bytes, b"x"),
        Kind::Icmp if src[0] == 10 => builder.icmpv4_echo_request(src_port, 1).write(&mut bytes, b"x"),
        Kind::Icmp => builder.icmpv4_echo_reply(dst_port, 1).write(&mut bytes, b"x"),
    };
    write.expect("writing to memory");
    bytes
}

/// An error about a frame.
fn error(src: [u8; 4], about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..];
    let dst = [quoted[12], quoted[13], quoted[14], quoted[15]];
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).icmpv4(kind);
    builder.write(&mut bytes, &quoted[..28]).expect("writing to memory");
    bytes
}

/// The packets, given what became of them in either run.
fn capture(items: &[(u64, Item)], ran: Option<[&[Option<Vec<u8>>]; 2]>) -> Pcap {
    let sent = |to: usize, of_single: bool| {
        let Item::Out { kind, .. } = items[to].1 else { panic!("an answer is to what goes out") };
        let sent = ran.and_then(|runs| runs[usize::from(!of_single)][to].as_deref());
        let external = sent.map_or(NOBODY, |sent| {
            let at = if kind == Kind::Icmp { 38 } else { 34 };
            let port = u16::from_be_bytes([sent[at], sent[at + 1]]);
            ([sent[26], sent[27], sent[28], sent[29]], port)
        });
        (kind, sent, external)
    };
    let bytes = |item: &Item| match *item {
        Item::Out { inside, kind } => frame(kind, inside, (PEER, 53)),
        Item::Answer { to, of_single, is_error } => {
            let (kind, sent, external) = sent(to, of_single);
            match (is_error, sent) {
                (true, Some(sent)) => error(ROUTER, sent),
                (true, None) => error(ROUTER, &frame(Kind::Udp, NOBODY, (PEER, 53))),
                (false, _) => frame(kind, (PEER, 53), external),
            }
        }
        Item::Hairpin { inside, to, of_single, is_error } => {
            let (kind, _, external) = sent(to, of_single);
            // Queries are not hairpinned.
            let kind = if kind == Kind::Icmp { Kind::Udp } else { kind };
            match is_error {
                true => error(inside.0, &frame(kind, external, inside)),
                false => frame(kind, inside, external),
            }
        }
    };
    let packet = |(time_ns, item): &(u64, Item)| Packet { time_ns: *time_ns, bytes: bytes(item) };
    pcap::of(&items.iter().map(packet).collect::<Vec<_>>())
}

/// What each packet left as.
fn sent(chain: &Chain, plan: &Plan, capture: &Pcap) -> Vec<Option<Vec<u8>>> {
    let mut sent = Vec::new();
    let mut see = |seen: &engine::Seen<'_>| {
        sent.push((seen.fate == Fate::Forward).then(|| seen.bytes.to_vec()));
        Ok::<_, ()>(())
    };
    replay_capture(chain, plan, capture.open(), &Progress::default(), &mut see).expect("it runs");
    sent
}

fn nat<const FAULT: u8>(choice: &str, addresses: usize) -> Chain {
    let mut registry = stock::registry();
    registry.add::<FaultyNat<FAULT>>();
    let external = ["\"203.0.113.1\"", "\"203.0.113.1\", \"203.0.113.2\""][addresses - 1];
    let toml = format!(
        "[[function]]\nuse = \"nat\"\nflows = 1024\ninside = [\"10.0.0.0/24\"]\nexternal = [{external}]\n\
         ports = [2000, 8191]\nport_choice = \"{choice}\"\n"
    );
    chain(&toml, &registry).with_seed(7)
}

/// Simulated, so that both times that it runs it gives out the same.
fn plan(chain: &Chain, strategy: &'static dyn Strategy) -> Plan {
    let plan = Plan::new(chain, strategy, CORES).expect("it runs");
    let rebalancing =
        plan.rebalancing.map(|_| Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
    Plan { rebalancing, simulation: Some(1), ..plan }
}

/// Where answers come from: the capture, or a responder to each run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Capture,
    Responder,
}

fn verified<const FAULT: u8>(
    strategy: &'static dyn Strategy,
    choice: &str,
    addresses: usize,
    (capture, by): (&Pcap, By),
) -> Verified {
    let chain = nat::<FAULT>(choice, addresses);
    let plan = plan(&chain, strategy);
    let verify = if by == By::Responder { verify_answered } else { verify };
    verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs")
}

/// Traffic of which each run sees answers to what it sent.
fn answered(strategy: &'static dyn Strategy, choice: &str, addresses: usize, items: &[(u64, Item)]) -> Pcap {
    let chain = nat::<WELL>(choice, addresses);
    let mut answered = capture(items, None);
    // Who is met behind a hairpin has another mapping for it, which others behind it then meet.
    let has_hairpins = items.iter().any(|(_, item)| matches!(item, Item::Hairpin { .. }));
    for _ in 0..if has_hairpins { 6 } else { 1 } {
        let by_single = sent(&chain, &Plan::new(&chain, SINGLE, 1).expect("any chain"), &answered);
        let by_many = sent(&chain, &plan(&chain, strategy), &answered);
        answered = capture(items, Some([&by_single, &by_many]));
    }
    answered
}

fn planted(
    fault: u8,
    strategy: &'static dyn Strategy,
    choice: &str,
    addresses: usize,
    traffic: (&Pcap, By),
) -> Verified {
    let verified = match fault {
        1 => verified::<1>,
        2 => verified::<2>,
        3 => verified::<3>,
        4 => verified::<4>,
        5 => verified::<5>,
        6 => verified::<6>,
        7 => verified::<7>,
        8 => verified::<8>,
        9 => verified::<9>,
        10 => verified::<10>,
        11 => verified::<11>,
        _ => verified::<WELL>,
    };
    verified(strategy, choice, addresses, traffic)
}

/// It cannot copy flows whose ports come from a pool: so there is nothing to compare.
#[test]
fn hybrid_refuses_a_nat() {
    assert!(Plan::new(&nat::<WELL>("random", 1), HYBRID, CORES).is_err());
}

#[test]
fn a_nat_that_goes_wrong_on_many_cores_is_found() {
    let items = items(1, 900, 0);
    let mut wrong = Vec::new();
    for strategy in STRATEGIES {
        for choice in ["preserve", "random", "in-turn"] {
            for addresses in [1, 2] {
                let name = format!("{}, {choice}, {addresses} addresses", strategy.name());
                let capture = answered(strategy, choice, addresses, &items);
                let right = planted(WELL, strategy, choice, addresses, (&capture, By::Capture));
                let [judged] = &right.judged[..] else { panic!("{name}: {right:#?}") };
                if !right.holds() || judged.not_judged.is_some() {
                    wrong.push(format!("{name}: {right:#?}"));
                    continue;
                }
                // Hosts keep their ports, so nothing is renamed; else answers to one run are for nobody in the other.
                let is_same = (judged.renamed, judged.alone) == (0, 0);
                assert!(is_same || choice != "preserve", "{name}: {judged:#?}");
                for fault in FAULTS {
                    let planted = planted(fault, strategy, choice, addresses, (&capture, By::Capture));
                    if planted.is_same() {
                        wrong.push(format!("{name}: fault {fault} is not found: {:?}", planted.judged));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An inside host talks to another one's external endpoint. What is missed in flight is right, and is counted.
#[test]
fn a_nat_that_goes_wrong_with_hairpinned_packets_is_found() {
    let items = items(4, 900, 4);
    let (mut wrong, mut in_flight) = (Vec::new(), 0);
    for strategy in STRATEGIES {
        for (choice, addresses) in
            ["preserve", "random", "in-turn"].into_iter().flat_map(|choice| [(choice, 1), (choice, 2)])
        {
            let name = format!("{}, {choice}, {addresses} addresses", strategy.name());
            let capture = answered(strategy, choice, addresses, &items);
            let right = planted(WELL, strategy, choice, addresses, (&capture, By::Capture));
            let [judged] = &right.judged[..] else { panic!("{name}: {right:#?}") };
            if !right.holds() || judged.not_judged.is_some() {
                wrong.push(format!("{name}: {right:#?}"));
                continue;
            }
            in_flight += judged.in_flight;
            for fault in FAULTS.into_iter().chain(HAIRPIN_FAULTS) {
                let planted = planted(fault, strategy, choice, addresses, (&capture, By::Capture));
                if planted.is_same() {
                    wrong.push(format!("{name}: fault {fault} is not found: {:?}", planted.judged));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(in_flight > 0, "no hairpinned packet was missed");
}

/// What the capture has for external endpoints is of no run then, and nothing has to be judged alone.
#[test]
fn what_goes_wrong_is_found_where_each_run_is_answered() {
    let unanswered = capture(&items(2, 900, 0), None);
    let mut wrong = Vec::new();
    for strategy in [RSS, RSSPP, DYSSECT, AUTO, SCR] {
        for (choice, addresses) in [("preserve", 1), ("random", 2), ("in-turn", 1)] {
            let name = format!("{}, {choice}, {addresses} addresses", strategy.name());
            let traffic = (&unanswered, By::Responder);
            let right = planted(WELL, strategy, choice, addresses, traffic);
            let ([judged], Some(answered)) = (&right.judged[..], right.answered) else {
                panic!("{name}: {right:#?}")
            };
            assert!(answered.answered > 400 && answered.left_out > 300, "{name}: {answered:?}");
            if !right.holds() || judged.alone > 0 || judged.not_judged.is_some() {
                wrong.push(format!("{name}: {right:#?}"));
                continue;
            }
            // Nobody answers so late that the mapping has ended; and replicas have nothing of the pool to share out.
            let planted_here = FAULTS.into_iter().filter(|fault| *fault != DEAD_ANSWERED && strategy != SCR);
            for fault in planted_here {
                let planted = planted(fault, strategy, choice, addresses, traffic);
                if planted.is_same() {
                    wrong.push(format!("{name}: fault {fault} is not found: {:?}", planted.judged));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// On threads nothing comes again as it was, and there is no need that it does.
#[test]
fn runs_on_threads_are_answered_in_their_own_endpoints() {
    let unanswered = capture(&items(3, 900, 0), None);
    let chain = nat::<WELL>("random", 2);
    for strategy in [RSS, RSSPP, SCR] {
        let plan = Plan { simulation: None, ..plan(&chain, strategy) };
        let right = verify_answered(&chain, &plan, &|| Ok(unanswered.open()), &Progress::default());
        let right = right.expect("it runs");
        assert!(right.holds() && right.judged[0].alone == 0, "{right:#?}");
    }
}
