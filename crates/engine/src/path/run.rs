//! The way of a packet, on one core.
//!
//! ```text
//!  receive -> parse -> key by key:  hash -> locate (bulk, prefetch) -> step, function by function
//!                                                                                   |
//!                                                  apply edits -> send  <-----------+
//! ```
//!
//! Packets arrive stamped and already on the right core: a port's business (see `io`) with a
//! strategy's advice (see `strategy`). The middle of the path, from project to step, is `group.rs`.

use std::time::Instant;

use io::{Closed, Port, Queue, Received, Waiting};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::counters::CoreCounters;
use crate::path::edit::apply_edits;
use crate::path::laps::{Lap, Laps};
use crate::path::parse::{check, parse};
use crate::path::receive::{Intake, Moves};

/// Takes packets from `port` through `chain` until the port ends. Allocates nothing; `batch` is empty
/// before and after. `observer` is told of each part of a batch's way, and `intake` decides which packets the core works
/// on now; `&mut ()` for the first costs nothing, for the second it takes all that arrive.
///
/// # Errors
/// [`Closed`] if nobody takes the packets back.
pub fn run(
    port: &mut impl Port,
    chain: &mut ChainCore,
    batch: &mut Batch,
    observer: &mut impl Observer,
    intake: &mut dyn Intake,
) -> Result<CoreCounters, Closed> {
    let mut counters = CoreCounters::default();
    let idle = Waiting::default();
    loop {
        match turn(port, chain, batch, observer, intake, &mut counters)? {
            Received::End => return Ok(counters),
            Received::Idle => idle.wait(),
            Received::Frames => idle.over(),
        }
    }
}

/// One batch of [`run`], or none: says what was received. For whoever runs several cores in turn.
///
/// # Errors
/// As [`run`].
#[inline]
pub fn turn(
    port: &mut impl Port,
    chain: &mut ChainCore,
    batch: &mut Batch,
    observer: &mut impl Observer,
    intake: &mut dyn Intake,
    counters: &mut CoreCounters,
) -> Result<Received, Closed> {
    observer.begin();
    let received = intake.receive(port, chain, batch);
    if received == Received::Frames {
        observer.lap(Lap::Receive, batch);
        counters.receive(batch);
        let begin = Instant::now();
        parse(port, batch);
        if chain.checks.is_needed() {
            check(port, &chain.checks, batch, counters);
        }
        counters.from_outside += chain.mark_sides(batch);
        observer.lap(Lap::Parse, batch);
        chain.process(batch, port, observer);
        apply_edits(port, batch);
        observer.lap(Lap::Edit, batch);
        counters.count(batch);
        counters.busy_ns += begin.elapsed().as_nanos() as u64;
        observer.lap(Lap::Count, batch);
        batch.send(port)?;
        observer.lap(Lap::Send, batch);
    }
    observer.turned(&Turn { received, counters, chain, queue: port.queue(), moves: intake.counters().moves });
    Ok(received)
}

/// A turn that is over, and how the core stands after it.
pub struct Turn<'a> {
    /// What was received.
    pub received: Received,
    /// What the core did so far.
    pub counters: &'a CoreCounters,
    /// The functions.
    pub chain: &'a ChainCore,
    /// The receive queue.
    pub queue: Queue,
    /// What moved.
    pub moves: Moves,
}

/// Observes a core at its work: for timing, and for metrics.
pub trait Observer: Laps {
    /// A batch is about to be received.
    fn begin(&mut self) {}

    /// A turn is over, with a batch or without; after [`Received::End`] none follows.
    fn turned(&mut self, _turn: &Turn<'_>) {}
}

impl Observer for () {}
