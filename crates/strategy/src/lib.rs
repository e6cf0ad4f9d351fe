//! How packets are spread over cores.
//!
//! A strategy differs from another only in which core gets a packet ([`Assign`]), what rides with
//! the packet, and how a core reaches state. Those here need nothing to ride along. [`Strategy::Single`]
//! and [`Strategy::Rss`] give each core private state; under [`Strategy::Shared`] all cores have one.
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

mod assign;
mod hash_fields;
mod rsspp;
mod spray;
mod toeplitz;

pub use assign::{Assign, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Move, Rss, Single};
pub use hash_fields::{Cause, Conflict, FunctionShape, HashFields};
pub use rsspp::{Every, Rebalancing, RssPlusPlus};
pub use spray::Spray;
pub use toeplitz::{KEY_BYTES, SYMMETRIC_KEY, Toeplitz};

/// A way to run one chain on several cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// One core: what every other strategy must equal.
    Single,
    /// Receive-side scaling: a hash of header fields picks the core; each core has private state.
    Rss,
    /// The same with an indirection table that follows the load: flows go from core to core.
    RssPlusPlus,
    /// Packets go to the cores in turn, and all cores share each flow's state, under locks.
    Shared,
    /// State-compute replication: packets go to the cores in turn, and each core steps all of them.
    Scr,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Strategy; 5] =
        [Strategy::Single, Strategy::Shared, Strategy::Rss, Strategy::RssPlusPlus, Strategy::Scr];

    /// What command lines and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Single => "single",
            Strategy::Rss => "rss",
            Strategy::RssPlusPlus => "rsspp",
            Strategy::Shared => "shared",
            Strategy::Scr => "scr",
        }
    }

    /// One line for `--help`.
    pub fn summary(self) -> &'static str {
        match self {
            Strategy::Single => "one core; what every other strategy is compared with",
            Strategy::Rss => "receive-side scaling: packets go to cores by a hash of their headers",
            Strategy::RssPlusPlus => {
                "RSS++: the same, and hashes with their flows go from loaded cores to others"
            }
            Strategy::Shared => "packets go to cores in turn; all share one state, under locks, in no order",
            Strategy::Scr => {
                "state-compute replication: packets go to cores in turn, and each core steps the history of all"
            }
        }
    }
}
