//! How replicas that lose packets agree on which there were.
#![forbid(unsafe_code)]

mod cores;
mod gaps;
mod log;
mod replica;
mod sync;

pub use cores::{Cores, MAX_CORES};
pub use gaps::Gaps;
pub use log::{Found, Reader, SEQ_END, Writer, log};
pub use replica::{Advance, Arrival, Counters, Replica, replicas};

#[cfg(test)]
mod core_loop;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod simulation;
#[cfg(all(test, not(loom)))]
mod tests;
