//! History whose items hold what functions read, version 2 of `docs/history-format.md`: replicas equal one core as with
//! version 1; items of another chain or seed are refused; wrong ones are found; damaged ones panic nowhere.

use std::ops::Range;

use engine::strategies::{SCR, SINGLE};
use engine::{
    Chain, ExternalInput, ExternalPackets, HistoryCounters, InputError, Loss, Plan, Progress, Recovery,
    SequencedAs, Sequencing, SequencingError, Verified, replay_external, verify, verify_external,
};
use io::capture::{CaptureReader, Record};
use paceline_conformance::draw::Draw;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::root;
use paceline_conformance::sequenced::{Frame, at, files, sequenced};
use paceline_conformance::stock::{ALONE, alone, beginnings, every_model, examples, small, three_typed};
use sequencer::{Part, Rejected, TypedLayout, Version};
use table::WhenFull;
use wire::LinkType;

/// Packets of each capture.
const PACKETS: usize = 400;

const POLICIES: [WhenFull; 2] = [WhenFull::EvictOldest, WhenFull::Reject];

/// The captures, and all models of traffic in one.
fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    inputs.push(("every model".to_owned(), every_model(PACKETS / 8)));
    inputs
}

fn edge() -> CaptureReader {
    CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture")
}

fn loss(share: &str) -> Option<Loss> {
    Some(Loss::new(share.parse().expect("a share"), 11))
}

fn check(chain: &Chain, cores: usize, open: &dyn Fn() -> Result<ExternalInput, InputError>) -> Verified {
    let plan = Plan::new(chain, SCR, cores).expect("replicable");
    verify_external(chain, &plan, open, &Progress::default()).expect("runs")
}

fn check_frames(chain: &Chain, frames: &[Vec<Frame>], recovery: Recovery) -> Verified {
    let open = files(frames);
    check(chain, frames.len(), &|| open(None, recovery))
}

fn sum(verified: &Verified, of: impl Fn(&HistoryCounters) -> u64) -> u64 {
    verified.history.as_ref().expect("history").outcome.cores.iter().map(of).sum()
}

fn rejected(verified: &Verified, reason: Rejected) -> u64 {
    sum(verified, |core| core.rejected[reason as usize])
}

/// Over each capture, with losses and without, with either policy of tables that are soon full; with each version.
fn assert_equals_single(chain: &Chain, inputs: &[(String, Pcap)]) {
    for (name, capture) in inputs {
        for policy in POLICIES {
            let chain = &chain.clone().with_flows(24, policy);
            let plan = Plan::new(chain, SINGLE, 1).expect("a plan");
            let single = verify(chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
            for (cores, share) in [(2, "0"), (4, "0"), (8, "0"), (2, "0.02"), (4, "0.1"), (8, "0.02")] {
                let versions = [SequencedAs::Newest, SequencedAs::Headers].map(|version| {
                    let open = || {
                        let packets = ExternalPackets::Capture(capture.open().into(), version);
                        Ok(ExternalInput { packets, speed: None, loss: loss(share), recovery: Recovery::On })
                    };
                    let verified = check(chain, cores, &open);
                    let at = format!("{} on {cores} of {name}, {share} lost, {policy:?}", chain.name);
                    assert!(verified.holds(), "{at}, {version:?}: {verified:#?}");
                    verified
                });
                // With losses, too, both versions have the same packets.
                let [typed, headers] = versions.map(|verified| (verified.packets, verified.digests));
                assert_eq!(typed, headers, "{} on {cores} of {name}, {share} lost", chain.name);
                if share == "0" {
                    assert_eq!(typed, (single.packets, single.digests.clone()), "{}", chain.name);
                }
            }
        }
    }
}

#[test]
fn every_stock_function_equals_single() {
    let inputs = inputs();
    let mut typed = 0;
    for (name, options) in ALONE {
        let chain = alone(name, options);
        typed += u32::from(chain.history_version() == Version::Typed);
        assert_equals_single(&chain, &inputs);
    }
    assert!(typed + 2 >= ALONE.len() as u32, "{typed} of {}", ALONE.len());
}

#[test]
fn every_example_equals_single() {
    let inputs = &inputs()[..1];
    let replicable = |chain: &Chain| Plan::new(chain, SCR, 2).is_ok();
    let mut versions = [0; 2];
    for chain in examples().into_iter().filter(replicable) {
        versions[chain.history_version() as usize - 1] += 1;
        assert_equals_single(&chain, inputs);
    }
    assert!(versions[0] > 0 && versions[1] > 5, "{versions:?}");
}

/// Where functions cannot be told what they read, items hold headers, and nobody gets anything else.
#[test]
fn a_chain_that_edits_what_it_reads_has_version_1() {
    let edits = examples().into_iter().filter(|chain| chain.history_version() == Version::Headers);
    for chain in edits.filter(|chain| Plan::new(chain, SCR, 2).is_ok()) {
        let sequencing = Sequencing::new(&chain, 2, false).expect("two cores");
        assert_eq!(sequencing.version(), Version::Headers, "{}", chain.name);
        let asked = Sequencing::with_version(&chain, Version::Typed, 2, false);
        assert_eq!(asked.err(), Some(SequencingError::NotTyped), "{}", chain.name);
        // Files of another chain are of another version.
        let frames = sequenced(&three_typed(), edge(), 2, SequencedAs::Newest);
        let verified = check_frames(&small(chain), &frames, Recovery::On);
        assert_eq!((verified.packets, rejected(&verified, Rejected::Version)), (0, 5_432 + 2));
    }
}

#[test]
fn items_of_another_chain_are_refused() {
    let ours = three_typed();
    let frames = sequenced(&ours, edge(), 3, SequencedAs::Newest);
    let mut reordered = ours.clone();
    reordered.functions.swap(0, 1);
    let mut shorter = ours.clone();
    shorter.functions.pop();
    for other in [reordered, shorter, alone("policer", ""), alone("ddos", "")] {
        let verified = check_frames(&other, &frames, Recovery::On);
        assert_eq!((verified.packets, rejected(&verified, Rejected::OtherLayout)), (0, 5_432 + 3));
    }
    // Options decide no item.
    let mut otherwise = ours;
    otherwise.functions.iter_mut().for_each(|spec| spec.flows = 100);
    assert!(check_frames(&otherwise, &frames, Recovery::On).holds());
}

/// A receiver takes the seed of the files; what has another one later is refused, and is a loss.
#[test]
fn items_of_another_seed_are_refused() {
    let chain = three_typed();
    let other = Chain { table_seed: chain.table_seed ^ 1, ..chain.clone() };
    let mut frames = sequenced(&other, edge(), 3, SequencedAs::Newest);
    let verified = check_frames(&chain, &frames, Recovery::On);
    assert!(verified.holds(), "{verified:#?}");
    let ours = sequenced(&chain, edge(), 3, SequencedAs::Newest);
    frames[1][300..320].clone_from_slice(&ours[1][300..320]);
    let verified = check_frames(&chain, &frames, Recovery::On);
    assert!(verified.holds(), "{verified:#?}");
    assert_eq!((verified.packets, rejected(&verified, Rejected::OtherSeed)), (5_432 - 20, 20));
    assert_eq!(sum(&verified, |core| core.recovered), 3 * 20);
    // Relabelled, so that hashes are wrong and nothing says so: found.
    frames[1][300..320].iter_mut().for_each(|frame| {
        frame.set(at::TABLE_SEED, other.table_seed);
    });
    assert!(!check_frames(&chain, &frames, Recovery::Off).holds());
}

/// Where the newest item of a frame is.
fn newest(frame: &Frame) -> usize {
    let (ring_items, item_len) = (frame.number(at::RING_ITEMS), frame.number(32..34) as usize);
    at::TYPED_RING + ((frame.number(at::SEQ) - 1) % ring_items) as usize * item_len
}

/// Two functions by addresses, whose metas are of one length: sources are counted, destinations policed.
///
/// ```text
///  0       8       9           29       48          68       87
///  | time  | marks | key of src | meta  | key of dst | meta   |
/// ```
fn two_of_one_length() -> Chain {
    let text = "[[function]]\nuse = \"source-statistics\"\n[[function]]\nuse = \"destination-policer\"\n\
                rate_bytes_per_s = 20000\nburst_bytes = 5000\n";
    Chain::parse("two.toml", text, &stock::registry()).expect("a chain")
}

const FIRST_KEY: Range<usize> = 9..29;
const FIRST_META: Range<usize> = 29..48;
const SECOND_KEY: Range<usize> = 48..68;
const SECOND_META: Range<usize> = 68..87;
const ITEM_LEN: u64 = 87;

/// Histories that are well-formed and wrong: the comparison has to find them.
#[test]
fn planted_wrong_items_are_found() {
    let chain = two_of_one_length();
    let frames = sequenced(&chain, edge(), 3, SequencedAs::Newest);
    assert_eq!(frames[0][100].number(32..34), ITEM_LEN);
    assert!(check_frames(&chain, &frames, Recovery::Off).holds());
    let differs = |what: &str, change: &dyn Fn(&mut [u8], u64)| {
        let mut frames = frames.clone();
        for frame in &mut frames[2][100..1_800] {
            let (item, now_ns) = (newest(frame), frame.number(at::TIME_NS));
            change(&mut frame.bytes[item..item + ITEM_LEN as usize], now_ns);
        }
        let verified = check_frames(&chain, &frames, Recovery::Off);
        assert_eq!(sum(&verified, |core| core.rejected.iter().sum()), 0, "well-formed: {what}");
        assert!(!verified.holds(), "{what}: {verified:#?}");
    };
    differs("a wrong hash", &|item, _| item[FIRST_KEY.start] ^= 1);
    differs("the other's hash", &|item, _| {
        item.copy_within(SECOND_KEY.start..SECOND_KEY.start + 4, FIRST_KEY.start);
    });
    differs("another key", &|item, _| item[SECOND_KEY.end - 1] ^= 1);
    differs("the other function's meta", &|item, _| item.copy_within(SECOND_META, FIRST_META.start));
    differs("metas exchanged", &|item, _| {
        for byte in 0..FIRST_META.len() {
            item.swap(FIRST_META.start + byte, SECOND_META.start + byte);
        }
    });
    differs("not its business", &|item, _| item[8] &= !(1 << 2));
    differs("malformed", &|item, _| item[8] |= 1);
    differs("the live packet's time", &|item, now_ns| item[..8].copy_from_slice(&now_ns.to_le_bytes()));
}

/// A ring that is turned by a slot is refused if times run back then, and found if they do not.
#[test]
fn a_rotated_ring_is_refused_or_found() {
    let chain = two_of_one_length();
    let mut frames = sequenced(&chain, edge(), 4, SequencedAs::Newest);
    let item_len = ITEM_LEN as usize;
    for frame in &mut frames[2][100..1_000] {
        frame.bytes[at::TYPED_RING..at::TYPED_RING + 3 * item_len].rotate_left(item_len);
    }
    let verified = check_frames(&chain, &frames, Recovery::Off);
    assert!(rejected(&verified, Rejected::TimeRunsBack) > 500 && !verified.holds());
    // As if all came at once.
    for frame in &mut frames[2][100..1_000] {
        let now_ns = frame.number(at::TIME_NS).to_le_bytes();
        for slot in 0..3 {
            frame.bytes[at::TYPED_RING + slot * item_len..][..8].copy_from_slice(&now_ns);
        }
    }
    let verified = check_frames(&chain, &frames, Recovery::Off);
    assert_eq!(rejected(&verified, Rejected::TimeRunsBack), 0);
    assert!(!verified.holds());
}

/// Any bytes in the place of items: a function may come to any state, and nothing panics.
#[test]
fn damaged_items_panic_nowhere() {
    let mut draw = Draw::new(5);
    let inputs = inputs();
    for (name, options) in ALONE {
        let chain = alone(name, options).with_flows(24, WhenFull::EvictOldest);
        if chain.history_version() == Version::Headers {
            continue;
        }
        for (_, capture) in &inputs {
            let mut frames = sequenced(&chain, capture.open(), 3, SequencedAs::Newest);
            let is_wild = draw.hits(1, 2);
            for frame in frames.iter_mut().flatten() {
                let item_len = frame.number(32..34) as usize;
                for slot in 0..2 {
                    let item = at::TYPED_RING + slot * item_len;
                    // Behind the time, which a receiver checks, and the mark of malformed packets.
                    for at in item + 8..item + item_len {
                        if is_wild || draw.hits(1, 20) {
                            frame.bytes[at] = draw.below(256) as u8;
                        }
                    }
                    frame.bytes[item + 8] &= !1;
                }
            }
            let plan = Plan::new(&chain, SCR, 3).expect("replicable");
            for recovery in [Recovery::On, Recovery::Off] {
                let input = files(&frames)(None, recovery).expect("whole");
                let ran =
                    replay_external(&chain, &plan, input, &Progress::default(), &mut |_| Ok::<_, ()>(()));
                let outcome = ran.expect("runs");
                assert!(outcome.input_error.is_none() && outcome.packets > 0, "{name}");
            }
        }
    }
}

/// The example of `docs/history-format.md`, whose bytes `crates/sequencer/tests/golden.rs` has, of a chain: what the
/// format's test packs by hand is what the engine packs.
#[test]
fn a_chains_items_are_as_drawn() {
    let chain = Chain { table_seed: 0x0123_4567_89ab_cdef, ..alone("ddos", "") };
    let mut sequencing = Sequencing::new(&chain, 3, false).expect("three cores");
    let arrivals = [(1, 22, 1_000), (2, 53, 2_000), (3, 80, 1_500), (4, 443, 4_000), (5, 8_080, 5_000)];
    let mut before_3 = Vec::new();
    for (number, (host, port, time_ns)) in arrivals.into_iter().enumerate() {
        let mut data = vec![0; 60];
        data[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        data[26..34].copy_from_slice(&[10, 0, 0, host, 192, 0, 2, 1]);
        data[36..38].copy_from_slice(&u16::to_be_bytes(port));
        data[38..40].copy_from_slice(&[0, 26]);
        // Packet 3 has an IP header of no length.
        data[14] = if number == 3 { 0x40 } else { 0x45 };
        let record = Record { time_ns, wire_len: 60, link: LinkType::Ethernet, data: &data };
        let sequenced = sequencing.next(&record).record.data.to_vec();
        if number == 3 {
            before_3 = sequenced;
        }
    }
    let flush = sequencing.flush(0).record.data.to_vec();
    let key = Part::Key { fields: 1, is_symmetric: false, bytes: 16 };
    let meta = Part::Meta { function: "ddos", reads: 0x8_0001, bytes: 16 };
    let program = concat!("paceline ", env!("CARGO_PKG_VERSION"));
    let layout = TypedLayout::new(program, &[key, meta], chain.table_seed).expect("short").form().layout;
    let drawn = |header: &str, ring: &str| {
        let text = format!("{header}{layout:016x}002d0002000200010123456789abcdef{ring}");
        text.chars().filter(|digit| !digit.is_whitespace()).collect::<String>()
    };
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(
        digits(&before_3[..138]),
        drawn(
            "504c4849 02 00 0001 0000000000000003 0000000000000fa0",
            "d007000000000000 06 85fa007a 00000000000000000000ffff0a000003 00000000000000000000ffff0a000003
             d007000000000000 06 caf5c5f2 00000000000000000000ffff0a000002 00000000000000000000ffff0a000002"
        )
    );
    assert_eq!(
        digits(&flush),
        drawn(
            "504c4849 02 01 0000 0000000000000005 0000000000001388",
            "8813000000000000 06 4005cc58 00000000000000000000ffff0a000005 00000000000000000000ffff0a000005
             a00f000000000000 01 00000000 00000000000000000000000000000000 00000000000000000000000000000000"
        )
    );
}
