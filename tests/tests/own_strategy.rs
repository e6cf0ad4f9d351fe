//! A strategy from outside the engine: the example runs, and the oracle judges it as it does any other.

use engine::strategies::{Layout, Strategy};
use engine::{Chain, Plan, PlanError, Progress, verify};
use io::capture::CaptureReader;
use paceline_conformance::{example, root};
use strategy::{Assign, Spray};

#[path = "../../crates/cli/examples/own_strategy.rs"]
#[allow(dead_code, reason = "`main` is for readers")]
mod own_strategy;

fn equals_single(strategy: &'static dyn Strategy, chain: &Chain) -> bool {
    let open = || CaptureReader::open(root().join("captures/edge.pcap"));
    [2, 3, 8].into_iter().all(|cores| {
        let plan = Plan::new(chain, strategy, cores).expect("a plan");
        verify(chain, &plan, &open, &Progress::default()).expect("a comparison").holds()
    })
}

#[test]
fn the_example_equals_one_core() {
    assert!(equals_single(&own_strategy::Blocks, &example("edge.toml")));
    own_strategy::check(root().to_str().expect("UTF-8")).expect("it runs");
}

/// Packets go to the cores in turn, and each has the states of its own packets alone.
struct Careless;

impl Strategy for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn summary(&self) -> &'static str {
        "wrong"
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

#[test]
fn the_example_is_short() {
    let text = include_str!("../../crates/cli/examples/own_strategy.rs");
    assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
}
