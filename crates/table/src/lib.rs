//! The flow table: a fixed number of flows, bulk look-up, nothing allocated after start.
//!
//! ```text
//!   hash ──► bucket (one line)                      block (its first line holds the key)
//!            ┌───────────────┬──────────┐          ┌─────┬──────────┬──────┬───────┐
//!            │ 12 tags       │ 12 × u32 │ ───────► │ key │ deadline │ hash │ state │
//!            │ spilled count │ indices  │          └─────┴──────────┴──────┴───────┘
//!            └───────────────┴──────────┘          never moves while its flow lives
//! ```
//!
//! A look-up reads the bucket's line and the line of the block whose tag matches
//! (at full load about 3 look-ups in 100 also meet a false match). Both can be prefetched for a whole batch:
//! [`FlowTable::prefetch_bucket`] for every key, then [`FlowTable::prefetch_block`] for every key,
//! then [`FlowTable::find`] one by one.
//!
//! **What comes out never depends on where batches were cut.** Prefetching is only a hint; look-ups,
//! insertions, expiry and eviction happen one step at a time, in step order, and depend on nothing
//! but the sequence of steps. So two replicas that see the same steps in different batches hold the
//! same flows.
//!
//! **Expiry is decided by stamps, not by the sweep.** A flow is dead from its deadline on, whether
//! or not its block has been reclaimed; the sweep, one block in four steps, gives memory back. Only a
//! full table can tell: an insertion looks at 16 blocks and may refuse while dead flows hold others.
//! That, too, depends on nothing but the sequence of steps.

mod bucket;
mod memory;
mod prefetch;
mod table;

pub use table::{Counters, FlowTable, Insert, MAX_FLOWS, OutOfMemory, Slot, WhenFull};
