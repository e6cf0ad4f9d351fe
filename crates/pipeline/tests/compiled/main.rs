//! Compiled programs on the models give what the reference gives.

mod adverse;
mod chained;
mod examples;
mod mutants;
mod operations;
mod planted;
mod ports;
mod random;
mod support;
