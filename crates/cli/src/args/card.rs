//! The simulated card's options, and the plan with them.

use std::time::Duration;

use clap::Args;
use engine::strategies::{Shards, Solving, Strategy};
use engine::{Chain, Plan, SolverKind};
use strategy::{Every, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Rebalancing};

use crate::args::StrategyArg;
use crate::args::number;
use crate::failure::Failure;

/// How a card spreads packets over cores, and how often that changes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Card, and flows that move (strategies rss, rsspp, dyssect, hybrid, auto)")]
pub struct CardArgs {
    /// Entries of the card's indirection table: 128 or 512
    #[arg(long, value_name = "N", default_value_t = INDIRECTION_ENTRIES, value_parser = indirection_size)]
    pub indirection_entries: usize,
    /// How often rsspp and dyssect look at the loads and move flows, hybrid promotes and demotes flows, and auto decides anew,
    /// in the packets' own time [default: 10, dyssect and auto 100]
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub rebalance_ms: Option<f64>,
    /// How long it takes from such a decision until the card acts by it, in the packets' own time [default: 0]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub update_latency_ms: Option<f64>,
    /// Have a quarter of the flows move, drawn at random, every N packets, whatever the loads: to show that it does no
    /// harm. dyssect also changes a quarter of its ratios and offloaders; hybrid promotes or demotes flows just seen;
    /// auto has another strategy take over, on another number of cores
    #[arg(long, value_name = "N", conflicts_with = "rebalance_ms", value_parser = packets)]
    pub move_every: Option<u64>,
    /// Shards of dyssect, a power of two up to 1024 [default: 16]
    #[arg(long, value_name = "N", value_parser = shards)]
    pub shards: Option<Shards>,
    /// Flows that dyssect's card looks up for its cores, the largest ones; 0 for none [default: 10000 over a capture, where the
    /// card is simulated; 0 on interfaces, where it is the XDP program (AF_XDP only)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    pub card_flows: Option<u64>,
    /// Who decides which core has which of dyssect's shards: `greedy`, or `highs`, which is exact, and answers a period later. The
    /// latter is there in builds with the feature `highs`
    #[arg(long, value_name = "SOLVER", value_parser = solver)]
    pub solver: Option<Solver>,
    /// How long `highs` may take; without an answer by then the old placement stays in force [default: 50, or the period if
    /// that is shorter]
    #[arg(long, value_name = "MS", value_parser = positive, requires = "solver")]
    pub solver_deadline_ms: Option<f64>,
    /// Set a number that the strategy declares, such as a strategy of your own; can be given more than once. `paceline ctl tune` lists
    /// them for a run on interfaces
    #[arg(long, value_name = "NAME=VALUE", value_parser = tuning)]
    pub tune: Vec<(String, u64)>,
}

/// Who decides which core has which shard.
#[derive(Clone, Copy, Debug)]
pub enum Solver {
    /// The controller itself, where packets enter.
    Greedy,
    /// Another, on a thread of its own.
    Beside(SolverKind),
}

/// How long a solver may take by default.
const SOLVER_DEADLINE_NS: u64 = 50_000_000;

impl CardArgs {
    /// Checks that a chain can run so.
    pub fn plan(
        &self,
        chain: &Chain,
        strategy: &'static dyn Strategy,
        cores: usize,
    ) -> Result<Plan, Failure> {
        let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
        plan.candidates = StrategyArg::all_steady();
        for (name, value) in &self.tune {
            plan.tunables.set(name, *value).map_err(|why| {
                Failure::usage(format!("--tune {name}={value}: strategy `{}`: {why}", strategy.name()))
            })?;
        }
        if let Some(rebalancing) = self.rebalancing(plan.rebalancing.unwrap_or_default()) {
            if plan.rebalancing.is_none() {
                return Err(Failure::usage(format!(
                    "under strategy `{}` flows stay where they are\n\
                     Leave out --rebalance-ms, --update-latency-ms and --move-every, or use `--strategy rsspp`,\n\
                     `--strategy dyssect`, `--strategy hybrid` or `--strategy auto`.",
                    strategy.name()
                )));
            }
            plan.rebalancing = Some(rebalancing);
        }
        if self.shards.is_some() && plan.shards.is_none() {
            return Err(Failure::usage(format!(
                "strategy `{}` has no shards with a table of their own\n\
                 Leave out --shards, or use `--strategy dyssect`.",
                strategy.name()
            )));
        }
        if self.card_flows.is_some() && plan.shards.is_none() {
            return Err(Failure::usage(format!(
                "strategy `{}` has no cores that a card tells where flows are\n\
                 Leave out --card-flows, or use `--strategy dyssect`.",
                strategy.name()
            )));
        }
        if let Some(solver) = self.solver {
            plan.solving = self.solving(solver, &plan)?;
        }
        plan.card_flows = self.card_flows.map_or(plan.card_flows, |flows| flows as usize);
        plan.shards = self.shards.or(plan.shards);
        plan.indirection_entries = self.indirection_entries;
        Ok(plan)
    }

    fn solving(&self, solver: Solver, plan: &Plan) -> Result<Option<Solving>, Failure> {
        if plan.shards.is_none() {
            return Err(Failure::usage(format!(
                "strategy `{}` has no shards for which a solver finds cores\n\
                 Leave out --solver, or use `--strategy dyssect`.",
                plan.strategy.name()
            )));
        }
        let Solver::Beside(kind) = solver else {
            return match self.solver_deadline_ms {
                None => Ok(None),
                Some(_) => Err(Failure::usage(
                    "`greedy` decides at once, where packets enter, and has no deadline\n\
                     Leave out --solver-deadline-ms, or use `--solver highs`.",
                )),
            };
        };
        let Every::Period(period_ns) = plan.rebalancing.unwrap_or_default().every else {
            return Err(Failure::usage(
                "with --move-every cores are drawn at random, and no solver is asked\n\
                 Leave out --solver, or --move-every."
                    .to_owned(),
            ));
        };
        let deadline_ns = match self.solver_deadline_ms {
            None => SOLVER_DEADLINE_NS.min(period_ns),
            Some(ms) => ((ms * 1e6) as u64).max(1),
        };
        if deadline_ns > period_ns {
            return Err(Failure::usage(format!(
                "--solver-deadline-ms is longer than the {} ms from one question to the next\n\
                 Give it less, or make --rebalance-ms longer.",
                period_ns as f64 / 1e6
            )));
        }
        Ok(Some(Solving { kind, deadline: Duration::from_nanos(deadline_ns) }))
    }

    /// What was asked for, if anything was; what was not is as in `default`.
    pub fn rebalancing(&self, default: Rebalancing) -> Option<Rebalancing> {
        let CardArgs { rebalance_ms, update_latency_ms, move_every, .. } = self;
        if rebalance_ms.is_none() && update_latency_ms.is_none() && move_every.is_none() {
            return None;
        }
        let ns = |ms: f64| (ms * 1e6) as u64;
        let every = match (move_every, rebalance_ms) {
            (Some(packets), _) => Every::Packets(*packets),
            (None, Some(ms)) => Every::Period(ns(*ms).max(1)),
            (None, None) => default.every,
        };
        let update_latency_ns = update_latency_ms.map_or(default.update_latency_ns, ns);
        Some(Rebalancing { every, update_latency_ns })
    }
}

fn solver(text: &str) -> Result<Solver, String> {
    let kind = SolverKind::ALL.iter().find(|kind| kind.name == text);
    match (text, kind) {
        ("greedy", _) => Ok(Solver::Greedy),
        (_, Some(kind)) => Ok(Solver::Beside(*kind)),
        ("highs", None) => {
            Err("this program was built without it: build it with `--features highs` (docs/dyssect.md)"
                .to_owned())
        }
        _ => Err("must be `greedy` or `highs`".to_owned()),
    }
}

fn shards(text: &str) -> Result<Shards, String> {
    let shards = text.parse().ok().and_then(Shards::new);
    shards.ok_or_else(|| format!("must be a power of two, at most {}", Shards::MAX))
}

/// `NAME=VALUE`.
pub fn tuning(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("is written NAME=VALUE")?;
    let value = value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
    Ok((name.to_owned(), value))
}

pub fn indirection_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| INDIRECTION_SIZES.contains(size));
    size.ok_or_else(|| "cards' tables have 128 or 512 entries".to_owned())
}

fn packets(text: &str) -> Result<u64, String> {
    number(1..)(text).map(|packets| packets as u64)
}

fn positive(text: &str) -> Result<f64, String> {
    let ms = milliseconds(text)?;
    if ms > 0.0 { Ok(ms) } else { Err("must be above 0, and at most 1000000000".to_owned()) }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms: f64 = text.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    if (0.0..=1e9).contains(&ms) { Ok(ms) } else { Err("must be 0 to 1000000000".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use engine::strategies::{DYSSECT, RSS};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        card: CardArgs,
    }

    fn card(options: &[&str]) -> Result<CardArgs, String> {
        let line = Line::try_parse_from([&["paceline"], options].concat());
        line.map(|line| line.card).map_err(|error| error.to_string())
    }

    fn plan(strategy: &'static dyn Strategy, card: &CardArgs) -> Result<Plan, String> {
        let chain = Chain::parse("test.toml", "[[function]]\nuse = \"ddos\"", &stock::registry());
        card.plan(&chain.expect("a chain"), strategy, 2).map_err(|failure| failure.to_string())
    }

    /// Options with a solver that any build has.
    fn beside(options: &[&str]) -> CardArgs {
        let card = card(&[&["--solver", "greedy"], options].concat());
        let kind = SolverKind { name: "beside", make: |_| unreachable!("nothing runs") };
        CardArgs { solver: Some(Solver::Beside(kind)), ..card.expect("options") }
    }

    fn deadline(options: &[&str]) -> Duration {
        let plan = plan(DYSSECT, &beside(options)).expect("a plan");
        plan.solving.expect("a solver").deadline
    }

    #[test]
    fn a_solver_has_half_a_period_or_what_it_is_given() {
        assert_eq!(deadline(&[]), Duration::from_millis(50));
        assert_eq!(deadline(&["--rebalance-ms", "10"]), Duration::from_millis(10), "no longer than a period");
        assert_eq!(deadline(&["--solver-deadline-ms", "100"]), Duration::from_millis(100), "a whole period");
        assert_eq!(deadline(&["--solver-deadline-ms", "0.0000001"]), Duration::from_nanos(1));
        let greedy = card(&["--solver", "greedy"]).expect("options");
        assert!(plan(DYSSECT, &greedy).expect("a plan").solving.is_none(), "the controller itself");
    }

    #[test]
    fn options_that_no_solver_can_follow_are_refused() {
        for (options, why) in [
            (&["--solver", "simplex"][..], "must be `greedy` or `highs`"),
            (&["--solver-deadline-ms", "5"], "--solver <SOLVER>"),
            (&["--solver", "greedy", "--solver-deadline-ms", "0"], "must be above 0"),
            #[cfg(not(feature = "highs"))]
            (&["--solver", "highs"], "build it with `--features highs`"),
        ] {
            let said = card(options).map(|_| ()).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
        let greedy = card(&["--solver", "greedy", "--solver-deadline-ms", "5"]).expect("options");
        for (strategy, card, why) in [
            (DYSSECT, greedy, "`greedy` decides at once"),
            (RSS, beside(&[]), "strategy `rss` has no shards"),
            (DYSSECT, beside(&["--move-every", "37"]), "no solver is asked"),
            (DYSSECT, beside(&["--solver-deadline-ms", "100.1"]), "longer than the 100 ms"),
            (DYSSECT, beside(&["--rebalance-ms", "1", "--solver-deadline-ms", "2"]), "longer than the 1 ms"),
        ] {
            let said = plan(strategy, &card).map(|_| ()).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }
}
