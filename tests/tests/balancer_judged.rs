//! `verify` sees what a balancer that goes by turns does on many cores, whatever backends flows get there.

use engine::strategies::{AUTO, DYSSECT, RSS, RSSPP, Strategy};
use engine::{Chain, Plan, Progress, Verified, verify, verify_answered};
use etherparse::{Icmpv4Type, PacketBuilder};
use nf::Connection;
use paceline_conformance::draw::Draw;
use paceline_conformance::faulty_balancer::{
    BACKENDS, CHANGES, DIRECT_REWRITTEN, DRAINED, ERROR_ELSEWHERE, FaultyBalancer, NOT_REWRITTEN,
    OTHER_SERVICE, UNEVEN, UNTRANSLATED, VIP, WELL,
};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};
use strategy::{Every, Rebalancing};

const STRATEGIES: [&dyn Strategy; 4] = [RSS, RSSPP, DYSSECT, AUTO];
const SECOND: u64 = 1_000_000_000;

/// Connections of 60 clients, six packets each, side by side.
fn connections() -> Pcap {
    let packet = |number: u64| {
        let client = (number % 60) as u8;
        let mut tcp = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([198, 51, 100, client], [192, 0, 2, 80], 64)
            .tcp(4_000 + u16::from(client), 80, 1, 9_000);
        tcp = if number < 60 { tcp.syn() } else { tcp.ack(1) };
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, b"x").expect("writing to memory");
        Packet { time_ns: 1_000_000_000 + number * 1_000_000, bytes }
    };
    pcap::of(&(0..360).map(packet).collect::<Vec<_>>())
}

fn verified<const FAULT: u8>(strategy: &'static dyn Strategy, capture: &Pcap) -> Verified {
    let mut registry = stock::registry();
    registry.add::<FaultyBalancer<FAULT>>();
    let toml = "[[function]]\nuse = \"load-balancer\"\nflows = 1024\npolicy = \"round-robin\"\n\
                [[function.services]]\nvip = \"192.0.2.80\"\nport = 80\nbackends = [{ address = \"10.9.0.1\" }, \
                { address = \"10.9.0.2\" }, { address = \"10.9.0.3\", state = \"drain\" }]\n";
    let chain = chain(toml, &registry);
    verify(&chain, &plan(&chain, strategy), &|| Ok(capture.open()), &Progress::default()).expect("it runs")
}

fn plan(chain: &Chain, strategy: &'static dyn Strategy) -> Plan {
    let plan = Plan::new(chain, strategy, 3).expect("it runs");
    let rebalancing =
        plan.rebalancing.map(|_| Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
    Plan { rebalancing, simulation: Some(1), ..plan }
}

#[test]
fn a_balancer_that_goes_wrong_on_many_cores_is_found() {
    let capture = connections();
    for strategy in STRATEGIES {
        let name = strategy.name();
        let right = verified::<WELL>(strategy, &capture);
        assert!(right.holds() && right.allocated.is_empty(), "{name}: {right:#?}");
        assert!(matches!(&right.judged[..], [judged] if judged.not_judged.is_none()), "{name}: {right:#?}");
        assert!(!verified::<CHANGES>(strategy, &capture).is_same(), "{name}: a flow changes its backend");
        assert!(!verified::<DRAINED>(strategy, &capture).is_same(), "{name}: a backend that takes no flows");
        assert!(!verified::<UNTRANSLATED>(strategy, &capture).is_same(), "{name}: to the service itself");
    }
    // Where each entry has turns of its own, so few flows may all be of one backend.
    assert!(!verified::<UNEVEN>(RSS, &capture).is_same(), "turns are uneven");
}

type End = ([u8; 4], u16);

/// TCP with these flags, or UDP where there are none.
fn frame((src, src_port): End, (dst, dst_port): End, flags: Option<&str>) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
    let mut bytes = Vec::new();
    let write = match flags {
        None => builder.udp(src_port, dst_port).write(&mut bytes, b"x"),
        Some(flags) => {
            let mut tcp = builder.tcp(src_port, dst_port, 1, 9_000);
            for flag in flags.chars() {
                tcp = match flag {
                    's' => tcp.syn(),
                    'a' => tcp.ack(1),
                    'f' => tcp.fin(),
                    _ => tcp.rst(),
                };
            }
            tcp.write(&mut bytes, b"x")
        }
    };
    write.expect("writing to memory");
    bytes
}

/// An ICMP error about a frame.
fn error(src: [u8; 4], about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..];
    let dst = [quoted[12], quoted[13], quoted[14], quoted[15]];
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).icmpv4(kind);
    builder.write(&mut bytes, &quoted[..28]).expect("writing to memory");
    bytes
}

/// Clients and backends: connections to a service, others to backends themselves from ports that are so much greater, and ICMP
/// errors about both. Backends answer as in a run in which any of them had the flow.
fn both_ways(seed: u64, count: usize, direct_ports: u16) -> Pcap {
    let mut draw = Draw::new(seed);
    let mut now_ns = SECOND;
    let mut packet = |number: usize| {
        now_ns += match draw.below(100) {
            // All flows but those in use are dead then.
            _ if number == count / 2 => 400 * SECOND,
            0 => 70 * SECOND,
            _ => 1_000_000,
        };
        let client = ([198, 51, 100, draw.below(5) as u8], 4_000 + draw.below(8) as u16);
        let backend = (BACKENDS[draw.below(3) as usize], 80);
        let direct = (client.0, client.1 + direct_ports);
        let either = if draw.below(2) == 0 { client } else { direct };
        let is_tcp = draw.below(3) > 0;
        let of = |flags: &'static [&'static str], draw: &mut Draw| {
            is_tcp.then(|| flags[draw.below(flags.len() as u64) as usize])
        };
        let router = [203, 0, 113, 1];
        let bytes = match draw.below(16) {
            0..6 => frame(client, (VIP, 80), of(&["s", "s", "a", "a", "a", "a", "fa", "r"], &mut draw)),
            6..9 => frame(backend, either, of(&["sa", "sa", "a", "a", "fa", "ra"], &mut draw)),
            9..12 => frame(direct, backend, of(&["s", "s", "a", "fa"], &mut draw)),
            12 | 13 => error(client.0, &frame((VIP, 80), client, of(&["a"], &mut draw))),
            14 => error(router, &frame(either, backend, of(&["a"], &mut draw))),
            _ if draw.below(2) == 0 => error(router, &frame((VIP, 80), client, of(&["a"], &mut draw))),
            _ => error(backend.0, &frame(either, backend, of(&["a"], &mut draw))),
        };
        Packet { time_ns: now_ns, bytes }
    };
    pcap::of(&(0..count).map(&mut packet).collect::<Vec<_>>())
}

/// With `rewrite_answers`, TCP and UDP.
fn rewriting<const FAULT: u8>(
    strategy: &'static dyn Strategy,
    capture: &Pcap,
    is_answered: bool,
) -> Verified {
    let mut registry = stock::registry();
    registry.add::<FaultyBalancer<FAULT, Connection>>();
    let mut toml = "[[function]]\nuse = \"load-balancer\"\nflows = 1024\npolicy = \"round-robin\"\n\
                    rewrite_answers = true\n"
        .to_owned();
    for protocol in ["tcp", "udp"] {
        toml += &format!(
            "[[function.services]]\nvip = \"192.0.2.80\"\nport = 80\nprotocol = \"{protocol}\"\n\
             backends = [{{ address = \"10.9.0.1\" }}, {{ address = \"10.9.0.2\", mac = \"02:00:00:00:00:0b\" }}, \
             {{ address = \"10.9.0.3\", state = \"drain\" }}]\n"
        );
    }
    let chain = chain(&toml, &registry);
    let verify = if is_answered { verify_answered } else { verify };
    verify(&chain, &plan(&chain, strategy), &|| Ok(capture.open()), &Progress::default()).expect("it runs")
}

#[test]
fn a_balancer_that_rewrites_answers_and_goes_wrong_on_many_cores_is_found() {
    let capture = both_ways(1, 1_200, 100);
    let mut wrong = Vec::new();
    for strategy in STRATEGIES {
        for is_answered in [false, true] {
            let name = format!("{}, answered {is_answered}", strategy.name());
            let right = rewriting::<WELL>(strategy, &capture, is_answered);
            let [judged] = &right.judged[..] else { panic!("{name}: {right:#?}") };
            if !right.holds() || !right.allocated.is_empty() || judged.not_judged.is_some() {
                wrong.push(format!("{name}: {right:#?}"));
                continue;
            }
            assert!(judged.renamed > 100 && judged.alone + judged.in_flight == 0, "{name}: {judged:#?}");
            match right.answered {
                Some(answered) => {
                    assert!(answered.answered > 500 && answered.left_out > 200, "{name}: {answered:?}")
                }
                None => assert!(!is_answered, "{name}"),
            }
            let planted = [
                (CHANGES, rewriting::<CHANGES>(strategy, &capture, is_answered)),
                (DRAINED, rewriting::<DRAINED>(strategy, &capture, is_answered)),
                (UNTRANSLATED, rewriting::<UNTRANSLATED>(strategy, &capture, is_answered)),
                (NOT_REWRITTEN, rewriting::<NOT_REWRITTEN>(strategy, &capture, is_answered)),
                (OTHER_SERVICE, rewriting::<OTHER_SERVICE>(strategy, &capture, is_answered)),
                (DIRECT_REWRITTEN, rewriting::<DIRECT_REWRITTEN>(strategy, &capture, is_answered)),
                (ERROR_ELSEWHERE, rewriting::<ERROR_ELSEWHERE>(strategy, &capture, is_answered)),
            ];
            for (fault, verified) in planted {
                // The judge of the run says so, and not the comparison alone.
                if verified.is_same() || verified.judged.iter().all(|judged| judged.wrong.is_empty()) {
                    wrong.push(format!("{name}: fault {fault} is not found: {:?}", verified.judged));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A client talks to a service and to its backends from one port: whose answer it gets depends on who has the flow.
#[test]
fn answers_that_may_be_direct_are_judged_alone() {
    let capture = both_ways(3, 1_200, 0);
    for strategy in STRATEGIES {
        let name = strategy.name();
        let recorded = rewriting::<WELL>(strategy, &capture, false);
        assert!(recorded.holds() && recorded.judged[0].alone == 0, "{name}: {recorded:#?}");
        let answered = rewriting::<WELL>(strategy, &capture, true);
        assert!(answered.holds() && answered.judged[0].alone > 0, "{name}: {answered:#?}");
        for planted in [
            rewriting::<NOT_REWRITTEN>(strategy, &capture, true),
            rewriting::<OTHER_SERVICE>(strategy, &capture, true),
            rewriting::<DIRECT_REWRITTEN>(strategy, &capture, true),
        ] {
            assert!(!planted.judged[0].wrong.is_empty(), "{name}: {planted:#?}");
        }
    }
}

/// Where tables fill, what they forget is taken for a service's, and no more than that is excused.
#[test]
fn a_balancer_that_rewrites_answers_is_judged_where_its_table_fills() {
    let capture = both_ways(2, 1_200, 0);
    for strategy in STRATEGIES {
        let text = "[[function]]\nuse = \"load-balancer\"\nflows = 16\npolicy = \"round-robin\"\n\
                    rewrite_answers = true\n[[function.services]]\nvip = \"192.0.2.80\"\nport = 80\n\
                    backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }]\n";
        let chain = chain(text, &stock::registry());
        let plan = plan(&chain, strategy);
        let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs");
        let [judged] = &verified.judged[..] else { panic!("{verified:#?}") };
        let name = strategy.name();
        assert!(judged.not_judged.is_none() && verified.holds(), "{name}: {verified:#?}");
        assert!(!verified.filled.is_empty(), "{name}: no table was full");
    }
}
