//! The `paceline` program.
#![allow(missing_docs, reason = "a program, not a library")]

mod args;
mod failure;
mod functions;
mod inspect;
mod output;
mod run;
mod session;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::command(&args),
        Command::Verify(args) => verify::command(&args),
        Command::Inspect(args) => inspect::command(&args),
        Command::Nfs(args) => functions::command(&args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
