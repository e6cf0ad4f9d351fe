//! Tests of what two judged runs make of one packet.

use std::sync::{Arc, Mutex};

use io::capture::CaptureReader;
use wire::{Addr, Edits, LinkType, Stamp};

use super::*;
use crate::executor::capture::replay_capture;
use crate::executor::input::Progress;
use crate::strategies::{DYSSECT, RSS, SCR, SINGLE};
use crate::verify::samples::{NAT, POLICER, STATISTICS, chain, plan};

const PACKET: Named = Named { own: 3, meant: 0, bytes: 7, in_flight: false, refused: false };

fn reached() -> Reached {
    Reached { has_states_beside: false, allocations: HashSet::new() }
}

/// A tally of one packet of two runs whose answers are `is_same`, and whether the packet counts as the same.
fn tally(runs: [Named; 2], is_same: bool) -> (Tally, bool) {
    let mut tally = Tally::default();
    let same = tally.is_same(&mut reached(), runs, is_same);
    (tally, same)
}

#[test]
fn packets_of_one_life_are_compared() {
    let (same, is_same) = tally([PACKET, PACKET], true);
    assert!(is_same && !same.has_apart() && same.apart() == 0 && same.renamed == 0, "{same:?}");
    let (other, is_same) = tally([PACKET, PACKET], false);
    assert!(!is_same && other.apart() == 0, "{other:?}");
    let (renamed, is_same) = tally([PACKET, Named { bytes: 8, ..PACKET }], true);
    assert!(is_same && renamed.renamed == 1 && renamed.apart() == 0, "{renamed:?}");
    let (other_life, is_same) = tally([PACKET, Named { own: 4, ..PACKET }], true);
    assert!(!is_same && other_life.apart() == 0, "{other_life:?}");
}

#[test]
fn packets_for_another_mapping_are_judged_alone_and_counted() {
    let (alone, is_same) = tally([PACKET, Named { meant: 5, ..PACKET }], false);
    assert!(is_same && alone.has_apart(), "{alone:?}");
    assert_eq!((alone.alone, alone.in_flight, alone.sent_apart, alone.apart()), (1, 0, 1, 1));
    let (in_flight, is_same) =
        tally([Named { in_flight: true, own: 0, ..PACKET }, Named { own: 0, ..PACKET }], false);
    assert!(is_same && in_flight.has_apart(), "{in_flight:?}");
    assert_eq!((in_flight.alone, in_flight.in_flight, in_flight.sent_apart, in_flight.apart()), (0, 1, 0, 1));
}

/// Three packets: each kind adds to what is not compared, and none takes from it.
#[test]
fn counts_add_up_over_packets() {
    let mut tally = Tally::default();
    let mut reached = reached();
    let alone = [PACKET, Named { meant: 5, ..PACKET }];
    assert!(tally.is_same(&mut reached, alone, false));
    assert!(tally.is_same(&mut reached, alone, false));
    assert!(tally.is_same(&mut reached, [Named { in_flight: true, ..PACKET }, PACKET], false));
    // The mapping that sent packets apart is reached: what differs of it is excused, and counted.
    assert!(tally.is_same(&mut reached, [PACKET, PACKET], false));
    assert_eq!((tally.alone, tally.in_flight, tally.touched, tally.apart()), (2, 1, 1, 4));
    assert_eq!(tally.sent_apart, 3);
    let refused = [Named { refused: true, ..PACKET }, PACKET];
    assert!(tally.is_same(&mut reached, refused, true) && tally.is_same(&mut reached, refused, true));
    assert_eq!((tally.refused, tally.apart()), (2, 4));
}

/// A packet judged alone came in from outside, so functions inside know of it, and the NAT itself and those outside do not; one that
/// was sent, or what followed from it, may be known to all.
#[test]
fn states_are_open_where_packets_apart_came() {
    let chain = chain(&[POLICER, NAT, STATISTICS]);
    let opens = |tally: Tally| [0, 1, 2].map(|index| tally.opens(&chain, index, Some(1)));
    let none = Tally::default();
    assert_eq!(opens(none), [false; 3]);
    assert_eq!(opens(Tally { renamed: 3, refused: 1, in_flight: 2, ..none }), [false; 3]);
    assert_eq!(opens(Tally { alone: 1, ..none }), [true, false, false]);
    assert_eq!(opens(Tally { touched: 1, ..none }), [true; 3]);
    assert_eq!(opens(Tally { sent_apart: 1, ..none }), [true; 3]);
    // What has no sides keeps states of what answers its own hosts.
    let alone = Tally { alone: 1, ..none };
    let chain = self::chain(&[POLICER, STATISTICS]);
    assert_eq!([0, 1].map(|index| alone.opens(&chain, index, Some(1))), [false, true]);
}

/// Beside functions with states an allocation for which a packet was judged alone is reached; else there is nobody to know of it.
#[test]
fn what_functions_beside_know_is_reached() {
    let [alone, beside] = [&[NAT][..], &[STATISTICS, NAT]].map(|functions| {
        let chain = chain(functions);
        Docket::of(&chain, &plan(&chain, RSS, 2), false)
    });
    assert_eq!((alone.judged, beside.judged), (Some(0), Some(1)));
    let later = [Named { own: 9, ..PACKET }, Named { own: 9, ..PACKET }];
    for (docket, is_excused) in [(alone, false), (beside, true)] {
        let (mut tally, mut reached) = (Tally::default(), docket.reached());
        let from_outside = [Named { own: 0, meant: 9, ..PACKET }, Named { own: 0, meant: 5, ..PACKET }];
        assert!(tally.is_same(&mut reached, from_outside, false));
        assert_eq!(tally.is_same(&mut reached, later, false), is_excused);
        assert_eq!((tally.alone, tally.touched), (1, u64::from(is_excused)));
    }
}

#[test]
fn what_is_not_judged_is_named_with_why() {
    let of = |functions: &[&str], strategy, is_reloaded| {
        let chain = chain(functions);
        let docket = Docket::of(&chain, &plan(&chain, strategy, 2), is_reloaded);
        assert_eq!(docket.judged.is_none(), docket.not_judged.len() == 1);
        docket.not_judged.first().map(|(index, why)| (*index, why.clone()))
    };
    assert_eq!(of(&[STATISTICS, NAT], RSS, false), None);
    assert_eq!(of(&[STATISTICS, NAT], RSS, true), Some((1, "the chain changes while it runs".to_owned())));
    assert_eq!(
        of(&[STATISTICS, NAT], crate::strategies::SHARED, false),
        Some((1, "all cores share its states".to_owned()))
    );
}

/// A judge is told how the function runs: whether its table evicts, and how many shares its pool has.
#[test]
fn a_trial_is_of_the_plan() {
    let chain = chain(&[NAT]);
    for (when_full, evicts) in [(WhenFull::Reject, false), (WhenFull::EvictOldest, true)] {
        let chain = chain.clone().with_flows(100, when_full);
        let plan = plan(&chain, RSS, 2);
        let trial = Docket::of(&chain, &plan, false).trial(&chain, &plan).expect("it is judged");
        assert_eq!(trial.evicts, evicts);
    }
    let dyssect = plan(&chain, DYSSECT, 3);
    assert_eq!(shares(&plan(&chain, RSS, 3)), 3);
    assert_eq!(shares(&dyssect), dyssect.owners().expect("flows move").len());
}

/// The sides of the NAT in its middle decide which functions a packet meets before it.
#[test]
fn what_became_of_a_packet_says_whether_it_came() {
    let chain = chain(&[POLICER, NAT, STATISTICS]);
    let drop_by = |function| Fate::DropBy { function, reason: 4 };
    let tell = |index, fate, refused, headers: &Headers| {
        let (bytes, stamp, link) = (&[1, 2][..], Stamp::default(), LinkType::Ethernet);
        let seen = Seen { stamp, fate, bytes, wire_len: 2, link, refused, entry: 0, sent: 0 };
        let mut unattributed = 0;
        let told = match left(&chain, index, &seen, headers, &mut unattributed) {
            None => "did not come",
            Some(Left::Sent(sent)) => {
                assert_eq!(sent, bytes);
                "sent"
            }
            Some(Left::Dropped(reason)) => {
                assert_eq!(reason, 4);
                "dropped"
            }
            Some(Left::Unseen) => "unseen",
        };
        (told, unattributed)
    };
    let inside = Headers { src: Addr::v4([10, 0, 0, 1]), ..Headers::default() };
    let outside = Headers { marks: Marks::FROM_OUTSIDE, ..inside };
    let cases = [
        (Fate::Forward, "sent", "sent"),
        (drop_by(0), "did not come", "unseen"),
        (drop_by(1), "dropped", "dropped"),
        (drop_by(2), "unseen", "did not come"),
        (Fate::Drop(EngineDrop::NoRoom), "unseen", "unseen"),
        (Fate::Drop(EngineDrop::Overtaken), "did not come", "did not come"),
    ];
    for (fate, from_inside, from_outside) in cases {
        assert_eq!(tell(1, fate, None, &inside), (from_inside, 0), "{fate:?}");
        assert_eq!(tell(1, fate, None, &outside), (from_outside, 0), "{fate:?}");
    }
    // Who sent it back cannot be told, where a function may have done it before.
    for fate in [Fate::TransmitBack, Fate::Host] {
        assert_eq!(tell(1, fate, None, &inside), ("did not come", 1));
        assert_eq!(
            [tell(0, fate, None, &inside), tell(0, fate, None, &outside)],
            [("unseen", 0), ("did not come", 1)]
        );
    }
    let malformed = Headers { malformed_code: 1, ..inside };
    assert_eq!(tell(1, Fate::Forward, None, &malformed), ("did not come", 0));
    assert_eq!(tell(1, Fate::Forward, Some(wire::Malformed::Spoofed), &inside), ("did not come", 0));
}

/// A judge that rules as it is told, and keeps what it was told at the end.
struct Told {
    own: u64,
    counted: Arc<Mutex<Vec<(u64, u64, u64)>>>,
}

impl Judge for Told {
    fn packet(&mut self, _: &Passage<'_>) -> Ruling {
        Ruling {
            wrong: Some("it is told so".to_owned()),
            own: self.own,
            meant: 0,
            in_flight: false,
            rename: Edits::NONE,
        }
    }

    fn end(&mut self, counted: &Counted<'_>) -> Vec<String> {
        let all = (counted.events.iter().sum(), counted.evicted, counted.rejected);
        self.counted.lock().expect("not poisoned").push(all);
        vec!["and this".to_owned()]
    }
}

/// Where a table evicts, allocations are not told from each other, and what has none has none.
#[test]
fn allocations_of_a_table_that_evicts_are_one() {
    let chain = chain(&[NAT]);
    let own = |evicts, own| {
        let judge = Box::new(Told { own, counted: Arc::default() });
        let mut trial = Trial { chain: &chain, index: 0, judge, evicts, heard: Heard::default() };
        let (stamp, link, data) = (Stamp { seq: 6, ..Stamp::default() }, LinkType::Ethernet, &[0; 60][..]);
        let seen = Seen {
            stamp,
            fate: Fate::Forward,
            bytes: data,
            wire_len: 60,
            link,
            refused: None,
            entry: 0,
            sent: 0,
        };
        let ruling = trial.see(&seen, Some(&Record { time_ns: 0, wire_len: 60, link, data }));
        assert_eq!((trial.heard.wrong, trial.heard.first.as_deref()), (1, Some("packet 7: it is told so")));
        ruling.own
    };
    assert_eq!([own(false, 0), own(false, 5), own(true, 0), own(true, 5)], [0, 5, 0, 1]);
}

/// What cores evicted, rejected and counted is added up; what each replica did is the same, and counts once.
#[test]
fn a_judge_is_told_what_all_cores_counted() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/edge.pcap");
    for when_full in [WhenFull::Reject, WhenFull::EvictOldest] {
        let chain = chain(&[POLICER]).with_flows(12, when_full);
        let counted = |strategy, cores| {
            let reader = CaptureReader::open(capture).expect("a capture");
            let plan = plan(&chain, strategy, cores);
            let mut see = |_: &Seen<'_>| Ok::<(), ()>(());
            let outcome =
                replay_capture(&chain, &plan, reader, &Progress::default(), &mut see).expect("runs");
            let by_core: Vec<(u64, u64, u64)> = stages(&outcome, 0)
                .iter()
                .map(|stage| {
                    let counters = stage.counters();
                    (counters.events.iter().sum(), counters.flows.evicted, counters.flows.rejected)
                })
                .collect();
            let counted = Arc::default();
            let judge = Box::new(Told { own: 0, counted: Arc::clone(&counted) });
            let trial = Trial { chain: &chain, index: 0, judge, evicts: true, heard: Heard::default() };
            let heard = trial.end(&outcome);
            assert_eq!((heard.wrong, heard.first.as_deref()), (1, Some("and this")));
            let counted = counted.lock().expect("not poisoned")[0];
            (by_core, counted)
        };
        let (by_core, (events, evicted, rejected)) = counted(RSS, 2);
        assert!(by_core.len() == 2 && by_core.iter().all(|(_, evicted, rejected)| evicted + rejected > 0));
        let sum = |of: fn(&(u64, u64, u64)) -> u64| by_core.iter().map(of).sum::<u64>();
        assert_eq!((events, evicted, rejected), (sum(|core| core.0), sum(|core| core.1), sum(|core| core.2)));
        let (_, (_, evicted, rejected)) = counted(SINGLE, 1);
        let (_, (_, evicted_by_each, rejected_by_each)) = counted(SCR, 2);
        assert_eq!((evicted_by_each, rejected_by_each), (evicted, rejected));
    }
}
