//! State-compute replication on one core (SCR §3.2): packets of all cores are stepped here, in the order of their
//! numbers; those of other cores from the history.
//!
//! ```text
//!  received:  own packets 3, 7, 11            history:  what functions read of 0, 1, 2, ...
//!  stepped:   0 1 2 (3) 4 5 6 (7) 8 9 10 (11)          64 at a time
//! ```
//!
//! Own packets are looked up with the others, so that all that holds of a batch holds here: blocks are on their way
//! ahead of the steps, and flows expire, and tables fill up, at the same step on every core.

use io::{Port, Received};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::items::{Columns, Items, Seqs};
use crate::path::laps::Laps;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::{Forgotten, Intake, IntakeCounters, IntakeEnd};

/// Steps the packets of other cores between a core's own.
pub(crate) struct Replicator {
    columns: Columns,
    /// The number of the first packet in the columns.
    first: u64,
    /// Whether it steps what is known also while no packets of its own come. Where packets are dealt out, what is known may
    /// be its own, and on its way.
    catches_up: bool,
    /// The number of the next packet to be stepped.
    next: u64,
    /// Up to which number to go now.
    until: u64,
    /// Where the core had a packet of which the history did not tell, if it had: it has received nothing since.
    forgotten: Option<Forgotten>,
    replayed: u64,
}

impl Replicator {
    /// For one core, from packet number `first` on.
    pub(crate) fn new(columns: Columns, first: u64, catches_up: bool) -> Replicator {
        Replicator { columns, first, catches_up, next: first, until: first, forgotten: None, replayed: 0 }
    }

    /// The number of the first packet of which nothing is known now.
    fn known(&mut self) -> u64 {
        self.first + self.columns.reader.published() as u64
    }

    /// Own packets have come ahead of their history, of which `known` is the first that is not told.
    #[cold]
    fn forget(&mut self, known: u64, batch: &mut Batch) {
        self.forgotten = Some(Forgotten { seq: known });
        batch.frames.retain(|frame| frame.stamp.seq < known);
        self.until = batch.frames.last().map_or(self.next, |last| last.stamp.seq + 1);
    }
}

impl Intake for Replicator {
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        if self.forgotten.is_some() {
            return Received::End;
        }
        match port.receive(&mut batch.frames, BATCH_PACKETS) {
            Received::Frames => {
                self.until = batch.frames.last().map_or(self.next, |last| last.stamp.seq + 1);
                let known = self.known();
                if self.until > known {
                    self.forget(known, batch);
                    if batch.is_empty() {
                        return Received::End;
                    }
                }
                Received::Frames
            }
            Received::Idle if !self.catches_up => Received::Idle,
            Received::Idle => {
                let known = self.known();
                if known < self.next + BATCH_PACKETS as u64 {
                    return Received::Idle;
                }
                self.until = known;
                Received::Frames
            }
            // What came after this core's last packet: replicas end alike.
            Received::End => {
                if !self.columns.reader.is_abandoned() {
                    return Received::Idle;
                }
                self.until = self.known();
                if self.next < self.until { Received::Frames } else { Received::End }
            }
        }
    }

    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        chain.begin(batch);
        let (own, mut own_next) = (batch.len(), 0);
        while self.next < self.until {
            let place = (self.next - self.first) as usize;
            // Not past a multiple, so that they lie one behind the other in every column.
            let count = (BATCH_PACKETS - place % BATCH_PACKETS).min((self.until - self.next) as usize);
            let mut items = Items::new(&self.columns, place, count, Seqs::following(self.next));
            while let Some(frame) = batch.frames.get(own_next)
                && let Some(item) = frame.stamp.seq.checked_sub(self.next)
                && item < count as u64
            {
                items.mark_own(item as usize, own_next, batch);
                own_next += 1;
            }
            chain.replay(&mut items, batch, port, laps);
            self.next += count as u64;
            self.replayed += count as u64;
        }
        self.replayed -= own_next as u64;
        debug_assert_eq!(own, own_next, "each own packet is stepped");
        self.columns.reader.release((self.next - self.first) as usize);
    }

    fn counters(&self) -> IntakeCounters {
        IntakeCounters { replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { forgotten: self.forgotten, ..IntakeEnd::default() }
    }
}
