//! Real threads: one for each core, one that feeds them.

use std::panic;
use std::thread;
use std::time::Instant;

use io::capture::Remarks;
use io::{Collector, Feeder, ReplayPort};
use wire::RanBack;

use crate::chain::Chain;
use crate::chain::checksums::ChecksumSample;
use crate::chain::undeclared::check_declared;
use crate::executor::collect::collect;
use crate::executor::cores::{Settled, join, work};
use crate::executor::input::Progress;
use crate::executor::outcome::{HistoryOutcome, RunError, RunOutcome};
use crate::executor::publish::Publisher;
use crate::executor::seen::Seen;
use crate::path::core::ChainCore;
use crate::path::receive::Intake;
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
                scope.spawn(move || work(core, &mut { port }, chain, intake, publisher))
            })
            .collect();
        let feeding = scope.spawn(move || feed(feeder));
        let mut collected = collect(collector, egress, see);
        let elapsed = begin.elapsed();

        let fed = feeding.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        let settled = join(workers, collected.packets)?.settle(collected.last);
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
        Ok(RunOutcome {
            packets: collected.packets,
            elapsed,
            last,
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
