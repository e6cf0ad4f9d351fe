//! Receive-side scaling: a hash of header fields picks the core, and each core has private states.
//!
//! Which fields to hash follows from the chain's keys (see `hashing`): all packets of a key come to one core. Where the
//! number of cores may change ([`Plan::with_cores_to_park`]), flows then migrate as they do under RSS++.

use strategy::Assign;

use crate::chain::Chain;
use crate::strategies::dispatch::Team;
use crate::strategies::hashing;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::rsspp;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Rss;

static INFO: StrategyInfo = StrategyInfo {
    parking: Ok(()),
    pinning: Ok(()),
    rates: Some(&control::rates::RSS),
    ..StrategyInfo::new("rss", "receive-side scaling: packets go to cores by a hash of their headers")
};

impl Strategy for Rss {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, _: usize) -> Result<Layout, PlanError> {
        hashing::layout(chain, self.name())
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        match plan.rebalancing {
            Some(_) => rsspp::assign(chain, plan),
            None => on_both_sides(hashing::rss(plan), chain),
        }
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        plan.rebalancing.map(|_| hashing::rss(plan).indirection().to_vec())
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        match plan.rebalancing {
            Some(_) => rsspp::team(chain, plan),
            None => {
                let owners = hashing::rss(plan);
                plan.account.begin(self.name(), plan.cores, "entry", owners.indirection());
                Team::plain(self.assign(chain, plan), plan.cores)
            }
        }
    }

    fn table(&self, plan: &Plan) -> Option<Vec<u16>> {
        Some(hashing::rss(plan).indirection().to_vec())
    }
}
