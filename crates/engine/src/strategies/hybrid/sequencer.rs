//! The sequencer: it tells all cores of the packets of promoted flows, and sends each of these to one core.
//!
//! Behind a card that steers ([`Sequencer`]) it sees no other packets. Where one thread receives all packets ([`Front`]), this steers
//! first, and sends what is not promoted to its owner.

use control::{Change, Places, Status};
use io::{Closed, Frame};
use ring::Consumer;
use strategy::Assign;
use wire::{Headers, Stamp};

use crate::path::packets::BATCH_PACKETS;
use crate::strategies::dispatch::{Dispatcher, Queues, wait_for_room};
use crate::strategies::hybrid::elephants::{Hand, NONE};
use crate::strategies::hybrid::steering::{DECISION_CHANGES, Deal, Steering};
use crate::strategies::hybrid::told::{Told, Writer};
use crate::strategies::plan::HASH_VALUES;

/// Where a packet goes, and its entry there.
#[derive(Clone, Copy, Default)]
struct Way {
    core: u16,
    entry: u16,
}

/// By packet that arrived with others, where it goes.
struct Ways {
    all: [Way; BATCH_PACKETS],
    next: usize,
}

impl Ways {
    fn new() -> Ways {
        Ways { all: [Way::default(); BATCH_PACKETS], next: 0 }
    }

    #[inline]
    fn go(&mut self, frame: &mut Frame) -> usize {
        let Way { core, entry } = self.all[self.next];
        self.next += 1;
        frame.entry = entry;
        core.into()
    }
}

/// Writes the history.
pub(super) struct Teller {
    history: Writer,
    places: Places,
    /// By entry, where it is promoted.
    slots: Box<[u8]>,
    deals: Consumer<Deal>,
    /// Which core gets which told packet.
    hand: Hand,
    /// Neither a change nor a deal comes before the packet with this number, as far as is known.
    quiet_until: u64,
}

impl Teller {
    pub(super) fn new(history: Writer, places: Places, deals: Consumer<Deal>, cores: usize) -> Teller {
        let slots = vec![NONE; HASH_VALUES].into();
        Teller { history, places, slots, deals, hand: Hand::even(cores), quiet_until: 0 }
    }

    fn has_room(&mut self, packets: usize) -> bool {
        self.history.has_room(packets)
    }

    /// Looks at the changes that have come.
    fn look(&mut self) {
        self.places.look();
        self.quiet_until = 0;
    }

    /// Places the changes that come before packets from `stamp` on: what came before was told.
    #[inline]
    fn attend(&mut self, stamp: Stamp) {
        if self.quiet_until <= stamp.seq {
            self.place(stamp);
        }
    }

    #[cold]
    fn place(&mut self, stamp: Stamp) {
        let is_due = |change: &Change| change.since_seq <= stamp.seq && change.since_ns <= stamp.time_ns;
        while let Some(change) = self.places.next().filter(is_due) {
            self.slots[usize::from(change.entry)] = match change.status {
                Status::Promoted => change.slot as u8,
                Status::Demoted => NONE,
            };
            self.places.place(self.history.count());
        }
        while let Some(deal) = self.deals.peek().copied().filter(|deal| deal.since_seq <= stamp.seq) {
            self.hand = deal.hand;
            self.deals.pop();
        }
        let next_change = self.places.next().map_or(u64::MAX, |change| change.since_seq);
        let next_deal = self.deals.peek().map_or(u64::MAX, |deal| deal.since_seq);
        self.quiet_until = next_change.min(next_deal);
    }

    /// Tells of a packet; says which core gets it. There is room.
    #[inline]
    fn tell(&mut self, stamp: Stamp, slot: u16) -> usize {
        let core = self.hand.next();
        self.history.push(Told { stamp, slot, core: core as u16 });
        core
    }
}

/// The sequencer behind a card that sends it the packets of promoted entries, and no others.
pub(super) struct Sequencer {
    teller: Teller,
    ways: Ways,
}

impl Sequencer {
    pub(super) fn new(teller: Teller) -> Sequencer {
        Sequencer { teller, ways: Ways::new() }
    }
}

impl Dispatcher for Sequencer {
    fn tells_headers(&self) -> bool {
        true
    }

    fn attend(&mut self, stamp: Stamp) {
        self.teller.look();
        self.teller.attend(stamp);
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        // First: where there was no room, and the packets go somewhere all the same, the cores find that they were not told.
        self.ways.next = 0;
        wait_for_room(queues, || self.teller.has_room(headers.len()))?;
        self.teller.look();
        for (way, frame) in self.ways.all.iter_mut().zip(frames) {
            self.teller.attend(Stamp { time_ns: u64::MAX, ..frame.stamp });
            let slot = self.teller.slots[usize::from(frame.entry)];
            debug_assert!(slot != NONE, "the card sends promoted entries");
            let core = self.teller.tell(frame.stamp, slot.into());
            *way = Way { core: core as u16, entry: slot.into() };
        }
        self.teller.history.publish(headers);
        Ok(())
    }

    #[inline]
    fn dispatch(&mut self, _: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        Ok(self.ways.go(frame))
    }
}

/// One thread that steers all packets, and is the sequencer.
pub(super) struct Front {
    hash: Box<dyn Assign>,
    steering: Steering,
    teller: Teller,
    ways: Ways,
    /// Headers of the told packets among those that arrived together.
    told: Vec<Headers>,
    /// By core, how many of the packets that arrived together go there.
    batch: Box<[u64]>,
}

impl Front {
    pub(super) fn new(hash: Box<dyn Assign>, steering: Steering, teller: Teller, cores: usize) -> Front {
        let (told, batch) = (Vec::with_capacity(BATCH_PACKETS), vec![0; cores].into());
        Front { hash, steering, teller, ways: Ways::new(), told, batch }
    }
}

impl Dispatcher for Front {
    fn tells_headers(&self) -> bool {
        true
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        let Front { hash, steering, teller, ways, told, batch } = self;
        let changes = headers.len() * DECISION_CHANGES;
        // First, as above.
        ways.next = 0;
        wait_for_room(queues, || teller.has_room(headers.len()) && steering.has_room(changes))?;
        batch.fill(0);
        for (way, (headers, frame)) in ways.all.iter_mut().zip(headers.iter().zip(frames)) {
            let entry = hash.entry(headers);
            let steered = steering.steer(entry, frame.stamp, |owner| queues.sent(owner) + batch[owner]);
            if steered.is_decided {
                teller.look();
                teller.attend(frame.stamp);
            }
            let (core, entry) = match steered.place {
                Ok(owner) => (owner, entry),
                Err(slot) => {
                    told.push(*headers);
                    (teller.tell(frame.stamp, slot), slot)
                }
            };
            batch[core] += 1;
            *way = Way { core: core as u16, entry };
        }
        teller.history.publish(told);
        told.clear();
        Ok(())
    }

    #[inline]
    fn dispatch(&mut self, _: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        Ok(self.ways.go(frame))
    }
}
