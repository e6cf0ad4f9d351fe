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
    waiting: Waiting,
    /// Between the port and those.
    received: Vec<Frame>,
    /// Whether told packets come by a queue of their own.
    has_two_queues: bool,
    tables: Tables,
    is_laid_out: bool,
    replayed: u64,
    moves: Moves,
}

/// Later than any packet.
const NEVER: u64 = u64::MAX;

/// Packets that have come and are not in a batch yet.
struct Waiting {
    /// Of the core's own flows.
    own: VecDeque<Frame>,
    /// Told ones that came here.
    sent_here: VecDeque<Frame>,
    /// Whether one of these came ahead of its history, which is a defect.
    is_ahead: bool,
}

/// What came into a batch.
struct Merged {
    /// Of the told packets, how many.
    stepped: usize,
    /// Those that did not come here.
    replayed: u64,
}

impl Waiting {
    fn len(&self) -> usize {
        self.own.len() + self.sent_here.len()
    }

    /// By kind, which is seen by the entry.
    #[inline]
    fn push(&mut self, frame: Frame) {
        let queue = if frame.entry < SLOTS { &mut self.sent_here } else { &mut self.own };
        queue.push_back(frame);
    }

    /// Puts told packets and own ones into the batch of core `number`, in order of arrival, until it is full or the told ones are
    /// in it; of its own only those below `own_end`.
    #[inline]
    fn merge(&mut self, number: u16, told: &[Told], own_end: u64, batch: &mut Batch) -> Merged {
        let seq_of = |frame: Option<&Frame>| frame.map_or(NEVER, |frame| frame.stamp.seq);
        let Waiting { own, sent_here, is_ahead } = self;
        let (mut stepped, mut replayed) = (0, 0);
        let mut next_own = seq_of(own.front());
        while batch.len() < BATCH_PACKETS {
            // One that comes here is stepped when it is here.
            let next = told.get(stepped).filter(|told| told.core != number || !sent_here.is_empty());
            if next_own < own_end && next_own < next.map_or(NEVER, |told| told.stamp.seq) {
                batch.frames.extend(own.pop_front());
                next_own = seq_of(own.front());
                continue;
            }
            let Some(Told { stamp, slot, core, headers }) = next else { break };
            stepped += 1;
            if *core == number {
                let frame = sent_here.pop_front().filter(|frame| frame.stamp.seq == stamp.seq);
                *is_ahead |= frame.is_none();
                batch.frames.extend(frame);
                continue;
            }
            let packet = batch.len();
            batch.headers[packet] = *headers;
            batch.history |= 1 << packet;
            let mut frame = Frame::without_bytes(*stamp);
            frame.entry = *slot;
            batch.frames.push(frame);
            replayed += 1;
        }
        Merged { stepped, replayed }
    }
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
            waiting: Waiting {
                own: VecDeque::with_capacity(BATCH_PACKETS),
                sent_here: VecDeque::with_capacity(BATCH_PACKETS),
                is_ahead: false,
            },
            received: Vec::with_capacity(BATCH_PACKETS),
            has_two_queues: false,
            tables: Tables::new(),
            is_laid_out: false,
            replayed: 0,
            moves: Moves::default(),
        }
    }

    /// Receives as many as there is room for.
    fn take(&mut self, port: &mut dyn Port) -> Received {
        let beside = port.receive_beside(&mut self.received, BATCH_PACKETS - self.waiting.sent_here.len());
        self.waiting.sent_here.extend(self.received.drain(..));
        self.has_two_queues |= beside != Received::End;
        let waiting =
            self.waiting.own.len() + if self.has_two_queues { 0 } else { self.waiting.sent_here.len() };
        // In one queue, what a packet waits for came before it: all of that is here.
        let received = match BATCH_PACKETS - waiting {
            0 => Received::Idle,
            room => port.receive(&mut self.received, room),
        };
        self.received.drain(..).for_each(|frame| self.waiting.push(frame));
        if (received, beside) == (Received::End, Received::End) { Received::End } else { Received::Idle }
    }

    /// The same where nothing waits. If nothing was told and nothing is to be done, what comes goes into the batch as it is.
    fn take_straight(&mut self, port: &mut dyn Port, batch: &mut Batch) -> Received {
        let beside = port.receive_beside(&mut self.received, BATCH_PACKETS);
        self.waiting.sent_here.extend(self.received.drain(..));
        self.has_two_queues |= beside != Received::End;
        let received = port.receive(&mut batch.frames, BATCH_PACKETS);
        self.promotion.look();
        let is_told = |frame: &Frame| frame.entry < SLOTS;
        let is_quiet = self.told == self.history.published() as u64 && self.promotion.is_quiet();
        if !is_quiet || !self.waiting.sent_here.is_empty() || batch.frames.iter().any(is_told) {
            batch.frames.drain(..).for_each(|frame| self.waiting.push(frame));
        }
        if (received, beside) == (Received::End, Received::End) { Received::End } else { Received::Idle }
    }

    /// Does all that changes ask for now. The batch is empty.
    fn carry_out(&mut self, taken: u64, chain: &mut ChainCore) {
        self.promotion.look();
        let waits = self.waiting.own.front().map(|frame| frame.stamp.seq);
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

    /// Moves packets that wait into the batch, with what was told to other cores: who came first, as far as changes allow it.
    fn fill(&mut self, batch: &mut Batch) {
        let told_end = self.known.min(self.promotion.told_limit());
        let own_end = self.promotion.own_limit();
        while batch.len() < BATCH_PACKETS {
            let mut told = &[][..];
            if self.told < told_end {
                // Fewer, where the ring of the history ends between.
                told = self.history.items(self.told as usize, (told_end - self.told) as usize);
            }
            let Merged { stepped, replayed } = self.waiting.merge(self.number, told, own_end, batch);
            self.told += stepped as u64;
            self.replayed += replayed;
            if stepped < told.len() || told.is_empty() {
                break;
            }
        }
        if self.told == self.known && !self.waiting.sent_here.is_empty() {
            self.waiting.is_ahead = true;
        }
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
        if self.waiting.is_ahead {
            return Received::End;
        }
        if !self.is_laid_out {
            Tables::lay_out(chain, self.number == 0);
            self.is_laid_out = true;
        }
        let waited = self.waiting.len();
        let received = match waited {
            0 => self.take_straight(port, batch),
            _ => self.take(port),
        };
        if batch.is_empty() {
            // Ahead of the look at changes: those that came before a packet which is known are known, too.
            self.known = self.history.published() as u64;
            self.carry_out(port.consumed(), chain);
            self.fill(batch);
        }
        let waiting = self.waiting.len();
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
        let held_packets = self.waiting.len() as u64;
        let moves = Moves { held_packets, ..self.moves };
        IntakeCounters { moves, replayed: self.replayed, ..IntakeCounters::default() }
    }

    fn is_busy(&self) -> bool {
        self.promotion.is_busy() || self.waiting.len() > 0
    }

    fn finish(&mut self) -> IntakeEnd {
        let forgotten = self.waiting.is_ahead.then_some(Forgotten { seq: self.told });
        IntakeEnd { forgotten, ..IntakeEnd::default() }
    }
}
