//! One trial on virtual cores that begin without flows, under the strategy's own dispatcher: what several cores take that hand packets and
//! flows to each other.
//!
//! ```text
//!   card: the strategy's dispatcher ──► descriptors ──► core 0 ──► ring ──► core 1
//!           (no core's time)      │       (drops)
//!                                 └───► descriptors ──► core 1
//! ```
//!
//! The dispatcher is that of a run. It works at the packets' own time, takes none, and waits for no core: it stands for the card. Each core has a
//! queue of the card for itself. Where that is full, packets for this core are dropped, and no others, as in trials of `rss` whose
//! arrivals are told ahead ([`io::nic::Dealt`]). A sequencer's work is a core's: [`Bench`](crate::Bench) charges it, this does not.
//!
//! All packets at once are another matter: none is dropped then, and the card waits where a core's ring is full.
//!
//! A core has its own clock, and is at most a slice ahead of others ([`SLICE_CLOSE_NS`]): it may get a packet that much too early that another hands on.

use std::sync::atomic::AtomicBool;

use engine::strategies::{Dispatcher, Team};
use engine::{Chain, ChainCore, Plan};
use hdrhistogram::Histogram;
use io::Pool;
use io::nic::{Offer, Pace, VirtualClock};
use thiserror::Error;
use wire::Stamp;

use crate::comparison::{Clock, Conditions};
use crate::disturbance::ThreadTime;
use crate::executor::{Outcomes, SLICE_CLOSE_NS};
use crate::lead::{Lead, check_virtual, virtually};
use crate::offered::{BenchError, Offered};
use crate::sequencer_core::SequencerCore;
use crate::station::{Coming, CoreOutcome, Seat, Terms};
use crate::stopwatch::{Meter, Stopwatch};
use crate::trial::{CoreTrial, TrialError, both, share};

/// Frames of a core beside those in its queue: packets that wait for a shard, for a part of one, or for an offloader.
pub(crate) const FRAMES: usize = 16_384;

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Packets a second; `None`: all are there at once, and none is dropped.
    pub pps: Option<f64>,
    /// Packets.
    pub count: u32,
    /// How many of them, the first, are a warm-up: what the card drops of them, and the time that they take, counts for nothing.
    pub warm_up: u32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Once {
    /// Packets offered behind the warm-up.
    pub offered: u64,
    /// Packets taken through the chain, those of the warm-up included.
    pub received: u64,
    /// When the last packet was done, ns from the first.
    pub elapsed_ns: u64,
    /// Each core's part.
    pub cores: Vec<OnceCore>,
    /// Entries or shards that went from core to core.
    pub moves: u64,
    /// Packets of those received that a function dropped.
    pub refused: u64,
    /// From arrival to leaving, ns, of packets behind the warm-up, where that was asked for.
    pub latency: Option<Histogram<u64>>,
    /// Time of the thread that ran it, with a processor and without.
    pub time: ThreadTime,
}

/// What one core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnceCore {
    /// Packets that it took from its own queue, those of the warm-up included.
    pub taken: u64,
    /// Packets that the card dropped at its queue, those of the warm-up included.
    pub dropped: u64,
    /// Packets among `dropped` that came behind the warm-up.
    pub dropped_late: u64,
    /// Packets that came to its queue behind the warm-up.
    pub arrived_late: u64,
    /// From the trial's start to its last packet, ns.
    pub elapsed_ns: u64,
    /// The time that it spent on packets behind the warm-up, ns; on those that others handed on, too.
    pub busy_ns: u64,
    /// Batches that took so long that the system must have run something else; they count as usual ones.
    pub slow_batches: u64,
}

impl Once {
    /// The share of packets behind the warm-up that the card dropped, 0 to 1.
    pub fn loss(&self) -> f64 {
        share(self.cores.iter().map(|core| core.dropped_late).sum(), self.offered)
    }

    /// Packets that the card dropped, those of the warm-up included.
    pub fn dropped(&self) -> u64 {
        self.cores.iter().map(|core| core.dropped).sum()
    }

    /// Why its figures are not to be relied on, a sentence for each reason.
    pub fn notes(&self) -> Vec<String> {
        let off_processor_share = self.time.off_processor_share();
        let slow_batches = self.cores.iter().map(|core| core.slow_batches).sum();
        Conditions { off_processor_share, steal_share: None, slow_batches }.notes(Clock::Virtual)
    }

    /// That each of so many packets was taken or dropped, and that each which was taken went through the chain, on whichever core.
    ///
    /// # Errors
    /// [`TrialError::LostSight`] if one was lost sight of.
    pub(crate) fn check(&self, count: u32) -> Result<(), TrialError> {
        let (offered, received, dropped) = (count.into(), self.received, self.dropped());
        let taken = self.cores.iter().map(|core| core.taken).sum();
        match taken + dropped == offered && received == taken {
            true => Ok(()),
            false => Err(TrialError::LostSight { offered, taken, dropped, received }),
        }
    }
}

/// Why there is none.
#[derive(Debug, Error)]
pub enum OnceError {
    /// The chain cannot be measured so.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The trial gave no figures.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// Offers packets to cores of which each has a queue with so many `descriptors`.
///
/// # Errors
/// [`OnceError`]; `stop` ends it early.
pub fn once(
    chain: &Chain,
    plan: &Plan,
    offered: Offered,
    load: Load,
    descriptors: usize,
    stop: &AtomicBool,
) -> Result<Once, OnceError> {
    let mut stopwatches = vec![Stopwatch::default(); plan.cores + 1];
    let card = if load.pps.is_some() { with_queues } else { with_rings };
    let once = metered(chain, plan, offered, load, (descriptors, card), (&mut stopwatches, stop))?;
    once.check(load.count)?;
    Ok(once)
}

/// A card with this dispatcher, and what comes to each core from it.
pub(crate) type Card = fn(&Lead<'_>, Box<dyn Dispatcher>, VirtualClock, Vec<Pool>) -> (Dealing, Vec<Coming>);

/// The card, as the executor has it.
pub(crate) type Dealing = SequencerCore<VirtualClock>;

/// A queue for each core, which drops what finds it full.
pub(crate) fn with_queues(
    lead: &Lead<'_>,
    dispatcher: Box<dyn Dispatcher>,
    clock: VirtualClock,
    pools: Vec<Pool>,
) -> (Dealing, Vec<Coming>) {
    let (card, queues) = lead.card(dispatcher, clock);
    (card, queues.into_iter().zip(pools).map(|(queue, pool)| Coming::Dealt(queue, pool)).collect())
}

/// A ring to each core, of which one that is full stops the card.
pub(crate) fn with_rings(
    lead: &Lead<'_>,
    dispatcher: Box<dyn Dispatcher>,
    clock: VirtualClock,
    pools: Vec<Pool>,
) -> (Dealing, Vec<Coming>) {
    let (front, behind) = lead.sequencer(dispatcher, clock);
    (front.card(), behind.into_iter().zip(pools).map(|(behind, pool)| Coming::Shared(behind, pool)).collect())
}

/// Runs a trial where each of `meters` says how long its core takes.
fn metered<M: Meter>(
    chain: &Chain,
    plan: &Plan,
    Offered { packets, .. }: Offered,
    Load { pps, count, warm_up }: Load,
    (descriptors, card): (usize, Card),
    (meters, stop): (&mut [M], &AtomicBool),
) -> Result<Once, OnceError> {
    check_virtual(chain, plan)?;
    let mut chains = plan.cores_of(chain).map_err(|_| BenchError::OutOfMemory)?;
    let origin = Stamp { seq: 0, time_ns: packets.time_ns(0) };
    let (pace, descriptors) = match pps {
        Some(pps) => (Pace::even(pps), descriptors),
        None => (Pace::AtOnce, usize::MAX),
    };
    let (warm_ns, offer) = (pace.arrival_ns(warm_up), Offer { packets, pace, origin });
    let terms = Terms { offer, descriptors, frames: FRAMES, has_latency: false, dispatch_ns: 0, warm_ns };
    let lead = Lead { chain, terms: &terms, count, cores: plan.cores };
    let once = dealt(&lead, plan, &mut chains, card, meters, stop)?;
    Ok(Once { offered: count.saturating_sub(warm_up).into(), ..once })
}

/// One trial of `chains`, which have no flows, under these terms and behind this card, with a team of its own. All packets count as offered.
pub(crate) fn dealt<M: Meter>(
    lead: &Lead<'_>,
    plan: &Plan,
    chains: &mut [ChainCore],
    card: Card,
    meters: &mut [M],
    stop: &AtomicBool,
) -> Result<Once, TrialError> {
    let Team { dispatcher, intakes } = plan.team(lead.chain);
    let pools = Pool::shared_for(&lead.terms.offer.packets, plan.cores, lead.terms.frames);
    let clock = VirtualClock::default();
    let (card, coming) = card(lead, dispatcher, clock.clone(), pools);
    let seats = chains.iter_mut().zip(intakes).zip(coming);
    let seats = seats.map(|((chain, intake), coming)| Seat { chain, intake, coming }).collect();
    let Outcomes { mut cores, time, .. } =
        virtually(lead.terms, seats, Some((card, clock)), meters, SLICE_CLOSE_NS, stop)?;
    let drops =
        chains.iter().flat_map(ChainCore::stages).map(|stage| stage.counters().drops.iter().sum::<u64>());
    Ok(Once {
        offered: lead.count.into(),
        received: cores.iter().map(|core| core.trial.received).sum(),
        elapsed_ns: cores.iter().map(|core| core.trial.elapsed_ns).max().unwrap_or(0),
        moves: cores.iter().map(|core| core.moves).sum(),
        refused: drops.sum(),
        time,
        latency: cores.iter_mut().fold(None, |all, core| both(all, core.latency.take())),
        cores: cores.into_iter().map(part).collect(),
    })
}

fn part(CoreOutcome { trial, taken, early, .. }: CoreOutcome) -> OnceCore {
    OnceCore {
        taken,
        dropped: trial.dropped,
        dropped_late: trial.dropped - early.dropped,
        arrived_late: taken + trial.dropped - early.arrived,
        elapsed_ns: trial.elapsed_ns,
        busy_ns: trial.busy_ns,
        slow_batches: trial.slow_batches,
    }
}

impl OnceCore {
    /// The part of a trial behind a warm-up of so long. What the core took from its queue counts as received, wherever it was stepped.
    pub(crate) fn trial(&self, warm_ns: u64) -> CoreTrial {
        let OnceCore {
            dropped_late: dropped, arrived_late: arrived, elapsed_ns, busy_ns, slow_batches, ..
        } = *self;
        let elapsed_ns = elapsed_ns.saturating_sub(warm_ns);
        CoreTrial { arrived, received: arrived - dropped, dropped, busy_ns, elapsed_ns, slow_batches }
    }
}

#[cfg(test)]
mod tests;
