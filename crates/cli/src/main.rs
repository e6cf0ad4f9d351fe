//! The `paceline` program.
#![allow(missing_docs, reason = "a program, not a library")]

mod address;
mod args;
mod bench;
mod emulate;
mod failure;
mod functions;
mod generate;
mod inspect;
mod old_names;
mod output;
mod p4;
mod packets;
mod page;
mod plan;
mod ports;
mod run;
#[cfg(test)]
mod schema;
mod sequence;
mod session;
mod top;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    // Lines of terminals' usual width would break option names in two. Fails only if there is a hook.
    let _ = miette::set_hook(Box::new(|_| Box::new(miette::MietteHandlerOpts::new().width(110).build())));
    let result = match Cli::parse_from(old_names::translated(std::env::args_os())).command {
        Command::Run(args) => run::command(&args),
        Command::Verify(args) => verify::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Inspect(args) => inspect::command(&args),
        Command::Generate(args) => generate::command(&args),
        Command::Sequence(args) => sequence::command(&args),
        Command::Nfs(args) => functions::command(&args),
        Command::Plan(args) => plan::command(&args),
        Command::P4(args) => p4::command(&args),
        Command::Emulate(args) => emulate::command(&args),
        Command::Bench(args) => bench::command(&args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
