use std::thread;

use super::*;
use wire::LinkType;

/// Interpreted, each byte takes its time.
const LONGEST: usize = if cfg!(miri) { 100 } else { 1500 };
const PACKETS: u64 = if cfg!(miri) { 40 } else { 20_000 };

/// A port so small that arena and rings are full and empty again all the time.
fn small(queues: usize) -> (Feeder, Vec<ReplayPort>, Collector) {
    sized(queues, Arena::new(if cfg!(miri) { 1024 } else { 8192 }, LONGEST), 4)
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
        let (mut feeder, ports, mut collector) = small(queues);
        collector.early = Early::Places(HashMap::new());
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

/// Of two queues the first dies with the first packet that it gets. More packets follow than rings and
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
