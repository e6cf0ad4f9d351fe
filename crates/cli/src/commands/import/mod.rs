//! `paceline import`: the rules of another firewall as a chain file.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::Registry;

use crate::failure::Failure;

mod nftables;

#[derive(Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    /// From what `nft -j list ruleset` prints
    Nftables(nftables::NftablesArgs),
}

pub fn command(args: &ImportArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    match &args.from {
        From::Nftables(args) => nftables::command(args, registry),
    }
}
