//! The simulated card's options, and the plan with them.

use clap::Args;
use engine::strategies::Strategy;
use engine::{Chain, Plan};
use strategy::{Every, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Rebalancing};

use crate::failure::Failure;

/// How a card spreads packets over cores, and how often that changes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Card, and flows that move (strategies rss, rsspp)")]
pub struct CardArgs {
    /// Entries of the card's indirection table: 128 or 512
    #[arg(long, value_name = "N", default_value_t = INDIRECTION_ENTRIES, value_parser = indirection_size)]
    pub indirection_entries: usize,
    /// How often rsspp looks at the loads and moves flows, in the packets' own time [default: 10]
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub rebalance_ms: Option<f64>,
    /// How long it takes from rsspp's decision until the card acts by it, in the packets' own time [default: 0]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub update_latency_ms: Option<f64>,
    /// Have rsspp move a quarter of the flows, drawn at random, every N packets, whatever the loads: to show that
    /// it does no harm
    #[arg(long, value_name = "N", conflicts_with = "rebalance_ms", value_parser = clap::value_parser!(u64).range(1..))]
    pub move_every: Option<u64>,
}

impl CardArgs {
    /// Checks that a chain can run so.
    pub fn plan(
        &self,
        chain: &Chain,
        strategy: &'static dyn Strategy,
        cores: usize,
    ) -> Result<Plan, Failure> {
        let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
        if let Some(rebalancing) = self.rebalancing() {
            if plan.rebalancing.is_none() {
                return Err(Failure::usage(format!(
                    "under strategy `{}` flows stay where they are\n\
                     Leave out --rebalance-ms, --update-latency-ms and --move-every, or use `--strategy rsspp`.",
                    strategy.name()
                )));
            }
            plan.rebalancing = Some(rebalancing);
        }
        plan.indirection_entries = self.indirection_entries;
        Ok(plan)
    }

    /// What was asked for, if anything was.
    pub fn rebalancing(&self) -> Option<Rebalancing> {
        let CardArgs { rebalance_ms, update_latency_ms, move_every, .. } = self;
        if rebalance_ms.is_none() && update_latency_ms.is_none() && move_every.is_none() {
            return None;
        }
        let ns = |ms: f64| (ms * 1e6) as u64;
        let default = Rebalancing::default();
        let every = match (move_every, rebalance_ms) {
            (Some(packets), _) => Every::Packets(*packets),
            (None, Some(ms)) => Every::Period(ns(*ms).max(1)),
            (None, None) => default.every,
        };
        let update_latency_ns = update_latency_ms.map_or(default.update_latency_ns, ns);
        Some(Rebalancing { every, update_latency_ns })
    }
}

pub fn indirection_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| INDIRECTION_SIZES.contains(size));
    size.ok_or_else(|| "cards' tables have 128 or 512 entries".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let ms = milliseconds(text)?;
    if ms > 0.0 { Ok(ms) } else { Err("must be above 0".to_owned()) }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms: f64 = text.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    if (0.0..=1e9).contains(&ms) { Ok(ms) } else { Err("must be 0 to 1000000000".to_owned()) }
}
