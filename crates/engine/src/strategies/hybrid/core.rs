//! A core's side: it steps packets of its own flows, and what is told to all cores in the order of the history.
//!
//! ```text
//!   own packets:       m1  m4  m6  m9                 the number is that of its arrival
//!   history:           t2  t3  t5  t7  t8             of all cores; t3 and t8 come here
//!   told packets here:     t3          t8
//!   the batch:         m1 m4 m6 m9, t3 t8
//!   stepped:           m1 m4 m6 m9, t2 t3 t5 t7 t8
//! ```
//!
//! Flows of the two are in two tables, so any order would do between them. Those that came first are in the batch, of either kind,
//! so that nobody waits longer than others. The core's own flows are stepped first, then what was told: of what
//! functions read, as `scr` does it, or where they edit what later ones read, with the batch, which has the headers of the others' then.
//! Between two batches the core does what changes ask for. A packet that has to wait for a change keeps those of its kind behind
//! it waiting.

use std::mem;

use control::{Change, Progress, Promotion, Status, Step};
use io::{Port, Received};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::items::{Columns, Items, Seqs};
use crate::path::laps::Laps;
use crate::path::moves::{Moves, OwnCounters};
use crate::path::packets::{BATCH_PACKETS, all_bits, bits};
use crate::path::receive::{Forgotten, Intake, IntakeCounters, IntakeEnd};
use crate::strategies::hybrid::counters::{DEMOTIONS, PROMOTIONS};
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::hybrid::replica::{Flows, Tables};
use crate::strategies::hybrid::told::Reader;
use crate::strategies::hybrid::waiting::{Share, Waiting};

/// Stands between a core's port and its chain under `hybrid`.
pub(super) struct Core {
    number: u16,
    promotion: Promotion<Flows>,
    history: Reader,
    /// Told packets that are known.
    known: u64,
    /// Told packets that are stepped.
    told: u64,
    /// What is stepped next.
    share: Share,
    /// By slot, who is promoted.
    promoted: [Option<Change>; SLOTS as usize],
    waiting: Waiting,
    /// Whether told packets come by a queue of their own.
    has_two_queues: bool,
    tables: Tables,
    is_laid_out: bool,
    replayed: u64,
    moves: Moves,
}

/// Told packets of other cores that are stepped in one turn at most, so that the core's own do not wait for longer: as many as
/// come with a batch full of own ones among a dozen cores.
const TOLD_AT_ONCE: usize = 12 * BATCH_PACKETS;

/// Told packets that are stepped together, of those from `place` on: not past a multiple, so that they lie one behind the other in
/// each column.
fn span(place: usize, end: usize) -> usize {
    (BATCH_PACKETS - place % BATCH_PACKETS).min(end - place)
}

impl Core {
    pub(super) fn new(number: usize, promotion: Promotion<Flows>, history: Reader) -> Core {
        Core {
            number: number as u16,
            promotion,
            history,
            known: 0,
            told: 0,
            share: Share::default(),
            promoted: [None; SLOTS as usize],
            waiting: Waiting::new(),
            has_two_queues: false,
            tables: Tables::new(),
            is_laid_out: false,
            replayed: 0,
            moves: Moves::default(),
        }
    }

    /// Receives as many as there is room for. Says, too, whether all is here that packets which wait can wait for, as far as it comes
    /// by a queue.
    fn take(&mut self, port: &mut dyn Port) -> (Received, bool) {
        let Waiting { own, sent_here, .. } = &mut self.waiting;
        let room = BATCH_PACKETS - sent_here.len();
        let beside = port.receive_beside(sent_here, room);
        self.has_two_queues |= beside != Received::End;
        // In one queue, what a packet waits for came before it: all of that is here.
        let waiting = own.len() + if self.has_two_queues { 0 } else { sent_here.len() };
        let begin = own.len();
        let own_room = BATCH_PACKETS - waiting;
        let received = match own_room {
            0 => Received::Idle,
            own_room => port.receive(own, own_room),
        };
        let is_all_here =
            (received == Received::End || own_room == 0) && (beside == Received::End || room == 0);
        if !self.has_two_queues {
            self.waiting.sort(begin);
        }
        let is_end = (received, beside) == (Received::End, Received::End);
        (if is_end { Received::End } else { Received::Idle }, is_all_here)
    }

    /// Whether nothing was told and nothing is to be done, so that the core's own packets are all there is.
    fn is_quiet(&self) -> bool {
        self.told == self.known && self.waiting.sent_here.is_empty() && self.promotion.is_quiet()
    }

    /// Does all that changes ask for now. The batch is empty.
    fn carry_out(&mut self, taken: u64, chain: &mut ChainCore) {
        let waits = self.waiting.own.first().map(|frame| frame.stamp.seq);
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

    /// Moves packets that wait into the batch, and finds out which told packets are to be stepped with them: who came first, as far
    /// as changes allow it.
    fn fill(&mut self, batch: &mut Batch) {
        let told_end = self.known.min(self.promotion.told_limit());
        let own_end = self.promotion.own_limit();
        let Reader { packets, columns: Columns { reader, headers, .. } } = &self.history;
        let mut share = Share::default();
        let end = told_end.min(self.told + TOLD_AT_ONCE as u64) as usize;
        let begin = self.told as usize;
        while begin + share.told < end {
            let place = begin + share.told;
            let told = packets.items(reader, place, span(place, end));
            if !self.waiting.share_told(self.number, told, own_end, headers.is_some(), &mut share) {
                break;
            }
        }
        self.waiting.share_own(own_end, &mut share);
        match headers {
            None => self.waiting.put(&share, batch),
            Some(headers) => {
                let items = begin..begin + share.told;
                let told = items.map(|place| (packets.item(reader, place), headers.item(reader, place)));
                self.waiting.put_with_history(self.number, told, &share, batch);
            }
        }
        if self.told + share.told as u64 == self.known && !self.waiting.sent_here.is_empty() {
            self.waiting.is_ahead = true;
        }
        self.share = share;
    }

    /// Steps `told` packets that were told, those of the batch among them, which begin with packet number `packet`.
    fn step_told(
        &mut self,
        told: usize,
        mut packet: usize,
        chain: &mut ChainCore,
        batch: &mut Batch,
        (port, laps): (&dyn Port, &mut dyn Laps),
    ) {
        let Reader { packets, columns } = &self.history;
        let mut place = self.told as usize;
        let end = place + told;
        while place < end {
            let count = span(place, end);
            let (mut seqs, mut entries, mut own) = ([0; BATCH_PACKETS], [0; BATCH_PACKETS], 0);
            for (item, told) in packets.items(&columns.reader, place, count).iter().enumerate() {
                seqs[item] = told.stamp.seq;
                entries[item] = told.slot;
                own |= u64::from(told.core == self.number) << item;
            }
            let mut items = Items::new(columns, place, count, Seqs::of(&seqs)).with_entries(&entries);
            for item in bits(own) {
                items.mark_own(item, packet, batch);
                packet += 1;
            }
            chain.replay(&mut items, batch, port, laps);
            place += count;
        }
    }

    /// No packets come any more, and what was told is stepped. Where nobody will tell anything again, each flow goes back to its
    /// owner.
    fn end(&mut self, chain: &mut ChainCore) {
        for slot in 0..if self.history.columns.reader.is_abandoned() { self.promoted.len() } else { 0 } {
            if let Some(change) = self.promoted[slot].take() {
                // Behind all that was told.
                self.demote(&Change { status: Status::Demoted, since_seq: u64::MAX, ..change }, chain);
            }
        }
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
        let (received, is_all_here) = self.take(port);
        // Ahead of the looks at what was told and at changes: there is no more then.
        let is_last = is_all_here && self.history.columns.reader.is_abandoned();
        // Ahead of the look at changes: those that came before a packet which is known are known, too.
        self.known = self.history.columns.reader.published() as u64;
        self.promotion.look();
        if self.is_quiet() {
            mem::swap(&mut batch.frames, &mut self.waiting.own);
        } else {
            self.carry_out(port.consumed(), chain);
            self.fill(batch);
        }
        let waiting = self.waiting.len();
        if batch.len() < BATCH_PACKETS {
            self.moves.waited_packets += waiting.saturating_sub(waited) as u64;
        }
        match received {
            _ if !batch.is_empty() || self.share.told > 0 => Received::Frames,
            Received::End if waiting == 0 && self.told == self.known && self.promotion.is_settled() => {
                self.end(chain);
                Received::End
            }
            // The thread that sends packets was stopped midway, or a core has failed: what this one waits for, such as a packet that it was
            // told of, never comes.
            _ if is_last && !self.promotion.has_mail() => Received::End,
            _ => Received::Idle,
        }
    }

    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Share { own, sent_here, told, .. } = mem::take(&mut self.share);
        self.replayed += (told - sent_here) as u64;
        if told == 0 || self.history.columns.headers.is_some() {
            chain.process(batch, port, laps);
        } else {
            chain.begin(batch);
            // Told packets are stepped in the order of the history, in a table of their own.
            let here = all_bits(own + sent_here) & !all_bits(own);
            let aside = batch.live & here;
            (batch.live, batch.history) = (batch.live & !here, here);
            chain.process_begun(batch, port, laps);
            (batch.live, batch.history) = (batch.live | aside, 0);
            self.step_told(told, own, chain, batch, (port, laps));
        }
        self.told += told as u64;
        self.history.columns.reader.release(self.told as usize);
    }

    fn counters(&self) -> IntakeCounters {
        let held_packets = self.waiting.len() as u64;
        let Moves { entries_in, entries_out, .. } = self.moves;
        let own = OwnCounters::new([(&PROMOTIONS, entries_out), (&DEMOTIONS, entries_in)]);
        let moves = Moves { held_packets, own, ..self.moves };
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
