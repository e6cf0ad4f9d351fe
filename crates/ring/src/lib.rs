//! A bounded ring from one thread to one other, and a log that several threads read: the only ways in which packets, and
//! whatever else goes from core to core, pass between threads.
//!
//! ```
//! # use paceline_ring as ring;
//! let (mut producer, mut consumer) = ring::ring(4);
//! let mut packets = 1..=6;
//! assert_eq!(producer.push_from(&mut packets), 4);
//! let mut batch = Vec::with_capacity(64);
//! assert_eq!(consumer.pop_into(&mut batch, 64), 4);
//! assert_eq!(batch, [1, 2, 3, 4]);
//!
//! producer.push_from(&mut packets);
//! drop(producer);
//! assert!(consumer.is_abandoned());
//! assert_eq!(consumer.pop(), Some(5));
//! ```
//!
//! ```text
//!   slots    ┌───┬───┬───┬───┬───┬───┬───┬───┐
//!            │   │   │ c │ d │ e │   │   │   │    a power of two of them
//!            └───┴───┴───┴───┴───┴───┴───┴───┘
//!                      ▲           ▲
//!             head: popped so far  tail: pushed so far
//!             the consumer's       the producer's
//! ```
//!
//! Both indices count up for ever (and may run over: the number of slots divides the range), each is
//! written by one side alone, and each lies on cache lines of its own. A side looks at the other's index
//! only where the value it saw last does not do: a stale one says too few items, or too few free slots,
//! never too many. A batch is published by one store, however many items it has.
//!
//! **A side that sees that the other is gone has also seen all it did before.** So a consumer that finds
//! [`Consumer::is_abandoned`] and *then* finds the ring empty has seen every item; asked in the other
//! order, an item may come in between. Items that nobody popped are dropped with the ring, when both ends
//! are gone.
//!
//! Nothing is allocated after [`ring()`], and nothing waits: what to do while a ring is full or empty is
//! the caller's decision.
//!
//! Throughput is that of the `rtrb` crate (1.03 and 1.05 times its medians in two runs, with a spread
//! within each far above that: 33 to 39 million items of 40 bytes a second in chunks of 64, on two cores
//! of a busy Intel Xeon virtual machine):
//!
//! ```sh
//! cargo run --release -p paceline-ring --example throughput
//! ```
//!
//! What several threads read is in a [`log()`], which has columns, and which several threads may write, in the order of the
//! numbers that they were given. A [`broadcast()`] is one with one column and one writer.
//!
//! With feature `loom` atomics and slots are those of the [loom](https://docs.rs/loom) model checker, so
//! that a protocol over rings can be checked together with them.

#![allow(unsafe_code)]

mod broadcast;
mod consumer;
mod log;
mod producer;
mod shared;
mod sync;

pub use broadcast::{Publisher, Subscriber, broadcast};
pub use consumer::Consumer;
pub use log::{Column, Reader, Tickets, Writer, log};
pub use producer::Producer;

use shared::Shared;

/// Makes a ring of at least `capacity` slots, rounded up to a power of two, and returns its two ends.
///
/// # Panics
/// If `capacity` is 0, or so large that there is no such power of two or no memory for it.
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity > 0, "a ring has at least one slot");
    let shared = sync::Arc::new(Shared::new(capacity.next_power_of_two()));
    (Producer::new(sync::Arc::clone(&shared)), Consumer::new(shared))
}

#[cfg(all(test, feature = "loom"))]
mod model;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
