//! A strategy of your own, checked against one core:
//!
//! ```sh
//! cargo run -p paceline --example own_strategy
//! ```
//!
//! `blocks` is receive-side scaling with another first table: neighbouring entries go to one core, not every n-th.

use engine::strategies::{Layout, Strategy, sharded};
use engine::{Chain, Plan, PlanError, Progress, Registry, verify};
use io::capture::CaptureReader;
use strategy::{Assign, Rss};

/// See above.
pub struct Blocks;

impl Strategy for Blocks {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn summary(&self) -> &'static str {
        "receive-side scaling; neighbouring entries of the indirection table go to one core"
    }

    /// Each core has the states of its own packets, so every key must stay on one core.
    fn layout(&self, chain: &Chain, _cores: usize) -> Result<Layout, PlanError> {
        sharded(chain, self.name())
    }

    fn assign(&self, _chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        let fields = plan.hash_fields.expect("`sharded` hashes");
        let mut rss = Rss::new(fields, plan.cores, plan.indirection_entries);
        for (entry, core) in rss.indirection_mut().iter_mut().enumerate() {
            *core = (entry * plan.cores / plan.indirection_entries) as u16;
        }
        Box::new(rss)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    check(".")
}

/// Runs a chain under it and on one core, with the files under `root`, and compares.
pub fn check(root: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(format!("{root}/examples/edge.toml"))?;
    let chain = Chain::parse("edge.toml", &text, &Registry::stock())?;
    let plan = Plan::new(&chain, &Blocks, 4)?;
    let open = || CaptureReader::open(format!("{root}/captures/edge.pcap"));
    let verified = verify(&chain, &plan, &open, &Progress::default())?;
    println!("{} packets on {} cores; equals single: {}", verified.packets, plan.cores, verified.holds());
    Ok(())
}
