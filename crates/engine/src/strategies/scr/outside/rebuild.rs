//! What a core does about losses together with the others, also where it lags by more than their logs hold: then it
//! goes on with the state of one that is further.

use std::mem;

use recovery::{Advance, Handover, Replica, handovers, replicas};
use wire::Stamp;

use crate::path::core::ChainCore;

/// A core's part in the recovery of what is lost.
pub(crate) struct Recovering {
    pub(super) replica: Replica,
    handover: Handover<Lent>,
    standing: Standing,
}

/// What a core that is behind gives away to be overwritten.
struct Lent {
    chain: ChainCore,
    /// The stamp of the last step.
    last: Stamp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It can go on.
    Going,
    /// It cannot, and this core is further.
    Behind { ahead: usize },
    /// It has given its state away.
    Lending,
}

impl Recovering {
    /// One for each core, with logs of so many records.
    pub(super) fn for_cores(cores: usize, records: usize, item_bytes: usize) -> Vec<Recovering> {
        let ends = replicas(cores, records, item_bytes).into_iter().zip(handovers(cores));
        ends.map(|(replica, handover)| Recovering { replica, handover, standing: Standing::Going }).collect()
    }

    /// Notes how far the replica came.
    pub(super) fn note(&mut self, advance: Advance) {
        if let Advance::Behind { ahead, .. } = advance {
            // Any of them will do.
            let ahead = ahead.iter().next().expect("a core that has overwritten the item");
            self.standing = Standing::Behind { ahead };
        }
    }

    /// Whether it can go on.
    pub(super) fn is_going(&self) -> bool {
        self.standing == Standing::Going
    }

    /// Between two batches, when `chain` has stepped what the replica says and `last` was the last: takes another's
    /// state, answers a core that asked for this one. Says whether the core can go on.
    pub(super) fn exchange(&mut self, chain: &mut ChainCore, last: &mut Stamp) -> bool {
        if self.standing == Standing::Lending && !self.take_over(chain, last) {
            return false;
        }
        for core in self.replica.asked().iter() {
            self.handover.answer(core, self.replica.next(), |lent| {
                lent.chain.copy_from(chain);
                lent.last = *last;
            });
        }
        let Standing::Behind { ahead } = self.standing else { return true };
        self.handover.lend(Lent { chain: mem::replace(chain, ChainCore::nothing()), last: *last });
        self.replica.ask(ahead);
        self.standing = Standing::Lending;
        false
    }

    /// Goes on with what was lent, if it has come back.
    fn take_over(&mut self, chain: &mut ChainCore, last: &mut Stamp) -> bool {
        let Some((next, lent)) = self.handover.back() else { return false };
        assert!(self.replica.resume(next), "the state of a core that is not further");
        (*chain, *last) = (lent.chain, lent.last);
        self.standing = Standing::Going;
        true
    }

    /// Has its chain back, of whatever use, since nobody will answer any more.
    pub(super) fn give_up(&mut self, chain: &mut ChainCore) {
        if let Some(lent) = self.handover.withdraw() {
            *chain = lent.chain;
        }
    }

    /// The core has come to its end: says whether all have.
    pub(super) fn leave(&mut self) -> bool {
        self.handover.leave()
    }
}
