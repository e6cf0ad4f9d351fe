//! What becomes of fragments is the same under every strategy: whichever core gets them, whatever moves, wherever the
//! history comes from. And attacks that later fragments make possible do not get through.

use engine::strategies::{RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE, Strategy};
use engine::{
    Chain, Checksums, CoreCounters, ExternalInput, ExternalPackets, FragmentTracker, Plan, Progress,
    Recovery, Seen, SequencedAs,
};
use engine::{replay_capture, replay_external, verify_external};
use io::capture::CaptureReader;
use io::{EngineDrop, Fate};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::sequenced::{files, sequenced};
use paceline_conformance::stock::{beginnings, every_model, small};
use paceline_conformance::{Packet, chain, example};
use sweep::{Matrix, Outcome, Setting, Tables, Way, fragmented, outcome};
use table::WhenFull;
use wire::{LinkType, Malformed};

const SETTINGS: [&str; 4] = ["pass", "drop", "track", "follow"];

fn with(fragments: &str, functions: &str) -> Chain {
    chain(&format!("fragments = \"{fragments}\"\n{functions}"), &stock::registry())
}

fn tracking(chain: Chain) -> Chain {
    Chain { fragments: engine::Fragments::Track, ..chain }
}

/// An IPv4 fragment from host 1 to host 2 with so much of `data` at `offset`; no checksums, as the chains here ignore
/// them.
fn piece(id: u16, protocol: u8, offset: usize, has_more: bool, data: &[u8]) -> Packet {
    let field = (offset / 8) as u16 | u16::from(has_more) << 13;
    let mut bytes = vec![0; 12];
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend((20 + data.len() as u16).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(field.to_be_bytes());
    bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend_from_slice(data);
    Packet { time_ns: 1_000_000_000, bytes }
}

/// A TCP header to a port, with flags.
fn tcp(dst_port: u16, flags: u8) -> Vec<u8> {
    let mut header = vec![0x9c, 0x40];
    header.extend(dst_port.to_be_bytes());
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    header
}

/// What became of each packet, and what the cores counted.
fn run(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    capture: CaptureReader,
) -> (Vec<Fate>, CoreCounters) {
    let plan = Plan::new(chain, strategy, cores).expect("a plan");
    let mut fates = Vec::new();
    let mut see = |seen: &Seen<'_>| {
        fates.push(seen.fate);
        Ok::<_, ()>(())
    };
    let outcome = replay_capture(chain, &plan, capture, &Progress::default(), &mut see).expect("runs");
    let mut all = CoreCounters::default();
    for (core, _) in &outcome.cores {
        all.malformed.iter_mut().zip(core.malformed).for_each(|(sum, count)| *sum += count);
    }
    (fates, all)
}

fn counted(counters: &CoreCounters, reason: Malformed) -> u64 {
    counters.malformed[reason as usize - 1]
}

const PASSED: Fate = Fate::Forward;
const REFUSED: Fate = Fate::Drop(EngineDrop::Malformed);

/// RFC 1858 §3, RFC 3128 §2: an access list allows port 80, and the attacker wants port 23. Receivers that let later
/// bytes win would put the second fragment's ports or flags over the first's.
#[test]
fn later_fragments_do_not_carry_another_header_past_an_access_list() {
    let only_80 = "checksums = \"ignore\"\n[[function]]\nuse = \"access-list\"
        rules = [\"allow tcp from any to any port 80\"]\ndefault = \"deny\"";
    let whole = [tcp(80, 2), vec![0; 12]].concat();
    let overwrites_flags = [
        piece(1, 6, 0, true, &whole[..24]),
        piece(1, 6, 8, true, &[&tcp(80, 0x12)[8..], &[0; 4]].concat()),
        piece(1, 6, 24, false, &whole[24..]),
    ];
    // RFC 3128: ports alone, at offset 0, too short to be looked at.
    let overwrites_ports = [
        piece(2, 6, 0, true, &whole[..24]),
        piece(2, 6, 0, true, &tcp(23, 2)[..8]),
        piece(2, 6, 24, false, &whole[24..]),
    ];
    let tiny = [piece(3, 6, 0, true, &tcp(23, 2)[..8]), piece(3, 6, 8, false, &tcp(23, 2)[8..])];
    let fates = |fragments: &str, packets: &[Packet]| {
        run(&with(fragments, only_80), SINGLE, 1, pcap::of(packets).open())
    };
    let (passed, _) = fates("pass", &overwrites_flags);
    assert_eq!(passed, [PASSED; 3], "the attack, where fragments go on each for itself");
    let (tracked, counters) = fates("track", &overwrites_flags);
    assert_eq!(tracked, [PASSED, REFUSED, REFUSED]);
    assert_eq!(counted(&counters, Malformed::FragmentOverlap), 2);
    // A tiny first fragment is malformed by itself. What follows it waits for a header that never comes.
    let (tracked, counters) = fates("track", &overwrites_ports);
    assert_eq!(tracked, [PASSED, REFUSED, PASSED]);
    assert_eq!(counted(&counters, Malformed::TcpTruncated), 1);
    assert_eq!(fates("pass", &tiny).0, [REFUSED, PASSED]);
    let (tracked, counters) = fates("track", &tiny);
    assert_eq!(tracked, [REFUSED; 2]);
    assert_eq!(counted(&counters, Malformed::FragmentWithoutFirst), 1);
    for packets in [&overwrites_flags[..], &overwrites_ports, &tiny] {
        let (dropped, counters) = fates("drop", packets);
        assert_eq!(dropped, vec![REFUSED; packets.len()]);
        assert_eq!(counters.malformed.iter().sum::<u64>(), packets.len() as u64);
        assert!(counted(&counters, Malformed::Fragment) >= 1);
    }
}

/// RFC 6946: a fragment header alone does not make a fragment.
#[test]
fn atomic_fragments_are_whole_packets() {
    let mut bytes = vec![0; 12];
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 44, 64]);
    bytes.extend([&[0xfd; 15][..], &[1], &[0xfd; 15], &[2]].concat());
    bytes.extend([17, 0, 0, 0, 1, 2, 3, 4, 0x03, 0xe8, 0x07, 0xd0, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut first = bytes.clone();
    first[57] = 1;
    let packets: Vec<_> =
        [bytes, first].into_iter().map(|bytes| Packet { time_ns: 1_000_000_000, bytes }).collect();
    let function = "checksums = \"ignore\"\n[[function]]\nuse = \"policer\"\n\
                    rate_bytes_per_s = 1000000\nburst_bytes = 100000";
    for (fragments, expected) in [("pass", PASSED), ("track", PASSED), ("drop", REFUSED)] {
        let (fates, _) = run(&with(fragments, function), SINGLE, 1, pcap::of(&packets).open());
        assert_eq!(fates, [PASSED, expected], "{fragments}");
    }
}

/// A packet with a wrong checksum is no fragment of anything: what it says of its datagram nobody believes.
#[test]
fn fragments_with_wrong_checksums_are_not_followed() {
    let data = [7; 48];
    let mut packets = [
        piece(1, 17, 0, true, &[&[0x03, 0xe8, 0x07, 0xd0, 0, 48, 0, 0][..], &data[..16]].concat()),
        piece(1, 17, 8, true, &data[..16]),
        piece(1, 17, 24, false, &data[..24]),
    ];
    for (number, packet) in packets.iter_mut().enumerate() {
        let sum: u32 =
            packet.bytes[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16 ^ u16::from(number == 1);
        packet.bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let function = "[[function]]\nuse = \"policer\"\nrate_bytes_per_s = 1000000\nburst_bytes = 100000";
    let capture = pcap::of(&packets);
    let fates = |checksums: &str, strategy: &'static dyn Strategy, cores| {
        let chain = with("track", &format!("checksums = \"{checksums}\"\n{function}"));
        run(&chain, strategy, cores, capture.open()).0
    };
    for (strategy, cores) in [(SINGLE, 1), (RSS, 2), (SCR, 3)] {
        assert_eq!(fates("verify", strategy, cores), [PASSED, REFUSED, PASSED]);
        assert_eq!(fates("ignore", strategy, cores), [PASSED, REFUSED, REFUSED]);
    }
}

/// The captures with half of their packets in fragments, and so the models of traffic.
fn inputs(most: usize) -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(most);
    inputs.push(("every model".to_owned(), every_model(most / 8)));
    let fragmented = |(seed, (name, capture)): (u64, (String, Pcap))| (name, fragmented(&capture, seed));
    (1..).zip(inputs).map(fragmented).collect()
}

/// A tracker in front of functions with one key, with shards, with sides, and with states that cores share.
fn chains() -> Vec<Chain> {
    let conntrack = with("track", "[[function]]\nuse = \"conntrack\"");
    // Functions that translate, or judge by ports.
    let following = ["gateway.toml", "nat-forwards.toml", "firewall.toml", "balance.toml"];
    let mut chains: Vec<_> =
        ["edge.toml", "gateway.toml", "mixed-keys.toml"].map(|name| tracking(small(example(name)))).into();
    chains.push(conntrack);
    chains.extend(following.map(|name| small(example(name)).following_fragments()));
    chains
}

/// Simulated each, and a part of them on threads.
fn settings() -> Vec<Setting> {
    let of = |flows, when_full| Tables::Of { flows, when_full };
    let tables = vec![of(4, WhenFull::Reject), of(64, WhenFull::EvictOldest), of(8_192, WhenFull::Reject)];
    let lossy = Way::lossy("0.02".parse().expect("a share"));
    let plain = [RSS, SHARED, SCR].map(Way::plain);
    let ways = [&plain[..], &[Way::moving(2), Way::moving(37), lossy]].concat();
    let on_threads = Matrix { tables: tables[1..2].to_vec(), ways: ways.clone(), cores: vec![2] }.settings(3);
    let simulated =
        Matrix { tables, ways, cores: vec![2, 5] }.settings(3).into_iter().map(Setting::simulated);
    simulated.chain(on_threads).collect()
}

/// Each comparison is with `single`, whose tracker is the dispatcher's, too.
#[test]
fn every_strategy_answers_as_one_core() {
    let inputs = inputs(400);
    let (mut equal, mut announced) = (0, 0);
    for chain in chains() {
        for setting in settings() {
            let chain = &setting.chain(&chain);
            for (name, capture) in &inputs {
                let result = setting.verify(chain, capture, &Progress::default());
                match outcome(chain, &result).expect("not stopped") {
                    Outcome::Equal => equal += 1,
                    Outcome::EqualUpTo { .. } => announced += 1,
                    Outcome::Refused { .. } | Outcome::NothingCompared { .. } => {}
                    other => panic!("{} under {setting} over {name}: {other:?}", chain.name),
                }
            }
        }
    }
    assert!(equal > 100 && announced > 50, "{equal}, {announced}");
}

/// Verdicts are the same packet by packet, and not only the same on both sides of a comparison; each reason occurs.
#[test]
fn verdicts_do_not_depend_on_strategies() {
    let functions = "[[function]]\nuse = \"conntrack\"\nflows = 8192";
    let mut reasons = [0; Malformed::ALL.len()];
    for (name, capture) in inputs(2_000) {
        let mut by_setting = Vec::new();
        for setting in SETTINGS {
            let chain = with(setting, functions);
            let (expected, counters) = run(&chain, SINGLE, 1, capture.open());
            if setting == "track" {
                reasons.iter_mut().zip(counters.malformed).for_each(|(sum, count)| *sum += count);
            }
            for (strategy, cores) in [(RSS, 3), (RSSPP, 3), (SHARED, 2), (SCR, 2), (SCR, 5), (SCR_TURNS, 3)] {
                let (fates, of_cores) = run(&chain, strategy, cores, capture.open());
                let refused = |fates: &[Fate]| fates.iter().map(|fate| *fate == REFUSED).collect::<Vec<_>>();
                assert_eq!(refused(&fates), refused(&expected), "{name}: {setting} {strategy:?} {cores}");
                assert_eq!(of_cores.malformed, counters.malformed, "{name}: {setting} {strategy:?} {cores}");
            }
            let plan = Plan::new(&chain, SCR, 3).expect("a plan");
            let decided = as_decided(&chain, &capture);
            let frames = sequenced(&decided, capture.open(), 3, SequencedAs::Newest);
            let open_files = files(&frames);
            let of_capture = || ExternalInput {
                packets: ExternalPackets::Capture(capture.open().into(), SequencedAs::Newest),
                speed: None,
                loss: None,
                recovery: Recovery::On,
            };
            for recovery in [Recovery::On, Recovery::Off] {
                for from_files in [false, true] {
                    let input = match from_files {
                        true => open_files(None, recovery).expect("whole"),
                        false => ExternalInput { recovery, ..of_capture() },
                    };
                    let chain = if from_files { &decided } else { &chain };
                    let mut fates = Vec::new();
                    let mut see = |seen: &Seen<'_>| {
                        fates.push(seen.fate);
                        Ok::<_, ()>(())
                    };
                    replay_external(chain, &plan, input, &Progress::default(), &mut see).expect("runs");
                    assert_eq!(fates, expected, "{name}: {setting} {recovery:?}, files: {from_files}");
                }
            }
            by_setting.push(expected);
        }
        let refused = |fates: &Vec<Fate>| fates.iter().filter(|fate| **fate == REFUSED).count();
        let [pass, drop, track, follow] = [0, 1, 2, 3].map(|setting| refused(&by_setting[setting]));
        assert!(pass < track && track < drop, "{name}: {pass}, {track}, {drop}");
        assert_eq!(follow, track, "{name}: what is refused as malformed");
    }
    let missing = |reason: &&Malformed| reason.is_of_datagrams() && reasons[**reason as usize - 1] == 0;
    let missing: Vec<_> = Malformed::ALL.iter().filter(missing).collect();
    // What the inputs have no fragments enough, or no headers, for: `engine`'s own tests have those.
    assert_eq!(
        missing,
        [&Malformed::FragmentOverflow, &Malformed::FragmentNested, &Malformed::TooManyFragments]
    );
}

/// What `checksums = "auto"` decides on this capture, for files, which do not say.
fn as_decided(chain: &Chain, capture: &Pcap) -> Chain {
    let sample = chain.checksums.decide(&mut capture.open());
    let checksums = if sample.verified { Checksums::Verify } else { Checksums::Ignore };
    Chain { checksums, ..chain.clone() }
}

/// The planted fault: where each core follows datagrams by itself, as it would if the tracker were part of the chain,
/// fragments that belong together are judged apart.
#[test]
fn trackers_on_cores_would_judge_otherwise() {
    let chain = with("track", "[[function]]\nuse = \"conntrack\"");
    let cores = 3;
    let plan = Plan::new(&chain, RSS, cores).expect("a plan");
    for (name, capture) in inputs(2_000) {
        let mut assign = plan.assign(&chain);
        let mut of_all = FragmentTracker::new();
        let mut of_cores: Vec<_> = (0..cores).map(|_| FragmentTracker::new()).collect();
        let mut otherwise = 0;
        for record in capture.records() {
            let headers = chain.headers(record.link, record.data, record.wire_len);
            let Some(fragment) = wire::fragment(record.data, &headers) else { continue };
            let core = {
                let entry = assign.entry(&headers);
                assign.core(entry)
            };
            let verdict = of_all.check(&fragment, record.time_ns);
            otherwise += usize::from(of_cores[core].check(&fragment, record.time_ns) != verdict);
        }
        assert!(otherwise > 10, "{name}: {otherwise}");
    }
}

/// The planted fault: a sequencer that does not tell a packet's own core why it was refused. The others know it from
/// their history, so replicas come to differ.
#[test]
fn a_core_that_is_not_told_answers_otherwise() {
    let (_, capture) = inputs(2_000).remove(0);
    let chain = as_decided(&with("track", "[[function]]\nuse = \"flow-statistics\"\nflows = 8192"), &capture);
    let plan = Plan::new(&chain, SCR, 3).expect("a plan");
    let holds = |forget: bool| {
        let mut frames = sequenced(&chain, capture.open(), 3, SequencedAs::Newest);
        if forget {
            // The flags, but for the flush.
            frames.iter_mut().flatten().for_each(|frame| frame.bytes[5] &= 1);
        }
        let open = files(&frames);
        let verified = verify_external(&chain, &plan, &|| open(None, Recovery::On), &Progress::default());
        verified.expect("runs").holds()
    };
    assert!(holds(false));
    assert!(!holds(true));
}

/// Captures of other links have fragments, too.
#[test]
fn fragments_on_any_link() {
    let packets = [piece(1, 50, 0, true, &[0; 16]), piece(1, 50, 8, false, &[0; 16])];
    let mut pcap = Pcap::new();
    for packet in &packets {
        let record = io::capture::Record {
            time_ns: packet.time_ns,
            wire_len: packet.bytes.len() as u32 - 14,
            link: LinkType::RawIp,
            data: &packet.bytes[14..],
        };
        pcap.push_record(&record);
    }
    let function = "checksums = \"ignore\"\n[[function]]\nuse = \"policer\"\n\
                    rate_bytes_per_s = 1000000\nburst_bytes = 100000";
    assert_eq!(run(&with("track", function), RSS, 2, pcap.open()).0, [PASSED, REFUSED]);
}
