//! The contract of [`Port`], as a test that every port runs.
//!
//! The author of a port makes a [`Lab`] for it: two ports of one memory, packets for them, and a count of what
//! left. [`port_contract`] then takes frames through both, their own and each other's, often enough that a buffer
//! which does not come home is missed.

use wire::Stamp;

use crate::{EngineDrop, Fate, Foreign, Frame, Port, Received};

/// Two ports that reach each other's frames, and the world around them. The first is number 0, the second 1.
pub trait Lab {
    /// A port.
    fn port(&mut self, number: usize) -> &mut dyn Port;

    /// Makes sure that so many packets, at most half of [`Lab::frames`], can be received at a port.
    fn arrive(&mut self, number: usize, packets: usize);

    /// How many packets have left by both ports since the lab was made. Makes room behind the ports, where they wait for
    /// it.
    fn left(&mut self) -> u64;

    /// Whether [`Lab::left`] counts packets, too, that were dropped.
    fn counts_drops(&self) -> bool {
        false
    }

    /// How many frames the pool of each port has, about. The test goes round some times as often.
    fn frames(&self) -> usize;

    /// Takes away what is behind a port, so that nobody will ever take its frames; `false` if that cannot happen to it.
    fn close(&mut self, number: usize) -> bool {
        let _ = number;
        false
    }
}

/// Holds two ports to what [`Port`] promises. `lab` makes a new pair each time.
///
/// # Panics
/// If a rule is broken: says which.
pub fn port_contract<L: Lab>(mut lab: impl FnMut() -> L) {
    own_frames_leave_once(&mut lab());
    foreign_frames_leave_once(&mut lab());
    buffers_are_not_shared(&mut lab());
    own_and_foreign_frames_leave_together(&mut lab());
    what_is_not_taken_stays(&mut lab());
    others_are_refused(&mut lab(), &mut lab());
    a_closed_port_takes_nothing(&mut lab());
}

/// Packets to be received at a port, of which it gives at least one.
fn receive(lab: &mut impl Lab, number: usize, packets: usize) -> Vec<Frame> {
    /// Datagrams may take their time, even on one machine.
    const TRIES: usize = 10_000;
    lab.arrive(number, packets);
    let (port, mut frames) = (lab.port(number), Vec::new());
    let before = port.consumed();
    for _ in 0..TRIES {
        match port.receive(&mut frames, packets) {
            Received::Frames => {
                assert!((1..=packets).contains(&frames.len()), "`receive` gave {} frames", frames.len());
                assert!(frames.windows(2).all(|pair| pair[0].stamp <= pair[1].stamp), "frames are in order");
                assert!(
                    port.consumed() >= before + frames.len() as u64,
                    "`consumed` counts what was received"
                );
                return frames;
            }
            Received::Idle => std::thread::yield_now(),
            Received::End => break,
        }
    }
    panic!("port {number} gives no frame though packets arrived: buffers did not come back to its pool");
}

fn pass(lab: &mut impl Lab, from: usize, to: usize, frames: &[Frame]) {
    lab.port(from).hand_over(frames);
    lab.port(to).take_over(frames).expect("the ports reach each other's frames");
}

/// Sends all, making room where there is none.
fn send(lab: &mut impl Lab, number: usize, frames: &mut Vec<Frame>, mut fates: &[Fate]) {
    /// Rounds in which nothing is taken, at most.
    const TRIES: usize = 1_000;
    let mut tries = 0;
    while !frames.is_empty() {
        let taken = transmit(lab, number, frames, fates);
        fates = &fates[taken..];
        if taken == 0 {
            lab.left();
            tries += 1;
            assert!(tries < TRIES, "port {number} takes nothing, however much room there is");
        }
    }
}

fn transmit(lab: &mut impl Lab, number: usize, frames: &mut Vec<Frame>, fates: &[Fate]) -> usize {
    let offered: Vec<Stamp> = frames.iter().map(|frame| frame.stamp).collect();
    let taken = lab.port(number).transmit(frames, fates).expect("the port is open");
    assert_eq!(frames.len(), offered.len() - taken, "what was not taken stays, and nothing else");
    let stays = frames.iter().map(|frame| frame.stamp);
    assert!(
        stays.eq(offered[taken..].iter().copied()),
        "frames are taken from the front, the others stay in order"
    );
    taken
}

/// Everything that was sent has left, once.
fn check_left(lab: &mut impl Lab, sent: u64) {
    let left = lab.left();
    assert!(left >= sent, "{} frames of {sent} were taken and never left", sent - left);
    assert!(left <= sent, "{sent} frames were sent, and {left} left: one left twice");
}

fn rounds(lab: &impl Lab) -> usize {
    4 * lab.frames()
}

fn own_frames_leave_once(lab: &mut impl Lab) {
    let mut sent = 0;
    for round in 0..rounds(lab) {
        let number = round % 2;
        let mut frames = receive(lab, number, 1 + round % 3);
        let fates = vec![Fate::Forward; frames.len()];
        sent += frames.len() as u64;
        send(lab, number, &mut frames, &fates);
        check_left(lab, sent);
    }
}

fn foreign_frames_leave_once(lab: &mut impl Lab) {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut sent = lab.left();
        for round in 0..rounds(lab) {
            let mut frames = receive(lab, from, 1 + round % 3);
            let before: Vec<Vec<u8>> =
                frames.iter().map(|frame| lab.port(from).bytes(frame).to_vec()).collect();
            pass(lab, from, to, &frames);
            let after: Vec<Vec<u8>> = frames.iter().map(|frame| lab.port(to).bytes(frame).to_vec()).collect();
            assert_eq!(before, after, "a frame is the same at the port that took it over");
            let fates = vec![Fate::Forward; frames.len()];
            sent += frames.len() as u64;
            send(lab, to, &mut frames, &fates);
            check_left(lab, sent);
        }
    }
}

/// Each holder writes its own bytes to its buffer, and finds them later: at one port, at the other, and back.
fn buffers_are_not_shared(lab: &mut impl Lab) {
    for round in 0..rounds(lab) {
        let mut held: Vec<(usize, Vec<Frame>)> = Vec::new();
        for from in [0, 1] {
            let stays = receive(lab, from, 1);
            let goes = receive(lab, from, 1);
            pass(lab, from, 1 - from, &goes);
            let comes_back = receive(lab, from, 1);
            pass(lab, from, 1 - from, &comes_back);
            pass(lab, 1 - from, from, &comes_back);
            held.extend([(from, stays), (1 - from, goes), (from, comes_back)]);
        }
        let mark = |at: usize| (round * 7 + at) as u8;
        for (at, (port, frames)) in held.iter_mut().enumerate() {
            lab.port(*port).buffer_mut(&mut frames[0]).fill(mark(at));
        }
        for (at, (port, frames)) in held.iter_mut().enumerate() {
            let is_own = lab.port(*port).buffer_mut(&mut frames[0]).iter().all(|byte| *byte == mark(at));
            assert!(is_own, "two frames have one buffer");
        }
        for (port, mut frames) in held {
            send(lab, port, &mut frames, &[Fate::Forward]);
        }
        lab.left();
    }
}

/// Some of them are dropped: their buffers go home as well.
fn own_and_foreign_frames_leave_together(lab: &mut impl Lab) {
    let mut sent = 0;
    for round in 0..rounds(lab) {
        let (from, to) = (round % 2, 1 - round % 2);
        let mut frames = receive(lab, from, 2);
        pass(lab, from, to, &frames);
        for (at, own) in receive(lab, to, 2).into_iter().enumerate() {
            frames.insert((2 * at + round % 2).min(frames.len()), own);
        }
        let fate = |at: usize| match (round + at) % 3 {
            0 => Fate::Drop(EngineDrop::Malformed),
            _ => Fate::Forward,
        };
        let fates: Vec<Fate> = (0..frames.len()).map(fate).collect();
        let is_counted = |fate: &&Fate| lab.counts_drops() || **fate == Fate::Forward;
        sent += fates.iter().filter(is_counted).count() as u64;
        send(lab, to, &mut frames, &fates);
        check_left(lab, sent);
    }
}

/// Sends without making room, as far as the pool reaches: then with it.
fn what_is_not_taken_stays(lab: &mut impl Lab) {
    let most = lab.frames() / 2;
    let mut sent = 0;
    for _ in 0..4 {
        let mut frames = Vec::new();
        while frames.len() < most {
            frames.extend(receive(lab, 0, (most - frames.len()).min(3)));
        }
        let fates = vec![Fate::Forward; frames.len()];
        sent += frames.len() as u64;
        let taken = transmit(lab, 0, &mut frames, &fates);
        lab.left();
        send(lab, 0, &mut frames, &fates[taken..]);
        check_left(lab, sent);
    }
}

/// Frames of another memory.
fn others_are_refused(lab: &mut impl Lab, other: &mut impl Lab) {
    let mut frames = receive(other, 0, 1);
    assert_eq!(lab.port(1).take_over(&frames), Err(Foreign), "nobody can reach the bytes of these");
    assert_eq!(lab.port(0).take_over(&[]), Ok(()), "there is nothing to reach");
    send(other, 0, &mut frames, &[Fate::Forward]);
}

fn a_closed_port_takes_nothing(lab: &mut impl Lab) {
    let mut frames = receive(lab, 0, 2);
    if lab.close(0) {
        let fates = vec![Fate::Forward; frames.len()];
        let held = frames.len();
        assert!(lab.port(0).transmit(&mut frames, &fates).is_err(), "the other side is gone");
        assert_eq!(frames.len(), held, "whoever holds frames that were not taken holds them still");
        assert!(
            lab.port(0).send(&mut frames, &fates).is_err() && frames.is_empty(),
            "`send` does not wait for ever"
        );
    }
}

#[cfg(test)]
mod tests;
