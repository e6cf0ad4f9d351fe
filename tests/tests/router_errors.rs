//! ICMPv6 errors of routers on the way: of no connection under any strategy, so that a rule has to accept them by their type.

use engine::strategies::{ALL, SHARED, SINGLE};
use engine::{Plan, Progress, replay_reloading};
use etherparse::{Icmpv6Type, PacketBuilder, icmpv6::TimeExceededCode};
use io::Fate;
use paceline_conformance::{Packet, chain, pcap, udp6};

const SECOND: u64 = 1_000_000_000;
const HOST: u8 = 1;
/// Whom the host asks.
const SERVER: u8 = 9;
/// A router between them.
const ROUTER: u8 = 77;

const PACKET_TOO_BIG: Icmpv6Type = Icmpv6Type::PacketTooBig { mtu: 1_280 };
const TIME_EXCEEDED: Icmpv6Type = Icmpv6Type::TimeExceeded(TimeExceededCode::HopLimitExceeded);

/// An error of a host about a packet of [`HOST`].
fn error(time_ns: u64, sender: u8, kind: Icmpv6Type, quoted: &Packet) -> Packet {
    let addr = |host| {
        let mut addr = [0xfd; 16];
        addr[15] = host;
        addr
    };
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(addr(sender), addr(HOST), 64).icmpv6(kind);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &quoted.bytes[14..]).expect("writing to memory");
    Packet { time_ns, bytes }
}

/// 40 connections, each with an answer, an error of a router of either kind, and one of the server.
fn packets() -> Vec<Packet> {
    let of_connection = |number: u16| {
        let time_ns = SECOND * u64::from(number + 1);
        let ports = (3_000 + number, 53);
        let asked = udp6(time_ns, HOST, SERVER, ports, 100);
        let answered = udp6(time_ns + 1, SERVER, HOST, (ports.1, ports.0), 100);
        let errors = [(ROUTER, PACKET_TOO_BIG), (ROUTER, TIME_EXCEEDED), (SERVER, PACKET_TOO_BIG)];
        let errors: Vec<Packet> = (2..)
            .zip(errors)
            .map(|(later, (sender, kind))| error(time_ns + later, sender, kind, &asked))
            .collect();
        [vec![asked, answered], errors].concat()
    };
    (0..40).flat_map(of_connection).collect()
}

#[test]
fn a_router_s_icmpv6_error_passes_by_its_type_and_not_as_related() {
    const ASKED: &str = "\"accept udp from any to any\"";
    let related = format!("{ASKED}, \"accept any from any to any state related\"");
    let by_type = format!(
        "{ASKED}, \"accept icmpv6 from any to any type packet-too-big,time-exceeded state untracked\""
    );
    let invalid =
        format!("{ASKED}, \"drop any from any to any state invalid\", \"accept icmpv6 from any to any\"");
    let pcap = pcap::of(&packets());
    // Of each connection: what was asked, its answer, two errors of the router, one of the server.
    for (rules, expected) in [
        (related, [true, true, false, false, true]),
        (by_type, [true, true, true, true, false]),
        (invalid, [true, true, true, true, true]),
    ] {
        let chain = chain(
            &format!("[[function]]\nuse = \"firewall\"\nflows = 1024\nrules = [{rules}]\n"),
            &stock::registry(),
        );
        for strategy in ALL {
            for cores in if strategy.name() == SINGLE.name() { [1, 1] } else { [2, 3] } {
                let plan = Plan::new(&chain, strategy, cores).expect("it runs");
                let mut passed = Vec::new();
                replay_reloading::<()>(&chain, &plan, &[], pcap.open(), &Progress::default(), &mut |seen| {
                    passed.push(seen.fate == Fate::Forward);
                    Ok(())
                })
                .expect("it runs");
                // Where cores share states, an error may overtake what it is about.
                let compared = if strategy.name() == SHARED.name() { 2..4 } else { 0..5 };
                let is_as_expected = |one: &[bool]| one[compared.clone()] == expected[compared.clone()];
                let at = format!("{} on {cores}: {rules}", strategy.name());
                assert!(passed.len() == 200 && passed.chunks(5).all(is_as_expected), "{at}: {passed:?}");
            }
        }
    }
}
