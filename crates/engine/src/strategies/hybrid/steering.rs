//! Where packets go: to the owner of their entry, or where it is promoted to the sequencer. A card's table does that with a row for each
//! entry; where there is none, the thread that receives all packets asks here for each.
//!
//! Packets are counted here, by entry, as `rsspp` has them counted: by the card, or by the thread that steers in its place.

use std::sync::Arc;

use control::{Change, Changes, Status};
use nf::hash_bytes;
use ring::Producer;
use strategy::{Every, Rebalancing, Schedule};
use wire::Stamp;

use crate::strategies::account::{Account, MovedValue, Promoted};
use crate::strategies::dispatch::{Steer, Steered};
use crate::strategies::hybrid::elephants::{Decision, Elephants, Hand, SLOTS};

/// Changes that one decision can make.
pub(super) const DECISION_CHANGES: usize = 32;

/// From a packet on told packets go to the cores like this.
#[derive(Clone, Copy)]
pub(super) struct Deal {
    pub(super) since_seq: u64,
    pub(super) hand: Hand,
}

/// Steers packets, and decides which entries are promoted.
pub(super) struct Steering {
    elephants: Elephants,
    every: Every,
    schedule: Schedule,
    changes: Changes,
    deals: Producer<Deal>,
    account: Arc<Account>,
}

impl Steering {
    /// `owners[entry]` has the flows of an entry that is not promoted. A replay takes so many sixteenths of a packet's time.
    pub(super) fn new(
        (owners, replay_sixteenths): (&[u16], u64),
        cores: usize,
        Rebalancing { every, .. }: Rebalancing,
        (changes, deals): (Changes, Producer<Deal>),
        account: Arc<Account>,
    ) -> Steering {
        let (elephants, schedule) = (Elephants::new(owners, cores, replay_sixteenths), Schedule::new(every));
        Steering { elephants, every, schedule, changes, deals, account }
    }

    pub(super) fn has_room(&mut self, changes: usize) -> bool {
        self.changes.has_room(changes)
    }

    /// Decides ahead of a packet of `entry`, and says whether anything. `sent` says how many packets went to a core's queue.
    #[cold]
    fn decide(&mut self, entry: u16, stamp: Stamp, sent: &dyn Fn(usize) -> u64) -> bool {
        // Where cores lag by so many changes, nothing is decided before they have caught up.
        if !self.changes.has_room(DECISION_CHANGES) {
            return false;
        }
        let (mut decisions, mut is_dealt) = ([None; DECISION_CHANGES], false);
        let mut room = decisions.iter_mut();
        let mut note = |decision: Option<Decision>| {
            if let (Some(_), Some(place)) = (decision, room.next()) {
                *place = decision;
            }
        };
        match self.every {
            Every::Packets(_) => force(&mut self.elephants, entry, stamp.seq, note),
            Every::Period(_) => {
                let hand = self.elephants.end_period(DECISION_CHANGES, |decision| note(Some(decision)));
                let elephants = &self.elephants;
                self.account.tell(|told| {
                    told.looks += 1;
                    elephants.tell(told.promotion.get_or_insert_default());
                });
                // Without room the last deal holds on.
                let deal = hand.map(|hand| Deal { since_seq: stamp.seq, hand });
                is_dealt = deal.is_some_and(|deal| self.deals.push(deal).is_ok());
            }
            Every::Never => (),
        }
        let is_decided = decisions.iter().any(Option::is_some) || is_dealt;
        decisions.into_iter().flatten().for_each(|decision| self.give(decision, stamp, sent));
        is_decided
    }

    fn give(&mut self, decision: Decision, stamp: Stamp, sent: &dyn Fn(usize) -> u64) {
        let (status, entry, slot, owner, has_moved) = match decision {
            Decision::Promote { entry, slot, owner } => (Status::Promoted, entry, slot, owner, false),
            Decision::Demote { entry, slot, owner, has_moved } => {
                (Status::Demoted, entry, slot, owner, has_moved)
            }
        };
        let Stamp { seq: since_seq, time_ns: since_ns } = stamp;
        let change = Change { status, entry, slot, owner, since_seq, since_ns, after: sent(owner.into()) };
        let is_given = self.changes.give(change);
        debug_assert!(is_given, "asked before");
        self.account.tell(|told| {
            let promotion = told.promotion.get_or_insert_default();
            match status {
                Status::Promoted => {
                    promotion.promotions += 1;
                    let packets = self.elephants.last_of(entry);
                    let since = Promoted { value: entry, packets, since_packet: since_seq + 1, since_ns };
                    promotion.promoted.push(since);
                }
                Status::Demoted => {
                    promotion.demotions += 1;
                    if has_moved {
                        promotion.moves += 1;
                        let moved =
                            MovedValue { value: entry, core: owner, since_packet: since_seq + 1, since_ns };
                        promotion.moved.retain(|moved| moved.value != entry);
                        promotion.moved.push(moved);
                    }
                    promotion.promoted.retain(|promoted| promoted.value != entry);
                }
            }
        });
    }
}

impl Steering {
    /// Steers the next packet, in order of arrival.
    #[inline]
    pub(super) fn steer(&mut self, entry: u16, stamp: Stamp, sent: impl Fn(usize) -> u64) -> Steered {
        let is_decided = self.schedule.is_due(stamp.time_ns) && self.decide(entry, stamp, &sent);
        self.schedule.count();
        self.elephants.count(entry);
        Steered { place: self.elephants.place(entry), is_decided }
    }
}

impl Steer for Steering {
    fn steer(&mut self, entry: u16, stamp: Stamp, sent: &[u64]) -> Steered {
        Steering::steer(self, entry, stamp, |core| sent[core])
    }
}

/// Promotes the flows of a packet, or demotes them, to any core, and now and then others, to show that it does no harm.
fn force(elephants: &mut Elephants, entry: u16, seq: u64, mut note: impl FnMut(Option<Decision>)) {
    let draw = hash_bytes(&seq.to_le_bytes(), 0);
    let any = (draw >> 8) as u16 % SLOTS;
    let owner = (draw >> 24) as u16 % (2 * elephants.cores() as u16);
    // Half of them go where they came from.
    let owner = Some(owner).filter(|owner| usize::from(*owner) < elephants.cores());
    match elephants.place(entry) {
        Err(slot) => note(elephants.demote_slot(slot, owner)),
        Ok(_) => match elephants.promote(entry) {
            None => {
                note(elephants.demote_slot(any, owner));
                note(elephants.promote(entry));
            }
            promotion => note(promotion),
        },
    }
    if draw.is_multiple_of(3) {
        note(elephants.demote_slot(any % 8, owner));
    }
}

#[cfg(test)]
mod tests {
    use control::promotion;
    use ring::ring;

    use super::*;

    /// Core 0 has a value too many. It goes to another core ahead of one packet, is promoted nowhere, and is told of.
    #[test]
    fn a_move_is_told_of() {
        let (changes, mut places, _promotions) = promotion::<()>(2, 2 * DECISION_CHANGES);
        let (deals, _dealt) = ring(4);
        let account = Arc::new(Account::default());
        let every = Rebalancing { every: Every::Period(1_000_000), ..Rebalancing::default() };
        let owners: Vec<u16> = (0..1024).map(|value| value % 2).collect();
        let mut steering = Steering::new((&owners, 2), 2, every, (changes, deals), Arc::clone(&account));
        let values = [100, 102, 104, 101];
        for seq in 0..8_001 {
            let stamp = Stamp { seq, time_ns: seq * 125 };
            steering.steer(values[seq as usize % 4], stamp, |_| seq);
        }
        let promotion = account.told().promotion.expect("a period has ended");
        let [moved] = promotion.moved[..] else { panic!("{promotion:?}") };
        assert_eq!((moved.core, moved.since_packet, moved.since_ns), (1, 8_001, 1_000_000));
        assert_eq!(
            (promotion.promotions, promotion.demotions, promotion.moves, promotion.promoted.len()),
            (1, 1, 1, 0)
        );
        assert_eq!(steering.steer(moved.value, Stamp { seq: 8_001, time_ns: 1_000_125 }, |_| 0).place, Ok(1));
        places.look();
        let status = |places: &mut control::Places| {
            let change = places.next().map(|change| (change.status, change.owner, change.since_seq));
            places.place(0);
            change
        };
        assert_eq!(status(&mut places), Some((Status::Promoted, 0, 8_000)));
        assert_eq!(status(&mut places), Some((Status::Demoted, 1, 8_000)));
    }
}
