//! A core as an engine would run it, for the models, the simulation and the tests: its state is the list of what
//! it stepped.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::ops::Range;

use crate::sync::{Fault, is_planted};
use crate::{Advance, Arrival, Counters, Handover, Replica, handovers, replicas};

/// Short, so that the model checker has few words to look at, and no multiple of a word.
pub(crate) const ITEM_BYTES: usize = if cfg!(feature = "loom") { 7 } else { 12 };

/// The item of a sequence number: different for each, in every word.
pub(crate) fn item_of(seq: u64) -> [u8; ITEM_BYTES] {
    let mut item = [0; ITEM_BYTES];
    for (at, byte) in item.iter_mut().enumerate() {
        *byte = (seq >> (8 * (at % 4))) as u8 ^ (at as u8).wrapping_mul(29) ^ seq as u8;
    }
    item
}

/// What the sequencer sends for number `seq` with the items of `history` numbers before it: of which numbers it
/// brings items.
pub(crate) fn packet(seq: u64, history: u64) -> Range<u64> {
    seq.saturating_sub(history)..seq + 1
}

/// What it sends to all cores when `seq` would be next.
pub(crate) fn flush(seq: u64, history: u64) -> Range<u64> {
    seq.saturating_sub(history)..seq
}

/// What any core must have stepped: what any core got.
pub(crate) fn got(delivered: &[Range<u64>]) -> Vec<u64> {
    delivered.iter().cloned().flatten().collect::<BTreeSet<_>>().into_iter().collect()
}

pub(crate) struct Core {
    replica: Replica,
    handover: Handover<Vec<u64>>,
    /// Packets on their way to it.
    pub(crate) queue: VecDeque<Range<u64>>,
    /// The state; another's place for it while it is lent.
    pub(crate) stepped: Vec<u64>,
    /// What the core waits for that has lent its state.
    asked: Option<Advance>,
    /// How many packets there are.
    end: u64,
    pub(crate) is_over: bool,
    /// Up to where it was stepped a turn before.
    next_before: u64,
    /// How often its log had no room.
    pub(crate) full: u64,
    /// Whether it calls `arrive` and `advance` and not `receive`.
    pub(crate) has_two_calls: bool,
}

/// Cores that step `end` packets, with logs of `records`.
pub(crate) fn cores(many: usize, records: usize, end: u64) -> Vec<Core> {
    let ends = replicas(many, records, ITEM_BYTES).into_iter().zip(handovers(many));
    ends.map(|(replica, handover)| Core {
        replica,
        handover,
        queue: VecDeque::new(),
        stepped: Vec::new(),
        asked: None,
        end,
        is_over: false,
        next_before: 0,
        full: 0,
        has_two_calls: false,
    })
    .collect()
}

impl Core {
    /// What an engine does over and over: takes its state back or answers, takes in, advances, and then steps as a
    /// batch what it came to. `pick` chooses the core to ask.
    pub(crate) fn turn(&mut self, max_steps: usize, pick: impl FnOnce(&[usize]) -> usize) -> Advance {
        if self.is_over {
            return Advance::CaughtUp;
        }
        if let Some(advance) = self.asked
            && !self.rebuild()
        {
            return advance;
        }
        let next = self.replica.next();
        match () {
            () if is_planted(Fault::StateTooEarly) => {}
            () if is_planted(Fault::NumberTooEarly) => self.answer(self.next_before),
            () => self.answer(next),
        }
        self.next_before = next;
        let mut batch = Vec::new();
        let advance = self.receive(max_steps, &mut batch);
        if is_planted(Fault::StateTooEarly) {
            self.answer(self.replica.next());
        }
        self.step(batch);
        if let Advance::Behind { ahead, .. } = advance {
            self.handover.lend(mem::take(&mut self.stepped));
            self.replica.ask(pick(&ahead.iter().collect::<Vec<_>>()));
            self.asked = Some(advance);
        }
        if self.replica.next() == self.end {
            self.is_over = self.handover.leave() || is_planted(Fault::LeavesEarly);
        }
        advance
    }

    fn answer(&self, next: u64) {
        for core in self.replica.asked().iter() {
            self.handover.answer(core, next, |state| state.clone_from(&self.stepped));
        }
    }

    fn receive(&mut self, max_steps: usize, batch: &mut Vec<u64>) -> Advance {
        let step = |seq, item: &[u8]| {
            assert_eq!(item, item_of(seq), "not the item of {seq}");
            batch.push(seq);
        };
        let Some(range) = self.queue.front() else {
            return self.replica.advance(max_steps, step);
        };
        let items: Vec<_> = range.clone().map(item_of).collect();
        let items = items.iter().map(|item| &item[..]);
        let (arrival, advance) = match self.has_two_calls {
            true => (self.replica.arrive(range.start, items), self.replica.advance(max_steps, step)),
            false => self.replica.receive(range.start, items, max_steps, step),
        };
        match arrival {
            Arrival::Full => self.full += 1,
            Arrival::Taken | Arrival::Late => drop(self.queue.pop_front()),
        }
        advance
    }

    fn step(&mut self, batch: Vec<u64>) {
        for seq in batch {
            let last = self.stepped.last();
            assert!(last.is_none_or(|last| *last < seq), "{seq} stepped twice or out of order");
            self.stepped.push(seq);
        }
    }

    /// Goes on with another's state, if it has come.
    fn rebuild(&mut self) -> bool {
        let Some((next, stepped)) = self.handover.back() else { return false };
        assert!(self.replica.resume(next), "a state came that is not ahead");
        self.stepped = stepped;
        self.asked = None;
        true
    }

    #[cfg(not(feature = "loom"))]
    pub(crate) fn next(&self) -> u64 {
        self.replica.next()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.replica.counters()
    }
}
