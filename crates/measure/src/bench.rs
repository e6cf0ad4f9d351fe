//! A chain on its cores behind a simulated card, for one trial after another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use engine::Intake;
use engine::strategies::Team;
use engine::{BATCH_PACKETS, Chain, ChainCore, External, Mover, Plan, Recovery};
use io::Packets;
use io::nic::{Behind, Common, Offer, Pace, VirtualClock, WallClock};
use strategy::{Assign, Every};
use wire::Stamp;

use crate::comparison::Clock;
use crate::executor::{
    Outcomes, SLICE_ALONE_NS, SLICE_BEHIND_NS, SLICE_CLOSE_NS, SLICE_TOGETHER_NS, SLICE_TURNS_NS,
    run_measured,
};
use crate::lead::{Lead, check_virtual, virtually};
use crate::offered::{BenchError, InPackets, Offered};
use crate::once::{self, with_queues, with_rings};
use crate::schedule::{QueueSchedule, Schedule};
use crate::station::{Coming, CoreOutcome, Moving, Seat, Terms};
use crate::steered;
use crate::stopwatch::Stopwatch;
use crate::trial::{Trial, TrialError, both};

/// A chain on its cores behind a simulated card, for one trial after another. Flows live on from trial to
/// trial, and times go on.
///
/// Under a strategy whose dispatcher tells cores what the packets of others are, all packets come to a core in front, the
/// sequencer, which is one more than the plan's. Each trial then has a team of its own, as a run has: numbers begin at 0.
pub struct Bench {
    chain: Chain,
    plan: Plan,
    settings: Settings,
    packets: Arc<Packets>,
    assign: Box<dyn Assign>,
    cores: Vec<ChainCore>,
    /// By core, where flows move.
    movers: Vec<Mover>,
    /// Where packets bring history along.
    history: Option<InPackets>,
    /// Whether a sequencer is in front.
    is_sequenced: bool,
    /// Where a card steers packets past the sequencer.
    steered: Option<steered::Team>,
    /// Whether packets go from core to core, so that each trial begins without flows, behind a card that has the dispatcher in it.
    hands_on: bool,
    /// They know what is usual on their cores; the last is the sequencer's.
    stopwatches: Vec<Stopwatch>,
    /// The next trial's first.
    next: Stamp,
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

/// Frames of each core beside one for each descriptor: a batch on its way, and as many held back.
const SPARE_FRAMES: usize = 4 * BATCH_PACKETS;

/// Decisions ahead of what counts, where cores begin without flows.
const WARM_UP_PERIODS: u64 = 2;

/// From a trial's last packet to the next trial's first, as stamps have it.
const PAUSE_NS: u64 = 1_000;

/// Whether a core in front tells the others what their packets are, unless packets bring that along.
pub(crate) fn is_sequenced(chain: &Chain, plan: &Plan) -> bool {
    plan.team(chain).dispatcher.tells_headers()
}

/// Whether packets go from core to core.
pub(crate) fn hands_on(plan: &Plan) -> bool {
    plan.shards.is_some() && plan.cores > 1
}

impl Bench {
    /// Takes all memory. `packets` are from [`packets`](crate::packets) under the same plan.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn new(
        chain: &Chain,
        plan: &Plan,
        offered: Offered,
        settings: Settings,
    ) -> Result<Bench, BenchError> {
        let Offered { packets, history } = offered;
        let hands_on = hands_on(plan);
        let is_sequenced = history.is_none() && is_sequenced(chain, plan);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        match settings.clock {
            Clock::Virtual => check_virtual(chain, plan)?,
            Clock::Measured if hands_on => {
                return Err(BenchError::HandsOn { strategy: plan.strategy.name(), cores: plan.cores });
            }
            Clock::Measured if plan.cores + usize::from(is_sequenced) > processors => {
                let (cores, has_sequencer) = (plan.cores, is_sequenced);
                return Err(BenchError::Processors { cores, has_sequencer, processors });
            }
            Clock::Measured => {}
        }
        // Look-ups in the card are another question.
        let plan = &Plan { card_flows: if hands_on { 0 } else { plan.card_flows }, ..plan.clone() };
        let cores = plan.cores_of(chain).map_err(|_| BenchError::OutOfMemory)?;
        let next = Stamp { seq: 0, time_ns: packets.time_ns(0) };
        let movers = plan.owners().map_or_else(Vec::new, |owners| Mover::for_cores(&owners, plan.cores).1);
        let steered = plan.steered_team(chain).filter(|_| is_sequenced).map(steered::Team::new);
        let stopwatches = vec![Stopwatch::default(); cores.len() + 1];
        let (assign, chain, plan) = (plan.assign(chain), chain.clone(), plan.clone());
        Ok(Bench {
            chain,
            plan,
            settings,
            packets,
            assign,
            cores,
            movers,
            history,
            is_sequenced,
            steered,
            hands_on,
            stopwatches,
            next,
        })
    }

    /// Whose time counts.
    pub fn clock(&self) -> Clock {
        self.settings.clock
    }

    /// Receive descriptors of each queue.
    pub fn descriptors(&self) -> usize {
        self.settings.descriptors
    }

    /// A pass or two over the trace, whose rates count for nothing: flows come to exist, caches fill, flows migrate as loads ask.
    ///
    /// # Errors
    /// As [`Bench::closed_loop`].
    pub fn warm_up(&mut self, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let count = self.packets.len() as u32;
        let warm = self.closed_loop(count, stop)?;
        // Packets that are all there at once take no time, by their stamps; what follows loads needs some to find them out.
        if self.plan.rebalancing.is_some() {
            self.trial(warm.received_pps(), count, false, stop)?;
        }
        Ok(warm)
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
        // A packet that came a second time would bring the history of the first.
        let count = match self.history {
            Some(_) => count.min(self.packets.len() as u32),
            None => count,
        };
        self.next.seq += u64::from(count);
        self.next.time_ns += self.lasts_ns(&pace, count) + PAUSE_NS;
        let terms = Terms {
            offer: Offer { packets: Arc::clone(&self.packets), pace, origin },
            descriptors,
            frames: self.settings.descriptors + SPARE_FRAMES,
            has_latency,
            dispatch_ns: self.settings.dispatch_ns,
            warm_ns: 0,
        };
        let trial = match () {
            () if self.hands_on => self.anew(terms, offered_pps, count, stop),
            () if self.steered.is_some() => self.steered(&terms, count, stop),
            () if self.is_sequenced => self.sequenced(terms, count, stop),
            () if self.plan.has_one_queue() => self.in_turns(terms, count, stop),
            () => self.scheduled(terms, count, stop),
        }?;
        let trial = Trial { offered_pps, ..trial };
        trial.check()?;
        Ok(trial)
    }

    /// Each packet comes to the queue that the card picks, told ahead.
    fn scheduled(&mut self, terms: Terms, count: u32, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let (cores, Offer { pace, origin, .. }) = (self.cores.len(), &terms.offer);
        let mut schedule = Schedule::new(&mut *self.assign, cores, &self.packets, pace, *origin, count);
        if let Some(InPackets { loss: Some(loss), .. }) = self.history {
            schedule.lose(|core, arrival| loss.hits(core, origin.seq + u64::from(arrival)));
        }
        let (moves, offered) = (schedule.moves, schedule.packets());
        let slice_ns = match () {
            () if self.may_wait(terms.descriptors) => SLICE_CLOSE_NS,
            () if moves > 0 => SLICE_TOGETHER_NS,
            () => SLICE_ALONE_NS,
        };
        let mut externals = self.externals(*origin, count).into_iter();
        let mut movers = self.movers.iter_mut();
        let seat = |(chain, QueueSchedule { arrivals, orders })| {
            let intake: Box<dyn Intake + '_> = match (externals.next(), movers.next()) {
                (Some(external), _) => Box::new(external),
                (None, Some(mover)) => Box::new(Moving::new(mover, orders)),
                (None, None) => Box::new(()),
            };
            Seat { chain, intake, coming: Coming::Scheduled(arrivals) }
        };
        let seats = self.cores.iter_mut().zip(schedule.queues).map(seat).collect();
        let outcomes = match self.settings.clock {
            Clock::Measured => run_measured(&terms, seats, None, &mut self.stopwatches, stop),
            Clock::Virtual => virtually(&terms, seats, None, &mut self.stopwatches, slice_ns, stop),
        }?;
        summarise(Trial { offered, moves, ..Trial::default() }, outcomes)
    }

    /// All packets come to the sequencer, which passes them on.
    fn sequenced(&mut self, terms: Terms, count: u32, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let team = self.plan.team(&self.chain);
        let terms =
            Terms { offer: Offer { origin: Stamp { seq: 0, ..terms.offer.origin }, ..terms.offer }, ..terms };
        let lead = Lead { chain: &self.chain, terms: &terms, count, cores: self.cores.len() };
        let Team { dispatcher, intakes } = team;
        let seats = |behind: Vec<Behind>| {
            let seat = |((chain, intake), behind)| Seat { chain, intake, coming: Coming::Passed(behind) };
            self.cores.iter_mut().zip(intakes).zip(behind).map(seat).collect()
        };
        let outcomes = match self.settings.clock {
            Clock::Measured => {
                let (first, behind) = lead.sequencer(dispatcher, WallClock { start: Instant::now() });
                run_measured(&terms, seats(behind), Some(first), &mut self.stopwatches, stop)
            }
            Clock::Virtual => {
                let clock = VirtualClock::default();
                let (first, behind) = lead.sequencer(dispatcher, clock.clone());
                let first = Some((first, clock));
                virtually(&terms, seats(behind), first, &mut self.stopwatches, SLICE_BEHIND_NS, stop)
            }
        }?;
        summarise(Trial { offered: count.into(), ..Trial::default() }, outcomes)
    }

    /// Packets that all cores are told of come to the sequencer, and all others to the queue that the card picks.
    fn steered(&mut self, terms: &Terms, count: u32, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let Some(team) = &mut self.steered else { return Ok(Trial::default()) };
        let Offer { pace, origin, .. } = &terms.offer;
        let arrivals = team.steer(&self.packets, pace, *origin, count);
        let (straight, told) = (arrivals.straight(), arrivals.sequencer.len());
        let is_alone = told == 0 && !arrivals.is_decided;
        let slice_ns = if is_alone { SLICE_ALONE_NS } else { SLICE_TOGETHER_NS };
        let dispatcher = team.sequencer();
        let seats = |behind: Vec<Behind>| {
            let coming = arrivals.by_core.into_iter().zip(behind);
            let seat = |((chain, intake), (arrivals, behind))| Seat {
                chain,
                intake,
                coming: Coming::Both(arrivals, behind),
            };
            self.cores.iter_mut().zip(team.intakes()).zip(coming).map(seat).collect()
        };
        let lead = Lead { chain: &self.chain, terms, count: told as u32, cores: self.plan.cores };
        let outcomes = match self.settings.clock {
            Clock::Measured => {
                let clock = WallClock { start: Instant::now() };
                let (first, behind) = lead.steered(dispatcher, arrivals.sequencer, clock);
                run_measured(terms, seats(behind), Some(first), &mut self.stopwatches, stop)
            }
            Clock::Virtual => {
                let clock = VirtualClock::default();
                let (first, behind) = lead.steered(dispatcher, arrivals.sequencer, clock.clone());
                let first = Some((first, clock));
                virtually(terms, seats(behind), first, &mut self.stopwatches, slice_ns, stop)
            }
        }?;
        summarise(Trial { offered: count.into(), straight, ..Trial::default() }, outcomes)
    }

    /// Cores take packets from one queue. Numbers begin at 0, as behind a sequencer.
    fn in_turns(&mut self, terms: Terms, count: u32, stop: &AtomicBool) -> Result<Trial, TrialError> {
        let Team { intakes, .. } = self.plan.team(&self.chain);
        let offer = Offer { origin: Stamp { seq: 0, ..terms.offer.origin }, ..terms.offer };
        // As many as the queues of all cores would have.
        let descriptors = terms.descriptors.saturating_mul(self.cores.len());
        let common = Common::new(&offer, count, descriptors);
        let terms = Terms { offer, ..terms };
        let seat = |(core, (chain, intake))| {
            let coming = Coming::Taken { common: common.clone(), counts: core == 0 };
            Seat { chain, intake, coming }
        };
        let seats = self.cores.iter_mut().zip(intakes).enumerate().map(seat).collect();
        let outcomes = match self.settings.clock {
            Clock::Measured => run_measured(&terms, seats, None, &mut self.stopwatches, stop),
            Clock::Virtual => virtually(&terms, seats, None, &mut self.stopwatches, SLICE_TURNS_NS, stop),
        }?;
        summarise(Trial { offered: count.into(), ..Trial::default() }, outcomes)
    }

    /// All cores begin without flows, and packets may go from core to core. A pass over the trace ahead of what counts, and no less than some
    /// periods, has flows come to exist and the dispatcher decide.
    fn anew(
        &mut self,
        terms: Terms,
        pps: Option<f64>,
        count: u32,
        stop: &AtomicBool,
    ) -> Result<Trial, TrialError> {
        // Tables of the trial before are gone ahead of the new ones.
        self.cores.clear();
        self.cores = self.plan.cores_of(&self.chain).map_err(|_| TrialError::OutOfMemory)?;
        let warm_up = pps.map_or(0, |pps| self.warm_up_at(pps));
        let offer = Offer { origin: Stamp { seq: 0, ..terms.offer.origin }, ..terms.offer };
        let (warm_ns, frames) = (offer.pace.arrival_ns(warm_up), once::FRAMES);
        let terms = Terms { offer, frames, warm_ns, ..terms };
        let all = count.saturating_add(warm_up);
        let lead = Lead { chain: &self.chain, terms: &terms, count: all, cores: self.plan.cores };
        let card = if pps.is_some() { with_queues } else { with_rings };
        let once = once::dealt(&lead, &self.plan, &mut self.cores, card, &mut self.stopwatches, stop)?;
        once.check(all)?;
        Ok(Trial {
            offered: count.into(),
            cores: once.cores.iter().map(|core| core.trial(warm_ns)).collect(),
            moves: once.moves,
            latency: once.latency,
            time: once.time,
            ..Trial::default()
        })
    }

    /// Packets ahead of those that count, where cores begin without flows.
    fn warm_up_at(&self, pps: f64) -> u32 {
        let period_ns = match self.plan.rebalancing.unwrap_or_default().every {
            Every::Period(period_ns) => period_ns,
            Every::Packets(_) | Every::Never => 0,
        };
        let decided = (WARM_UP_PERIODS * period_ns) as f64 * 1e-9 * pps;
        self.packets.len().max(decided as usize).min(u32::MAX as usize / 2) as u32
    }

    /// Cores that get history with their packets, if they do.
    fn externals(&self, origin: Stamp, count: u32) -> Vec<External> {
        let Some(InPackets { has_recovery, version, .. }) = self.history else { return Vec::new() };
        // As many as packets can be on their way to all cores, as where these are real.
        let records = self.cores.len() * (self.settings.descriptors + 2 * BATCH_PACKETS);
        let recovery = if has_recovery { Recovery::Records(records) } else { Recovery::Off };
        // Histories say when packets came by the trace.
        let time_ns = origin.time_ns - self.packets.time_ns(0);
        let origin = Stamp { time_ns, ..origin };
        let version = version.of(&self.chain);
        External::for_cores(&self.chain, version, self.cores.len(), recovery, count.into(), origin)
    }

    /// Whether packets that bring their history may get lost, so that cores may wait for what others have received. Also
    /// where nothing is done about it, so that what is measured with recovery and without is measured alike.
    fn may_wait(&self, descriptors: usize) -> bool {
        self.history.is_some_and(|InPackets { loss, .. }| loss.is_some() || descriptors < usize::MAX)
    }

    /// How far stamps move on from the first of `count` packets to the last.
    fn lasts_ns(&self, pace: &Pace, count: u32) -> u64 {
        let last = count.saturating_sub(1);
        match self.history {
            Some(_) => self.packets.time_ns(last as usize) - self.packets.time_ns(0),
            None => pace.arrival_ns(last),
        }
    }
}

/// A trial with what its cores leave behind.
fn summarise(trial: Trial, Outcomes { cores, sequencer, time }: Outcomes) -> Result<Trial, TrialError> {
    let mut trial = Trial { sequencer, time, ..trial };
    for (core, CoreOutcome { trial: of_core, latency, forgotten, .. }) in cores.into_iter().enumerate() {
        if let Some(forgotten) = forgotten {
            return Err(TrialError::forgotten(core, forgotten));
        }
        trial.cores.push(of_core);
        trial.latency = both(trial.latency.take(), latency);
    }
    Ok(trial)
}

#[cfg(test)]
mod anew;
#[cfg(test)]
mod behind_a_card;
#[cfg(test)]
mod sequenced;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod turns;
