//! A comparison as rows for a spreadsheet, RFC 4180.

use csv::{Terminator, WriterBuilder};
use measure::{Comparison, LatencyPoint, Point, Series};
use serde::Serialize;

use super::figures::{biggest_share, busiest, spread_mpps};

/// One point. Columns are added at the end, never renamed or removed.
#[derive(Serialize)]
struct Row<'a> {
    chain: &'a str,
    trace: &'a str,
    trace_digest: &'a str,
    strategy: &'a str,
    cores: usize,
    clock: &'a str,
    rate_mpps: f64,
    least_mpps: f64,
    most_mpps: f64,
    searches: usize,
    over_single_ratio: Option<f64>,
    over_rss_ratio: Option<f64>,
    loss_share: f64,
    entries_moved: u64,
    busiest_core_share: Option<f64>,
    biggest_core_packet_share: Option<f64>,
    /// The highest load at which latency was taken, and what it was there.
    latency_load_share: Option<f64>,
    latency_offered_mpps: Option<f64>,
    latency_p50_us: Option<f64>,
    latency_p90_us: Option<f64>,
    latency_p99_us: Option<f64>,
    latency_p999_us: Option<f64>,
    latency_max_us: Option<f64>,
    /// Why the rate is not to be relied on; empty if it is.
    notes: String,
}

/// A header and one row per point; cells for which there is nothing are empty.
pub fn render_csv(comparison: &Comparison) -> String {
    let mut writer =
        WriterBuilder::new().terminator(Terminator::CRLF).has_headers(false).from_writer(Vec::new());
    writer.write_record(HEADER).expect("memory can be written");
    for series in &comparison.series {
        for point in &series.points {
            writer.serialize(row(comparison, series, point)).expect("memory can be written");
        }
    }
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8(bytes).expect("cells are text")
}

/// The columns, also for a comparison without points. A test holds them to [`Row`].
const HEADER: [&str; 24] = [
    "chain",
    "trace",
    "trace_digest",
    "strategy",
    "cores",
    "clock",
    "rate_mpps",
    "least_mpps",
    "most_mpps",
    "searches",
    "over_single_ratio",
    "over_rss_ratio",
    "loss_share",
    "entries_moved",
    "busiest_core_share",
    "biggest_core_packet_share",
    "latency_load_share",
    "latency_offered_mpps",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
    "notes",
];

/// The header as the names of [`Row`] give it.
#[cfg(test)]
pub fn header_of_rows(comparison: &Comparison) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let (series, point) = comparison
        .series
        .iter()
        .find_map(|series| Some((series, series.points.first()?)))
        .expect("a comparison with a point");
    writer.serialize(row(comparison, series, point)).expect("memory can be written");
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8(bytes).expect("text").lines().next().expect("a header").to_owned()
}

fn row<'a>(comparison: &'a Comparison, series: &'a Series, point: &'a Point) -> Row<'a> {
    let (least_mpps, most_mpps) = spread_mpps(point);
    let highest = point.latency.iter().max_by(|a, b| a.load.total_cmp(&b.load));
    let latency = |part: fn(&LatencyPoint) -> f64| highest.map(part);
    Row {
        chain: &comparison.chain,
        trace: &comparison.trace.source,
        trace_digest: &comparison.trace.digest,
        strategy: &series.strategy,
        cores: point.cores,
        clock: point.clock.name(),
        rate_mpps: point.mpps,
        least_mpps,
        most_mpps,
        searches: point.found_mpps.len(),
        over_single_ratio: comparison.over_single(point),
        over_rss_ratio: comparison.over_rss(point),
        loss_share: point.loss,
        entries_moved: point.moves,
        busiest_core_share: busiest(point),
        biggest_core_packet_share: biggest_share(point),
        latency_load_share: latency(|latency| latency.load),
        latency_offered_mpps: latency(|latency| latency.offered_mpps),
        latency_p50_us: latency(|latency| latency.p50_us),
        latency_p90_us: latency(|latency| latency.p90_us),
        latency_p99_us: latency(|latency| latency.p99_us),
        latency_p999_us: latency(|latency| latency.p999_us),
        latency_max_us: latency(|latency| latency.max_us),
        notes: point.notes.join("; "),
    }
}
