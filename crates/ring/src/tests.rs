//! Tests of rings, logs and broadcasts, on one thread and on several.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{iter, thread};

use proptest::prelude::*;

use super::*;

const ITEMS: usize = if cfg!(miri) { 200 } else { 100_000 };

/// Turns of a loop that waits for another thread. They end after ten minutes, or `PACELINE_PATIENCE` seconds: what never comes
/// is a failure, and nobody waits for it for ever.
fn turns() -> impl Iterator<Item = ()> {
    let given = std::env::var("PACELINE_PATIENCE").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or(600);
    let (start, patience) = (Instant::now(), Duration::from_secs(seconds));
    iter::repeat_with(move || assert!(start.elapsed() < patience, "it never came"))
}

/// Waits for another thread, for as long as [`turns`] do.
fn until(mut is_done: impl FnMut() -> bool) {
    let mut comes = || {
        is_done() || {
            thread::yield_now();
            false
        }
    };
    assert!(comes() || turns().any(|()| comes()));
}

#[test]
fn a_full_ring_gives_the_item_back_and_an_empty_one_none() {
    let (mut producer, mut consumer) = ring(2);
    assert_eq!((producer.push('a'), producer.push('b'), producer.push('c')), (Ok(()), Ok(()), Err('c')));
    assert_eq!(consumer.peek(), Some(&'a'));
    assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some('a'), Some('b'), None));
    assert_eq!(consumer.peek(), None);
    assert_eq!(producer.push('c'), Ok(()));
    assert_eq!(consumer.pop(), Some('c'));
}

#[test]
fn the_capacity_is_rounded_up_to_a_power_of_two() {
    for (asked, given) in [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)] {
        let (mut producer, mut consumer) = ring(asked);
        assert_eq!((producer.capacity(), producer.free()), (given, given), "{asked}");
        assert_eq!(producer.push_from(&mut (0..)), given);
        assert_eq!((producer.free(), consumer.len()), (0, given));
    }
}

#[test]
#[should_panic(expected = "at least one slot")]
fn a_ring_without_slots_is_a_mistake() {
    ring::<u8>(0);
}

/// What does not fit stays in the iterator, whether or not it says how much it has.
#[test]
fn pushing_many_takes_no_more_than_fit() {
    let (mut producer, mut consumer) = ring(4);
    let mut exact = 0..6;
    assert_eq!((producer.push_from(&mut exact), exact), (4, 4..6));
    assert_eq!(consumer.pop(), Some(0));
    let mut unknown = std::iter::successors(Some(10), |n| Some(n + 1));
    assert_eq!((producer.push_from(&mut unknown), unknown.next()), (1, Some(11)));
    assert_eq!((producer.push_from(&mut unknown), unknown.next()), (0, Some(12)));
    let mut items = vec![7];
    assert_eq!((consumer.pop_into(&mut items, 3), items), (3, vec![7, 1, 2, 3]));
}

#[test]
fn either_end_sees_the_other_leave() {
    let (mut producer, mut consumer) = ring(2);
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    assert_eq!(producer.push(1), Ok(()));
    drop(producer);
    assert!(consumer.is_abandoned());
    assert_eq!((consumer.pop(), consumer.pop()), (Some(1), None));

    let (mut producer, consumer) = ring(2);
    drop(consumer);
    assert!(producer.is_abandoned());
    assert_eq!((producer.push_from(&mut (0..3)), producer.push(9)), (2, Err(9)));
}

#[test]
fn items_left_are_dropped_with_the_ring_and_others_are_not() {
    let item = Arc::new(());
    let count = || Arc::strong_count(&item) - 1;
    let (mut producer, mut consumer) = ring(4);
    producer.push_from(&mut std::iter::repeat_n(item.clone(), 4));
    let popped = consumer.pop();
    drop(consumer);
    assert_eq!(count(), 4);
    drop(producer);
    assert_eq!(count(), 1);
    drop(popped);
    assert_eq!(count(), 0);
}

#[test]
fn items_without_size_are_counted() {
    let (mut producer, mut consumer) = ring(2);
    assert_eq!(producer.push_from(&mut std::iter::repeat(())), 2);
    assert_eq!((consumer.len(), consumer.pop(), consumer.len()), (2, Some(()), 1));
}

/// Two threads, chunks of all sizes; the consumer stops by what is promised of `is_abandoned`.
#[test]
fn items_go_from_thread_to_thread_once_and_in_order() {
    for capacity in [1, 4, 64] {
        let (mut producer, mut consumer) = ring(capacity);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut items = (0..ITEMS).map(Box::new);
                for () in turns() {
                    if items.len() == 0 {
                        break;
                    }
                    let chunk = 1 + items.len() % 7;
                    if producer.push_from(&mut items.by_ref().take(chunk)) == 0 {
                        thread::yield_now();
                    }
                }
            });
            let (mut next, mut batch) = (0, Vec::new());
            for () in turns() {
                let last = consumer.is_abandoned();
                let ready = consumer.pop_into(&mut batch, 1 + next % 5);
                for item in batch.drain(..) {
                    assert_eq!(*item, next);
                    next += 1;
                }
                match (ready, last) {
                    (0, true) => break,
                    (0, false) => thread::yield_now(),
                    _ => {}
                }
            }
            assert_eq!(next, ITEMS);
        });
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Push,
    PushFrom(usize),
    Pop,
    PopInto(usize),
    Peek,
    Count,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        Just(Turn::Push),
        (0..12usize).prop_map(Turn::PushFrom),
        Just(Turn::Pop),
        (0..12usize).prop_map(Turn::PopInto),
        Just(Turn::Peek),
        Just(Turn::Count),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

    /// In one thread a ring is a queue with a bound.
    #[test]
    fn a_ring_is_a_bounded_queue(
        capacity in 1..9usize,
        turns in prop::collection::vec(turn(), 1..200),
    ) {
        let (mut producer, mut consumer) = ring(capacity);
        let capacity = producer.capacity();
        let mut queue = VecDeque::new();
        let mut next = 0;
        for turn in turns {
            match turn {
                Turn::Push => {
                    let fits = queue.len() < capacity;
                    prop_assert_eq!(producer.push(Box::new(next)).is_ok(), fits);
                    queue.extend(fits.then_some(next));
                }
                Turn::PushFrom(many) => {
                    let fitting = many.min(capacity - queue.len());
                    let mut items = (0..many).map(|i| Box::new(next + i));
                    prop_assert_eq!(producer.push_from(&mut items), fitting);
                    prop_assert_eq!(items.len(), many - fitting);
                    queue.extend((next..).take(fitting));
                }
                Turn::Pop => prop_assert_eq!(consumer.pop().map(|item| *item), queue.pop_front()),
                Turn::PopInto(max) => {
                    let mut items = Vec::new();
                    let popped = consumer.pop_into(&mut items, max);
                    let expected: Vec<_> = queue.drain(..max.min(queue.len())).map(Box::new).collect();
                    prop_assert_eq!((popped, items), (expected.len(), expected));
                }
                Turn::Peek => {
                    prop_assert_eq!(consumer.peek().map(|item| **item), queue.front().copied());
                    // As far as one is not even, of at most three.
                    let even = queue.iter().take(3).take_while(|item| **item % 2 == 0).count();
                    prop_assert_eq!(consumer.count_while(3, |item| **item % 2 == 0), even);
                }
                Turn::Count => {
                    prop_assert_eq!(producer.free(), capacity - queue.len());
                    prop_assert_eq!(consumer.len(), queue.len());
                    prop_assert_eq!(consumer.is_empty(), queue.is_empty());
                }
            }
            next += 101;
        }
    }
}

#[test]
fn each_reader_sees_all_items_where_they_are() {
    let (mut publisher, mut readers) = broadcast(4, 2);
    assert!((0..4).all(|item| publisher.push(item)), "there is room");
    assert_eq!(readers[0].published(), 0, "nothing is seen before it is published");
    publisher.publish();
    for reader in &mut readers {
        assert_eq!((reader.published(), reader.items(1, 3)), (4, &[1, 2, 3][..]));
    }
    readers[0].release(3);
    assert!(!publisher.push(4), "the other reader has released nothing");
    readers[1].release(2);
    assert!(publisher.push(4) && publisher.push(5) && !publisher.push(6));
    publisher.publish();
    assert_eq!(readers[1].published(), 6);
    assert_eq!(readers[1].items(2, 4), [2, 3], "as far as they lie one behind the other");
    assert_eq!((readers[1].items(4, 2), readers[1].item(3)), (&[4, 5][..], 3));
    readers.truncate(1);
    assert!(publisher.push(6) && !publisher.push(7), "nothing waits for a reader that is gone");
    assert_eq!(readers[0].published(), 6);
    readers[0].release(6);
    assert!(!publisher.extend(4, |index| 7 + index) && publisher.extend(3, |index| 7 + index), "all or none");
    publisher.publish();
    assert_eq!((readers[0].published(), readers[0].items(8, 2)), (10, &[8, 9][..]));
    assert!(!publisher.has_room(1) && !readers[0].is_abandoned());
    drop(publisher);
    assert!(readers[0].is_abandoned() && readers[0].published() == 10);
}

#[test]
#[should_panic(expected = "not to be read")]
fn released_items_are_not_to_be_read() {
    let (mut publisher, mut readers) = broadcast(4, 1);
    assert!(publisher.push(1) && publisher.push(2));
    publisher.publish();
    readers[0].published();
    readers[0].release(1);
    readers[0].items(0, 2);
}

#[test]
#[should_panic(expected = "not to be read")]
fn items_that_are_not_published_are_not_to_be_read() {
    let (mut publisher, mut readers) = broadcast(4, 1);
    assert!(publisher.push(1) && publisher.push(2));
    readers[0].published();
    readers[0].item(0);
}

#[test]
fn readers_in_threads_of_their_own_see_all_items_in_order() {
    let (mut publisher, readers) = broadcast(64, 3);
    thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let mut next = 0;
                for () in turns() {
                    let published = reader.published();
                    while next < published {
                        let items = reader.items(next, published - next);
                        assert!(items.iter().copied().eq(next..next + items.len()));
                        next += items.len();
                    }
                    reader.release(next);
                    if next >= ITEMS {
                        return;
                    }
                    thread::yield_now();
                }
            });
        }
        for item in 0..ITEMS {
            until(|| publisher.push(item));
            publisher.publish();
        }
    });
}

/// Writers with a claim each, in threads of their own: readers see all, in order.
#[test]
fn several_writers_publish_in_the_order_of_their_numbers() {
    let (tickets, readers) = log(64, 2);
    let column = tickets.column(0);
    let writers: Vec<_> = (0..3).map(|_| tickets.writer()).collect();
    let tickets = std::sync::Mutex::new(tickets);
    thread::scope(|scope| {
        for mut reader in readers {
            let column = column.clone();
            scope.spawn(move || {
                let mut next = 0;
                for () in turns() {
                    if reader.is_abandoned() && reader.published() == next {
                        break;
                    }
                    let published = reader.published();
                    while next < published {
                        let items = column.items(&reader, next, published - next);
                        assert!(items.iter().copied().eq(next..next + items.len()));
                        next += items.len();
                    }
                    reader.release(next);
                    thread::yield_now();
                }
                assert_eq!(next, ITEMS);
            });
        }
        for (number, mut writer) in writers.into_iter().enumerate() {
            let (column, tickets) = (column.clone(), &tickets);
            scope.spawn(move || {
                for () in turns() {
                    let mut tickets = tickets.lock().expect("no writer panics");
                    let left = ITEMS - tickets.claimed();
                    if left == 0 {
                        tickets.close();
                        return;
                    }
                    let has_claimed = writer.claim(&mut tickets, left.min(1 + 7 * number));
                    drop(tickets);
                    if has_claimed {
                        let first = writer.first();
                        column.write(&mut writer, |index| first + index);
                        until(|| writer.publish());
                    }
                    thread::yield_now();
                }
            });
        }
    });
}

#[test]
fn a_log_ends_behind_the_last_number_or_where_a_writer_is_gone() {
    let (mut tickets, mut readers) = log(4, 1);
    let (mut first, mut second) = (tickets.writer(), tickets.writer());
    assert!(first.claim(&mut tickets, 1) && second.claim(&mut tickets, 2));
    assert!(!first.claim(&mut tickets, 2), "one slot is left");
    tickets.close();
    assert!(!readers[0].is_abandoned(), "what was claimed is to come");
    assert!(first.publish() && first.publish(), "once is enough");
    assert!(!readers[0].is_abandoned());
    assert!(second.publish());
    assert!(readers[0].is_abandoned() && readers[0].published() == 3 && !second.is_broken());
    readers[0].release(3);
    assert!(first.claim(&mut tickets, 1));
    drop(first);
    assert!(second.is_broken() && readers[0].is_broken());
}

#[test]
#[should_panic(expected = "numbers that follow")]
fn a_writer_with_numbers_claims_none_behind_those_of_another() {
    let (mut tickets, _) = log(4, 1);
    let (mut first, mut second) = (tickets.writer(), tickets.writer());
    assert!(first.claim(&mut tickets, 1) && second.claim(&mut tickets, 1));
    let _ = first.claim(&mut tickets, 1);
}

#[test]
#[should_panic(expected = "of this log")]
fn columns_are_of_one_log() {
    let ((tickets, _), (mut others, _)) = (log(4, 1), log(4, 1));
    let (column, mut writer) = (tickets.column(0), others.writer());
    assert!(writer.claim(&mut others, 1));
    column.write(&mut writer, |_| 1);
}

/// A slot is its writer's until it is published, and then the next one's, read or not.
#[test]
fn a_slot_is_one_writers_with_readers_and_without() {
    let without = log(8, 0).0;
    let left = log(8, 2).0;
    for mut tickets in [without, left] {
        let (mut first, mut second) = (tickets.writer(), tickets.writer());
        assert!(first.claim(&mut tickets, 8));
        assert!(!second.claim(&mut tickets, 1), "all slots are the first one's");
        let numbers = tickets.column(0);
        numbers.write(&mut first, |index| index);
        assert!(!second.claim(&mut tickets, 1), "written is not published");
        assert!(first.publish());
        assert!(second.claim(&mut tickets, 5) && first.claim(&mut tickets, 3));
        assert!(!first.claim(&mut tickets, 1));
        assert!(!first.publish() && second.publish() && first.publish());
        assert_eq!(tickets.claimed(), 16);
    }
}

/// An end's `Debug` output shows how far both ends have come, for debugging a core that waits.
#[test]
fn ends_are_shown_with_how_far_they_have_come() {
    let (mut producer, mut consumer) = ring(2);
    assert!(producer.push(1).is_ok() && producer.push(2).is_ok() && consumer.pop() == Some(1));
    assert_eq!(format!("{producer:?}"), "Producer { capacity: 2, pushed: 2 }");
    assert_eq!(format!("{consumer:?}"), "Consumer { capacity: 2, popped: 1 }");
    let (mut tickets, readers) = log(4, 1);
    let (column, mut writer) = (tickets.column(0), tickets.writer());
    assert!(writer.claim(&mut tickets, 2) && writer.publish() && writer.claim(&mut tickets, 1));
    assert_eq!(format!("{tickets:?}"), "Tickets { claimed: 3, .. }");
    assert_eq!(format!("{writer:?}"), "Writer { first: 2, end: 3, .. }");
    assert_eq!(format!("{:?}", readers[0]), "Reader { released: 0, .. }");
    assert_eq!(format!("{column:?}"), "Column { slots: 4, .. }");
}
