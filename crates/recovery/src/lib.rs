//! How replicas that lose packets agree on which there were (SCR, NSDI'25 §3.4 and Appendix B).
//!
//! Each packet carries its own item and those of some packets before it, and goes to one core. Packets get lost on
//! the way. A core writes what it got, and what it did not, into a log that all cores can read, and gets what it
//! lost from the others' logs. So **an item that any core got is stepped by all, in order and once; one that no
//! core got, by none**.
//!
//! | item | what it is |
//! |---|---|
//! | [`log()`] | a log of items by sequence number: one [`Writer`], any number of [`Reader`]s, no lock, no waiting |
//! | [`Replica`] | one core's part in the protocol |
//! | [`Handover`] | how the state of a replica that is up to date gets to one that lags by more than the logs |
//! | [`Gaps`] | what stands in its place where nothing is recovered: what is missed is counted |
//!
//! ```
//! # use paceline_recovery as recovery;
//! use recovery::{Advance, Arrival, replicas};
//!
//! let mut cores = replicas(2, 1024, 4);
//! let (a, b) = cores.split_at_mut(1);
//! let items: [&[u8]; 4] = [b"zero", b"one.", b"two.", b"3..."];
//! let mut stepped = Vec::new();
//!
//! // Core 0 gets packet 0 and loses packet 2, so that packet 1, too, passes it by.
//! a[0].receive(0, [items[0]].into_iter(), 64, |seq, _| stepped.push(seq));
//! // A flush: the sequencer is at 4, and these are the last items.
//! let (_, advance) = a[0].receive(3, [items[3]].into_iter(), 64, |seq, _| stepped.push(seq));
//! assert!(matches!(advance, Advance::Waiting { seq: 1, .. }));
//!
//! // Core 1 gets packets 1 and 3, with the item before each. In its log core 0 finds 1 and 2.
//! b[0].receive(0, [items[0], items[1]].into_iter(), 64, |_, _| ());
//! b[0].receive(2, [items[2], items[3]].into_iter(), 64, |_, _| ());
//! assert_eq!(a[0].advance(64, |seq, _| stepped.push(seq)), Advance::CaughtUp);
//! assert_eq!(stepped, [0, 1, 2, 3]);
//! ```
//!
//! `docs/recovery.md` has the argument, what is not promised, and what it costs. The log and the protocol are
//! checked under [loom](https://docs.rs/loom) (`src/model.rs`) and in simulations with seeds (`src/simulation.rs`).
#![forbid(unsafe_code)]

mod cores;
mod gaps;
mod handover;
mod log;
mod replica;
mod sync;

pub use cores::{Cores, MAX_CORES};
pub use gaps::Gaps;
pub use handover::{Handover, handovers};
pub use log::{Found, Reader, SEQ_END, Writer, log};
pub use replica::{Advance, Arrival, Counters, Replica, replicas};

#[cfg(test)]
mod core_loop;
#[cfg(all(test, feature = "loom"))]
mod model;
#[cfg(all(test, not(feature = "loom")))]
mod simulation;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
