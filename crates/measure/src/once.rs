//! One trial on virtual cores that begin without flows, and may hand packets to each other: what `dyssect` on several cores takes.
//!
//! ```text
//!   card: descriptors ──► the strategy's dispatcher ──► ring ──► core 0 ──► ring ──► core 1
//!           (drops)        (no core's time)              └─────► core 1
//! ```
//!
//! The dispatcher is that of a run. It works at the packets' own time, and takes none: it stands for the card. A packet is dropped where the ring of
//! its core has no room, and the card's descriptors behind it are all taken; so packets of other cores are dropped, too, from then on, and a loss is an upper
//! bound of what a card with a queue for each core would lose. A core has its
//! own clock, and is at most a slice ahead of others ([`SLICE_CLOSE_NS`]): it may get a packet that much too early that another hands on.

use std::sync::atomic::AtomicBool;

use engine::strategies::Team;
use engine::{Chain, Plan};
use io::Pool;
use io::nic::{Offer, Pace, VirtualClock};
use thiserror::Error;
use wire::Stamp;

use crate::bench::{Lead, check_virtual, virtually};
use crate::executor::{Outcomes, SLICE_CLOSE_NS};
use crate::offered::{BenchError, Offered};
use crate::station::{Coming, Seat, Terms};
use crate::stopwatch::Stopwatch;
use crate::trial::TrialError;

/// Frames of a core beside those in its ring: packets that wait for a shard, for a part of one, or for an offloader.
const FRAMES: usize = 16_384;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Packets offered.
    pub offered: u64,
    /// Packets that the card dropped.
    pub dropped: u64,
    /// When the last packet was done, ns from the first.
    pub elapsed_ns: u64,
    /// By core, the time spent on packets, ns.
    pub busy_ns: Vec<u64>,
    /// Packets taken through the chain: all that the card did not drop.
    pub received: u64,
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

/// Offers `count` packets, `pps` a second, or all at once where that is `None`; `descriptors` of them can wait in the card.
///
/// # Errors
/// [`OnceError`]; `stop` ends it early.
pub fn once(
    chain: &Chain,
    plan: &Plan,
    offered: Offered,
    (pps, count): (Option<f64>, u32),
    descriptors: usize,
    stop: &AtomicBool,
) -> Result<Once, OnceError> {
    check_virtual(chain, plan)?;
    let mut chains = plan.cores_of(chain).map_err(|_| BenchError::OutOfMemory)?;
    let Team { dispatcher, intakes } = plan.team(chain);
    let packets = offered.packets;
    let pools = Pool::shared_for(&packets, plan.cores, FRAMES);
    let origin = Stamp { seq: 0, time_ns: packets.time_ns(0) };
    let (pace, descriptors) = match pps {
        Some(pps) => (Pace::even(pps), descriptors),
        None => (Pace::AtOnce, usize::MAX),
    };
    let offer = Offer { packets, pace, origin };
    let terms = Terms { offer, descriptors, frames: FRAMES, has_latency: false, dispatch_ns: 0 };
    let clock = VirtualClock::default();
    let lead = Lead { chain, terms: &terms, count, cores: plan.cores };
    let (card, behind) = lead.sequencer(dispatcher, clock.clone());
    let seats = chains.iter_mut().zip(intakes).zip(behind.into_iter().zip(pools));
    let seats = seats.map(|((chain, intake), (behind, pool))| Seat {
        chain,
        intake,
        coming: Coming::Shared(behind, pool),
    });
    let mut stopwatches = vec![Stopwatch::default(); plan.cores + 1];
    let first = Some((card.card(), clock));
    let Outcomes { cores, sequencer, .. } =
        virtually(&terms, seats.collect(), first, &mut stopwatches, SLICE_CLOSE_NS, stop)?;
    let cores: Vec<_> = cores.into_iter().map(|core| core.trial).collect();
    Ok(Once {
        offered: count.into(),
        dropped: sequencer.map_or(0, |card| card.dropped),
        elapsed_ns: cores.iter().map(|core| core.elapsed_ns).max().unwrap_or(0),
        busy_ns: cores.iter().map(|core| core.busy_ns).collect(),
        received: cores.iter().map(|core| core.received).sum(),
    })
}

#[cfg(test)]
mod tests;
