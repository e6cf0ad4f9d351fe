//! What a plan shows, as rows: for text, and for its page.

use measure::{Forecast, ForecastPoint, Spread};

use crate::output::{bytes, percent, plural};

/// Numbers of cores that the table shows, beside the one advised and the most; the first eight without -v.
const SHOWN_CORES: [usize; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 3, 6, 12, 24, 48, 96];

/// What the plan is about.
pub fn over(forecast: &Forecast) -> String {
    let trace = &forecast.trace;
    format!(
        "over {}: {}, {}, {} of the packets in the biggest flow",
        trace.source,
        plural(trace.packets, "packet"),
        plural(trace.flows, "flow"),
        percent(trace.top1_share)
    )
}

/// What a packet costs, a row for each part.
pub fn cost_rows(forecast: &Forecast) -> ([&'static str; 3], Vec<Vec<String>>) {
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
    (["", "median", "least to most"], rows)
}

/// A row for each number of cores.
pub fn rate_table(forecast: &Forecast, verbose: bool) -> (Vec<&str>, Vec<Vec<String>>) {
    let most = forecast.points.len();
    let shown = if verbose { &SHOWN_CORES[..] } else { &SHOWN_CORES[..8] };
    let is_shown = |point: &&ForecastPoint| {
        shown.contains(&point.cores) || [most, forecast.advice.cores].contains(&point.cores)
    };
    let mpps = |rate: Option<f64>| rate.map_or("-".to_owned(), tenths);
    let beyond = forecast.beyond();
    let row = |point: &ForecastPoint| {
        let mark = if point.cores == forecast.advice.cores { " *" } else { "" };
        let mut row = vec![format!("{}{mark}", point.cores)];
        row.extend([point.scr_mpps, point.rss_mpps, point.rsspp_mpps].map(mpps));
        row.extend(beyond.iter().map(|strategy| mpps(forecast.rate(strategy, point.cores))));
        row.push(bytes(point.history_bytes as f64));
        row.push(bytes(point.replica_bytes as f64));
        row
    };
    let rows: Vec<_> = forecast.points.iter().filter(is_shown).map(row).collect();
    let header = ["cores", "scr", "rss", "rsspp"].into_iter().chain(beyond.iter().copied());
    (header.chain(["history", "replicas"]).collect(), rows)
}

/// With one place behind the point.
pub fn tenths(value: f64) -> String {
    format!("{value:.1}")
}
