//! Who runs the cores of a trial: a thread for each, or one thread for all in turn.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use engine::{BATCH_PACKETS, Batch, ChainCore, Mover, Order, pin};
use engine::{CoreCounters, Intake, IntakeCounters, turn};
use hdrhistogram::Histogram;
use io::nic::{Clock, NicPort, VirtualClock, WallClock};
use io::{Port, Received};

use crate::disturbance::{ThreadClock, ThreadTime};
use crate::stopwatch::{Meter, Stopwatch};
use crate::{CoreTrial, TrialError};

/// What a core of a trial leaves behind.
pub(crate) type CoreOutcome = (CoreTrial, Option<Histogram<u64>>);

/// The same of all cores, and the time of the threads that ran them.
pub(crate) type Outcomes = (Vec<CoreOutcome>, ThreadTime);

/// From the moment when all threads are ready to the start of a trial.
const LEAD: Duration = Duration::from_micros(200);

/// One core of a trial.
pub(crate) struct Station<'a, C> {
    port: NicPort<C>,
    chain: &'a mut ChainCore,
    intake: Box<dyn Intake + 'a>,
    dispatch_ns: u64,
    batch: Batch,
    counters: CoreCounters,
    arrivals: u64,
    busy_ns: u64,
    elapsed_ns: u64,
    slow_batches: u64,
}

/// What a core hands over in a trial, known ahead.
pub(crate) struct Moving<'a> {
    mover: &'a mut Mover,
    orders: std::vec::IntoIter<Order>,
}

impl<'a> Moving<'a> {
    pub(crate) fn new(mover: &'a mut Mover, orders: Vec<Order>) -> Moving<'a> {
        mover.announce(orders.len());
        Moving { mover, orders: orders.into_iter() }
    }

    /// Gives the orders that concern the next batch: no earlier, as if they had just been decided.
    #[inline]
    fn order(&mut self, consumed: u64) {
        let is_due = |order: &Order| order.after <= consumed + BATCH_PACKETS as u64;
        while let Some(order) = self.orders.as_slice().first().copied().filter(is_due) {
            self.mover.order(order);
            self.orders.next();
        }
    }
}

impl Intake for Moving<'_> {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        self.order(port.consumed());
        self.mover.receive(port, chain, batch)
    }

    fn counters(&self) -> IntakeCounters {
        self.mover.counters()
    }

    fn is_busy(&self) -> bool {
        self.mover.is_busy()
    }
}

impl<'a, C: Clock> Station<'a, C> {
    /// A core to whose queue `arrivals` packets come.
    pub(crate) fn new(
        port: NicPort<C>,
        chain: &'a mut ChainCore,
        intake: Box<dyn Intake + 'a>,
        arrivals: u64,
        dispatch_ns: u64,
    ) -> Station<'a, C> {
        Station {
            port,
            chain,
            intake,
            dispatch_ns,
            batch: Batch::new(),
            counters: CoreCounters::default(),
            arrivals,
            busy_ns: 0,
            elapsed_ns: 0,
            slow_batches: 0,
        }
    }

    /// A batch, or none.
    #[inline]
    fn turn(&mut self) -> Received {
        let Station { port, chain, intake, batch, counters, .. } = self;
        // A simulated card always takes frames back.
        turn(port, chain, batch, &mut (), &mut **intake, counters).unwrap_or(Received::End)
    }

    /// Packets stepped so far, those of other cores included.
    fn steps(&self) -> u64 {
        self.counters.packets + self.intake.counters().replayed
    }

    /// What receiving and sending the packets since there were `packets` would take beside what it does.
    #[inline]
    fn dispatch(&self, packets: u64) -> Duration {
        Duration::from_nanos(self.dispatch_ns * (self.counters.packets - packets))
    }

    fn outcome(self) -> CoreOutcome {
        // What came to a core that was rebuilt, and found its step done, is as lost as what the card dropped.
        let overtaken = self.intake.counters().overtaken;
        let trial = CoreTrial {
            arrived: self.arrivals,
            // Counted by the core, not by the card: the two have to agree.
            received: self.counters.packets,
            dropped: self.port.dropped() + overtaken,
            busy_ns: self.busy_ns,
            elapsed_ns: self.elapsed_ns,
            slow_batches: self.slow_batches,
        };
        (trial, self.port.into_latency())
    }
}

/// One pinned thread for each core, all started together. `station` makes a core's station, on its thread.
pub(crate) fn run_measured<'a>(
    chains: &'a mut [ChainCore],
    intakes: Vec<Box<dyn Intake + 'a>>,
    stopwatches: &'a mut [Stopwatch],
    station: &(
         impl Fn(usize, &'a mut ChainCore, Box<dyn Intake + 'a>, WallClock) -> Station<'a, WallClock> + Sync
     ),
    stop: &AtomicBool,
) -> Result<Outcomes, TrialError> {
    let (barrier, start) = (Barrier::new(chains.len()), OnceLock::new());
    let work = |core: usize, chain, intake, stopwatch| {
        pin(core);
        let mut station = station(core, chain, intake, WallClock { start: Instant::now() });
        barrier.wait();
        let clock = ThreadClock::start();
        let start = *start.get_or_init(|| Instant::now() + LEAD);
        station.port.clock_mut().start = start;
        while Instant::now() < start {
            hint::spin_loop();
        }
        poll(&mut station, stopwatch, start, stop).map(|()| (station.outcome(), clock.stop()))
    };
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = chains
            .iter_mut()
            .zip(intakes)
            .zip(stopwatches)
            .enumerate()
            .map(|(core, ((chain, intake), stopwatch))| {
                scope.spawn(move || work(core, chain, intake, stopwatch))
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // All are waited for, whatever the first of them says.
        let outcomes: Vec<_> = workers.into_iter().map(join).collect();
        let outcomes: Vec<_> = outcomes.into_iter().collect::<Result<_, TrialError>>()?;
        let (outcomes, times): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
        Ok((outcomes, times.into_iter().reduce(ThreadTime::and).unwrap_or_default()))
    })
}

/// Asks the card again and again, as drivers that poll do: no naps, which would drop packets.
fn poll(
    station: &mut Station<'_, WallClock>,
    stopwatch: &mut Stopwatch,
    start: Instant,
    stop: &AtomicBool,
) -> Result<(), TrialError> {
    let mut before = start;
    loop {
        let (packets, steps) = (station.counters.packets, station.steps());
        let received = station.turn();
        let mut now = Instant::now();
        match received {
            Received::End => return Ok(()),
            Received::Idle => hint::spin_loop(),
            Received::Frames => {
                let until = now + station.dispatch(packets);
                while now < until {
                    hint::spin_loop();
                    now = Instant::now();
                }
                let busy_ns = (now - before).as_nanos() as u64;
                let spent = stopwatch.spent(busy_ns, station.steps() - steps);
                station.busy_ns += busy_ns;
                station.slow_batches += u64::from(spent.is_slow);
                station.elapsed_ns = (now - start).as_nanos() as u64;
            }
        }
        before = now;
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
    }
}

/// How far a virtual core runs ahead of the others where they have nothing to do with each other, ns: so
/// far that filling the caches anew after each change does not count.
pub(crate) const SLICE_ALONE_NS: u64 = 10_000_000;

/// The same where entries go from core to core: a core hears of what another did this late at most.
pub(crate) const SLICE_TOGETHER_NS: u64 = 150_000;

/// The same where a core may wait for what another has received, as it does after a loss: a batch or two.
pub(crate) const SLICE_CLOSE_NS: u64 = 10_000;

/// One virtual core: its station, its clock, and who says how long a batch took.
pub(crate) struct VirtualCore<'a, M> {
    pub(crate) station: Station<'a, VirtualClock>,
    pub(crate) clock: VirtualClock,
    pub(crate) meter: &'a mut M,
}

/// All cores on this thread, in turn, each with its own clock: always the one whose clock is least, until
/// it is a slice further on.
pub(crate) fn run_virtual<M: Meter>(
    mut cores: Vec<VirtualCore<'_, M>>,
    slice_ns: u64,
    stop: &AtomicBool,
) -> Result<Outcomes, TrialError> {
    let clock = ThreadClock::start();
    let mut is_over = vec![false; cores.len()];
    loop {
        let running = (0..cores.len()).filter(|core| !is_over[*core]);
        let Some(next) = running.min_by_key(|core| cores[*core].clock.now_ns()) else { break };
        let until_ns = cores[next].clock.now_ns() + slice_ns;
        is_over[next] = cores[next].run_until(until_ns);
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
    }
    Ok((cores.into_iter().map(|core| core.station.outcome()).collect(), clock.stop()))
}

impl<M: Meter> VirtualCore<'_, M> {
    /// Says whether the core's queue has come to its end.
    fn run_until(&mut self, until_ns: u64) -> bool {
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= until_ns {
                return false;
            }
            let (packets, steps) = (self.station.counters.packets, self.station.steps());
            self.meter.begin();
            match self.station.turn() {
                Received::End => return true,
                // It polls until the next packet comes. One that waits for a frame waits for another core.
                Received::Idle => {
                    if self.station.intake.is_busy() {
                        self.clock.advance_to(now_ns + self.meter.end(0).ns);
                    }
                    let next_ns = self.station.port.next_arrival_ns();
                    let next_ns = next_ns.filter(|_| !self.station.port.is_waiting());
                    self.clock.advance_to(next_ns.unwrap_or(until_ns));
                }
                Received::Frames => {
                    let spent = self.meter.end(self.station.steps() - steps);
                    let busy_ns = spent.ns + self.station.dispatch(packets).as_nanos() as u64;
                    let station = &mut self.station;
                    station.busy_ns += busy_ns;
                    station.slow_batches += u64::from(spent.is_slow);
                    station.elapsed_ns = now_ns + busy_ns;
                    self.clock.advance_to(station.elapsed_ns);
                }
            }
        }
    }
}
