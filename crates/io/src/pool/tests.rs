use std::sync::mpsc;
use std::thread;

use super::*;

const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
const FRAMES: usize = 4;

fn packet(pool: &mut Pool, seq: u64, data: &[u8]) -> Option<Frame> {
    pool.fill(Stamp { seq, time_ns: 0 }, LinkType::Ethernet, data.len() as u32, data)
}

fn pair(longest_bytes: usize) -> [Pool; 2] {
    <[Pool; 2]>::try_from(Pool::shared(2, FRAMES, longest_bytes)).map_err(drop).expect("two pools")
}

/// One thread receives, the other reads, writes and sends: all buffers come home, and nobody else's bytes are in them.
#[test]
fn frames_of_one_thread_are_sent_by_another() {
    let [mut own, mut other] = pair(100);
    let (to, from) = mpsc::channel::<Frame>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut frame in from {
                other.take_over(std::slice::from_ref(&frame)).expect("of one memory");
                let expected = vec![frame.stamp.seq as u8; 1 + frame.stamp.seq as usize % 100];
                assert_eq!(other.bytes(&frame), expected);
                other.buffer_mut(&mut frame).fill(0xee);
                other.give_back([frame].into_iter());
            }
            assert_eq!((other.foreign, other.free()), (0, FRAMES));
        });
        for seq in 0..ROUNDS as u64 {
            let data = vec![seq as u8; 1 + seq as usize % 100];
            let frame = loop {
                match packet(&mut own, seq, &data) {
                    Some(frame) => break frame,
                    None => thread::yield_now(),
                }
            };
            own.hand_over(std::slice::from_ref(&frame));
            to.send(frame).expect("the other thread is there");
        }
        drop(to);
        while own.free() < FRAMES {
            thread::yield_now();
        }
    });
}

#[test]
fn a_packet_that_is_too_long_gets_no_frame() {
    let mut pool = Pool::new(2, 60);
    let too_long = vec![7; pool.longest_bytes() + 1];
    assert!(packet(&mut pool, 0, &too_long).is_none());
    assert_eq!(pool.free(), 2);
    let longest = vec![7; pool.longest_bytes()];
    let frames =
        [packet(&mut pool, 0, &longest), packet(&mut pool, 1, &[])].map(|frame| frame.expect("a frame"));
    assert_eq!(frames.each_ref().map(|frame| pool.bytes(frame).len()), [longest.len(), 0]);
    assert!(packet(&mut pool, 2, &[1]).is_none(), "no frame is free");
    pool.give_back(frames.into_iter());
    assert_eq!(pool.free(), 2);
}

/// A frame that went to another port and came back is as if it had never left.
#[test]
fn a_frame_may_come_back() {
    let [mut own, mut other] = pair(10);
    let frame = packet(&mut own, 0, &[1]).expect("a frame");
    let frames = std::slice::from_ref(&frame);
    own.hand_over(frames);
    other.take_over(frames).expect("of one memory");
    other.hand_over(frames);
    own.take_over(frames).expect("of one memory");
    own.give_back([frame].into_iter());
    assert_eq!((own.foreign, other.foreign), (0, 0));
    assert_eq!((own.free(), other.free()), (FRAMES, FRAMES));
}

/// Buffers of a pool whose port is gone are missed by nobody.
#[test]
fn the_other_port_may_be_gone() {
    let [mut own, mut other] = pair(10);
    let frame = packet(&mut own, 0, &[1]).expect("a frame");
    other.take_over(std::slice::from_ref(&frame)).expect("of one memory");
    drop(own);
    assert_eq!(other.bytes(&frame), [1]);
    other.give_back([frame].into_iter());
    assert_eq!(other.free(), FRAMES);
}

#[test]
#[should_panic(expected = "another port")]
fn bytes_of_another_memory_are_not_reached() {
    let frame = packet(&mut Pool::new(1, 10), 0, &[1]).expect("a frame");
    Pool::new(1, 10).bytes(&frame);
}

#[test]
#[should_panic(expected = "another port")]
fn a_frame_of_another_memory_does_not_come_back() {
    let frame = packet(&mut Pool::new(1, 10), 0, &[1]).expect("a frame");
    Pool::new(1, 10).give_back([frame].into_iter());
}
