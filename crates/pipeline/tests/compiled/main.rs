//! Compiled programs on the models give what the reference gives.

mod adverse;
mod chained;
mod examples;
mod hardware;
mod mutants;
mod operations;
mod planted;
mod ports;
mod random;
mod support;
#[path = "../../../p4/tests/tree/mod.rs"]
mod tree;
mod trees;

// The tree's interpreter is a test of that crate, and names it so.
extern crate p4 as paceline_p4;
