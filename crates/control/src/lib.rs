//! Which core has which flows, and how flows migrate between cores.
//!
//! | item | what it is |
//! |---|---|
//! | [`Balancer`] | which entries of the indirection table should go to which core (RSS++) |
//! | [`Placement`] | which core steps which shard, and which part of it which other core steps (Dyssect) |
//! | [`Solver`] | who finds a placement, and by when: greedy, or exact with the feature `highs` |
//! | [`SolverKind`] | those that a run can have beside the greedy one |
//! | [`Migration`] | how an entry's flows get there: without a lock, a loss, or a packet out of order |
//! | [`Promotion`] | how an entry's flows come to be replicated on all cores, and go back to one |
//! | [`Burden`] | which flows these should be, and which should go to another core instead |
//! | [`Costs`], [`busiest_shares`] | what a number of cores will do: the model of `plan` and of `auto` |
//! | [`Chooser`] | which strategy runs a chain, and on how many cores |
//! | [`Offloading`] | how another core steps some of a shard's flows, and stops doing so (Dyssect) |
//!
//! An *entry* is one of the indirection table, through which a card spreads packets over cores; here it stands
//! for all flows whose hash points to it.
#![forbid(unsafe_code)]

mod balancer;
mod choosing;
#[cfg(all(feature = "highs", not(feature = "loom")))]
mod highs;
mod migration;
mod offloading;
mod placement;
mod promotion;
pub mod rates;
mod relief;
mod solver;
mod solvers;
mod split;
mod sync;
mod throughput;

pub use balancer::Balancer;
pub use choosing::{Choice, Chooser, Decision, Epoch, Span, Work};
#[cfg(all(feature = "highs", not(feature = "loom")))]
pub use highs::Highs;
pub use migration::{Message, Migration, Order, Orders, migration};
pub use offloading::{Event, Offloading, Route, Todo, offloading};
pub use placement::{Buckets, Caps, Placement, REGULAR_BUCKETS, utilisation_for};
pub use promotion::{Change, Changes, Places, Progress, Promotion, Status, Step, promotion};
pub use rates::RateModel;
pub use relief::{Burden, NoRelief, Part, Relief, replay_sixteenths};
pub use solver::{Answer, Goal, Greedy, Guarded, Question, Solver};
pub use solvers::{NoWorse, SolverKind};
pub use split::{BUCKETS, Split};
pub use throughput::{Costs, busiest_shares, promoted_shares, shards_share};

#[cfg(all(test, feature = "loom"))]
mod model;
