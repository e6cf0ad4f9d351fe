//! `paceline plan`: what a packet costs on this machine, what that gives on more cores, and which strategy to use.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Registry;
use measure::{
    Check, CostError, CostQuestion, Forecast, ForecastPoint, ForecastQuestion, Labels, Spread, TrialError,
};

use crate::args::PlanArgs;
use crate::bench::compare::{item, wrapped};
use crate::bench::machine::{Machine, last_level_cache_bytes};
use crate::bench::mlffr::command_line;
use crate::bench::source::Source;
use crate::failure::Failure;
use crate::output::{Reports, count, heading, percent, plural, table};
use crate::session::{self, INTERRUPTED};

/// Numbers of cores on which replay is measured.
pub const REPLAY_CORES: [usize; 3] = [2, 4, 7];

/// Numbers of cores that the table shows, beside the one advised and the most.
const SHOWN_CORES: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

pub fn command(args: &PlanArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let inputs: Vec<&Path> =
        [Some(&args.chain), args.source.pcap.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let reports = Reports::open(&inputs, None, args.json.as_deref())?;
    let chain = session::read_chain(&args.chain, registry)?;
    let source = Source::of(&args.source)?;
    let labels = Labels {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        machine: Machine::here().describe(),
        source: source.name,
    };
    let question = ForecastQuestion {
        costs: CostQuestion {
            cores: REPLAY_CORES.into(),
            unseen_cores: Vec::new(),
            packets: args.packets,
            rounds: args.rounds,
        },
        added_dispatch_ns: args.dispatch_ns as f64,
        max_cores: args.max_cores,
        indirection_entries: args.indirection_entries,
        cache_bytes: last_level_cache_bytes(),
    };
    let progress = session::interruptible(None);
    match measure::forecast(&chain, &source.trace, &question, labels, &progress.stop) {
        Ok(forecast) => reports.write(&forecast, &render(&forecast)).map(|()| ExitCode::SUCCESS),
        Err(CostError::Trial(TrialError::Interrupted)) => Ok(ExitCode::from(INTERRUPTED)),
        Err(CostError::Trial(defect)) => Err(Failure::defect(defect)),
        Err(error) => Err(Failure::usage(error)),
    }
}

fn render(forecast: &Forecast) -> String {
    let trace = &forecast.trace;
    let over = format!(
        "over {}: {}, {}, {} of the packets in the biggest flow",
        trace.source,
        plural(trace.packets, "packet"),
        plural(trace.flows, "flow"),
        percent(trace.top1_share)
    );
    let mut text = wrapped(&format!("{}: {}", forecast.chain, forecast.functions.join(", ")), "", "  ");
    text += &wrapped(&over, "", "  ");
    text += &heading("Advice");
    forecast.advice.sentences.iter().for_each(|sentence| text += &item(sentence));
    text += &(costs(forecast) + &rates(forecast) + &checks(&forecast.checks));
    text + "\n" + &wrapped(&format!("on {}", forecast.machine), "", "  ")
}

fn costs(forecast: &Forecast) -> String {
    let measured = &forecast.measured;
    let row = |name: &str, spread: &Spread| {
        vec![
            name.to_owned(),
            tenths(spread.median),
            format!("{} to {}", tenths(spread.lowest), tenths(spread.highest)),
        ]
    };
    let mut rows = vec![row("d: receive, parse, send", &measured.dispatch_ns)];
    if forecast.added_dispatch_ns > 0.0 {
        let added = forecast.added_dispatch_ns;
        rows.push(vec!["   added by --dispatch-ns".to_owned(), tenths(added), String::new()]);
    }
    rows.push(row("c1: the chain", &measured.compute_ns));
    rows.extend(measured.replay_ns.as_ref().map(|replay| row("c2: replay of another core's packet", replay)));
    rows.extend(
        measured.carry_ns.as_ref().map(|carry| row("   once for all replay, on several cores", carry)),
    );
    rows.extend(
        measured.sequencer_ns.as_ref().map(|ns| row("the sequencer, a core in front of several", ns)),
    );
    heading("What a packet costs a core, ns") + &table(&["", "median", "least to most"], &rows, 1)
}

fn rates(forecast: &Forecast) -> String {
    let most = forecast.points.len();
    let is_shown = |point: &&ForecastPoint| {
        SHOWN_CORES.contains(&point.cores) || [most, forecast.advice.cores].contains(&point.cores)
    };
    let mpps = |rate: Option<f64>| rate.map_or("-".to_owned(), tenths);
    let row = |point: &ForecastPoint| {
        let mark = if point.cores == forecast.advice.cores { " *" } else { "" };
        let mut row = vec![format!("{}{mark}", point.cores)];
        row.extend([point.scr_mpps, point.rss_mpps, point.rsspp_mpps].map(mpps));
        row.push(count(point.history_bytes as u64));
        row.push(tenths(point.replica_bytes as f64 / f64::from(1 << 20)));
        row
    };
    let rows: Vec<_> = forecast.points.iter().filter(is_shown).map(row).collect();
    let header = ["cores", "scr", "rss", "rsspp", "history bytes", "replicas, MiB"];
    heading("Predicted rates, Mpps") + &table(&header, &rows, 1)
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

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}
