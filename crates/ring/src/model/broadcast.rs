//! Models of the broadcast that loom checks: each item reaches every reader, and no slot is written while it is
//! read.

use loom::thread;

use super::{RACE, finds, model};
use crate::sync::Fault;
use crate::{Subscriber, broadcast};

/// Items through one slot to a reader that takes all of them. Another leaves before the second is written.
fn all_arrive() {
    all_arrive_with(Some(3));
}

/// [`all_arrive`] with a bound on how many threads are interrupted while they could go on.
fn all_arrive_with(preemptions: Option<usize>) {
    model(preemptions, || {
        let (mut publisher, mut readers) = broadcast(1, 2);
        let mut stays = readers.remove(0);
        let staying = thread::spawn(move || {
            let mut next = 0;
            while next < 2 {
                let published = stays.published();
                for number in next..published {
                    assert_eq!(stays.item(number), number, "in order");
                }
                stays.release(published);
                if published == next {
                    thread::yield_now();
                }
                next = published;
            }
            if stays.is_abandoned() {
                assert_eq!(stays.published(), 2, "all of it is seen once the publisher is gone");
            }
        });
        for number in 0..2 {
            while !publisher.push(number) {
                readers.clear();
                thread::yield_now();
            }
            publisher.publish();
        }
        drop(publisher);
        staying.join().expect("the reader's thread");
    });
}

/// Reads what there is, and gives it back.
fn look(reader: &mut Subscriber<usize>) {
    let published = reader.published();
    (0..published).for_each(|number| assert_eq!(reader.item(number), number));
    reader.release(published);
}

/// Two readers look at the one slot while it may be written again.
fn two_look() {
    model(None, || {
        let (mut publisher, readers) = broadcast(1, 2);
        assert!(publisher.push(0));
        publisher.publish();
        let looking: Vec<_> =
            readers.into_iter().map(|mut reader| thread::spawn(move || look(&mut reader))).collect();
        if publisher.push(1) {
            publisher.publish();
        }
        looking.into_iter().for_each(|thread| thread.join().expect("a reader's thread"));
    });
}

#[test]
fn each_item_arrives_in_order() {
    all_arrive();
}

#[test]
#[ignore = "takes a minute"]
fn each_item_arrives_in_order_in_every_order() {
    all_arrive_with(None);
}

#[test]
fn no_slot_is_written_while_one_of_two_readers_reads_it() {
    two_look();
}

#[test]
fn a_broadcast_that_orders_nothing_is_found() {
    for fault in [Fault::PushRelaxed, Fault::TailSeenRelaxed] {
        finds(fault, all_arrive, RACE);
    }
}

#[test]
fn a_slot_that_is_written_while_it_is_read_is_found() {
    for fault in [Fault::PopRelaxed, Fault::HeadSeenRelaxed] {
        finds(fault, all_arrive, RACE);
        finds(fault, two_look, RACE);
    }
}

/// As many readers as there are have to be asked.
#[test]
fn a_reader_that_is_not_asked_is_found() {
    finds(Fault::OneReaderAsked, two_look, RACE);
}
