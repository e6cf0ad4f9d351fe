//! Chains that take over within a capture.

use std::path::Path;

use clap::Args;
use engine::{Plan, Registry, Reload};

use super::card::CardArgs;
use super::tables::TableArgs;
use crate::failure::Failure;
use crate::input::read_chain;

#[derive(Args, Clone)]
#[command(next_help_heading = "Another chain")]
pub struct ReloadArgs {
    /// Have another chain take over behind so many packets, with the flows of functions that stay; may be given more
    /// than once, with numbers that rise
    #[arg(long, num_args = 2, value_names = ["PACKETS", "CHAIN2.toml"], action = clap::ArgAction::Append)]
    pub reload_at: Vec<String>,
}

impl ReloadArgs {
    /// The chains, each as it runs under the first one's strategy.
    pub fn reloads(
        &self,
        first: &Plan,
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
            let chain = tables.apply(read_chain(Path::new(path), registry)?);
            let plan = Plan { egress: first.egress, ..card.plan(&chain, first.strategy, first.cores)? };
            reloads.push(Reload { after, chain, plan });
        }
        Ok(reloads)
    }

    /// Whether any was given.
    pub fn is_given(&self) -> bool {
        !self.reload_at.is_empty()
    }
}
