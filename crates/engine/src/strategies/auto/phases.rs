//! One phase after the other.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::rates::{DYSSECT, HYBRID, RateModel};
use control::{Choice, Chooser};
use nf::hash_bytes;
use strategy::{ActiveCores, Assign, Every, Rebalancing, Schedule, Tunables};
use telemetry::Telemetry;
use wire::Stamp;

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::strategies::auto::candidates::{Candidates, owners};
use crate::strategies::auto::deciding::Deciding;
use crate::strategies::auto::noting::{Epochs, Noting};
use crate::strategies::auto::spares::{OfHybrid, Set, Spares};
use crate::strategies::auto::transfer::Flows;
use crate::strategies::changing::{Change, Changes, Changing, Decided, Phase, Until};
use crate::strategies::dispatch::Team;
use crate::strategies::hybrid;
use crate::strategies::limits::free_bytes;
use crate::strategies::plan::{HASH_VALUES, Layout, Plan, Shards};

/// Has candidates run a chain.
pub(super) struct Phases {
    chain: Chain,
    plan: Plan,
    candidates: Candidates,
    deciding: Arc<Mutex<Deciding>>,
    /// What runs now.
    now: Choice,
    flows: Flows,
    changes: Vec<Change>,
}

impl Phases {
    pub(super) fn new(chain: &Chain, plan: &Plan, cores: &[ChainCore]) -> Phases {
        let mut candidates = Candidates::new(chain, plan.cores, &plan.candidates);
        let spares = spares(chain, &mut candidates, cores);
        let now = candidates.first();
        let deciding = Deciding::new(&candidates, now, plan.indirection_entries, Arc::clone(&plan.account));
        Phases {
            chain: chain.clone(),
            plan: plan.clone(),
            candidates,
            deciding: Arc::new(Mutex::new(deciding)),
            now,
            flows: Flows::new(spares),
            changes: Vec::new(),
        }
    }

    fn every(&self) -> Every {
        self.plan.rebalancing.map_or(Every::Never, |rebalancing| rebalancing.every)
    }

    fn deciding(&self) -> MutexGuard<'_, Deciding> {
        self.deciding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan under which a choice runs, with cores that the run has.
    fn plan_of(&self, choice: Choice, first: u64) -> Plan {
        let (strategy, cores) = (self.candidates.strategy_of(choice), choice.cores);
        let layout = strategy.layout(&self.chain, cores);
        let Layout { states, hash_fields, shared, rebalancing, shards } =
            layout.unwrap_or_else(|error| unreachable!("it is a candidate: {error}"));
        let rebalancing = rebalancing.map(|rebalancing| Rebalancing {
            every: match self.every() {
                // Entries move within a phase, too.
                Every::Packets(packets) => Every::Packets((packets / 3).max(1)),
                Every::Period(_) | Every::Never => rebalancing.every,
            },
            update_latency_ns: self.plan.rebalancing.map_or(0, |of_run| of_run.update_latency_ns),
        });
        let (active, tunables, of_run) =
            (ActiveCores::new(cores), Tunables::new(strategy.info().tunables), self.plan.clone());
        Plan {
            strategy,
            cores,
            states,
            hash_fields,
            shared,
            rebalancing,
            shards,
            active,
            first,
            tunables,
            ..of_run
        }
    }

    /// What runs from packet number `first` on, and why.
    fn choose(&mut self, first: u64) -> Decided {
        let decision = self.deciding().begin();
        match (self.every(), decision) {
            (Every::Packets(_), _) => {
                let others = self.candidates.all.iter().filter(|choice| **choice != self.now);
                let others: Vec<_> = others.collect();
                let draw = hash_bytes(&first.to_le_bytes(), 0) as usize;
                self.now = others.get(draw % others.len().max(1)).map_or(self.now, |choice| **choice);
                Decided::Drawn
            }
            (_, Some(decision)) => {
                self.now = decision.to;
                Decided::Better(decision)
            }
            (_, None) => Decided::First,
        }
    }

    /// Has flows be where the plan wants them.
    fn transfer(&mut self, to: &Plan, cores: &mut [ChainCore], last: Stamp) {
        if to.is_replicated() {
            return self.flows.replicate(cores, (to.cores, to.indirection_entries), last);
        }
        let owners = self.owners(to);
        match to.shards {
            Some(shards) => {
                let owners = to.owners().unwrap_or(owners);
                self.flows.shard(cores, &owners, (to.cores, shards.count()), last);
            }
            // A value that `hybrid` promotes has the owner of its entry.
            None if to.is_partly_replicated() => {
                self.flows.divide_beside_replicas(cores, &owners, to.cores, last)
            }
            None => self.flows.divide(cores, &owners, last),
        }
    }

    /// Which core has each entry at first, where cores share flows out.
    fn owners(&self, to: &Plan) -> Vec<u16> {
        to.indirection().unwrap_or_else(|| owners(&self.plan, to.cores))
    }

    /// Values of the hash, whichever core they are of.
    fn values(&self) -> Box<dyn Assign> {
        match self.plan.hash_fields {
            Some(_) => hybrid::values(&self.chain, &self.plan, vec![0; HASH_VALUES]),
            None => Box::new(strategy::Single),
        }
    }

    /// Who ends the phase that begins, where nobody knows when beforehand.
    fn epochs(&self, until: &Until) -> Option<Epochs> {
        let every = self.every();
        let decides = matches!(every, Every::Period(_)) && self.candidates.all.len() > 1;
        decides.then(|| Epochs {
            schedule: Schedule::new(every),
            loads: vec![0; self.plan.indirection_entries],
            deciding: Arc::clone(&self.deciding),
            until: until.clone(),
        })
    }

    /// Tells the account what runs from packet number `first` on, and why.
    fn tell(&self, plan: &Plan, why: &Decided, first: u64) {
        let owners = if plan.is_replicated() { Vec::new() } else { self.owners(plan) };
        let unit = if owners.is_empty() { "" } else { "entry" };
        plan.account.begin(plan.strategy.name(), plan.cores, unit, &owners);
        plan.account.tell(|told| {
            let choosing = told.choosing.get_or_insert_default();
            choosing.changes += u64::from(!matches!(why, Decided::First));
            choosing.since_packet = first + 1;
            choosing.hysteresis = Chooser::HYSTERESIS;
            choosing.measured_mpps = None;
            (choosing.predicted_mpps, choosing.before_mpps) = match why {
                Decided::Better(decision) => (Some(decision.to_mpps), Some(decision.from_mpps)),
                Decided::First | Decided::Drawn => (None, None),
            };
        });
    }

    /// The phase that ran is over, behind so many packets.
    fn close(&mut self, packets: u64) {
        let measured_mpps = self.deciding().measured_mpps();
        if let Some(change) = self.changes.last_mut() {
            (change.packets, change.measured_mpps) = (packets - change.after, measured_mpps);
        }
    }
}

/// Tables beside those of these cores, for as many strategies as there is memory for; others are no candidates.
fn spares(chain: &Chain, candidates: &mut Candidates, cores: &[ChainCore]) -> Spares {
    let mut spares = Spares::default();
    let most = |candidates: &Candidates, model: &RateModel| {
        let of_it = candidates.all.iter().filter(|choice| choice.model == model);
        of_it.map(|choice| choice.cores).max()
    };
    // A system that overcommits would refuse too late. An eighth more is for what is beside the blocks of flows, and for all else that runs.
    let fits = |bytes: u64| free_bytes().is_none_or(|free_bytes| bytes + bytes / 8 <= free_bytes);
    if let Some(most) = most(candidates, &HYBRID) {
        let fits = fits(chain.table_bytes(most, &[]));
        match fits.then(|| OfHybrid::new(&cores[..most])) {
            Some(Ok(of_hybrid)) => spares.of_hybrid = of_hybrid,
            Some(Err(_)) | None => candidates.leave_out(&HYBRID),
        }
    }
    if most(candidates, &DYSSECT).is_some() {
        let shards = Shards::default();
        let fits = fits(shards.table_bytes(chain, &[]));
        match fits.then(|| Set::of_shards(cores, shards.count())) {
            Some(Ok(of_shards)) => spares.of_shards = of_shards,
            Some(Err(_)) | None => candidates.leave_out(&DYSSECT),
        }
    }
    spares
}

impl Changing for Phases {
    fn observe(&mut self, telemetry: &Arc<Telemetry>) {
        self.deciding().observe(telemetry);
    }

    fn begin(&mut self, cores: &mut [ChainCore], (first, last): (u64, Stamp), since: Instant) -> Phase {
        self.close(first);
        let why = self.choose(first);
        let plan = self.plan_of(self.now, first);
        cores.iter_mut().for_each(|core| core.note_since(first, false));
        self.transfer(&plan, cores, last);
        // Where packets wait for flows, others overtake them.
        let is_in_step = plan.rebalancing.is_none() || plan.is_replicated();
        cores.iter_mut().for_each(|core| core.note_since(first, is_in_step));
        let until = Until::packet(match self.every() {
            Every::Packets(packets) => (first / packets + 1).saturating_mul(packets),
            Every::Period(_) | Every::Never => u64::MAX,
        });
        self.tell(&plan, &why, first);
        let Team { dispatcher, intakes } = plan.team(&self.chain);
        let (values, epochs) = (self.values(), self.epochs(&until));
        // Under `hybrid` a packet has its value, or is told.
        let notes = !plan.is_partly_replicated();
        let dispatcher = Box::new(Noting { inner: dispatcher, values, notes, epochs });
        let is_first = self.changes.is_empty();
        self.changes.push(Change {
            after: first,
            strategy: plan.strategy.name(),
            cores: plan.cores,
            packets: 0,
            pause: if is_first { Duration::ZERO } else { since.elapsed() },
            why,
            measured_mpps: None,
        });
        self.deciding().resume();
        let (queues, is_replicated) = (plan.replayed(), plan.is_replicated());
        Phase { team: Team { dispatcher, intakes }, queues, until, is_replicated }
    }

    fn end(&mut self, cores: &mut [ChainCore], packets: u64, last: Stamp) -> Changes {
        self.close(packets);
        cores.iter_mut().for_each(|core| core.note_since(packets, false));
        self.flows.divide(cores, &owners(&self.plan, self.plan.cores), last);
        let mut phases = mem::take(&mut self.changes);
        // The packets may have ended where a phase was to begin.
        phases.pop_if(|last| last.packets == 0 && last.after > 0);
        Changes { phases, left_out: self.candidates.left_out.clone() }
    }
}
