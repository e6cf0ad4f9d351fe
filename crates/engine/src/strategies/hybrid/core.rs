//! A core's side: it works off its packets in the order in which they came, and before one that was told to all cores it steps
//! what was told before.
//!
//! ```text
//!   its queue:   m  m  t2  m  t5  m         m: a packet of a flow of its own     t: a told packet, with its number
//!   history:     0  1  2  3  4  5           of all cores; every third of them is its own here
//!   stepped:     m  m  0 1 t2  m  3 4 t5  m
//! ```
//!
//! Between two batches it does what changes ask for. A packet that has to wait for a change keeps all behind it waiting.

use std::collections::VecDeque;

use control::{Change, Promotion, Status, Step};
use io::{Frame, Port, Received};
use ring::Subscriber;
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::{Forgotten, Intake, IntakeCounters, IntakeEnd, Moves};
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::hybrid::replica::{Flows, Tables};

/// What all cores are told of a packet of a promoted flow.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) stamp: Stamp,
    pub(super) slot: u16,
    pub(super) headers: Headers,
}

/// Stands between a core's port and its chain under `hybrid`.
pub(super) struct Core {
    number: usize,
    cores: usize,
    promotion: Promotion<Flows>,
    history: Subscriber<Told>,
    /// Told packets that are known.
    known: u64,
    /// Told packets that are stepped, or in the batch.
    told: u64,
    /// By slot, who is promoted.
    promoted: [Option<Change>; SLOTS as usize],
    /// Packets that have come and are not in a batch yet.
    waiting: VecDeque<Frame>,
    /// Between the port and those.
    received: Vec<Frame>,
    tables: Tables,
    is_laid_out: bool,
    /// The number of a told packet that came ahead of its history.
    forgotten: Option<Forgotten>,
    replayed: u64,
    moves: Moves,
}

impl Core {
    pub(super) fn new(
        number: usize,
        cores: usize,
        promotion: Promotion<Flows>,
        history: Subscriber<Told>,
    ) -> Core {
        Core {
            number,
            cores,
            promotion,
            history,
            known: 0,
            told: 0,
            promoted: [None; SLOTS as usize],
            waiting: VecDeque::with_capacity(BATCH_PACKETS),
            received: Vec::with_capacity(BATCH_PACKETS),
            tables: Tables::new(),
            is_laid_out: false,
            forgotten: None,
            replayed: 0,
            moves: Moves::default(),
        }
    }

    /// Told packets go to the cores in turn.
    fn is_own(&self, told: u64) -> bool {
        told % self.cores as u64 == self.number as u64
    }

    /// The first told packet, from number `told` on, that comes to this core.
    fn next_own(&self, told: u64) -> u64 {
        let cores = self.cores as u64;
        told + (self.number as u64 + cores - told % cores) % cores
    }

    /// Puts told packets of other cores up to number `until` into the batch; says whether all of them are.
    fn replay_to(&mut self, until: u64, batch: &mut Batch) -> bool {
        // Behind a change they are stepped when it is carried out.
        let end = until.min(self.promotion.told_limit()).min(self.known);
        while self.told < end && batch.len() < BATCH_PACKETS {
            debug_assert!(!self.is_own(self.told), "its own packets are stepped as they come");
            let Told { stamp, slot, headers } = self.history.item(self.told as usize);
            let packet = batch.len();
            batch.headers[packet] = headers;
            batch.history |= 1 << packet;
            let mut frame = Frame::without_bytes(stamp);
            frame.entry = slot;
            batch.frames.push(frame);
            self.told += 1;
            self.replayed += 1;
        }
        self.told == until
    }

    /// Does all that changes ask for now. The batch is empty; what is put into it has to be stepped before anything else.
    fn carry_out(&mut self, worked_off: u64, chain: &mut ChainCore, batch: &mut Batch) {
        self.promotion.look();
        while let Some(step) = self.promotion.step(worked_off, self.told) {
            match step {
                Step::Copy(change) => {
                    let flows = self.tables.copy(&change, chain);
                    self.promotion.send(flows);
                    self.moves.entries_out += 1;
                }
                Step::TakeIn(change, flows) => {
                    Tables::take_in(&change, &flows, chain);
                    self.promoted[usize::from(change.slot)] = Some(change);
                }
                Step::Demote(change) => self.demote(&change, chain),
                Step::Replay(until) => {
                    self.replay_to(until, batch);
                    // Either the batch comes first, or a change that waits.
                    return;
                }
            }
        }
    }

    fn demote(&mut self, change: &Change, chain: &mut ChainCore) {
        debug_assert_eq!(change.status, Status::Demoted);
        let stays = usize::from(change.owner) == self.number;
        self.tables.demote(change, stays, chain);
        self.moves.entries_in += u64::from(stays);
        self.promoted[usize::from(change.slot)] = None;
    }

    /// Moves packets that wait into the batch, with what was told before each, as far as changes allow it.
    fn fill(&mut self, batch: &mut Batch) {
        while let Some(frame) = self.waiting.front() {
            if batch.len() == BATCH_PACKETS || !self.promotion.allows(frame.stamp.seq) {
                return;
            }
            if frame.entry < SLOTS {
                let number = self.next_own(self.told);
                let is_replayed = self.replay_to(number, batch);
                if number >= self.known {
                    self.forgotten = Some(Forgotten { seq: self.known });
                    return;
                }
                if !is_replayed || batch.len() == BATCH_PACKETS || self.promotion.told_limit() <= number {
                    return;
                }
                self.told += 1;
            }
            batch.frames.extend(self.waiting.pop_front());
        }
    }

    /// No packets come any more: steps what was told to the end, and leaves each flow with its owner.
    fn end(&mut self, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        if !self.history.is_abandoned() {
            return Received::Idle;
        }
        self.replay_to(self.known, batch);
        if !batch.is_empty() {
            return Received::Frames;
        }
        if self.told < self.known || !self.promotion.is_settled() {
            return Received::Idle;
        }
        for slot in 0..self.promoted.len() {
            if let Some(change) = self.promoted[slot].take() {
                self.demote(&Change { status: Status::Demoted, ..change }, chain);
            }
        }
        Received::End
    }
}

impl Intake for Core {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        if self.forgotten.is_some() {
            return Received::End;
        }
        if !self.is_laid_out {
            Tables::lay_out(chain, self.number == 0);
            self.is_laid_out = true;
        }
        let waited = self.waiting.len();
        let received = match BATCH_PACKETS - waited {
            0 => Received::Frames,
            room => port.receive(&mut self.received, room),
        };
        self.waiting.extend(self.received.drain(..));
        // Ahead of the look at changes: those that came before a packet which is known are known, too.
        self.known = self.history.published() as u64;
        self.carry_out(port.consumed() - self.waiting.len() as u64, chain, batch);
        if batch.is_empty() {
            self.fill(batch);
            self.moves.waited_packets += self.waiting.len().saturating_sub(waited) as u64;
        }
        if self.waiting.is_empty() && batch.is_empty() {
            // Nothing of this core's is among what was told before its next.
            let until = self.next_own(self.told);
            self.replay_to(until.min(self.known), batch);
        }
        self.history.release(self.told as usize);
        match received {
            _ if !batch.is_empty() => Received::Frames,
            Received::End if self.promotion.is_broken() => Received::End,
            Received::End if self.waiting.is_empty() => self.end(chain, batch),
            _ => Received::Idle,
        }
    }

    fn counters(&self) -> IntakeCounters {
        let moves = Moves { held_packets: self.waiting.len() as u64, ..self.moves };
        IntakeCounters { moves, replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn is_busy(&self) -> bool {
        self.promotion.is_busy() || !self.waiting.is_empty()
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { forgotten: self.forgotten, ..IntakeEnd::default() }
    }
}
