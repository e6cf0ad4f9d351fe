//! The contract of a link: one queue of an interface, of any kind of socket.

#![allow(unsafe_code)]

use std::os::fd::RawFd;

use io::{Frame, Pool};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::xdp::XdpSocket;

/// One queue of an interface, of whatever kind of socket. Frames are of the pool that is given.
pub(crate) trait Link: Send {
    /// Appends up to `max` packets that have arrived. Does not wait.
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>);

    /// Completes packets just received, where their sender left that to a card.
    fn fetch(&mut self, _pool: &mut Pool, _frames: &mut [Frame]) {}

    /// Sends frames from the front of `frames`, as many as there is room for; they leave it. Does not wait.
    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>);

    /// What is to be done when a batch is through: buffers that were sent come back.
    fn turn(&mut self, _pool: &mut Pool) {}

    /// Notes how far its rings have come.
    fn mark(&mut self) {}

    /// Whether all packets up to there were received.
    fn is_past_mark(&self) -> bool {
        true
    }

    /// Frames that were sent and that the kernel has not looked at yet.
    fn unsent(&mut self) -> usize {
        0
    }

    /// What becomes readable when a packet arrives.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Whether the host's own stack sees the packets that are received here.
    fn shares_with_host(&self) -> bool;

    /// How many chunks of the pool its sockets have.
    fn borrowed(&self) -> usize {
        0
    }

    /// Closes its sockets, and says whether nobody else has what was lent to them: other cores' sockets may.
    fn let_go(&mut self) -> bool {
        true
    }

    /// Takes sockets of queues that the interface has got, and keeps so many chunks waiting for packets at each queue from
    /// now on.
    fn widen(&mut self, _sockets: Vec<XdpSocket>, _filled: usize) {}

    /// Asks the kernel for counters that are otherwise noted from time to time: a system call.
    fn note_counters(&mut self) {}

    /// Gives back what it holds, before it is dropped while the port goes on.
    fn close(&mut self, _pool: &mut Pool) {}

    /// Whether what keeps packets from the host stays when the process is gone.
    fn outlive(&mut self, _outlives: bool) {}

    /// What it counts.
    fn counters(&mut self) -> InterfaceCounters;

    /// What was chosen, for people: `AF_PACKET`.
    fn describe(&self) -> String;
}

/// In the place of a link whose interface is gone: nothing comes, and what is to leave is lost.
#[derive(Default)]
pub(crate) struct Absent(InterfaceCounters);

impl Link for Absent {
    fn receive(&mut self, _: &mut Pool, _: &mut Clock, _: usize, _: &mut Vec<Frame>) {}

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.0.lost[Lost::LinkDown as usize] += frames.len() as u64;
        pool.give_back(frames.drain(..));
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn shares_with_host(&self) -> bool {
        false
    }

    /// Nothing was ever lent to it; what another core has lent to the link that follows is to stay there.
    fn let_go(&mut self) -> bool {
        false
    }

    fn counters(&mut self) -> InterfaceCounters {
        self.0
    }

    fn describe(&self) -> String {
        "gone".to_owned()
    }
}

/// How long nobody looks after anything else, milliseconds: what tells a thread to stop.
const SLEEP_MS: libc::c_int = 5;

/// Sleeps until one of these becomes readable, five milliseconds at most.
pub(crate) fn wait_for(descriptors: &mut [libc::pollfd]) {
    // SAFETY: the list is as long as is said. Whatever the answer is, the caller looks at all of them.
    unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, SLEEP_MS) };
}
