//! The NAT in the engine, with tables of few flows that are swept late: whose mapping is dead is not reached, however
//! batches are cut, whatever a full table does; and many cores equal one, with ICMP among the packets.

use std::collections::BTreeMap;

use engine::strategies::{RSS, RSSPP, SCR};
use engine::{Chain, Plan, Progress, verify};
use etherparse::{IcmpEchoHeader, Icmpv4Type, Ipv4Slice, PacketBuilder, TransportSlice};
use io::Fate;
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain, run_in_batches};

const SECOND: u64 = 1_000_000_000;
const EXTERNAL: [u8; 4] = [203, 0, 113, 1];
const PEER: [u8; 4] = [192, 0, 2, 9];
const ROUTER: [u8; 4] = [198, 51, 100, 1];

/// What is sent: a datagram, a query's request, its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Udp,
    Icmp,
}

fn frame(time_ns: u64, src: [u8; 4], dst: [u8; 4], kind: Kind, ports: [u16; 2]) -> Packet {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
    let mut bytes = Vec::new();
    let write = match kind {
        Kind::Udp => builder.udp(ports[0], ports[1]).write(&mut bytes, b"x"),
        Kind::Icmp if src[0] == 10 => builder.icmpv4_echo_request(ports[0], 1).write(&mut bytes, b"x"),
        Kind::Icmp => builder.icmpv4_echo_reply(ports[1], 1).write(&mut bytes, b"x"),
    };
    write.expect("writing to memory");
    Packet { time_ns, bytes }
}

/// An error of `src` about a packet, to its sender.
fn error(time_ns: u64, src: [u8; 4], about: &Packet) -> Packet {
    let quoted = &about.bytes[14..];
    let dst = [quoted[12], quoted[13], quoted[14], quoted[15]];
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).icmpv4(kind);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &quoted[..28]).expect("writing to memory");
    Packet { time_ns, bytes }
}

/// Source, destination, kind and ports; of a query its identifier on the inside's end.
type Read = ([u8; 4], [u8; 4], Kind, [u16; 2]);

fn read(bytes: &[u8]) -> Read {
    let ip = Ipv4Slice::from_slice(&bytes[14..]).expect("IPv4");
    let (src, dst) = (ip.header().source(), ip.header().destination());
    let whole = etherparse::SlicedPacket::from_ethernet(bytes).expect("whole");
    match whole.transport {
        Some(TransportSlice::Udp(udp)) => (src, dst, Kind::Udp, [udp.source_port(), udp.destination_port()]),
        Some(TransportSlice::Icmpv4(icmp)) => {
            let ports = match icmp.icmp_type() {
                Icmpv4Type::EchoRequest(IcmpEchoHeader { id, .. }) => [id, 0],
                Icmpv4Type::EchoReply(IcmpEchoHeader { id, .. }) => [0, id],
                other => panic!("{other:?}"),
            };
            (src, dst, Kind::Icmp, ports)
        }
        other => panic!("{other:?}"),
    }
}

fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// Hosts that send, strangers who try external ports, and pauses, some long.
fn traffic(mut seed: u64, packets: usize) -> Vec<Packet> {
    let mut time_ns = SECOND;
    (0..packets)
        .map(|_| {
            time_ns += match draw(&mut seed, 40) {
                0 => SECOND * draw(&mut seed, 90_000),
                1..10 => SECOND * draw(&mut seed, 100),
                _ => draw(&mut seed, SECOND),
            };
            let kind = if draw(&mut seed, 3) == 0 { Kind::Icmp } else { Kind::Udp };
            let port = 2000 + draw(&mut seed, 8) as u16;
            if draw(&mut seed, 2) == 0 {
                frame(time_ns, [10, 0, 0, draw(&mut seed, 6) as u8], PEER, kind, [port, 53])
            } else {
                frame(time_ns, PEER, EXTERNAL, kind, [53, port])
            }
        })
        .collect()
}

fn nat(flows: usize, full: &str, choice: &str) -> Chain {
    let toml = format!(
        "[[function]]\nuse = \"nat\"\nflows = {flows}\ntable_full = \"{full}\"\ninside = [\"10.0.0.0/8\"]\n\
         external = [\"203.0.113.1\"]\nports = [2000, 2007]\nport_choice = \"{choice}\""
    );
    chain(&toml, &stock::registry())
}

/// A host that is reached has sent by that port less than its time-out ago; as long as the table holds all, every
/// host that did is reached, and a host without a mapping is refused only while eight others have one.
#[test]
fn nobody_is_reached_after_the_end_however_batches_are_cut() {
    let mut reached = 0;
    for (flows, full) in
        [(4, "reject"), (4, "evict-oldest"), (16, "reject"), (16, "evict-oldest"), (64, "reject")]
    {
        for (seed, choice) in [(1, "random"), (2, "in-turn"), (3, "preserve")] {
            let chain = nat(flows, full, choice);
            let packets = traffic(seed, 4_000);
            let ran = |sizes: &[usize]| {
                let ran = run_in_batches(&mut chain.core().expect("memory"), &packets, sizes);
                assert_eq!(ran.answers.len(), packets.len());
                ran.answers
            };
            let answers = ran(&[1]);
            for sizes in [&[64][..], &[3, 7, 1]] {
                assert!(ran(sizes) == answers, "{flows} flows, {full}, batches of {sizes:?}");
            }
            // By kind and external port: its owner, and until when. What is refused for want of room gives it back.
            let mut owners: BTreeMap<(Kind, u16), ([u8; 4], u16, u64)> = BTreeMap::new();
            for (packet, (fate, sent)) in packets.iter().zip(&answers) {
                let now_ns = packet.time_ns;
                let (src, dst, kind, ports) = read(&packet.bytes);
                let sent = (*fate == Fate::Forward).then(|| read(sent));
                let timeout_ns = SECOND * if kind == Kind::Udp { 300 } else { 60 };
                if dst == EXTERNAL {
                    let owner = owners.get(&(kind, ports[1])).filter(|(.., end_ns)| now_ns < *end_ns);
                    match (sent, owner) {
                        (Some((_, dst, _, sent)), Some((addr, port, _))) => {
                            assert_eq!((dst, sent[1]), (*addr, *port));
                            reached += 1;
                        }
                        (Some(sent), None) => panic!("{sent:?} at {now_ns}, {flows} flows, {full}, {choice}"),
                        (None, Some(owner)) => assert!(flows < 64, "{owner:?} is not reached at {now_ns}"),
                        (None, None) => {}
                    }
                } else if let Some((addr, _, _, sent)) = sent {
                    assert_eq!(addr, EXTERNAL);
                    owners.retain(|(of, _), (addr, port, _)| (*of, *addr, *port) != (kind, src, ports[0]));
                    owners.insert((kind, sent[0]), (src, ports[0], now_ns + timeout_ns));
                } else if flows == 64 {
                    let live =
                        owners.iter().filter(|((of, _), (.., end_ns))| *of == kind && now_ns < *end_ns);
                    assert_eq!(live.count(), 8, "refused at {now_ns} with ports left");
                }
            }
        }
    }
    assert!(reached > 1_000, "{reached}");
}

/// Pings, datagrams, errors of routers outside about what the NAT sends, errors of hosts inside about what it lets in.
fn with_icmp() -> Pcap {
    let mut packets = Vec::new();
    for packet in traffic(4, 3_000) {
        let time_ns = packet.time_ns;
        let (src, dst, kind, ports) = read(&packet.bytes);
        let errors = if dst == EXTERNAL {
            let left = frame(time_ns, EXTERNAL, PEER, Kind::Udp, [ports[1], 53]);
            let host = [10, 0, 0, (ports[1] % 6) as u8];
            let came = frame(time_ns, PEER, host, Kind::Udp, [53, ports[1]]);
            [error(time_ns, ROUTER, &left), error(time_ns, host, &came)]
        } else {
            let came = frame(time_ns, PEER, src, kind, [53, ports[0]]);
            let left = frame(time_ns, EXTERNAL, PEER, kind, [ports[0], 53]);
            [error(time_ns, src, &came), error(time_ns, PEER, &left)]
        };
        packets.push(packet);
        packets.extend(errors);
    }
    pcap::of(&packets)
}

/// Replicas give out the same ports, so every answer is the same; sharded cores have ports of their own, so hosts
/// are compared but for those, and none may run out of them: here each core has enough.
#[test]
fn many_cores_equal_one_with_icmp_among_the_packets() {
    let capture = with_icmp();
    for (flows, full) in [(4, "reject"), (4, "evict-oldest"), (16, "evict-oldest"), (1024, "reject")] {
        for cores in [2, 3] {
            let chain = nat(flows, full, "preserve");
            let plan = Plan::new(&chain, SCR, cores).expect("a plan");
            let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
            assert!(verified.holds(), "scr, {flows} flows, {cores} cores: {verified:#?}");
        }
    }
    let chain = chain(
        "[[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]",
        &stock::registry(),
    );
    let outbound: Vec<Packet> = traffic(5, 3_000)
        .into_iter()
        .flat_map(|packet| {
            let (src, dst, kind, ports) = read(&packet.bytes);
            let came = frame(packet.time_ns, PEER, src, kind, [53, ports[0]]);
            let error = error(packet.time_ns, src, &came);
            (dst != EXTERNAL).then_some([packet, error]).into_iter().flatten()
        })
        .collect();
    let capture = pcap::of(&outbound);
    for strategy in [RSS, RSSPP] {
        for cores in [2, 3] {
            let plan = Plan::new(&chain, strategy, cores).expect("a plan");
            let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
            assert!(verified.holds(), "{strategy:?}, {cores} cores: {verified:#?}");
        }
    }
}
