//! The ring under the model checker, which runs each of these in every order that the memory model
//! allows, and looks at every access to a slot. Run them with
//!
//! ```sh
//! cargo test -p paceline-ring-model
//! ```
//!
//! Items through one or two slots are checked with three preemptions at most, all other models without a bound. One slot
//! without a bound takes longer: `cargo test -p paceline-ring-model -- --ignored`.

mod broadcast;
mod log;

use std::panic;
use std::sync::Arc as Uncounted;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

use loom::thread;

use crate::sync::{Arc, Fault, UnsafeCell, plant};
use crate::{Consumer, Producer, ring};

/// Runs a model in every order, or in every one in which no more threads than `preemptions` are
/// interrupted where they could go on. `LOOM_MAX_PREEMPTIONS` bounds the others too.
fn model(preemptions: Option<usize>, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    builder.check(run);
}

/// An item that tells when it is dropped.
#[derive(Debug)]
struct Item {
    number: usize,
    dropped: Uncounted<Count>,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}

/// As many items as are asked for, and how many of them were dropped.
fn items(many: usize) -> (std::vec::IntoIter<Item>, Uncounted<Count>) {
    let dropped = Uncounted::new(Count::new(0));
    let item = |number| Item { number, dropped: Uncounted::clone(&dropped) };
    let items: Vec<_> = (0..many).map(item).collect();
    (items.into_iter(), dropped)
}

/// Pushes all, one by one; gives up when nobody will pop them.
fn push_each(producer: &mut Producer<Item>, items: impl Iterator<Item = Item>) {
    for mut item in items {
        while let Err(back) = producer.push(item) {
            if producer.is_abandoned() {
                return;
            }
            item = back;
            thread::yield_now();
        }
    }
}

/// Pops up to `chunk` at a time until the producer is gone and the ring is empty, in this order.
/// Returns how many came.
fn pop_all(consumer: &mut Consumer<Item>, chunk: usize) -> usize {
    let (mut popped, mut batch) = (0, Vec::new());
    loop {
        let last = consumer.is_abandoned();
        let ready = consumer.pop_into(&mut batch, chunk);
        for item in batch.drain(..) {
            assert_eq!(item.number, popped, "once and in order");
            popped += 1;
        }
        match (ready, last) {
            (0, true) => return popped,
            (0, false) => thread::yield_now(),
            _ => {}
        }
    }
}

/// One item after the other through a ring so small that it wraps round and is full.
fn one_by_one(capacity: usize, many: usize, preemptions: Option<usize>) {
    model(preemptions, move || {
        let (mut producer, mut consumer) = ring(capacity);
        let (items, dropped) = items(many);
        let pushing = thread::spawn(move || push_each(&mut producer, items));
        for number in 0..many {
            let item = loop {
                assert_eq!(consumer.peek().map_or(number, |item| item.number), number);
                match consumer.pop() {
                    Some(item) => break item,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(item.number, number, "once and in order");
        }
        pushing.join().expect("the producer's thread");
        assert!(consumer.pop().is_none());
        assert_eq!(dropped.load(Relaxed), many);
    });
}

/// Chunks, of as many as fit, through a ring of two slots; the consumer knows the end by the producer's
/// leaving.
fn in_chunks(many: usize) {
    model(None, move || {
        let (mut producer, mut consumer) = ring(2);
        let (mut items, dropped) = items(many);
        let pushing = thread::spawn(move || {
            while items.len() > 0 {
                if producer.push_from(&mut items) == 0 {
                    thread::yield_now();
                }
            }
        });
        assert_eq!(pop_all(&mut consumer, 2), many, "nothing is lost");
        pushing.join().expect("the producer's thread");
        assert_eq!(dropped.load(Relaxed), many);
    });
}

/// The producer pushes what fits and leaves.
fn producer_leaves() {
    model(None, || {
        let (mut producer, mut consumer) = ring(2);
        let (items, dropped) = items(2);
        let pushing = thread::spawn(move || push_each(&mut producer, items));
        assert_eq!(pop_all(&mut consumer, 1), 2, "nothing is lost");
        pushing.join().expect("the producer's thread");
        assert_eq!(dropped.load(Relaxed), 2);
    });
}

/// The consumer pops one and leaves, while the producer goes on.
fn consumer_leaves() {
    model(None, || {
        let (mut producer, mut consumer) = ring(2);
        let (items, dropped) = items(4);
        let pushing = thread::spawn(move || push_each(&mut producer, items));
        drop(consumer.pop());
        drop(consumer);
        pushing.join().expect("the producer's thread");
        assert_eq!(dropped.load(Relaxed), 4, "each item is dropped once");
    });
}

/// An end that sees that the other is gone may touch what the other's thread touched before.
fn leaving_orders_memory() {
    model(None, || {
        let (producer, consumer) = ring::<()>(1);
        let cell = Arc::new(UnsafeCell::new(0));
        let theirs = Arc::clone(&cell);
        let leaving = thread::spawn(move || {
            // SAFETY: the other thread reads once it has seen this one's end go.
            theirs.with_mut(|value| unsafe { *value = 7 });
            drop(consumer);
        });
        while !producer.is_abandoned() {
            thread::yield_now();
        }
        // SAFETY: the other thread wrote before it dropped its end.
        assert_eq!(cell.with(|value| unsafe { *value }), 7);
        leaving.join().expect("the consumer's thread");
    });
}

#[test]
fn items_arrive_once_and_in_order_through_one_slot() {
    one_by_one(1, 3, Some(3));
}

#[test]
#[ignore = "takes half a minute"]
fn items_arrive_once_and_in_order_through_one_slot_in_every_order() {
    one_by_one(1, 3, None);
}

#[test]
fn items_arrive_once_and_in_order_through_two_slots() {
    one_by_one(2, 4, Some(3));
}

#[test]
fn chunks_arrive_once_and_in_order() {
    in_chunks(4);
}

#[test]
fn what_was_pushed_before_the_producer_left_is_seen() {
    producer_leaves();
}

#[test]
fn what_the_consumer_left_is_dropped_once() {
    consumer_leaves();
}

#[test]
fn what_was_done_before_leaving_is_seen() {
    leaving_orders_memory();
}

/// Plants a fault and expects the checker to find it, and to say this of it.
#[track_caller]
fn finds(fault: Fault, model: fn(), complaint: &str) {
    plant(Some(fault));
    let outcome = panic::catch_unwind(model);
    plant(None);
    let said = outcome.expect_err("the checker found nothing");
    let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| said.downcast_ref::<String>().cloned()).expect("a message");
    assert!(text.contains(complaint), "{text}");
}

/// What the checker says of two accesses to a slot of which neither comes before the other.
const RACE: &str = "Concurrent read and write accesses";

#[test]
fn a_publication_that_orders_nothing_is_found() {
    finds(Fault::PushRelaxed, || in_chunks(4), RACE);
    finds(Fault::TailSeenRelaxed, || in_chunks(4), RACE);
}

#[test]
fn a_slot_given_back_without_order_is_found() {
    finds(Fault::PopRelaxed, || in_chunks(4), RACE);
    finds(Fault::HeadSeenRelaxed, || in_chunks(4), RACE);
}

#[test]
fn a_slot_given_back_before_it_is_read_is_found() {
    finds(Fault::PopEarly, || one_by_one(1, 3, None), RACE);
    finds(Fault::PopEarly, || in_chunks(4), RACE);
}

#[test]
fn leaving_without_order_is_found() {
    for fault in [Fault::LeaveRelaxed, Fault::LeavingSeenRelaxed] {
        finds(fault, producer_leaves, "nothing is lost");
        finds(fault, leaving_orders_memory, RACE);
    }
}

/// Why the contract names an order: asked the other way round, an item comes in between.
#[test]
#[should_panic(expected = "nothing is lost")]
fn asking_for_emptiness_first_loses_items() {
    model(None, || {
        let (mut producer, mut consumer) = ring(1);
        let pushing = thread::spawn(move || producer.push(7).expect("room"));
        let (item, last) = (consumer.pop(), consumer.is_abandoned());
        assert!(item.is_some() || !last, "nothing is lost");
        pushing.join().expect("the producer's thread");
    });
}
