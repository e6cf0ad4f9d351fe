//! A strategy from outside the engine is judged by the oracle as any other: one that tears flows apart is found.
//! `crates/cli/tests/own_strategy.rs` has the example that is right.

use engine::strategies::{Layout, Strategy, StrategyInfo};
use engine::{Chain, Plan, PlanError, Progress, verify};
use io::capture::CaptureReader;
use paceline_conformance::{example, root};
use strategy::{Assign, Spray};

fn equals_single(strategy: &'static dyn Strategy, chain: &Chain) -> bool {
    let open = || CaptureReader::open(root().join("captures/edge.pcap"));
    [2, 3, 8].into_iter().all(|cores| {
        let plan = Plan::new(chain, strategy, cores).expect("a plan");
        verify(chain, &plan, &open, &Progress::default()).expect("a comparison").holds()
    })
}

/// Packets go to the cores in turn, and each has the states of its own packets alone.
struct Careless;

impl Strategy for Careless {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("careless", "wrong");
        &INFO
    }

    fn layout(&self, _: &Chain, _: usize) -> Result<Layout, PlanError> {
        Ok(Layout::default())
    }

    fn assign(&self, _: &Chain, plan: &Plan) -> Box<dyn Assign> {
        Box::new(Spray::new(plan.cores))
    }
}

#[test]
fn planted_a_strategy_that_tears_flows_apart_is_found() {
    assert!(!equals_single(&Careless, &example("edge.toml")));
}
