//! `paceline check`: whether chain files are right, and which strategies run them.

use std::path::PathBuf;
use std::process::ExitCode;

use ::table::WhenFull;
use clap::{Args, ValueEnum};
use engine::strategies::{SINGLE, Strategy};
use engine::{Chain, Plan, Registry};

use crate::args::{StrategyArg, number};
use crate::failure::{Failure, USAGE};
use crate::input::read_chain;
use crate::output::{self, count, heading, printable, table, wrapped};

const EXAMPLES: &str = "\
Examples:
  paceline check examples/*.toml
  paceline check /etc/paceline/gateway.toml --strategy scr --cores 4 && systemctl reload paceline@gateway

Nothing is run. Exit status: 0 if all chains are right and run under --strategy, if one is given; 2 otherwise";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The chains of functions, TOML
    #[arg(value_name = "CHAIN.toml", required = true)]
    pub chains: Vec<PathBuf>,
    /// The strategy that has to run them [default: all are tried, and none has to]
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArg>,
    /// How many cores
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number(1..=engine::MAX_CORES as u64))]
    pub cores: usize,
}

pub fn command(args: &CheckArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut is_right = true;
    for path in &args.chains {
        // All files are looked at: one may have more mistakes than another.
        match read_chain(path, registry) {
            Ok(chain) => {
                let (text, runs) = render(&chain, args.strategy.map(|strategy| strategy.0), args.cores);
                output::print(&text)?;
                is_right &= runs;
            }
            Err(failure) => {
                failure.report();
                is_right = false;
            }
        }
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::from(USAGE) })
}

/// What a chain is and how it runs, and whether it runs as it has to.
fn render(chain: &Chain, asked: Option<&'static dyn Strategy>, cores: usize) -> (String, bool) {
    let names: Vec<&str> = chain.functions.iter().map(|spec| spec.name.as_str()).collect();
    let mut text = wrapped(&format!("{}: {}", chain.name, names.join(", ")), "", "  ");
    let rows: Vec<Vec<String>> = chain
        .functions
        .iter()
        .map(|spec| {
            let info = spec.function.info();
            let has_state = !info.sharding.fields.is_empty();
            let full = match spec.when_full {
                WhenFull::Reject => "refuses new flows",
                WhenFull::EvictOldest => "ends the oldest",
            };
            let cells = match has_state {
                true => [count(spec.flows as u64), info.state_bytes.to_string(), full.to_owned()],
                false => ["-"; 3].map(str::to_owned),
            };
            [vec![spec.name.clone()], cells.to_vec()].concat()
        })
        .collect();
    text += &table(&["function", "flows a core", "bytes a flow", "a full table"], &rows, 1);
    let drawing: Vec<&str> = chain.drawing().collect();
    if chain.seed_is_drawn && !drawing.is_empty() {
        let line = format!("drawn for each run: the seed of {}; `seed` gives one", drawing.join(", "));
        text += &wrapped(&line, "", "  ");
    }
    text += &heading(&format!("Strategies, on {cores} cores"));
    let mut runs = true;
    for StrategyArg(strategy) in StrategyArg::value_variants() {
        if asked.is_some_and(|asked| asked.name() != strategy.name()) {
            continue;
        }
        let on = if strategy.name() == SINGLE.name() { 1 } else { cores };
        let how = match Plan::new(chain, *strategy, on) {
            Ok(plan) => how(&plan, chain),
            Err(error) => {
                runs &= asked.is_none();
                format!("no: {}", error.to_string().replace('\n', ". "))
            }
        };
        text += &wrapped(&printable(&how), &format!("  {:10}", strategy.name()), &" ".repeat(12));
    }
    (text + "\n", runs)
}

/// How packets come to cores, and what cores share.
fn how(plan: &Plan, chain: &Chain) -> String {
    let hashed =
        plan.hash_fields.map(|fields| format!("; packets are spread by {fields}")).unwrap_or_default();
    let shared = plan.shared_names(chain);
    let shared = match shared.is_empty() {
        true => String::new(),
        false => format!("; all cores share the states of {}", shared.join(", ")),
    };
    format!("runs{hashed}{shared}")
}
