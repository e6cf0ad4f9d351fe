//! Atomics: the standard ones, or those that the model checker watches.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
