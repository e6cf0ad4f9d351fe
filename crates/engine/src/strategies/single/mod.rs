//! One core: what every other strategy must equal.

use strategy::Assign;

use crate::chain::Chain;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, Strategy};
use crate::strategies::refusal::PlanError;

/// See the module.
pub(crate) struct Single;

static INFO: StrategyInfo = StrategyInfo {
    max_cores: 1,
    rates: Some(&control::rates::SINGLE),
    ..StrategyInfo::new("single", "one core; what every other strategy is compared with")
};

impl Strategy for Single {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, _: &Chain, cores: usize) -> Result<Layout, PlanError> {
        match cores {
            1 => Ok(Layout::default()),
            _ => Err(PlanError::SingleCore { cores }),
        }
    }

    fn assign(&self, _: &Chain, _: &Plan) -> Box<dyn Assign> {
        Box::new(strategy::Single)
    }
}
