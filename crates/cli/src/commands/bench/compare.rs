//! `paceline bench compare`: strategies side by side, measured.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::strategies::Strategy;
use engine::{Progress, Registry};
use measure::{Comparison, Contest, Point};
use strategy::Rebalancing;

use super::comparison::{exit_code, render_csv, render_html, render_text};
use super::load::{LoadArgs, Shares, shares};
use crate::args::{CardArgs, ReplayArgs, StrategyArg, number};
use crate::failure::Failure;
use crate::machine::labels;
use crate::output::{Reports, json};
use crate::progress::interruptible;

#[derive(Args)]
pub struct BenchCompareArgs {
    #[command(flatten)]
    replay: ReplayArgs,
    /// Strategies to compare [default: all but auto]
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',')]
    pub strategies: Vec<StrategyArg>,
    /// Numbers of cores; virtual ones beyond the machine's processors, where the strategy allows
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8", value_parser = number(1..))]
    pub cores: Vec<usize>,
    /// Virtual cores wherever the strategy allows: all figures have one clock
    #[arg(long = "virtual")]
    pub is_virtual: bool,
    /// Searches for each point, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=1000))]
    pub searches: usize,
    /// Measure latency at these shares of the rate found; none for `--latency ''`
    #[arg(long, value_name = "SHARE,...", default_value = "0.5,0.8,0.95", value_parser = shares)]
    pub latency: Shares,
    /// Write a page with charts and all figures, which needs no other file; `-` is standard output, which
    /// then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write all figures as JSON, which `paceline bench report` reads; `-` as with --html
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a row for each strategy and number of cores; `-` as with --html
    #[arg(long, value_name = "OUT.csv")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub card: CardArgs,
}

pub fn command(args: &BenchCompareArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let documents =
        [("--html", args.html.as_deref()), ("--json", args.json.as_deref()), ("--csv", args.csv.as_deref())];
    let reports = Reports::open_documents(&args.replay.inputs(), &documents)?;
    let comparison = compared(args, registry, &interruptible(None), &mut tell)?;
    let json = json(&comparison)?;
    let contents: [&dyn Fn() -> String; 3] =
        [&|| render_html(&comparison), &|| json.clone(), &|| render_csv(&comparison)];
    reports.write_documents(&contents, &render_text(&comparison))?;
    Ok(exit_code(&comparison))
}

/// The comparison as a call, which writes nothing.
pub fn call(
    args: &BenchCompareArgs,
    registry: &Registry,
    progress: &Progress,
) -> Result<Comparison, Failure> {
    compared(args, registry, progress, &mut |_, _| ())
}

fn compared(
    args: &BenchCompareArgs,
    registry: &Registry,
    progress: &Progress,
    tell: &mut dyn FnMut(&'static dyn Strategy, &Point),
) -> Result<Comparison, Failure> {
    let chain = args.replay.chain(registry)?;
    let source = args.replay.source(&progress.stop)?;
    let comparison =
        measure::compare(&chain, &source.trace, &contest(args)?, labels(source.name), &progress.stop, tell)
            .map_err(Failure::usage)?;
    if comparison.series.iter().all(|series| series.points.is_empty()) {
        let reason = comparison.refused.first().map(|refused| {
            format!("{}\n`paceline plan` says which strategies can run the chain.", refused.reason)
        });
        return Err(match comparison.complete {
            true => Failure::usage(reason.unwrap_or_else(|| "nothing to compare".to_owned())),
            false => Failure::Interrupted,
        });
    }
    Ok(comparison)
}

fn contest(args: &BenchCompareArgs) -> Result<Contest, Failure> {
    let asked = args.strategies.iter().map(|strategy| strategy.steady());
    let asked: Vec<&'static dyn Strategy> = asked.collect::<Result<_, _>>()?;
    Ok(Contest {
        strategies: if asked.is_empty() { StrategyArg::all_steady() } else { asked },
        cores: args.cores.clone(),
        prefers_virtual: args.is_virtual,
        indirection_entries: args.card.indirection_entries,
        rebalancing: args.card.rebalancing(Rebalancing::default()),
        descriptors: args.load.descriptors,
        is_shaped: args.load.shaped,
        dispatch_ns: args.load.dispatch_ns,
        history: None,
        question: args.load.question(args.searches, &args.latency),
    })
}

/// A line for each point on the terminal: some take a minute.
fn tell(strategy: &'static dyn Strategy, point: &Point) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let (strategy, clock) = (strategy.name(), point.clock.name());
    let notes: String = point.notes.iter().map(|note| format!("; not to be relied on: {note}")).collect();
    eprintln!("{strategy} on {}: {:.2} Mpps ({clock}){notes}", point.cores, point.mpps);
}
