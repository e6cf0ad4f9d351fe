//! Replicas whose history comes with their packets: they equal one core, whatever is lost, as long as it is recovered;
//! and a history that cannot be right is dropped and counted.

use engine::strategies::SCR;
use engine::{
    Chain, ExternalInput, ExternalPackets, InputError, Loss, Plan, Progress, Recovery, SequencedAs, Verified,
    verify, verify_external,
};
use io::capture::CaptureReader;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::sequenced::{Frame, at, files, sequenced};
use paceline_conformance::stock::{
    ALONE, alone, beginnings, every_model, examples, small as small_chain, three_typed,
};
use paceline_conformance::{example, root};
use sequencer::{Rejected, Version};

fn edge() -> CaptureReader {
    CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture")
}

/// With tables of which many cores have room for one each.
fn small(name: &str) -> Chain {
    small_chain(example(name))
}

fn loss(share: &str, seed: u64) -> Option<Loss> {
    Some(Loss::new(share.parse().expect("a share"), seed))
}

fn check(chain: &Chain, cores: usize, open: &dyn Fn() -> Result<ExternalInput, InputError>) -> Verified {
    let plan = Plan::new(chain, SCR, cores).expect("replicable");
    verify_external(chain, &plan, open, &Progress::default()).expect("runs")
}

const VERSIONS: [SequencedAs; 2] = [SequencedAs::Newest, SequencedAs::Headers];

/// Verifies the capture, sequenced on the way.
fn check_edge(chain: &Chain, cores: usize, loss: Option<Loss>, recovery: Recovery) -> Verified {
    check_edge_as(SequencedAs::Newest, chain, cores, loss, recovery)
}

fn check_edge_as(
    version: SequencedAs,
    chain: &Chain,
    cores: usize,
    loss: Option<Loss>,
    recovery: Recovery,
) -> Verified {
    let packets = || ExternalPackets::Capture(edge().into(), version);
    check(chain, cores, &|| Ok(ExternalInput { packets: packets(), speed: None, loss, recovery }))
}

/// Verifies what frames became.
fn check_frames(chain: &Chain, frames: &[Vec<Frame>], loss: Option<Loss>, recovery: Recovery) -> Verified {
    let open = files(frames);
    check(chain, frames.len(), &|| open(loss, recovery))
}

fn sum(verified: &Verified, of: impl Fn(&engine::HistoryCounters) -> u64) -> u64 {
    verified.history.as_ref().expect("history").outcome.cores.iter().map(of).sum()
}

const CHAINS: [&str; 6] =
    ["two-rates.toml", "perimeter.toml", "mixed-keys.toml", "nat.toml", "knock.toml", "balance.toml"];

/// What the comparison takes for one core's answer is one core's, over the capture as it is.
#[test]
fn without_losses_replicas_equal_single() {
    for name in CHAINS {
        let chain = small(name);
        let single = Plan::new(&chain, SCR, 1).expect("a plan");
        let open = || CaptureReader::open(root().join("captures/edge.pcap"));
        let single = verify(&chain, &single, &open, &Progress::default()).expect("runs");
        assert!(single.holds(), "{name}: {single:#?}");
        for cores in [1, 2, 3, 7, 14] {
            for (version, recovery) in
                VERSIONS.into_iter().flat_map(|version| [(version, Recovery::On), (version, Recovery::Off)])
            {
                let verified = check_edge_as(version, &chain, cores, None, recovery);
                assert!(verified.holds(), "{name} on {cores}: {verified:#?}");
                assert_eq!((verified.packets, &verified.digests), (single.packets, &single.digests));
                let replayed = sum(&verified, |core| core.replayed);
                assert_eq!(replayed, single.packets * (cores as u64 - 1), "{name} on {cores}");
                assert_eq!(sum(&verified, |core| core.recovered + core.lost_to_all + core.missed), 0);
                assert_eq!(sum(&verified, |core| core.flushes), cores as u64);
            }
        }
    }
}

#[test]
fn what_any_core_got_all_step_whatever_is_lost() {
    for name in ["perimeter.toml", "nat.toml"] {
        let chain = small(name);
        for cores in [2, 3, 7, 14] {
            for share in ["0.001", "0.01", "0.1"] {
                let verified = check_edge(&chain, cores, loss(share, 5), Recovery::On);
                assert!(verified.holds(), "{name} on {cores} with {share} lost: {verified:#?}");
                let check = verified.history.as_ref().expect("history");
                assert!(verified.packets + check.outcome.lost >= 5_432 && check.outcome.lost > 0);
                assert!(check.outcome.cores.iter().all(|core| core.lost_to_all == check.lost_to_all));
                assert!(sum(&verified, |core| core.recovered) > 0, "{name} on {cores} with {share} lost");
                // Of two cores one in a hundred packets is lost with the next one, which is all there is of it.
                let many = cores == 2 && share == "0.1";
                assert_eq!(check.lost_to_all > 20, many, "on {cores} with {share}: {}", check.lost_to_all);
            }
        }
    }
}

fn assert_recovers(chain: &Chain, inputs: &[(String, Pcap)]) {
    for (name, capture) in inputs {
        for cores in [2, 3, 7, 14] {
            for share in ["0", "0.001", "0.01", "0.1"] {
                let packets = || ExternalPackets::Capture(capture.open().into(), SequencedAs::Newest);
                let (loss, recovery) = (loss(share, 11), Recovery::On);
                let open = || Ok(ExternalInput { packets: packets(), speed: None, loss, recovery });
                let verified = check(chain, cores, &open);
                let at = format!("{} on {cores} of {name} with {share} lost", chain.name);
                assert!(verified.holds(), "{at}: {verified:#?}");
                let recovered = sum(&verified, |core| core.recovered);
                assert_eq!(recovered > 0, share != "0", "{at}: {recovered} recovered");
            }
        }
    }
}

/// Packets of each capture; so many are lost at any share.
const PACKETS: usize = 2_000;

/// The captures, and all models of traffic in one.
fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    inputs.push(("every model".to_owned(), every_model(PACKETS / 8)));
    inputs
}

#[test]
fn every_stock_function_recovers() {
    let inputs = inputs();
    for (name, options) in ALONE {
        assert_recovers(&small_chain(alone(name, options)), &inputs);
    }
}

#[test]
fn every_example_recovers() {
    let inputs = inputs();
    let replicable = |chain: &Chain| Plan::new(chain, SCR, 2).is_ok();
    let chains: Vec<_> = examples().into_iter().map(small_chain).filter(replicable).collect();
    assert!(chains.len() >= 12, "{}", chains.len());
    chains.iter().for_each(|chain| assert_recovers(chain, &inputs));
}

#[test]
fn most_can_be_lost_and_all_of_it() {
    let chain = small("perimeter.toml");
    for share in ["0.5", "0.9", "1"] {
        for cores in [1, 2, 7] {
            let verified = check_edge(&chain, cores, loss(share, 3), Recovery::On);
            assert!(verified.is_same(), "{cores} cores, {share}: {verified:#?}");
            assert_eq!(verified.packets == 0, share == "1");
        }
    }
}

#[test]
fn without_recovery_divergence_is_noticed() {
    let chain = small("perimeter.toml");
    for (cores, share) in [(2, "0.01"), (3, "0.001"), (7, "0.1"), (14, "0.01")] {
        let verified = check_edge(&chain, cores, loss(share, 5), Recovery::Off);
        assert!(!verified.holds(), "{cores} cores, {share}: {verified:#?}");
        assert!(verified.history.expect("history").diverged() > 0);
        assert!(verified.digests.iter().any(|(_, single, other)| single != other));
    }
    // With one core there is nobody to differ from.
    assert!(check_edge(&chain, 1, loss("0.1", 5), Recovery::Off).holds());
}

/// What is lost of a seed is the same from files.
#[test]
fn files_lose_what_the_capture_loses() {
    let chain = small("perimeter.toml");
    let frames = sequenced(&chain, edge(), 3, SequencedAs::Newest);
    let lost = |verified: &Verified| {
        assert!(verified.holds(), "{verified:#?}");
        let check = verified.history.as_ref().expect("history");
        (verified.packets, verified.digests.clone(), check.outcome.lost, check.lost_to_all)
    };
    let from_files = lost(&check_frames(&chain, &frames, loss("0.1", 9), Recovery::On));
    assert_eq!(from_files, lost(&check_edge(&chain, 3, loss("0.1", 9), Recovery::On)));
    assert_ne!(from_files, lost(&check_edge(&chain, 3, loss("0.1", 10), Recovery::On)));
}

/// A change to a frame for which there is a reason to reject it.
fn spoil(frame: &mut Frame, reason: Rejected) {
    let ring_items = frame.number(at::RING_ITEMS);
    match reason {
        Rejected::NotHistory => frame.bytes[0] = 0,
        Rejected::HeaderTruncated => frame.cut(30),
        Rejected::Version => frame.bytes[4] ^= 3,
        Rejected::Flags => frame.bytes[5] = 2,
        Rejected::LinkType => frame.set(6..8, 7_777),
        Rejected::OtherLayout => frame.bytes[31] ^= 1,
        Rejected::ItemLength => frame.bytes[33] += 1,
        Rejected::OtherSeed => frame.bytes[at::TABLE_SEED.end - 1] ^= 1,
        Rejected::RingTooLarge => frame.set(at::RING_ITEMS, 64),
        Rejected::RingTruncated => frame.cut(at::TYPED_RING + 5),
        Rejected::CountBeyondRing => frame.set(at::COUNT, ring_items + 1),
        Rejected::CountBeyondSequence => frame.set(at::SEQ, 0),
        Rejected::OldestBeyondRing => frame.set(at::OLDEST, ring_items),
        Rejected::OldestMisplaced => frame.set(at::OLDEST, (frame.number(at::OLDEST) + 1) % ring_items),
        Rejected::TimeRunsBack => frame.set(at::TIME_NS, 0),
        Rejected::FlushWithPacket => frame.bytes[5] = 1,
        // The same again.
        Rejected::SequenceGoesBack => {}
    }
}

/// The reasons that there are in a version.
fn reasons(version: SequencedAs) -> impl Iterator<Item = (usize, Rejected)> {
    let has_seed = version == SequencedAs::Newest;
    let all = Rejected::ALL.into_iter().enumerate();
    all.filter(move |(_, reason)| has_seed || *reason != Rejected::OtherSeed)
}

#[test]
fn bad_histories_are_dropped_and_counted_by_reason() {
    for version in VERSIONS {
        bad_histories_are_dropped_and_counted(version);
    }
}

fn bad_histories_are_dropped_and_counted(version: SequencedAs) {
    let chain = three_typed();
    assert_eq!(chain.history_version(), Version::Typed);
    let mut frames = sequenced(&chain, edge(), 3, version);
    let whole = check_frames(&chain, &frames, None, Recovery::On);
    let mut expected = [0; Rejected::ALL.len()];
    // Behind the packet that each is made of, a different number of each.
    for (index, reason) in reasons(version) {
        for copy in 0..=index {
            let frames = &mut frames[copy % 3];
            let at = 100 + 37 * index + 5 * copy;
            let mut spoilt = frames[at].clone();
            spoil(&mut spoilt, reason);
            frames.insert(at + 1, spoilt);
            expected[index] += 1;
        }
    }
    for recovery in [Recovery::On, Recovery::Off] {
        let verified = check_frames(&chain, &frames, None, recovery);
        assert!(verified.holds(), "{verified:#?}");
        assert_eq!((verified.packets, &verified.digests), (whole.packets, &whole.digests));
        for (index, reason) in Rejected::ALL.into_iter().enumerate() {
            assert_eq!(sum(&verified, |core| core.rejected[index]), expected[index], "{}", reason.name());
        }
    }
}

/// A packet that is spoilt is lost to its core; its item is in others' histories.
#[test]
fn a_spoilt_packet_is_a_loss() {
    let chain = three_typed();
    let all =
        VERSIONS.into_iter().flat_map(|version| reasons(version).map(move |(_, reason)| (version, reason)));
    for (version, reason) in all.filter(|(_, reason)| *reason != Rejected::SequenceGoesBack) {
        let mut frames = sequenced(&chain, edge(), 3, version);
        spoil(&mut frames[1][200], reason);
        let verified = check_frames(&chain, &frames, None, Recovery::On);
        assert!(verified.holds(), "{}: {verified:#?}", reason.name());
        assert_eq!(verified.packets, 5_431);
        assert_eq!(sum(&verified, |core| core.rejected[reason as usize]), 1);
        // The packet, and the two before it.
        assert_eq!(sum(&verified, |core| core.recovered), 3, "{}", reason.name());
        let verified = check_frames(&chain, &frames, None, Recovery::Off);
        assert!(!verified.holds(), "{}", reason.name());
    }
}

#[test]
fn nobody_waits_for_a_core_whose_packets_end_or_stay_away() {
    let chain = small("perimeter.toml");
    for cores in [2, 3] {
        let mut ended = sequenced(&chain, edge(), cores, SequencedAs::Newest);
        ended[1].truncate(100);
        let mut silent = sequenced(&chain, edge(), cores, SequencedAs::Newest);
        silent[0].drain(50..1_750);
        let mut empty = sequenced(&chain, edge(), cores, SequencedAs::Newest);
        empty[cores - 1].clear();
        for (what, frames) in [("ended", &ended), ("silent", &silent), ("empty", &empty)] {
            for share in ["0", "0.02"] {
                let verified = check_frames(&chain, frames, loss(share, 8), Recovery::On);
                assert!(verified.holds(), "{what} of {cores}, {share}: {verified:#?}");
                assert!(sum(&verified, |core| core.recovered) > 1_000, "{what} of {cores}");
            }
            let verified = check_frames(&chain, frames, None, Recovery::Off);
            assert!(!verified.holds(), "{what} of {cores}: {verified:#?}");
        }
    }
}

/// A core stays away for thousands of packets, and the others' logs hold a few: whatever threads do, all agree, and
/// packets without a verdict are counted.
#[test]
fn replicas_that_lag_by_more_than_the_logs_are_rebuilt() {
    for name in CHAINS {
        let chain = small(name);
        let mut rebuilt = 0;
        for (cores, records) in [(2, 2), (3, 8), (7, 64)] {
            let mut silent = sequenced(&chain, edge(), cores, SequencedAs::Newest);
            let away = silent[0].len();
            silent[0].drain(50..away - 50);
            let sent = silent.iter().flatten().count() - cores;
            for share in ["0", "0.01"] {
                let verified = check_frames(&chain, &silent, loss(share, 8), Recovery::Records(records));
                let at = format!("{name} on {cores} with {records} records, {share} lost");
                assert!(verified.holds(), "{at}: {verified:#?}");
                let overtaken = sum(&verified, |core| core.overtaken);
                if share == "0" {
                    assert_eq!(verified.packets + overtaken, sent as u64, "{at}");
                }
                let history = verified.history.as_ref().expect("history");
                assert_eq!(history.outcome.overtaken.len() as u64, overtaken, "{at}");
                rebuilt += sum(&verified, |core| core.rebuilt);
            }
        }
        assert!(rebuilt > 0, "{name}");
    }
}

/// Captures may begin anywhere. The first core's first history is of packets that the others' do not go back to.
#[test]
fn the_first_packets_may_be_missing() {
    let chain = small("perimeter.toml");
    let mut frames = sequenced(&chain, edge(), 3, SequencedAs::Newest);
    frames.iter_mut().for_each(|frames| drop(frames.drain(..700)));
    let verified = check_frames(&chain, &frames, None, Recovery::On);
    assert!(verified.holds(), "{verified:#?}");
    assert_eq!((verified.packets, sum(&verified, |core| core.recovered)), (5_432 - 2_100, 1 + 2));
    assert_eq!(verified.history.expect("history").lost_to_all, 0);
    let verified = check_frames(&chain, &frames, None, Recovery::Off);
    assert_eq!(sum(&verified, |core| core.missed), 1 + 2);
}

#[test]
fn files_that_do_not_belong_together_are_told() {
    let chain = small("perimeter.toml");
    let told = |frames: &[Vec<Frame>]| {
        let verified = check_frames(&chain, frames, None, Recovery::On);
        assert!(!verified.holds());
        verified.input_error.expect("an error").to_string()
    };
    let frames = sequenced(&chain, edge(), 3, SequencedAs::Newest);
    assert!(told(&frames[..2]).contains("sequenced for 3 cores, and there are files for 2"));
    let mut twice = frames.clone();
    twice[2] = twice[1].clone();
    assert!(told(&twice).contains("packet 1 is both in the file of core 1 and in that of core 2"));
    let mut leaps = frames.clone();
    for frame in &mut leaps[1][500..] {
        let seq = frame.number(at::SEQ);
        // A multiple of the ring, so that everything else fits.
        frame.set(at::SEQ, seq + (2 << 40));
    }
    let told = told(&leaps);
    assert!(told.contains("for core 1") && told.contains("so many cannot be lost"), "{told}");
}

/// Histories that are well-formed and wrong: the comparison has to find them.
#[test]
fn planted_wrong_histories_are_found() {
    let chain = small("ddos.toml");
    let frames = sequenced(&chain, edge(), 3, SequencedAs::Headers);
    let item_len = 8 + 16 + 1 + 1;
    assert_eq!(frames[0][100].number(32..34), item_len as u64, "source address, marks, malformed");
    let newest = |frame: &Frame| {
        let ring_items = frame.number(at::RING_ITEMS);
        at::RING + ((frame.number(at::SEQ) - 1) % ring_items) as usize * item_len
    };
    let differs = |change: &dyn Fn(&mut Frame)| {
        let mut frames = frames.clone();
        frames[2][100..1_800].iter_mut().for_each(change);
        let verified = check_frames(&chain, &frames, None, Recovery::Off);
        assert_eq!(sum(&verified, |core| core.rejected.iter().sum()), 0, "well-formed");
        assert!(!verified.holds(), "{verified:#?}");
    };
    // An item of another source.
    differs(&|frame| {
        let item = newest(frame);
        frame.bytes[item + 8 + 15] ^= 1;
    });
    // The live packet's time in place of its own.
    differs(&|frame| {
        let (item, time_ns) = (newest(frame), frame.number(at::TIME_NS));
        frame.bytes[item..item + 8].copy_from_slice(&time_ns.to_le_bytes());
    });
    // A packet said to be malformed, which no function sees.
    differs(&|frame| {
        let item = newest(frame);
        frame.bytes[item + item_len - 1] = 12;
    });
    // No history at all, as if everything before were lost to all.
    differs(&|frame| {
        frame.set(at::COUNT, 0);
        let oldest = frame.number(at::SEQ) % frame.number(at::RING_ITEMS);
        frame.set(at::OLDEST, oldest);
    });
}
