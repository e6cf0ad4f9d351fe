//! Promotion: how the flows of an entry come to be replicated on all cores, and how they go back to one.
//!
//! ```text
//!  dispatcher                       owner                                another core
//!  entry e is promoted
//!    ── change: e, behind packet
//!       s and told packet i ──►     steps its packets before s
//!                                   sends copies of e's flows ─────────►
//!                                   steps told packets below i           steps told packets below i
//!                                   takes its own copy in                takes the copy in
//!    packets of e to all cores ──►  steps told packets from i on         steps told packets from i on
//! ```
//!
//! A packet of a promoted entry is *told* to all cores: each of them steps it, in the order of its number in the history.
//! A demotion takes place between two told packets: the owner keeps the flows, the others forget theirs.
//!
//! **No packet out of order.** A packet of e from before its promotion is among those that the owner steps before it makes
//! copies; a later one is told, and comes behind the copies on every core. A packet from after its demotion comes to
//! the owner alone, which steps it behind the demotion, and so behind all that was told of e.
//!
//! **No deadlock.** A core works off its packets in the order in which they came to it, and waits for nothing but a copy: at
//! packet *p*, for that of a change which came before *p*. The owner makes it when it has stepped packets that came before the
//! change. So who waits at *p* waits for somebody who is at an earlier packet, and the core at the earliest packet of all waits for
//! nobody. A core looks at changes, makes copies and takes messages while it waits. Rings that are full make the dispatcher wait,
//! and what a core waits for was sent before.
//!
//! **Nothing is shared** but the ring of changes, which all cores read, and a ring from each core to each other one.

use std::collections::VecDeque;

use ring::{Consumer, Producer, Publisher, Subscriber, broadcast, ring};

/// Copies in flight from one core to another. A core that finds no room tries again later.
const MAIL: usize = 16;

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All cores step its packets from here on.
    Promoted,
    /// Its owner alone steps them.
    Demoted,
}

/// An entry is promoted, or demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What becomes of it.
    pub status: Status,
    /// Which entry.
    pub entry: u16,
    /// Its number among those that are promoted, as long as it is.
    pub slot: u16,
    /// The core that has it where it is not promoted.
    pub owner: u16,
    /// The number, over all queues, from which on packets are later.
    pub since_seq: u64,
    /// The time of that packet, ns.
    pub since_ns: u64,
    /// How many packets of the owner's queue, from the first ever, come before.
    pub after: u64,
    /// How many told packets come before.
    pub told: u64,
}

/// The dispatcher's side.
pub struct Changes {
    to_cores: Publisher<Change>,
}

impl Changes {
    /// Whether so many changes find room. They will, whatever else the cores wait for.
    pub fn has_room(&mut self, changes: usize) -> bool {
        self.to_cores.has_room(changes)
    }

    /// Tells all cores of a change, ahead of the first packet that comes after it; `false` if there is no room.
    #[must_use = "a change that no core hears of"]
    pub fn give(&mut self, change: Change) -> bool {
        let is_given = self.to_cores.push(change);
        self.to_cores.publish();
        is_given
    }
}

/// What a core has to do between two batches.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<P> {
    /// Make a copy of the flows of an entry of its own, which it no longer has: [`Promotion::send`] comes next.
    Copy(Change),
    /// Put these flows among the promoted ones.
    TakeIn(Change, P),
    /// Take the entry's flows from the promoted ones: its owner keeps them.
    Demote(Change),
    /// Step told packets up to this number, its own excepted, and ask again.
    Replay(u64),
}

/// One core's side. `P` is a copy of an entry's flows: cheap to clone.
pub struct Promotion<P> {
    core: u16,
    changes: Subscriber<Change>,
    /// Changes that are known.
    known: usize,
    /// The next change in the order of this core's packets, which matter where it is the owner.
    own: usize,
    /// The next change in the order of the history.
    turn: usize,
    /// Copies whose turn has not come, with the change's number.
    copies: Vec<(usize, P)>,
    /// What found no room in another core's mail.
    outgoing: VecDeque<(usize, (usize, P))>,
    /// By core; a core sends nothing to itself.
    outboxes: Vec<Option<Producer<(usize, P)>>>,
    inboxes: Vec<Option<Consumer<(usize, P)>>>,
    /// By core, whether it is gone, and all that it sent is here.
    gone: Box<[bool]>,
}

/// The protocol for so many cores, with room for `in_hand` changes that some core has not carried out.
pub fn promotion<P: Clone>(cores: usize, in_hand: usize) -> (Changes, Vec<Promotion<P>>) {
    let (to_cores, changes) = broadcast(in_hand, cores);
    let core = |(core, changes)| Promotion {
        core: core as u16,
        changes,
        known: 0,
        own: 0,
        turn: 0,
        copies: Vec::new(),
        outgoing: VecDeque::new(),
        outboxes: (0..cores).map(|_| None).collect(),
        inboxes: (0..cores).map(|_| None).collect(),
        gone: vec![false; cores].into(),
    };
    let mut all: Vec<Promotion<P>> = changes.into_iter().enumerate().map(core).collect();
    for from in 0..cores {
        for to in (0..cores).filter(|to| *to != from) {
            let (outbox, inbox) = ring(MAIL);
            all[from].outboxes[to] = Some(outbox);
            all[to].inboxes[from] = Some(inbox);
        }
    }
    (Changes { to_cores }, all)
}

impl<P: Clone> Promotion<P> {
    /// Looks at the changes and copies that have come. Changes that were given before a packet was sent here are among them
    /// if this is called after the packet is received.
    #[inline]
    pub fn look(&mut self) {
        self.known = self.changes.published();
        self.flush();
        if self.turn < self.known {
            self.collect();
        }
    }

    fn collect(&mut self) {
        for (inbox, gone) in self.inboxes.iter_mut().zip(&mut self.gone) {
            let Some(inbox) = inbox else { continue };
            // In this order: what a core sent before it went is seen after that.
            *gone = inbox.is_abandoned();
            while let Some(copy) = inbox.pop() {
                self.copies.push(copy);
            }
        }
    }

    fn flush(&mut self) {
        while let Some((to, message)) = self.outgoing.pop_front() {
            let outbox = self.outboxes[to].as_mut().expect("another core");
            if let Err(message) = outbox.push(message) {
                self.outgoing.push_front((to, message));
                return;
            }
        }
    }

    /// What is to be done now, as of the last [`look`](Promotion::look), where this core has worked off the first `worked_off`
    /// packets of its queue and stepped the first `told` told packets. To be asked until there is nothing.
    pub fn step(&mut self, worked_off: u64, told: u64) -> Option<Step<P>> {
        if self.turn < self.known {
            let change = self.changes.item(self.turn);
            if change.told <= told {
                match change.status {
                    Status::Demoted => {
                        self.next_turn();
                        return Some(Step::Demote(change));
                    }
                    Status::Promoted => {
                        let copy = self.copies.iter().position(|(number, _)| *number == self.turn);
                        if let Some(copy) = copy {
                            let (_, flows) = self.copies.swap_remove(copy);
                            self.next_turn();
                            return Some(Step::TakeIn(change, flows));
                        }
                    }
                }
            }
        }
        self.skip();
        let change = (self.own < self.known).then(|| self.changes.item(self.own))?;
        match change.status {
            _ if change.after > worked_off => None,
            Status::Promoted => Some(Step::Copy(change)),
            Status::Demoted => (change.told > told).then_some(Step::Replay(change.told)),
        }
    }

    /// Sends the flows that [`Step::Copy`] asked for to all cores, this one among them.
    pub fn send(&mut self, flows: P) {
        let number = self.own;
        for to in 0..self.outboxes.len() {
            match to == usize::from(self.core) {
                true => self.copies.push((number, flows.clone())),
                false => self.outgoing.push_back((to, (number, flows.clone()))),
            }
        }
        self.own += 1;
        self.flush();
        self.release();
    }

    /// Passes over what is nothing to do in the order of packets: changes of other cores' entries, and demotions that are
    /// carried out.
    fn skip(&mut self) {
        while self.own < self.known {
            let change = self.changes.item(self.own);
            let is_done = change.status == Status::Demoted && self.own < self.turn;
            if change.owner == self.core && !is_done {
                return;
            }
            self.own += 1;
        }
        self.release();
    }

    fn next_turn(&mut self) {
        self.turn += 1;
        self.release();
    }

    fn release(&mut self) {
        self.changes.release(self.own.min(self.turn));
    }

    /// Whether this core can step packet number `seq` of its queue: if not, changes of its entries come before.
    #[inline]
    pub fn allows(&mut self, seq: u64) -> bool {
        if self.own == self.known {
            return true;
        }
        self.skip();
        self.own == self.known || self.changes.item(self.own).since_seq > seq
    }

    /// How many told packets can be stepped before a change is to be carried out.
    #[inline]
    pub fn told_limit(&self) -> u64 {
        if self.turn == self.known { u64::MAX } else { self.changes.item(self.turn).told }
    }

    /// Whether all that is known is carried out, and all that is to be sent is sent.
    pub fn is_settled(&self) -> bool {
        self.turn == self.known && self.own == self.known && self.outgoing.is_empty()
    }

    /// Whether a copy has to be sent that found no room, or a change waits.
    pub fn is_busy(&self) -> bool {
        !self.outgoing.is_empty() || self.turn < self.known
    }

    /// Whether this core waits for a copy from one that is gone: it will not come.
    pub fn is_broken(&self) -> bool {
        if self.turn == self.known {
            return false;
        }
        let change = self.changes.item(self.turn);
        let is_here = self.copies.iter().any(|(number, _)| *number == self.turn);
        change.status == Status::Promoted && self.gone[usize::from(change.owner)] && !is_here
    }
}

#[cfg(all(test, feature = "loom"))]
mod model;
