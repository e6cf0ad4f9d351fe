//! Receive-side scaling: a hash of header fields picks the core, and each core has private states.
//!
//! Which fields to hash follows from the chain's keys (see `hashing`): all packets of a key come to one core.

use strategy::Assign;

use crate::chain::Chain;
use crate::strategies::hashing;
use crate::strategies::plan::{Layout, Plan, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Rss;

impl Strategy for Rss {
    fn name(&self) -> &'static str {
        "rss"
    }

    fn summary(&self) -> &'static str {
        "receive-side scaling: packets go to cores by a hash of their headers"
    }

    fn layout(&self, chain: &Chain, _: usize) -> Result<Layout, PlanError> {
        hashing::layout(chain, self.name())
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        on_both_sides(hashing::rss(plan), chain)
    }
}
