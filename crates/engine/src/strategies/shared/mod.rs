//! Packets go to the cores in turn, and all cores share each flow's state, under locks.

use strategy::{Assign, Spray};

use crate::chain::Chain;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;

/// See the module.
pub(crate) struct Shared;

static INFO: StrategyInfo = StrategyInfo {
    pinning: Err("all cores have one table"),
    ..StrategyInfo::new(
        "shared",
        "packets go to cores in turn; all share one state, under locks, in no order",
    )
};

impl Strategy for Shared {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        Ok(match cores {
            // One core has nobody to share with, and pays for no lock.
            1 => Layout::default(),
            _ => Layout { states: States::Striped, shared: chain.keyed(), ..Layout::default() },
        })
    }

    fn assign(&self, _: &Chain, plan: &Plan) -> Box<dyn Assign> {
        Box::new(Spray::new(plan.cores))
    }
}
