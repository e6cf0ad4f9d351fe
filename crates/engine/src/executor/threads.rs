//! Real threads: one for each core, one that feeds them.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use io::capture::Remarks;
use io::{Collector, Feeder, ReplayPort};
use nix::sys::prctl;
use wire::RanBack;

use crate::chain::Chain;
use crate::chain::checksums::ChecksumSample;
use crate::chain::undeclared::check_declared;
use crate::executor::collect::{Collected, collect};
use crate::executor::cores::{AllWorked, Before, Settled, join, pin, work};
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
    /// The ends of the port that packets come through.
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

/// The threads of a run. They stay from phase to phase: where strategies change often, starting threads for each phase
/// takes longer than its packets do.
pub(crate) struct Threads<'env> {
    /// By core.
    cores: Vec<Sender<Task<'env>>>,
    feeding: Sender<Task<'env>>,
}

type Task<'env> = Box<dyn FnOnce() + Send + 'env>;

impl<'env> Threads<'env> {
    /// Calls `run` with a pinned thread for each core, and one that feeds them. They end with it.
    pub(crate) fn with<T>(cores: usize, run: impl FnOnce(Threads<'env>) -> T) -> T {
        let _short = ShortNaps::begin();
        thread::scope(|scope| {
            let start = |core: Option<usize>| {
                let (sender, tasks) = mpsc::channel::<Task<'env>>();
                scope.spawn(move || {
                    core.into_iter().for_each(pin);
                    tasks.into_iter().for_each(|task| task());
                });
                sender
            };
            let cores = (0..cores).map(|core| start(Some(core))).collect();
            run(Threads { cores, feeding: start(None) })
        })
    }

    /// Runs each core on its thread, and `feed` on another, until the packets end; with what else `feed` gives back.
    pub(crate) fn run_cores<E: Send, T: Send + 'env>(
        &self,
        Job { chains, intakes, ends: (feeder, ports, collector), before, first }: Job,
        feed: impl FnOnce(Feeder) -> (Fed, T) + Send + 'env,
        watch: &mut Watch,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
    ) -> Result<(Ran<E>, T), RunError<E>> {
        let cores = ports.into_iter().zip(chains).zip(intakes).zip(before).zip(&self.cores);
        let working: Vec<_> = cores
            .map(|((((port, chain), mut intake), before), thread)| {
                started(thread, move || (work(&mut { port }, chain, &mut *intake, before), ()))
            })
            .collect();
        let feeding = started(&self.feeding, move || feed(feeder));
        let collected = collect(collector, first, watch, see);
        let (fed, beside) = ended(feeding).unwrap_or_else(|panic| panic::resume_unwind(panic));
        let (worked, _) = join(working.into_iter().map(ended), collected.packets)?;
        Ok((Ran { collected, worked, fed }, beside))
    }
}

/// While it lives, this thread and those that it starts sleep no longer than they ask for. Otherwise the kernel adds 50 us
/// to each nap of [`io::Waiting`], which doubles it: a change of strategy is several naps long.
struct ShortNaps(Option<i32>);

/// How much longer a sleep may take, ns.
const SLACK_NS: u64 = 1_000;

impl ShortNaps {
    fn begin() -> ShortNaps {
        let before = prctl::get_timerslack().ok();
        // Where it is not allowed naps are longer, and nothing else.
        let _ = prctl::set_timerslack(SLACK_NS);
        ShortNaps(before)
    }
}

impl Drop for ShortNaps {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = prctl::set_timerslack(before as u64);
        }
    }
}

/// Has a thread do something, after what it was told before; what comes of it is for [`ended`].
fn started<'env, T: Send + 'env>(
    thread: &Sender<Task<'env>>,
    task: impl FnOnce() -> T + Send + 'env,
) -> Receiver<thread::Result<T>> {
    let (sender, result) = mpsc::channel();
    let task = move || {
        // Nobody may want to know: after a panic of another core.
        let _ = sender.send(panic::catch_unwind(AssertUnwindSafe(task)));
    };
    thread.send(Box::new(task)).expect("threads wait for tasks as long as there may be some");
    result
}

/// Waits for it, as one joins a thread.
fn ended<T>(result: Receiver<thread::Result<T>>) -> thread::Result<T> {
    result.recv().expect("a task says what came of it, even a panic")
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
    /// When the last packet had been sent to its core.
    pub ended: Instant,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_are_short_as_long_as_a_run_takes() {
        let slack = || prctl::get_timerslack().expect("of the thread itself");
        let before = slack();
        let naps = ShortNaps::begin();
        let of_threads = [slack(), thread::spawn(slack).join().expect("no panic")];
        assert_eq!(of_threads, [SLACK_NS as i32; 2], "this thread's, and that of one that it started");
        drop(naps);
        assert_eq!(slack(), before);
    }
}
