//! One core at its work, and what all of them leave behind.

use std::thread;

use io::{Closed, Port};
use wire::Stamp;

use crate::chain::Chain;
use crate::executor::outcome::RunError;
use crate::executor::publish::Publisher;
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::counters::CoreCounters;
use crate::path::moves::Moves;
use crate::path::receive::{Forgotten, HistoryCounters, Intake, IntakeEnd};
use crate::path::run::go_on;
use telemetry::Telemetry;

/// What a core leaves behind.
pub(crate) struct Worked {
    counters: CoreCounters,
    chain: ChainCore,
    moves: Moves,
    end: IntakeEnd,
    publisher: Option<Publisher>,
}

/// What a core begins with: what it did with chains before this one, and where it tells of it.
#[derive(Default)]
pub(crate) struct Before {
    pub(crate) counters: CoreCounters,
    pub(crate) moves: Moves,
    pub(crate) publisher: Option<Publisher>,
}

impl Before {
    /// Begins `cores` cores that did nothing yet, with a publisher each where there is telemetry that has none for
    /// the core.
    pub(crate) fn all(cores: usize, telemetry: Option<&Telemetry>) -> Vec<Before> {
        let publisher = |core| telemetry.and_then(|telemetry| Publisher::new(telemetry, core));
        (0..cores).map(|core| Before { publisher: publisher(core), ..Before::default() }).collect()
    }
}

impl Before {
    /// Another chain takes over.
    pub(crate) fn goes_on(&mut self, chain: &Chain, before: &Chain) {
        if let Some(publisher) = &mut self.publisher {
            publisher.goes_on(chain, before);
        }
    }
}

/// One core, on this thread, with its chain.
pub(crate) fn work(
    port: &mut impl Port,
    mut chain: ChainCore,
    intake: &mut dyn Intake,
    Before { mut counters, moves, mut publisher }: Before,
) -> Worked {
    let mut batch = Batch::new();
    publisher.iter_mut().for_each(|publisher| publisher.goes_on_from(moves));
    let ran = go_on(port, &mut chain, &mut batch, &mut publisher, intake, &mut counters);
    let (moves, end) = (moves.plus(intake.counters().moves), intake.finish());
    match ran {
        Ok(()) => Worked { counters, chain, moves, end, publisher },
        // Who took packets left; so do we, and they say why.
        Err(Closed) => Worked { counters: CoreCounters::default(), chain, moves, end, publisher: None },
    }
}

/// Waits for each core to end, as `workers` are asked for, and gives back what each of them had beside its chain. `packets`
/// have come out.
///
/// # Errors
/// [`RunError`] if one of them panicked, or fell too far behind.
pub(crate) fn join<E, P>(
    workers: impl Iterator<Item = thread::Result<(Worked, P)>>,
    packets: u64,
) -> Result<(AllWorked, Vec<P>), RunError<E>> {
    let (mut all, mut ports) = (Vec::new(), Vec::new());
    for (core, worker) in workers.enumerate() {
        let (worked, port) = worker.map_err(|_| RunError::CorePanicked { core, packets })?;
        if let Some(Forgotten { seq }) = worked.end.forgotten {
            return Err(RunError::Forgotten { core, seq });
        }
        all.push(worked);
        ports.push(port);
    }
    Ok((AllWorked(all), ports))
}

/// All cores after their work.
pub(crate) struct AllWorked(Vec<Worked>);

/// What all cores leave behind, settled.
pub(crate) struct Settled {
    pub cores: Vec<(CoreCounters, ChainCore)>,
    pub moves: Moves,
    pub histories: Vec<HistoryCounters>,
    /// The last stamp that came out, or was history.
    pub last: Stamp,
}

impl AllWorked {
    /// Cores whose work is over, as they go on.
    pub(crate) fn of(chains: Vec<ChainCore>, before: Vec<Before>) -> AllWorked {
        let worked = |(chain, Before { counters, moves, publisher })| Worked {
            counters,
            chain,
            moves,
            end: IntakeEnd::default(),
            publisher,
        };
        AllWorked(chains.into_iter().zip(before).map(worked).collect())
    }

    /// With cores behind these that had no packets.
    pub(crate) fn with_idle(mut self, (chains, before): (Vec<ChainCore>, Vec<Before>)) -> AllWorked {
        self.0.extend(AllWorked::of(chains, before).0);
        self
    }

    /// For a chain that takes over: the cores as they are, unsettled, and what the next ones begin with.
    pub(crate) fn hand_over(self) -> (Vec<ChainCore>, Vec<Before>) {
        let apart =
            |Worked { counters, chain, moves, publisher, .. }| (chain, Before { counters, moves, publisher });
        self.0.into_iter().map(apart).unzip()
    }

    /// Lets every dead flow go, as of the last packet that came out, and tells the last metrics.
    pub(crate) fn settle(self, mut last: Stamp) -> Settled {
        for worked in &self.0 {
            // What was stepped last may be history.
            last = last.max(worked.end.external.map_or(Stamp::default(), |external| external.last));
        }
        let mut settled = Settled { cores: Vec::new(), moves: Moves::default(), histories: Vec::new(), last };
        let mut publishers = Vec::new();
        for Worked { counters, mut chain, moves, end, publisher } in self.0 {
            settled.moves = settled.moves.plus(moves);
            chain.settle(last);
            settled.cores.push((counters, chain));
            publishers.push(publisher);
            settled.histories.extend(end.external.map(|external| external.counters));
        }
        // When all are settled, since what they share is told by one of them.
        for ((counters, chain), publisher) in settled.cores.iter().zip(&mut publishers) {
            publisher.iter_mut().for_each(|publisher| publisher.functions(chain, counters));
        }
        settled
    }
}

/// Pins this thread to a processor, several threads to one where there are too few. Where that is not
/// allowed the thread runs where it may: slower perhaps, never wrong.
pub fn pin(core: usize) {
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    if !processors.is_empty() {
        core_affinity::set_for_current(processors[core % processors.len()]);
    }
}
