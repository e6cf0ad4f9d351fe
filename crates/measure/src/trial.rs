//! What one trial shows, by core, and why it may give no figures.

use engine::Forgotten;
use hdrhistogram::Histogram;
use thiserror::Error;

use crate::comparison::{CoreLoad, SequencerLoad};
use crate::disturbance::ThreadTime;

/// What one trial showed.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// What was offered; `None` where all packets were there at once.
    pub offered_pps: Option<f64>,
    /// Packets offered.
    pub offered: u64,
    /// By core.
    pub cores: Vec<CoreTrial>,
    /// The core in front of them that passes packets on, where the strategy has one. What the card drops, it drops there.
    pub sequencer: Option<CoreTrial>,
    /// Packets that came to the cores past that one.
    pub straight: u64,
    /// Entries of the indirection table that went from core to core.
    pub moves: u64,
    /// From a packet's arrival to its leaving, ns, where that was asked for.
    pub latency: Option<Histogram<u64>>,
    /// Time of the threads that ran it, with a processor and without.
    pub time: ThreadTime,
}

/// What one core did in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTrial {
    /// Packets that came to its queue.
    pub arrived: u64,
    /// Packets among those that arrived that were taken through the chain.
    pub received: u64,
    /// Dropped, because no descriptor was free.
    pub dropped: u64,
    /// Time spent on packets, ns.
    pub busy_ns: u64,
    /// From the trial's start to its last packet, ns.
    pub elapsed_ns: u64,
    /// Batches that took so long that the system must have run something else. A virtual core counts them as
    /// usual ones, a real core as they were.
    pub slow_batches: u64,
}

/// Why a trial gave no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrialError {
    /// The end was asked for.
    #[error("interrupted")]
    Interrupted,
    /// A defect.
    #[error(transparent)]
    Unaccounted(#[from] Unaccounted),
    /// A core looked for a packet in the history that was not there: a defect, since the sequencer writes it ahead, and
    /// waits rather than write over what a core still needs.
    #[error(
        "core {core} found no history of packet {seq}, or not any more\nThis is a defect of Paceline, please report it."
    )]
    Forgotten {
        /// Which core.
        core: usize,
        /// The packet's number in the trial.
        seq: u64,
    },
    /// The history has no room, and no core comes further in it: a defect, since each steps what it is told.
    #[error(
        "the sequencer waits for room in the history, and no core comes further in it\nThis is a defect of Paceline, please report it."
    )]
    NoRoom,
    /// A core had not looked at what it was told, and there was no room for more.
    #[error(
        "a core has not come to what it was told, and is to be told more: there are too many decisions in too little time\n\
         Have decisions made less often, or offer less."
    )]
    Untold,
    /// No memory for the tables of cores that begin anew.
    #[error("no memory for the tables\nUse fewer cores, or smaller `flows` in the chain file.")]
    OutOfMemory,
    /// A defect: a packet was neither taken nor dropped, or did not go through the chain.
    #[error(
        "{offered} packets were offered, {taken} taken, {dropped} dropped, and {received} went through the chain, which does not add up\n\
         This is a defect of Paceline, please report it."
    )]
    LostSight {
        /// Packets offered.
        offered: u64,
        /// Packets that cores took from their queues.
        taken: u64,
        /// Packets that the card dropped.
        dropped: u64,
        /// Packets taken through the chain.
        received: u64,
    },
}

impl TrialError {
    /// Whether it shows a defect of Paceline, and no mistake of the caller.
    pub fn is_defect(&self) -> bool {
        match self {
            TrialError::Interrupted | TrialError::Untold | TrialError::OutOfMemory => false,
            TrialError::Unaccounted(_)
            | TrialError::Forgotten { .. }
            | TrialError::NoRoom
            | TrialError::LostSight { .. } => true,
        }
    }

    pub(crate) fn forgotten(core: usize, Forgotten { seq }: Forgotten) -> TrialError {
        TrialError::Forgotten { core, seq }
    }
}

/// Packets that a trial lost sight of: a defect, since each is received or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} was offered {arrived} packets, received {received} and dropped {dropped}, which does not add up\n\
     This is a defect of Paceline, please report it.", core.map_or("the sequencer".to_owned(), |core| format!("core {core}"))
)]
pub struct Unaccounted {
    /// `None`: the sequencer.
    core: Option<usize>,
    arrived: u64,
    received: u64,
    dropped: u64,
}

impl Trial {
    /// That each packet was received or dropped.
    ///
    /// # Errors
    /// [`Unaccounted`] for the first core where that does not hold.
    pub fn check(&self) -> Result<(), Unaccounted> {
        let cores = self.cores.iter().enumerate().map(|(core, trial)| (Some(core), *trial));
        // What the sequencer received is what came to the cores.
        let arrived: u64 = self.cores.iter().map(|core| core.arrived).sum();
        let received = arrived.saturating_sub(self.straight);
        let front = self.sequencer.map(|front| (None, CoreTrial { received, ..front }));
        let is_wrong = |(_, core): &(Option<usize>, CoreTrial)| core.received + core.dropped != core.arrived;
        match front.into_iter().chain(cores).find(is_wrong) {
            None => Ok(()),
            Some((core, CoreTrial { arrived, received, dropped, .. })) => {
                Err(Unaccounted { core, arrived, received, dropped })
            }
        }
    }

    /// Packets taken through the chain.
    pub fn received(&self) -> u64 {
        self.cores.iter().map(|core| core.received).sum()
    }

    /// Packets dropped.
    pub fn dropped(&self) -> u64 {
        self.all().map(|core| core.dropped).sum()
    }

    /// The cores, and the one in front of them.
    fn all(&self) -> impl Iterator<Item = &CoreTrial> {
        self.cores.iter().chain(&self.sequencer)
    }

    /// Share of the packets dropped, 0 to 1.
    pub fn loss(&self) -> f64 {
        share(self.dropped(), self.offered)
    }

    /// Until the last core was done, ns.
    pub fn elapsed_ns(&self) -> u64 {
        self.all().map(|core| core.elapsed_ns).max().unwrap_or(0)
    }

    /// Packets taken through the chain per second.
    pub fn received_pps(&self) -> f64 {
        self.received() as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Batches that took so long that the system must have run something else.
    pub fn slow_batches(&self) -> u64 {
        self.all().map(|core| core.slow_batches).sum()
    }

    /// Each core's part.
    pub fn loads(&self) -> Vec<CoreLoad> {
        let elapsed_ns = self.elapsed_ns();
        let load = |core: &CoreTrial| CoreLoad {
            share: share(core.arrived, self.offered),
            busy: share(core.busy_ns, elapsed_ns),
            loss: share(core.dropped, core.arrived),
        };
        self.cores.iter().map(load).collect()
    }
}

impl Trial {
    /// The sequencer's part.
    pub fn sequencer_load(&self) -> Option<SequencerLoad> {
        let CoreTrial { received, dropped, arrived, busy_ns, .. } = self.sequencer?;
        Some(SequencerLoad {
            busy: share(busy_ns, self.elapsed_ns()),
            loss: share(dropped, arrived),
            packet_ns: busy_ns as f64 / received.max(1) as f64,
        })
    }
}

/// The latencies of two cores together, as far as they were asked for.
pub(crate) fn both(a: Option<Histogram<u64>>, b: Option<Histogram<u64>>) -> Option<Histogram<u64>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + &b),
        (a, b) => a.or(b),
    }
}

/// A part of a whole, 0 where there is none.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        let core = |arrived, dropped, busy_ns, elapsed_ns| CoreTrial {
            arrived,
            received: arrived - dropped,
            dropped,
            busy_ns,
            elapsed_ns,
            slow_batches: 1,
        };
        let cores = vec![core(30, 0, 500, 900), core(70, 20, 1_000, 1_000)];
        Trial {
            offered_pps: None,
            offered: 100,
            cores,
            sequencer: None,
            straight: 0,
            moves: 0,
            latency: None,
            time: ThreadTime::default(),
        }
    }

    #[test]
    fn figures_by_hand() {
        let trial = trial();
        assert_eq!((trial.received(), trial.dropped(), trial.loss()), (80, 20, 0.2));
        assert_eq!((trial.elapsed_ns(), trial.received_pps(), trial.slow_batches()), (1_000, 80e6, 2));
        let loads: Vec<_> =
            trial.loads().into_iter().map(|load| (load.share, load.busy, load.loss)).collect();
        assert_eq!(loads, [(0.3, 0.5, 0.0), (0.7, 1.0, 20.0 / 70.0)]);
        assert_eq!(trial.check(), Ok(()));
    }

    /// What a core in front lost is in the trial's loss, and its time in the trial's.
    #[test]
    fn the_sequencer_counts() {
        let front = CoreTrial {
            arrived: 125,
            received: 100,
            dropped: 25,
            busy_ns: 1_500,
            elapsed_ns: 2_000,
            slow_batches: 3,
        };
        let trial = Trial { offered: 125, sequencer: Some(front), ..trial() };
        assert_eq!((trial.received(), trial.dropped(), trial.loss()), (80, 45, 0.36));
        assert_eq!((trial.elapsed_ns(), trial.received_pps(), trial.slow_batches()), (2_000, 40e6, 5));
        let load = trial.sequencer_load().expect("a sequencer");
        assert_eq!((load.busy, load.loss, load.packet_ns), (0.75, 0.2, 15.0));
        assert_eq!(trial.check(), Ok(()));
        // Where a card steers, some come to the cores past it.
        let fewer = CoreTrial { arrived: 95, received: 70, ..front };
        let steered = Trial { sequencer: Some(fewer), straight: 30, ..trial.clone() };
        assert_eq!(steered.check(), Ok(()));
        assert!(Trial { straight: 29, ..steered }.check().is_err(), "one packet is missing");
        let lost = Trial { sequencer: Some(CoreTrial { dropped: 24, ..front }), ..trial };
        let unaccounted = lost.check().expect_err("one packet is missing");
        assert_eq!(unaccounted, Unaccounted { core: None, arrived: 125, received: 100, dropped: 24 });
    }

    #[test]
    fn a_drop_that_is_not_counted_is_found() {
        let mut trial = trial();
        trial.cores[1].dropped -= 1;
        let unaccounted = trial.check().expect_err("one packet is missing");
        assert_eq!(unaccounted, Unaccounted { core: Some(1), arrived: 70, received: 50, dropped: 19 });
    }
}
