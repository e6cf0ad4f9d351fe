//! What changes within a capture: chains that take over, and cores that are parked.

use std::path::Path;

use clap::Args;
use engine::{Chain, Plan, Registry, Reload};
use strategy::ActiveCores;

use super::card::CardArgs;
use super::tables::TableArgs;
use crate::failure::Failure;
use crate::input::read_chain;
use crate::output::plural;

#[derive(Args, Clone)]
#[command(next_help_heading = "Changes on the way")]
pub struct ReloadArgs {
    /// Have another chain take over behind so many packets, with the flows of functions that stay; may be given more
    /// than once, with numbers that rise
    #[arg(long, num_args = 2, value_names = ["PACKETS", "CHAIN2.toml"], action = clap::ArgAction::Append)]
    pub reload_at: Vec<String>,
    /// Have N of the cores get packets behind so many packets, and the others none; flows go along. May be given more than
    /// once, with numbers that rise
    #[arg(long, value_name = "PACKETS=N", value_parser = change)]
    pub cores_at: Vec<(u64, usize)>,
}

fn change(text: &str) -> Result<(u64, usize), String> {
    let parts =
        text.split_once('=').and_then(|(after, cores)| Some((after.parse().ok()?, cores.parse().ok()?)));
    parts.ok_or_else(|| "write it as PACKETS=N, as in 1000=2".to_owned())
}

impl ReloadArgs {
    /// The plan with the changes of cores.
    pub fn cores(&self, plan: Plan, chain: &Chain) -> Result<Plan, Failure> {
        if self.cores_at.is_empty() {
            return Ok(plan);
        }
        if !self.cores_at.is_sorted() {
            return Err(Failure::usage(
                "--cores-at has a number of packets below the one before\nGive changes in their order.",
            ));
        }
        let plan = plan.with_cores_to_park(chain).map_err(Failure::usage)?;
        for (_, cores) in &self.cores_at {
            plan.check_cores(chain, *cores).map_err(Failure::usage)?;
        }
        Ok(Plan { active: ActiveCores::changing(plan.cores, &self.cores_at), ..plan })
    }

    /// The chains, each as it runs under the first one's strategy.
    pub fn reloads(
        &self,
        (chain, first): (&Chain, &Plan),
        card: &CardArgs,
        tables: &TableArgs,
        registry: &Registry,
    ) -> Result<Vec<Reload>, Failure> {
        let mut reloads: Vec<Reload> = Vec::new();
        for given in self.reload_at.chunks(2) {
            let [after, path] = given else { continue };
            let Ok(after) = after.parse() else {
                return Err(Failure::usage(format!(
                    "--reload-at {after}: this is no number of packets\nGive the packets that come before, and then the chain: `--reload-at 1000 CHAIN2.toml`."
                )));
            };
            if reloads.last().is_some_and(|before| before.after > after) {
                return Err(Failure::usage(
                    "--reload-at has a number of packets below the one before\n\
                     Give chains in the order in which they take over.",
                ));
            }
            let before = reloads.last().map_or(chain, |before| &before.chain);
            let chain = tables.apply(read_chain(Path::new(path), registry)?)?.behind(before);
            let plan = card.plan(&chain, first.strategy, first.cores)?.following(first);
            if !self.cores_at.is_empty() {
                plan.check_cores(&chain, first.cores).map_err(Failure::usage)?;
            }
            reloads.push(Reload { after, chain, plan });
        }
        Ok(reloads)
    }

    /// Says which changes did nothing, since no packet came behind them.
    pub fn tell_unreached(&self, packets: u64) {
        let reloads = self.reload_at.chunks(2).filter_map(|given| given[0].parse().ok());
        let reloads = reloads.map(|after: u64| ("--reload-at", after));
        let cores = self.cores_at.iter().map(|(after, _)| ("--cores-at", *after));
        for (option, after) in reloads.chain(cores).filter(|(_, after)| *after >= packets) {
            eprintln!("note: {option} {after} did nothing: no more than {} came", plural(packets, "packet"));
        }
    }

    /// Whether any was given.
    pub fn is_given(&self) -> bool {
        !self.reload_at.is_empty() || !self.cores_at.is_empty()
    }
}
