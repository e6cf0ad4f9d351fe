//! One core's part in the recovery: its log, its place in the sequence, and what it reads of the other cores' logs.

use crossbeam_utils::CachePadded;

use crate::cores::Cores;
use crate::log::{Found, Reader, SEQ_END, Writer, log};
use crate::sync::{Arc, AtomicU64, Fault, Ordering, is_planted};

/// One core's part in the recovery: what it has got, in a log that the others can read; what it has stepped; and
/// where it looks for what it has lost.
///
/// Nothing here waits or blocks. Each call ends after as many looks at logs as its description says, whatever
/// other cores do; what to do until the next call is the caller's decision.
#[derive(Debug)]
pub struct Replica {
    core: usize,
    /// What this core has got. It keeps items until they are stepped, too.
    own: Writer,
    /// By core; this core's own among them.
    logs: Box<[Reader]>,
    /// The first sequence number that is neither stepped nor found to be lost to all.
    next: u64,
    /// The cores found not to have `next`. What was found holds, also when the record is overwritten.
    lost_at: Cores,
    /// By core: which cores ask it for its state, as bits.
    asks: Arc<Vec<CachePadded<AtomicU64>>>,
    /// An item on its way from a log to a step.
    item: Box<[u8]>,
    counters: Counters,
}

/// What happened to sequence numbers on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items stepped, recovered ones among them.
    pub stepped: u64,
    /// Items that this core lost and stepped from another's log.
    pub recovered: u64,
    /// Items that all cores lost, and none steps.
    pub lost_to_all: u64,
    /// How often the replica was rebuilt from another.
    pub rebuilt: u64,
    /// Items that other replicas decided on, when this one was rebuilt from them.
    pub skipped: u64,
}

/// What became of a packet's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// They are recorded, and [`Replica::advance`] comes to them.
    Taken,
    /// The log has no room, as steps have not come so far: the packet must be brought again after an
    /// [`Replica::advance`]. As many as there was room for are recorded.
    Full,
    /// All of them are recorded, or past: nothing to do for a flush. Any other packet is repeated or was overtaken;
    /// its own step is done, or left to what others say of it, so there is no verdict, and it must be dropped.
    Late,
}

/// How far [`Replica::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// To the end of what has arrived.
    CaughtUp,
    /// As many steps as were asked for; there may be more.
    Limited,
    /// To an item that this core lost, and that these cores may still have.
    Waiting {
        /// The item's sequence number.
        seq: u64,
        /// The cores that have not recorded it yet.
        on: Cores,
    },
    /// To an item that this core lost, of which nobody can tell any more what it was, or whether anyone had it.
    /// The replica is to be rebuilt from one of the cores that have gone on: see [`Replica::ask`].
    Behind {
        /// The item's sequence number.
        seq: u64,
        /// Cores that are past it.
        ahead: Cores,
    },
}

/// Makes the replicas' parts of `cores` cores, each with a log of `records` records, rounded up to a power of two,
/// for items of `item_bytes`. They begin at sequence number 0.
///
/// # Panics
/// If there are no cores or more than [`MAX_CORES`](crate::MAX_CORES), or as [`log`](crate::log()).
pub fn replicas(cores: usize, records: usize, item_bytes: usize) -> Vec<Replica> {
    assert!(!Cores::all(cores).is_empty(), "at least one core");
    let (writers, readers): (Vec<_>, Vec<_>) = (0..cores).map(|_| log(records, item_bytes)).unzip();
    let asks = Arc::new((0..cores).map(|_| CachePadded::new(AtomicU64::new(0))).collect());
    let replica = |(core, own)| Replica {
        core,
        own,
        logs: readers.clone().into(),
        next: 0,
        lost_at: Cores::NONE,
        asks: Arc::clone(&asks),
        item: vec![0; item_bytes].into(),
        counters: Counters::default(),
    };
    writers.into_iter().enumerate().map(replica).collect()
}

impl Replica {
    /// [`Replica::arrive`], and then [`Replica::advance`]. Faster than these where nothing is lost: items are stepped
    /// as they come, and not read back from the log.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        first: u64,
        items: impl ExactSizeIterator<Item = &'a [u8]>,
        max_steps: usize,
        step: impl FnMut(u64, &[u8]),
    ) -> (Arrival, Advance) {
        let end = first + items.len() as u64;
        let from = self.next;
        let is_in_step = from == self.own.next() && first <= from && from < end;
        if !is_in_step || end - from > max_steps as u64 {
            return (self.arrive(first, items), self.advance(max_steps, step));
        }
        self.own.write_each(items.skip((from - first) as usize), step);
        self.next = end;
        self.counters.stepped += end - from;
        self.break_if_planted();
        (Arrival::Taken, Advance::CaughtUp)
    }

    /// Records what a packet brings: the items of the sequence numbers from `first` on, its own at the end; a
    /// flush has no own. What this core has not got and will not get before `first` is recorded as lost to it.
    /// O(items + gap), and no more than the log has records.
    ///
    /// Packets come in the order in which they were sequenced: what one says is lost stays so, even if it comes
    /// later.
    ///
    /// # Panics
    /// If an item is not as long as the log's items, or numbers run out.
    #[inline]
    pub fn arrive<'a>(&mut self, first: u64, items: impl ExactSizeIterator<Item = &'a [u8]>) -> Arrival {
        let end = first + items.len() as u64;
        assert!(end < SEQ_END, "sequence numbers have run out");
        if end <= self.own.next() {
            return Arrival::Late;
        }
        while self.own.next() < first && self.has_room() {
            self.own.write_lost();
        }
        if self.own.next() < first {
            return Arrival::Full;
        }
        let recorded = (self.own.next() - first) as usize;
        for item in items.skip(recorded) {
            if !self.has_room() {
                return Arrival::Full;
            }
            self.own.write(item);
        }
        self.break_if_planted();
        Arrival::Taken
    }

    /// Steps what can be stepped now, in the order of sequence numbers and each once, at most `max_steps` items.
    /// O(records of the log), and as many looks at other logs for each item that this core lost as there are
    /// cores.
    #[inline]
    pub fn advance(&mut self, max_steps: usize, mut step: impl FnMut(u64, &[u8])) -> Advance {
        let mut steps = 0;
        while self.next < self.own.next() {
            if steps == max_steps {
                return Advance::Limited;
            }
            let is_here = self.logs[self.core].read(self.next, &mut self.item) == Found::Item;
            let is_somewhere = is_here
                || match self.recover() {
                    Recovered::Item => true,
                    Recovered::LostToAll => false,
                    Recovered::NotNow(why) => return why,
                };
            if is_somewhere {
                step(self.next, &self.item);
                self.counters.stepped += 1;
                steps += 1;
            }
            self.go_on_at(self.next + 1);
        }
        Advance::CaughtUp
    }

    /// Looks into the others' logs for the item that this core lost.
    #[cold]
    fn recover(&mut self) -> Recovered {
        let (mut on, mut ahead) = (Cores::NONE, Cores::NONE);
        for (core, log) in self.logs.iter().enumerate() {
            if core == self.core || self.lost_at.contains(core) {
                continue;
            }
            match log.read(self.next, &mut self.item) {
                Found::Item => {
                    self.counters.recovered += 1;
                    return Recovered::Item;
                }
                Found::Lost => self.lost_at = self.lost_at.with(core),
                Found::NotYet if is_planted(Fault::NotYetIsLost) => {}
                Found::NotYet => on = on.with(core),
                Found::Overwritten if is_planted(Fault::OverwrittenIsLost) => {}
                Found::Overwritten => ahead = ahead.with(core),
            }
        }
        match (ahead.is_empty(), on.is_empty()) {
            (false, _) => Recovered::NotNow(Advance::Behind { seq: self.next, ahead }),
            (true, false) => Recovered::NotNow(Advance::Waiting { seq: self.next, on }),
            (true, true) => {
                self.counters.lost_to_all += 1;
                Recovered::LostToAll
            }
        }
    }

    /// Asks a core for its state: one of those that are [ahead](Advance::Behind). Its answer is its state as
    /// stepped up to its [`Replica::next`], and that number, which is past what this core needs; how these
    /// get here is the caller's, a [`Handover`](crate::Handover) say. Until the answer has come this core advances
    /// no further. Asking twice, or another core when one does not answer, does no harm.
    pub fn ask(&self, core: usize) {
        // Who sees the bit sees what was lent before.
        self.asks[core].fetch_or(Cores::NONE.with(self.core).bits(), Ordering::Release);
    }

    /// The cores that have asked for this one's state since the last look. To be looked at between advances, also
    /// by a core that waits, and answered as [`Replica::ask`] says.
    #[inline]
    pub fn asked(&self) -> Cores {
        let asks = &self.asks[self.core];
        if asks.load(Ordering::Relaxed) == 0 {
            return Cores::NONE;
        }
        Cores::from_bits(asks.swap(0, Ordering::Acquire))
    }

    /// Goes on at `seq` with the state of a core that has stepped up to there. Items that this core has recorded
    /// from there on will still be stepped; packets before it that are not stepped yet must be dropped.
    ///
    /// Returns whether it does: otherwise this core has come as far by itself, and keeps its own state.
    pub fn resume(&mut self, seq: u64) -> bool {
        if seq <= self.next {
            return false;
        }
        self.counters.rebuilt += 1;
        self.counters.skipped += seq - self.next;
        self.go_on_at(seq);
        self.own.skip_to(seq);
        true
    }

    /// The first sequence number that this core has not decided on: it has stepped all before that any core got.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The first sequence number of which this core does not know whether it has it: what is before, and not yet
    /// stepped, will be.
    #[inline]
    pub fn recorded(&self) -> u64 {
        self.own.next()
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn break_if_planted(&self) {
        if is_planted(Fault::LostEarly) && self.own.records() > 2 {
            self.own.write_lost_early();
        }
    }

    fn go_on_at(&mut self, seq: u64) {
        self.next = seq;
        self.lost_at = Cores::NONE;
    }

    /// Whether the oldest record is stepped. Since no log has more ahead of its core's steps, a core whose log has
    /// overwritten an item is past it.
    #[inline]
    fn has_room(&self) -> bool {
        self.own.next() - self.next < self.own.records() as u64 || is_planted(Fault::NoRoomNeeded)
    }
}

/// What other logs say of an item that this core lost.
enum Recovered {
    /// One has it.
    Item,
    /// No core has it, or will.
    LostToAll,
    /// That cannot be told.
    NotNow(Advance),
}
