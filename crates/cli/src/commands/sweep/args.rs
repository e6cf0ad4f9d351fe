//! The arguments of `paceline sweep`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::{LossShare, MAX_CORES};
use table::MAX_FLOWS;

use crate::args::{StrategyArg, number};

const SWEEP: &str = "\
Each capture, and each mutation of it, is compared under each chain, table size, strategy and number of cores. Numbers
of flows may be `default`, which is what the chain says. rsspp, dyssect, hybrid and auto run once with each value of
--move-every, where `loads` is moves as the loads ask for; scr runs once with each value of --loss, where `none` is without a sequencer
outside.

Outcomes:
  equal             every answer and every flow is the same
  equal-up-to       the same but for what need not be: which flows full tables turn away, who gets nothing from empty pools,
                    allocation, what cores share
  nothing-compared  no packets, or nothing is promised
  refused           the chain cannot run so
  unreadable        the capture cannot be read
  different         a defect: differs where it has to be the same
  panicked          a defect
  timed-out         a defect, or --time-limit is too short

DIR/runs.jsonl has a line for each comparison; with --resume those that it has are not made again. DIR/reproducers has
a small capture for each kind of defect, and beside it the command that shows it. docs/verify.md says more.

With --ray the comparisons are tasks on a Ray cluster, and DIR/runs.parquet has a row for each. Chains and captures have to be
there on its machines by the same names. docs/guides/python.md says what to install.";

#[derive(Args)]
#[command(after_help = SWEEP)]
pub struct SweepArgs {
    /// Captures, and folders with captures: pcap, pcapng, cap and dmp, plain, .gz or .zst
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    /// The chains of functions, TOML
    #[arg(long, value_name = "CHAIN.toml", num_args = 1.., required = true)]
    pub chains: Vec<PathBuf>,
    /// The strategies to compare with a single core
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',',
          default_values_t = [StrategyArg::Rss, StrategyArg::RssPlusPlus, StrategyArg::Scr, StrategyArg::Shared])]
    pub strategies: Vec<StrategyArg>,
    /// Numbers of cores
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [2, 4], value_parser = number(1..=MAX_CORES as u64))]
    pub cores: Vec<usize>,
    /// Flows that each core's table holds
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "4,16,64,default", value_parser = flows)]
    pub flows: Vec<Flows>,
    /// What full tables do, where --flows gives their size
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = TablePolicies::Both)]
    pub table_full: TablePolicies,
    /// Packets from one forced move of rsspp, dyssect, hybrid or auto to the next
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "37,loads", value_parser = move_every)]
    pub move_every: Vec<MoveEvery>,
    /// Share of the packets that get lost between an external sequencer and the cores of scr
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', default_value = "none,0.02", value_parser = lost_share)]
    pub loss: Vec<LossOr>,
    /// Mutations of each capture, made from --seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub mutate: u32,
    /// The most packets of each capture
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub packets: u32,
    /// Simulate the cores: they take turns on one thread, in an order that is the same each time, and need no processors
    #[arg(long)]
    pub simulate: bool,
    /// What mutations, losses, tables' hashes and turns of simulated cores are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Comparisons at one time; with several, each keeps to one processor [default: all processors]
    #[arg(long, value_name = "N", value_parser = number(1..=1024))]
    pub jobs: Option<usize>,
    /// The longest that a comparison may take
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub time_limit: u64,
    /// The longest time for making one difference small
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub reduce_time: u64,
    /// Keep what is done, and small captures of what differs, in this folder, which is made if it is not there
    #[arg(long, value_name = "DIR", default_value = "sweep")]
    pub out: PathBuf,
    /// Go on with the sweep in --out
    #[arg(long)]
    pub resume: bool,
    /// Spread the comparisons over this Ray cluster, HOST:PORT; `local` starts one here that ends with the sweep
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["json", "jobs", "reduce_time"])]
    pub ray: Option<String>,
    /// Write the summary as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Policies of full tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TablePolicies {
    /// Each of the two
    Both,
    /// New flows are refused
    Reject,
    /// The flow nearest to its deadline goes
    EvictOldest,
}

/// A number of flows, or what the chain says.
pub type Flows = Choice<usize>;
/// Packets between forced moves, or moves as the loads ask for.
pub type MoveEvery = Choice<u64>;
/// A share of packets lost, or no external sequencer.
pub type LossOr = Choice<LossShare>;

/// A value, or none.
#[derive(Clone, Copy)]
pub struct Choice<T>(pub Option<T>);

fn flows(text: &str) -> Result<Flows, String> {
    if text == "default" {
        return Ok(Choice(None));
    }
    let flows = text.parse().ok().filter(|flows| (1..=MAX_FLOWS).contains(flows));
    flows.map(|flows| Choice(Some(flows))).ok_or_else(|| format!("must be 1 to {MAX_FLOWS}, or `default`"))
}

fn move_every(text: &str) -> Result<MoveEvery, String> {
    if text == "loads" {
        return Ok(Choice(None));
    }
    let packets = text.parse().ok().filter(|packets| *packets > 0);
    packets.map(|packets| Choice(Some(packets))).ok_or_else(|| "must be at least 1, or `loads`".to_owned())
}

fn lost_share(text: &str) -> Result<LossOr, String> {
    if text == "none" {
        return Ok(Choice(None));
    }
    let share = text.parse().map_err(|error| format!("{error}, or `none`"))?;
    Ok(Choice(Some(share)))
}
