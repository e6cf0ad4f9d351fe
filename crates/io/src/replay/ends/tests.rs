//! Tests of the replay port: packets come out once, whole, and in order.

use std::thread;

use super::*;
use wire::{LinkType, Stamp};

use crate::contract::{Lab, port_contract};

/// Interpreted, each byte takes its time.
const LONGEST: usize = if cfg!(miri) { 100 } else { 1500 };
const PACKETS: u64 = if cfg!(miri) { 40 } else { 20_000 };

/// A port so small that arena and rings are full and empty again all the time.
fn small(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    sized(queues, queues, Arena::new(if cfg!(miri) { 1024 } else { 8192 }, LONGEST), 4)
}

fn record(data: &[u8]) -> Record<'_> {
    Record { time_ns: 5, wire_len: data.len() as u32, link: LinkType::Ethernet, data }
}

/// Bytes that only packet `seq` has, of a length of its own.
fn content(seq: u64) -> Vec<u8> {
    let len = 1 + seq as usize * 7 % LONGEST;
    vec![seq as u8 ^ (seq >> 8) as u8; len]
}

/// Takes frames and gives them back, in batches of its own size, with a byte changed.
fn work(mut port: ReplayPort, batch: usize) {
    let mut frames = Vec::new();
    loop {
        match port.receive(&mut frames, batch) {
            Received::End => return,
            Received::Idle => thread::yield_now(),
            Received::Frames => {
                for frame in &mut frames {
                    assert_eq!(port.bytes(frame), content(frame.stamp.seq));
                    let data = frame.data();
                    // All of the buffer is the holder's, the room around the packet too.
                    let buffer = port.buffer_mut(frame);
                    buffer[..data.start].fill(!(batch as u8));
                    buffer[data.end..].fill(!(batch as u8));
                    buffer[data.start] = 0xee;
                }
                let fates = vec![Fate::Forward; frames.len()];
                if port.send(&mut frames, &fates).is_err() {
                    return;
                }
            }
        }
    }
}

#[test]
fn packets_come_out_in_the_order_in_which_they_went_in() {
    for queues in [1, 2, 5] {
        let (mut feeder, ports, mut collector) = small(queues);
        thread::scope(|scope| {
            for (queue, port) in ports.into_iter().enumerate() {
                scope.spawn(move || work(port, 1 + queue * 13));
            }
            scope.spawn(move || {
                for seq in 0..PACKETS {
                    let frame = feeder.take(&record(&content(seq))).expect("open");
                    let queue = (seq * seq % 7) as usize % queues;
                    feeder.send(queue, frame).expect("open");
                }
            });
            for seq in 0..PACKETS {
                let done = collector.collect().expect("not the end yet");
                let mut expected = content(seq);
                expected[0] = 0xee;
                assert_eq!(collector.bytes(&done), expected);
                assert_eq!(collector.release(done).0.seq, seq);
            }
            assert!(collector.collect().is_none());
        });
    }
}

/// Frames that queues give other stamps, and send in another order, come out as they went in.
#[test]
fn restamped_packets_come_out_in_the_order_in_which_they_went_in() {
    for queues in [1, 3] {
        let (mut feeder, ports, mut collector) = ordered(small(queues), Order::by_place);
        thread::scope(|scope| {
            for mut port in ports {
                scope.spawn(move || {
                    let mut frames = Vec::new();
                    loop {
                        match port.receive(&mut frames, 3) {
                            Received::End => return,
                            Received::Idle => thread::yield_now(),
                            Received::Frames => {
                                frames.reverse();
                                for frame in &mut frames {
                                    frame.stamp = Stamp { seq: PACKETS - frame.stamp.seq, time_ns: 0 };
                                }
                                let fates = vec![Fate::Forward; frames.len()];
                                port.send(&mut frames, &fates).expect("open");
                            }
                        }
                    }
                });
            }
            scope.spawn(move || {
                for seq in 0..PACKETS {
                    let frame = feeder.take(&record(&content(seq))).expect("open");
                    feeder.send((seq * seq % 7) as usize % queues, frame).expect("open");
                }
            });
            for seq in 0..PACKETS {
                let done = collector.collect().expect("not the end yet");
                assert_eq!(collector.bytes(&done), content(seq));
                assert_eq!(collector.release(done).0.seq, PACKETS - seq);
            }
            assert!(collector.collect().is_none());
        });
    }
}

/// Each comes out once, as it is; what one queue sends, in the order in which it does. Queues work at their own pace
/// and send in an order of their own.
#[test]
fn packets_that_are_ready_leave_once_and_whole() {
    for queues in [1, 2, 5] {
        let (mut feeder, ports, mut collector) = ordered(small(queues), Order::as_ready);
        thread::scope(|scope| {
            for (queue, mut port) in ports.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut frames = Vec::new();
                    loop {
                        match port.receive(&mut frames, 1 + queue * 3) {
                            Received::End => return,
                            Received::Idle => thread::yield_now(),
                            Received::Frames => {
                                frames.reverse();
                                let fates = vec![Fate::Forward; frames.len()];
                                port.send(&mut frames, &fates).expect("open");
                            }
                        }
                    }
                });
            }
            scope.spawn(move || {
                for seq in 0..PACKETS {
                    let frame = feeder.take(&record(&content(seq))).expect("open");
                    feeder.send((seq * seq % 7) as usize % queues, frame).expect("open");
                }
            });
            let mut has_left = vec![false; PACKETS as usize];
            for _ in 0..PACKETS {
                let done = collector.collect().expect("not the end yet");
                let seq = done.frame.stamp.seq;
                assert_eq!(collector.bytes(&done), content(seq));
                assert!(!std::mem::replace(&mut has_left[seq as usize], true), "packet {seq} left twice");
                collector.release(done);
            }
            assert!(collector.collect().is_none());
        });
    }
}

/// One more packet for a queue, if there is room.
fn take_one(feeder: &mut Feeder, queue: usize) -> bool {
    let Some(place) = feeder.taker.take(LONGEST) else { return false };
    let stamp = feeder.stamper.stamp(5);
    let frame =
        Frame { stamp, wire_len: 1, link: LinkType::Ethernet, entry: 0, note: crate::Note::default(), place };
    feeder.send(queue, frame).expect("open");
    true
}

/// Has a queue receive and send a packet, if there is one.
fn send_one(port: &mut ReplayPort) -> bool {
    let mut frames = Vec::new();
    let received = port.receive(&mut frames, 1) == Received::Frames;
    if received {
        port.send(&mut frames, &[Fate::Forward]).expect("open");
    }
    received
}

/// The first of two queues keeps its first packet. The other is never made to wait: it may be the one for which the
/// first waits. What holds the window's bound is that no more packets are taken in.
#[test]
fn a_queue_that_stalls_fills_the_window_and_blocks_no_other() {
    let (mut feeder, mut ports, mut collector) = ordered(small(2), Order::by_number);
    let frame = feeder.take(&record(&content(0))).expect("open");
    feeder.send(0, frame).expect("open");
    let mut others = 0;
    while take_one(&mut feeder, 1) {
        others += 1;
        assert!(send_one(&mut ports[1]));
        assert!(collector.pop_next().is_none(), "the first packet is not ready");
    }
    assert!(others > 4, "more than the ring holds");
    assert!(feeder.taker.take(LONGEST).is_none(), "nothing leaves, so nothing comes in");
    assert_eq!(collector.blocked_batches(), 0);
    assert!(send_one(&mut ports[0]));
    for seq in 0..=others {
        let done = collector.collect().expect("not the end yet");
        assert_eq!(collector.release(done).0.seq, seq);
    }
    assert!(feeder.taker.take(LONGEST).is_some(), "all goes on");
}

/// The first of two queues keeps its first packet, where packets leave as they are ready: all others do, and that
/// they cannot overtake the one that is kept by more than the arena holds.
#[test]
fn a_queue_that_stalls_keeps_no_packet_that_is_ready() {
    let (mut feeder, mut ports, mut collector) = ordered(small(2), Order::as_ready);
    let frame = feeder.take(&record(&content(0))).expect("open");
    feeder.send(0, frame).expect("open");
    let frames_max = feeder.arena.frames_max();
    let mut others = 0;
    while take_one(&mut feeder, 1) {
        assert!(send_one(&mut ports[1]));
        let done = collector.pop_next().expect("it is ready");
        others += 1;
        assert_eq!(collector.release(done).0.seq, others);
    }
    assert!(others > 4 && others < frames_max as u64, "{others} packets overtook one");
    assert!(send_one(&mut ports[0]));
    let done = collector.collect().expect("the one that was kept");
    assert_eq!(collector.release(done).0.seq, 0);
    assert!(feeder.taker.take(LONGEST).is_some(), "all goes on");
}

/// Where queues send in order, the ring of the one that is ahead is the window: its core waits, and that is counted.
/// The stalled one goes on when that has happened.
#[test]
fn a_queue_that_is_ahead_waits_and_nothing_is_lost() {
    let (mut feeder, ports, mut collector) = small(2);
    let blocked = Arc::clone(&ports[0].blocked);
    // As many as the rings hold: this thread feeds and then collects.
    let packets = 9;
    thread::scope(|scope| {
        let mut ports = ports.into_iter();
        let (mut stalls, mut goes_on) = (ports.next().expect("two"), ports.next().expect("two"));
        scope.spawn(move || {
            let mut frames = Vec::new();
            while stalls.receive(&mut frames, 1) != Received::Frames {
                thread::yield_now();
            }
            while blocked.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            stalls.send(&mut frames, &[Fate::Forward]).expect("open");
            while stalls.receive(&mut frames, 1) != Received::End {
                thread::yield_now();
            }
        });
        scope.spawn(move || {
            let mut sent = 0;
            while sent < packets - 1 {
                sent += u64::from(send_one(&mut goes_on));
                thread::yield_now();
            }
            while goes_on.receive(&mut Vec::new(), 1) != Received::End {
                thread::yield_now();
            }
        });
        for seq in 0..packets {
            let frame = feeder.take(&record(&[1])).expect("open");
            feeder.send(usize::from(seq > 0), frame).expect("open");
        }
        drop(feeder);
        for seq in 0..packets {
            let done = collector.collect().expect("not the end yet");
            assert_eq!(collector.release(done).0.seq, seq);
        }
        assert!(collector.collect().is_none());
    });
    assert!(collector.blocked_batches() > 0);
}

/// The numbers of packets as they come out where the first one's queue stalls until the others have sent theirs.
fn behind_a_stall(order: fn(&Arc<Arena>) -> Order) -> Vec<u64> {
    let (mut feeder, mut ports, mut collector) = ordered(small(2), order);
    for queue in [0, 1, 1, 1] {
        let frame = feeder.take(&record(&[1])).expect("open");
        feeder.send(queue, frame).expect("open");
    }
    let mut left = Vec::new();
    for queue in [1, 1, 1, 0] {
        assert!(send_one(&mut ports[queue]));
        while let Some(done) = collector.pop_next() {
            left.push(done.frame.stamp.seq);
            collector.release(done);
        }
    }
    left
}

/// And the fault that all three might have, a packet that passes early, is what packets that need no order do.
#[test]
fn no_packet_passes_one_that_stalls_unless_it_may() {
    let in_order: [fn(&Arc<Arena>) -> Order; 3] = [|_| Order::ByQueue, Order::by_number, Order::by_place];
    for order in in_order {
        assert_eq!(behind_a_stall(order), [0, 1, 2, 3]);
    }
    assert_eq!(behind_a_stall(Order::as_ready), [1, 2, 3, 0]);
}

/// The packet that was sent first leaves first, among those that are there, from whichever queue.
#[test]
fn packets_that_are_ready_leave_in_the_order_in_which_they_were_sent() {
    let (mut feeder, mut ports, mut collector) = ordered(small(3), Order::as_ready);
    let queues = [2, 0, 0, 1, 2, 1, 0, 2];
    for queue in queues {
        let frame = feeder.take(&record(&[1])).expect("open");
        feeder.send(queue, frame).expect("open");
    }
    let turns = [0, 1, 2, 2, 0, 1, 0, 2];
    turns.iter().for_each(|queue| assert!(send_one(&mut ports[*queue])));
    let left: Vec<u64> = (0..8)
        .map(|_| {
            let done = collector.collect().expect("not the end yet");
            assert_eq!(collector.bytes(&done), [1]);
            collector.release(done).0.seq
        })
        .collect();
    assert_eq!(left, [1, 3, 0, 4, 2, 5, 6, 7]);
}

/// Two queues that send by turns, each once it has heard of the other: a flow that goes to and fro between cores.
#[test]
fn a_packet_that_was_sent_after_another_had_been_leaves_after_it() {
    let (mut feeder, ports, mut collector) = ordered(small(2), Order::as_ready);
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        for (queue, mut port) in ports.into_iter().enumerate() {
            let turn = &turn;
            scope.spawn(move || {
                let mut frames = Vec::new();
                loop {
                    match port.receive(&mut frames, 1) {
                        Received::End => return,
                        Received::Idle => thread::yield_now(),
                        Received::Frames => {
                            while turn.load(Ordering::Acquire) % 2 != queue as u64 {
                                thread::yield_now();
                            }
                            port.send(&mut frames, &[Fate::Forward]).expect("open");
                            turn.fetch_add(1, Ordering::AcqRel);
                        }
                    }
                }
            });
        }
        scope.spawn(move || {
            for seq in 0..PACKETS {
                let frame = feeder.take(&record(&[1])).expect("open");
                feeder.send(seq as usize % 2, frame).expect("open");
            }
        });
        for seq in 0..PACKETS {
            let done = collector.collect().expect("not the end yet");
            assert_eq!((done.sent, collector.release(done).0.seq), (seq, seq));
        }
        assert!(collector.collect().is_none());
    });
}

/// The first of two queues dies with the first packet that it gets. More packets follow than rings and
/// arena hold, and `queue` says where each goes, the first one to the queue that dies.
fn first_queue_dies(queue: fn(u64) -> usize) {
    let (mut feeder, mut ports, mut collector) = small(2);
    let dies = ports.remove(0);
    let lives = ports.remove(0);
    thread::scope(|scope| {
        scope.spawn(move || work(lives, 8));
        scope.spawn(move || {
            let (mut port, mut frames) = (dies, Vec::new());
            while port.receive(&mut frames, 1) != Received::Frames {
                thread::yield_now();
            }
        });
        scope.spawn(move || {
            for seq in 0..PACKETS {
                let Ok(frame) = feeder.take(&record(&content(seq))) else { return };
                let Ok(()) = feeder.send(queue(seq), frame) else { return };
            }
            panic!("the feeder did not notice");
        });
        assert!(collector.collect().is_none());
    });
}

#[test]
fn a_queue_that_dies_ends_everything_and_nobody_waits_for_ever() {
    first_queue_dies(|seq| seq as usize % 2);
}

/// All later packets go to the queue that lives, so that nothing but the missing packet tells.
#[test]
fn a_queue_that_dies_with_the_only_packet_it_ever_got_is_noticed() {
    first_queue_dies(|seq| usize::from(seq > 0));
}

#[test]
fn a_collector_that_leaves_ends_everything() {
    let (mut feeder, ports, collector) = small(3);
    thread::scope(|scope| {
        for port in ports {
            scope.spawn(move || work(port, 8));
        }
        scope.spawn(move || {
            let send = |seq: u64, feeder: &mut Feeder| {
                let frame = feeder.take(&record(&content(seq)))?;
                feeder.send(seq as usize % 3, frame)
            };
            let closed = (0..PACKETS).any(|seq| send(seq, &mut feeder) == Err(Closed));
            assert!(closed);
        });
        drop(collector);
    });
}

#[test]
fn the_packet_may_move_in_its_buffer() {
    let (mut feeder, mut ports, mut collector) = small(1);
    let frame = feeder.take(&record(&[1, 2, 3])).expect("open");
    feeder.send(0, frame).expect("open");
    drop(feeder);
    let mut port = ports.remove(0);
    let mut frames = Vec::new();
    assert_eq!(port.receive(&mut frames, 8), Received::Frames);
    let frame = &mut frames[0];
    let data = frame.data();
    assert!(data.start >= 32, "headroom");
    port.buffer_mut(frame)[data.start - 1] = 0;
    frame.set_data(data.start - 1..data.end - 1);
    assert_eq!(port.bytes(frame), [0, 1, 2]);
    assert_eq!((frame.len(), frame.wire_len), (3, 3));
    port.send(&mut frames, &[Fate::Host]).expect("open");
    assert!(frames.is_empty());
    assert_eq!(port.receive(&mut frames, 8), Received::End);
    drop(port);
    let done = collector.collect().expect("one packet");
    assert_eq!(collector.bytes(&done), [0, 1, 2]);
    assert_eq!(collector.release(done).1, Fate::Host);
    assert!(collector.collect().is_none());
}

#[test]
#[should_panic(expected = "outside the frame's buffer")]
fn the_packet_may_not_leave_its_buffer() {
    let (mut feeder, _ports, _collector) = small(1);
    let mut frame = feeder.take(&record(&[1, 2, 3])).expect("open");
    let data = frame.data();
    frame.set_data(data.start..data.start + 65);
}

#[test]
#[should_panic(expected = "a fate for each frame")]
fn a_frame_without_a_fate_is_a_mistake() {
    let (mut feeder, mut ports, _collector) = small(1);
    let frame = feeder.take(&record(&[1, 2, 3])).expect("open");
    let _ = ports[0].send(&mut vec![frame], &[]);
}

/// Two queues, and what feeds them and takes their packets. Frames of one that the other sends come out in the order of
/// all.
struct Pair {
    feeder: Feeder,
    ports: Vec<ReplayPort>,
    collector: Option<Collector>,
    seq: u64,
    left: u64,
}

impl Lab for Pair {
    fn port(&mut self, number: usize) -> &mut dyn Port {
        &mut self.ports[number]
    }

    fn arrive(&mut self, number: usize, packets: usize) {
        let waiting = self.ports[number].receive.with(|queue| queue.len());
        for _ in waiting..packets {
            let frame = self.feeder.take(&record(&content(self.seq))).expect("open");
            self.seq += 1;
            self.feeder.send(number, frame).expect("open");
        }
    }

    fn left(&mut self) -> u64 {
        let collector = self.collector.as_mut().expect("open");
        while let Some(done) = collector.pop_next() {
            let (_, fate) = collector.release(done);
            self.left += u64::from(fate == Fate::Forward);
        }
        self.left
    }

    fn frames(&self) -> usize {
        12
    }

    fn close(&mut self, _: usize) -> bool {
        self.collector = None;
        true
    }
}

#[test]
fn queues_keep_the_contract() {
    port_contract(|| {
        let arena = Arena::new(1 << 16, LONGEST);
        let (feeder, ports, collector) = ordered(sized(2, 2, arena, 4), Order::by_number);
        Pair { feeder, ports, collector: Some(collector), seq: 0, left: 0 }
    });
}

/// A port that goes away with a frame of another one in its hands is missed, and the one that handed it over is not.
#[test]
fn who_holds_a_frame_last_is_the_one_to_be_missed() {
    let handed_over = || {
        let (mut feeder, mut ports, collector) = ordered(small(2), Order::by_number);
        let (mut taker, mut giver) = (ports.pop().expect("two ports"), ports.pop().expect("two ports"));
        let frame = feeder.take(&record(&content(0))).expect("open");
        feeder.send(0, frame).expect("open");
        drop(feeder);
        let mut frames = Vec::new();
        assert_eq!(giver.receive(&mut frames, 1), Received::Frames);
        giver.hand_over(&frames);
        taker.take_over(&frames).expect("of one arena");
        (giver, taker, frames, collector)
    };
    let (giver, mut taker, mut frames, mut collector) = handed_over();
    drop(giver);
    assert!(!taker.broken.load(Ordering::Acquire), "it had nothing any more");
    taker.send(&mut frames, &[Fate::Forward]).expect("open");
    drop(taker);
    assert_eq!(collector.collect().map(|done| done.frame.stamp.seq), Some(0));
    let (giver, taker, frames, mut collector) = handed_over();
    drop((taker, frames));
    assert!(giver.broken.load(Ordering::Acquire), "a frame died with it");
    assert!(collector.collect().is_none());
}
