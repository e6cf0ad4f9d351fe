//! Other strategies run the chain, one after the other: which, and on how many cores, follows what is measured.
//!
//! | file | what it is |
//! |---|---|
//! | `candidates` | the strategies that can run a chain, and those that cannot |
//! | `phases` | one phase after the other |
//! | `deciding` | what is measured, and what follows: [`control::Chooser`] decides |
//! | `noting` | notes the entry of every packet, whatever strategy dispatches it, and ends epochs |
//! | `spares` | tables that some strategies have beside those of each core |
//! | `transfer` | flows between two phases |

pub(crate) mod candidates;
mod deciding;
mod noting;
mod phases;
mod spares;
#[cfg(test)]
mod tests;
mod transfer;

use strategy::{Assign, Every, Rebalancing};

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::strategies::auto::phases::Phases;
use crate::strategies::changing::Changing;
use crate::strategies::hashing;
use crate::strategies::hybrid;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;

/// How often is decided, by the packets' own time, where nothing else is said.
const EPOCH: Every = Every::Period(100_000_000);

/// See the module.
pub(crate) struct Auto;

static INFO: StrategyInfo = StrategyInfo {
    unit: "entry, shard or hash",
    parking: Err("it decides itself how many cores get packets"),
    pinning: Err("where flows are changes with what runs"),
    has_others_run: true,
    ..StrategyInfo::new(
        "auto",
        "strategy and number of cores change on the way, as what is measured asks for",
    )
};

impl Strategy for Auto {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    /// Flows of a chain that no hash keeps on one core are all of one entry. Where there is a hash they are kept by 16 bits of it, under
    /// every strategy, and each strategy takes as many of the lowest as it tells apart.
    fn layout(&self, chain: &Chain, _: usize) -> Result<Layout, PlanError> {
        let hash_fields = hashing::layout(chain, self.name()).ok().filter(|layout| layout.shared.is_empty());
        let hash_fields = hash_fields.and_then(|layout| layout.hash_fields);
        let rebalancing = Some(Rebalancing { every: EPOCH, update_latency_ns: 0 });
        Ok(Layout { states: States::Changing, hash_fields, rebalancing, ..Layout::default() })
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        match plan.hash_fields {
            Some(_) => hybrid::values(chain, plan, hybrid::owners_of_values(plan)),
            None => Box::new(strategy::Single),
        }
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        Some(candidates::owners(plan, plan.cores))
    }

    fn candidates(&self) -> Vec<&'static dyn Strategy> {
        candidates::STOCK.to_vec()
    }

    fn changing(&self, chain: &Chain, plan: &Plan, cores: &[ChainCore]) -> Option<Box<dyn Changing>> {
        Some(Box::new(Phases::new(chain, plan, cores)))
    }
}
