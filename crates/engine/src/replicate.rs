//! State-compute replication on one core (SCR §3.2): packets of all cores are stepped here, in the order of their
//! sequence numbers; those of other cores from what a [`Past`] knows of their headers.
//!
//! ```text
//!  received:  own packets 3, 7, 11            past:  headers of 0, 1, 2, ...
//!  a batch:   0 1 2 (3) 4 5 6 (7) 8 9 10 (11)
//! ```
//!
//! A batch is stepped as any other is: looked up in bulk, with blocks on their way ahead of the steps. So all that
//! holds of a batch holds here: flows expire, and tables fill up, at the same step on every core.

use std::collections::VecDeque;

use io::{Frame, Port, Received};
use wire::{Headers, Stamp};

use crate::chain::ChainCore;
use crate::run::Custody;
use crate::{BATCH_PACKETS, Batch};

/// What is known of packets that other cores have.
pub trait Past: Send {
    /// The time of packet number `seq`, with the fields of its headers that the chain reads; the others are 0.
    /// Asked in order, each number once.
    ///
    /// # Errors
    /// [`Forgotten`] if it is not known any more.
    fn recall(&mut self, seq: u64, headers: &mut Headers) -> Result<u64, Forgotten>;

    /// How many packets there were, once no more will come.
    fn end(&self) -> Option<u64>;
}

/// A packet's headers are not known any more: the core lagged too far behind. What it steps from then on is not what
/// the others step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Its number.
    pub seq: u64,
}

/// Puts the packets of other cores between a core's own.
pub struct Replicator<P> {
    past: P,
    cores: usize,
    /// The number of the next packet to be stepped.
    next: u64,
    /// Own packets that wait for those before them.
    arrived: VecDeque<Frame>,
    received: Vec<Frame>,
    forgotten: Option<Forgotten>,
    replayed: u64,
}

impl<P: Past> Replicator<P> {
    /// For one of `cores` cores, from packet number `first` on.
    pub fn new(past: P, cores: usize, first: u64) -> Replicator<P> {
        let own = own_packets(cores);
        Replicator {
            past,
            cores,
            next: first,
            arrived: VecDeque::with_capacity(own),
            received: Vec::with_capacity(own),
            forgotten: None,
            replayed: 0,
        }
    }

    /// Where this core fell too far behind, if it did; it has received nothing since.
    pub fn forgotten(&self) -> Option<Forgotten> {
        self.forgotten
    }

    /// Packets of other cores that were stepped here.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Steps up to number `seq` from the past, as far as there is room; says whether it came so far.
    fn replay_to(&mut self, seq: u64, batch: &mut Batch) -> Result<bool, Forgotten> {
        while self.next < seq {
            let packet = batch.len();
            if packet == BATCH_PACKETS {
                return Ok(false);
            }
            let time_ns = self.past.recall(self.next, &mut batch.headers[packet])?;
            batch.frames.push(Frame::without_bytes(Stamp { seq: self.next, time_ns }));
            batch.history |= 1 << packet;
            self.next += 1;
            self.replayed += 1;
        }
        Ok(true)
    }

    /// Own packets with what lies before each, as many as there is room for.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), Forgotten> {
        while let Some(own) = self.arrived.front() {
            if !self.replay_to(own.stamp.seq, batch)? || batch.len() == BATCH_PACKETS {
                return Ok(());
            }
            self.next += 1;
            batch.frames.extend(self.arrived.pop_front());
        }
        Ok(())
    }

    fn receive_own(&mut self, port: &mut impl Port) -> Received {
        if !self.arrived.is_empty() {
            return Received::Frames;
        }
        let received = port.receive(&mut self.received, own_packets(self.cores));
        self.arrived.extend(self.received.drain(..));
        received
    }
}

/// Own packets that make a batch with what lies between them.
fn own_packets(cores: usize) -> usize {
    (BATCH_PACKETS / cores).max(1)
}

impl<P: Past> Custody for Replicator<P> {
    fn receive(&mut self, port: &mut impl Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        if self.forgotten.is_some() {
            return Received::End;
        }
        let received = self.receive_own(port);
        let filled = match received {
            Received::Frames => self.fill(batch),
            Received::Idle => return Received::Idle,
            // What came after this core's last packet: replicas end alike.
            Received::End => self.replay_to(self.past.end().unwrap_or(self.next), batch).map(|_| ()),
        };
        match filled {
            Err(forgotten) => {
                self.forgotten = Some(forgotten);
                // What was taken up to there is whole.
                if batch.is_empty() { Received::End } else { Received::Frames }
            }
            Ok(()) if batch.is_empty() => received,
            Ok(()) => Received::Frames,
        }
    }
}
