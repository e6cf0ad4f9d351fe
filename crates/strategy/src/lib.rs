//! How packets are spread over cores.
//!
//! Which core gets a packet ([`Assign`]) is one part of a strategy. Where states are, and what cores hear beside
//! their packets, are the others: see `engine::strategies`.
//!
//! Which header fields `rss` hashes is never asked: [`HashFields::derive`] finds the fields that
//! keep every key of the chain on one core, or says which two functions cannot agree on any.
//!
//! ```
//! # use paceline_strategy as strategy;
//! use nf::{Connection, FlowKey, SrcAddr};
//! use strategy::{FunctionShape, HashFields};
//! use wire::Fields;
//!
//! let tracker = FunctionShape { name: "conntrack", sharding: Connection::SHARDING, edits: Fields::empty(), has_sides: false };
//! let scrubber = FunctionShape { name: "ddos", sharding: SrcAddr::SHARDING, edits: Fields::empty(), has_sides: false };
//!
//! let fields = HashFields::derive(&[tracker]).unwrap();
//! assert_eq!(fields.to_string(), "source address, destination address, source port, destination port");
//! let conflict = HashFields::derive(&[tracker, scrubber]).unwrap_err();
//! assert_eq!((conflict.first.name, conflict.second.name), ("conntrack", "ddos"));
//! ```

mod active;
mod assign;
mod hash_fields;
mod pins;
mod rebalancing;
mod rsspp;
mod spray;
mod toeplitz;
mod tunables;

pub use active::ActiveCores;
pub use assign::{Assign, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Move, Rss, Single};
pub use hash_fields::{Cause, Conflict, FunctionShape, HashFields};
pub use pins::Pins;
pub use rebalancing::{Every, Rebalancing, Schedule};
pub use rsspp::{Look, RssPlusPlus, Watcher};
pub use spray::Spray;
pub use toeplitz::{KEY_BYTES, SYMMETRIC_KEY, Toeplitz};
pub use tunables::{NotTunable, Tunable, Tunables};
