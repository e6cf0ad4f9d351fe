//! A comparison for the terminal.

use measure::{Comparison, Point, Series};

use super::figures::{SO_FAR, limit, rate, ratio, spread};
use crate::output::{count, heading, item, plural, plural_of, printable, table, wrapped};
use crate::page::numbers::{percent, shorten};

/// The longest name in a table: with the widest figures beside it, a line is 100 columns.
const NAME_CHARS: usize = 11;

/// A table of the rates, the findings, what was refused, and where it was measured.
pub fn render_text(comparison: &Comparison) -> String {
    let mut text = title(comparison);
    if !comparison.complete {
        text += &format!("INTERRUPTED, {SO_FAR}\n");
    }
    let rows: Vec<_> = comparison.series.iter().flat_map(|series| rows(comparison, series)).collect();
    if rows.is_empty() {
        text += &heading("Nothing was measured.");
    } else {
        let header =
            ["strategy", "clock", "cores", "Mpps", "over single", "over rss", "least to most", "loss"];
        text += &heading("Throughput");
        text += &table(&header, &rows, 2);
    }
    if !comparison.findings.is_empty() {
        text += &heading("Findings");
        comparison.findings.iter().for_each(|finding| text += &item(finding));
    }
    if !comparison.refused.is_empty() {
        text += &heading("Could not run");
        for refused in &comparison.refused {
            text += &item(&format!(
                "{} on {}: {}",
                refused.strategy,
                plural(refused.cores as u64, "core"),
                refused.reason
            ));
        }
    }
    text + "\n" + &method(comparison)
}

fn title(comparison: &Comparison) -> String {
    let trace = &comparison.trace;
    let what = format!("{}: {}", comparison.chain, comparison.functions.join(", "));
    let over = format!(
        "over {}: {}, {}, {} of the packets in the biggest flow",
        trace.source,
        plural(trace.packets, "packet"),
        plural(trace.flows, "flow"),
        percent(trace.top1_share)
    );
    wrapped(&what, "", "  ") + &wrapped(&over, "", "  ")
}

fn rows(comparison: &Comparison, series: &Series) -> Vec<Vec<String>> {
    let row = |point: &Point| {
        vec![
            shorten(&printable(&series.strategy), NAME_CHARS),
            point.clock.name().to_owned(),
            count(point.cores as u64),
            rate(point),
            ratio(comparison.over_single(point)),
            ratio(comparison.over_rss(point)),
            spread(point),
            percent(point.loss),
        ]
    };
    series.points.iter().map(row).collect()
}

fn method(comparison: &Comparison) -> String {
    let is_marked = comparison.points().any(|(_, point)| !point.notes.is_empty());
    let limit = format!(
        "Mpps: the most with a loss of at most {}, median of {}{}; over single: against one core, on the same clock",
        limit(comparison),
        plural_of(comparison.searches as u64, "search", "searches"),
        if is_marked { "; *: not to be relied on, the reason is above" } else { "" }
    );
    let machine = format!("on {}", comparison.machine);
    wrapped(&limit, "", "  ") + &wrapped(&machine, "", "  ")
}
