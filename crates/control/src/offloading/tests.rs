//! Tests of the offloading protocol between two cores, step by step on one thread.

use super::*;

/// Packets are their numbers, a part the numbers of the packets that it has seen.
type Side = Offloading<u64, Vec<u64>>;

fn two_cores() -> (Side, Side) {
    let mut cores = offloading(&[0, 0], 2, 2).into_iter();
    (cores.next().expect("a worker"), cores.next().expect("an offloader"))
}

/// Shard 0 of the worker, with so many buckets at the offloader, whose part is empty.
fn offloaded(buckets: u8) -> (Side, Side) {
    let (mut worker, mut other) = two_cores();
    worker.offload_to(Some(1));
    worker.want(0, first(buckets));
    assert_eq!(worker.todo(0), Some(Todo::Arrange { from: Split::NONE, to: first(buckets) }));
    worker.arranged(0);
    assert_eq!(worker.todo(0), Some(Todo::Lend(1)));
    worker.lend(0, 1, Vec::new()).expect("room");
    assert!(matches!(other.event(), Some(Event::Lent(0, _))));
    (worker, other)
}

fn first(buckets: u8) -> Split {
    Split { buckets, mask: 0 }
}

fn served(other: &mut Side) -> Vec<u64> {
    let mut out = Vec::new();
    other.serve(64, &mut out);
    out
}

#[test]
fn packets_of_offloaded_buckets_go_to_the_offloader_and_others_stay() {
    let (mut worker, mut other) = offloaded(10);
    assert_eq!(
        (worker.route(0, 9), worker.route(0, 10), worker.route(1, 0)),
        (Route::Offloader(1), Route::Here, Route::Here)
    );
    worker.send(1, 7).expect("room");
    assert_eq!(served(&mut other), [7]);
    assert!(worker.is_content() && worker.todo(0).is_none());
}

/// Algorithm 3, lines 1 to 7: packets of buckets that come back wait until the offloader has stepped all before them.
#[test]
fn a_smaller_ratio_waits_for_what_is_at_the_offloader() {
    let (mut worker, mut other) = offloaded(10);
    worker.send(1, 1).expect("room");
    worker.want(0, first(4));
    assert_eq!(worker.todo(0), None);
    assert_eq!(
        (worker.route(0, 3), worker.route(0, 9), worker.route(0, 10)),
        (Route::Wait, Route::Wait, Route::Here)
    );
    worker.wait(0, 9, 2);
    worker.wait(0, 3, 3);
    assert!(other.event().is_none(), "a packet is ahead of the recall");
    assert_eq!(served(&mut other), [1]);
    assert!(matches!(other.event(), Some(Event::Recalled { shard: 0, to: 0 })));
    other.give_back(0, 0, vec![1]);
    assert!(matches!(worker.event(), Some(Event::Returned(0, part)) if part == [1]));
    assert_eq!(worker.todo(0), Some(Todo::Arrange { from: first(10), to: first(4) }));
    let mut out = Vec::new();
    worker.release(64, &mut out, |_| ());
    assert!(out.is_empty() && worker.waiting().len() == 2, "flows are on their way from part to part");
    worker.arranged(0);
    assert_eq!(worker.todo(0), Some(Todo::Lend(1)));
    worker.lend(0, 1, vec![1]).expect("room");
    // Later packets of these buckets wait as long as earlier ones do.
    assert_eq!((worker.route(0, 3), worker.route(0, 9)), (Route::Wait, Route::Wait));
    worker.release(64, &mut out, |_| ());
    assert_eq!(out, [2], "bucket 9 is kept now");
    assert!(matches!(other.event(), Some(Event::Lent(0, _))));
    assert_eq!(served(&mut other), [3]);
    assert!(worker.is_at_rest() && worker.is_content());
}

#[test]
fn a_full_ring_makes_packets_wait_in_order() {
    let (mut worker, mut other) = offloaded(64);
    worker.send(1, 1).expect("room");
    worker.send(1, 2).expect("room");
    assert!(!worker.has_room(1) && worker.blocked() == 1);
    assert_eq!(worker.send(1, 3), Err(3));
    worker.wait(0, 5, 3);
    assert_eq!(served(&mut other), [1, 2]);
    assert_eq!(worker.route(0, 6), Route::Wait, "there is room, and number 3 is first");
    worker.wait(0, 6, 4);
    let mut sent = Vec::new();
    worker.release(64, &mut Vec::new(), |packet| sent.push(*packet));
    assert_eq!((sent, served(&mut other)), (vec![3, 4], vec![3, 4]));
    assert_eq!(worker.route(0, 6), Route::Offloader(1));
}

/// Algorithm 3, lines 15 to 20: what was offloaded is cycled before the shard goes.
#[test]
fn a_shard_leaves_when_its_part_is_back_and_nothing_waits() {
    let (mut worker, mut other) = offloaded(10);
    worker.leave(0);
    assert_eq!(worker.todo(0), None);
    worker.wait(0, 5, 1);
    assert!(matches!(other.event(), Some(Event::Recalled { .. })));
    other.give_back(0, 0, Vec::new());
    assert!(worker.event().is_some());
    assert_eq!(worker.todo(0), None, "a packet waits");
    let mut out = Vec::new();
    worker.release(64, &mut out, |_| ());
    assert_eq!(out, [1]);
    assert_eq!(worker.todo(0), Some(Todo::Leave));
    let ratio = worker.left(0);
    assert_eq!(ratio, (first(10), first(10)));
    assert_eq!(worker.todo(0), None);
    other.arrived(0, ratio);
    assert_eq!(other.route(0, 3), Route::Here, "the new worker has no offloader");
}

/// What is offloaded comes back first, and what waits is stepped, each in the order in which it came.
#[test]
fn another_order_of_buckets_begins_where_none_is_offloaded_and_no_packet_waits() {
    let (mut worker, mut other) = offloaded(10);
    // Bucket 63 first, then 62: all but the last is offloaded, which is bucket 0.
    let wanted = Split { buckets: 63, mask: 63 };
    worker.want(0, wanted);
    assert_eq!(worker.todo(0), None);
    assert_eq!((worker.route(0, 3), worker.route(0, 10)), (Route::Wait, Route::Here));
    worker.wait(0, 3, 1);
    assert!(matches!(other.event(), Some(Event::Recalled { .. })));
    other.give_back(0, 0, Vec::new());
    assert!(worker.event().is_some());
    assert_eq!(worker.todo(0), Some(Todo::Arrange { from: first(10), to: Split::NONE }));
    worker.arranged(0);
    assert_eq!(worker.todo(0), None, "a packet waits");
    assert_eq!(worker.route(0, 3), Route::Wait);
    let mut out = Vec::new();
    worker.release(64, &mut out, |_| ());
    assert_eq!(out, [1]);
    let nothing = Split { buckets: 0, ..wanted };
    assert_eq!(worker.todo(0), Some(Todo::Arrange { from: nothing, to: wanted }));
    assert_eq!((worker.route(0, 0), worker.route(0, 1)), (Route::Here, Route::Wait));
    worker.arranged(0);
    assert_eq!(worker.todo(0), Some(Todo::Lend(1)));
    worker.lend(0, 1, Vec::new()).expect("room");
    assert_eq!((worker.route(0, 0), worker.route(0, 1)), (Route::Here, Route::Offloader(1)));
    assert!(worker.is_content());
}

#[test]
fn a_batch_from_each_worker_in_turn() {
    let mut cores = offloading::<u64, ()>(&[0, 1], 3, 4);
    let mut offloader = cores.pop().expect("three cores");
    for (number, worker) in cores.iter_mut().enumerate() {
        (0..3).for_each(|packet| worker.send(2, 10 * number as u64 + packet).expect("room"));
    }
    let mut batch = || {
        let mut out = Vec::new();
        offloader.serve(2, &mut out);
        out
    };
    assert_eq!(
        [batch(), batch(), batch(), batch(), batch()],
        [vec![0, 1], vec![10, 11], vec![2], vec![12], vec![]]
    );
}

#[test]
fn all_is_over_when_every_core_has_finished_and_rings_are_empty() {
    let (mut worker, mut other) = offloaded(64);
    worker.send(1, 1).expect("room");
    worker.finish();
    worker.finish();
    assert!(!worker.is_over() && !other.is_over());
    other.finish();
    assert!(worker.is_over() && !other.is_over(), "a packet is to be stepped");
    assert_eq!(served(&mut other), [1]);
    assert!(other.is_over() && !other.is_broken());
    assert_eq!(worker.todo(0), None, "nothing is begun after the end");
}

#[test]
fn a_core_that_goes_away_in_the_middle_is_noticed() {
    let (worker, other) = offloaded(1);
    assert!(!worker.is_broken());
    drop(other);
    assert!(worker.is_broken());
}
