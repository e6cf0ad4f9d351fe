//! `paceline p4 rtl`: a program as hardware, in SystemVerilog.

use std::path::PathBuf;
use std::process::ExitCode;

use ::p4::interpret::Machine;
use ::p4::passes;
use clap::Args;
use pipeline::compiled::{Hardware, Image};
use pipeline::{Options, RapidOptions};

use crate::args::buffers::{Level, RapidArgs};
use crate::args::{ProgramArgs, number};
use crate::explain::Code;
use crate::failure::Failure;
use crate::output::Reports;

#[derive(Args)]
pub struct RtlArgs {
    #[command(flatten)]
    pub source: ProgramArgs,
    /// Write the package and the module here; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Stages of the pipeline [default: those of the program]
    #[arg(long, value_name = "M", value_parser = number(1..=16))]
    pub stages: Option<usize>,
    /// Cycles of a stage [default: 18]
    #[arg(long, value_name = "N", value_parser = number(1..=256))]
    pub stage_cycles: Option<usize>,
    /// Pipelines that share the ring [default: 1]
    #[arg(long, value_name = "N", value_parser = number(1..=32))]
    pub pipelines: Option<usize>,
    /// Consistency of the muTable, instead of what the program says: strict, weak, or bsK
    #[arg(long, value_name = "LEVEL")]
    pub consistency: Option<Level>,
    #[command(flatten)]
    pub rapid: RapidArgs,
}

pub fn command(args: &RtlArgs) -> Result<ExitCode, Failure> {
    let reports = Reports::open_documents(&[&args.source.program], &[("--out", Some(&args.out))])?;
    let mut program = args.source.read()?;
    passes::compile(&mut program);
    let failed = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", args.source.program.display())).coded(Code::NotInHardware)
    };
    let image = Image::new(Machine::new(program)).map_err(|error| failed(&error))?;
    let options = Options { stages: args.stages, stage_cycles: args.stage_cycles, ..Options::default() };
    let consistency = args.consistency.map(|level| level.0);
    let pipelines = args.pipelines.unwrap_or(1);
    let rapid = RapidOptions { consistency, pipelines, ..args.rapid.options(RapidOptions::default()) };
    let hardware = Hardware::new(&image, &rapid, &options).map_err(|error| failed(&error))?;
    reports.write_documents(&[&|| hardware.verilog.clone()], "")?;
    Ok(ExitCode::SUCCESS)
}
