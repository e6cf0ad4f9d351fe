use std::os::fd::RawFd;

use io::{Frame, Pool};

use crate::clock::Clock;
use crate::counters::InterfaceCounters;

/// One queue of an interface, of whatever kind of socket. Frames are of the pool that is given.
pub(crate) trait Link: Send {
    /// Appends up to `max` packets that have arrived. Does not wait.
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>);

    /// Sends frames from the front of `frames`, as many as there is room for; they leave it. Does not wait.
    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>);

    /// What is to be done when a batch is through: buffers that were sent come back.
    fn turn(&mut self, _pool: &mut Pool) {}

    /// What becomes readable when a packet arrives.
    fn descriptor(&self) -> RawFd;

    /// Whether the host's own stack sees the packets that are received here.
    fn shares_with_host(&self) -> bool;

    /// What it counts.
    fn counters(&mut self) -> InterfaceCounters;

    /// What was chosen, for people: `AF_PACKET`.
    fn describe(&self) -> String;
}
