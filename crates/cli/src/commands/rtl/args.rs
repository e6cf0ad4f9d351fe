//! Arguments of `paceline rtl`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sequencer::MAX_CORES;

use crate::args::number;

#[derive(Args)]
pub struct RtlArgs {
    #[command(subcommand)]
    pub command: RtlCommand,
}

#[derive(Subcommand)]
pub enum RtlCommand {
    /// Write a module that puts history before packets, as `sequence` does: rtl/sequencer with a chain's parameters, or with a program's
    /// parser and its items
    Sequencer(SequencerArgs),
}

#[derive(Args)]
pub struct SequencerArgs {
    /// The chain whose functions need the history, TOML, or a program in P4, `NAME.p4`
    #[arg(value_name = "CHAIN.toml|PROGRAM.p4")]
    pub source: PathBuf,
    /// Cores that get packets, by turns; each packet has the history of one less
    #[arg(long, value_name = "N", value_parser = number(1..=MAX_CORES as u64))]
    pub cores: usize,
    /// Bits of the bus: 512 or 1024
    #[arg(long, value_name = "BITS", default_value_t = 512, value_parser = bus_width)]
    pub width: usize,
    /// Put an Ethernet header before the history, for cards and tools that look for one
    #[arg(long)]
    pub ethernet: bool,
    /// Write the module here; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
}

fn bus_width(bits: &str) -> Result<usize, String> {
    match bits {
        "512" => Ok(512),
        "1024" => Ok(1024),
        _ => Err("a bus has 512 or 1024 bits".to_owned()),
    }
}
