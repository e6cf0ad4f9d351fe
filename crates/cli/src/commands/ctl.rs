//! `paceline ctl`: asks a run on interfaces how it goes on, and has it do something else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::Registry;
use live::xdp::Pins;

use crate::control::{Request, ask, default_path};
use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub struct CtlArgs {
    /// The run's control socket [default: $XDG_RUNTIME_DIR/paceline.sock, else /run/paceline.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub control: Option<PathBuf>,
    /// Write the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// Say what runs, for how long, and what each core did
    Status,
    /// Have another chain take over, with the flows of functions that stay; says which began anew, and why
    Reload {
        /// The chain that is to run
        #[arg(value_name = "CHAIN.toml")]
        chain: PathBuf,
    },
    /// End the run, after the packets on their way
    Stop,
    /// Have packets pass again that a run with --on-death block stopped when it died. Asks no run
    Unblock {
        /// The interface, in this network namespace
        #[arg(value_name = "IF")]
        interface: String,
        /// The folder that the run had as --pins
        #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/bpf/paceline")]
        pins: PathBuf,
    },
}

pub fn command(args: &CtlArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let request = match &args.what {
        What::Status => Request::Status,
        What::Stop => Request::Stop,
        What::Unblock { interface, pins } => return unblock(interface, pins),
        What::Reload { chain } => {
            let name = chain.display().to_string();
            let text = fs::read_to_string(chain)
                .map_err(|error| Failure::usage(format!("cannot read the chain file {name}: {error}")))?;
            Request::Reload { name, text }
        }
    };
    let answer = ask(&path, &request)?;
    if args.json {
        output::print(&output::json(&answer)?)?;
    } else if let Some(status) = &answer.status {
        output::print(&status.text())?;
    } else if let Some(told) = &answer.told {
        output::print(&format!("{told}\n"))?;
    }
    match answer.ok {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::usage(format!(
            "the run refused: {}",
            answer.error.as_deref().unwrap_or("it does not say why")
        ))),
    }
}

/// Takes off what keeps packets from an interface.
fn unblock(interface: &str, pins: &Path) -> Result<ExitCode, Failure> {
    match Pins::at(pins).unblock(interface).map_err(Failure::usage)? {
        true => output::print(&format!("packets of {interface} go to the kernel again\n"))?,
        false => {
            return Err(Failure::usage(format!(
                "no dead run blocks interface `{interface}`\nThere is nothing of it in {}. Ask in the network namespace of the \
                 run, and with its --pins.",
                pins.display()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}
