//! What cores count under `dyssect`, beside shards that come and go.

use crate::path::moves::Counter;

pub(super) static PARTS_LENT: Counter = Counter {
    name: "parts_lent",
    unit: "time",
    help: "flows of a shard were lent to a core that steps them for another",
};

pub(super) static OFFLOADED_PACKETS: Counter = Counter {
    name: "offloaded_packets",
    unit: "packet",
    help: "stepped for another core, which had lent their flows",
};

pub(super) static BLOCKED: Counter = Counter {
    name: "blocked",
    unit: "time",
    help: "there was no room to hand packets on to such a core: they waited",
};

pub(super) static REFERRED_PACKETS: Counter = Counter {
    name: "referred_packets",
    unit: "packet",
    help: "found their flow where the card had said, without a look-up",
};

pub(super) static WRONG_REFERENCES: Counter = Counter {
    name: "wrong_references",
    unit: "packet",
    help: "of which the card was wrong: their flow was elsewhere, or ended, and was looked up",
};

/// All of them.
pub(in crate::strategies) const COUNTERS: &[&Counter] =
    &[&PARTS_LENT, &OFFLOADED_PACKETS, &BLOCKED, &REFERRED_PACKETS, &WRONG_REFERENCES];
