//! Cores on threads, or simulated on one.

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use io::{Feeder, Simulation, Task};

use crate::executor::collect::collect;
use crate::executor::cores::{join, work};
use crate::executor::leaving::Watch;
use crate::executor::outcome::RunError;
use crate::executor::seen::Seen;
use crate::executor::threads::{Fed, Job, Ran, Threads};
use crate::strategies::plan::Plan;

/// Where the cores of a run are, and what feeds them. Both stay from phase to phase.
pub(crate) enum Executor<'env> {
    /// On a thread each.
    Threads(Threads<'env>),
    /// On the caller's, in turns.
    Simulation(Simulation),
}

impl<'env> Executor<'env> {
    /// Calls `run` with what `plan` asks for, for so many cores.
    pub(crate) fn with<T>(plan: &Plan, cores: usize, run: impl FnOnce(&Executor<'env>) -> T) -> T {
        match plan.simulation {
            Some(seed) => run(&Executor::Simulation(Simulation::new(seed))),
            None => Threads::with(cores, |threads| run(&Executor::Threads(threads))),
        }
    }

    /// Runs each core, and `feed` beside them, until the packets end; with what else `feed` gives back.
    pub(crate) fn run_cores<E: Send, T: Send + 'env>(
        &self,
        job: Job,
        feed: impl FnOnce(Feeder) -> (Fed, T) + Send + 'env,
        watch: &mut Watch,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
    ) -> Result<(Ran<E>, T), RunError<E>> {
        match self {
            Executor::Threads(threads) => threads.run_cores(job, feed, watch, see),
            Executor::Simulation(simulation) => simulate(simulation, job, feed, watch, see),
        }
    }
}

/// Each core is a task, and so are who feeds them and who collects.
fn simulate<E, T>(
    simulation: &Simulation,
    Job { chains, intakes, ends: (feeder, ports, collector), before, first }: Job,
    feed: impl FnOnce(Feeder) -> (Fed, T),
    watch: &mut Watch,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<(Ran<E>, T), RunError<E>> {
    let cores = ports.len();
    let (mut fed, mut collected) = (None, None);
    let mut worked: Vec<_> = ports.iter().map(|_| None).collect();
    let mut tasks = vec![
        keeping(&mut fed, move || feed(feeder)),
        keeping(&mut collected, move || collect(collector, first, watch, see)),
    ];
    let parts = ports.into_iter().zip(chains).zip(intakes).zip(before).zip(&mut worked);
    tasks.extend(parts.map(|((((mut port, chain), mut intake), before), worked)| {
        keeping(worked, move || (work(&mut port, chain, &mut *intake, before), ()))
    }));
    simulation.run(tasks).map_err(|_| RunError::NoStacks { cores })?;
    let (fed, beside) = ended(fed).unwrap_or_else(|panic| panic::resume_unwind(panic));
    let collected = ended(collected).unwrap_or_else(|panic| panic::resume_unwind(panic));
    let (worked, _) = join(worked.into_iter().map(ended), collected.packets)?;
    Ok((Ran { collected, worked, fed }, beside))
}

/// A task that keeps what comes of it, a panic, too.
fn keeping<'a, T>(result: &'a mut Option<thread::Result<T>>, task: impl FnOnce() -> T + 'a) -> Task<'a> {
    Box::new(move || *result = Some(panic::catch_unwind(AssertUnwindSafe(task))))
}

fn ended<T>(result: Option<thread::Result<T>>) -> thread::Result<T> {
    result.expect("a simulation is over when all tasks have ended")
}
