//! Promotion: how the flows of an entry come to be replicated on all cores, and how they go back to one.
//!
//! ```text
//!   card ──── not promoted ──────────────────────► queue of the owner ──┐
//!     └────── promoted ──► sequencer ──► history, queue of some core ───┴──► core
//! ```
//!
//! A packet of a promoted entry is *told* to all cores: the sequencer writes it to the history and sends it to one of them,
//! and each of them steps it, in the order of its number in the history. All other packets pass the sequencer by. So a core has two
//! queues, and no order between packets of the two but what a change asks for:
//!
//! ```text
//!  who steers the card       sequencer                 owner                      another core
//!  change: entry e, from
//!  packet s on, promoted ──► tells what came
//!                            before s;
//!                            place: told packet i ──►  steps its packets before s
//!                                                      sends copies of e's flows ──►
//!                            tells packets of e        steps told packets below i   steps told packets below i
//!                                                      takes its own copy in        takes the copy in
//!                                                      steps told packets from i on steps told packets from i on
//! ```
//!
//! A demotion has a place between two told packets, too. There the others forget the flows. The owner keeps them, as soon as it has
//! stepped its own packets before s, and its own packets from s on wait until it has. That may be another core than had them before.
//! So a promotion and a demotion at one packet have an entry's flows **move** from core to core, and no packet is told.
//!
//! **No packet out of order.** Changes are known to a core ahead of the first of its packets that comes after them, and their places ahead of the
//! first told packet that does. A packet of e from before its promotion is among those that the owner steps before it makes
//! copies; a later one is told, and comes behind the copies on every core. A packet from after its demotion comes to
//! the owner alone, which steps it behind the demotion, and so behind all that was told of e.
//!
//! **No deadlock.** Changes have an order, which all agree on. What a core waits for at a change belongs to earlier changes, or is
//! work that nothing holds up:
//!
//! - told packets behind a promotion wait for the owner's copy, which waits for the owner's own packets before s;
//! - the owner's told packets behind a demotion wait for its own packets before s;
//! - its own packets behind a demotion wait for the place, and for told packets before it.
//!
//! Own packets before s wait for changes before this one alone, and so do told packets before its place. The sequencer places a change when it
//! has told what came before, and waits for nothing but room: in the history and in the queues of told packets, which the cores
//! empty as said. The card waits for nobody. A core with two queues takes from either while the other one is held up. Where one thread
//! steers and tells, and a core has one queue, what it waits for came earlier in that queue, and so is not behind what waits.
//! Cores look at changes, make copies and take messages while they wait.
//!
//! **Nothing is shared** but the rings of changes and places, which all cores read, and a ring from each core to each other one.

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
    /// The core that has the entry when it is promoted; the core that gets it when it is demoted, which need not
    /// have had it before.
    pub owner: u16,
    /// The number, over all queues, from which on packets are later.
    pub since_seq: u64,
    /// The time of that packet, ns.
    pub since_ns: u64,
    /// How many packets of the owner's queue, from the first ever, come before.
    pub after: u64,
}

/// The end of the thread that steers packets: it publishes changes to all cores.
pub struct Changes {
    to_all: Publisher<Change>,
}

impl Changes {
    /// Whether so many changes find room. They will, whatever else the cores wait for.
    pub fn has_room(&mut self, changes: usize) -> bool {
        self.to_all.has_room(changes)
    }

    /// Tells the sequencer and all cores of a change, ahead of the first packet that comes after it; `false` if there is no room.
    #[must_use = "a change that no core hears of"]
    pub fn give(&mut self, change: Change) -> bool {
        let is_given = self.to_all.push(change);
        self.to_all.publish();
        is_given
    }
}

/// The sequencer's side: it says between which told packets a change is.
pub struct Places {
    changes: Subscriber<Change>,
    /// Changes that are known.
    known: usize,
    /// The next change to be placed.
    next: usize,
    to_cores: Publisher<u64>,
}

impl Places {
    /// Looks at the changes that have come.
    #[inline]
    pub fn look(&mut self) {
        self.known = self.changes.published();
    }

    /// The next change without a place, as of the last [`look`](Places::look).
    #[inline]
    pub fn next(&self) -> Option<Change> {
        (self.next < self.known).then(|| self.changes.item(self.next))
    }

    /// The next change comes behind the first `told` told packets. Said before later ones are told.
    ///
    /// # Panics
    /// If there is no such change.
    pub fn place(&mut self, told: u64) {
        self.next += 1;
        self.changes.release(self.next);
        let is_given = self.to_cores.push(told);
        debug_assert!(is_given, "cores release a change after its place");
        self.to_cores.publish();
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
}

/// How far a core has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Packets that were taken from its queue.
    pub taken: u64,
    /// The number of the first of these that is not stepped.
    pub waits: Option<u64>,
    /// Told packets that are stepped: so many from the first on.
    pub told: u64,
}

impl Progress {
    /// Whether the core's own packets that come before a change are stepped.
    fn is_at(&self, change: &Change) -> bool {
        match self.waits {
            Some(seq) => seq >= change.since_seq,
            None => self.taken >= change.after,
        }
    }
}

/// One core's side. `P` is a copy of an entry's flows: cheap to clone.
pub struct Promotion<P> {
    core: u16,
    changes: Subscriber<Change>,
    /// By change, how many told packets come before.
    places: Subscriber<u64>,
    /// Changes that are known.
    known: usize,
    /// Changes whose places are known.
    placed: usize,
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
pub fn promotion<P: Clone>(cores: usize, in_hand: usize) -> (Changes, Places, Vec<Promotion<P>>) {
    let (to_all, mut changes) = broadcast(in_hand, cores + 1);
    let (to_cores, places) = broadcast(in_hand, cores);
    let of_sequencer = changes.pop().expect("one more than there are cores");
    let core = |(core, (changes, places))| Promotion {
        core: core as u16,
        changes,
        places,
        known: 0,
        placed: 0,
        own: 0,
        turn: 0,
        copies: Vec::new(),
        outgoing: VecDeque::new(),
        outboxes: (0..cores).map(|_| None).collect(),
        inboxes: (0..cores).map(|_| None).collect(),
        gone: vec![false; cores].into(),
    };
    let mut all: Vec<Promotion<P>> = changes.into_iter().zip(places).enumerate().map(core).collect();
    for from in 0..cores {
        for to in (0..cores).filter(|to| *to != from) {
            let (outbox, inbox) = ring(MAIL);
            all[from].outboxes[to] = Some(outbox);
            all[to].inboxes[from] = Some(inbox);
        }
    }
    (Changes { to_all }, Places { changes: of_sequencer, known: 0, next: 0, to_cores }, all)
}

impl<P: Clone> Promotion<P> {
    /// Looks at the changes and copies that have come. To be called after packets are received, and after it was looked how many
    /// packets were told: changes and places that were given before are among these then.
    #[inline]
    pub fn look(&mut self) {
        // In this order: a change comes before its place.
        self.placed = self.places.published();
        self.known = self.changes.published();
        self.flush();
        if self.turn < self.placed {
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
            // To a core that is gone nothing has to come.
            if let Err(message) = outbox.push(message)
                && !outbox.is_abandoned()
            {
                self.outgoing.push_front((to, message));
                return;
            }
        }
    }

    /// What is to be done now, as of the last [`look`](Promotion::look), where this core has come so far. To be asked until there
    /// is nothing.
    pub fn step(&mut self, progress: Progress) -> Option<Step<P>> {
        if self.turn < self.placed && self.places.item(self.turn) <= progress.told {
            let change = self.changes.item(self.turn);
            match change.status {
                // Its flows come to the owner's own at the time of the change: no older packet may come there any more.
                Status::Demoted if change.owner != self.core || progress.is_at(&change) => {
                    self.next_turn();
                    return Some(Step::Demote(change));
                }
                Status::Demoted => {}
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
        self.skip();
        let change = (self.own < self.known).then(|| self.changes.item(self.own))?;
        (change.status == Status::Promoted && progress.is_at(&change)).then_some(Step::Copy(change))
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
        self.places.release(self.turn);
        self.changes.release(self.own.min(self.turn));
    }

    /// Packets of this core's queue from this number on come after a change of its entries that is not carried out, and wait.
    #[inline]
    pub fn own_limit(&mut self) -> u64 {
        self.skip();
        if self.own == self.known { u64::MAX } else { self.changes.item(self.own).since_seq }
    }

    /// How many told packets can be stepped before a change is to be carried out.
    #[inline]
    pub fn told_limit(&self) -> u64 {
        if self.turn == self.placed { u64::MAX } else { self.places.item(self.turn) }
    }

    /// Whether no change is known that is not carried out.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.turn == self.known && self.own == self.known
    }

    /// Whether all that is known is carried out, and all that is to be sent is sent.
    pub fn is_settled(&self) -> bool {
        self.is_quiet() && self.outgoing.is_empty()
    }

    /// Whether a copy has to be sent that found no room, or a change waits.
    pub fn is_busy(&self) -> bool {
        !self.outgoing.is_empty() || self.turn < self.placed
    }

    /// Whether something comes even where no packets do: a copy from a core that is not gone, or to one that has no room for it.
    pub fn has_mail(&self) -> bool {
        if !self.outgoing.is_empty() {
            return true;
        }
        if self.turn == self.placed {
            return false;
        }
        let change = self.changes.item(self.turn);
        let is_here = self.copies.iter().any(|(number, _)| *number == self.turn);
        let owner = usize::from(change.owner);
        change.status == Status::Promoted && change.owner != self.core && !self.gone[owner] && !is_here
    }
}

#[cfg(all(test, feature = "loom"))]
mod model;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
