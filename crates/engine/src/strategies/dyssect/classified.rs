//! Flows with priority are in buckets of their own, so that whatever goes by buckets tells them apart: tables, pools, moves.
//!
//! ```text
//!   without classes:  | bucket (6 bits)             | shard |
//!   with classes:     | priority | bucket (5 bits)  | shard |
//! ```
//!
//! The first buckets are offloaded first, so those of the upper half never are ([`control::REGULAR_BUCKETS`]).

use nf::prefix::PrefixSet;
use strategy::{Assign, HashFields, Rss};
use wire::{Fields, Headers};

use crate::chain::{Chain, Classes};

/// A hash whose highest bit says whether a packet has priority.
pub(super) struct Classified {
    rss: Rss,
    hashed: HashFields,
    classes: Classes,
    /// Addresses that stand for any host inside. Which flow gets a port of theirs is said by the hash of that port, as everywhere:
    /// so some are for flows with priority, and the answer comes to the same bucket.
    external: PrefixSet,
}

impl Classified {
    /// Over a hash of these fields, in this chain.
    pub(super) fn new(rss: Rss, hashed: HashFields, chain: &Chain) -> Classified {
        let external = match &chain.sides {
            Some(sides) if chain.has_between() && hashed.fields().contains(Fields::SRC_ADDR) => {
                sides.external.clone()
            }
            _ => PrefixSet::default(),
        };
        Classified { rss, hashed, classes: chain.classes.clone(), external }
    }
}

impl Assign for Classified {
    fn entry(&self, headers: &Headers) -> u16 {
        let entry = self.rss.entry(headers);
        if self.external.contains(headers.src) {
            return entry;
        }
        let half = self.rss.indirection().len() / 2;
        let of_priority = if self.classes.has_priority(self.hashed, headers) { half } else { 0 };
        (usize::from(entry) % half + of_priority) as u16
    }

    fn core(&mut self, entry: u16) -> usize {
        self.rss.core(entry)
    }
}
