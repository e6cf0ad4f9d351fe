//! Models against the reference, and against each other.

mod baselines;
mod support;
