//! `paceline plan`: what a packet costs on this machine, what that gives on more cores, and which strategy to use.

mod page;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::{MAX_CORES, Progress, Registry};
use measure::{Check, CostQuestion, Forecast, ForecastQuestion};
use strategy::INDIRECTION_ENTRIES;

use crate::args::{ReplayArgs, StrategyArg, indirection_size, number};
use crate::costs;
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::{labels, last_level_cache_bytes};
use crate::output::{Reports, heading, item, json, plural, table, wrapped};
use crate::progress::interruptible;
use tables::{cost_rows, over, rate_table, tenths};

const MODEL: &str = "\
The model is State-Compute Replication's (NSDI'25, App. A): k cores take k / (d + c1 + (k - 1) c2) packets under scr,
where d is receiving and sending a packet, c1 the chain on it, and c2 stepping it on a core that does not have it.
Where packets are sharded, the busiest core is the bound. docs/scr.md says more.";

#[derive(Args)]
#[command(after_help = MODEL)]
pub struct PlanArgs {
    #[command(flatten)]
    replay: ReplayArgs,
    /// Time that receiving and sending a packet takes beside what it takes here, from memory: that of the backend to
    /// plan for
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
    /// Predict up to this many cores, and name the fastest strategy on as many
    #[arg(long = "cores", alias = "max-cores", value_name = "N", default_value_t = 32, value_parser = number(1..=MAX_CORES as u64))]
    pub max_cores: usize,
    /// Entries of the card's indirection table: 128 or 512
    #[arg(long, value_name = "N", default_value_t = INDIRECTION_ENTRIES, value_parser = indirection_size)]
    pub indirection_entries: usize,
    /// Packets of each measurement
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub packets: u32,
    /// How often each is measured; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub rounds: usize,
    /// Show all of it: what bounds each strategy, all numbers of cores, and predictions beside measurements
    #[arg(short, long)]
    pub verbose: bool,
    /// Write the figures and the advice as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with the advice, and the rates by cores that it rests on. One file that needs no other, with the JSON in it
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

pub fn command(args: &PlanArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let documents = [("--json", args.json.as_deref()), ("--report", args.report.as_deref())];
    let reports = Reports::open_documents(&args.replay.inputs(), &documents)?;
    let Some(forecast) = predicted(args, registry, &interruptible(None))? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let json = json(&forecast)?;
    let text = render(&forecast, args.verbose);
    reports.write_documents(&[&|| json.clone(), &|| page::render(&forecast)], &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The prediction as a call, which writes nothing.
pub fn call(args: &PlanArgs, registry: &Registry, progress: &Progress) -> Result<Forecast, Failure> {
    predicted(args, registry, progress)?.ok_or(Failure::Interrupted)
}

/// The prediction; `None` if its end was asked for.
fn predicted(args: &PlanArgs, registry: &Registry, progress: &Progress) -> Result<Option<Forecast>, Failure> {
    let chain = args.replay.chain(registry)?;
    let source = args.replay.source(&progress.stop)?;
    let question = ForecastQuestion {
        costs: CostQuestion {
            cores: costs::REPLAY_CORES.into(),
            unseen_cores: Vec::new(),
            packets: args.packets,
            rounds: args.rounds,
        },
        added_dispatch_ns: args.dispatch_ns as f64,
        max_cores: args.max_cores,
        indirection_entries: args.indirection_entries,
        cache_bytes: last_level_cache_bytes(),
        strategies: StrategyArg::all_steady(),
    };
    match measure::forecast(&chain, &source.trace, &question, labels(source.name), &progress.stop) {
        Ok(forecast) => Ok(Some(forecast)),
        Err(error) => costs::interrupted(error).map(|()| None),
    }
}

fn render(forecast: &Forecast, verbose: bool) -> String {
    let mut text = wrapped(&format!("{}: {}", forecast.chain, forecast.functions.join(", ")), "", "  ");
    text += &wrapped(&over(forecast), "", "  ");
    let advice = &forecast.advice;
    text += "\n";
    text += &advice.sentences.first().map(|sentence| wrapped(sentence, "", "  ")).unwrap_or_default();
    text += &advice.reason.as_ref().map(|why| wrapped(&format!("Why: {why}"), "", "  ")).unwrap_or_default();
    let shown = if verbose { advice.sentences.get(1..).unwrap_or_default() } else { &advice.caveats };
    shown.iter().for_each(|sentence| text += &item(sentence));
    text += &(costs(forecast) + &rates(forecast, verbose));
    text += &if verbose { checks(&forecast.checks) } else { String::new() };
    text += &("\n".to_owned() + &wrapped(&format!("on {}", forecast.machine), "", "  "));
    text + if verbose {
        ""
    } else {
        "-v shows more: what bounds each strategy, more cores, predictions beside measurements\n"
    }
}

fn costs(forecast: &Forecast) -> String {
    let (header, rows) = cost_rows(forecast);
    heading("What a packet costs a core, ns") + &table(&header, &rows, 1)
}

fn rates(forecast: &Forecast, verbose: bool) -> String {
    let most = forecast.points.len();
    let (header, rows) = rate_table(forecast, verbose);
    let text = heading("Predicted rates, Mpps") + &table(&header, &rows, 1);
    let Some(rest) = forecast.auto.as_ref().filter(|_| verbose) else { return text };
    let on = format!("{} on {}", rest.strategy, plural(rest.cores as u64, "core"));
    let rest = format!(
        "auto, up to {most} cores, comes to rest at {on}, {:.1} Mpps, or at what promises 5% less at most: it takes a core \
         that adds half a percent, the advice one that adds a fifth of what one core does",
        rest.mpps
    );
    text + "\n" + &wrapped(&rest, " ", " ")
}

fn checks(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let off = (check.predicted_mpps / check.measured_mpps - 1.0) * 100.0;
        vec![
            check.cores.to_string(),
            tenths(check.predicted_mpps),
            tenths(check.measured_mpps),
            format!("{off:+.1}%"),
        ]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    heading("Prediction against measurement, scr on virtual cores, Mpps")
        + &table(&["cores", "predicted", "measured", "off"], &rows, 0)
}
