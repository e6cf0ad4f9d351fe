use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use engine::Intake;
use engine::{BATCH_PACKETS, Chain, ChainCore, External, Mover, Plan, Recovery, Replicator, pin};
use io::nic::{Clock as NicClock, NicPort, Offer, Pace, VirtualClock, WallClock};
use io::{Packets, Trace};
use strategy::Assign;
use thiserror::Error;
use wire::Stamp;

use crate::executor::{
    Moving, Outcomes, SLICE_ALONE_NS, SLICE_CLOSE_NS, SLICE_TOGETHER_NS, Station, VirtualCore, run_measured,
    run_virtual,
};
use crate::histories::{Histories, InPackets};
use crate::replay::{TraceHistory, TrialPast};
use crate::stopwatch::{Meter, Stopwatch};
use crate::trial::Unaccounted;
use crate::{Clock, QueueSchedule, Schedule, Trial};

/// A chain on its cores behind a simulated card, for one trial after another. Flows live on from trial to
/// trial, and stamps go on.
pub struct Bench {
    chain: Chain,
    settings: Settings,
    packets: Arc<Packets>,
    assign: Box<dyn Assign>,
    cores: Vec<ChainCore>,
    /// By core, where flows move.
    movers: Vec<Mover>,
    /// Where cores step the packets of others.
    histories: Histories,
    /// They know what is usual on their cores.
    stopwatches: Vec<Stopwatch>,
    /// The next trial's first.
    next: Stamp,
}

/// A trace laid out for replay under one plan.
#[derive(Clone)]
pub struct Offered {
    packets: Arc<Packets>,
    /// Where cores step the packets of others.
    histories: Histories,
}

impl Offered {
    /// Packets that have their history before them.
    pub(crate) fn with_history(sequenced: &Trace, how: InPackets) -> Offered {
        let all: Vec<u32> = (0..sequenced.len() as u32).collect();
        let packets = Arc::new(Packets::new(sequenced, &all, |_| 0));
        Offered { packets, histories: Histories::Packets(how) }
    }

    /// The packets, as a card has them.
    pub fn packets(&self) -> &Packets {
        &self.packets
    }
}

/// How a chain is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whose time counts.
    pub clock: Clock,
    /// Receive descriptors of each queue.
    pub descriptors: usize,
    /// Whether packets come with the trace's bursts and lulls, and not at one distance.
    pub is_shaped: bool,
    /// Time that each packet takes beside what is done, ns: what another backend's dispatch costs more.
    pub dispatch_ns: u64,
}

/// Why a chain cannot be measured so.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Nothing to offer.
    #[error("the trace has no packets")]
    Empty,
    /// Nothing that functions could work on.
    #[error(
        "none of the trace's {packets} packets is a well-formed IP packet\nIs the link type that the capture states the right one?"
    )]
    NoIp {
        /// How many there are.
        packets: usize,
    },
    /// A thread for each core would not have a processor of its own.
    #[error(
        "{cores} cores cannot be measured on {processors} processors\n\
         Use fewer, or `--cores {cores} --virtual`: cores that run in turn, each with a clock of its own."
    )]
    Processors {
        /// What was asked.
        cores: usize,
        /// What there is.
        processors: usize,
    },
    /// Cores with common memory slow each other down, which cores that run in turn do not show.
    #[error(
        "virtual cores cannot show what {what} cost{}: cores that run in turn never wait for each other's cache lines\n\
         Use `--cores`, up to as many as there are processors.", if what.contains("strategy") { "s" } else { "" }
    )]
    Common {
        /// What the cores have in common.
        what: String,
    },
    /// No memory for the tables.
    #[error("no memory for the tables\nUse fewer cores, or smaller `flows` in the chain file.")]
    OutOfMemory,
}

/// Why a trial gave no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrialError {
    /// Someone asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// A defect.
    #[error(transparent)]
    Unaccounted(#[from] Unaccounted),
}

/// Frames of each core beside one for each descriptor: a batch on its way, and as many held back.
const SPARE_FRAMES: usize = 4 * BATCH_PACKETS;

/// From a trial's last packet to the next trial's first, as stamps have it.
const PAUSE_NS: u64 = 1_000;

/// Whether `cores` virtual cores would say what as many real ones do.
///
/// # Errors
/// [`BenchError::Common`] where the cores have memory in common.
pub fn check_virtual(chain: &Chain, plan: &Plan) -> Result<(), BenchError> {
    let what = if plan.is_striped() {
        "strategy `shared`".to_owned()
    } else if plan.shared.is_empty() || plan.cores == 1 {
        return Ok(());
    } else {
        format!("the shared states of `{}`", plan.shared_names(chain).join("` and `"))
    };
    Err(BenchError::Common { what })
}

/// Lays a trace out for replay and hashes each packet once, as a card under this plan does.
///
/// # Errors
/// [`BenchError::Empty`] and [`BenchError::NoIp`].
pub fn packets(chain: &Chain, plan: &Plan, trace: &Trace) -> Result<Offered, BenchError> {
    if trace.is_empty() {
        return Err(BenchError::Empty);
    }
    let assign = plan.assign(chain);
    let all: Vec<u32> = (0..trace.len() as u32).collect();
    let mut has_ip = false;
    let packets = Packets::new(trace, &all, |record| {
        let headers = chain.headers(record.link, record.data, record.wire_len);
        has_ip |= headers.is_ip() && headers.is_well_formed();
        assign.entry(&headers)
    });
    if !has_ip {
        return Err(BenchError::NoIp { packets: trace.len() });
    }
    let histories = match plan.is_replicated() {
        true => Histories::Log(Arc::new(TraceHistory::new(chain, trace))),
        false => Histories::None,
    };
    Ok(Offered { packets: Arc::new(packets), histories })
}

impl Bench {
    /// Takes all memory. `packets` are from [`packets`] under the same plan.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn new(
        chain: &Chain,
        plan: &Plan,
        offered: Offered,
        settings: Settings,
    ) -> Result<Bench, BenchError> {
        let Offered { packets, histories } = offered;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        match settings.clock {
            Clock::Virtual => check_virtual(chain, plan)?,
            Clock::Measured if plan.cores > processors => {
                return Err(BenchError::Processors { cores: plan.cores, processors });
            }
            Clock::Measured => {}
        }
        let cores = plan.cores_of(chain).map_err(|_| BenchError::OutOfMemory)?;
        let next = Stamp { seq: 0, time_ns: packets.time_ns(0) };
        let movers = plan.owners().map_or_else(Vec::new, |owners| Mover::for_cores(&owners, plan.cores).1);
        let stopwatches = vec![Stopwatch::default(); cores.len()];
        let assign = plan.assign(chain);
        let chain = chain.clone();
        Ok(Bench { chain, settings, packets, assign, cores, movers, histories, stopwatches, next })
    }

    /// Whose time counts.
    pub fn clock(&self) -> Clock {
        self.settings.clock
    }

    /// Receive descriptors of each queue.
    pub fn descriptors(&self) -> usize {
        self.settings.descriptors
    }

    /// One pass over the trace, whose rate counts for nothing: flows come to exist, caches fill.
    ///
    /// # Errors
    /// As [`Bench::closed_loop`].
    pub fn warm_up(&mut self, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let count = self.packets.len() as u32;
        self.closed_loop(count, stop)
    }

    /// `count` packets that are all there from the beginning, none dropped: what the cores can do.
    ///
    /// # Errors
    /// [`TrialError`]; `stop` ends the trial early.
    pub fn closed_loop(&mut self, count: u32, stop: &AtomicBool) -> Result<Trial, TrialError> {
        self.run(None, Pace::AtOnce, usize::MAX, count, false, stop)
    }

    /// `count` packets, `pps` a second. The latency of each is recorded if `has_latency`.
    ///
    /// # Errors
    /// As [`Bench::closed_loop`].
    ///
    /// # Panics
    /// If `pps` is not more than 0.
    pub fn trial(
        &mut self,
        pps: f64,
        count: u32,
        has_latency: bool,
        stop: &AtomicBool,
    ) -> Result<Trial, TrialError> {
        let pace = match self.settings.is_shaped {
            true => Pace::shaped(&self.packets, pps),
            false => Pace::even(pps),
        };
        self.run(Some(pps), pace, self.settings.descriptors, count, has_latency, stop)
    }

    fn run(
        &mut self,
        offered_pps: Option<f64>,
        pace: Pace,
        descriptors: usize,
        count: u32,
        has_latency: bool,
        stop: &AtomicBool,
    ) -> Result<Trial, TrialError> {
        let origin = self.next;
        let cores = self.cores.len();
        // A packet that came a second time would bring the history of the first.
        let count = match self.histories {
            Histories::Packets(_) => count.min(self.packets.len() as u32),
            Histories::None | Histories::Log(_) => count,
        };
        let mut schedule = Schedule::new(&mut *self.assign, cores, &self.packets, &pace, origin, count);
        if let Histories::Packets(InPackets { loss: Some(loss), .. }) = self.histories {
            schedule.lose(|core, arrival| loss.hits(core, origin.seq + u64::from(arrival)));
        }
        self.next.seq += u64::from(count);
        self.next.time_ns += self.lasts_ns(&pace, count) + PAUSE_NS;
        let run = Run {
            offer: Offer { packets: Arc::clone(&self.packets), pace, origin },
            descriptors,
            frames: self.settings.descriptors + SPARE_FRAMES,
            has_latency,
            dispatch_ns: self.settings.dispatch_ns,
            may_wait: self.may_wait(descriptors),
            schedule,
        };
        let (moves, offered) = (run.schedule.moves, run.schedule.packets());
        let mut externals = self.externals(origin, count).into_iter();
        let mut movers = self.movers.iter_mut();
        let intake = |queue: &QueueSchedule| -> Box<dyn Intake + '_> {
            match (&self.histories, movers.next()) {
                (Histories::Log(history), _) => {
                    let past = TrialPast::new(Arc::clone(history), run.offer.pace.clone(), origin, count);
                    Box::new(Replicator::new(past, &self.chain, cores, origin.seq))
                }
                (Histories::Packets(_), _) => Box::new(externals.next().expect("one for each core")),
                (Histories::None, Some(mover)) => Box::new(Moving::new(mover, queue.orders.clone())),
                (Histories::None, None) => Box::new(()),
            }
        };
        let intakes = run.schedule.queues.iter().map(intake).collect();
        let outcomes = match self.settings.clock {
            Clock::Measured => run.measured(&mut self.cores, intakes, &mut self.stopwatches, stop),
            Clock::Virtual => run.virtually(&mut self.cores, intakes, &mut self.stopwatches, stop),
        }?;
        let trial = summarise(offered_pps, offered, moves, outcomes);
        trial.check()?;
        Ok(trial)
    }

    /// Cores that get history with their packets, if they do.
    fn externals(&self, origin: Stamp, count: u32) -> Vec<External> {
        let Histories::Packets(InPackets { has_recovery, .. }) = self.histories else { return Vec::new() };
        // As many as packets can be on their way to all cores, as where these are real.
        let records = self.cores.len() * (self.settings.descriptors + 2 * BATCH_PACKETS);
        let recovery = if has_recovery { Recovery::Records(records) } else { Recovery::Off };
        // Histories say when packets came by the trace.
        let time_ns = origin.time_ns - self.packets.time_ns(0);
        let origin = Stamp { time_ns, ..origin };
        External::for_cores(&self.chain, self.cores.len(), recovery, count.into(), origin)
    }

    /// Whether packets that bring their history may get lost. Also where nothing is done about it, so that what is
    /// measured with recovery and without is measured alike.
    fn may_wait(&self, descriptors: usize) -> bool {
        match self.histories {
            Histories::Packets(InPackets { loss, .. }) => loss.is_some() || descriptors < usize::MAX,
            Histories::None | Histories::Log(_) => false,
        }
    }

    /// How far stamps move on from the first of `count` packets to the last.
    fn lasts_ns(&self, pace: &Pace, count: u32) -> u64 {
        let last = count.saturating_sub(1);
        match self.histories {
            Histories::Packets(_) => self.packets.time_ns(last as usize) - self.packets.time_ns(0),
            Histories::None | Histories::Log(_) => pace.arrival_ns(last),
        }
    }
}

/// One trial, about to be run.
struct Run {
    offer: Offer,
    descriptors: usize,
    frames: usize,
    has_latency: bool,
    dispatch_ns: u64,
    /// Whether packets that bring their history may get lost, so that cores may wait for what others have received.
    may_wait: bool,
    schedule: Schedule,
}

impl Run {
    fn measured<'a>(
        self,
        cores: &'a mut [ChainCore],
        intakes: Vec<Box<dyn Intake + 'a>>,
        stopwatches: &'a mut [Stopwatch],
        stop: &AtomicBool,
    ) -> Result<Outcomes, TrialError> {
        let station = |core, chain, intake, clock: WallClock| self.station(core, chain, intake, clock);
        run_measured(cores, intakes, stopwatches, &station, stop)
    }

    /// On one pinned thread of its own, so that the caller's stays free to run anywhere.
    fn virtually<'a, M: Meter>(
        self,
        cores: &'a mut [ChainCore],
        intakes: Vec<Box<dyn Intake + 'a>>,
        meters: &'a mut [M],
        stop: &AtomicBool,
    ) -> Result<Outcomes, TrialError> {
        let work = || {
            pin(0);
            let core = |(core, ((chain, intake), meter))| {
                let clock = VirtualClock::default();
                let station = self.station(core, chain, intake, clock.clone());
                VirtualCore { station, clock, meter }
            };
            let cores = cores.iter_mut().zip(intakes).zip(meters).enumerate().map(core).collect();
            run_virtual(cores, self.slice_ns(), stop)
        };
        thread::scope(|scope| {
            scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// How far a virtual core may run ahead of the others.
    fn slice_ns(&self) -> u64 {
        match () {
            () if self.may_wait => SLICE_CLOSE_NS,
            () if self.schedule.moves > 0 => SLICE_TOGETHER_NS,
            () => SLICE_ALONE_NS,
        }
    }

    fn station<'a, C: NicClock>(
        &self,
        core: usize,
        chain: &'a mut ChainCore,
        intake: Box<dyn Intake + 'a>,
        clock: C,
    ) -> Station<'a, C> {
        let arrivals = self.schedule.queues[core].arrivals.clone();
        let count = arrivals.len() as u64;
        let mut port = NicPort::new(self.offer.clone(), arrivals, self.descriptors, self.frames, clock);
        if self.has_latency {
            port = port.with_latency();
        }
        Station::new(port, chain, intake, count, self.dispatch_ns)
    }
}

fn summarise(offered_pps: Option<f64>, offered: u64, moves: u64, (outcomes, time): Outcomes) -> Trial {
    let mut cores = Vec::new();
    let mut latency = None;
    for (core, histogram) in outcomes {
        cores.push(core);
        latency = match (latency.take(), histogram) {
            (None, histogram) => histogram,
            (Some(mut all), Some(histogram)) => {
                all += histogram;
                Some(all)
            }
            (all, None) => all,
        };
    }
    Trial { offered_pps, offered, cores, moves, latency, time }
}

#[cfg(test)]
mod tests;
