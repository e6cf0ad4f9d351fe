//! Tests of frames that come in several parts.

use io::{Frame, Lent, Pool};
use wire::{LinkType, Stamp};

use super::*;
use crate::xdp_link::umem;

const FRAME: usize = 16 << 10;
const PAGE: u64 = 4_096;

/// A pool, and what a link knows of its frames.
fn pool() -> (Pool, Parts, usize) {
    let (mut pool, _) = Pool::chunks(8, FRAME, 0);
    let parts = Parts::new(&umem(&pool).expect("pages"), FRAME, 2);
    let frames = pool.free();
    (pool, parts, frames)
}

/// As the kernel does: puts bytes into a chunk that it has, behind its headroom.
fn arrives(pool: &mut Pool, bytes: &[u8]) -> Option<Frame> {
    let mut chunks = Vec::new();
    pool.lend(0, 1, &mut chunks);
    let lent = Lent { address: chunks[0] + 256, len: bytes.len() as u32 };
    let mut frame = pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent)?;
    let data = frame.data();
    pool.buffer_mut(&mut frame)[data].copy_from_slice(bytes);
    Some(frame)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 7) >> 3) as u8).collect()
}

#[test]
fn a_frame_comes_out_with_its_last_part() {
    let (mut pool, mut parts, frames) = pool();
    let sent = bytes(9_014);
    let mut chunks = sent.chunks(3_840).peekable();
    let mut whole = None;
    while let Some(chunk) = chunks.next() {
        assert!(whole.is_none());
        let part = arrives(&mut pool, chunk);
        whole = parts.join(&mut pool, 0, part, chunks.peek().is_some());
        // A frame of another queue comes in between, and is whole at once.
        let part = arrives(&mut pool, &[9; 60]);
        let other = parts.join(&mut pool, 1, part, false).expect("it is whole").expect("it has room");
        assert_eq!(pool.bytes(&other), [9; 60]);
        pool.give_back([other].into_iter());
    }
    let whole = whole.expect("it was the last part").expect("it has room");
    assert_eq!((pool.bytes(&whole) == sent, whole.wire_len, pool.free()), (true, 9_014, frames - 1));
    pool.give_back([whole].into_iter());
    assert_eq!((pool.free(), pool.lent()), (frames, 0));
}

/// The planted fault of the one above: a part that the kernel's descriptor does not say goes on is a frame of its own.
#[test]
fn a_part_that_is_lost_is_missed() {
    let (mut pool, mut parts, _) = pool();
    let sent = bytes(9_014);
    let part = arrives(&mut pool, &sent[..3_840]);
    assert!(parts.join(&mut pool, 0, part, true).is_none());
    let part = arrives(&mut pool, &sent[7_680..]);
    let whole = parts.join(&mut pool, 0, part, false).expect("whole").expect("it has room");
    assert_ne!(pool.bytes(&whole), sent);
}

/// What is longer than a frame is lost once, with all that comes of it, and nothing of it stays.
#[test]
fn what_has_no_room_is_lost_as_a_whole() {
    let (mut pool, mut parts, frames) = pool();
    for part in 0..5 {
        let arrived = arrives(&mut pool, &[1; 3_840]);
        let outcome = parts.join(&mut pool, 0, arrived, part < 4).map(Result::err);
        assert_eq!(outcome, (part == 4).then_some(Some(Lost::TooLong)));
    }
    // The kernel names a chunk that it never had, in the middle of a frame and alone.
    let arrived = arrives(&mut pool, &[1; 3_840]);
    assert!(parts.join(&mut pool, 0, arrived, true).is_none());
    assert!(parts.join(&mut pool, 0, None, true).is_none());
    let arrived = arrives(&mut pool, &[1; 60]);
    for arrived in [arrived, None] {
        assert!(matches!(parts.join(&mut pool, 0, arrived, false), Some(Err(Lost::Refused))));
    }
    // And the next one is whole again.
    let arrived = arrives(&mut pool, &[1; 60]);
    let next = parts.join(&mut pool, 0, arrived, false).expect("whole").expect("it has room");
    pool.give_back([next].into_iter());
    let arrived = arrives(&mut pool, &[1; 60]);
    assert!(parts.join(&mut pool, 1, arrived, true).is_none());
    assert_eq!(pool.free(), frames - 1, "one has begun");
    parts.close(&mut pool);
    assert_eq!((pool.free(), pool.lent()), (frames, 0));
}

#[test]
fn a_frame_is_free_when_all_of_it_was_sent() {
    let (mut pool, mut parts, frames) = pool();
    for len in [60, 3_840, 3_841, 9_014, FRAME - 256] {
        let mut frame = arrives(&mut pool, &[1; 60]).expect("it was lent");
        frame.set_data(256..256 + len);
        let (lent, mut all) = (pool.lend_frame(0, frame), Vec::new());
        parts.split(lent, &mut all);
        let ends: Vec<bool> = all.iter().map(|part| !part.goes_on).collect();
        assert_eq!(ends.iter().position(|ends| *ends), Some(all.len() - 1), "the last ends it: {all:?}");
        assert_eq!(
            (all[0].address, all.iter().map(|part| part.len as usize).sum::<usize>()),
            (lent.address, len)
        );
        assert!(all.windows(2).all(|pair| pair[0].address + u64::from(pair[0].len) == pair[1].address));
        assert!(all.iter().all(|part| part.address % PAGE + u64::from(part.len) <= PAGE), "{all:?}");
        assert_eq!(parts.further(), all.len() - 1);
        // The kernel takes none of it, and then it does.
        let mut rest = all[1..].iter().copied();
        assert_eq!((parts.unsplit(all[0], &mut rest), parts.further(), rest.len()), (lent, 0, 0));
        all.clear();
        parts.split(lent, &mut all);
        let begins: Vec<u64> = all.iter().map(|part| part.address / PAGE * PAGE).collect();
        let freed: Vec<bool> = begins.iter().map(|address| parts.is_sent(*address)).collect();
        assert_eq!(freed, ends, "with the last part, and not before");
        assert!(pool.take_back(begins[0]));
        // Planted: a kernel that says it twice, or of what it never had.
        assert!(!parts.is_sent(begins[0]) && !parts.is_sent(u64::MAX));
        assert_eq!((pool.free(), pool.lent(), parts.further()), (frames, 0, 0));
    }
}

/// Planted: the kernel forgets one part of a frame. The frame is never free, and the port counts it as missing: what its
/// sockets have is fewer frames than are lent.
#[test]
fn a_forgotten_completion_is_missed() {
    let (mut pool, mut parts, _) = pool();
    let mut frame = arrives(&mut pool, &[1; 60]).expect("it was lent");
    frame.set_data(256..256 + 9_014);
    let (lent, mut all) = (pool.lend_frame(0, frame), Vec::new());
    parts.split(lent, &mut all);
    assert!(all[1..].iter().all(|part| !parts.is_sent(part.address)));
    let of_socket = 1;
    assert_eq!((of_socket - parts.further(), pool.lent_to(0)), (1, 1), "while the kernel has it");
    let of_socket = 0;
    assert_eq!((of_socket - parts.further(), pool.lent_to(0)), (0, 1), "and when it was forgotten");
}
