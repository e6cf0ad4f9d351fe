//! What cores count under `hybrid`, beside values of the hash that come and go.

use crate::path::moves::Counter;

pub(super) static PROMOTIONS: Counter =
    Counter { name: "promotions", unit: "promotion", help: "of a hash with its flows to all cores" };

pub(super) static DEMOTIONS: Counter =
    Counter { name: "demotions", unit: "demotion", help: "of a hash with its flows to one core" };

/// All of them.
pub(in crate::strategies) const COUNTERS: &[&Counter] = &[&PROMOTIONS, &DEMOTIONS];
