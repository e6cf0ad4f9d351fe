//! `paceline emulate`: pipelines in hardware, cycle by cycle.

pub mod run;
pub mod sweep;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::Registry;

use self::run::RunArgs;
use self::sweep::SweepArgs;
use crate::failure::Failure;

/// What is emulated.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EmulateArgs {
    #[command(subcommand)]
    pub command: Option<EmulateCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Subcommand)]
pub enum EmulateCommand {
    /// Run many settings of the models over synthetic updates, on all cores
    Sweep(Box<SweepArgs>),
}

pub fn command(args: &EmulateArgs, _: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(EmulateCommand::Sweep(args)) => sweep::command(args),
        None => run::command(&args.run),
    }
}
