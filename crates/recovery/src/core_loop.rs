//! A core as an engine would run it, for the models, the simulation and the tests: its state is the list of what
//! it stepped.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::sync::{Arc, Mutex};
use crate::{Advance, Arrival, Counters, Replica};

/// Short, so that the model checker has few words to look at, and no multiple of a word.
pub(crate) const ITEM_BYTES: usize = if cfg!(loom) { 7 } else { 12 };

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

/// A state, as stepped up to a sequence number.
type Snapshot = (u64, Vec<u64>);

/// Where states wait for cores that asked for them, by core.
pub(crate) type Mail = Arc<Vec<Mutex<Vec<Snapshot>>>>;

pub(crate) fn mail(cores: usize) -> Mail {
    Arc::new((0..cores).map(|_| Mutex::new(Vec::new())).collect())
}

pub(crate) struct Core {
    number: usize,
    replica: Replica,
    /// Packets on their way to it.
    pub(crate) queue: VecDeque<Range<u64>>,
    /// The state.
    pub(crate) stepped: Vec<u64>,
    mail: Mail,
    /// For which number it has asked for a state.
    asked_for: Option<u64>,
    /// How often its log had no room.
    pub(crate) full: u64,
    /// Whether it calls `arrive` and `advance` and not `receive`.
    pub(crate) has_two_calls: bool,
}

impl Core {
    pub(crate) fn new(number: usize, replica: Replica, mail: Mail) -> Core {
        let (queue, stepped) = (VecDeque::new(), Vec::new());
        Core { number, replica, queue, stepped, mail, asked_for: None, full: 0, has_two_calls: false }
    }

    /// What an engine does over and over: answers, takes in, advances. `pick` chooses whom to ask.
    pub(crate) fn turn(&mut self, max_steps: usize, pick: impl FnOnce(&[usize]) -> usize) -> Advance {
        for core in self.replica.asked().iter() {
            let snapshot = (self.replica.next(), self.stepped.clone());
            self.mail[core].lock().expect("no core fails").push(snapshot);
        }
        if self.asked_for.is_some() {
            self.rebuild();
        }
        let stepped = &mut self.stepped;
        let step = |seq, item: &[u8]| {
            assert!(stepped.last().is_none_or(|last| *last < seq), "{seq} stepped twice or out of order");
            assert_eq!(item, item_of(seq), "not the item of {seq}");
            stepped.push(seq);
        };
        let Some(range) = self.queue.front() else {
            let advance = self.replica.advance(max_steps, step);
            return self.after(pick, advance);
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
        self.after(pick, advance)
    }

    /// Asks if it has to.
    fn after(&mut self, pick: impl FnOnce(&[usize]) -> usize, advance: Advance) -> Advance {
        if let Advance::Behind { seq, ahead } = advance
            && self.asked_for != Some(seq)
        {
            let ahead: Vec<_> = ahead.iter().collect();
            self.replica.ask(pick(&ahead));
            self.asked_for = Some(seq);
        }
        advance
    }

    fn rebuild(&mut self) {
        let answers = std::mem::take(&mut *self.mail[self.number].lock().expect("no core fails"));
        for (next, stepped) in answers {
            self.asked_for = None;
            if self.replica.resume(next) {
                self.stepped = stepped;
            }
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.replica.next()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.replica.counters()
    }
}
