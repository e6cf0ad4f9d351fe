//! The log and the protocol under the model checker: in every order of threads and every outcome of loads that
//! the memory model allows. Run with
//!
//! ```sh
//! cargo test -p paceline-recovery-model
//! ```
//!
//! In the models of the protocol three cores lose packets in every pattern; each core takes a turn for each of its
//! packets beside the others, and the rest when these have ended. Threads are interrupted where they could go on three
//! times at most in the models of the log, once in those of the protocol. The log without a bound, and the protocol with
//! two interruptions, take minutes: `cargo test -p paceline-recovery-model -- --ignored`.

use std::ops::Range;
use std::sync::Arc as Uncounted;
use std::sync::atomic::{AtomicU64 as Count, Ordering::Relaxed};

use loom::thread;

use crate::core_loop::{Core, cores, flush, got, packet};
use crate::sync::{Fault, plant};
use crate::{Found, log};

/// A thread that still waits after this many turns waits for ever.
const ENDLESS: usize = 50;

fn model(preemptions: Option<usize>, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    // So that waiting for ever is told from many words to look at.
    builder.max_branches = 100_000;
    builder.check(run);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Record {
    Item,
    Lost,
}
use Record::{Item, Lost};

/// A log of `records` is written while a reader looks for number `wanted`, twice.
fn log_model(preemptions: Option<usize>, records: usize, written: &'static [Record], wanted: u64) {
    let is_lost = |seq: u64| written[seq as usize] == Lost;
    model(preemptions, move || {
        let (mut writer, reader) = log(records, WIDE);
        let writing = thread::spawn(move || {
            for (seq, record) in written.iter().enumerate() {
                match record {
                    Lost => writer.write_lost(),
                    Item => writer.write(&wide_item_of(seq as u64)),
                }
            }
        });
        let mut before = Found::NotYet;
        for _ in 0..2 {
            let mut item = [0; WIDE];
            let found = reader.read(wanted, &mut item);
            match found {
                Found::Item => {
                    assert!(!is_lost(wanted), "an item that is lost");
                    assert_eq!(item, wide_item_of(wanted), "parts of another item");
                    assert_ne!(before, Found::Overwritten, "an item that is gone");
                }
                Found::Lost => {
                    assert!(is_lost(wanted), "a loss that is none");
                    assert_ne!(before, Found::Overwritten, "a loss that is gone");
                }
                Found::NotYet => assert_eq!(before, Found::NotYet, "what was there is not there yet"),
                Found::Overwritten => {
                    assert!(wanted as usize + records < written.len(), "nothing overwrites it")
                }
            }
            before = found;
        }
        writing.join().expect("the writer's thread");
    });
}

/// Bytes of an item of two words, of which a reader can get one of each of two items.
const WIDE: usize = 16;

fn wide_item_of(seq: u64) -> [u8; WIDE] {
    [seq as u8 + 1; WIDE]
}

fn log_models(preemptions: Option<usize>) {
    for wanted in 0..3 {
        log_model(preemptions, 1, &[Item, Item, Item], wanted);
        log_model(preemptions, 1, &[Item, Lost, Item], wanted);
        log_model(preemptions, 2, &[Item, Lost, Item, Item], wanted);
    }
}

#[test]
fn a_reader_finds_an_item_or_that_it_is_gone() {
    log_models(Some(3));
}

#[test]
#[ignore = "takes minutes"]
fn a_reader_finds_an_item_or_that_it_is_gone_in_every_order() {
    log_models(None);
}

fn log_finds(fault: Fault) {
    let _planted = plant(fault);
    log_model(Some(3), 1, &[Item, Item], 0);
    log_model(Some(3), 1, &[Item, Item], 1);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_a_record_overwritten_early_is_found() {
    log_finds(Fault::NoClaim);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_a_record_overwritten_without_order_is_found() {
    log_finds(Fault::ClaimRelaxed);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_a_publication_without_order_is_found() {
    log_finds(Fault::PublishRelaxed);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_a_tag_seen_without_order_is_found() {
    log_finds(Fault::TagSeenRelaxed);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_a_second_look_without_order_is_found() {
    log_finds(Fault::RecheckRelaxed);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_no_second_look_is_found() {
    log_finds(Fault::NoRecheck);
}

#[test]
#[should_panic(expected = "parts of another item")]
fn planted_numbers_not_looked_at_are_found() {
    log_finds(Fault::NoNumber);
}

/// What is sent to `CORES` cores, and what is lost.
#[derive(Clone, Copy)]
struct Traffic {
    packets: u64,
    /// Bit `n` is set if packet `n` is lost.
    lost: u64,
    records: usize,
    flush: Flush,
    /// How often threads are interrupted where they could go on, at most.
    preemptions: usize,
    /// Whether cores call `arrive` and `advance` and not `receive`.
    has_two_calls: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Comes while all cores are at work.
    Beside,
    /// Comes when they have worked off their packets.
    After,
    Never,
}

const CORES: usize = 3;

/// As many items as the paper's.
const HISTORY: u64 = CORES as u64 - 1;

impl Traffic {
    /// What each core gets before the flush.
    fn queues(self) -> [Vec<Range<u64>>; CORES] {
        let is_for = |seq: &u64, core| *seq as usize % CORES == core && self.lost >> seq & 1 == 0;
        std::array::from_fn(|core| {
            let packets = (0..self.packets).filter(|seq| is_for(seq, core));
            packets.map(|seq| packet(seq, HISTORY)).collect()
        })
    }

    /// All cores step what any core got, in order and once, and come to an end. Returns how often a replica was
    /// rebuilt, over all orders.
    fn check(self) -> u64 {
        let rebuilt = Uncounted::new(Count::new(0));
        let count = Uncounted::clone(&rebuilt);
        model(Some(self.preemptions), move || {
            let mut cores = cores(CORES, self.records, self.packets);
            for (core, packets) in cores.iter_mut().zip(self.queues()) {
                core.has_two_calls = self.has_two_calls;
                core.queue.extend(packets);
            }
            let mut delivered: Vec<_> = cores.iter().flat_map(|core| core.queue.clone()).collect();
            let last_items = flush(self.packets, HISTORY);
            if self.flush == Flush::Beside {
                cores.iter_mut().for_each(|core| core.queue.push_back(last_items.clone()));
            }
            let mut last = cores.pop().expect("a core");
            let others: Vec<_> = cores.into_iter().map(|core| thread::spawn(|| turns(core))).collect();
            last = turns(last);
            let mut cores: Vec<_> =
                others.into_iter().map(|core| core.join().expect("no core fails")).collect();
            cores.push(last);
            if self.flush == Flush::After {
                cores.iter_mut().for_each(|core| core.queue.push_back(last_items.clone()));
            }
            for _ in 0..ENDLESS {
                for core in &mut cores {
                    core.turn(usize::MAX, |ahead| ahead[0]);
                }
            }
            if self.flush != Flush::Never {
                delivered.push(last_items);
            }
            let got = got(&delivered);
            for core in &cores {
                assert!(core.is_over, "somebody waits for ever");
                assert_eq!(core.stepped, got, "what came, with {:b} lost", self.lost);
                count.fetch_add(core.counters().rebuilt, Relaxed);
            }
        });
        rebuilt.load(Relaxed)
    }
}

/// What a core does beside the others: a turn for each packet.
fn turns(mut core: Core) -> Core {
    for _ in 0..core.queue.len() {
        core.turn(usize::MAX, |ahead| ahead[0]);
    }
    core
}

/// Every way of losing some of the packets; how often a replica was rebuilt.
fn losses_anywhere(
    preemptions: usize,
    packets: u64,
    records: usize,
    flush: Flush,
    has_two_calls: bool,
) -> u64 {
    let traffic = Traffic { packets, lost: 0, records, flush, preemptions, has_two_calls };
    (0..1 << packets).map(|lost| Traffic { lost, ..traffic }.check()).sum()
}

/// With logs that hold all, nothing is overwritten, as in the paper.
fn long_logs(preemptions: usize, flush: Flush, packets: u64, has_two_calls: bool) {
    let records = packets.next_power_of_two() as usize;
    assert_eq!(losses_anywhere(preemptions, packets, records, flush, has_two_calls), 0);
}

fn short_logs(preemptions: usize, packets: u64, has_two_calls: bool) {
    let rebuilt = losses_anywhere(preemptions, packets, 2, Flush::After, has_two_calls);
    assert!(rebuilt > 0, "no replica was rebuilt");
}

#[test]
fn all_step_what_any_core_got_beside_a_flush() {
    long_logs(1, Flush::Beside, 4, false);
}

#[test]
fn all_step_what_any_core_got_before_a_flush() {
    long_logs(1, Flush::After, 5, true);
}

#[test]
fn all_step_what_any_core_got_with_short_logs() {
    short_logs(1, 5, false);
}

#[test]
fn all_step_what_any_core_got_with_logs_that_are_full() {
    short_logs(1, 6, true);
}

#[test]
#[ignore = "takes minutes"]
fn all_step_what_any_core_got_with_two_interruptions() {
    long_logs(2, Flush::Beside, 4, false);
    long_logs(2, Flush::After, 5, true);
    short_logs(2, 5, false);
    short_logs(2, 6, true);
}

/// Core 0 loses what the others no longer know.
const FALLS_BEHIND: Traffic = Traffic {
    packets: 6,
    lost: 0b001000,
    records: 2,
    flush: Flush::Beside,
    preemptions: 1,
    has_two_calls: false,
};

#[test]
fn a_core_that_falls_behind_is_rebuilt_while_others_go_on() {
    assert!(FALLS_BEHIND.check() > 0, "no replica was rebuilt");
}

fn finds(fault: Fault, traffic: Traffic) {
    let _planted = plant(fault);
    traffic.check();
}

#[test]
#[should_panic(expected = "what came")]
fn planted_an_early_loss_is_found() {
    finds(Fault::LostEarly, Traffic { records: 8, preemptions: 2, ..FALLS_BEHIND });
}

#[test]
#[should_panic(expected = "what came")]
fn planted_not_yet_taken_for_lost_is_found() {
    finds(Fault::NotYetIsLost, Traffic { records: 8, ..FALLS_BEHIND });
}

#[test]
#[should_panic(expected = "what came")]
fn planted_overwritten_taken_for_lost_is_found() {
    finds(Fault::OverwrittenIsLost, FALLS_BEHIND);
}

#[test]
#[should_panic(expected = "not ahead")]
fn planted_a_log_that_runs_ahead_of_its_steps_is_found() {
    finds(Fault::NoRoomNeeded, Traffic { has_two_calls: true, ..FALLS_BEHIND });
}

#[test]
#[should_panic(expected = "not the item of")]
fn planted_a_number_not_looked_at_misleads_a_core() {
    finds(Fault::NoNumber, FALLS_BEHIND);
}

#[test]
#[should_panic(expected = "not the item of")]
fn planted_no_second_look_misleads_a_core() {
    finds(Fault::NoRecheck, FALLS_BEHIND);
}

#[test]
#[should_panic(expected = "somebody waits for ever")]
fn planted_no_flush_is_found() {
    Traffic { packets: 4, lost: 0b0100, records: 4, flush: Flush::Never, ..FALLS_BEHIND }.check();
}

#[test]
#[should_panic(expected = "stepped twice")]
fn planted_a_number_looked_up_before_the_state_is_found() {
    finds(Fault::NumberTooEarly, FALLS_BEHIND);
}

#[test]
#[should_panic(expected = "what came")]
fn planted_a_state_copied_before_its_steps_is_found() {
    finds(Fault::StateTooEarly, FALLS_BEHIND);
}

#[test]
#[should_panic(expected = "somebody waits for ever")]
fn planted_a_core_that_leaves_while_others_may_ask_is_found() {
    finds(Fault::LeavesEarly, FALLS_BEHIND);
}
