//! How a chain is run on several cores: one folder for each strategy, and one line in [`ALL`].
//!
//! | folder or file | what it is |
//! |---|---|
//! | `single`, `rss`, `rsspp`, `dyssect`, `shared`, `scr`, `hybrid`, `auto` | the strategies |
//! | `info` | what a strategy says of itself ([`StrategyInfo`]) |
//! | `plan` | what a strategy does ([`Strategy`]), and a chain's strategy with all that follows ([`Plan`](crate::Plan)) |
//! | `home` | flows go back to where they were at first, ahead of what takes over |
//! | `dispatch` | who sends packets to the cores ([`Dispatcher`], [`Team`]) |
//! | `orders` | what a dispatcher tells one core, such as to send an entry's flows |
//! | `ingress`, `fragments` | what sees every packet ahead of the dispatcher, and follows datagrams |
//! | `hashing`, `two_cards` | for strategies that hash: which fields, and a card on each side |
//! | `refusal`, `limits` | why a chain cannot run as asked |
//! | `account` | what a strategy has to say of itself while it runs: who has what, what it decided last, and why |
//! | `card` | what cores tell a card at interfaces that looks flows up |
//! | `changing` | what a strategy is that has others run the chain, one after the other |
//! | `succession` | what a chain goes on with where it takes over from another |
//! | `egress` | in which order packets leave |

pub(crate) mod account;
mod auto;
pub(crate) mod card;
pub(crate) mod changing;
pub(crate) mod dispatch;
mod dyssect;
pub(crate) mod egress;
pub(crate) mod fragments;
mod hashing;
mod home;
mod hybrid;
pub(crate) mod info;
pub(crate) mod ingress;
pub(crate) mod limits;
mod orders;
pub(crate) mod plan;
pub(crate) mod refusal;
mod rss;
pub(crate) mod rsspp;
pub(crate) mod scr;
mod shared;
mod single;
pub(crate) mod succession;
mod two_cards;

pub use auto::candidates::Candidates;
pub use card::{CardLink, CardUpdate};
pub use changing::{Change, Changes, Changing, Decided, Phase, Until};
pub use control::rates;
pub use dispatch::{
    Dispatcher, OwnTeam, Queues, Rebalancer, Steer, Steered, SteeredTeam, Table, TableError, Team,
};
pub use dyssect::controller::ShardController;
pub use egress::Replayed;
pub use hashing::layout as sharded;
pub use info::StrategyInfo;
pub use ingress::Ingress;
pub use plan::{Layout, Shards, Solving, States, Strategy};

/// One core: what every other strategy must equal.
pub const SINGLE: &dyn Strategy = &single::Single;
/// Receive-side scaling: a hash of header fields picks the core; each core has private states.
pub const RSS: &dyn Strategy = &rss::Rss;
/// Receive-side scaling with an indirection table that follows the load: flows migrate between cores.
pub const RSSPP: &dyn Strategy = &rsspp::Rsspp;
/// Shards migrate with their tables, and cores step some of each other's flows.
pub const DYSSECT: &dyn Strategy = &dyssect::Dyssect;
/// Packets go to the cores in turn, and all cores share each flow's state, under locks.
pub const SHARED: &dyn Strategy = &shared::Shared;
/// State-compute replication: packets go to the cores in turn, and each core steps all of them.
pub const SCR: &dyn Strategy = &scr::Scr;
/// State-compute replication without a sequencer: cores take packets from one queue in turns.
pub const SCR_TURNS: &dyn Strategy = &scr::turns::ScrTurns;

/// Flows are spread as under `rss`, but for the largest: these are replicated as under `scr`.
pub const HYBRID: &dyn Strategy = &hybrid::Hybrid;

/// Others run the chain, one after the other: which, and on how many cores, follows what is measured.
pub const AUTO: &dyn Strategy = &auto::Auto;

/// Every strategy. [`AUTO`] may choose those with a [rate model](StrategyInfo::rates).
pub const ALL: [&dyn Strategy; 9] = [SINGLE, SHARED, RSS, RSSPP, DYSSECT, SCR, SCR_TURNS, HYBRID, AUTO];

/// Those of [`ALL`] that run a chain themselves, from the first packet to the last.
pub fn steady() -> Vec<&'static dyn Strategy> {
    ALL.into_iter().filter(|strategy| !strategy.info().has_others_run).collect()
}
