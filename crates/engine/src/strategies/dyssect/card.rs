//! A card that looks flows up: it tells a core in which blocks the states of a packet's flow are (§IV-C).
//!
//! Over a capture the card is simulated: [`FlowCard`]. On interfaces it is outside, and what cores tell goes there by a
//! [`CardLink`].
//!
//! ```text
//!   packet ──► FlowCard: has its 5-tuple a rule? ──► reference, before the packet ──► core: goes straight to the blocks
//!                  ▲                                                                   │
//!                  └──── updates: 5-tuple, reference (none: taken back) ◄───────────────┘
//! ```
//!
//! A core tells the card of one packet in a batch that came without a reference, so that a flow is the sooner told of the larger it
//! is; and of those whose reference was wrong or whose flow has ended. An update that is late, or finds no room, does no harm: whatever
//! a reference says, the key decides ([`path::referred`](crate::path::referred)).

use io::{Frame, Port, Reference};
use nf::{FiveTuple, FlowKey, hash_bytes};
use ring::{Consumer, Producer, ring};
use table::Slot;
use wire::Headers;
use zerocopy::IntoBytes;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::packets::{BATCH_PACKETS, all_bits, bits};
use crate::path::referred::{GROUPS, reference_to};
use crate::strategies::card::{CardLink, CardUpdate};

/// Rules among which a 5-tuple may be.
const WAYS: usize = 8;

/// Updates of a core that the card has not seen; others are lost.
const UPDATES: usize = 256;

/// Packets from one look at updates to the next.
const LOOK_EVERY: u64 = 64;

/// Wrong references of a batch that the card is told of.
const WRONG_TOLD: usize = 4;

/// A rule of the card.
#[derive(Clone, Copy)]
struct Rule {
    key: FiveTuple,
    /// None: the rule is free.
    reference: Reference,
    /// Packets that it was of, of which those long ago count for less.
    packets: u32,
}

/// The card's rules: sets of eight, of which the key's hash says one. A flow that finds its set full has all others of the set count
/// for half, and takes the place of one that then counts for nothing. So the largest flows stay.
pub(super) struct FlowCard {
    rules: Box<[Rule]>,
    /// Rules of a set.
    ways: usize,
    updates: Vec<Consumer<CardUpdate>>,
    packets: u64,
}

/// A core's side of it.
pub(super) struct Referring {
    updates: Producer<CardUpdate>,
    references: Box<[Reference; BATCH_PACKETS]>,
    batches: usize,
    /// Packets whose flow was where the card said, and those whose flow was not.
    pub(super) right: u64,
    pub(super) wrong: u64,
}

/// A card of at most `flows` rules and its links to cores; none if there is no rule. One that is outside is not made here: cores are
/// linked to it.
pub(super) fn card(
    flows: usize,
    cores: usize,
    outside: Option<&CardLink>,
) -> (Option<FlowCard>, Vec<Option<Referring>>) {
    if flows == 0 {
        return (None, (0..cores).map(|_| None).collect());
    }
    let ways = WAYS.min(flows);
    let key = FiveTuple::of(&Headers::default());
    let free = Rule { key, reference: Reference::NONE, packets: 0 };
    let (links, updates) = (0..cores).map(|_| ring(UPDATES)).unzip::<_, _, Vec<_>, Vec<_>>();
    let referring = |updates| {
        let references = Box::new([Reference::NONE; BATCH_PACKETS]);
        Some(Referring { updates, references, batches: 0, right: 0, wrong: 0 })
    };
    let links = links.into_iter().map(referring).collect();
    if let Some(outside) = outside {
        outside.begin(updates);
        return (None, links);
    }
    let rules = vec![free; flows / ways * ways].into();
    (Some(FlowCard { rules, ways, updates, packets: 0 }), links)
}

impl FlowCard {
    /// What the card says of the next packet's flow.
    pub(super) fn refer(&mut self, headers: &Headers) -> Reference {
        if self.packets.is_multiple_of(LOOK_EVERY) {
            self.look_at_updates();
        }
        self.packets += 1;
        let key = FiveTuple::of(headers);
        let Some(rule) = self.set(&key).iter_mut().find(|rule| rule.is_of(&key)) else {
            return Reference::NONE;
        };
        rule.packets = rule.packets.saturating_add(1);
        rule.reference
    }

    fn look_at_updates(&mut self) {
        for core in 0..self.updates.len() {
            // As many as there are now: a core goes on telling.
            for _ in 0..self.updates[core].len() {
                if let Some(update) = self.updates[core].pop() {
                    self.update(update);
                }
            }
        }
    }

    fn update(&mut self, CardUpdate { flow: key, reference }: CardUpdate) {
        let set = self.set(&key);
        if let Some(rule) = set.iter_mut().find(|rule| rule.is_of(&key)) {
            rule.reference = reference;
            return;
        }
        if reference == Reference::NONE {
            return;
        }
        let mut place = set.iter_mut().position(|rule| rule.reference == Reference::NONE);
        if place.is_none() {
            set.iter_mut().for_each(|rule| rule.packets /= 2);
            place = set.iter().position(|rule| rule.packets == 0);
        }
        if let Some(place) = place {
            set[place] = Rule { key, reference, packets: 1 };
        }
    }

    fn set(&mut self, key: &FiveTuple) -> &mut [Rule] {
        let sets = self.rules.len() / self.ways;
        let set = ((u128::from(hash_bytes(key.as_bytes(), 0)) * sets as u128) >> 64) as usize;
        &mut self.rules[set * self.ways..(set + 1) * self.ways]
    }
}

impl Rule {
    fn is_of(&self, key: &FiveTuple) -> bool {
        self.reference != Reference::NONE && self.key == *key
    }
}

impl Referring {
    /// Takes the batch, whose headers are parsed, through the chain: packets with a reference past the look-ups of their flows.
    pub(super) fn step(
        &mut self,
        chain: &mut ChainCore,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        // Where no card listens there is none.
        if self.updates.is_abandoned() {
            return chain.process(batch, port, laps);
        }
        let references = &mut self.references[..batch.len()];
        port.references(&batch.frames, references);
        for (place, (_, by_shard)) in chain.shard_tables().take(GROUPS).enumerate() {
            by_shard.refer(&batch.frames, references, place);
        }
        chain.process(batch, port, laps);
        let (mut said, mut wrong) = (0, 0);
        for (_, by_shard) in chain.shard_tables().take(GROUPS) {
            let of_group = by_shard.said();
            (said, wrong) = (said | of_group.0, wrong | of_group.1);
        }
        self.right += u64::from((said & !wrong).count_ones());
        self.wrong += u64::from(wrong.count_ones());
        self.batches += 1;
        // Any packet, whatever pattern batches have (Knuth, TAOCP vol. 3, §6.4).
        let drawn = (self.batches.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % batch.len().max(1);
        let sample = 1 << drawn;
        for packet in bits(wrong).take(WRONG_TOLD).chain(bits(sample & !said & all_bits(batch.len()))) {
            self.tell(&batch.frames[packet], (packet, wrong >> packet & 1 == 1), chain, port);
        }
    }

    /// Tells the card where the flow of a packet of the batch is.
    fn tell(
        &mut self,
        frame: &Frame,
        (packet, is_known): (usize, bool),
        chain: &mut ChainCore,
        port: &dyn Port,
    ) {
        let mut slots = [Slot::NONE; GROUPS];
        for (slot, (_, by_shard)) in slots.iter_mut().zip(chain.shard_tables()) {
            *slot = by_shard.found(packet, frame.entry);
        }
        let reference = reference_to(slots);
        if reference == Reference::NONE && !is_known {
            return;
        }
        // As the card saw it: its bytes are as they were received until edits are applied.
        let mut headers = Headers::default();
        chain.checks.parse_into(frame.link, port.bytes(frame), frame.wire_len, &mut headers);
        // Without room the card hears of the flow another time.
        let _ = self.updates.push(CardUpdate { flow: FiveTuple::of(&headers), reference });
    }
}

#[cfg(test)]
mod tests;
