//! Tables of other sizes than a chain file says, for `verify` and `run`.

use clap::{Args, ValueEnum};
use engine::Chain;
use table::{MAX_FLOWS, WhenFull};

use super::number;
use crate::failure::Failure;

/// Tables other than the chain file says.
#[derive(Args, Default)]
#[command(next_help_heading = "Tables")]
pub struct TableArgs {
    /// Flows that each core's table holds, for every function, instead of what the chain says
    #[arg(long, value_name = "N", value_parser = number(1..=MAX_FLOWS as u64))]
    pub flows: Option<usize>,
    /// What a full table does, for every function, instead of what the chain says
    #[arg(long, value_enum, value_name = "POLICY")]
    pub table_full: Option<TableFullArg>,
    /// What the tables' hashes begin with, to see again what a sweep found [default: drawn]
    #[arg(long, value_name = "N")]
    pub table_seed: Option<u64>,
}

impl TableArgs {
    pub fn is_given(&self) -> bool {
        self.flows.is_some() || self.table_full.is_some() || self.table_seed.is_some()
    }

    /// The chain with such tables. Refused where a function cannot do without flows that live.
    pub fn apply(&self, mut chain: Chain) -> Result<Chain, Failure> {
        for spec in &mut chain.functions {
            spec.flows = self.flows.unwrap_or(spec.flows);
            let refused = spec.function.refuses_eviction();
            if let (Some(TableFullArg::EvictOldest), Some(reason)) = (self.table_full, refused) {
                let name = &spec.name;
                return Err(Failure::usage(format!(
                    "--table-full evict-oldest: `{name}` cannot evict flows that live: {reason}\n\
                     Leave the option out, and say `table_full` for the other functions in the chain file."
                )));
            }
            spec.when_full = self.table_full.map_or(spec.when_full, TableFullArg::when_full);
        }
        chain.table_seed = self.table_seed.unwrap_or(chain.table_seed);
        Ok(chain)
    }
}

/// [`WhenFull`] as clap sees it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFullArg {
    /// New flows are refused
    Reject,
    /// The flow nearest to its deadline goes
    EvictOldest,
}

impl TableFullArg {
    pub fn when_full(self) -> WhenFull {
        match self {
            TableFullArg::Reject => WhenFull::Reject,
            TableFullArg::EvictOldest => WhenFull::EvictOldest,
        }
    }
}
