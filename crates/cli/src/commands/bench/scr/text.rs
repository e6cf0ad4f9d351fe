//! The figures for the terminal.

use std::collections::BTreeSet;

use measure::{Clock, Comparison, HistoryCost, Point, Series};

use super::report::{FigureReport, LinkPoint, ScrBench};
use crate::output::{count, heading, item, plural, table, wrapped};

pub fn render(bench: &ScrBench) -> String {
    let mut text = String::new();
    // What holds of all charts is told with the first.
    let mut told = BTreeSet::new();
    bench.figures.iter().for_each(|figure| text += &figure_text(figure, &mut told));
    if !bench.complete {
        text += "\nINTERRUPTED, this is what was measured so far\n";
    }
    text += "\n";
    if bench.dispatch_ns > 0 {
        text += &wrapped(
            &format!("each packet takes {} ns more than here: --dispatch-ns", bench.dispatch_ns),
            "",
            "  ",
        );
    }
    let method = "Mpps on virtual cores, which do not compete for caches and memory; `shared` on real ones, as many as \
                  there are. In brackets: times one core of the same clock. *: not to be relied on, the reason is above.";
    text + &wrapped(method, "", "  ") + &wrapped(&format!("on {}", bench.machine), "", "  ")
}

fn figure_text<'a>(figure: &'a FigureReport, told: &mut BTreeSet<&'a str>) -> String {
    let mut text = format!("\nFigure {}: {}\n", figure.figure, figure.title);
    for chart in &figure.charts {
        text += &heading(&chart.name);
        text += &rates(&chart.comparison);
        if !chart.links.is_empty() {
            let row = |point: &LinkPoint| {
                let bytes = count(point.frame_bytes as u64);
                vec![point.cores.to_string(), bytes, format!("{:.1}", point.link_mpps)]
            };
            let rows: Vec<_> = chart.links.iter().map(row).collect();
            text += "computed: with the history in each packet, a link of 100 Gbit/s lets through\n";
            text += &table(&["cores", "frame bytes", "Mpps"], &rows, 0);
        }
        if !chart.history.is_empty() {
            text += "ns for a packet of a core's own, nothing lost, and for each item of history\n";
            text += &history(&chart.history);
        }
        let new = chart.comparison.findings.iter().filter(|finding| told.insert(finding));
        new.for_each(|finding| text += &item(finding));
    }
    text
}

/// A row for each place of the history, a column for each number of cores.
fn history(costs: &[HistoryCost]) -> String {
    let cores = costs[0].packet_ns.iter().map(|time| plural(time.cores as u64, "core"));
    let header: Vec<String> =
        ["history in".to_owned()].into_iter().chain(cores).chain(["per item".to_owned()]).collect();
    let row = |cost: &HistoryCost| {
        let times = cost.packet_ns.iter().map(|time| &time.ns).chain([&cost.item_ns]);
        let shown = times.map(|ns| format!("{:.1}", ns.median));
        [cost.placement.name().to_owned()].into_iter().chain(shown).collect::<Vec<_>>()
    };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header, &costs.iter().map(row).collect::<Vec<_>>(), 0)
}

/// A row for each number of cores, a column for each strategy.
fn rates(comparison: &Comparison) -> String {
    let points = || comparison.series.iter().flat_map(|series| &series.points);
    let mut cores: Vec<usize> = points().map(|point| point.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    let shown: Vec<&Series> = comparison.series.iter().filter(|series| !series.points.is_empty()).collect();
    let row = |cores: &usize| {
        let cell = |series: &&Series| {
            let Some(point) = point(series, *cores) else { return "-".to_owned() };
            let times =
                one_core(comparison, series, point.clock).map(|one| format!(" ({:.1}x)", point.mpps / one));
            let mark = if point.notes.is_empty() { "" } else { "*" };
            format!("{:.1}{mark}{}", point.mpps, times.unwrap_or_default())
        };
        [cores.to_string()].into_iter().chain(shown.iter().map(cell)).collect::<Vec<_>>()
    };
    let header: Vec<&str> =
        ["cores"].into_iter().chain(shown.iter().map(|series| series.strategy.as_str())).collect();
    table(&header, &cores.iter().map(row).collect::<Vec<_>>(), 0)
}

fn point(series: &Series, cores: usize) -> Option<&Point> {
    series.points.iter().find(|point| point.cores == cores)
}

/// The series' own rate on one core of this clock, or that of `single`: rates of different clocks have no ratio.
fn one_core(comparison: &Comparison, series: &Series, clock: Clock) -> Option<f64> {
    let single = comparison.series.iter().find(|series| series.strategy == "single");
    let one = |series: &Series| {
        let is_one = |point: &&Point| (point.cores, point.clock) == (1, clock) && point.mpps > 0.0;
        series.points.iter().find(is_one).map(|point| point.mpps)
    };
    one(series).or_else(|| one(single?))
}
