//! The replay of `scr` where functions change what later ones read, in place of
//! [`replicator`](crate::strategies::scr::replicator): packets of other cores go through the chain in a batch with
//! a core's own, with their headers and all edits.

use std::collections::VecDeque;

use io::{Frame, Port, Received};
use ring::{Column, Reader};
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::UNKNOWN_ENTRY;
use crate::path::receive::{Forgotten, Intake, IntakeCounters, IntakeEnd};

/// Puts the packets of other cores between a core's own.
pub(crate) struct Interleaver {
    history: HeaderHistory,
    /// As of the [`Replicator`](crate::strategies::scr::replicator::Replicator).
    catches_up: bool,
    /// Own packets that are received at once.
    own_packets: usize,
    /// The number of the next packet to be stepped.
    next: u64,
    /// Own packets that wait for those before them.
    arrived: VecDeque<Frame>,
    /// Between the port and those.
    received: Vec<Frame>,
    /// As of the [`Replicator`](crate::strategies::scr::replicator::Replicator).
    forgotten: Option<Forgotten>,
    replayed: u64,
}

impl Interleaver {
    /// For one of `cores` cores.
    pub(crate) fn new(history: HeaderHistory, cores: usize, catches_up: bool) -> Interleaver {
        let own_packets = (BATCH_PACKETS / cores).max(1);
        Interleaver {
            next: history.first(),
            history,
            catches_up,
            own_packets,
            arrived: VecDeque::with_capacity(own_packets),
            received: Vec::with_capacity(own_packets),
            forgotten: None,
            replayed: 0,
        }
    }

    /// Puts packets up to number `seq` into the batch, as far as there is room; says whether it came so far.
    fn replay_to(&mut self, seq: u64, batch: &mut Batch) -> Result<bool, Forgotten> {
        if seq > self.next {
            let end = self.history.end();
            if seq > end {
                return Err(Forgotten { seq: end });
            }
        }
        while self.next < seq {
            let packet = batch.len();
            if packet == BATCH_PACKETS {
                return Ok(false);
            }
            let (time_ns, headers) = self.history.read(self.next);
            batch.headers[packet] = headers;
            batch.history |= 1 << packet;
            let mut frame = Frame::without_bytes(Stamp { seq: self.next, time_ns });
            frame.entry = UNKNOWN_ENTRY;
            batch.frames.push(frame);
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
            let Some(own) = self.arrived.pop_front() else { return Ok(()) };
            batch.frames.push(own);
            self.next += 1;
        }
        Ok(())
    }

    /// As many that a batch is full even where some are left of what was received before.
    fn receive_own(&mut self, port: &mut dyn Port) -> Received {
        let received = match self.own_packets - self.arrived.len() {
            0 => Received::Frames,
            missing => port.receive(&mut self.received, missing),
        };
        self.arrived.extend(self.received.drain(..));
        if self.arrived.is_empty() { received } else { Received::Frames }
    }
}

impl Intake for Interleaver {
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        if self.forgotten.is_some() {
            return Received::End;
        }
        let received = self.receive_own(port);
        let filled = match received {
            Received::Frames => self.fill(batch),
            Received::Idle if !self.catches_up => return Received::Idle,
            Received::Idle => {
                let known = self.history.end();
                if known < self.next + BATCH_PACKETS as u64 {
                    return Received::Idle;
                }
                self.replay_to(known, batch).map(|_| ())
            }
            // What came after this core's last packet: replicas end alike.
            Received::End if !self.history.is_over() => return Received::Idle,
            Received::End => {
                let end = self.history.end();
                self.replay_to(end, batch).map(|_| ())
            }
        };
        let stepped = self.next.min(self.history.end());
        self.history.release(stepped);
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

    fn counters(&self) -> IntakeCounters {
        IntakeCounters { replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { forgotten: self.forgotten, ..IntakeEnd::default() }
    }
}

/// A core's end of a history that holds headers.
pub(crate) struct HeaderHistory {
    reader: Reader,
    times_ns: Column<u64>,
    headers: Column<Headers>,
    first: u64,
}

impl HeaderHistory {
    /// From packet number `first` on.
    pub(crate) fn new(
        reader: Reader,
        times_ns: Column<u64>,
        headers: Column<Headers>,
        first: u64,
    ) -> HeaderHistory {
        HeaderHistory { reader, times_ns, headers, first }
    }

    /// The number of the first packet.
    fn first(&self) -> u64 {
        self.first
    }

    /// The number of the first packet of which nothing is known now.
    fn end(&mut self) -> u64 {
        self.first + self.reader.published() as u64
    }

    /// Whether more will come.
    fn is_over(&self) -> bool {
        self.reader.is_abandoned()
    }

    /// A packet that is known, and not given back.
    fn read(&self, seq: u64) -> (u64, Headers) {
        let place = (seq - self.first) as usize;
        (self.times_ns.item(&self.reader, place), self.headers.item(&self.reader, place))
    }

    /// Gives back all before this number.
    fn release(&mut self, below: u64) {
        self.reader.release((below - self.first) as usize);
    }
}
