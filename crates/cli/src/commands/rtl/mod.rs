//! `paceline rtl`: hardware for a chain or for a program in P4, in SystemVerilog.

mod args;
mod chain;
mod pins;
mod program;

use std::process::ExitCode;

use engine::Registry;

pub use self::args::RtlArgs;
use self::args::RtlCommand;
use crate::args::read_program;
use crate::failure::Failure;
use crate::input::read_chain;
use crate::output::Reports;

pub fn command(args: &RtlArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let RtlCommand::Sequencer(args) = &args.command;
    let reports = Reports::open_documents(&[&args.source], &[("--out", Some(&args.out))])?;
    let module = match args.source.extension() {
        Some(extension) if extension == "p4" => {
            program::sequencer_module(&read_program(&args.source, &[], &[])?, args)?
        }
        _ => chain::sequencer_module(&read_chain(&args.source, registry)?, args)?,
    };
    reports.write_documents(&[&|| module.clone()], "")?;
    Ok(ExitCode::SUCCESS)
}
