//! Real threads: one for each core, one that feeds them.

use std::panic;
use std::thread;
use std::time::Instant;

use io::capture::Remarks;
use io::{Closed, Collector, Feeder, ReplayPort};
use wire::{RanBack, Stamp};

use crate::chain::Chain;
use crate::chain::checksums::ChecksumSample;
use crate::chain::undeclared::check_declared;
use crate::executor::collect::collect;
use crate::executor::input::Progress;
use crate::executor::outcome::{HistoryOutcome, RunError, RunOutcome};
use crate::executor::publish::Publisher;
use crate::executor::seen::Seen;
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::counters::CoreCounters;
use crate::path::receive::{Forgotten, Intake, IntakeEnd, Moves};
use crate::path::run::run;
use crate::strategies::egress::Egress;
use crate::strategies::scr::outside::arrivals::InputError;

/// Cores with all that they need.
pub(crate) struct Job {
    pub chains: Vec<ChainCore>,
    pub intakes: Vec<Box<dyn Intake>>,
    /// Of the port that packets come through.
    pub ends: (Feeder, Vec<ReplayPort>, Collector),
    /// In which order they come out of it.
    pub egress: Egress,
    /// Whether each core gets all flows.
    pub is_replicated: bool,
}

/// Runs each core of `chain` on a thread of its own, and `feed` on another.
pub(crate) fn run_cores<E: Send>(
    chain: &Chain,
    Job { chains, intakes, ends: (feeder, ports, collector), egress, is_replicated }: Job,
    feed: impl FnOnce(Feeder) -> Fed + Send,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    thread::scope(|scope| {
        let begin = Instant::now();
        let telemetry = progress.telemetry.as_deref();
        telemetry.inspect(|telemetry| telemetry.begin());
        let workers: Vec<_> = ports
            .into_iter()
            .zip(chains)
            .zip(intakes)
            .enumerate()
            .map(|(core, ((port, chain), intake))| {
                let publisher = telemetry.and_then(|telemetry| Publisher::new(telemetry, core));
                scope.spawn(move || work(core, port, chain, intake, publisher))
            })
            .collect();
        let feeding = scope.spawn(move || feed(feeder));
        let mut collected = collect(collector, egress, see);
        let elapsed = begin.elapsed();

        let fed = feeding.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        let mut all_worked = Vec::new();
        for (core, worker) in workers.into_iter().enumerate() {
            let worked =
                worker.join().map_err(|_| RunError::CorePanicked { core, packets: collected.packets })?;
            if let Some(Forgotten { seq }) = worked.end.forgotten {
                return Err(RunError::Forgotten { core, seq });
            }
            // What was stepped last may be history.
            let last = worked.end.external.map_or(Stamp::default(), |external| external.last);
            collected.last = collected.last.max(last);
            all_worked.push(worked);
        }
        let mut cores = Vec::new();
        let mut moves = Moves::default();
        let mut publishers = Vec::new();
        let mut histories = Vec::new();
        for Worked { counters, mut chain, moves: moved, end, publisher } in all_worked {
            moves = moves.plus(moved);
            chain.settle(collected.last);
            cores.push((counters, chain));
            publishers.push(publisher);
            histories.extend(end.external.map(|external| external.counters));
        }
        // When all are settled, since what they share is told by one of them.
        for ((counters, chain), publisher) in cores.iter().zip(&mut publishers) {
            publisher.iter_mut().for_each(|publisher| publisher.functions(chain, counters));
        }
        if let Some(error) = collected.error.take() {
            return Err(RunError::Seen(error));
        }
        check_declared(chain, cores.iter().map(|(_, core)| core)).map_err(RunError::Undeclared)?;
        collected.overtaken.sort_unstable();
        let history = (!histories.is_empty()).then_some(HistoryOutcome {
            has_recovery: false,
            lost: 0,
            cores: histories,
            overtaken: collected.overtaken,
        });
        Ok(RunOutcome {
            packets: collected.packets,
            elapsed,
            last: collected.last,
            cores,
            stopped: matches!(fed.end, FeedEnd::Stopped),
            input_error: match fed.end {
                FeedEnd::Input(result) => result.err(),
                FeedEnd::Stopped | FeedEnd::Closed => None,
            },
            ran_back: fed.ran_back,
            remarks: fed.remarks,
            has_ip: collected.has_ip,
            moves,
            is_replicated,
            history,
            egress: collected.egress,
            checksums: ChecksumSample::default(),
        })
    })
}

/// What a core leaves behind.
struct Worked {
    counters: CoreCounters,
    chain: ChainCore,
    moves: Moves,
    end: IntakeEnd,
    publisher: Option<Publisher>,
}

/// One core: pinned, with private state.
fn work(
    core: usize,
    mut port: ReplayPort,
    mut chain: ChainCore,
    mut intake: Box<dyn Intake>,
    mut publisher: Option<Publisher>,
) -> Worked {
    pin(core);
    let mut batch = Batch::new();
    let counters = run(&mut port, &mut chain, &mut batch, &mut publisher, &mut *intake);
    let (moves, end) = (intake.counters().moves, intake.finish());
    match counters {
        Ok(counters) => Worked { counters, chain, moves, end, publisher },
        // The collector left; so do we, and it says why.
        Err(Closed) => Worked { counters: CoreCounters::default(), chain, moves, end, publisher: None },
    }
}

/// How feeding went.
pub(crate) struct Fed {
    pub end: FeedEnd,
    pub ran_back: RanBack,
    pub remarks: Remarks,
}

pub(crate) enum FeedEnd {
    /// The input ended, as it should or not.
    Input(Result<(), InputError>),
    /// [`Progress::stop`] was set.
    Stopped,
    /// Nobody takes packets any more: why is for the others to say.
    Closed,
}

/// Pins this thread to a processor, several threads to one where there are too few. Where that is not
/// allowed the thread runs where it may: slower perhaps, never wrong.
pub fn pin(core: usize) {
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    if !processors.is_empty() {
        core_affinity::set_for_current(processors[core % processors.len()]);
    }
}
