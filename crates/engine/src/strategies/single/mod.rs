//! One core: what every other strategy must equal.

use strategy::Assign;

use crate::chain::Chain;
use crate::strategies::plan::{Layout, Plan, Strategy};
use crate::strategies::refusal::PlanError;

/// See the module.
pub(crate) struct Single;

impl Strategy for Single {
    fn name(&self) -> &'static str {
        "single"
    }

    fn summary(&self) -> &'static str {
        "one core; what every other strategy is compared with"
    }

    fn max_cores(&self) -> usize {
        1
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
