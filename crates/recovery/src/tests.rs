//! Tests of the recovery, step by step on one thread.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{iter, thread};

use proptest::prelude::*;

use super::*;
use crate::core_loop::{self, Core, ITEM_BYTES, flush, got, item_of, packet};

/// Brings the items of some sequence numbers.
fn arrive(replica: &mut Replica, range: Range<u64>) -> Arrival {
    let items: Vec<_> = range.clone().map(item_of).collect();
    replica.arrive(range.start, items.iter().map(|item| &item[..]))
}

/// What is stepped now, and how far that is.
fn advance(replica: &mut Replica) -> (Vec<u64>, Advance) {
    let mut stepped = Vec::new();
    let advance = replica.advance(usize::MAX, |seq, item| {
        assert_eq!(item, item_of(seq));
        stepped.push(seq);
    });
    (stepped, advance)
}

fn cores<const N: usize>(records: usize) -> [Replica; N] {
    replicas(N, records, ITEM_BYTES).try_into().expect("as many as asked for")
}

fn set<const N: usize>(cores: [usize; N]) -> Cores {
    cores.into_iter().collect()
}

#[test]
fn a_log_says_what_it_has_and_what_it_had() {
    let (mut writer, reader) = log(3, 5);
    assert_eq!((writer.records(), reader.records(), reader.item_bytes()), (4, 4, 5));
    let mut item = [0; 5];
    assert_eq!(reader.read(0, &mut item), Found::NotYet);
    writer.write(b"hello");
    writer.write_lost();
    writer.write(b"world");
    assert_eq!((reader.read(0, &mut item), &item), (Found::Item, b"hello"));
    assert_eq!(reader.read(1, &mut item), Found::Lost);
    assert_eq!((reader.clone().read(2, &mut item), &item), (Found::Item, b"world"));
    assert_eq!(reader.read(3, &mut item), Found::NotYet);
    assert_eq!(reader.read(4, &mut item), Found::NotYet, "an item of number 0 is there");
    writer.write_lost();
    writer.write(b"again");
    assert_eq!(reader.read(0, &mut item), Found::Overwritten);
    assert_eq!((reader.read(4, &mut item), &item), (Found::Item, b"again"));
    assert_eq!(writer.next(), 5);
}

#[test]
fn numbers_may_be_large_and_items_empty() {
    let (mut writer, reader) = log(2, 0);
    writer.skip_to(SEQ_END - 2);
    writer.write(&[]);
    assert_eq!(reader.read(SEQ_END - 2, &mut []), Found::Item);
    assert_eq!(reader.read(SEQ_END - 1, &mut []), Found::NotYet);
    assert_eq!(reader.read(SEQ_END - 4, &mut []), Found::Overwritten);
}

#[test]
#[should_panic(expected = "run out")]
fn numbers_end() {
    let (mut writer, _) = log(2, 0);
    writer.skip_to(SEQ_END - 1);
    writer.write(&[]);
}

#[test]
#[should_panic(expected = "another length")]
fn an_item_of_another_length_is_a_mistake() {
    log(2, 4).0.write(&[1, 2, 3]);
}

#[test]
#[should_panic(expected = "at least one record")]
fn a_log_without_records_is_a_mistake() {
    log(0, 4);
}

#[test]
#[should_panic(expected = "at least one core")]
fn no_core_is_a_mistake() {
    replicas(0, 4, 4);
}

#[test]
#[should_panic(expected = "65 cores, and at most 64")]
fn more_cores_than_bits_are_a_mistake() {
    replicas(65, 4, 4);
}

#[test]
fn sets_of_cores() {
    let cores = set([3, 0, 63]);
    assert_eq!(format!("{cores:?} {:?}", Cores::NONE), "{0, 3, 63} {}");
    assert_eq!((cores.contains(3), cores.contains(4), cores.without(3)), (true, false, set([0, 63])));
    assert_eq!(Cores::all(64).iter().count(), 64);
}

/// By hand, three cores, packets 0 to 5 with two items of history; packet 3 is lost. Core 0 gets items 1 to 3 with
/// its next packet's history at the earliest, and that has 4 and 5 only.
#[test]
fn what_one_core_lost_it_steps_from_anothers_log() {
    let [mut a, mut b, mut c] = cores::<3>(16);
    assert_eq!(arrive(&mut a, 0..1), Arrival::Taken);
    assert_eq!(arrive(&mut b, 0..2), Arrival::Taken);
    assert_eq!(
        (advance(&mut a), advance(&mut b)),
        ((vec![0], Advance::CaughtUp), (vec![0, 1], Advance::CaughtUp))
    );
    assert_eq!(arrive(&mut a, 4..7), Arrival::Taken);
    assert_eq!(a.recorded(), 7);
    // Item 1 is in b's log; of item 2 nobody says anything yet.
    assert_eq!(advance(&mut a), (vec![1], Advance::Waiting { seq: 2, on: set([1, 2]) }));
    assert_eq!(a.next(), 2);
    // b loses 2 as well, and c does not.
    assert_eq!(arrive(&mut b, 3..5), Arrival::Taken);
    assert_eq!(advance(&mut a), (vec![], Advance::Waiting { seq: 2, on: set([2]) }));
    assert_eq!(arrive(&mut c, 0..3), Arrival::Taken);
    assert_eq!(advance(&mut a), (vec![2, 3, 4, 5, 6], Advance::CaughtUp));
    assert_eq!(advance(&mut b), (vec![2, 3, 4], Advance::CaughtUp));
    assert_eq!(a.counters(), Counters { stepped: 7, recovered: 3, ..Counters::default() });
    assert_eq!(b.counters(), Counters { stepped: 5, recovered: 1, ..Counters::default() });
}

#[test]
fn what_all_lost_nobody_steps() {
    let [mut a, mut b] = cores::<2>(16);
    arrive(&mut a, 1..2);
    assert_eq!(advance(&mut a), (vec![], Advance::Waiting { seq: 0, on: set([1]) }));
    arrive(&mut b, 1..3);
    assert_eq!(advance(&mut a), (vec![1], Advance::CaughtUp));
    assert_eq!(advance(&mut b), (vec![1, 2], Advance::CaughtUp));
    assert_eq!(b.counters(), Counters { stepped: 2, lost_to_all: 1, ..Counters::default() });
}

/// Traffic ends after a loss: only a flush says to b that nothing more will come of 1.
#[test]
fn a_flush_ends_the_waiting() {
    let [mut a, mut b] = cores::<2>(16);
    arrive(&mut a, 0..1);
    arrive(&mut b, 0..1);
    arrive(&mut a, flush(3, 1));
    assert_eq!(advance(&mut a), (vec![0], Advance::Waiting { seq: 1, on: set([1]) }));
    arrive(&mut b, flush(3, 1));
    assert_eq!(advance(&mut a), (vec![2], Advance::CaughtUp));
    assert_eq!(arrive(&mut a, flush(3, 1)), Arrival::Late, "nothing new");
}

#[test]
fn one_core_waits_for_nobody() {
    let [mut a] = cores::<1>(2);
    assert_eq!(arrive(&mut a, 0..1), Arrival::Taken);
    // There is room for the loss of 1 beside the item 0, and for item 2 once that is stepped.
    assert_eq!(arrive(&mut a, 2..3), Arrival::Full);
    assert_eq!(advance(&mut a), (vec![0], Advance::CaughtUp));
    arrive(&mut a, 2..3);
    assert_eq!(advance(&mut a), (vec![2], Advance::CaughtUp));
    assert_eq!(a.counters(), Counters { stepped: 2, lost_to_all: 1, ..Counters::default() });
}

#[test]
fn a_packet_that_does_not_fit_is_brought_again() {
    let [mut a, mut b] = cores::<2>(4);
    assert_eq!(arrive(&mut a, 3..7), Arrival::Full);
    assert_eq!(a.recorded(), 4, "three losses and an item");
    assert_eq!(arrive(&mut b, 0..4), Arrival::Taken);
    assert_eq!(arrive(&mut b, 4..5), Arrival::Full);
    assert_eq!(advance(&mut a), (vec![0, 1, 2, 3], Advance::CaughtUp));
    assert_eq!(arrive(&mut a, 3..7), Arrival::Taken);
    assert_eq!(arrive(&mut a, 6..7), Arrival::Late, "all of it is recorded");
    assert_eq!(advance(&mut a), (vec![4, 5, 6], Advance::CaughtUp));
}

#[test]
fn steps_are_limited_where_asked_for() {
    let [mut a] = cores::<1>(8);
    arrive(&mut a, 0..3);
    let mut stepped = Vec::new();
    assert_eq!(a.advance(2, |seq, _| stepped.push(seq)), Advance::Limited);
    assert_eq!(a.advance(2, |seq, _| stepped.push(seq)), Advance::CaughtUp);
    assert_eq!(stepped, [0, 1, 2]);
}

/// a lost 0 and 1, which b and c have overwritten when it looks.
#[test]
fn a_core_that_is_too_late_goes_on_from_anothers_state() {
    let [mut a, mut b, mut c] = cores::<3>(2);
    for replica in [&mut b, &mut c] {
        for seq in 0..3 {
            arrive(replica, seq..seq + 1);
            advance(replica);
        }
    }
    arrive(&mut a, 2..3);
    // Only 0 is gone, but what comes after has to wait.
    assert_eq!(advance(&mut a), (vec![], Advance::Behind { seq: 0, ahead: set([1, 2]) }));
    a.ask(2);
    assert_eq!((b.asked(), c.asked(), c.asked()), (Cores::NONE, set([0]), Cores::NONE));
    assert!(a.resume(c.next()));
    assert!(!a.resume(c.next()), "it is there already");
    assert_eq!((a.next(), a.recorded()), (3, 3));
    assert_eq!(arrive(&mut a, 2..4), Arrival::Taken);
    assert_eq!(advance(&mut a), (vec![3], Advance::CaughtUp));
    let counters = Counters { stepped: 1, rebuilt: 1, skipped: 3, ..Counters::default() };
    assert_eq!(a.counters(), counters);
}

/// What lies before the other's state is past; what was recorded behind it is stepped.
#[test]
fn a_rebuilt_core_steps_what_it_had_got_already() {
    let [mut a, mut b] = cores::<2>(4);
    for seq in 0..5 {
        arrive(&mut b, seq..seq + 1);
        advance(&mut b);
    }
    arrive(&mut a, 1..4);
    assert_eq!(advance(&mut a), (vec![], Advance::Behind { seq: 0, ahead: set([1]) }));
    assert!(a.resume(2));
    assert_eq!(advance(&mut a), (vec![2, 3], Advance::CaughtUp));
}

#[derive(Clone, Debug)]
enum Act {
    Write,
    Lose,
    Skip(u64),
}

proptest! {
    /// A log against a map of all that was ever written.
    #[test]
    fn a_log_is_the_end_of_what_was_written(
        records in 1usize..10,
        acts in prop::collection::vec(
            prop_oneof![6 => Just(Act::Write), 2 => Just(Act::Lose), 1 => (0u64..20).prop_map(Act::Skip)], 0..60),
    ) {
        let (mut writer, reader) = log(records, ITEM_BYTES);
        let records = records.next_power_of_two() as u64;
        let mut written: BTreeMap<u64, Found> = BTreeMap::new();
        for act in acts {
            let seq = writer.next();
            match act {
                Act::Write => { writer.write(&item_of(seq)); written.insert(seq, Found::Item); }
                Act::Lose => { writer.write_lost(); written.insert(seq, Found::Lost); }
                Act::Skip(many) => writer.skip_to(seq + many),
            }
            let mut item = [0; ITEM_BYTES];
            for wanted in 0..writer.next() + 2 * records {
                let is_gone = written.keys().any(|seq| *seq > wanted && (seq - wanted) % records == 0);
                let expected = match written.get(&wanted) {
                    _ if is_gone => Found::Overwritten,
                    Some(found) => *found,
                    None => Found::NotYet,
                };
                prop_assert_eq!(reader.read(wanted, &mut item), expected, "{}", wanted);
                if expected == Found::Item {
                    prop_assert_eq!(item, item_of(wanted));
                }
            }
        }
    }
}

/// Readers that follow a log as fast as they can, and skip what they come too late for.
#[test]
fn readers_that_are_overrun_notice() {
    let (mut writer, reader) = log(4, ITEM_BYTES);
    let many = if cfg!(miri) { 200 } else { 100_000 };
    let follow = |reader: Reader| {
        let (mut seq, mut item) = (0, [0; ITEM_BYTES]);
        for () in turns() {
            match reader.read(seq, &mut item) {
                Found::Item => assert_eq!(item, item_of(seq), "not the item of {seq}"),
                Found::Lost => assert_eq!(seq % 16, 7, "a loss that is none"),
                Found::Overwritten => {}
                Found::NotYet => {
                    thread::yield_now();
                    continue;
                }
            }
            seq += 1;
            if seq == many {
                return;
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| follow(reader.clone()));
        scope.spawn(|| follow(reader.clone()));
        for seq in 0..many {
            match seq % 16 {
                7 => writer.write_lost(),
                _ => writer.write(&item_of(seq)),
            }
        }
    });
}

const THREADS: usize = 3;
const PACKETS: u64 = if cfg!(miri) { 100 } else { 20_000 };

/// Turns of a loop that waits for another thread. They end after ten minutes, or `PACELINE_PATIENCE` seconds: what never comes
/// is a failure, and nobody waits for it for ever.
fn turns() -> impl Iterator<Item = ()> {
    let given = std::env::var("PACELINE_PATIENCE").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or(600);
    let (start, patience) = (Instant::now(), Duration::from_secs(seconds));
    iter::repeat_with(move || assert!(start.elapsed() < patience, "it never came"))
}

/// Real threads with short logs; every seventh packet is lost and now and then 40 in a row.
#[test]
fn threads_agree() {
    let is_lost = |seq: u64| seq % 7 == 3 || seq % 1000 < 40;
    let mut cores = core_loop::cores(THREADS, 32, PACKETS);
    for seq in (0..PACKETS).filter(|seq| !is_lost(*seq)) {
        cores[seq as usize % THREADS].queue.push_back(packet(seq, THREADS as u64 - 1));
    }
    for core in &mut cores {
        core.queue.push_back(flush(PACKETS, THREADS as u64 - 1));
    }
    let delivered: Vec<_> = cores.iter().flat_map(|core| core.queue.clone()).collect();
    let cores: Vec<_> = thread::scope(|scope| {
        let run = |mut core: Core| {
            move || {
                for () in turns() {
                    core.turn(64, |ahead| ahead[0]);
                    if core.is_over {
                        break;
                    }
                    thread::yield_now();
                }
                core
            }
        };
        let running: Vec<_> = cores.into_iter().map(|core| scope.spawn(run(core))).collect();
        running.into_iter().map(|core| core.join().expect("no core fails")).collect()
    });
    let got = got(&delivered);
    let many = got.len() as u64;
    assert!(PACKETS / 2 < many && many < PACKETS, "some are lost to all, {many} are not");
    for core in &cores {
        assert!(core.stepped == got, "{:?}", core.counters());
    }
}

/// By hand: what is lent is another's to overwrite, and comes back once, with the number.
#[test]
fn a_state_is_lent_and_comes_back_as_anothers() {
    let [mut a, mut b]: [Handover<&str>; 2] = handovers(2).try_into().ok().expect("two");
    b.answer(0, 5, |_| panic!("nothing is lent"));
    a.lend("behind");
    assert_eq!(a.back(), None);
    b.answer(0, 7, |state| *state = "ahead");
    b.answer(0, 8, |_| panic!("it is answered"));
    assert_eq!((a.back(), a.back()), (Some((7, "ahead")), None));
    a.lend("of no use");
    assert_eq!((a.withdraw(), a.withdraw()), (Some("of no use"), None));
    assert_eq!((a.leave(), a.leave(), b.leave(), a.leave()), (false, false, true, true));
}
