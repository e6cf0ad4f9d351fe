//! Chains and plans for tests of the oracle.

use crate::chain::Chain;
use crate::chain::registry::Registry;
use crate::strategies::Strategy;
use crate::strategies::plan::Plan;

pub(super) const NAT: &str =
    "[[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]\n";
pub(super) const STATISTICS: &str = "[[function]]\nuse = \"flow-statistics\"\n";
pub(super) const POLICER: &str = "[[function]]\nuse = \"policer\"\n";
pub(super) const DDOS: &str = "[[function]]\nuse = \"ddos\"\n";

/// A chain of these functions.
pub(super) fn chain(functions: &[&str]) -> Chain {
    Chain::parse("test.toml", &functions.concat(), &Registry::of_tests()).expect("a chain")
}

pub(super) fn plan(chain: &Chain, strategy: &'static dyn Strategy, cores: usize) -> Plan {
    Plan::new(chain, strategy, cores).expect("a plan")
}
