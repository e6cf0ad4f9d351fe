//! Hands states from core to core, for a replica that is too far behind to be rebuilt from logs.

use std::mem;
use std::sync::PoisonError;

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

/// One core's end of the way that states take from core to core, for a replica that is
/// [behind](crate::Advance::Behind) and has to be rebuilt from another.
///
/// ```text
///  the core that is behind                   a core that is ahead, between two batches
///
///  lend: its own state, to be      ──slot──►  answer: copies its state over that one, and writes
///  overwritten; Replica::ask                  down the number up to which it is stepped
///  back: that, and the number      ◄─────────
/// ```
///
/// What is handed over was made at start, so nothing has to be allocated. Nobody waits while another copies, but
/// who lent. A core whose state is lent cannot answer; that is no deadlock, since a core asks only cores that are
/// past it, and the one that is furthest is never behind.
///
/// Cores that have come to their end must go on answering until all have: [`Handover::leave`].
pub struct Handover<S> {
    core: usize,
    shared: Arc<Shared<S>>,
    has_left: bool,
}

struct Shared<S> {
    /// By core that lends.
    slots: Box<[CachePadded<Mutex<Slot<S>>>]>,
    /// How many cores have come to their end.
    left: AtomicU64,
}

/// What a core has lent.
#[derive(Default)]
enum Slot<S> {
    #[default]
    Nothing,
    Lent(S),
    /// With the number up to which the state is stepped.
    Answered(u64, S),
}

/// Makes one end for each of `cores` cores.
pub fn handovers<S>(cores: usize) -> Vec<Handover<S>> {
    let slots = (0..cores).map(|_| CachePadded::new(Mutex::new(Slot::Nothing))).collect();
    let shared = Arc::new(Shared { slots, left: AtomicU64::new(0) });
    (0..cores).map(|core| Handover { core, shared: Arc::clone(&shared), has_left: false }).collect()
}

impl<S> Handover<S> {
    /// Gives this core's state away, to be overwritten. [`Replica::ask`](crate::Replica::ask) comes next.
    pub fn lend(&self, state: S) {
        *self.slot(self.core) = Slot::Lent(state);
    }

    /// What was lent, once it is answered: the number up to which it is stepped, and the state. For
    /// [`Replica::resume`](crate::Replica::resume).
    pub fn back(&self) -> Option<(u64, S)> {
        let mut slot = self.slot(self.core);
        match mem::take(&mut *slot) {
            Slot::Answered(next, state) => Some((next, state)),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// What was lent, answered or not, if nobody will answer any more. It is of use to nobody.
    pub fn withdraw(&self) -> Option<S> {
        match mem::take(&mut *self.slot(self.core)) {
            Slot::Answered(_, state) | Slot::Lent(state) => Some(state),
            Slot::Nothing => None,
        }
    }

    /// Answers a core that [asked](crate::Replica::asked): `copy` makes what it lent the same as this core's state,
    /// which is stepped up to `next` and no further. So it is asked between two batches, when nothing is half done.
    pub fn answer(&self, core: usize, next: u64, copy: impl FnOnce(&mut S)) {
        let mut slot = self.slot(core);
        if let Slot::Lent(state) = &mut *slot {
            copy(state);
        }
        *slot = match mem::take(&mut *slot) {
            Slot::Lent(state) => Slot::Answered(next, state),
            other => other,
        };
    }

    /// This core has come to its end. Returns whether all have: until then another core may ask this one for its
    /// state.
    pub fn leave(&mut self) -> bool {
        // Nothing but the number is passed.
        if !mem::replace(&mut self.has_left, true) {
            self.shared.left.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.left.load(Ordering::Relaxed) == self.shared.slots.len() as u64
    }

    /// A core that panicked over a copy ends the run: what it left half done is of no use, and does no harm.
    fn slot(&self, core: usize) -> MutexGuard<'_, Slot<S>> {
        self.shared.slots[core].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
