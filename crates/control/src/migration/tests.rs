//! Tests of the migration protocol between two cores, step by step on one thread.

use super::*;

/// Packets are their numbers, a parcel the packets that the entry's flows have seen.
type Core = Migration<u64, Vec<u64>>;

fn order(entry: u16, to: u16, after: u64) -> Order {
    // As if there were no other entries: a core's packets are all of this one.
    Order { entry, to, after, since_seq: after, since_ns: 0 }
}

fn two_cores(entries: usize) -> (Orders, Core, Core) {
    let (orders, cores) = migration(&vec![0; entries], 2, 4);
    let mut cores = cores.into_iter();
    (orders, cores.next().expect("core 0"), cores.next().expect("core 1"))
}

#[test]
fn an_entry_is_handed_over_after_the_packets_that_came_before() {
    let (mut orders, mut a, mut b) = two_cores(1);
    orders.give(0, order(0, 1, 3)).expect("room");
    assert!(a.has(0, 0) && !b.has(0, 0));
    assert_eq!(a.next_order(2), None, "one packet is still to be worked off");
    b.hold(0, 3, 4);
    b.hold(0, 4, 5);
    assert!(!b.is_settled());

    let next = a.next_order(3).expect("all are worked off");
    assert!(!a.has(0, 0), "gone as soon as it is on its way");
    a.send(next.to, Message::Last(0, vec![1, 2, 3])).expect("room");
    assert_eq!(b.receive(), Some((Some(0), vec![1, 2, 3])));
    assert!(!b.has(0, 0), "what is held comes first");
    let mut released = Vec::new();
    b.hold(0, 5, 6);
    b.release(2, &mut released);
    assert_eq!(released, [4, 5]);
    assert!(!b.has(0, 0));
    b.release(2, &mut released);
    assert_eq!(released, [4, 5, 6]);
    assert!(b.has(0, 0) && a.is_settled() && b.is_settled());
}

#[test]
fn an_entry_that_has_not_come_yet_is_not_handed_on() {
    let (mut orders, mut a, mut b) = two_cores(1);
    orders.give(0, order(0, 1, 0)).expect("room");
    orders.give(1, order(0, 0, 1)).expect("room");
    b.hold(0, 0, 7);
    assert_eq!(b.next_order(1), None, "it is not here");
    a.next_order(0).expect("to hand over");
    a.send(1, Message::Last(0, vec![])).expect("room");
    b.receive().expect("it has come");
    assert_eq!(b.next_order(1), None, "a packet of it is held");
    b.release(64, &mut Vec::new());
    assert_eq!(b.next_order(1), Some(order(0, 0, 1)));
}

/// Core 0 is slow: the entry went and comes back, and packets of then are in its queue before it hands over.
#[test]
fn packets_of_an_entrys_return_wait_for_it() {
    let (mut orders, mut a, mut b) = two_cores(1);
    orders.give(0, Order { since_seq: 10, ..order(0, 1, 1) }).expect("room");
    orders.give(1, Order { since_seq: 20, ..order(0, 0, 1) }).expect("room");
    orders.give(0, Order { since_seq: 30, ..order(0, 1, 2) }).expect("room");
    a.look();
    assert!(a.has(0, 9) && !a.has(0, 20), "number 20 is of after its return");
    a.hold(0, 20, 20);
    assert_eq!(a.next_order(2).expect("number 9 is worked off").since_seq, 10);
    a.send(1, Message::Last(0, vec![9])).expect("room");
    b.look();
    b.receive().expect("it has come");
    assert!(b.has(0, 10) && !b.has(0, 30));
    b.next_order(1).expect("number 10 is worked off");
    b.send(0, Message::Last(0, vec![9, 10])).expect("room");
    a.hold(0, 30, 30);
    a.receive().expect("it is back");
    assert_eq!(a.next_order(2), None, "number 20 is before the next order, and held");
    let mut released = Vec::new();
    a.release(64, &mut released);
    assert_eq!(released, [20], "number 30 is of after its next return");
    assert_eq!(a.next_order(2).map(|order| order.since_seq), Some(30));
}

#[test]
fn of_several_entries_those_here_go_on() {
    let (_orders, mut a, _b) = two_cores(3);
    a.announce(2);
    a.order(order(1, 1, 0));
    a.order(order(2, 1, 9));
    assert_eq!(a.next_order(5).map(|order| order.entry), Some(1));
    assert_eq!(a.next_order(5), None);
    for (entry, packet) in [(1, 10), (0, 11), (1, 12)] {
        if a.has(entry, packet) {
            assert_eq!(packet, 11);
        } else {
            a.hold(entry, packet, packet);
        }
    }
    let mut released = Vec::new();
    a.release(64, &mut released);
    assert!(released.is_empty(), "their entry is elsewhere");
    assert_eq!(a.held().copied().collect::<Vec<_>>(), [10, 12]);
}

#[test]
fn a_core_that_goes_away_in_the_middle_is_noticed() {
    let (mut orders, a, b) = two_cores(1);
    orders.give(0, order(0, 1, 0)).expect("room");
    assert!(!b.is_broken());
    drop(a);
    assert!(b.is_broken() && !b.is_settled());
}

#[test]
fn a_core_that_goes_when_all_is_settled_breaks_nothing() {
    let (_orders, a, b) = two_cores(1);
    drop(a);
    assert!(!b.is_broken() && b.is_settled());
}

#[test]
fn orders_that_find_no_room_come_back_and_count_for_nothing() {
    let (mut orders, a, b) = two_cores(1);
    let one = order(0, 1, 0);
    let given = (0..100).take_while(|_| orders.give(0, one).is_ok()).count();
    assert!((4..100).contains(&given));
    assert_eq!(orders.give(0, one), Err(one));
    assert_eq!(orders.outstanding.load(Ordering::Relaxed), given);
    drop((a, b));
}

/// Where a table outside steers: what comes before an order is for the core to say, and the order waits for that.
#[test]
fn an_order_without_a_mark_waits_for_it() {
    let (mut orders, mut a, mut b) = two_cores(2);
    assert!(orders.are_carried_out() && !a.is_under_way());
    orders.announce(2);
    assert!(!orders.are_carried_out() && a.is_under_way() && !a.is_settled() && !a.has_unmarked());
    orders.give_announced(0, order(0, 1, Order::UNMARKED)).expect("room");
    orders.give_announced(0, order(1, 1, 7)).expect("room");
    assert!(a.has_unmarked());
    assert_eq!(a.next_order(u64::MAX - 1), Some(order(1, 1, 7)), "the other one waits for nothing");
    a.mark(9);
    assert!(!a.has_unmarked());
    assert_eq!(a.pending().map(|order| (order.entry, order.after)).collect::<Vec<_>>(), [(0, 9)]);
    assert_eq!((a.next_order(8), a.next_order(9).map(|order| order.entry)), (None, Some(0)));
    for (entry, is_last) in [(1, false), (0, true)] {
        a.send(1, Message::Last(entry, vec![])).expect("room");
        b.receive().expect("it has come");
        assert_eq!((orders.are_carried_out(), a.is_under_way()), (is_last, !is_last));
    }
    // Packets are held, or the entry is elsewhere: there is nothing to mark yet.
    b.hold(0, 5, 50);
    orders.give(1, order(0, 0, Order::UNMARKED)).expect("room");
    orders.give(0, order(1, 1, Order::UNMARKED)).expect("room");
    assert!(!b.has_unmarked() && !a.has_unmarked());
    b.mark(3);
    a.mark(3);
    assert!(a.pending().chain(b.pending()).all(|order| order.after == Order::UNMARKED));
    b.release(1, &mut Vec::new());
    assert!(b.has_unmarked());
}
