//! A chain on the ports of a machine: until it is told to stop.
//!
//! One core has the port to itself. Several get their packets from a front, a thread that has the port: it stamps them,
//! picks their cores as the strategy's dispatcher says, and sends what the cores are done with. Or each of them has a port
//! of its own, and what is before all ports, a card or an XDP program, sends each packet to the port of its core.

use std::mem;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use io::capture::Remarks;
use io::{
    Closed, Fate, Foreign, Frame, Pool, Port, Queue, Received, Reference, Relay, RelayPort, StampClock,
    Waiting,
};
use strategy::Single;
use wire::{RanBack, Stamp};

use crate::chain::Chain;
use crate::chain::checksums::{ChecksumSample, Checksums};
use crate::chain::undeclared::check_declared;
use crate::executor::cores::{AllWorked, Before, Settled, join, pin, work};
use crate::executor::front::{Room, front};
use crate::executor::input::Progress;
use crate::executor::leaving::EgressOutcome;
use crate::executor::listing::RuleCount;
use crate::executor::moving::{Moving, move_entries};
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::reloads::{Old, Reloads, Told};
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::receive::{Intake, IntakeCounters, IntakeEnd};
use crate::strategies::changing::{Changes, Changing, Phase, Until};
use crate::strategies::dispatch::{Dispatcher, OwnTeam, Queues, Table, Team};
use crate::strategies::egress::Egress;
use crate::strategies::ingress::{Ingress, put_first};
use crate::strategies::plan::Plan;

/// How many guests the pool of a port must have, for [`run_live`].
pub fn guests(plan: &Plan) -> usize {
    if plan.cores == 1 { 0 } else { plan.cores }
}

/// Where the packets of a run come in.
enum Ways<'a, P> {
    /// By one port. Several cores behind it have guests of its pool, which has so many frames.
    One { port: UntilStopped<'a, P>, guests: Vec<Pool>, frames: usize },
    /// By a port for each core, as a table says of which entries may move.
    Each { ports: Vec<UntilStopped<'a, P>>, table: Option<Box<dyn Table>>, moving: &'a Moving },
}

impl<'a, P> Ways<'a, P> {
    fn ports(&mut self) -> &mut [UntilStopped<'a, P>] {
        match self {
            Ways::One { port, .. } => std::slice::from_mut(port),
            Ways::Each { ports, .. } => ports,
        }
    }

    /// The number of the next packet that comes, and the stamp of the last one that came.
    fn at(&mut self) -> (u64, Stamp) {
        let ports = self.ports().iter();
        ports.fold((0, Stamp::default()), |(next, last), port| (next.max(port.next), last.max(port.last)))
    }

    /// Has the ports know what a chain's drops mean.
    fn mark_drops(&mut self, chain: &Chain)
    where
        P: Port,
    {
        let drops = chain.marked_drops();
        self.ports().iter_mut().for_each(|port| port.port.mark_drops(&drops));
    }

    /// A phase begins, up to a number.
    fn begin(&mut self, until: Until) {
        self.ports().iter_mut().for_each(|port| (port.until, port.ended) = (until.clone(), None));
    }

    /// Since when no packets come.
    fn ended(&mut self) -> Instant {
        self.ports().iter().filter_map(|port| port.ended).min().unwrap_or_else(Instant::now)
    }

    /// Whether a phase is over, and nothing else: where phases follow each other there is one port.
    fn is_phase_over(&mut self) -> bool {
        self.ports().iter().all(|port| port.is_phase_over())
    }
}

/// Runs a chain on a port until [`Progress::stop`] is set, or the port ends; other chains take over as
/// [`Progress::reloads`] says. `guests` are those of the port's pool of so many `frames`: as many as [`guests()`] says.
/// `checksums = "auto"` ignores: cards and kernels verify.
///
/// # Errors
/// [`RunError`] if there is no memory for the tables, or a defect showed.
///
/// # Panics
/// If there are not as many guests.
pub fn run_live<E, P: Port>(
    chain: &Chain,
    plan: &Plan,
    port: &mut P,
    (guests, frames): (Vec<Pool>, usize),
    progress: &Progress,
) -> Result<RunOutcome, RunError<E>> {
    assert_eq!(guests.len(), self::guests(plan), "a guest for each core behind a front");
    let (is_broken, moving) = (AtomicBool::new(false), Moving::default());
    let port = UntilStopped::new(port, progress, (&is_broken, &moving));
    run(chain, plan, Ways::One { port, guests, frames }, progress)
}

/// Runs a chain on a port for each core, where each of them receives the packets of its core, as
/// [`Plan::with_own_ports`] says. Stamps have numbers of which no two packets have the same; where the plan
/// [has one queue](Plan::has_one_queue) they are those of the order in which packets were received, without gaps. Where entries move, `table` is
/// that by which packets come to the ports, with the entries at first where [`Plan::indirection`] has them, as it is at the end
/// of a run that another one follows; the ports know of [marks](Port::mark) then.
///
/// # Errors
/// As [`run_live`], and if the table could not be changed.
///
/// # Panics
/// If the plan is not one of [`Plan::with_own_ports`], there are not as many ports as cores, or entries are to move and there
/// is no table.
pub fn run_live_each<E, P: Port>(
    chain: &Chain,
    plan: &Plan,
    ports: &mut [P],
    table: Option<Box<dyn Table>>,
    progress: &Progress,
) -> Result<RunOutcome, RunError<E>> {
    assert!(plan.has_own_ports && ports.len() == plan.cores, "a port for each core");
    assert!(plan.rebalancing.is_none() || table.is_some(), "a table of which entries can move");
    let (is_broken, moving) = (AtomicBool::new(false), Moving::default());
    let port = |port| UntilStopped::new(port, progress, (&is_broken, &moving));
    let ports = ports.iter_mut().map(port).collect();
    run(chain, plan, Ways::Each { ports, table, moving: &moving }, progress)
}

fn run<E, P: Port>(
    chain: &Chain,
    plan: &Plan,
    mut ways: Ways<'_, P>,
    progress: &Progress,
) -> Result<RunOutcome, RunError<E>> {
    let mut chain = chain.on_interfaces();
    // A simulated card is before captures alone.
    let card_flows = if plan.card.is_some() { plan.card_flows } else { 0 };
    let mut plan = Plan { card_flows, ..plan.clone() };
    let mut chains = plan.cores_of(&chain).map_err(|error| RunError::out_of_memory(plan.cores, error))?;
    let telemetry = progress.telemetry_of(&chain, &plan);
    let mut before = Before::all(plan.cores, telemetry.as_deref());
    let Progress { stop, reloads, listing, .. } = progress;
    let (mut ingress_before, mut told, mut taken_over) = (None, None::<Told>, Vec::new());
    let mut changes = Changes::default();
    let mut changing = plan.strategy.changing(&chain, &plan, &chains);
    let observe = |changing: &mut Option<Box<dyn Changing>>| {
        let both = changing.as_mut().zip(telemetry.as_ref());
        both.into_iter().for_each(|(changing, telemetry)| changing.observe(telemetry));
    };
    observe(&mut changing);
    chain.trace_on(&mut chains, &progress.tracing);
    listing.begin(&chain, &plan, &mut chains);
    ways.mark_drops(&chain);
    // All memory is taken before the clock starts.
    let _ended = reloads.begin(&chain, &plan);
    if let Some(telemetry) = &telemetry {
        let listing = Arc::clone(listing);
        telemetry.tell_rules(move || listing.rules().into_iter().map(RuleCount::snapshot).collect());
        telemetry.begin();
    }
    let begin = Instant::now();
    let worked = loop {
        let (next, last) = ways.at();
        plan.first = next;
        let mut rebalancer = None;
        let phase = |team| Phase {
            team,
            queues: plan.replayed(),
            until: Until::packet(u64::MAX),
            is_replicated: plan.is_replicated(),
        };
        let Phase { team: Team { dispatcher, intakes }, queues, until, is_replicated } =
            match (&mut changing, plan.own_team(&chain)) {
                (None, Some(OwnTeam { rebalancer: moves, intakes })) => {
                    rebalancer = Some(moves);
                    phase(Team { intakes, ..Team::plain(Box::new(Single), 0) })
                }
                (None, None) => phase(plan.team(&chain)),
                (Some(changing), _) => {
                    let since = ways.ended();
                    changing.begin(&mut chains, (next, last), since)
                }
            };
        ways.begin(until);
        let idle = (chains.split_off(intakes.len()), before.split_off(intakes.len()));
        listing.phase(intakes.len(), if is_replicated { 1 } else { intakes.len() }, &idle.0);
        let mut cores = chains.into_iter().zip(intakes).zip(before).enumerate();
        let mut tell = || taken_over.extend(told.take().map(Told::tell));
        let worked = match &mut ways {
            Ways::Each { ports, table, moving } => thread::scope(|scope| {
                moving.begin(rebalancer.is_some());
                let moving = *moving;
                let is_broken = ports[0].is_broken;
                let moves = rebalancer.zip(table.as_deref_mut()).map(|(rebalancer, table)| {
                    scope.spawn(move || move_entries(rebalancer, table, moving, (progress, is_broken)))
                });
                let workers = cores.zip(ports).map(|((core, ((chain, mut intake), before)), port)| {
                    scope.spawn(move || {
                        pin(core);
                        let alarm = Alarm(port.is_broken);
                        let worked = work(port, chain, &mut *intake, before);
                        drop(alarm);
                        (worked, ())
                    })
                });
                let workers: Vec<_> = workers.collect();
                tell();
                let worked = join(workers.into_iter().map(ScopedJoinHandle::join), next);
                moving.is_over.store(true, Ordering::Relaxed);
                let moved = moves.map_or(Ok(Ok(())), ScopedJoinHandle::join);
                let worked = worked.map(|(worked, _)| worked)?;
                moved.unwrap_or_else(|panic| panic::resume_unwind(panic)).map_err(RunError::Table)?;
                Ok::<_, RunError<E>>(worked)
            })?,
            Ways::One { port, guests, .. } if guests.is_empty() => {
                let mut ingress = Ingress::new(&chain, &*dispatcher).going_on(ingress_before.take());
                let worked = thread::scope(|scope| {
                    let alone = cores.next().map(|(core, ((chain, intake), before))| {
                        let ingress = &mut ingress;
                        scope.spawn(move || {
                            pin(core);
                            let mut intake = Alone { intake, ingress, dispatcher };
                            (work(port, chain, &mut intake, before), ())
                        })
                    });
                    tell();
                    join(alone.into_iter().map(ScopedJoinHandle::join), 0).map(|(worked, _)| worked)
                })?;
                ingress_before = Some(ingress);
                worked
            }
            Ways::One { port, guests, frames } => {
                let frames = *frames;
                let mut ingress = Ingress::new(&chain, &*dispatcher).going_on(ingress_before.take());
                let idle_guests = guests.split_off(cores.len());
                let worked = thread::scope(|scope| {
                    let relay_of = if queues.has_one_queue { Relay::one_queue } else { Relay::new };
                    let (relay, ports) = relay_of(mem::take(guests), frames);
                    let clock = port.clock();
                    let ports = ports.into_iter().map(|port| port.with_clock(clock));
                    let workers =
                        cores.zip(ports).map(|((core, ((chain, mut intake), before)), mut port)| {
                            scope.spawn(move || {
                                pin(core);
                                let worked = work(&mut port, chain, &mut *intake, before);
                                (worked, port)
                            })
                        });
                    let workers: Vec<_> = workers.collect();
                    tell();
                    let room = Room { egress: plan.egress, frames, first: plan.first };
                    let packets = front(port, &mut ingress, dispatcher, relay, room);
                    let (worked, ports) = join(workers.into_iter().map(ScopedJoinHandle::join), packets)?;
                    guests.extend(ports.into_iter().map(RelayPort::into_pool));
                    Ok(worked)
                })?;
                guests.extend(idle_guests);
                ingress_before = Some(ingress);
                worked
            }
        };
        let mut worked = worked.with_idle(idle);
        let (next_packet, last) = ways.at();
        if let Some(changing) = &mut changing {
            (chains, before) = worked.hand_over();
            if ways.is_phase_over() {
                continue;
            }
            changes.followed_by(changing.end(&mut chains, next_packet, last));
            worked = AllWorked::of(chains, before);
        }
        let (false, Some(mut next)) = (stop.load(Ordering::Relaxed), reloads.take()) else { break worked };
        let (cores, before_it) = worked.hand_over();
        check_declared(&chain, cores.iter()).map_err(RunError::Undeclared)?;
        let old = Old { cores, changing: changing.take() };
        told = Some(next.take_over((&chain, &plan), old, (next_packet, last), ways.ended()));
        before = before_it;
        before.iter_mut().for_each(|before| before.goes_on(&next.chain, &chain));
        (chain, plan, chains, changing) = (next.chain, next.plan, next.chains, next.changing);
        chain.trace_on(&mut chains, &progress.tracing);
        listing.begin(&chain, &plan, &mut chains);
        ways.mark_drops(&chain);
        observe(&mut changing);
    };
    let elapsed = begin.elapsed();
    listing.end();
    let Settled { cores, moves, last, .. } = worked.settle(ways.at().1);
    check_declared(&chain, cores.iter().map(|(_, core)| core)).map_err(RunError::Undeclared)?;
    // Each core sends by itself: what is in order is each flow.
    let egress = if plan.has_own_ports { Egress::AsReady } else { plan.egress };
    let verified = chain.checksums == Checksums::Verify;
    Ok(RunOutcome {
        packets: cores.iter().map(|(counters, _)| counters.packets).sum(),
        elapsed,
        last,
        cores,
        stopped: false,
        input_error: None,
        ran_back: RanBack::default(),
        remarks: Remarks::default(),
        has_ip: true,
        moves,
        is_replicated: plan.is_replicated(),
        history: None,
        egress: EgressOutcome { egress, ..EgressOutcome::default() },
        reloads: taken_over,
        changes,
        checksums: ChecksumSample { verified, ..ChecksumSample::default() },
        chain: Some((chain, plan)),
    })
}

/// A port that ends when it is told to, or another chain or phase is to take over.
struct UntilStopped<'a, P> {
    port: &'a mut P,
    stop: &'a AtomicBool,
    reloads: &'a Reloads,
    /// Whether a core panicked: the others end.
    is_broken: &'a AtomicBool,
    /// Whether entries move, which is not to be left half done.
    moving: &'a Moving,
    /// Where the phase ends, or a few packets later.
    until: Until,
    /// The stamp of the last packet that came in.
    last: Stamp,
    /// The next packet's number.
    next: u64,
    /// When it ended.
    ended: Option<Instant>,
}

/// Tells the other cores when this one panics.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a, P> UntilStopped<'a, P> {
    fn new(
        port: &'a mut P,
        progress: &'a Progress,
        (is_broken, moving): (&'a AtomicBool, &'a Moving),
    ) -> UntilStopped<'a, P> {
        let Progress { stop, reloads, .. } = progress;
        let (until, last) = (Until::packet(u64::MAX), Stamp::default());
        UntilStopped { port, stop, reloads, is_broken, moving, until, last, next: 0, ended: None }
    }

    fn is_over(&self) -> bool {
        let [stop, is_broken] = [self.stop, self.is_broken].map(|flag| flag.load(Ordering::Relaxed));
        is_broken || (stop || self.reloads.is_due()) && !self.moving.goes_on.load(Ordering::Acquire)
    }

    /// Whether the phase is over, and nothing else.
    fn is_phase_over(&self) -> bool {
        self.next >= self.until.get() && !self.is_over()
    }
}

impl<P: Port> Port for UntilStopped<'_, P> {
    #[inline]
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        if self.is_over() || self.next >= self.until.get() {
            self.ended.get_or_insert_with(Instant::now);
            return Received::End;
        }
        let received = self.port.receive(frames, max);
        if let (Received::Frames, Some(frame)) = (received, frames.last()) {
            self.last = frame.stamp;
            self.next = frame.stamp.seq + 1;
        }
        received
    }

    fn consumed(&self) -> u64 {
        self.port.consumed()
    }

    fn mark(&mut self) -> u64 {
        self.port.mark()
    }

    #[inline]
    fn passed(&mut self) -> u64 {
        self.port.passed()
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn clock(&self) -> Option<StampClock> {
        self.port.clock()
    }

    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.port.references(frames, references);
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    #[inline]
    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        self.port.transmit(frames, fates)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.port.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.port.hand_over(frames);
    }

    fn idle(&mut self, waiting: &Waiting) {
        self.port.idle(waiting);
    }

    fn prepare(&mut self) {
        self.port.prepare();
    }

    fn fetch(&mut self, frames: &mut [Frame]) {
        self.port.fetch(frames);
    }

    fn queue(&self) -> Queue {
        self.port.queue()
    }
}

/// The intake of a core that has the port to itself: what a front does for others is done here.
struct Alone<'a> {
    intake: Box<dyn Intake>,
    ingress: &'a mut Ingress,
    dispatcher: Box<dyn Dispatcher>,
}

impl Intake for Alone<'_> {
    #[inline]
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = self.intake.receive(port, chain, batch);
        if received == Received::Frames && (self.ingress.is_needed() || self.dispatcher.reads_headers()) {
            let headers = self.ingress.batch(&mut batch.frames, port, Port::bytes, put_first);
            let _ = self.dispatcher.tell(headers, &batch.frames, &Nobody);
            for (frame, headers) in batch.frames.iter_mut().zip(headers) {
                // There is one core to pick; what is noted in the frame is what counts.
                let _ = self.dispatcher.dispatch(headers, frame, &Nobody);
            }
        }
        received
    }

    #[inline]
    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        self.intake.step(chain, batch, port, laps);
    }

    fn counters(&self) -> IntakeCounters {
        self.intake.counters()
    }

    fn is_busy(&self) -> bool {
        self.intake.is_busy()
    }

    fn has_worked(&self) -> bool {
        self.intake.has_worked()
    }

    fn finish(&mut self) -> IntakeEnd {
        self.intake.finish()
    }
}

/// The queues of a core that has none.
struct Nobody;

impl Queues for Nobody {
    fn sent(&self, _: usize) -> u64 {
        0
    }

    fn is_closed(&self) -> bool {
        false
    }
}
