//! Dyssect (Carvalho et al., INFOCOM'22): shards go from core to core whole, and a worker has some of a shard's flows
//! stepped by an offloading core.
//!
//! | file | what it is |
//! |---|---|
//! | `asking` | a solver on a thread of its own, which decides in place of the greedy one |
//! | `card` | a card that tells cores where the states of the largest flows are |
//! | `classified` | which bucket a packet with priority is in, where the chain has classes of traffic |
//! | `controller` | who steps what from period to period, by their packets |
//! | `counters` | what its cores count |
//! | `home` | shards go back to their first cores, ahead of what takes over |
//! | `meter` | how long packets take, and waited, as cores tell |
//! | `objective` | how much a core may have to do so that packets wait no longer than they may |
//! | `steering` | where packets enter: the indirection table, and what the controller decides as it comes into force (Algorithm 1) |
//! | `worker` | a core's side: what it does with a packet, and how shards and parts of them come and go (Algorithms 2 and 3) |
//! | `unit` | a shard, or the offloaded part of one, on its way |
//!
//! The protocols are [`control`]'s: [`control::Migration`] for shards, [`control::Offloading`] for their parts. What the
//! paper leaves open, and what was chosen, is in `docs/dyssect.md`.

mod asking;
mod card;
mod classified;
pub(super) mod controller;
pub(super) mod counters;
mod home;
mod meter;
mod objective;
mod steering;
mod unit;
mod worker;

use std::sync::Arc;

use strategy::{Assign, Every, Rebalancing, Rss};
use wire::Stamp;

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::path::receive::Intake;
use crate::strategies::dispatch::Team;
use crate::strategies::dyssect::classified::Classified;
use crate::strategies::dyssect::controller::ShardController;
use crate::strategies::dyssect::counters::COUNTERS;
use crate::strategies::dyssect::home::bring_shards_home;
use crate::strategies::dyssect::objective::Objective;
use crate::strategies::dyssect::steering::Steering;
use crate::strategies::dyssect::worker::Core;
use crate::strategies::hashing;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, Shards, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Dyssect;

/// From one decision to the next, ns: the paper's ε (§IV-A).
const EPOCH_NS: u64 = 100_000_000;

/// Each core has a ring to each other one.
const CORES: usize = 32;

static INFO: StrategyInfo = StrategyInfo {
    max_cores: CORES,
    unit: "shard",
    parking: Ok(()),
    pinning: Ok(()),
    counters: COUNTERS,
    rates: Some(&control::rates::DYSSECT),
    ..StrategyInfo::new(
        "dyssect",
        "Dyssect: shards with their tables go from core to core, and cores step some flows for others",
    )
};

impl Strategy for Dyssect {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        if cores > CORES {
            return Err(PlanError::Rings { strategy: self.name(), cores, max: CORES });
        }
        let rebalancing = Some(Rebalancing { every: Every::Period(EPOCH_NS), ..Rebalancing::default() });
        let layout =
            Layout { rebalancing, shards: Some(Shards::default()), ..hashing::layout(chain, self.name())? };
        if let Some(hashed) = layout.hash_fields {
            let (strategy, chain_name) = (self.name(), chain.name.clone());
            let refused = |why| PlanError::Classes { strategy, chain: chain_name, why };
            chain.classes.decided_by(hashed).map_err(refused)?;
        }
        Ok(layout)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        let fields = plan.hash_fields.expect("a layout of `hashing`");
        // The lowest bits of an entry are its shard, as in the card's indirection table (§II-A), the others its bucket.
        let rss = Rss::through(fields, owners(plan));
        match chain.classes.is_empty() {
            true => on_both_sides(rss, chain),
            false => on_both_sides(Classified::new(rss, fields, chain), chain),
        }
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        Some(owners(plan))
    }

    fn bring_home(&self, plan: &Plan, cores: &mut [ChainCore], last: Stamp) {
        let owners = owners(plan);
        bring_shards_home(cores, &owners[..plan.shards.unwrap_or_default().count()], &owners, last);
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let mut owners = owners(plan);
        let shards = plan.shards.unwrap_or_default().count();
        owners.truncate(shards);
        let controller = ShardController::new(chain, plan);
        let meter = controller.objective.as_ref().map(Objective::meter);
        let (card, links) = card::card(plan.card_flows, plan.cores, plan.card.as_ref());
        let (orders, signals, cores) = Core::all(&owners, plan.cores, meter, links);
        let rebalancing = plan.rebalancing.unwrap_or_default();
        let (assign, active) = (self.assign(chain, plan), plan.active.clone());
        plan.account.begin(self.name(), plan.cores, "shard", &owners);
        plan.account.tell(|told| {
            told.offloaders = vec![None; plan.cores];
            let has_classes = controller.placement().has_priority();
            told.priority = has_classes.then(|| told.priority.take().unwrap_or_default());
        });
        let account = Arc::clone(&plan.account);
        let steering =
            Steering::new(assign, controller, rebalancing, active, (orders, signals), account, card);
        let intakes = cores.into_iter().map(|core| -> Box<dyn Intake> { Box::new(core) });
        Team { dispatcher: Box::new(steering), intakes: intakes.collect() }
    }
}

/// Who has each entry at first, by shard: those of the first bucket come first.
fn owners(plan: &Plan) -> Vec<u16> {
    let shards = plan.shards.unwrap_or_default();
    (0..shards.entries()).map(|entry| (entry % shards.count() % plan.cores) as u16).collect()
}
