//! What cores tell a card that looks flows up, on its way to one that is outside: at the interfaces of a live run (Dyssect §IV-C).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::Reference;
use nf::FiveTuple;
use ring::Consumer;

/// What a core tells a card: from here on packets with this 5-tuple have this reference, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardUpdate {
    /// The flow.
    pub flow: FiveTuple,
    /// Where its states are; [`Reference::NONE`]: it has ended, or is not where the card said.
    pub reference: Reference,
}

/// What comes from each core; none once nobody looks flows up any more.
type Links = Option<Vec<Consumer<CardUpdate>>>;

/// From the cores of a run to a card outside. Clones are the same link. Who [takes](CardLink::take) what cores told is a thread
/// beside them: what it leaves for too long is lost, which the next packet of the flow makes good.
#[derive(Clone)]
pub struct CardLink(Arc<Mutex<Links>>);

impl Default for CardLink {
    fn default() -> CardLink {
        CardLink(Arc::new(Mutex::new(Some(Vec::new()))))
    }
}

impl fmt::Debug for CardLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardLink").finish_non_exhaustive()
    }
}

impl CardLink {
    /// Takes what cores have told so far, in the order in which each of them did.
    pub fn take(&self, mut update: impl FnMut(CardUpdate)) {
        for core in self.lock().iter_mut().flatten() {
            // As many as there are now: a core goes on telling.
            for _ in 0..core.len() {
                core.pop().into_iter().for_each(&mut update);
            }
        }
    }

    /// There is no card: from here on cores read no references, and tell nothing.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Other cores tell from here on.
    pub(crate) fn begin(&self, cores: Vec<Consumer<CardUpdate>>) {
        if let Some(before) = &mut *self.lock() {
            *before = cores;
        }
    }

    /// Locks the links. No thread panics while it has them.
    fn lock(&self) -> MutexGuard<'_, Links> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
