//! The flow table: a fixed number of flows, bulk look-up, nothing allocated after start. Functions
//! with the same key share one table, and one look-up: a flow has one block for all of them
//! (FAJITA §3, "aggregated state").
//!
//! ```text
//!   hash ──► bucket (one line)                     block (whole lines)
//!            ┌───────────────┬──────────┐          ┌───────┬──────┬─────────────────┬───┬─────┐
//!            │ 12 tags       │ 12 × u32 │ ───────► │ short │ hash │ deadline, state │ … │ key │
//!            │ spilled count │ indices  │          └───────┴──────┴─────────────────┴───┴─────┘
//!            └───────────────┴──────────┘          never moves while its flow lives
//! ```
//!
//! A look-up reads the bucket's line and the first line of the block whose tag matches (at full load
//! about 3 look-ups in 100 also meet a false match). That line holds 16 bytes that stand for the key
//! ([`nf::FlowKey::short`]): for IPv4 nothing else is compared. Both lines can be prefetched for a whole
//! batch: [`FlowTable::prefetch_bucket`] for every key, then [`FlowTable::candidate`], then
//! [`FlowTable::locate`].
//!
//! Each function has a [`Part`] of the block, with a deadline and a state of its own: one function's flow
//! may end while another's lives on. A block is free when no part has a state.
//!
//! **What comes out never depends on where batches were cut.** Blocks are given out in the order of
//! insertions; they come back at fixed numbers of steps ([`FlowTable::maintain`]), in an order of their
//! own, or one by one where the table is full ([`FlowTable::make_room`]). So a batch whose flows all have
//! blocks, or find free ones, may be worked on function by function: which block is whose, and which flow an
//! eviction will find, depends on nothing but the sequence of steps.
//!
//! **Expiry is decided by stamps, not by the sweep.** A state is dead from its deadline on, whether
//! or not it has been swept; the sweep, a block in eight steps and on quiet
//! lines up to 16 in one, gives memory back. Only a full table
//! can tell: an insertion looks at 16 blocks and may refuse while dead flows hold others. That, too,
//! depends on nothing but the sequence of steps.

mod ahead;
mod blocks;
mod bucket;
mod error;
mod lookup;
mod prefetch;
mod slot;
mod table;
mod watermark;

pub use ahead::Ahead;
pub use blocks::{Cell, Cells, Layout, Live, PARTS_MAX, Parcel, Part};
pub use error::OutOfMemory;
pub use lookup::{BATCH_MAX, Wanted, bits, count_of_first};
pub use memory::{Reach, prefetch};
pub use slot::Slot;
pub use table::{Flow, FlowTable, MAX_FLOWS, STEPS_PER_EPOCH, WhenFull, hash};
pub use watermark::Watermark;
