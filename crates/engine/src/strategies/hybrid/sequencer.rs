//! The dispatcher: packets go to the owner of their hash, and those of promoted flows are told to all cores and go to them in
//! turn.

use std::thread;

use control::{Change, Changes, Status};
use io::{Closed, Frame};
use nf::hash_bytes;
use ring::Publisher;
use strategy::{Assign, Every, Rebalancing, Schedule};
use wire::{Headers, Stamp};

use crate::path::packets::BATCH_PACKETS;
use crate::strategies::dispatch::{Dispatcher, Queues};
use crate::strategies::hybrid::core::Told;
use crate::strategies::hybrid::elephants::{Decision, Elephants, SLOTS};

/// Changes that one decision can make.
pub(super) const DECISION_CHANGES: usize = 4;

/// Where a packet goes, and its entry there.
#[derive(Clone, Copy, Default)]
struct Way {
    core: u16,
    entry: u16,
}

/// Sends packets to the cores, and tells all of them of those that all step.
pub(super) struct Sequencer {
    hash: Box<dyn Assign>,
    elephants: Elephants,
    every: Every,
    schedule: Schedule,
    history: Publisher<Told>,
    changes: Changes,
    cores: usize,
    /// Packets that were told.
    told: u64,
    /// Of packets that arrived together, where each goes.
    ways: [Way; BATCH_PACKETS],
    /// By core, how many of these.
    batch: Box<[u64]>,
    /// Which of them comes next.
    next: usize,
}

impl Sequencer {
    /// `owners[entry]` has the flows of an entry that is not promoted.
    pub(super) fn new(
        hash: Box<dyn Assign>,
        owners: &[u16],
        cores: usize,
        rebalancing: Rebalancing,
        (history, changes): (Publisher<Told>, Changes),
    ) -> Sequencer {
        Sequencer {
            hash,
            elephants: Elephants::new(owners, cores),
            every: rebalancing.every,
            schedule: Schedule::new(rebalancing.every),
            history,
            changes,
            cores,
            told: 0,
            ways: [Way::default(); BATCH_PACKETS],
            batch: vec![0; cores].into(),
            next: 0,
        }
    }

    /// Waits until there is room for all that packets which arrived together may need.
    fn wait_for_room(&mut self, packets: usize, queues: &dyn Queues) -> Result<(), Closed> {
        while !self.history.has_room(packets) || !self.changes.has_room(packets * DECISION_CHANGES) {
            if queues.is_closed() {
                return Err(Closed);
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Decides ahead of a packet of `entry`.
    #[cold]
    fn decide(&mut self, entry: u16, stamp: Stamp, queues: &dyn Queues) {
        let mut decisions = [None; DECISION_CHANGES];
        let mut room = decisions.iter_mut();
        let mut note = |decision: Option<Decision>| {
            if let (Some(_), Some(place)) = (decision, room.next()) {
                *place = decision;
            }
        };
        match self.every {
            Every::Packets(_) => force(&mut self.elephants, entry, stamp.seq, note),
            Every::Period(_) => self.elephants.end_period(DECISION_CHANGES, |decision| note(Some(decision))),
            Every::Never => (),
        }
        decisions.into_iter().flatten().for_each(|decision| self.give(decision, stamp, queues));
    }

    fn give(&mut self, decision: Decision, Stamp { seq, time_ns }: Stamp, queues: &dyn Queues) {
        let (status, entry, slot) = match decision {
            Decision::Promote { entry, slot } => (Status::Promoted, entry, slot),
            Decision::Demote { entry, slot } => (Status::Demoted, entry, slot),
        };
        let owner = self.elephants.owner(entry);
        let after = queues.sent(owner.into()) + self.batch[usize::from(owner)];
        let change =
            Change { status, entry, slot, owner, since_seq: seq, since_ns: time_ns, after, told: self.told };
        let is_given = self.changes.give(change);
        debug_assert!(is_given, "asked before");
    }
}

/// Promotes the flows of a packet, or demotes them, and now and then others, to show that it does no harm.
fn force(elephants: &mut Elephants, entry: u16, seq: u64, mut note: impl FnMut(Option<Decision>)) {
    let draw = hash_bytes(&seq.to_le_bytes(), 0);
    let any = (draw >> 8) as u16 % SLOTS;
    match elephants.place(entry) {
        Err(slot) => note(elephants.demote_slot(slot)),
        Ok(_) => match elephants.promote(entry) {
            None => {
                note(elephants.demote_slot(any));
                note(elephants.promote(entry));
            }
            promotion => note(promotion),
        },
    }
    if draw.is_multiple_of(3) {
        note(elephants.demote_slot(any % 8));
    }
}

impl Dispatcher for Sequencer {
    fn tells_headers(&self) -> bool {
        true
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        self.wait_for_room(headers.len(), queues)?;
        self.batch.fill(0);
        self.next = 0;
        for (packet, (headers, frame)) in headers.iter().zip(frames).enumerate() {
            // Entries below are slots. Two values of the hash may have one entry, as two flows may.
            let entry = match self.hash.entry(headers) {
                value if value < SLOTS => value + SLOTS,
                value => value,
            };
            if self.schedule.is_due(frame.stamp.time_ns) {
                self.decide(entry, frame.stamp, queues);
            }
            self.schedule.count();
            self.elephants.count(entry);
            let (core, entry) = match self.elephants.place(entry) {
                Ok(owner) => (owner, entry),
                Err(slot) => {
                    let has_room = self.history.push(Told { stamp: frame.stamp, slot, headers: *headers });
                    debug_assert!(has_room, "asked before");
                    self.told += 1;
                    (((self.told - 1) % self.cores as u64) as usize, slot)
                }
            };
            self.batch[core] += 1;
            self.ways[packet] = Way { core: core as u16, entry };
        }
        self.history.publish();
        Ok(())
    }

    #[inline]
    fn dispatch(&mut self, _: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        let Way { core, entry } = self.ways[self.next];
        self.next += 1;
        frame.entry = entry;
        Ok(core.into())
    }
}
