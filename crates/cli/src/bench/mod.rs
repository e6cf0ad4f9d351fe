//! Measuring. Every figure names the machine and the command.

mod chain;
pub mod compare;
mod contest;
mod egress;
pub mod machine;
pub mod mlffr;
mod report;
mod scr;
pub mod source;
mod table;

use std::process::ExitCode;

use engine::Registry;

use crate::args::{BenchArgs, BenchCommand};
use crate::failure::Failure;

pub use self::scr::Figure;
#[cfg(test)]
pub use self::{chain::ChainBench, egress::EgressBench, mlffr::MlffrBench, scr::ScrBench, table::TableBench};

pub fn command(args: &BenchArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        BenchCommand::Chain(args) => chain::command(args, registry),
        BenchCommand::Egress(args) => egress::command(args, registry),
        BenchCommand::Mlffr(args) => mlffr::command(args, registry),
        BenchCommand::Compare(args) => contest::command(args, registry),
        BenchCommand::Scr(args) => scr::command(args),
        BenchCommand::Table(args) => table::command(args),
        BenchCommand::Report(args) => report::command(args),
    }
}
