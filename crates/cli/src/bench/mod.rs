//! Measuring. Every figure names the machine and the command.

mod machine;
mod table;

use std::process::ExitCode;

use crate::args::{BenchArgs, BenchCommand};
use crate::failure::Failure;

pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        BenchCommand::Table(args) => table::command(args),
    }
}
