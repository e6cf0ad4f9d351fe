//! `paceline bench report`: a comparison that was saved as JSON, rendered again.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use engine::Registry;
use measure::{Comparison, Point};

use super::comparison::{exit_code, render_csv, render_html, render_text};
use crate::explain::Code;
use crate::failure::Failure;
use crate::output::Reports;

#[derive(Args)]
pub struct BenchReportArgs {
    /// What `paceline bench compare --json` wrote; `-` is standard input
    #[arg(value_name = "FILE.json")]
    pub comparison: PathBuf,
    /// Write a page with charts and all figures, which needs no other file; `-` is standard output, which
    /// then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write a row for each strategy and number of cores; `-` as with --html
    #[arg(long, value_name = "OUT.csv")]
    pub csv: Option<PathBuf>,
}

/// A comparison has some ten kilobytes; what is much longer is something else.
const BYTES_MAX: u64 = 64 << 20;

/// More cores than any machine has: a chart has a bar for each.
const CORES_MAX: usize = 4096;

/// More than any rate in million packets per second, and a thousand seconds in microseconds.
const FIGURE_MAX: f64 = 1e9;

pub fn command(args: &BenchReportArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let documents = [("--html", args.html.as_deref()), ("--csv", args.csv.as_deref())];
    let reports = Reports::open_documents(&[&args.comparison], &documents)?;
    let comparison = read(&args.comparison)?;
    let text = render_text(&comparison);
    reports.write_documents(&[&|| render_html(&comparison), &|| render_csv(&comparison)], &text)?;
    Ok(exit_code(&comparison))
}

fn read(path: &Path) -> Result<Comparison, Failure> {
    let name = path.display();
    let cannot_read =
        |error: io::Error| Failure::usage(format!("cannot read {name}: {error}")).coded(Code::CannotRead);
    let mut text = Vec::new();
    let input: &mut dyn Read = if path == Path::new("-") {
        &mut io::stdin()
    } else {
        &mut fs::File::open(path).map_err(cannot_read)?
    };
    input.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(cannot_read)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(not_a_comparison(&name, format!("it is longer than {} MiB", BYTES_MAX >> 20)));
    }
    let mut comparison: Comparison =
        serde_json::from_slice(&text).map_err(|error| not_a_comparison(&name, error))?;
    match fault(&comparison) {
        Some(fault) => Err(not_a_comparison(&name, fault)),
        None => {
            // What it says itself may be of an older version, or changed by hand, and contradict its figures.
            measure::draw_conclusions(&mut comparison);
            Ok(comparison)
        }
    }
}

fn not_a_comparison(name: &impl ToString, why: impl ToString) -> Failure {
    Failure::usage(format!(
        "{} is not a saved comparison: {}\nGive a file that `paceline bench compare --json` wrote; \
         docs/bench-compare.schema.json says what is in it.",
        name.to_string(),
        why.to_string()
    ))
    .coded(Code::WrongFile)
}

/// What cannot be, if anything: a rate below 0, a share above 1, no core.
fn fault(comparison: &Comparison) -> Option<String> {
    let trace = &comparison.trace;
    let shares = [trace.top1_share, trace.top10_share, trace.top_entry_share, comparison.loss_limit];
    let top_key = trace.top_key.as_ref().map(|key| key.share);
    if let Some(share) = shares.into_iter().chain(top_key).find(|share| !is_share(*share)) {
        return Some(format!("{share} is not a share from 0 to 1"));
    }
    if !is_figure(trace.mean_bytes) {
        return Some(format!("a mean length of {} bytes", trace.mean_bytes));
    }
    let points = comparison.series.iter().flat_map(|series| {
        series.points.iter().map(|point| (format!("{}, {} cores", series.strategy, point.cores), point))
    });
    let fault_at = |(place, point): (String, &Point)| Some(format!("{place}: {}", fault_of(point)?));
    points.into_iter().find_map(fault_at)
}

fn fault_of(point: &Point) -> Option<String> {
    if !(1..=CORES_MAX).contains(&point.cores) || point.loads.len() > CORES_MAX {
        return Some(format!("cores must be 1 to {CORES_MAX}"));
    }
    let of_loads = point.loads.iter().flat_map(|load| [load.share, load.busy, load.loss]);
    let of_sequencer = point.sequencer.into_iter().flat_map(|sequencer| [sequencer.busy, sequencer.loss]);
    let mut shares = of_loads.chain(of_sequencer).chain([point.loss]);
    if let Some(share) = shares.find(|share| !is_share(*share)) {
        return Some(format!("{share} is not a share from 0 to 1"));
    }
    let of_latency = point
        .latency
        .iter()
        .flat_map(|at| [at.load, at.offered_mpps, at.p50_us, at.p90_us, at.p99_us, at.p999_us, at.max_us]);
    let sequencer_ns = point.sequencer.map(|sequencer| sequencer.packet_ns);
    let rates = point.found_mpps.iter().copied().chain([point.mpps]);
    let figures = rates.chain(of_latency).chain(sequencer_ns);
    let odd = figures.into_iter().find(|figure| !is_figure(*figure))?;
    Some(format!("{odd} is not a rate, a load or a time"))
}

/// A little more than 1 is a rounding, or a core whose last packet ended after the clock.
fn is_share(share: f64) -> bool {
    (0.0..=1.01).contains(&share)
}

fn is_figure(figure: f64) -> bool {
    (0.0..=FIGURE_MAX).contains(&figure)
}
