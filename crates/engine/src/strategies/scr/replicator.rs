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
use std::ops::Range;

use io::{Frame, Port, Received};
use sequencer::Likeness;
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::{Forgotten, Intake, IntakeCounters, IntakeEnd};

/// What is known of packets that other cores have.
pub trait Past: Send {
    /// The next packet that is to be stepped. Asked in the order of packets; some need not be asked for.
    ///
    /// # Errors
    /// [`Forgotten`] if it is not known, or not any more.
    fn recall(&mut self, seq: u64) -> Result<Recalled, Forgotten>;

    /// Adds the times of packets of a range: of the first so many that are known, and each like the one before in
    /// all.
    #[inline]
    fn repeats(&mut self, seqs: Range<u64>, times_ns: &mut Vec<u64>) {
        for seq in seqs {
            match self.recall(seq) {
                Ok(Recalled { time_ns, likeness: Likeness::All }) => times_ns.push(time_ns),
                _ => break,
            }
        }
    }

    /// Its headers as far as the chain reads them; of the packet that was asked for last.
    ///
    /// # Errors
    /// As [`Past::recall`].
    fn headers(&mut self, seq: u64, headers: &mut Headers) -> Result<(), Forgotten>;

    /// How many packets there were, once no more will come.
    fn end(&self) -> Option<u64>;
}

/// A packet, but for its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// When it came, ns.
    pub time_ns: u64,
    /// How much it is like the packet with the number before, whichever core has that.
    pub likeness: Likeness,
}

/// Puts the packets of other cores between a core's own.
pub struct Replicator<P> {
    past: P,
    /// Own packets that are received at once.
    own_packets: usize,
    /// The number of the next packet to be stepped.
    next: u64,
    /// Own packets that wait for those before them.
    arrived: VecDeque<Frame>,
    /// Between the port and those.
    received: Vec<Frame>,
    /// Whether one entry may stand for several packets.
    can_run: bool,
    forgotten: Option<Forgotten>,
    replayed: u64,
}

impl<P: Past> Replicator<P> {
    /// For one of `cores` cores that run `chain`, from packet number `first` on.
    pub fn new(past: P, chain: &Chain, cores: usize, first: u64) -> Replicator<P> {
        let can_run = chain.can_run();
        // History that repeats itself takes no room in a batch.
        let own_packets = if can_run { BATCH_PACKETS } else { (BATCH_PACKETS / cores).max(1) };
        Replicator {
            past,
            own_packets,
            next: first,
            arrived: VecDeque::with_capacity(own_packets),
            received: Vec::with_capacity(own_packets),
            can_run,
            forgotten: None,
            replayed: 0,
        }
    }

    /// Where this core fell too far behind, if it did; it has received nothing since.
    pub fn forgotten(&self) -> Option<Forgotten> {
        self.forgotten
    }

    /// Steps up to number `seq` from the past, as far as there is room; says whether it came so far.
    fn replay_to(&mut self, seq: u64, batch: &mut Batch) -> Result<bool, Forgotten> {
        while self.next < seq {
            let recalled = self.past.recall(self.next)?;
            let packets = match recalled.likeness {
                Likeness::All if self.can_run && !batch.is_empty() => self.follow_to(seq, batch) as u64,
                _ => 0,
            };
            if packets == 0 && !self.replay_one(recalled, batch)? {
                return Ok(false);
            }
            self.next += packets.max(1);
            self.replayed += packets.max(1);
        }
        Ok(true)
    }

    /// Has the batch's last entry stand for the next packets, too, as far as they are alike; says how many.
    #[inline]
    fn follow_to(&mut self, seq: u64, batch: &mut Batch) -> usize {
        let Self { past, next, .. } = self;
        let last = batch.len() - 1;
        batch
            .runs
            .push_alike(last, |room, times_ns| past.repeats(*next..seq.min(*next + room as u64), times_ns))
    }

    /// The next packet, behind the last entry or as one more; says whether there was room.
    #[inline]
    fn replay_one(&mut self, recalled: Recalled, batch: &mut Batch) -> Result<bool, Forgotten> {
        let Recalled { time_ns, likeness } = recalled;
        let packet = batch.len();
        let has_key_of_last = self.has_key_of_last(likeness, batch);
        let headers = |headers: &mut Headers| self.past.headers(self.next, headers);
        if has_key_of_last && batch.runs.push(packet - 1, time_ns, headers)? {
            return Ok(true);
        }
        if packet == BATCH_PACKETS {
            return Ok(false);
        }
        self.past.headers(self.next, &mut batch.headers[packet])?;
        batch.history |= 1 << packet;
        self.begin(Frame::without_bytes(Stamp { seq: self.next, time_ns }), has_key_of_last, batch);
        Ok(true)
    }

    /// Whether the next packet has the key of the batch's last entry, behind whose packets it comes.
    #[inline]
    fn has_key_of_last(&self, likeness: Likeness, batch: &Batch) -> bool {
        likeness != Likeness::None && self.can_run && !batch.is_empty()
    }

    /// One more entry of the batch.
    #[inline]
    fn begin(&self, frame: Frame, has_key_of_last: bool, batch: &mut Batch) {
        if self.can_run {
            batch.runs.begin(batch.len(), has_key_of_last);
        }
        batch.frames.push(frame);
    }

    /// Own packets with what lies before each, as many as there is room for.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), Forgotten> {
        while let Some(own) = self.arrived.front() {
            if !self.replay_to(own.stamp.seq, batch)? || batch.len() == BATCH_PACKETS {
                return Ok(());
            }
            let has_key_of_last = self.can_run && {
                let Recalled { likeness, .. } = self.past.recall(self.next)?;
                self.has_key_of_last(likeness, batch)
            };
            let Some(own) = self.arrived.pop_front() else { return Ok(()) };
            self.begin(own, has_key_of_last, batch);
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

impl<P: Past> Intake for Replicator<P> {
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
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

    fn counters(&self) -> IntakeCounters {
        IntakeCounters { replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { forgotten: self.forgotten, ..IntakeEnd::default() }
    }
}
