//! A comparison as rows for a spreadsheet, RFC 4180.

use csv::{Terminator, WriterBuilder};
use measure::{Comparison, LatencyPoint, Point};

use super::figures::{biggest_share, busiest, spread_mpps};

/// A point with the comparison and the strategy that it is of.
type Of<'a> = (&'a Comparison, &'a str, &'a Point);

/// A column: its name, and what it holds.
type Column = (&'static str, fn(Of<'_>) -> String);

/// All columns. They are added at the end, never renamed or removed. Those of latency are
/// of the highest load at which it was taken; `notes` says why the rate is not to be relied on,
/// and `complete` whether the comparison ended by itself.
const COLUMNS: [Column; 25] = [
    ("chain", |(comparison, ..)| comparison.chain.clone()),
    ("trace", |(comparison, ..)| comparison.trace.source.clone()),
    ("trace_digest", |(comparison, ..)| comparison.trace.digest.clone()),
    ("strategy", |(_, strategy, _)| strategy.to_owned()),
    ("cores", |(.., point)| point.cores.to_string()),
    ("clock", |(.., point)| point.clock.name().to_owned()),
    ("rate_mpps", |(.., point)| figure(point.mpps)),
    ("least_mpps", |(.., point)| figure(spread_mpps(point).0)),
    ("most_mpps", |(.., point)| figure(spread_mpps(point).1)),
    ("searches", |(.., point)| point.found_mpps.len().to_string()),
    ("over_single_ratio", |(comparison, _, point)| cell(comparison.over_single(point))),
    ("over_rss_ratio", |(comparison, _, point)| cell(comparison.over_rss(point))),
    ("loss_share", |(.., point)| figure(point.loss)),
    ("entries_moved", |(.., point)| point.moves.to_string()),
    ("busiest_core_share", |(.., point)| cell(busiest(point))),
    ("biggest_core_packet_share", |(.., point)| cell(biggest_share(point))),
    ("latency_load_share", |(.., point)| latency(point, |latency| latency.load)),
    ("latency_offered_mpps", |(.., point)| latency(point, |latency| latency.offered_mpps)),
    ("latency_p50_us", |(.., point)| latency(point, |latency| latency.p50_us)),
    ("latency_p90_us", |(.., point)| latency(point, |latency| latency.p90_us)),
    ("latency_p99_us", |(.., point)| latency(point, |latency| latency.p99_us)),
    ("latency_p999_us", |(.., point)| latency(point, |latency| latency.p999_us)),
    ("latency_max_us", |(.., point)| latency(point, |latency| latency.max_us)),
    ("notes", |(.., point)| point.notes.join("; ")),
    ("complete", |(comparison, ..)| comparison.complete.to_string()),
];

/// A header and one row per point; cells for which there is nothing are empty.
pub fn render_csv(comparison: &Comparison) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(COLUMNS.map(|(name, _)| name)).expect("memory can be written");
    for (strategy, point) in comparison.points() {
        let cells = COLUMNS.map(|(_, cell)| cell((comparison, strategy, point)));
        writer.write_record(cells).expect("memory can be written");
    }
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8(bytes).expect("cells are text")
}

/// With all places, and one at least.
fn figure(figure: f64) -> String {
    format!("{figure:?}")
}

fn cell(found: Option<f64>) -> String {
    found.map_or(String::new(), figure)
}

fn latency(point: &Point, part: fn(&LatencyPoint) -> f64) -> String {
    cell(point.latency.iter().max_by(|a, b| a.load.total_cmp(&b.load)).map(part))
}
