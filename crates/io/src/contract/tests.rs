//! A port with one fault at a time: each is found.

use std::panic;

use wire::LinkType;

use super::*;
use crate::{Closed, Pool};

const FRAMES: usize = 6;

/// Packets that wait behind a port.
const ROOM: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Nothing,
    ForeignFrameIsLost,
    ForeignFrameLeavesTwice,
    ForeignBufferStays,
    ForeignBufferIsLost,
    OwnBufferIsLost,
    DroppedBufferIsLost,
    BufferIsGivenBackTwice,
    FullPortDrops,
    FullPortTakesTheLast,
    FullPortTakesNothingEver,
    ClosedPortTakesAll,
    AnyFrameIsTakenOver,
}

use Fault::*;

/// Makes packets up as they are asked for, and counts those that leave.
struct CountingPort {
    fault: Fault,
    pool: Pool,
    received: u64,
    foreign: Vec<Stamp>,
    left: u64,
    room: usize,
    is_closed: bool,
}

impl Port for CountingPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let before = frames.len();
        for _ in 0..max {
            let stamp = Stamp { seq: self.received, time_ns: 0 };
            let Some(frame) = self.pool.fill(stamp, LinkType::Ethernet, 3, &[1, 2, self.received as u8])
            else {
                break;
            };
            frames.push(frame);
            self.received += 1;
        }
        if frames.len() == before { Received::Idle } else { Received::Frames }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        let has = |fault| self.fault == fault;
        if self.is_closed {
            if has(ClosedPortTakesAll) {
                frames.clear();
            }
            return Err(Closed);
        }
        if frames.len() > self.room && (has(FullPortDrops) || has(FullPortTakesNothingEver)) {
            if has(FullPortDrops) {
                self.pool.give_back(frames.drain(self.room..));
            } else {
                return Ok(0);
            }
        }
        if frames.len() > self.room && has(FullPortTakesTheLast) {
            frames.rotate_left(1);
        }
        let taken = frames.len().min(self.room);
        self.room -= taken;
        for (at, frame) in frames.drain(..taken).enumerate() {
            let is_sent = fates[at] == Fate::Forward;
            let known = self.foreign.iter().position(|stamp| *stamp == frame.stamp);
            let is_foreign = known.map(|at| self.foreign.swap_remove(at)).is_some();
            self.left += match self.fault {
                ForeignFrameIsLost if is_foreign => 0,
                ForeignFrameLeavesTwice if is_foreign && is_sent => 2,
                _ => u64::from(is_sent),
            };
            match self.fault {
                ForeignBufferIsLost if is_foreign => continue,
                OwnBufferIsLost if !is_foreign => continue,
                DroppedBufferIsLost if !is_sent => continue,
                BufferIsGivenBackTwice => self.pool.give_back([frame.copied()].into_iter()),
                _ => {}
            }
            self.pool.give_back([frame].into_iter());
        }
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        if self.fault != ForeignBufferStays {
            let known = self.pool.take_over(frames);
            if self.fault != AnyFrameIsTakenOver {
                known?;
            }
        }
        self.foreign.extend(frames.iter().map(|frame| frame.stamp));
        Ok(())
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
        self.foreign.retain(|stamp| frames.iter().all(|frame| frame.stamp != *stamp));
    }
}

struct Pair([CountingPort; 2]);

impl Lab for Pair {
    fn port(&mut self, number: usize) -> &mut dyn Port {
        &mut self.0[number]
    }

    fn arrive(&mut self, _: usize, _: usize) {}

    fn left(&mut self) -> u64 {
        let make_room = |port: &mut CountingPort| {
            port.room = ROOM;
            port.left
        };
        self.0.iter_mut().map(make_room).sum()
    }

    fn frames(&self) -> usize {
        FRAMES
    }

    fn close(&mut self, number: usize) -> bool {
        self.0[number].is_closed = true;
        true
    }
}

/// What the contract says of a port with this fault.
fn found(fault: Fault) -> Option<String> {
    let run = || {
        port_contract(|| {
            let pools = <[Pool; 2]>::try_from(Pool::shared(2, FRAMES, 60)).map_err(drop).expect("two pools");
            Pair(pools.map(|pool| CountingPort {
                fault,
                pool,
                received: 0,
                foreign: Vec::new(),
                left: 0,
                room: ROOM,
                is_closed: false,
            }))
        });
    };
    panic::catch_unwind(run).err().map(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    })
}

#[test]
fn each_fault_is_found() {
    assert_eq!(found(Nothing), None);
    for (fault, says) in [
        (ForeignFrameIsLost, "were taken and never left"),
        (ForeignFrameLeavesTwice, "left twice"),
        (ForeignBufferStays, "buffers did not come back"),
        (ForeignBufferIsLost, "buffers did not come back"),
        (OwnBufferIsLost, "buffers did not come back"),
        (DroppedBufferIsLost, "buffers did not come back"),
        (BufferIsGivenBackTwice, "have one buffer"),
        (FullPortDrops, "and nothing else"),
        (FullPortTakesTheLast, "stay in order"),
        (FullPortTakesNothingEver, "takes nothing, however much room there is"),
        (ClosedPortTakesAll, "holds them still"),
        (AnyFrameIsTakenOver, "nobody can reach the bytes of these"),
    ] {
        let message = found(fault);
        assert!(message.as_ref().is_some_and(|message| message.contains(says)), "{fault:?}: {message:?}");
    }
}
