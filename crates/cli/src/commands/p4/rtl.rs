//! `paceline p4 rtl`: a program as hardware, in SystemVerilog.

use std::path::PathBuf;
use std::process::ExitCode;

use ::p4::interpret::Machine;
use ::p4::passes;
use clap::Args;
use pipeline::compiled::{Hardware, Image};
use pipeline::{Options, RapidOptions};

use crate::args::{ProgramArgs, number};
use crate::commands::emulate::values::{Level, Threshold, size, threshold};
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
    /// Consistency of the muTable, instead of what the program says: strict, weak, or bsK
    #[arg(long, value_name = "LEVEL")]
    pub consistency: Option<Level>,
    /// Packets in the buffer for those sent back [default: 16]
    #[arg(long, value_name = "N", value_parser = size)]
    pub rb: Option<usize>,
    /// Packets in the PHV buffer [default: 32]
    #[arg(long, value_name = "N", value_parser = size)]
    pub pb: Option<usize>,
    /// Flows in dTable and in each queue of flows [default: 64]
    #[arg(long, value_name = "N", value_parser = number(1..=8_192))]
    pub dtable: Option<usize>,
    /// Packets in each of the two buffers of a ring node [default: 8]
    #[arg(long, value_name = "N", value_parser = size)]
    pub ring_buffer: Option<usize>,
    /// Updates after which a flow is blocked, or never [default: 4]
    #[arg(long, value_name = "N|never", value_parser = threshold)]
    pub blocking_threshold: Option<Threshold>,
}

impl RtlArgs {
    fn rapid(&self) -> RapidOptions {
        let own = RapidOptions::default();
        let flows = self.dtable.unwrap_or(own.dirty_table);
        let ring = self.ring_buffer.unwrap_or(own.ring_from_ring);
        RapidOptions {
            resubmitted_buffer: self.rb.unwrap_or(own.resubmitted_buffer),
            dirty_table: flows,
            phv_buffer: self.pb.unwrap_or(own.phv_buffer),
            block_queue: flows,
            suspend_queue: flows,
            schedule_queue: flows,
            ring_from_pipeline: ring,
            ring_from_ring: ring,
            blocking_threshold: match &self.blocking_threshold {
                Some(threshold) => threshold.0,
                None => own.blocking_threshold,
            },
            consistency: self.consistency.map(|level| level.0),
        }
    }
}

pub fn command(args: &RtlArgs) -> Result<ExitCode, Failure> {
    let reports = Reports::open_documents(&[&args.source.program], &[("--out", Some(&args.out))])?;
    let mut program = args.source.read()?;
    passes::compile(&mut program);
    let failed =
        |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", args.source.program.display()));
    let image = Image::new(Machine::new(program)).map_err(|error| failed(&error))?;
    let options = Options { stages: args.stages, stage_cycles: args.stage_cycles, ..Options::default() };
    let hardware = Hardware::new(&image, &args.rapid(), &options).map_err(|error| failed(&error))?;
    reports.write_documents(&[&|| hardware.verilog.clone()], "")?;
    Ok(ExitCode::SUCCESS)
}
