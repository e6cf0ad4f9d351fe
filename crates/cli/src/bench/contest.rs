//! `paceline bench compare`: strategies side by side, measured.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use engine::Registry;
use engine::strategies::{ALL, Strategy};
use measure::{Contest, Labels, Point};

use crate::args::BenchCompareArgs;
use crate::bench::compare::{render_csv, render_html, render_text};
use crate::bench::machine::Machine;
use crate::bench::mlffr::{command_line, question};
use crate::bench::source::Source;
use crate::failure::Failure;
use crate::output::Reports;
use crate::session::{self, INTERRUPTED};

pub fn command(args: &BenchCompareArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let inputs: Vec<&Path> =
        [Some(&args.chain), args.source.pcap.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let documents =
        [("--html", args.html.as_deref()), ("--json", args.json.as_deref()), ("--csv", args.csv.as_deref())];
    let reports = Reports::open_documents(&inputs, &documents)?;
    let chain = session::read_chain(&args.chain, registry)?;
    let source = Source::of(&args.source)?;
    let progress = session::interruptible(None);
    let labels = Labels {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        machine: Machine::here().describe(),
        source: source.name,
    };
    let comparison =
        measure::compare(&chain, &source.trace, &contest(args), labels, &progress.stop, &mut tell)
            .map_err(Failure::usage)?;
    let is_interrupted = progress.stop.load(Ordering::Relaxed);
    if comparison.series.iter().all(|series| series.points.is_empty()) {
        let reason = comparison.refused.first().map(|refused| refused.reason.clone());
        return match is_interrupted {
            true => Ok(ExitCode::from(INTERRUPTED)),
            false => Err(Failure::usage(reason.unwrap_or_else(|| "nothing to compare".to_owned()))),
        };
    }
    let mut json = serde_json::to_string_pretty(&comparison).map_err(Failure::usage)?;
    json.push('\n');
    let contents: [&dyn Fn() -> String; 3] =
        [&|| render_html(&comparison), &|| json.clone(), &|| render_csv(&comparison)];
    reports.write_documents(&contents, &render_text(&comparison))?;
    Ok(if is_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn contest(args: &BenchCompareArgs) -> Contest {
    let all = || ALL.to_vec();
    let asked: Vec<&'static dyn Strategy> = args.strategies.iter().map(|strategy| strategy.0).collect();
    Contest {
        strategies: if asked.is_empty() { all() } else { asked },
        cores: args.cores.clone(),
        prefers_virtual: args.is_virtual,
        indirection_entries: args.card.indirection_entries,
        rebalancing: args.card.rebalancing(),
        descriptors: args.load.descriptors,
        is_shaped: args.load.shaped,
        dispatch_ns: args.load.dispatch_ns,
        history: None,
        question: question(&args.load, args.searches, &args.latency.0),
    }
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
