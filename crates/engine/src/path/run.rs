//! The way of a packet, on one core.
//!
//! ```text
//!  receive -> parse -> key by key:  hash -> locate (bulk, prefetch) -> step, function by function
//!                                                                                   |
//!                                                  apply edits -> send  <-----------+
//! ```
//!
//! Packets arrive stamped and already on the right core: a port's business (see `io`), as the strategy's dispatcher says
//! (see `strategies`). The middle of the path, from hash to step, is `store/private.rs`.

use std::time::Instant;

use io::{Closed, Port, Queue, Received, Waiting};

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::counters::CoreCounters;
use crate::path::edit::apply_edits;
use crate::path::laps::{Lap, Laps};
use crate::path::parse::{check, parse};
use crate::path::receive::Intake;

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
    go_on(port, chain, batch, observer, intake, &mut counters).map(|()| counters)
}

/// Runs as [`run`] does, where the core has counted before.
pub(crate) fn go_on(
    port: &mut impl Port,
    chain: &mut ChainCore,
    batch: &mut Batch,
    observer: &mut impl Observer,
    intake: &mut dyn Intake,
    counters: &mut CoreCounters,
) -> Result<(), Closed> {
    let idle = Waiting::default();
    loop {
        chain.answer();
        match turn(port, chain, batch, observer, intake, counters)? {
            Received::End => return Ok(()),
            // Others wait for it: a nap between two portions of flows takes longer than a portion.
            Received::Idle if intake.has_worked() => {
                idle.over();
                idle.wait();
            }
            // What an intake waits for need not come from the port.
            Received::Idle if intake.is_busy() => idle.wait(),
            Received::Idle => port.idle(&idle),
            Received::Frames => idle.over(),
        }
    }
}

/// One batch of [`run`], or none: says what was received. For a thread that runs several cores in turn.
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
    // Ahead of the intake, whose work is the core's as well. A turn without packets counts for nothing.
    let begin = Instant::now();
    let received = intake.receive(port, chain, batch);
    if received == Received::Frames {
        observer.lap(Lap::Receive, batch);
        counters.receive(batch);
        parse(port, batch);
        if chain.checks.is_needed() {
            check(port, &chain.checks, batch, counters);
        }
        counters.from_outside += chain.mark_sides(batch);
        observer.lap(Lap::Parse, batch);
        intake.step(chain, batch, port, observer);
        apply_edits(port, batch);
        chain.tell_traced(batch);
        observer.lap(Lap::Edit, batch);
        counters.count(batch);
        counters.busy_ns += begin.elapsed().as_nanos() as u64;
        observer.lap(Lap::Count, batch);
        batch.send(port)?;
        observer.lap(Lap::Send, batch);
    }
    observer.turned(&Turn { received, counters, chain, queue: port.queue(), intake });
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
    /// What stands before the chain, and counts what moved.
    pub intake: &'a dyn Intake,
}

/// Observes a core at its work: for timing, and for metrics.
pub trait Observer: Laps {
    /// A batch is about to be received.
    fn begin(&mut self) {}

    /// A turn is over, with a batch or without; after [`Received::End`] none follows.
    fn turned(&mut self, _turn: &Turn<'_>) {}
}

impl Observer for () {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use io::capture::Record;
    use io::{MemoryPort, Trace};
    use wire::LinkType;

    use super::*;
    use crate::chain::Chain;
    use crate::chain::registry::Registry;
    use crate::path::no_packets::NoPackets;

    const WORK: Duration = Duration::from_millis(2);

    /// Works before each batch, as one does that puts history between packets; every other time nothing has come.
    #[derive(Default)]
    struct Slow {
        turns: u64,
    }

    impl Intake for Slow {
        fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
            thread::sleep(WORK);
            self.turns += 1;
            if self.turns % 2 == 1 { Received::Idle } else { ().receive(port, chain, batch) }
        }
    }

    /// Has flows to move in 100 turns, and nothing to do in one, which is followed by the end.
    #[derive(Default)]
    struct Moving {
        turns: u64,
    }

    impl Intake for Moving {
        fn receive(&mut self, _: &mut dyn Port, _: &mut ChainCore, _: &mut Batch) -> Received {
            self.turns += 1;
            if self.turns > 101 { Received::End } else { Received::Idle }
        }

        fn is_busy(&self) -> bool {
            self.has_worked()
        }

        fn has_worked(&self) -> bool {
            self.turns <= 100
        }
    }

    #[test]
    fn a_core_that_moves_flows_takes_no_naps_between_portions() {
        let chain =
            Chain::parse("test.toml", "[[function]]\nuse = \"flow-statistics\"", &Registry::of_tests());
        let Ok(chain) = chain else { panic!("{:?}", chain.err()) };
        let (mut port, mut core) = (NoPackets::ended(), chain.core().expect("memory"));
        run(&mut port, &mut core, &mut Batch::new(), &mut (), &mut Moving::default()).expect("open");
        assert_eq!(port.waited_long, [false], "100 turns with work to do, and one without");
    }

    #[test]
    fn an_intakes_work_on_packets_is_busy_time() {
        let mut trace = Trace::default();
        trace.push(&Record { time_ns: 1, wire_len: 60, link: LinkType::Ethernet, data: &[0; 60] });
        let mut port = MemoryPort::new(&trace, &[0], 64, Arc::new(AtomicBool::new(false)));
        let chain =
            Chain::parse("test.toml", "[[function]]\nuse = \"flow-statistics\"", &Registry::of_tests());
        let Ok(chain) = chain else { panic!("{:?}", chain.err()) };
        let (mut core, mut batch) = (chain.core().expect("memory"), Batch::new());
        let (mut counters, mut intake) = (CoreCounters::default(), Slow::default());
        let mut turn = || {
            let received = turn(&mut port, &mut core, &mut batch, &mut (), &mut intake, &mut counters);
            (received.expect("open"), counters.busy_ns)
        };
        let (received, idle_ns) = turn();
        assert_eq!((received, idle_ns), (Received::Idle, 0), "a turn without packets");
        let (received, busy_ns) = turn();
        assert_eq!(received, Received::Frames);
        assert!(busy_ns >= WORK.as_nanos() as u64, "{busy_ns} ns");
    }
}
