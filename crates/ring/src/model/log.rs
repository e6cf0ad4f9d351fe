//! Models of the log that loom checks: two writers, readers, and slots that are claimed again.

use loom::thread;

use super::{RACE, finds, model};
use crate::sync::{Arc, Fault};
use crate::{Column, Reader, Tickets, Writer, log};
use loom::sync::Mutex;

/// Claims a number under the lock, writes it, and publishes it when its turn has come.
fn write_one(tickets: &Mutex<Tickets>, writer: &mut Writer, column: &Column<usize>) {
    assert!(writer.claim(&mut tickets.lock().expect("no panic"), 1), "there is room");
    let number = writer.first();
    column.write(writer, |_| number + 7);
    while !writer.publish() {
        thread::yield_now();
    }
}

/// Reads what there is.
fn look(reader: &mut Reader, column: &Column<usize>) {
    let published = reader.published();
    (0..published).for_each(|number| assert_eq!(column.item(reader, number), number + 7, "in order"));
}

/// Two threads write one number each, and a third reads.
fn two_write() {
    model(Some(2), || {
        let (tickets, mut readers) = log(2, 1);
        let (column, mut reader) = (tickets.column(0), readers.remove(0));
        let (mut first, mut second) = (tickets.writer(), tickets.writer());
        let tickets = Arc::new(Mutex::new(tickets));
        let reading = {
            let column = column.clone();
            thread::spawn(move || look(&mut reader, &column))
        };
        let writing = {
            let (tickets, column) = (Arc::clone(&tickets), column.clone());
            thread::spawn(move || write_one(&tickets, &mut second, &column))
        };
        write_one(&tickets, &mut first, &column);
        writing.join().expect("a writer's thread");
        reading.join().expect("the reader's thread");
    });
}

/// A slot may be claimed again, by another writer, while it is read.
fn one_slot() {
    model(None, || {
        let (mut tickets, mut readers) = log(1, 1);
        let (column, mut reader) = (tickets.column(0), readers.remove(0));
        let (mut first, mut second) = (tickets.writer(), tickets.writer());
        assert!(first.claim(&mut tickets, 1));
        column.write(&mut first, |_| 7);
        assert!(first.publish());
        let reading = {
            let column = column.clone();
            thread::spawn(move || {
                assert_eq!(reader.published(), 1);
                assert_eq!(column.item(&reader, 0), 7);
                reader.release(1);
            })
        };
        if second.claim(&mut tickets, 1) {
            column.write(&mut second, |_| 8);
            assert!(second.publish());
        }
        reading.join().expect("the reader's thread");
    });
}

/// Two threads write into the one slot of a log that nobody reads.
fn nobody_reads() {
    model(Some(2), || {
        let (tickets, _) = log(1, 0);
        let column = tickets.column(0);
        let (mut first, mut second) = (tickets.writer(), tickets.writer());
        let tickets = Arc::new(Mutex::new(tickets));
        let write = |tickets: &Mutex<Tickets>, writer: &mut Writer, column: &Column<usize>| {
            let has_room = writer.claim(&mut tickets.lock().expect("no panic"), 1);
            if has_room {
                column.write(writer, |_| 7);
                assert!(writer.publish(), "those before are published, or the slot would not be free");
            }
        };
        let writing = {
            let (tickets, column) = (Arc::clone(&tickets), column.clone());
            thread::spawn(move || write(&tickets, &mut second, &column))
        };
        write(&tickets, &mut first, &column);
        writing.join().expect("a writer's thread");
    });
}

#[test]
fn numbers_arrive_in_order_from_two_writers() {
    two_write();
}

#[test]
fn no_slot_is_claimed_while_it_is_read() {
    one_slot();
}

#[test]
fn no_slot_is_claimed_before_it_is_published() {
    nobody_reads();
}

#[test]
fn a_slot_that_is_claimed_before_it_is_published_is_found() {
    for fault in [Fault::HeadSeenRelaxed, Fault::PushRelaxed] {
        finds(fault, nobody_reads, "Concurrent write accesses");
    }
}

#[test]
fn a_writer_that_does_not_wait_for_those_before_it_is_found() {
    finds(Fault::PublishedOutOfTurn, two_write, "");
}

#[test]
fn a_turn_that_is_seen_without_order_is_found() {
    finds(Fault::TurnSeenRelaxed, two_write, RACE);
}

#[test]
fn a_slot_that_is_claimed_while_it_is_read_is_found() {
    for fault in [Fault::HeadSeenRelaxed, Fault::PopRelaxed] {
        finds(fault, one_slot, RACE);
    }
}
