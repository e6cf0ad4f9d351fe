//! A core's part in listing flows: it copies a portion of them between two batches, when it is asked to.
//!
//! ```text
//!   who lists                      core k, between two batches
//!   where to go on  ── tray k ──►  looks at BLOCKS blocks, copies the flows that live
//!   reads them      ◄── tray k ──  says where to go on
//! ```
//!
//! A core does nothing that it is not asked for, and it is asked for the next portion only when the one before has been read.
//! So a reader who is slow, or goes away, costs it nothing. It allocates nothing, and writes states as they are: names and
//! texts are the reader's work. Without a question a batch pays two tests.

use std::any::Any;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The most blocks of a table that a core looks at between two batches.
pub(crate) const PORTION_BLOCKS: usize = 256;

/// Where a portion begins: tables are numbered as their group has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: u32,
    pub(crate) block: u32,
}

/// A flow, as it was between two batches.
#[derive(Clone, Copy)]
pub(crate) struct Found<K, S> {
    pub(crate) key: K,
    pub(crate) state: S,
    pub(crate) deadline_ns: u64,
}

/// Some flows of one function, whatever its type.
pub struct Portion {
    flows: Box<dyn Emptied>,
    /// Flows that are dead by then are left out.
    pub(crate) now_ns: u64,
}

/// A list of flows that can be filled again.
trait Emptied: Any + Send {
    fn empty(&mut self);
}

impl<T: Send + 'static> Emptied for Vec<T> {
    fn empty(&mut self) {
        self.clear();
    }
}

impl Portion {
    /// An empty portion of flows with this key and state, with room for all that a core copies at once.
    pub(crate) fn new<K: Send + 'static, S: Send + 'static>() -> Portion {
        let flows: Vec<Found<K, S>> = Vec::with_capacity(PORTION_BLOCKS);
        Portion { flows: Box::new(flows), now_ns: 0 }
    }

    /// Its flows; `None` if they are of another type.
    pub(crate) fn flows<K: 'static, S: 'static>(&self) -> Option<&Vec<Found<K, S>>> {
        (&*self.flows as &dyn Any).downcast_ref()
    }

    /// Has it be empty, for flows that live at a time.
    pub(crate) fn empty(&mut self, now_ns: u64) {
        self.flows.empty();
        self.now_ns = now_ns;
    }

    /// Adds the live ones of so many flows, for which there is room.
    pub(crate) fn add<K: 'static, S: 'static>(&mut self, found: impl Iterator<Item = Found<K, S>>) {
        let now_ns = self.now_ns;
        let flows: Option<&mut Vec<Found<K, S>>> = (&mut *self.flows as &mut dyn Any).downcast_mut();
        if let Some(flows) = flows {
            flows.extend(found.filter(|flow| flow.deadline_ns > now_ns).take(PORTION_BLOCKS - flows.len()));
        }
    }
}

/// What is wanted of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// How many flows have come to it from others.
    Moved,
    /// Flows of a function, from a place on.
    Flows(usize, Place),
    /// What a function's rules have decided.
    Rules(usize),
}

/// What a core is asked, and what it answers.
pub(crate) struct Ask {
    /// The chain that is asked, by its number in the run.
    pub(crate) chain: u64,
    pub(crate) wanted: Wanted,
    /// Flows; empty at first.
    pub(crate) portion: Option<Portion>,
    /// By rule; with room for all.
    pub(crate) rules: Vec<u64>,
    /// Whether the core has answered.
    pub(crate) is_answered: bool,
    /// Answer: where the next portion begins, if there are more blocks.
    pub(crate) next: Option<Place>,
    /// Answer: how many flows have come to this core from others so far.
    pub(crate) moved_in: u64,
    /// Answer: how long the core worked on it, ns.
    pub(crate) worked_ns: u64,
    /// Answer: whether another chain runs than the one that is asked.
    pub(crate) is_another_chain: bool,
}

impl Ask {
    /// A question to a core that runs this chain.
    pub(crate) fn new(chain: u64, wanted: Wanted) -> Ask {
        Ask {
            chain,
            wanted,
            portion: None,
            rules: Vec::new(),
            is_answered: false,
            next: None,
            moved_in: 0,
            worked_ns: 0,
            is_another_chain: false,
        }
    }
}

/// Nothing is asked.
const IDLE: u8 = 0;
/// A core is to answer.
const ASKED: u8 = 1;
/// It has.
const ANSWERED: u8 = 2;

/// Where one core is asked for flows. There is one asker at a time.
#[derive(Default)]
pub(crate) struct Tray {
    state: AtomicU8,
    ask: Mutex<Option<Ask>>,
}

impl Tray {
    /// Asks. What was asked before has to be taken back.
    pub(crate) fn ask(&self, ask: Ask) {
        *self.ask.lock().unwrap_or_else(PoisonError::into_inner) = Some(ask);
        self.state.store(ASKED, Ordering::Release);
    }

    /// The answer, if there is one by now.
    pub(crate) fn answer(&self) -> Option<Ask> {
        (self.state.load(Ordering::Acquire) == ANSWERED).then(|| self.take_back()).flatten()
    }

    /// Whether a core is asked something.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASKED
    }

    /// Has `answer` answer what is asked. While the asker is at the tray nothing happens: the core's next turn comes soon.
    pub(super) fn answer_by(&self, answer: impl FnOnce(&mut Ask)) {
        let Ok(mut place) = self.ask.try_lock() else { return };
        if self.state.load(Ordering::Acquire) != ASKED {
            return;
        }
        let Some(ask) = &mut *place else { return };
        answer(ask);
        ask.is_answered = true;
        self.state.store(ANSWERED, Ordering::Release);
    }

    /// Takes back what was asked, answered or not.
    pub(crate) fn take_back(&self) -> Option<Ask> {
        let ask = self.ask.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.state.store(IDLE, Ordering::Release);
        ask
    }
}

/// A core's place at its tray.
pub(crate) struct Listed {
    pub(crate) tray: Arc<Tray>,
    /// The number of its chain in the run.
    pub(crate) chain: u64,
}
