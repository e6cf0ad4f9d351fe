//! `paceline p4 sequencer`: what puts history before the packets of a program, for a switch, in P4.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use xdp::Strategy;
use xdp::switch::{self, Switch};

use crate::args::{ProgramArgs, number};
use crate::failure::Failure;
use crate::object::{compile, refused};
use crate::output::Reports;

#[derive(Args)]
pub struct SequencerArgs {
    #[command(flatten)]
    pub source: ProgramArgs,
    /// Cores that get packets, by turns; each packet has the history of one less
    #[arg(long, value_name = "N", value_parser = number(1..=sequencer::MAX_CORES as u64))]
    pub cores: usize,
    /// Write it here; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Put an Ethernet header before the history, for cards and tools that look for one
    #[arg(long)]
    pub ethernet: bool,
    /// The switch's port of core 0; the other cores are at those behind it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..447))]
    pub first_port: u16,
    /// What is added to the switch's clock, which has 48 bits of microseconds, in ns
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub base_ns: u64,
}

pub fn command(args: &SequencerArgs) -> Result<ExitCode, Failure> {
    let path = &args.source.program;
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Err(Failure::usage(format!(
            "{} is a chain, and a switch sequences programs in P4\nWhat items of a chain hold (version 1: also why a packet is malformed) \
             its receivers' own parser finds. `paceline sequence` and `paceline rtl` sequence chains.",
            path.display()
        )));
    }
    let reports = Reports::open_documents(&[path], &[("--out", Some(&args.out))])?;
    let compiled = compile(&args.source.read()?, Strategy::Scr)?;
    let SequencerArgs { cores, ethernet, first_port, base_ns, .. } = *args;
    let text = switch::sequencer(&compiled, Switch { cores, has_ethernet: ethernet, first_port, base_ns })
        .map_err(|refusals| refused(&refusals))?;
    reports.write_documents(&[&|| text.clone()], "")?;
    Ok(ExitCode::SUCCESS)
}
