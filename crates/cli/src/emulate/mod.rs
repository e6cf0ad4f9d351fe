//! `paceline emulate`: pipelines in hardware, cycle by cycle.

mod sweep;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::sweep::SweepArgs;
#[cfg(test)]
pub use self::sweep::SweepReport;
use crate::failure::Failure;

/// What is emulated.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EmulateArgs {
    #[command(subcommand)]
    command: EmulateCommand,
}

#[derive(Subcommand)]
enum EmulateCommand {
    /// Run many settings of the models over synthetic updates, on all cores
    Sweep(Box<SweepArgs>),
}

pub fn command(args: &EmulateArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        EmulateCommand::Sweep(args) => sweep::command(args),
    }
}
