//! What the cores of a run count, published while they work, and read without disturbing them.
//!
//! ```text
//!  core 0 ── plain stores ──► its block ──┐
//!  core 1 ── plain stores ──► its block ──┼── relaxed loads ──► Snapshot ──► Prometheus text ──► HTTP
//!  core … ── plain stores ──► its block ──┘                                         │
//!                                                       paceline top ◄── samples ◄──┘
//! ```
//!
//! Each core owns one block on cache lines of its own, and nobody else writes there: so publishing is a
//! store for each counter, without a lock or a read-modify-write, and reading takes nothing from a core
//! but the line for a moment. A counter never runs back. Counters are read one by one: a reader may find
//! one of them a batch ahead of another.
//!
//! | module | what it is |
//! |---|---|
//! | [`Telemetry`], [`CoreWriter`] | the blocks, and the end of one that its core writes to |
//! | [`CoreCounts`], [`FunctionCounts`] | what is counted |
//! | [`Snapshot`] | all of it at one time, as plain data |
//! | [`prometheus`] | a snapshot as text, and the text as samples |
//! | [`MetricsServer`], [`fetch`] | both ends of an HTTP request for it |
//!
//! Every metric is described in `docs/telemetry.md`.

mod blocks;
mod counts;
mod fetch;
mod layout;
pub mod prometheus;
mod server;
mod snapshot;

pub use blocks::{CoreWriter, Telemetry};
pub use counts::{CoreCounts, FunctionCounts, UNKNOWN};
pub use fetch::{FetchError, fetch};
pub use layout::{FunctionLayout, Layout};
pub use server::MetricsServer;
pub use snapshot::{
    ChoosingSnapshot, CoreSnapshot, FunctionSnapshot, InterfaceSnapshot, ObjectiveSnapshot,
    PromotionSnapshot, RuleSnapshot, ShardSnapshot, Snapshot, StrategySnapshot, UpdateSnapshot,
};
