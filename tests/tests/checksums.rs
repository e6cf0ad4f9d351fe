//! Packets with wrong checksums are nobody's business, under every strategy; and a capture's first packets decide
//! whether that is so.

use engine::report::RunReport;
use engine::strategies::{RSS, RSSPP, SCR, SCR_TURNS, SINGLE, Strategy};
use engine::{Chain, ExternalInput, ExternalPackets, Plan, Progress, Recovery, RunOutcome, SequencedAs};
use engine::{replay_capture, replay_external, verify, verify_external};
use io::capture::CaptureReader;
use io::{EngineDrop, Fate};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::sequenced::{files, sequenced};
use paceline_conformance::{Packet, chain, tcp, udp6};

const MS: u64 = 1_000_000;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const RST: u8 = 0x04;

/// A TCP packet whose checksum is right: the builder's is of other flags.
fn right(time_ns: u64, (src, dst): (u8, u8), ports: (u16, u16), flags: u8, seq: u32, ack: u32) -> Packet {
    let mut packet = tcp(time_ns, src, dst, ports, flags, seq, 10);
    packet.bytes[42..46].copy_from_slice(&ack.to_be_bytes());
    packet.bytes[50..52].fill(0);
    let (ip, segment) = (&packet.bytes[14..34], &packet.bytes[34..]);
    let pseudo = [&ip[12..20], &[0, 6], &(segment.len() as u16).to_be_bytes(), segment].concat();
    let sum: u32 = pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet.bytes[50..52].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn wrong(packet: Packet, change: u8) -> Packet {
    let mut packet = packet;
    packet.bytes[51] ^= change;
    packet
}

/// Connections that an attacker tries to reset with packets that no endpoint would take. Every 10 packets bring
/// one.
fn attacked(connections: u16) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut now_ns = 1_000 * MS;
    for number in 0..connections {
        let (client, server) = (10_000 + number, 80);
        let hosts = (1 + (number % 20) as u8, 200);
        let (there, back) = ((client, server), (server, client));
        let answer = (hosts.1, hosts.0);
        let mut push = |packet: &dyn Fn(u64) -> Packet| {
            now_ns += MS;
            packets.push(packet(now_ns));
        };
        push(&|at| right(at, hosts, there, SYN, 100, 0));
        push(&|at| right(at, answer, back, SYN | ACK, 300, 111));
        push(&|at| right(at, hosts, there, ACK, 111, 311));
        push(&|at| wrong(right(at, hosts, there, RST, 121, 0), 1 + (number % 200) as u8));
        for turn in 0..3 {
            push(&|at| right(at, answer, back, ACK, 311 + 10 * turn, 121 + 10 * turn));
            push(&|at| right(at, hosts, there, ACK, 121 + 10 * turn, 321 + 10 * turn));
        }
    }
    packets
}

fn conntrack(checksums: &str) -> Chain {
    let text = format!("{checksums}\n[[function]]\nuse = \"conntrack\"\ngaps = \"strict\"\n");
    chain(&text, &stock::registry())
}

/// The outcome of a run, and every packet's fate.
fn run(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    reader: CaptureReader,
) -> (RunOutcome, Vec<Fate>) {
    let plan = Plan::new(chain, strategy, cores).expect("a plan");
    let mut fates = Vec::new();
    let mut see = |seen: &engine::Seen<'_>| {
        fates.push(seen.fate);
        Ok::<_, ()>(())
    };
    let outcome = replay_capture(chain, &plan, reader, &Progress::default(), &mut see).expect("runs");
    (outcome, fates)
}

/// The attack: an endpoint ignores the reset, and so must a tracker that follows the connection.
#[test]
fn a_reset_with_a_wrong_checksum_closes_nothing() {
    let packets = attacked(60);
    let capture = pcap::of(&packets);
    for checksums in ["", "checksums = \"auto\"", "checksums = \"verify\""] {
        let chain = conntrack(checksums);
        let (outcome, fates) = run(&chain, SINGLE, 1, capture.open());
        let dropped: Vec<usize> = (0..fates.len()).filter(|at| fates[*at] != Fate::Forward).collect();
        assert_eq!(dropped, (0..60).map(|number| 10 * number + 3).collect::<Vec<_>>(), "{checksums}");
        assert!(dropped.iter().all(|at| fates[*at] == Fate::Drop(EngineDrop::Malformed)));
        assert_eq!(outcome.cores[0].0.malformed[wire::Malformed::TcpChecksum as usize - 1], 60);
    }
    // The planted fault: where it is believed, the connection is over.
    let (_, fates) = run(&conntrack("checksums = \"ignore\""), SINGLE, 1, capture.open());
    assert_eq!(fates[3], Fate::Forward);
    let small = pcap::of(&packets[..10]);
    let verified = |checksums: &str| {
        let chain = conntrack(checksums);
        run(&chain, SINGLE, 1, small.open()).0.cores[0].1.stage(0).counters().events.to_vec()
    };
    let closed_by_reset = |events: Vec<u64>| events[5];
    assert_eq!(closed_by_reset(verified("checksums = \"ignore\"")), 1);
    assert_eq!(closed_by_reset(verified("checksums = \"verify\"")), 0);
}

/// One decision for all: what one core finds malformed, history says of the packet to the others.
#[test]
fn every_strategy_finds_the_same() {
    let capture = pcap::of(&attacked(60));
    for checksums in ["auto", "verify", "ignore"] {
        let chain = conntrack(&format!("checksums = \"{checksums}\""));
        for (strategy, cores) in [(RSS, 3), (RSSPP, 3), (SCR, 2), (SCR, 5), (SCR_TURNS, 3)] {
            let plan = Plan::new(&chain, strategy, cores).expect("a plan");
            let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
            assert!(verified.holds(), "{checksums} {strategy:?} {cores}");
        }
        let plan = Plan::new(&chain, SCR, 3).expect("a plan");
        let input = || ExternalInput {
            packets: ExternalPackets::Capture(capture.open().into(), SequencedAs::Newest),
            speed: None,
            loss: None,
            recovery: Recovery::On,
        };
        let verified = verify_external(&chain, &plan, &|| Ok(input()), &Progress::default()).expect("runs");
        assert!(verified.holds(), "{checksums} with history");
        let mut fates = Vec::new();
        let mut see = |seen: &engine::Seen<'_>| {
            fates.push(seen.fate);
            Ok::<_, ()>(())
        };
        let outcome = replay_external(&chain, &plan, input(), &Progress::default(), &mut see).expect("runs");
        assert_eq!(outcome.checksums.verified, checksums != "ignore");
        assert_eq!(fates, run(&chain, SINGLE, 1, capture.open()).1, "{checksums}");
    }
}

/// Files say which packets are wrong, so that all cores drop them, whatever their own chain file says.
#[test]
fn files_say_what_their_sequencer_found() {
    let capture = pcap::of(&attacked(60));
    for version in [SequencedAs::Headers, SequencedAs::Newest] {
        for of_sequencer in ["verify", "ignore"] {
            let sequencer = conntrack(&format!("checksums = \"{of_sequencer}\""));
            let frames = sequenced(&sequencer, capture.open(), 3, version);
            let files = files(&frames);
            let (outcome, expected) = run(&sequencer, SINGLE, 1, capture.open());
            let plan = Plan::new(&sequencer, SINGLE, 1).expect("a plan");
            let digest = RunReport::new(&sequencer, &plan, &outcome).digest;
            for of_cores in ["auto", "verify", "ignore"] {
                let chain = conntrack(&format!("checksums = \"{of_cores}\""));
                let plan = Plan::new(&chain, SCR, 3).expect("a plan");
                let mut fates = Vec::new();
                let mut see = |seen: &engine::Seen<'_>| {
                    fates.push(seen.fate);
                    Ok::<_, ()>(())
                };
                let input = || files(None, Recovery::On);
                let opened = input().expect("files");
                let outcome = replay_external(&chain, &plan, opened, &Progress::default(), &mut see);
                let of = format!("{of_sequencer}, then {of_cores}, {version:?}");
                assert!(fates == expected, "{of}");
                let report = RunReport::new(&chain, &plan, &outcome.expect("runs"));
                assert_eq!(report.digest, digest, "{of}");
                assert_eq!(report.checksums.refused, if of_sequencer == "verify" { 60 } else { 0 }, "{of}");
                let verified = verify_external(&chain, &plan, &input, &Progress::default()).expect("runs");
                assert!(verified.holds(), "{of}");
            }
        }
    }
}

/// What the sender's own capture shows: its packets as they were before the card had them.
fn as_sent(packets: Vec<Packet>) -> Vec<Packet> {
    let as_sent = |mut packet: Packet| {
        if packet.bytes[33] == 200 {
            let segment_len = (packet.bytes.len() - 34) as u32;
            let words = packet.bytes[26..34].chunks(2);
            let sum =
                words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>() + 6 + segment_len;
            packet.bytes[50..52].copy_from_slice(&((sum & 0xffff) + (sum >> 16)).to_be_bytes()[2..]);
        }
        packet
    };
    packets.into_iter().map(as_sent).collect()
}

#[test]
fn the_first_packets_decide() {
    let decided = |packets: &[Packet]| {
        let (outcome, fates) = run(&conntrack(""), SINGLE, 1, pcap::of(packets).open());
        assert_eq!(fates.len(), packets.len(), "none is lost by looking ahead");
        outcome.checksums
    };
    let sample = decided(&attacked(600));
    assert_eq!((sample.verified, sample.sampled, sample.wrong, sample.left_to_card), (true, 4_096, 410, 0));
    let sample = decided(&as_sent(attacked(60)));
    assert_eq!(
        (sample.verified, sample.sampled, sample.left_to_card),
        (false, 600, 360),
        "{}",
        sample.describe()
    );
    // A card fills in the sum of IPv4 headers, too.
    let without = |mut packet: Packet| {
        if packet.bytes[33] == 200 {
            packet.bytes[24..26].fill(0);
        }
        packet
    };
    let sample = decided(&attacked(60).into_iter().map(without).collect::<Vec<_>>());
    assert_eq!(
        (sample.verified, sample.sampled, sample.wrong, sample.left_to_card),
        (false, 600, 360, 360),
        "{}",
        sample.describe()
    );
    // Wrong for whatever reason, too often to be true.
    let broken: Vec<_> = attacked(60).into_iter().map(|packet| wrong(packet, 0x55)).collect();
    assert!(!decided(&broken).verified);
    // A few of the sender's own are enough: nothing else leaves just that in the field.
    let mut few = attacked(60);
    few.splice(100..120, as_sent(attacked(60)).drain(100..120));
    assert!(!decided(&few).verified);
    assert!(decided(&[]).verified && decided(&[udp6(1, 1, 2, (7, 7), 9)]).verified);
}

/// A pipe is not read twice, nor for long before the first packet goes on its way.
#[test]
fn a_pipe_is_looked_at_as_far_as_its_first_packets() {
    let packets = attacked(60);
    let path = std::env::temp_dir().join(format!("checksums-{}.pcap", std::process::id()));
    let mut writer = io::capture::CaptureWriter::create(&path, wire::LinkType::Ethernet).expect("a file");
    let capture = pcap::of(&packets);
    let mut reader = capture.open();
    while let Some(record) = reader.next().expect("whole") {
        writer.write(record.time_ns, record.wire_len, record.data).expect("written");
    }
    writer.finish().expect("written");
    let piped = CaptureReader::from_reader(std::fs::File::open(&path).expect("a file")).expect("a capture");
    let (outcome, fates) = run(&conntrack(""), SINGLE, 1, piped);
    std::fs::remove_file(&path).expect("there");
    assert_eq!((outcome.checksums.sampled, outcome.checksums.verified, fates.len()), (64, true, 600));
}

/// Cut by the capture: nothing can be said of their checksums, and they pass; what they say of themselves is counted.
#[test]
fn packets_that_were_cut_pass_unverified() {
    let mut pcap = Pcap::new();
    for packet in attacked(6) {
        pcap.push(packet.time_ns, packet.bytes.len() as u32, &packet.bytes[..60]);
    }
    let (outcome, fates) = run(&conntrack("checksums = \"verify\""), SINGLE, 1, pcap.open());
    assert_eq!(outcome.cores[0].0.unverifiable, 60);
    assert!(!fates.contains(&Fate::Drop(EngineDrop::Malformed)));
}
