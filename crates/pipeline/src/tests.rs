//! Models against the reference, and against each other.

mod baselines;
mod planted;
mod programs;
mod rapid;
mod reports;
mod shared;
mod support;
