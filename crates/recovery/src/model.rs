//! The log and the protocol under the model checker: in every order of threads and every outcome of loads that
//! the memory model allows. Run with
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p paceline-recovery --release --lib --target-dir target/loom
//! ```
//!
//! The log is checked without a bound. In the models of the protocol threads are interrupted where they could go on
//! at most `BOUND` times, and each core takes so many turns beside the others as it has packets and one more; the rest
//! when these have ended.

use std::ops::Range;

use loom::thread;

use crate::core_loop::{Core, ITEM_BYTES, flush, got, mail, packet};
use crate::sync::{Fault, plant};
use crate::{Found, log, replicas};

const BOUND: usize = 2;

/// Turns after which whoever still waits waits for ever.
const ENDLESS: usize = 50;

fn model(preemptions: Option<usize>, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    builder.check(run);
}

/// A log of `records` is written up to `end`, some of it lost, while a reader looks for one number, twice.
fn log_model(records: usize, end: u64, wanted: u64) {
    model(None, move || {
        let (mut writer, reader) = log(records, WIDE);
        let writing = thread::spawn(move || {
            for seq in 0..end {
                match is_lost(seq) {
                    true => writer.write_lost(),
                    false => writer.write(&wide_item_of(seq)),
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
                Found::Overwritten => assert!(wanted + (records as u64) < end, "nothing overwrites it"),
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

fn is_lost(seq: u64) -> bool {
    seq == 1
}

#[test]
fn a_reader_finds_an_item_or_that_it_is_gone() {
    for wanted in 0..3 {
        log_model(1, 3, wanted);
        log_model(2, 4, wanted);
    }
}

#[track_caller]
fn log_finds(fault: Fault) {
    let _planted = plant(fault);
    log_model(1, 3, 0);
    log_model(1, 3, 2);
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
#[should_panic(expected = "is none")]
fn planted_numbers_not_looked_at_are_found() {
    log_finds(Fault::NoNumber);
}

/// What is sent to `CORES` cores, and what is lost.
#[derive(Clone, Copy)]
struct Traffic {
    packets: u64,
    /// Of packet `n`, bit `n`.
    lost: u64,
    records: usize,
    has_flush: bool,
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

    /// All cores step what any core got, in order and once, and come to an end.
    fn check(self) {
        model(Some(BOUND), move || {
            let mail = mail(CORES);
            let mut cores: Vec<_> = replicas(CORES, self.records, ITEM_BYTES)
                .into_iter()
                .zip(self.queues())
                .enumerate()
                .map(|(number, (replica, packets))| {
                    let mut core = Core::new(number, replica, mail.clone());
                    core.queue.extend(packets);
                    if self.has_flush {
                        core.queue.push_back(flush(self.packets, HISTORY));
                    }
                    core
                })
                .collect();
            let delivered: Vec<_> = cores.iter().flat_map(|core| core.queue.iter().cloned()).collect();
            let mut last = cores.pop().expect("a core");
            let others: Vec<_> = cores.into_iter().map(|core| thread::spawn(move || turns(core))).collect();
            last = turns(last);
            let mut cores: Vec<_> = others.into_iter().map(|core| core.join().expect("no core fails")).collect();
            cores.push(last);
            for _ in 0..ENDLESS {
                for core in &mut cores {
                    core.turn(usize::MAX, |ahead| ahead[0]);
                }
            }
            let got = got(&delivered);
            for core in &cores {
                assert_eq!(core.stepped, got, "what came, {:?} lost", self.lost);
                assert_eq!(core.next(), self.packets, "somebody waits for ever");
            }
        });
    }
}

/// What a core does beside the others.
fn turns(mut core: Core) -> Core {
    for _ in 0..=core.queue.len() {
        core.turn(usize::MAX, |ahead| ahead[0]);
    }
    core
}

#[test]
fn losses_anywhere() {
    for lost in 0..1 << 4 {
        let start = std::time::Instant::now();
        Traffic { packets: 4, lost, records: 4, has_flush: true }.check();
        eprintln!("{lost:b} {:?}", start.elapsed());
    }
}
