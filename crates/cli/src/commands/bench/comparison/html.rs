//! The page of a comparison.

use measure::{Clock, Comparison, Point, SequencerLoad, Series, TraceSummary};

use super::charts::{self, LatencyOf};
use super::figures::{SO_FAR, headline, limit, rate, ratio, single, spread};
use crate::output::{count, plural, plural_of};
use crate::page::markup::{Element, element};
use crate::page::numbers::{decimal, percent};
use crate::page::svg::swatch;
use crate::page::{Row, charts as beside, data, figure, folded, legend, page, paragraph, section, table};

/// A whole page, with the comparison's JSON in it.
pub fn render_html(comparison: &Comparison) -> String {
    let title = headline(comparison);
    let body = element("body")
        .child(charts::patterns())
        .child(element("header").children(title_of(comparison)))
        .child(element("main").children(sections(comparison)))
        .child(data("comparison", comparison));
    page(&title, &comparison.paceline, body)
}

/// A page with the rates of several comparisons, each under its name; not `complete` if there should be more.
pub fn render_gallery(title: &str, comparisons: &[(String, &Comparison)], complete: bool) -> String {
    let paceline = comparisons.first().map_or("", |(_, comparison)| comparison.paceline.as_str());
    let of = |(name, comparison): &(String, &Comparison)| {
        throughput(comparison, name).child(findings(comparison)).children(refused(comparison))
    };
    let machine = comparisons.first().map(|(_, comparison)| {
        paragraph("lead", &format!("{}, on {}", comparison.command, comparison.machine))
    });
    let header =
        element("header").child(element("h1").text(title)).children(machine).children(interrupted(complete));
    let main = element("main").children(comparisons.iter().map(of));
    page(title, paceline, element("body").child(charts::patterns()).child(header).child(main))
}

fn title_of(comparison: &Comparison) -> Vec<Element> {
    let trace = &comparison.trace;
    let mut title = vec![
        element("h1").text(headline(comparison)),
        paragraph("lead", &comparison.functions.join(" → ")),
        paragraph("lead", &format!("over {}: {}", trace.source, size(trace))),
    ];
    title.extend(interrupted(comparison.complete));
    title
}

/// Says so where it ended early.
fn interrupted(complete: bool) -> Option<Element> {
    (!complete).then(|| paragraph("lead", &format!("Interrupted: {SO_FAR}.")))
}

fn size(trace: &TraceSummary) -> String {
    format!(
        "{}, {}, {:.1} bytes a packet",
        plural(trace.packets, "packet"),
        plural(trace.flows, "flow"),
        trace.mean_bytes
    )
}

fn sections(comparison: &Comparison) -> Vec<Element> {
    let mut sections = vec![findings(comparison), throughput(comparison, "Throughput against cores")];
    sections.extend(latency(comparison));
    sections.extend(loads(comparison));
    sections.push(skew(comparison));
    sections.extend(tables(comparison));
    sections.extend(refused(comparison));
    sections.push(method(comparison));
    sections
}

fn findings(comparison: &Comparison) -> Element {
    if comparison.findings.is_empty() {
        return paragraph("note", "No findings were drawn from these figures.");
    }
    let items = comparison.findings.iter().map(|finding| element("li").text(finding));
    element("ul").class("findings").children(items)
}

fn throughput(comparison: &Comparison, title: &str) -> Element {
    let section = section(title);
    let Some(chart) = charts::throughput(comparison) else {
        return section.child(paragraph("note", "Nothing was measured."));
    };
    let mut legend = legend_of(comparison.series.iter().enumerate(), |_| String::new());
    let ideal = "dotted: single times the number of cores, the ideal";
    if single(comparison).is_some_and(|point| point.mpps > 0.0) {
        legend = legend.child(element("li").text(ideal));
    }
    let caption = format!(
        "Highest rate with a loss of at most {}; whiskers from the least to the most that {} found. {MARKERS}",
        limit(comparison),
        plural_of(comparison.searches as u64, "search", "searches")
    );
    let beside = element("figcaption").child(legend).child(paragraph("note", &caption));
    section.child(element("figure").class("beside").child(chart).child(beside))
}

const MARKERS: &str = "Filled markers: measured; hollow markers: virtual.";

/// Names of series with their lines and markers.
fn legend_of<'a>(
    series: impl Iterator<Item = (usize, &'a Series)>,
    more: impl Fn(&Series) -> String,
) -> Element {
    legend(series.map(|(style, series)| {
        let is_measured = series.points.iter().any(|point| point.clock == Clock::Measured);
        (swatch(style, is_measured), format!("{}{}", series.strategy, more(series)))
    }))
}

fn latency(comparison: &Comparison) -> Option<Element> {
    let of = charts::latencies(comparison);
    let median = charts::latency(&of, "median latency", |latency| latency.p50_us)?;
    let p99 = charts::latency(&of, "latency of 99 in 100 packets", |latency| latency.p99_us)?;
    let cores_of = |series: &Series| {
        let of = of.iter().find(|of| std::ptr::eq(of.series, series));
        of.map_or(String::new(), |of| format!(", {}", plural(of.point.cores as u64, "core")))
    };
    let named = of.iter().map(|LatencyOf { style, series, .. }| (*style, *series));
    let caption = format!(
        "From a packet's arrival at the card to its leaving. 100% is the rate that each strategy reached itself, \
         so the same place means more packets for a faster one. {MARKERS}"
    );
    let figure = |chart| element("figure").child(chart);
    let section = section("Latency against load")
        .child(beside([figure(median), figure(p99)]))
        .child(legend_of(named, cores_of));
    Some(section.child(paragraph("note", &caption)))
}

fn loads(comparison: &Comparison) -> Option<Element> {
    let last = |series: &'_ Series| series.points.iter().rposition(|point| !point.loads.is_empty());
    let charts = comparison.series.iter().filter_map(|series| {
        let point = &series.points[last(series)?];
        let title = format!("{}, {}", series.strategy, plural(point.cores as u64, "core"));
        Some(figure(&title, charts::loads(series, point)))
    });
    let charts: Vec<Element> = charts.collect();
    if charts.is_empty() {
        return None;
    }
    let names = [("busy", "time in which the core worked on packets"), ("share", "its share of the packets")];
    let legend = legend(names.map(|(class, name)| (charts::bar_swatch(class), name.to_owned())))
        .child(element("li").text("▼ lost: its queue was full"));
    let note = "Each strategy on its most cores, at the rate found.";
    Some(section("Load of each core").child(legend).child(beside(charts)).child(paragraph("note", note)))
}

fn skew(comparison: &Comparison) -> Element {
    let caption = "The card hashes each flow to an entry of the indirection table, and each entry belongs to one \
                   core: a strategy that shards by entries is as fast as the core with the fullest one lets it be.";
    let figure = element("figure").class("beside").child(charts::skew(&comparison.trace));
    let beside = element("figcaption").child(paragraph("note", caption));
    section("Skew of the trace").child(figure.child(beside))
}

fn tables(comparison: &Comparison) -> Option<Element> {
    let points =
        || comparison.series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
    points().next()?;
    let begins = |series: &Series, point: &Point| {
        series.points.first().is_some_and(|first| std::ptr::eq(first, point))
    };
    let rates = points().map(|(series, point)| Row {
        cells: rate_cells(comparison, series, point),
        begins: begins(series, point),
    });
    let header = [
        "strategy",
        "cores",
        "clock",
        "Mpps",
        "over single",
        "over rss",
        "least to most",
        "each search, Mpps",
        "loss",
        "entries moved",
        "not to be relied on, since",
    ];
    let mut section = section("All figures").child(table(&header, &[7, 10], rates)).child(paragraph(
        "note",
        "Mpps: million packets per second, the median of the searches; * is not to be relied on. Over single: against single on its own core, over rss: against rss on as many cores, both on the same clock or not at all. Loss: share of the packets at that rate. Entries moved: from core to core, in all trials.",
    ));
    let header =
        ["strategy", "cores", "load", "offered Mpps", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "max µs"];
    let rows = points().flat_map(|(series, point)| latency_rows(series, point)).collect();
    section = section.children(folded("Latency of each point", &header, rows));
    let header = ["strategy", "cores", "core", "share of packets", "busy", "loss"];
    let rows = points().flat_map(|(series, point)| load_rows(series, point)).collect();
    section = section.children(folded("Load of each core", &header, rows));
    let header = ["strategy", "cores", "busy", "loss", "ns a packet"];
    let rows = points().filter_map(|(series, point)| sequencer_row(series, point)).collect();
    Some(section.children(folded("The sequencer in front of the cores", &header, rows)))
}

fn rate_cells(comparison: &Comparison, series: &Series, point: &Point) -> Vec<String> {
    let found: Vec<String> = point.found_mpps.iter().map(|found| decimal(*found)).collect();
    vec![
        series.strategy.clone(),
        point.cores.to_string(),
        point.clock.name().to_owned(),
        rate(point),
        ratio(comparison.over_single(point)),
        ratio(comparison.over_rss(point)),
        spread(point),
        found.join(" "),
        percent(point.loss),
        count(point.moves),
        point.notes.join("; "),
    ]
}

fn latency_rows(series: &Series, point: &Point) -> Vec<Row> {
    let cells = |latency: &measure::LatencyPoint| {
        let mut cells = vec![series.strategy.clone(), point.cores.to_string(), percent(latency.load)];
        let us = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us];
        cells.push(decimal(latency.offered_mpps));
        cells.extend(us.map(decimal));
        cells
    };
    let row = |(i, latency)| Row { cells: cells(latency), begins: i == 0 };
    point.latency.iter().enumerate().map(row).collect()
}

fn load_rows(series: &Series, point: &Point) -> Vec<Row> {
    let cells = |core: usize, load: &measure::CoreLoad| {
        let mut cells = vec![series.strategy.clone(), point.cores.to_string(), core.to_string()];
        cells.extend([load.share, load.busy, load.loss].map(percent));
        cells
    };
    let row = |(core, load)| Row { cells: cells(core, load), begins: core == 0 };
    point.loads.iter().enumerate().map(row).collect()
}

fn sequencer_row(series: &Series, point: &Point) -> Option<Row> {
    let SequencerLoad { busy, loss, packet_ns } = point.sequencer?;
    let figures = [percent(busy), percent(loss), decimal(packet_ns)];
    let cells = [series.strategy.clone(), point.cores.to_string()].into_iter().chain(figures).collect();
    Some(Row { cells, begins: false })
}

fn refused(comparison: &Comparison) -> Option<Element> {
    if comparison.refused.is_empty() {
        return None;
    }
    let rows = comparison.refused.iter().map(|refused| Row {
        cells: vec![refused.strategy.clone(), refused.cores.to_string(), refused.reason.clone()],
        begins: false,
    });
    Some(section("What could not run").child(table(&["strategy", "cores", "why"], &[2], rows)))
}

fn method(comparison: &Comparison) -> Element {
    let trace = &comparison.trace;
    let text = |text: &str| element("dd").text(text);
    let code = |text: &str| element("dd").child(element("code").text(text));
    let rows = [
        ("machine", text(&comparison.machine)),
        ("to run it again", code(&comparison.command)),
        ("chain", text(&format!("{}: {}", comparison.chain, comparison.functions.join(", ")))),
        ("trace", text(&format!("{}: {}", trace.source, size(trace)))),
        ("digest of the trace", code(&trace.digest)),
        ("loss limit", text(&format!("{} of the packets", limit(comparison)))),
        ("descriptors", text(&format!("{} for each receive queue", count(comparison.descriptors as u64)))),
        (
            "searches",
            text(&format!("{}, of which each point is the median", count(comparison.searches as u64))),
        ),
        ("measured", text(MEASURED)),
        ("virtual", text(VIRTUAL)),
        ("version", text(&format!("paceline {}", comparison.paceline))),
    ];
    let list = rows
        .into_iter()
        .fold(element("dl"), |list, (name, value)| list.child(element("dt").text(name)).child(value));
    section("How it was measured").child(list)
}

const MEASURED: &str =
    "Threads ran at the same time, each on a processor of its own, against the machine's clock.";
const VIRTUAL: &str = "The cores ran in turn on one processor, each with a clock of its own, so that more cores can be \
                       compared than the machine has; what cores cost each other in caches and memory is not in it.";
