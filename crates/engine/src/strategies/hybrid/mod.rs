//! Mice are sharded and elephants are replicated: flows are spread over cores by a hash, as under `rss`, but for the few largest,
//! whose packets go to all cores in turn, and which each core steps, as under `scr`. No paper has this strategy.
//!
//! | file | what it is |
//! |---|---|
//! | `sequencer` | the dispatcher: which packets are told to all cores, and who is promoted |
//! | `elephants` | which values of the hash are too much for a core |
//! | `core` | a core's side: its own packets with the history between them, and flows that are promoted or demoted |
//! | `replica` | flows between the two tables of a core |
//!
//! What is promoted is a value of the hash, with all flows whose packets have it: flows that share any state share their
//! hash. The protocol is [`control::Promotion`]. `docs/hybrid.md` has the pictures, and the limits.

mod core;
mod elephants;
mod replica;
mod sequencer;

use control::promotion;
use io::QUEUE_FRAMES_MAX;
use ring::broadcast;
use strategy::{Assign, Every, Rebalancing, Rss};

use crate::chain::Chain;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::Intake;
use crate::strategies::dispatch::Team;
use crate::strategies::hashing;
use crate::strategies::hybrid::core::Core;
use crate::strategies::hybrid::sequencer::{DECISION_CHANGES, Sequencer};
use crate::strategies::plan::{HASH_VALUES, Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Hybrid;

/// From one decision to the next, ns.
const PERIOD_NS: u64 = 10_000_000;

/// Each core has a ring to each other one.
const CORES: usize = 32;

impl Strategy for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn summary(&self) -> &'static str {
        "packets go to cores by a hash as under rss, and all cores step the largest flows as under scr"
    }

    fn max_cores(&self) -> usize {
        CORES
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        if cores > CORES {
            return Err(PlanError::Rings { strategy: self.name(), cores, max: CORES });
        }
        let layout = hashing::layout(chain, self.name())?;
        // One core alone has all flows.
        if cores == 1 {
            return Ok(layout);
        }
        promotable(chain, &layout.shared)?;
        let rebalancing = Some(Rebalancing { every: Every::Period(PERIOD_NS), ..Rebalancing::default() });
        Ok(Layout { states: States::PartlyReplicated, rebalancing, ..layout })
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        match self.owners(plan) {
            None => on_both_sides(hashing::rss(plan), chain),
            Some(owners) => {
                let fields = plan.hash_fields.expect("a layout of `hashing`");
                on_both_sides(Rss::through(fields, owners), chain)
            }
        }
    }

    /// As an indirection table has it that `rss` would use.
    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        let owner = |value: usize| (value % plan.indirection_entries % plan.cores) as u16;
        plan.is_partly_replicated().then(|| (0..HASH_VALUES).map(owner).collect())
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let Some(owners) = self.owners(plan) else {
            return Team::plain(self.assign(chain, plan), plan.cores);
        };
        // As many as can be in flight, and those that are told of ahead of them: see `scr`.
        let records = plan.cores * (QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS) + BATCH_PACKETS;
        let (history, histories) = broadcast(records, plan.cores);
        let (changes, promotions) = promotion(plan.cores, 4 * BATCH_PACKETS * DECISION_CHANGES);
        let sides = promotions.into_iter().zip(histories).enumerate();
        let intake = |(core, (promotion, history))| -> Box<dyn Intake> {
            Box::new(Core::new(core, plan.cores, promotion, history))
        };
        let intakes = sides.map(intake).collect();
        let rebalancing = plan.rebalancing.unwrap_or_default();
        let sequencer =
            Sequencer::new(self.assign(chain, plan), &owners, plan.cores, rebalancing, (history, changes));
        Team { dispatcher: Box::new(sequencer), intakes }
    }
}

/// Whether flows of the chain can be replicated while others are not. `shared` are functions whose states all cores share.
fn promotable(chain: &Chain, shared: &[usize]) -> Result<(), PlanError> {
    let refuse = |function: &str, why| {
        let (chain, function) = (chain.name.clone(), function.to_owned());
        Err(PlanError::Promotion { chain, function, why, works: "rss" })
    };
    if let Some(function) = chain.inspects_before_state() {
        let why =
            "it looks into payloads, which other cores do not see, and functions with states come behind it";
        return refuse(function, why);
    }
    if let Some(index) = shared.first() {
        return refuse(&chain.functions[*index].name, "all cores share its states, under locks");
    }
    match chain.functions.iter().find(|spec| spec.function.steps_in_order()) {
        Some(spec) => {
            let why =
                "they take from a pool that other flows take from, and replicas of the pool would differ";
            refuse(&spec.name, why)
        }
        None => Ok(()),
    }
}
