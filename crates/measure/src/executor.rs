//! Who runs the cores of a trial: a thread for each, or one thread for all in turn.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use engine::pin;
use io::Received;
use io::nic::{Clock, VirtualClock, WallClock};

use crate::disturbance::{ThreadClock, ThreadTime};
use crate::sequencer_core::{Sequenced, SequencerCore};
use crate::station::{CoreOutcome, Seat, Station, Terms};
use crate::stopwatch::{Meter, Stopwatch};
use crate::trial::{CoreTrial, TrialError};

/// What the cores of a trial leave behind, and the time of the threads that ran them.
pub(crate) struct Outcomes {
    pub(crate) cores: Vec<CoreOutcome>,
    pub(crate) sequencer: Option<CoreTrial>,
    pub(crate) time: ThreadTime,
}

/// From the moment when all threads are ready to the start of a trial.
const LEAD: Duration = Duration::from_micros(200);

/// One pinned thread for each core, and one for the sequencer, all started together. The last stopwatch is the
/// sequencer's.
pub(crate) fn run_measured<'a>(
    terms: &Terms,
    seats: Vec<Seat<'a>>,
    sequencer: Option<SequencerCore<WallClock>>,
    stopwatches: &mut [Stopwatch],
    stop: &AtomicBool,
) -> Result<Outcomes, TrialError> {
    let cores = seats.len();
    let (barrier, start) = (Barrier::new(cores + usize::from(sequencer.is_some())), OnceLock::new());
    let begin = || {
        barrier.wait();
        (ThreadClock::start(), *start.get_or_init(|| Instant::now() + LEAD))
    };
    let work = |core: usize, seat: Seat<'a>, stopwatch: &mut Stopwatch| {
        pin(core);
        let mut station = Station::new(terms, seat, WallClock { start: Instant::now() });
        let (clock, start) = begin();
        station.port.clock_mut().start = start;
        wait_for(start);
        poll(&mut station, stopwatch, start, stop).map(|()| (station.outcome(), clock.stop()))
    };
    let lead = |mut sequencer: SequencerCore<WallClock>, stopwatch: &mut Stopwatch| {
        pin(cores);
        let (clock, start) = begin();
        sequencer.front.clock_mut().start = start;
        wait_for(start);
        lead(&mut sequencer, stopwatch, start, stop).map(|()| (sequencer.outcome(), clock.stop()))
    };
    thread::scope(|scope| {
        let (work, lead) = (&work, &lead);
        let (of_cores, of_sequencer) = stopwatches.split_at_mut(cores);
        let workers: Vec<_> = seats
            .into_iter()
            .zip(of_cores)
            .enumerate()
            .map(|(core, (seat, stopwatch))| scope.spawn(move || work(core, seat, stopwatch)))
            .collect();
        let sequencer = sequencer
            .zip(of_sequencer.first_mut())
            .map(|(core, watch)| scope.spawn(move || lead(core, watch)));
        // All are waited for, whatever the first of them says.
        let outcomes: Vec<_> = workers.into_iter().map(join).collect();
        let sequencer = sequencer.map(join).transpose()?;
        let outcomes: Vec<_> = outcomes.into_iter().collect::<Result<_, TrialError>>()?;
        let (cores, mut times): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
        times.extend(sequencer.map(|(_, time)| time));
        let time = times.into_iter().reduce(ThreadTime::and).unwrap_or_default();
        Ok(Outcomes { cores, sequencer: sequencer.map(|(trial, _)| trial), time })
    })
}

fn join<T>(worker: thread::ScopedJoinHandle<'_, T>) -> T {
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn wait_for(start: Instant) {
    while Instant::now() < start {
        hint::spin_loop();
    }
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

/// Runs the sequencer until it ends, as [`poll`] runs a core.
fn lead(
    sequencer: &mut SequencerCore<WallClock>,
    stopwatch: &mut Stopwatch,
    start: Instant,
    stop: &AtomicBool,
) -> Result<(), TrialError> {
    let mut before = start;
    loop {
        let turn = sequencer.turn();
        let now = Instant::now();
        match turn {
            Sequenced::End => return Ok(()),
            Sequenced::Idle | Sequenced::Full(_) | Sequenced::Untold => hint::spin_loop(),
            Sequenced::Packets(packets) => {
                let busy_ns = (now - before).as_nanos() as u64;
                sequencer.busy_ns += busy_ns;
                sequencer.slow_batches += u64::from(stopwatch.spent(busy_ns, packets).is_slow);
                sequencer.elapsed_ns = (now - start).as_nanos() as u64;
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

/// The slice, ns, where entries go from core to core: a core hears of what another did this late at most.
pub(crate) const SLICE_TOGETHER_NS: u64 = 150_000;

/// The slice, ns, behind a sequencer: the queues between hold what it passes on meanwhile.
pub(crate) const SLICE_BEHIND_NS: u64 = 50_000;

/// The slice, ns, where a core may wait for what another has received, as it does after a loss: a batch or two.
pub(crate) const SLICE_CLOSE_NS: u64 = 10_000;

/// The slice, ns, where cores take packets in turns: a batch.
pub(crate) const SLICE_TURNS_NS: u64 = 2_000;

/// How long a virtual core waits before it looks again where nothing says when there will be something, ns.
const LOOK_NS: u64 = 500;

/// How often the sequencer may look for room in the history while cores take no step: it looks behind each turn of a core. No
/// time, since a turn takes long where the machine does something else.
const STUCK_LOOKS: u32 = 20_000;

/// One virtual core: its station, its clock, and who says how long a batch took.
pub(crate) struct VirtualCore<'a, M> {
    pub(crate) station: Station<'a, VirtualClock>,
    pub(crate) clock: VirtualClock,
    pub(crate) meter: &'a mut M,
}

/// The sequencer as a virtual core.
pub(crate) struct VirtualSequencer<'a, M> {
    pub(crate) core: SequencerCore<VirtualClock>,
    pub(crate) clock: VirtualClock,
    pub(crate) meter: &'a mut M,
    pub(crate) state: State,
    /// Steps of all cores when it last found the history full.
    pub(crate) steps: u64,
    /// How often it has looked since then.
    pub(crate) looks: u32,
}

/// How it stands with a virtual sequencer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs when its clock is the least.
    #[default]
    Runs,
    /// A core has to run first, whose queue is full.
    Waits,
    /// It has passed all packets on.
    Over,
}

/// Why a virtual sequencer does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Its slice is over.
    Slice,
    /// The queue of this core has no room.
    Full(usize),
    /// The history has none, until some core has come further.
    Untold,
    /// It has passed all packets on.
    End,
}

/// All cores on this thread, in turn, each with its own clock: always the one whose clock is least, until
/// it is a slice further on.
pub(crate) fn run_virtual<M: Meter>(
    mut cores: Vec<VirtualCore<'_, M>>,
    mut sequencer: Option<VirtualSequencer<'_, M>>,
    slice_ns: u64,
    stop: &AtomicBool,
) -> Result<Outcomes, TrialError> {
    let clock = ThreadClock::start();
    let mut is_over = vec![false; cores.len()];
    loop {
        let running = (0..cores.len()).filter(|core| !is_over[*core]);
        let next = running.min_by_key(|core| cores[*core].clock.now_ns());
        let least_ns = next.map_or(u64::MAX, |core| cores[core].clock.now_ns());
        match (&mut sequencer, next) {
            (Some(first), _) if first.state == State::Runs && first.clock.now_ns() <= least_ns => {
                let until_ns = first.clock.now_ns() + slice_ns;
                if first.core.front.deals() {
                    first.deal_until(until_ns);
                } else {
                    match (first.run_until(until_ns), next) {
                        (Stop::Full(core), _) => first.wait_for(&cores[core].clock, is_over[core]),
                        (Stop::Untold, Some(core)) => {
                            let steps = cores.iter().map(|core| core.station.steps()).sum();
                            if first.is_stuck(steps) {
                                return Err(TrialError::NoRoom);
                            }
                            first.wait_for(&cores[core].clock, false);
                        }
                        (Stop::Untold, None) => return Err(TrialError::NoRoom),
                        (Stop::Slice | Stop::End, _) => {}
                    }
                }
                if first.core.is_mute {
                    return Err(TrialError::Untold);
                }
            }
            (first, Some(core)) => {
                let first_ns = first.as_ref().map(|first| first.clock.now_ns());
                // No core is ahead of a card that deals: so each packet is there when it arrives.
                let dealt_ns = first.as_ref().and_then(VirtualSequencer::dealt_ns).unwrap_or(u64::MAX);
                is_over[core] = cores[core].run_until((least_ns + slice_ns).min(dealt_ns), first_ns);
                first.iter_mut().filter(|first| first.state == State::Waits).for_each(|first| {
                    first.state = State::Runs;
                });
            }
            (_, None) => break,
        }
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
    }
    Ok(Outcomes {
        cores: cores.into_iter().map(|core| core.station.outcome()).collect(),
        sequencer: sequencer.map(|first| first.core.outcome()),
        time: clock.stop(),
    })
}

impl<M: Meter> VirtualCore<'_, M> {
    /// Says whether the core's queue has come to its end. `first_ns` is the time of a sequencer in front.
    fn run_until(&mut self, until_ns: u64, first_ns: Option<u64>) -> bool {
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= until_ns {
                return false;
            }
            let (packets, steps) = (self.station.counters.packets, self.station.steps());
            self.station.port.arrive();
            self.meter.begin();
            match self.station.turn() {
                Received::End => return true,
                // It polls until the next packet comes. One that waits for a frame waits for another core.
                Received::Idle => {
                    if self.station.intake.is_busy() {
                        self.clock.advance_to(now_ns + self.meter.end(0).ns);
                    }
                    let is_waiting = self.station.port.is_waiting();
                    // What is there already it could not take: it waits for another core, as the log has no room.
                    let is_later = |next_ns: &u64| !is_waiting && *next_ns > now_ns;
                    let next_ns = self.station.port.next_arrival_ns().filter(is_later);
                    // Nothing comes from in front before the sequencer's time.
                    let later_ns = first_ns.map_or(until_ns, |first_ns| first_ns.max(now_ns + LOOK_NS));
                    let next_ns = match self.station.port.has_beside() {
                        // The sequencer may be earlier than the card.
                        true => Some(next_ns.map_or(later_ns, |next_ns| next_ns.min(later_ns))),
                        false => next_ns,
                    };
                    // What it waits for another core may do by now, whose clock is behind: that one runs first.
                    if self.station.intake.is_busy() {
                        self.clock.advance_to(next_ns.unwrap_or(later_ns).min(now_ns + LOOK_NS));
                        return false;
                    }
                    self.clock.advance_to(next_ns.unwrap_or(later_ns));
                }
                Received::Frames => {
                    let spent = self.meter.end(self.station.steps() - steps);
                    let busy_ns = spent.ns + self.station.dispatch(packets).as_nanos() as u64;
                    let station = &mut self.station;
                    station.intake.took(busy_ns, station.counters.packets - packets);
                    station.busy_ns += if now_ns < station.warm_ns { 0 } else { busy_ns };
                    station.slow_batches += u64::from(spent.is_slow);
                    station.elapsed_ns = now_ns + busy_ns;
                    self.clock.advance_to(station.elapsed_ns);
                }
            }
        }
    }
}

impl<M: Meter> VirtualSequencer<'_, M> {
    /// Deals all packets that arrive by then, each with its time. It takes none.
    fn deal_until(&mut self, until_ns: u64) {
        self.clock.advance_to(until_ns);
        loop {
            match self.core.turn() {
                Sequenced::Packets(_) => {}
                Sequenced::Idle | Sequenced::Full(_) | Sequenced::Untold => return,
                Sequenced::End => {
                    self.state = State::Over;
                    return;
                }
            }
        }
    }

    /// Until when a card that deals has dealt all packets, ns; `None` where that is no card, and where no more will come.
    fn dealt_ns(&self) -> Option<u64> {
        (self.core.front.deals() && self.state != State::Over).then(|| self.clock.now_ns())
    }

    fn run_until(&mut self, until_ns: u64) -> Stop {
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= until_ns {
                return Stop::Slice;
            }
            self.meter.begin();
            match self.core.turn() {
                Sequenced::End => {
                    self.state = State::Over;
                    return Stop::End;
                }
                Sequenced::Full(core) => return Stop::Full(core),
                Sequenced::Untold => return Stop::Untold,
                Sequenced::Idle => {
                    // Behind a card that steers it looks at changes, too, for which cores wait.
                    let look_ns = now_ns + LOOK_NS;
                    let next_ns = self.core.front.next_arrival_ns().unwrap_or(look_ns);
                    let is_steered = self.core.is_steered;
                    self.clock.advance_to(if is_steered { next_ns.min(look_ns) } else { next_ns });
                }
                Sequenced::Packets(packets) => {
                    let mut spent = self.meter.end(packets);
                    if self.core.is_card {
                        spent.ns = 0;
                    }
                    self.core.busy_ns += spent.ns;
                    self.core.slow_batches += u64::from(spent.is_slow);
                    self.core.elapsed_ns = now_ns + spent.ns;
                    self.clock.advance_to(self.core.elapsed_ns);
                }
            }
        }
    }

    /// Waits for a core without room. Where that core's clock is behind it has not run yet, and no time goes by.
    fn wait_for(&mut self, core: &VirtualClock, is_over: bool) {
        if is_over {
            self.end();
        } else {
            self.clock.advance_to(core.now_ns());
            self.state = State::Waits;
        }
    }

    fn end(&mut self) {
        self.core.end();
        self.state = State::Over;
    }

    /// Whether it waits for room in the history, and the cores, which have taken so many steps, take no more.
    fn is_stuck(&mut self, steps: u64) -> bool {
        self.looks = if self.steps == steps { self.looks + 1 } else { 0 };
        self.steps = steps;
        self.looks > STUCK_LOOKS
    }
}
