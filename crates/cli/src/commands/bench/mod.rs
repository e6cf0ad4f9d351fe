//! `paceline bench`: measuring. Every figure names the machine and the command.

pub mod chain;
pub mod compare;
mod comparison;
pub mod dyssect;
pub mod egress;
mod load;
pub mod mlffr;
mod report;
pub mod scr;
pub mod table;

use std::process::ExitCode;

use clap::Args;
use engine::Registry;

use crate::failure::Failure;

#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

commands! {
    /// What to measure.
    pub enum BenchCommand {
        /// Measure a chain over packets in memory: rate, and time of each stage
        Chain(chain::BenchChainArgs),
        /// Measure what it costs that packets leave in order, and how far they do not otherwise
        Egress(egress::BenchEgressArgs),
        /// Find the highest rate at which a chain behind a simulated card loses no more than --loss of its packets, and
        /// latency below it
        Mlffr(mlffr::BenchMlffrArgs),
        /// Compare strategies: that rate on several numbers of cores, with a page of charts
        Compare(compare::BenchCompareArgs),
        /// Measure the flow table alone: insert, look-up, look-up with a line of state, remove
        Table(table::BenchTableArgs),
        /// Measure what the figures of State-Compute Replication (NSDI'25) show: scr beside the other strategies
        Scr(scr::BenchScrArgs),
        /// Measure what the figures of Dyssect (INFOCOM'22) show: what shards cost one core, and what skew leaves of several
        Dyssect(dyssect::BenchDyssectArgs),
        /// Render a saved comparison of strategies again: summary, page, rows for a spreadsheet
        Report(report::BenchReportArgs),
    }
}

pub fn command(args: &BenchArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    args.command.run(registry)
}
