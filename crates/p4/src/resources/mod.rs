//! What a program takes of a chip: memories, hash units, ALUs, keys, containers of the header vector, the ring.
//!
//! | module | what it is |
//! |---|---|
//! | [`profile`] | a chip: how much of each there is, each number with its source |
//! | [`need`] | how much each table, state and hash takes |
//! | [`vector`] | which fields go through the stages, and in which containers |
//! | [`plan()`] | a program placed on a chip, or what does not fit and by how much |
//! | [`check`] | a judge of plans that shares no code with what makes them |
//!
//! [`allocate::fit`](crate::passes::allocate::fit) moves and splits what is too much for a stage.

pub mod check;
pub mod need;
pub mod plan;
pub mod profile;
pub mod vector;

pub use plan::{Plan, Unfit, plan};
pub use profile::Profile;
