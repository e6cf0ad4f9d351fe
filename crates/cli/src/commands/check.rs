//! `paceline check`: whether chain files are right, which strategies run them, what strangers can fill, and what a reload would keep.

use std::path::PathBuf;
use std::process::ExitCode;

use ::table::WhenFull;
use clap::{Args, ValueEnum};
use engine::strategies::{RSS, SINGLE, Strategy};
use engine::{Chain, Plan, PlanError, Registry, would_keep};

use crate::args::{StrategyArg, number};
use crate::failure::{Failure, USAGE};
use crate::input::read_chain;
use crate::output::{self, count, heading, plural, printable, table, wrapped};

const EXAMPLES: &str = "\
Examples:
  paceline check examples/*.toml
  paceline check /etc/paceline/gateway.toml --strategy scr --cores 4 && systemctl reload paceline@gateway
  paceline check new.toml --against running.toml --strategy scr

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
    /// Say of each function what a reload would keep, if this chain ran and the other one took over, under --strategy [default:
    /// rss, or single where that does not run both]
    #[arg(long, value_name = "OLD.toml")]
    pub against: Option<PathBuf>,
}

pub fn command(args: &CheckArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut is_right = true;
    let before = args.against.as_deref().map(|path| read_chain(path, registry)).transpose()?;
    for path in &args.chains {
        // All files are looked at: one may have more mistakes than another.
        match read_chain(path, registry) {
            Ok(chain) => {
                let (text, runs) = render(&chain, args.strategy.map(|strategy| strategy.0), args.cores);
                output::print(&text)?;
                is_right &= runs;
                if let Some(before) = &before {
                    output::print(&kept(chain.behind(before), before, args)?)?;
                }
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
    text += &filled(chain);
    text += &heading(&format!("Strategies, on {cores} cores"));
    let mut runs = true;
    for StrategyArg(strategy) in StrategyArg::value_variants() {
        if asked.is_some_and(|asked| asked.name() != strategy.name()) {
            continue;
        }
        let how = match Plan::new(chain, *strategy, cores_of(*strategy, cores)) {
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

/// The cores on which a strategy is asked whether it runs a chain: one under `single`.
fn cores_of(strategy: &'static dyn Strategy, asked: usize) -> usize {
    if strategy == SINGLE { 1 } else { asked }
}

/// What makes entries in the tables of a chain: who sends enough of it fills them.
fn filled(chain: &Chain) -> String {
    let told = chain.functions.iter().map(|spec| (&spec.name, spec.function.info().filled_by));
    let told: Vec<_> = told.filter(|(_, by)| !by.is_empty()).collect();
    if told.is_empty() {
        return String::new();
    }
    let line = |(name, by): &(&String, &str)| wrapped(&printable(&format!("{name}: {by}")), "  ", "    ");
    heading("What makes an entry in a table, and so can fill it") + &told.iter().map(line).collect::<String>()
}

/// What a chain keeps of another, from which it takes over.
fn kept(chain: Chain, before: &Chain, args: &CheckArgs) -> Result<String, Failure> {
    let plans = |strategy: &'static dyn Strategy| -> Result<(usize, Plan, Plan), PlanError> {
        let cores = cores_of(strategy, args.cores);
        let first = Plan::new(before, strategy, cores)?;
        Ok((cores, Plan::new(&chain, strategy, cores)?.following(&first), first))
    };
    let (strategy, found) = match args.strategy {
        Some(StrategyArg(strategy)) => (strategy, plans(strategy)),
        None => match plans(RSS) {
            Ok(found) => (RSS, Ok(found)),
            Err(_) => (SINGLE, plans(SINGLE)),
        },
    };
    let (cores, plan, first) = found.map_err(Failure::usage)?;
    let cores = plural(cores as u64, "core");
    let mut text = heading(&format!("A reload from {}, under {} on {cores}", before.name, strategy.name()));
    let kept = would_keep((&chain, &plan), (before, &first));
    let gone = before.functions.iter().filter(|old| kept.iter().all(|(name, _)| *name != old.name));
    let lines = kept.iter().map(|(name, kept)| match kept {
        Ok(()) => (name, "goes on with its flows".to_owned()),
        Err(why) => (name, format!("begins anew, because {why}")),
    });
    for (name, line) in lines.chain(gone.map(|old| (&old.name, "is gone, with its flows".to_owned()))) {
        text += &wrapped(&printable(&format!("{name} {line}")), "  ", "    ");
    }
    Ok(text + "\n")
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
