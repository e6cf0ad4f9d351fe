//! Real threads: one for each core, one that feeds them.

use std::panic;
use std::thread;
use std::time::Duration;

use io::capture::Remarks;
use io::{Collector, Feeder, ReplayPort};
use wire::RanBack;

use crate::chain::Chain;
use crate::chain::checksums::ChecksumSample;
use crate::chain::undeclared::check_declared;
use crate::executor::collect::{Collected, collect};
use crate::executor::cores::{AllWorked, Before, Settled, join, work};
use crate::executor::leaving::{EgressOutcome, Watch};
use crate::executor::outcome::{HistoryOutcome, RunError, RunOutcome};
use crate::executor::seen::Seen;
use crate::path::core::ChainCore;
use crate::path::receive::Intake;
use crate::strategies::changing::Changes;
use crate::strategies::plan::Plan;
use crate::strategies::scr::outside::arrivals::InputError;

/// Cores with all that they need.
pub(crate) struct Job {
    pub chains: Vec<ChainCore>,
    pub intakes: Vec<Box<dyn Intake>>,
    /// Of the port that packets come through.
    pub ends: (Feeder, Vec<ReplayPort>, Collector),
    /// By core.
    pub before: Vec<Before>,
    /// The number of the first packet that comes.
    pub first: u64,
}

/// What they leave behind.
pub(crate) struct Ran<E> {
    pub collected: Collected<E>,
    pub worked: AllWorked,
    pub fed: Fed,
}

/// Runs each core on a thread of its own, and `feed` on another, until the packets end.
pub(crate) fn run_cores<E: Send>(
    Job { chains, intakes, ends: (feeder, ports, collector), before, first }: Job,
    feed: impl FnOnce(Feeder) -> Fed + Send,
    watch: &mut Watch,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<Ran<E>, RunError<E>> {
    thread::scope(|scope| {
        let cores = ports.into_iter().zip(chains).zip(intakes).zip(before).enumerate();
        let workers = cores
            .map(|(core, (((port, chain), mut intake), before))| {
                scope.spawn(move || (work(core, &mut { port }, chain, &mut *intake, before), ()))
            })
            .collect();
        let feeding = scope.spawn(move || feed(feeder));
        let collected = collect(collector, first, watch, see);
        let fed = feeding.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        let (worked, _) = join(workers, collected.packets)?;
        Ok(Ran { collected, worked, fed })
    })
}

/// How it all ends: with the chain that ran last.
pub(crate) fn conclude<E>(
    chain: &Chain,
    plan: &Plan,
    Ran { mut collected, worked, fed }: Ran<E>,
    elapsed: Duration,
    watch: &Watch,
) -> Result<RunOutcome, RunError<E>> {
    let settled = worked.settle(collected.last);
    if let Some(error) = collected.error.take() {
        return Err(RunError::Seen(error));
    }
    let Settled { cores, moves, histories, last } = settled;
    check_declared(chain, cores.iter().map(|(_, core)| core)).map_err(RunError::Undeclared)?;
    collected.overtaken.sort_unstable();
    let history = (!histories.is_empty()).then_some(HistoryOutcome {
        has_recovery: false,
        lost: 0,
        cores: histories,
        overtaken: collected.overtaken,
    });
    let blocked_batches = collected.blocked_batches;
    Ok(RunOutcome {
        packets: collected.packets,
        elapsed,
        last,
        cores,
        stopped: matches!(fed.end, FeedEnd::Stopped),
        input_error: match fed.end {
            FeedEnd::Input(result) => result.err(),
            FeedEnd::Stopped | FeedEnd::Closed | FeedEnd::Border => None,
        },
        ran_back: fed.ran_back,
        remarks: fed.remarks,
        has_ip: collected.has_ip,
        moves,
        is_replicated: plan.is_replicated(),
        history,
        egress: EgressOutcome { egress: plan.egress, blocked_batches, reordered: watch.reordered() },
        checksums: ChecksumSample::default(),
        reloads: Vec::new(),
        changes: Changes::default(),
        chain: None,
    })
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
    /// Another chain is to take over ahead of the next packet.
    Border,
}
