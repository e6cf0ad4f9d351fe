//! `paceline man`: the manual's pages, for packages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_mangen::Man;
use engine::Registry;

use super::Cli;
use crate::explain::Code;
use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub struct ManArgs {
    /// Write a page for each command, `paceline.1`, `paceline-run.1` and so on, to this folder; without it the first page goes
    /// to standard output, as for `paceline man | man -l -`
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub fn command(args: &ManArgs, _registry: &Registry) -> Result<ExitCode, Failure> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        Man::new(Cli::command().disable_help_subcommand(true)).render(&mut page).map_err(Failure::usage)?;
        output::print_bytes(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let cannot = |error| {
        Failure::usage(format!("cannot write pages to {}: {error}", folder.display()))
            .coded(Code::CannotWrite)
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(cannot)?;
    Ok(ExitCode::SUCCESS)
}
