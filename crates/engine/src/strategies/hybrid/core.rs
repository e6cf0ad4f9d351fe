//! A core's side: it steps packets of its own flows, and what is told to all cores in the order of the history.
//!
//! ```text
//!   own packets:       m1  m4  m6  m9                 the number is that of its arrival
//!   history:           t2  t3  t5  t7  t8             of all cores; t3 and t8 come here
//!   told packets here:     t3          t8
//!   stepped:           m1  t2  t3  m4  t5  m6  t7  t8  m9
//! ```
//!
//! Flows of the two are in two tables, so any order would do; who came first is stepped first, as far as packets are here, so that
//! nobody waits longer than others. Between two batches the core does what changes ask for. A packet that has to wait for
//! a change keeps those of its kind behind it waiting.

use std::collections::VecDeque;

use control::{Change, Progress, Promotion, Status, Step};
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
    /// The core that gets it.
    pub(super) core: u16,
    pub(super) headers: Headers,
}

/// Stands between a core's port and its chain under `hybrid`.
pub(super) struct Core {
    number: u16,
    promotion: Promotion<Flows>,
    history: Subscriber<Told>,
    /// Told packets that are known.
    known: u64,
    /// Told packets that are stepped, or in the batch.
    told: u64,
    /// By slot, who is promoted.
    promoted: [Option<Change>; SLOTS as usize],
    /// Packets of its own flows that are not in a batch yet.
    own: VecDeque<Frame>,
    /// Told packets that came here and are not in a batch yet.
    sent_here: VecDeque<Frame>,
    /// Between the port and those.
    received: Vec<Frame>,
    /// Whether told packets come by a queue of their own.
    has_two_queues: bool,
    tables: Tables,
    is_laid_out: bool,
    /// The number of a told packet that came ahead of its history.
    forgotten: Option<Forgotten>,
    replayed: u64,
    moves: Moves,
}

/// What comes next into a batch.
enum Next {
    Own,
    Told,
    Nothing,
}

impl Core {
    pub(super) fn new(number: usize, promotion: Promotion<Flows>, history: Subscriber<Told>) -> Core {
        Core {
            number: number as u16,
            promotion,
            history,
            known: 0,
            told: 0,
            promoted: [None; SLOTS as usize],
            own: VecDeque::with_capacity(BATCH_PACKETS),
            sent_here: VecDeque::with_capacity(BATCH_PACKETS),
            received: Vec::with_capacity(BATCH_PACKETS),
            has_two_queues: false,
            tables: Tables::new(),
            is_laid_out: false,
            forgotten: None,
            replayed: 0,
            moves: Moves::default(),
        }
    }

    /// Receives as many as there is room for.
    fn take(&mut self, port: &mut dyn Port) -> Received {
        let beside = port.receive_beside(&mut self.received, BATCH_PACKETS - self.sent_here.len());
        self.sent_here.extend(self.received.drain(..));
        self.has_two_queues |= beside != Received::End;
        let waiting = self.own.len() + if self.has_two_queues { 0 } else { self.sent_here.len() };
        // In one queue, what a packet waits for came before it: all of that is here.
        let received = match BATCH_PACKETS - waiting {
            0 => Received::Idle,
            room => port.receive(&mut self.received, room),
        };
        for frame in self.received.drain(..) {
            let queue = if frame.entry < SLOTS { &mut self.sent_here } else { &mut self.own };
            queue.push_back(frame);
        }
        if (received, beside) == (Received::End, Received::End) { Received::End } else { Received::Idle }
    }

    /// Does all that changes ask for now. The batch is empty.
    fn carry_out(&mut self, taken: u64, chain: &mut ChainCore) {
        self.promotion.look();
        let waits = self.own.front().map(|frame| frame.stamp.seq);
        while let Some(step) = self.promotion.step(Progress { taken, waits, told: self.told }) {
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
            }
        }
    }

    fn demote(&mut self, change: &Change, chain: &mut ChainCore) {
        debug_assert_eq!(change.status, Status::Demoted);
        let stays = change.owner == self.number;
        self.tables.demote(change, stays, chain);
        self.moves.entries_in += u64::from(stays);
        self.promoted[usize::from(change.slot)] = None;
    }

    /// Which of those that can be stepped now came first. Behind a change nothing is told until it is carried out.
    #[inline]
    fn next(&mut self, told_end: u64) -> Next {
        let told = (self.told < told_end).then(|| &self.history.items(self.told as usize, 1)[0]);
        let told = told.filter(|told| told.core != self.number || !self.sent_here.is_empty());
        let (own, told) = (self.own.front().map(|frame| frame.stamp.seq), told.map(|told| told.stamp.seq));
        match (own.filter(|seq| self.promotion.allows(*seq)), told) {
            (Some(own), Some(told)) if told < own => Next::Told,
            (Some(_), _) => Next::Own,
            (None, Some(_)) => Next::Told,
            (None, None) => Next::Nothing,
        }
    }

    /// Moves packets that wait into the batch, with what was told to other cores, as far as changes allow it.
    fn fill(&mut self, batch: &mut Batch) {
        let told_end = self.known.min(self.promotion.told_limit());
        while batch.len() < BATCH_PACKETS {
            match self.next(told_end) {
                Next::Own => batch.frames.extend(self.own.pop_front()),
                Next::Told => self.step_told(batch),
                Next::Nothing => break,
            }
        }
        let ahead = self.sent_here.front().filter(|_| self.told == self.known);
        self.forgotten = self.forgotten.or(ahead.map(|frame| Forgotten { seq: frame.stamp.seq }));
    }

    /// Puts the next told packet into the batch.
    #[inline]
    fn step_told(&mut self, batch: &mut Batch) {
        let Told { stamp, slot, core, headers } = self.history.item(self.told as usize);
        self.told += 1;
        if core == self.number {
            let frame = self.sent_here.pop_front().filter(|frame| frame.stamp.seq == stamp.seq);
            if frame.is_none() {
                self.forgotten = Some(Forgotten { seq: stamp.seq });
            }
            return batch.frames.extend(frame);
        }
        let packet = batch.len();
        batch.headers[packet] = headers;
        batch.history |= 1 << packet;
        let mut frame = Frame::without_bytes(stamp);
        frame.entry = slot;
        batch.frames.push(frame);
        self.replayed += 1;
    }

    /// No packets come any more, and what was told is stepped. Where nobody will tell anything again, each flow goes back to its
    /// owner.
    fn end(&mut self, chain: &mut ChainCore) -> Received {
        if self.told < self.known || !self.promotion.is_settled() {
            return Received::Idle;
        }
        for slot in 0..if self.history.is_abandoned() { self.promoted.len() } else { 0 } {
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
        let waited = self.own.len() + self.sent_here.len();
        let received = self.take(port);
        // Ahead of the look at changes: those that came before a packet which is known are known, too.
        self.known = self.history.published() as u64;
        self.carry_out(port.consumed(), chain);
        self.fill(batch);
        let waiting = self.own.len() + self.sent_here.len();
        if batch.len() < BATCH_PACKETS {
            self.moves.waited_packets += waiting.saturating_sub(waited) as u64;
        }
        self.history.release(self.told as usize);
        match received {
            _ if !batch.is_empty() => Received::Frames,
            Received::End if self.promotion.is_broken() => Received::End,
            Received::End if waiting == 0 => self.end(chain),
            _ => Received::Idle,
        }
    }

    fn counters(&self) -> IntakeCounters {
        let held_packets = (self.own.len() + self.sent_here.len()) as u64;
        let moves = Moves { held_packets, ..self.moves };
        IntakeCounters { moves, replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn is_busy(&self) -> bool {
        self.promotion.is_busy() || !self.own.is_empty() || !self.sent_here.is_empty()
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { forgotten: self.forgotten, ..IntakeEnd::default() }
    }
}
