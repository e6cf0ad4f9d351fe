//! Tests of pools: frames of several ports, whose buffers come home.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{hint, thread};

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

const CHUNK: usize = 2_048;

/// As a kernel would: takes chunks, writes a packet into each, gives them back as packets.
fn receive(pool: &mut Pool, lent: &mut Vec<u64>, packet: Lent) -> Option<Frame> {
    lent.retain(|chunk| *chunk != packet.address / CHUNK as u64 * CHUNK as u64);
    pool.receive_lent(Stamp::default(), LinkType::Ethernet, packet)
}

#[test]
fn lent_chunks_come_back_as_packets_and_go_again() {
    let (mut pool, guests) = Pool::chunks(8, CHUNK, 0);
    assert!(guests.is_empty());
    let frames = pool.free();
    let (start, bytes) = pool.memory();
    assert_eq!((start.as_ptr() as usize % 4_096, bytes, pool.chunk_bytes()), (0, frames * CHUNK, CHUNK));
    let mut lent = Vec::new();
    pool.lend(0, frames + 1, &mut lent);
    assert_eq!((lent.len(), pool.free(), pool.lent()), (frames, 0, frames));
    let address = lent[3] + 256;
    let frame = receive(&mut pool, &mut lent, Lent { address, len: 60 }).expect("it was lent");
    assert_eq!((frame.data(), pool.bytes(&frame).len(), pool.lent()), (256..316, 60, frames - 1));
    assert_eq!(pool.lend_frame(0, frame), Lent { address, len: 60 });
    assert!(pool.take_back(address), "it was sent");
    lent.into_iter().for_each(|address| assert!(pool.take_back(address)));
    assert_eq!((pool.free(), pool.lent()), (frames, 0));
}

/// The planted fault: a kernel that gives a chunk back twice, or one that it never had, or a packet that reaches out of
/// its chunk.
#[test]
fn what_was_not_lent_does_not_come_back() {
    let (mut pool, _) = Pool::chunks(1, CHUNK, 0);
    let frames = pool.free();
    let mut lent = Vec::new();
    pool.lend(0, 1, &mut lent);
    let mut receive =
        |address, len| pool.receive_lent(Stamp::default(), LinkType::Ethernet, Lent { address, len });
    assert!(receive(lent[0] + 2_000, 60).is_none(), "it reaches out of its chunk");
    assert!(receive(lent[0] + CHUNK as u64, 60).is_none(), "another chunk, which is free");
    assert!(
        receive(u64::MAX, 60).is_none() && receive((frames * CHUNK) as u64, 60).is_none(),
        "no chunk at all"
    );
    let frame = receive(lent[0], 60).expect("it was lent");
    assert!(receive(lent[0], 60).is_none(), "its frame is out");
    assert!(!pool.take_back(lent[0]), "it is not lent any more");
    pool.give_back([frame].into_iter());
    assert_eq!((pool.free(), pool.lent()), (frames, 0));
}

#[test]
fn guests_reach_frames_and_send_them_home() {
    let (mut pool, guests) = Pool::chunks(1, CHUNK, 2);
    let frames = pool.free();
    for mut guest in guests {
        assert_eq!(guest.free(), 0);
        let frame = packet(&mut pool, 7, &[7; 60]).expect("a frame");
        guest.take_over(std::slice::from_ref(&frame)).expect("of one memory");
        assert_eq!(guest.bytes(&frame), [7; 60]);
        guest.give_back([frame].into_iter());
        assert_eq!((guest.foreign, guest.free(), pool.free()), (0, 0, frames));
    }
}

#[test]
fn what_one_borrower_has_comes_back_at_once_and_what_another_has_does_not() {
    let (mut pool, _) = Pool::chunks(1, 2_048, 0);
    let (frames, mut first, mut second) = (pool.free(), Vec::new(), Vec::new());
    pool.lend(0, 5, &mut first);
    pool.lend(7, 3, &mut second);
    let lent = Lent { address: first[0] + 256, len: 60 };
    let frame = pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent).expect("it is lent");
    assert_eq!((pool.lent_to(0), pool.lent_to(1), pool.lent_to(7)), (4, 0, 3));
    assert_eq!((pool.recall(0), pool.recall(0), pool.lent()), (4, 0, 3));
    // What comes back late is refused.
    assert!(!pool.take_back(first[1]) && pool.take_back(second[0]));
    pool.give_back([frame].into_iter());
    assert_eq!((pool.recall(7), pool.free(), pool.lent()), (2, frames, 0));
}

/// As many numbers as there are: none of them is that of nobody.
#[test]
fn all_who_borrow_have_numbers_of_their_own() {
    let (mut pool, _) = Pool::chunks(1, CHUNK, 0);
    let (frames, mut chunks) = (pool.free(), Vec::new());
    for to in 0..=u8::MAX {
        assert_eq!(pool.recall(to), 0, "nothing is lent");
        pool.lend(to, 2, &mut chunks);
        assert_eq!((pool.lent_to(to), pool.lent()), (2, 2));
        assert!(pool.take_back(chunks[0]) && !pool.take_back(chunks[0]));
        assert_eq!(pool.recall(to), 1);
        chunks.clear();
    }
    let lent = |pool: &mut Pool| {
        let frame = packet(pool, 0, &[1]).expect("a frame");
        pool.lend_frame(u8::MAX, frame)
    };
    let Lent { address, .. } = lent(&mut pool);
    assert!(pool.take_back(address));
    assert_eq!((pool.free(), pool.lent()), (frames, 0));
}

/// The planted fault: a kernel that tells two peers of the same chunks.
#[test]
fn of_two_peers_one_ends_a_loan() {
    const CHUNKS: usize = if cfg!(miri) { 6 } else { 500 };
    let mut pools = Pool::peers(CHUNKS, CHUNK, 2);
    let (mut other, mut own) = (pools.remove(1), pools.remove(0));
    for round in 0..if cfg!(miri) { 4 } else { 40 } {
        let lent: Vec<Lent> = (0..CHUNKS)
            .map(|seq| {
                let frame = packet(&mut own, seq as u64, &[7; 60]).expect("a frame");
                own.lend_frame(0, frame)
            })
            .collect();
        let there = AtomicUsize::new(0);
        let end_all = |pool: &mut Pool| {
            let mut ended = Vec::with_capacity(CHUNKS);
            for (both, lent) in (2..).step_by(2).zip(&lent) {
                // Both at once, chunk by chunk.
                there.fetch_add(1, Ordering::SeqCst);
                let mut looks = 0;
                while there.load(Ordering::SeqCst) < both {
                    looks += 1;
                    if looks % 4_096 == 0 || cfg!(miri) { thread::yield_now() } else { hint::spin_loop() }
                }
                ended.extend(pool.receive_lent(Stamp::default(), LinkType::Ethernet, *lent));
            }
            // What was written before they were lent is there.
            assert!(ended.iter().all(|frame| pool.bytes(frame) == [7; 60]));
            let count = ended.len();
            pool.give_back(ended.into_iter());
            count
        };
        let (ours, theirs) = thread::scope(|scope| {
            let theirs = scope.spawn(|| end_all(&mut other));
            (end_all(&mut own), theirs.join().expect("no panic"))
        });
        // Not at the same time: where the bank is locked, a deposit waits for the next one.
        other.deposit();
        own.deposit();
        assert_eq!(ours + theirs, CHUNKS, "round {round}: {ours} and {theirs}");
    }
}

/// Frames from the back, and a panic behind the first of them.
struct OneAndPanic(Option<Frame>);

impl Iterator for OneAndPanic {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        self.next_back()
    }
}

impl DoubleEndedIterator for OneAndPanic {
    fn next_back(&mut self) -> Option<Frame> {
        Some(self.0.take().expect("one frame"))
    }
}

#[test]
fn a_frame_of_another_memory_is_not_filled_after_a_panic_either() {
    let (mut pool, mut larger) = (Pool::new(1, 60), Pool::new(64, 2_000));
    let far = (0..64).filter_map(|seq| packet(&mut larger, seq, &[1])).last().expect("frames");
    let gives = |pool: &mut Pool, frame| {
        catch_unwind(AssertUnwindSafe(|| pool.give_back(OneAndPanic(Some(frame))))).is_err()
    };
    assert!(gives(&mut pool, far));
    assert!(packet(&mut pool, 0, &[1]).is_none(), "nothing is free that is not here");
    // Its own come back all the same.
    let mut pool = Pool::new(2, 60);
    let own = packet(&mut pool, 0, &[1]).expect("a frame");
    assert!(gives(&mut pool, own));
    assert_eq!(pool.free(), 2);
}
