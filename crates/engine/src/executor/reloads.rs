//! The chain of a live run, and the one that is to take over from it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use table::OutOfMemory;
use thiserror::Error;
use wire::Stamp;

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::executor::reload::{Reloaded, take_over};
use crate::path::core::ChainCore;
use crate::strategies::changing::Changing;
use crate::strategies::plan::Plan;
use crate::strategies::refusal::{NoMove, NoOwnPorts, NoParking, PlanError};
use crate::strategies::succession::Standing;

/// How the chain of a live run is replaced while it runs: see [`Reloads::reload`].
#[derive(Default)]
pub struct Reloads {
    /// Whether a chain is to take over: looked at whenever packets are received.
    due: AtomicBool,
    run: Mutex<Option<Running>>,
    /// Whether a run has begun, which may have ended since.
    has_begun: AtomicBool,
    /// Held while a caller waits for a chain to take over.
    asking: Mutex<()>,
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloads").field("due", &self.due).finish_non_exhaustive()
    }
}

/// A run that goes on.
struct Running {
    chain: Chain,
    plan: Plan,
    next: Option<Next>,
}

/// A chain that is to take over, with all that it needs.
pub(crate) struct Next {
    pub(crate) chain: Chain,
    pub(crate) plan: Plan,
    pub(crate) chains: Vec<ChainCore>,
    pub(crate) changing: Option<Box<dyn Changing>>,
    inherited: Inherited,
    doomed: Option<Vec<Doomed>>,
    answer: Sender<Answer>,
}

/// Flows of one function that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// The function's name.
    pub function: String,
    /// Their keys: see [`ListedState::key_bytes`](crate::ListedState::key_bytes).
    pub keys: Vec<Vec<u8>>,
}

/// A chain has taken over. What is left of the one before goes along, to be given back where that holds up no packet.
type Answer = (Reloaded, Old);

/// What is left of a chain that has ended: most of it is tables.
pub(crate) struct Old {
    pub(crate) cores: Vec<ChainCore>,
    pub(crate) changing: Option<Box<dyn Changing>>,
}

/// Why no chain took over. The one that runs goes on.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// The chain cannot run so.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Some of the run's cores are parked, which the chain does not allow.
    #[error("{0}\nOr have all cores get packets first: paceline ctl cores N")]
    Parked(NoParking),
    /// The cores of the run have ports of their own, which the chain does not allow.
    #[error(
        "the new chain cannot take over while each core has sockets of its own: {0}\nStart the run with --front."
    )]
    OwnPorts(#[from] NoOwnPorts),
    /// The cores of the run have ports of their own, and the chain hashes otherwise.
    #[error(
        "the new chain hashes {now}, and packets are steered to the sockets of each core by {before}\nStart the run with --front."
    )]
    Fields {
        /// What it hashes.
        now: String,
        /// What the chain before hashes.
        before: String,
    },
    /// The cores of the run have ports of their own, and the chain has other addresses inside, or to translate to.
    #[error(
        "the new chain has other addresses inside or external, and packets are steered to the sockets of each core by those of the chain before\nStart the run with --front."
    )]
    Sides,
    /// No memory for a second chain beside the one that runs.
    #[error(
        "no memory for the tables of the new chain beside those of the one that runs: one takes {} MiB\nUse smaller `flows` in the chain file.",
        bytes >> 20
    )]
    OutOfMemory {
        /// Bytes of the table for which there was no memory.
        bytes: u64,
    },
    /// No run has begun.
    #[error("the run has not begun")]
    NotYet,
    /// It has ended.
    #[error("the run is over")]
    Over,
}

/// Why the number of cores that get packets did not change.
#[derive(Debug, Error)]
pub enum CoresError {
    /// It cannot.
    #[error(transparent)]
    NoParking(#[from] NoParking),
    /// No run has begun, or it has ended.
    #[error("the run is over, or has not begun")]
    Over,
}

/// Why nothing was put on a core by hand.
#[derive(Debug, Error)]
pub enum MoveError {
    /// It cannot.
    #[error(transparent)]
    NoMove(#[from] NoMove),
    /// No run has begun, or it has ended.
    #[error("the run is over, or has not begun")]
    Over,
}

impl Reloads {
    /// Has a chain take over from the one that runs, under the same strategy on as many cores, and waits until it has.
    /// Its tables are made here, beside those of the chain that runs, which meanwhile goes on.
    ///
    /// # Errors
    /// [`ReloadError`]; the chain before goes on then.
    pub fn reload(&self, chain: Chain) -> Result<Reloaded, ReloadError> {
        let _asking = lock(&self.asking);
        if !self.has_begun() {
            return Err(ReloadError::NotYet);
        }
        let (before, plan_before) = self.current().ok_or(ReloadError::Over)?;
        let chain = chain.on_interfaces().behind(&before).following(&before);
        self.change(chain, (&before, &plan_before), None)
    }

    /// Removes flows: the chain takes over from itself, and all cores go on without them behind the same packet. So every replica
    /// loses them at one place in the order of packets. What they took from pools goes back. Entries and shards are where they were
    /// at first, as after any reload.
    ///
    /// # Errors
    /// [`ReloadError`]; no flow is removed then.
    pub fn remove(&self, doomed: Vec<Doomed>) -> Result<Reloaded, ReloadError> {
        let _asking = lock(&self.asking);
        let (before, plan_before) = self.current().ok_or(ReloadError::Over)?;
        self.change(before.clone(), (&before, &plan_before), Some(doomed))
    }

    /// Has a chain take over from the one that runs, and waits until it has.
    fn change(
        &self,
        chain: Chain,
        (before, plan_before): (&Chain, &Plan),
        doomed: Option<Vec<Doomed>>,
    ) -> Result<Reloaded, ReloadError> {
        let plan = Plan::new(&chain, plan_before.strategy, plan_before.cores)?.following(plan_before);
        let plan = if plan_before.has_own_ports { plan.with_own_ports(&chain)? } else { plan };
        if plan.has_own_ports && plan.hash_fields != plan_before.hash_fields {
            let [now, before] = [plan.hash_fields, plan_before.hash_fields]
                .map(|fields| fields.map_or_else(String::new, |fields| fields.to_string()));
            return Err(ReloadError::Fields { now, before });
        }
        if plan.has_own_ports && !plan.has_one_queue() && chain.side_prefixes() != before.side_prefixes() {
            return Err(ReloadError::Sides);
        }
        if plan.active.get() < plan.cores {
            plan.check_cores(&chain, plan.active.get()).map_err(ReloadError::Parked)?;
        }
        let chains =
            plan.cores_of(&chain).map_err(|OutOfMemory { bytes }| ReloadError::OutOfMemory { bytes })?;
        let changing = plan.strategy.changing(&chain, &plan, &chains);
        let inherited = {
            let (keeping, keeping_before) = (plan.keeping(), plan_before.keeping());
            let standing = Standing { chain: &chain, plan: &plan, keeping: &keeping };
            standing.inherits(&Standing { chain: before, plan: plan_before, keeping: &keeping_before })
        };
        let (answer, answered) = channel();
        match &mut *lock(&self.run) {
            Some(run) => run.next = Some(Next { chain, plan, chains, changing, inherited, doomed, answer }),
            None => return Err(ReloadError::Over),
        }
        self.due.store(true, Ordering::Relaxed);
        // The other end is gone with the run.
        let (reloaded, old) = answered.recv().map_err(|_| ReloadError::Over)?;
        drop((old.cores, old.changing));
        Ok(reloaded)
    }

    /// Has so many of the run's cores get packets from the next packet on, and the others none: they are parked. Flows go to
    /// the cores that get their packets.
    ///
    /// # Errors
    /// [`CoresError`]; nothing changes then.
    pub fn set_cores(&self, active: usize) -> Result<(), CoresError> {
        let _asking = lock(&self.asking);
        let (chain, plan) = self.current().ok_or(CoresError::Over)?;
        plan.check_cores(&chain, active)?;
        plan.active.set(active);
        Ok(())
    }

    /// Has an entry of the indirection table, or a shard, go to a core at the end of the period; it stays there if it is pinned.
    ///
    /// # Errors
    /// [`MoveError`]; nothing changes then.
    pub fn put(&self, entry: u16, core: u16, is_pinned: bool) -> Result<(), MoveError> {
        let _asking = lock(&self.asking);
        let (_, plan) = self.current().ok_or(MoveError::Over)?;
        plan.check_move(entry, core)?;
        match is_pinned {
            true => plan.pins.pin(entry, core),
            false => plan.pins.move_once(entry, core),
        };
        Ok(())
    }

    /// Has an entry or a shard go as loads ask for. Says whether it was pinned.
    ///
    /// # Errors
    /// [`MoveError`]; nothing changes then.
    pub fn unpin(&self, entry: u16) -> Result<bool, MoveError> {
        let _asking = lock(&self.asking);
        let (_, plan) = self.current().ok_or(MoveError::Over)?;
        plan.check_move(entry, 0)?;
        let was_pinned = plan.pins.of(entry).is_some();
        plan.pins.free(entry);
        Ok(was_pinned)
    }

    /// The chain that runs, or ran last.
    pub fn current(&self) -> Option<(Chain, Plan)> {
        lock(&self.run).as_ref().map(|run| (run.chain.clone(), run.plan.clone()))
    }

    /// Whether a run has begun: before that its tables are made. It may have ended since.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// A run begins.
    pub(crate) fn begin(&self, chain: &Chain, plan: &Plan) -> Ended<'_> {
        let mut run = lock(&self.run);
        *run = Some(Running { chain: chain.clone(), plan: plan.clone(), next: None });
        // Who sees the run sees that it has begun.
        self.has_begun.store(true, Ordering::Release);
        drop(run);
        Ended(self)
    }

    /// The chain that is to take over now, if one is.
    pub(crate) fn take(&self) -> Option<Next> {
        let mut run = lock(&self.run);
        self.due.store(false, Ordering::Relaxed);
        let run = run.as_mut()?;
        let next = run.next.take()?;
        (run.chain, run.plan) = (next.chain.clone(), next.plan.clone());
        Some(next)
    }
}

/// Ends with the run: who still waits hears of it.
pub(crate) struct Ended<'a>(&'a Reloads);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *lock(&self.0.run) = None;
        self.0.due.store(false, Ordering::Relaxed);
    }
}

impl Next {
    /// Goes on where `old` have ended, behind packet `last`, with number `after` as the next. Says what is to be told once
    /// packets are worked on again.
    pub(crate) fn take_over(
        &mut self,
        (before, plan_before): (&Chain, &Plan),
        mut old: Old,
        (after, last): (u64, Stamp),
        since: Instant,
    ) -> Told {
        let (keeping, keeping_before) = (self.plan.keeping(), plan_before.keeping());
        let standing = Standing { chain: &self.chain, plan: &self.plan, keeping: &keeping };
        let of_before = Standing { chain: before, plan: plan_before, keeping: &keeping_before };
        let mut reloaded = take_over(
            &standing,
            &mut self.chains,
            &of_before,
            &mut old.cores,
            &self.inherited,
            (after, last),
        );
        reloaded.removed = self.doomed.take().map(|doomed| self.without(&doomed));
        Told { answer: self.answer.clone(), reloaded, old, since }
    }
}

impl Next {
    /// Takes flows from the cores; says how many there were. Of a flow each replica has one.
    fn without(&mut self, doomed: &[Doomed]) -> u64 {
        let mut removed = 0;
        for Doomed { function, keys } in doomed {
            let Some(index) = self.chain.functions.iter().position(|spec| spec.name == *function) else {
                continue;
            };
            for key in keys {
                let cores = self.chains.iter_mut().map(|core| core.remove(index, key));
                removed += u64::from(cores.fold(false, |was_there, is_there| was_there | is_there));
            }
        }
        removed
    }
}

/// What is to be told.
pub(crate) struct Told {
    answer: Sender<Answer>,
    reloaded: Reloaded,
    old: Old,
    since: Instant,
}

impl Told {
    /// Packets are worked on again.
    pub(crate) fn tell(self) -> Reloaded {
        let Told { answer, mut reloaded, old, since } = self;
        reloaded.pause = since.elapsed();
        // The caller that asked may have gone.
        let _ = answer.send((reloaded.clone(), old));
        reloaded
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
