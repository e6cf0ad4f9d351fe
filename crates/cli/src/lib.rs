//! The `paceline` program as a library: a program with functions of its own has every command.
//!
//! [`main`] is the whole program but for the list of functions. The installed `paceline` passes it
//! [`Registry::stock`]. A program that adds a function to the registry can use it in `run`, `verify`, `plan`,
//! `bench`, `top`, `nfs` and the rest, in chains with stock functions beside it:
//! `crates/cli/examples/own_function.rs` is a whole one.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use paceline::Registry;
//!
//! fn main() -> ExitCode {
//!     let mut registry = Registry::stock();
//!     // registry.add::<Quota>();
//!     paceline::main(&registry)
//! }
//! ```

mod args;
mod commands;
mod control;
mod costs;
mod drops;
mod failure;
mod filter;
mod input;
mod machine;
mod old_names;
mod output;
mod page;
mod progress;
#[cfg(test)]
mod schema;
mod service;
mod timeline;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
pub use engine::Registry;

use crate::commands::Cli;

/// Runs the command that the arguments of the process name; chain files may use the functions of `registry`.
/// Returns the exit status, which `--help` explains. Prints errors to standard error.
///
/// Ends the process itself where the arguments are wrong or ask for help.
pub fn main(registry: &Registry) -> ExitCode {
    run_args(registry, env::args_os())
}

/// The same with other arguments than those of the process, the program's name first: for tests of a program.
pub fn run_args(
    registry: &Registry,
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> ExitCode {
    // Lines of terminals' usual width would break option names in two. Fails only if there is a hook.
    let _ = miette::set_hook(Box::new(|_| Box::new(miette::MietteHandlerOpts::new().width(110).build())));
    let cli = Cli::try_parse_from(old_names::translated(args.into_iter().map(Into::into)));
    let cli = cli.unwrap_or_else(|error| hinted(error).exit());
    cli.run(registry).unwrap_or_else(|failure| failure.report())
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
