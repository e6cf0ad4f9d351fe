//! The `paceline` program as a library: a program with functions and strategies of its own has every command.
//!
//! [`Program`] is the whole program but for its two lists. The installed `paceline` has [`Program::stock`]. A program
//! that adds to them can use its functions and strategies in `run`, `verify`, `sweep`, `bench`, `top`, `nfs` and the
//! rest, beside the stock ones: `crates/cli/examples/own_function.rs` and `own_strategy.rs` are two whole ones.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use paceline::Program;
//!
//! fn main() -> ExitCode {
//!     let mut program = Program::stock();
//!     // program.functions.add::<Quota>();
//!     // program.strategies.push(&Blocks);
//!     program.main()
//! }
//! ```

mod args;
mod calls;
mod commands;
mod connections;
mod control;
mod costs;
mod drops;
mod explain;
mod failure;
mod filter;
mod input;
mod machine;
mod meant;
mod object;
mod output;
mod page;
mod progress;
#[cfg(test)]
mod reference;
mod rule_log;
#[cfg(test)]
mod schema;
mod service;
mod timeline;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{self, ExitCode};

pub use crate::calls::{CallError, See};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
pub use engine::Registry;
use engine::strategies::{self, Strategy};

use crate::args::name_strategies;
use crate::commands::Cli;
use crate::explain::Code;

/// The functions and strategies that a program's commands have.
#[derive(Clone)]
pub struct Program {
    /// The functions that chain files may name.
    pub functions: Registry,
    /// The strategies that command lines may name. No two have one name.
    pub strategies: Vec<&'static dyn Strategy>,
}

impl Program {
    /// What the installed `paceline` has.
    pub fn stock() -> Program {
        Program { functions: stock::registry(), strategies: strategies::ALL.to_vec() }
    }

    /// Runs the command that the arguments of the process name. Returns the exit status, which `--help` explains. Prints
    /// errors to standard error.
    ///
    /// Ends the process itself where the arguments are wrong or ask for help.
    ///
    /// # Panics
    /// If two strategies have one name.
    pub fn main(&self) -> ExitCode {
        self.run(env::args_os())
    }

    /// Runs the command that `args` name, the program's name first, as [`Program::main`] does: for tests of a program.
    ///
    /// # Panics
    /// As [`Program::main`].
    pub fn run(&self, args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
        let names: BTreeSet<&str> = self.strategies.iter().map(|strategy| strategy.name()).collect();
        assert!(names.len() == self.strategies.len(), "two strategies of this program have one name");
        name_strategies(&self.strategies);
        // Lines of terminals' usual width would break option names in two. Fails only if there is a hook.
        let _ = miette::set_hook(Box::new(|_| Box::new(miette::MietteHandlerOpts::new().width(110).build())));
        let cli = Cli::try_parse_from(args);
        let cli = cli.unwrap_or_else(|error| refused(hinted(error)));
        machine::prefer_prefetches()
            .and_then(|()| cli.run(&self.functions))
            .unwrap_or_else(|failure| failure.report())
    }
}

/// Prints why these arguments are none, or the help that they ask for, and ends the process.
fn refused(error: clap::Error) -> ! {
    let _ = error.print();
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        failure::say(&format!("  more: {}", Code::Usage.hint()));
    }
    process::exit(error.exit_code())
}

/// The error with a tip, where a capture was given without its option.
fn hinted(mut error: clap::Error) -> clap::Error {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && input::is_capture(Path::new(given))
    {
        let tip = format!("a capture is named with its option: `--pcap {given}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && given.parse::<f64>().is_ok_and(|number| number < 0.0)
    {
        let tip = "no option takes a number below 0; `--help` has what each takes";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
