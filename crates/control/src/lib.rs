//! Which core has which flows, and how flows migrate between cores.
//!
//! | item | what it is |
//! |---|---|
//! | [`Balancer`] | which entries of the indirection table should go to which core (RSS++) |
//! | [`Placement`] | which core steps which shard, and what of it is offloaded to whom (Dyssect) |
//! | [`Migration`] | how an entry's flows get there: without a lock, a loss, or a packet out of order |
//! | [`Promotion`] | how an entry's flows come to be replicated on all cores, and go back to one |
//! | [`Costs`], [`busiest_shares`] | what a number of cores will do: the model of `plan` and of `auto` |
//! | [`Chooser`] | which strategy runs a chain, and on how many cores |
//! | [`Offloading`] | how another core steps some of a shard's flows, and stops doing so (Dyssect) |
//!
//! An *entry* is one of the indirection table, through which a card spreads packets over cores; here it stands
//! for all flows whose hash points to it.
#![forbid(unsafe_code)]

mod balancer;
mod choosing;
mod migration;
mod offloading;
mod placement;
mod promotion;
mod sync;
mod throughput;

pub use balancer::Balancer;
pub use choosing::{Choice, Chooser, Decision, Epoch, Spreading, Work};
pub use migration::{Message, Migration, Order, Orders, migration};
pub use offloading::{BUCKETS, Event, Offloading, Route, Todo, offloading};
pub use placement::{Buckets, Placement, utilisation_for};
pub use promotion::{Change, Changes, Places, Progress, Promotion, Status, Step, promotion};
pub use throughput::{Costs, busiest_shares};

#[cfg(all(test, feature = "loom"))]
mod model;
