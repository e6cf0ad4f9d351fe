//! A card on each side of a chain that has two: both hash the inside end of a packet.

use std::sync::Arc;

use strategy::{Assign, Move};
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::sides::Sides;

/// With a card on each side, where a function of the chain stands between the two.
pub(crate) fn on_both_sides(assign: impl Assign + 'static, chain: &Chain) -> Box<dyn Assign> {
    match &chain.sides {
        Some(sides) if chain.has_between() => Box::new(Sided { inside: assign, sides: Arc::clone(sides) }),
        _ => Box::new(assign),
    }
}

/// A card on each side: one hashes what the fields say, the one outside the mirrored fields.
struct Sided<A> {
    inside: A,
    sides: Arc<Sides>,
}

impl<A: Assign> Assign for Sided<A> {
    fn entry(&self, headers: &Headers) -> u16 {
        self.inside.entry(&self.sides.seen_from_inside(headers))
    }

    fn core(&mut self, entry: u16) -> usize {
        self.inside.core(entry)
    }

    fn moves(&mut self, stamp: Stamp) -> &[Move] {
        self.inside.moves(stamp)
    }
}
