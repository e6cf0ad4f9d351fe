//! `paceline self-test`: shows that what is installed works on this machine, by the commands that users type.

mod checks;
mod live;
mod outcome;
mod own;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::Registry;

use self::checks::ALL;
use self::outcome::Outcome;
use self::own::Own;
use crate::args::number;
use crate::failure::{self, Failure};
use crate::output::{self, plural};

const EXAMPLES: &str = "\
Every check runs a command of this program, as a user would; --verbose shows them. Nothing outside of a temporary folder, and
of a network namespace of its own, is touched. A check that takes a right or a program which is not here is not tried, and says so.

Exit status: 0 if every check that was tried holds, 1 if one does not";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SelfTestArgs {
    /// Packets of the capture that is made and checked
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = number(1_000..=10_000_000))]
    pub packets: usize,
    /// Show the commands of each check, and the whole of what one that fails wrote
    #[arg(short, long)]
    pub verbose: bool,
    /// The check on interfaces, where it has a network namespace: the folder has capture and chain
    #[arg(long, hide = true, value_name = "FOLDER")]
    pub in_namespace: Option<PathBuf>,
}

pub fn command(args: &SelfTestArgs, _registry: &Registry) -> Result<ExitCode, Failure> {
    let status = match &args.in_namespace {
        Some(folder) => live::inside(folder)?,
        None => all(args)?,
    };
    Ok(ExitCode::from(status))
}

/// Runs every check and prints a line for each as it ends. Returns the exit status.
fn all(args: &SelfTestArgs) -> Result<u8, Failure> {
    let own = Own::new(args.packets)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    output::print(&format!(
        "paceline {} on Linux {}, {}\n",
        env!("CARGO_PKG_VERSION"),
        system.trim(),
        plural(cores as u64, "processor")
    ))?;
    let (mut held, mut failed, mut left_out) = (0, 0, 0);
    for (at, (name, check)) in ALL.iter().enumerate() {
        let (word, what) = match check(&own) {
            Outcome::Holds(what) => {
                held += 1;
                ("ok", what)
            }
            Outcome::NotTried(why) => {
                left_out += 1;
                ("not tried", why)
            }
            Outcome::Fails(failure) => {
                failed += 1;
                ("FAILED", failure)
            }
        };
        output::print(&output::wrapped(&what, &format!("{word:9}  {name:9}  "), &" ".repeat(22)))?;
        if args.verbose {
            for command in own.commands() {
                output::print(&format!("{:22}$ {command}\n", ""))?;
            }
        }
        own.forget_commands();
        if at == 0 && failed > 0 {
            left_out = ALL.len() - 1;
            break;
        }
    }
    let held = plural(held, "check");
    let more = if left_out == 0 { String::new() } else { format!(", {left_out} not tried") };
    let (end, status) = match failed {
        0 => (format!("{held} passed{more}: Paceline works here\n"), 0),
        _ => (format!("{held} passed, {failed} FAILED{more}\n"), failure::DIFFERENT),
    };
    output::print(&end)?;
    Ok(status)
}
