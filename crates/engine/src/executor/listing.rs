//! Lists the flows of a live run while it goes on: asks one core after the other for portions.
//!
//! A flow that lives all the while and stays on its core is listed exactly once. Where strategies move flows from core to
//! core, one that moves meanwhile may be listed twice, or not at all: [`Flows::moved`] says how many moved, which is the most that
//! this can be wrong by.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::chain::registry::{Function, ListedState};
use crate::chain::{Chain, FunctionSpec};
use crate::path::core::ChainCore;
use crate::path::portion::{Ask, Listed, Place, Portion, Tray, Wanted};
use crate::strategies::plan::Plan;
use telemetry::RuleSnapshot;

/// How long a reader waits before it looks for an answer: a core gives no more than one portion in this time, however many
/// readers there are.
const PACE: Duration = Duration::from_micros(100);

/// How many times it looks before it gives the tray back to look whether the run goes on at all.
const LOOKS: usize = 20;

/// How long counts of rules may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where cores of a run are asked for their flows. One for all cores.
#[derive(Default)]
pub struct Listing {
    standing: Mutex<Option<Standing>>,
    trays: Mutex<Vec<Arc<Desk>>>,
}

/// A core's tray, and whose turn it is to ask there.
#[derive(Default)]
struct Desk {
    tray: Arc<Tray>,
    turn: Mutex<()>,
}

/// What runs now.
struct Standing {
    /// The chain's number in the run.
    chain: u64,
    /// Changes with each phase.
    phase: u64,
    /// Cores that work.
    working: usize,
    /// The first ones, which together have each flow once.
    whole: usize,
    functions: Arc<Vec<ListedFunction>>,
    /// By function, what its rules have decided on cores that do not work now, added up.
    idle_rules: Vec<Vec<u64>>,
}

struct ListedFunction {
    name: String,
    function: Arc<dyn Function>,
    /// Whether no one core has its flows.
    is_shared: bool,
    /// Name and text of each of its rules.
    rules: Vec<(String, String)>,
}

/// How often a rule of a function has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// The function's name.
    pub function: String,
    /// The rule's name: its number in the chain file, or `default`.
    pub rule: String,
    /// As the chain file has it.
    pub text: String,
    /// How often it was the first that fits, where rules were asked.
    pub decided: u64,
}

impl RuleCount {
    /// As metrics have it.
    pub(crate) fn snapshot(self) -> RuleSnapshot {
        let RuleCount { function, rule, text, decided } = self;
        RuleSnapshot { function, rule, text, decided }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}

impl Listing {
    /// A chain begins to run, or takes over.
    pub(crate) fn begin(&self, chain: &Chain, plan: &Plan, cores: &mut [ChainCore]) {
        let mut standing = lock(&self.standing);
        let number = standing.as_ref().map_or(0, |standing| standing.chain + 1);
        let mut trays = lock(&self.trays);
        let count = cores.len().max(trays.len());
        trays.resize_with(count, Arc::default);
        for (core, desk) in cores.iter_mut().zip(&*trays) {
            core.listed = Some(Listed { tray: Arc::clone(&desk.tray), chain: number });
        }
        let function = |(index, spec): (usize, &FunctionSpec)| ListedFunction {
            name: spec.name.clone(),
            function: Arc::clone(&spec.function),
            is_shared: plan.is_striped() || plan.shared.contains(&index),
            rules: spec.function.rules(),
        };
        *standing = Some(Standing {
            chain: number,
            phase: standing.as_ref().map_or(0, |standing| standing.phase),
            working: 0,
            whole: 0,
            functions: Arc::new(chain.functions.iter().enumerate().map(function).collect()),
            idle_rules: Vec::new(),
        });
    }

    /// So many cores work from here on, and the first `whole` of them have each flow once; those behind them are `idle`.
    pub(crate) fn phase(&self, working: usize, whole: usize, idle: &[ChainCore]) {
        if let Some(standing) = &mut *lock(&self.standing) {
            standing.phase += 1;
            standing.idle_rules.clear();
            for (index, listed) in standing.functions.iter().enumerate() {
                let mut sums = vec![0; listed.rules.len()];
                idle.iter().for_each(|core| add_up(&mut sums, core.rules(index)));
                standing.idle_rules.push(sums);
            }
            (standing.working, standing.whole) = (working, whole);
        }
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        *lock(&self.standing) = None;
    }

    /// How often each rule of each function has decided, on all cores; nothing where no run goes on, or cores do not answer soon. Counts
    /// of rules begin anew with other rules.
    pub fn rules(&self) -> Vec<RuleCount> {
        let Some((chain, working, functions, idle)) = (lock(&self.standing).as_ref()).map(|standing| {
            let functions = Arc::clone(&standing.functions);
            (standing.chain, standing.working, functions, standing.idle_rules.clone())
        }) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let with_rules = functions.iter().enumerate().filter(|(_, listed)| !listed.rules.is_empty());
        for (index, listed) in with_rules {
            let mut sums = idle.get(index).cloned().unwrap_or_else(|| vec![0; listed.rules.len()]);
            for core in 0..working {
                let mut question = || {
                    let rules = Vec::with_capacity(listed.rules.len());
                    Ask { rules, ..Ask::new(chain, Wanted::Rules(index)) }
                };
                match self.ask(chain, core, &mut question, Some(PATIENCE)) {
                    Asked::Answered(ask) => add_up(&mut sums, &ask.rules),
                    Asked::Elsewhere | Asked::Gone => return Vec::new(),
                }
            }
            all.extend(listed.rules.iter().zip(sums).map(|((rule, text), decided)| RuleCount {
                function: listed.name.clone(),
                rule: rule.clone(),
                text: text.clone(),
                decided,
            }));
        }
        all
    }

    /// Asks a core what `question` makes, and waits for its answer, or so long.
    fn ask(
        &self,
        chain: u64,
        core: usize,
        question: &mut dyn FnMut() -> Ask,
        patience: Option<Duration>,
    ) -> Asked {
        let Some(desk) = lock(&self.trays).get(core).cloned() else { return Asked::Elsewhere };
        let begin = Instant::now();
        loop {
            match &*lock(&self.standing) {
                Some(standing) if standing.chain != chain => return Asked::Gone,
                Some(standing) if core >= standing.working => return Asked::Elsewhere,
                Some(_) => (),
                None => return Asked::Gone,
            }
            if patience.is_some_and(|patience| begin.elapsed() > patience) {
                return Asked::Gone;
            }
            let turn = match desk.turn.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(PACE);
                    continue;
                }
            };
            desk.tray.ask(question());
            let answer = (0..LOOKS).find_map(|_| {
                thread::sleep(PACE);
                desk.tray.answer()
            });
            // It may have answered just now, and else is asked again.
            let answer = answer.or_else(|| desk.tray.take_back().filter(|ask| ask.is_answered));
            drop(turn);
            match answer {
                Some(answer) if answer.is_another_chain => return Asked::Gone,
                Some(answer) => return Asked::Answered(answer),
                None => (),
            }
        }
    }

    /// Lists the flows of the chain that runs now: of all functions, or of that with this name. `now` says the time, as stamps of
    /// packets have it.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn flows(
        self: &Arc<Self>,
        function: Option<&str>,
        now: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Flows, ListError> {
        let standing = lock(&self.standing);
        let standing = standing.as_ref().ok_or(ListError::Over)?;
        let all = &standing.functions;
        let with_state = |index: &usize| !all[*index].function.info().sharding.is_stateless();
        let functions: Vec<usize> = match function {
            None => (0..all.len()).filter(with_state).collect(),
            Some(name) => {
                let index = all.iter().position(|listed| listed.name == name);
                let index = index.ok_or_else(|| ListError::NoFunction {
                    name: name.to_owned(),
                    all: all.iter().map(|listed| listed.name.clone()).collect(),
                })?;
                if !with_state(&index) {
                    return Err(ListError::NoFlows { name: name.to_owned() });
                }
                vec![index]
            }
        };
        Ok(Flows {
            listing: Arc::clone(self),
            chain: standing.chain,
            phase: standing.phase,
            all: Arc::clone(all),
            functions,
            now: Box::new(now),
            at: (0, 0, Place::default()),
            portion: None,
            begun: None,
            moved: 0,
            worked: Duration::ZERO,
            has_changed: false,
            is_over: false,
        })
    }
}

/// Why flows are not listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// No run has begun, or it has ended.
    #[error("the run is over, or has not begun")]
    Over,
    /// The chain has no such function.
    #[error("the chain has no function `{name}`\nIt has {}.", all.join(", "))]
    NoFunction {
        /// What was asked for.
        name: String,
        /// Those that it has.
        all: Vec<String>,
    },
    /// The function keeps no states.
    #[error("`{name}` keeps no flows")]
    NoFlows {
        /// Its name.
        name: String,
    },
}

/// A flow of one function.
#[derive(Clone, Debug)]
pub struct ListedFlow {
    /// The function's index in the chain.
    pub index: usize,
    /// Its name.
    pub function: String,
    /// The core that has it; `None` if all have it, or a replica.
    pub core: Option<usize>,
    /// Its key and its state.
    pub state: ListedState,
    /// The time as of which it lived.
    pub now_ns: u64,
}

/// Flows that are listed, portion by portion.
pub struct Flows {
    listing: Arc<Listing>,
    chain: u64,
    phase: u64,
    all: Arc<Vec<ListedFunction>>,
    functions: Vec<usize>,
    now: Box<dyn Fn() -> u64 + Send>,
    /// Which of the functions, which core, where.
    at: (usize, usize, Place),
    /// To be filled anew.
    portion: Option<(usize, Portion)>,
    /// How many flows had come to all cores from others at the beginning.
    begun: Option<u64>,
    moved: u64,
    worked: Duration,
    has_changed: bool,
    is_over: bool,
}

/// What becomes of a question.
enum Asked {
    Answered(Ask),
    /// The core does not work now.
    Elsewhere,
    /// The chain is gone.
    Gone,
}

impl Flows {
    /// The next flows, which may be none; `None` if there are no more. Waits for a core to come to the end of a batch.
    pub fn next_portion(&mut self) -> Option<Vec<ListedFlow>> {
        if self.is_over {
            return None;
        }
        if self.begun.is_none() {
            self.begun = self.moved_in();
        }
        let (at, core, place) = self.at;
        let cores = self.cores();
        let (Some(index), Some(cores)) = (self.functions.get(at).copied(), cores) else {
            return self.finish();
        };
        if core >= cores {
            self.at = (at + 1, 0, Place::default());
            return Some(Vec::new());
        }
        let ask = self.ask(core, Wanted::Flows(index, place));
        self.at = match &ask {
            Asked::Answered(Ask { next: Some(next), .. }) => (at, core, *next),
            Asked::Answered(_) | Asked::Elsewhere => (at, core + 1, Place::default()),
            Asked::Gone => return self.finish(),
        };
        let Asked::Answered(Ask { portion: Some(portion), .. }) = ask else { return Some(Vec::new()) };
        let of = &self.all[index];
        let is_whole = of.is_shared || (cores == 1 && self.working() > 1);
        let now_ns = portion.now_ns;
        let listed = of.function.listed(&portion).into_iter().map(|state| ListedFlow {
            index,
            function: of.name.clone(),
            core: (!is_whole).then_some(core),
            state,
            now_ns,
        });
        let listed = listed.collect();
        self.portion = Some((index, portion));
        Some(listed)
    }

    /// How many flows went from core to core while they were listed.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// How long cores worked on what was asked, all together.
    pub fn worked(&self) -> Duration {
        self.worked
    }

    /// Whether cores began to share their work otherwise, or another chain took over, or the run ended: then flows may be missing
    /// that were there all the while.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The chain is over, or all was listed.
    fn finish(&mut self) -> Option<Vec<ListedFlow>> {
        self.is_over = true;
        let moved_in = self.moved_in();
        self.moved = moved_in.zip(self.begun).map_or(self.moved, |(now, then)| now.saturating_sub(then));
        None
    }

    /// The cores that have all flows, of a chain that still runs.
    fn cores(&mut self) -> Option<usize> {
        let standing = lock(&self.listing.standing);
        let standing = standing.as_ref().filter(|standing| standing.chain == self.chain);
        self.has_changed |= standing.is_none_or(|standing| standing.phase != self.phase);
        standing.map(|standing| standing.whole)
    }

    fn working(&self) -> usize {
        lock(&self.listing.standing).as_ref().map_or(0, |standing| standing.working)
    }

    /// How many flows have come to all cores from others so far; `None` of a chain that is gone.
    fn moved_in(&mut self) -> Option<u64> {
        let mut moved = 0;
        for core in 0..self.working() {
            match self.ask(core, Wanted::Moved) {
                Asked::Answered(ask) => moved += ask.moved_in,
                Asked::Elsewhere => (),
                Asked::Gone => return None,
            }
        }
        Some(moved)
    }

    /// Asks a core, and waits for its answer.
    fn ask(&mut self, core: usize, wanted: Wanted) -> Asked {
        let Flows { listing, chain, all, portion, now, .. } = self;
        let asked = listing.ask(
            *chain,
            core,
            &mut || {
                let Wanted::Flows(index, _) = wanted else { return Ask::new(*chain, wanted) };
                let kept = portion.take().filter(|(of, _)| *of == index);
                let mut portion = kept.map_or_else(|| all[index].function.portion(), |(_, portion)| portion);
                portion.empty(now());
                Ask { portion: Some(portion), ..Ask::new(*chain, wanted) }
            },
            None,
        );
        match &asked {
            Asked::Answered(answer) => self.worked += Duration::from_nanos(answer.worked_ns),
            Asked::Gone => self.has_changed = true,
            Asked::Elsewhere => (),
        }
        asked
    }
}

fn add_up(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
