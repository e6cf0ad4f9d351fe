//! The charts of a comparison.

use measure::{Clock, Comparison, LatencyPoint, Point, Series, TraceSummary};

use super::figures::{single, spread, spread_mpps};
use crate::output::plural;
use crate::page::markup::{Element, element};
use crate::page::numbers::{percent, shorten};
use crate::page::svg::{
    Axis, Margins, Plot, STYLES, WIDTH, bar, canvas, label, line, marker, polyline, style_class, with_tip,
    with_unit,
};

/// Characters of a name that fit beside a chart.
const NAME_CHARS: usize = 10;

/// Room for names at the right.
const MARGINS: Margins = Margins { left: 48.0, right: 82.0, top: 30.0, bottom: 42.0 };

/// The ideal line may make the axis this much longer than the points need; beyond, it leaves at the top.
const IDEAL_ROOM: f64 = 1.3;

/// From core to core, points of several strategies stand beside each other by this much.
const ASIDE: f64 = 3.0;

/// Throughput against cores. `None` where nothing was measured.
pub fn throughput(comparison: &Comparison) -> Option<Element> {
    let points = || comparison.series.iter().flat_map(|series| &series.points);
    let most_cores = points().map(|point| point.cores).max()?;
    let highest = points().map(|point| spread_mpps(point).1.max(point.mpps)).fold(0.0, f64::max);
    let ideal = single(comparison).map(|point| point.mpps / point.cores.max(1) as f64);
    let ideal_end = ideal.map_or(0.0, |ideal| ideal * most_cores as f64);
    let y = Axis::linear("million packets per second", highest.max(ideal_end.min(highest * IDEAL_ROOM)));
    let mut cores: Vec<usize> = points().map(|point| point.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    let ticks = cores.iter().map(|cores| (*cores as f64, cores.to_string())).collect();
    let x = Axis::with_ticks("cores", 0.0, most_cores as f64 * 1.04, ticks);
    let mut plot = Plot::new("Throughput against cores, by strategy", 300.0, MARGINS, &x, &y);
    if let Some(ideal) = ideal.filter(|ideal| *ideal > 0.0) {
        draw_ideal(&mut plot, ideal, most_cores as f64, y.high());
    }
    let shown: Vec<_> =
        comparison.series.iter().enumerate().filter(|(_, series)| !series.points.is_empty()).collect();
    for (place, (style, series)) in shown.iter().enumerate() {
        let aside =
            if shown.len() > STYLES { 0.0 } else { (place as f64 - (shown.len() - 1) as f64 / 2.0) * ASIDE };
        draw_series(&mut plot, *style, series, aside, most_cores);
    }
    Some(plot.finish())
}

/// What `single` would reach if cores added up.
fn draw_ideal(plot: &mut Plot, ideal: f64, most_cores: f64, top_mpps: f64) {
    let end_cores = most_cores.min(top_mpps / ideal);
    let (x, y) = (plot.x.at(end_cores), plot.y.at(ideal * end_cores));
    plot.draw(line((plot.x.at(0.0), plot.y.at(0.0)), (x, y), "ideal"));
    // The line is steep where there are many cores: then there is room at its right.
    let (place, anchor) = if x > WIDTH / 2.0 { (x - 16.0, "end") } else { (x + 8.0, "start") };
    plot.draw(label((place, y + 16.0), anchor, "tick", "ideal"));
}

fn draw_series(plot: &mut Plot, style: usize, series: &Series, aside: f64, most_cores: usize) {
    let place = |plot: &Plot, point: &Point, mpps| (plot.x.at(point.cores as f64) + aside, plot.y.at(mpps));
    let class = style_class(style);
    // Figures of two clocks are not compared, so that no line leads from one to the other.
    for of_clock in series.points.chunk_by(|a, b| a.clock == b.clock) {
        let way: Vec<_> = of_clock.iter().map(|point| place(plot, point, point.mpps)).collect();
        plot.draw(polyline(&way, &format!("series {class}")));
    }
    for point in &series.points {
        let (low, high) = spread_mpps(point);
        let (low, high) = (place(plot, point, low), place(plot, point, high));
        for (from, to) in [(low, high), across(low), across(high)] {
            plot.draw(line(from, to, &format!("error {class}")));
        }
        let tip = format!(
            "{}, {}: {} ({}), {}{}",
            series.strategy,
            plural(point.cores as u64, "core"),
            with_unit(point.mpps, "Mpps"),
            spread(point),
            point.clock.name(),
            point.notes.iter().map(|note| format!("; not to be relied on: {note}")).collect::<String>()
        );
        let shape = marker(place(plot, point, point.mpps), style, point.clock == Clock::Measured);
        plot.draw(with_tip(shape, &tip));
    }
    if let Some(last) = series.points.last() {
        let (end, name) = (place(plot, last, last.mpps), shorten(&series.strategy, NAME_CHARS));
        if last.cores == most_cores {
            plot.name_end(end.1, name, class);
        } else {
            plot.name_within(end, &name, &class);
        }
    }
}

fn across((x, y): (f64, f64)) -> ((f64, f64), (f64, f64)) {
    ((x - 2.5, y), (x + 2.5, y))
}

/// A point whose latency is drawn, with its series.
pub struct LatencyOf<'a> {
    pub style: usize,
    pub series: &'a Series,
    pub point: &'a Point,
}

/// The points whose latencies can be put side by side: on the most cores for which most strategies have them,
/// and `single` on its own.
pub fn latencies<'a>(comparison: &'a Comparison) -> Vec<LatencyOf<'a>> {
    let with_latency = |series: &'_ Series, cores: usize| {
        series.points.iter().any(|point| point.cores == cores && !point.latency.is_empty())
    };
    let parallel = || comparison.series.iter().filter(|series| series.strategy != "single");
    let common = parallel()
        .flat_map(|series| &series.points)
        .filter(|point| !point.latency.is_empty())
        .map(|point| point.cores)
        .max_by_key(|cores| (parallel().filter(|series| with_latency(series, *cores)).count(), *cores));
    let chosen = |(style, series): (usize, &'a Series)| {
        let mut candidates = series.points.iter().filter(|point| !point.latency.is_empty());
        let point = if series.strategy == "single" {
            candidates.max_by_key(|point| point.cores)
        } else {
            candidates.find(|point| Some(point.cores) == common)
        };
        Some(LatencyOf { style, series, point: point? })
    };
    comparison.series.iter().enumerate().filter_map(chosen).collect()
}

/// A percentile of the latency against the load. All percentiles of a comparison share their axis.
pub fn latency(
    of: &[LatencyOf],
    title: &str,
    percentile_us: impl Fn(&LatencyPoint) -> f64,
) -> Option<Element> {
    let all = || of.iter().flat_map(|of| &of.point.latency);
    let ends = all().flat_map(|latency| [latency.p50_us, latency.p99_us]);
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), us| (low.min(us), high.max(us)));
    all().next()?;
    let title = format!("{title}, µs");
    // Near the limit queues fill and latency grows by orders of magnitude.
    let y = Axis::fitting(&title, low, high);
    let top_load = all().map(|latency| latency.load).fold(1.0, f64::max).min(10.0);
    let step = if top_load > 2.0 { 100 } else { 25 };
    let ticks = (0..=1000).step_by(step).map(|load| f64::from(load) / 100.0).filter(|load| *load <= top_load);
    let ticks = ticks.map(|load| (load, format!("{:.0}%", load * 100.0))).collect();
    let x = Axis::with_ticks("load, share of the rate found", 0.0, top_load, ticks);
    let mut plot = Plot::new(&format!("{title}, against load, by strategy"), 280.0, MARGINS, &x, &y);
    for LatencyOf { style, series, point } in of {
        let class = style_class(*style);
        let mut steps: Vec<&LatencyPoint> = point.latency.iter().collect();
        steps.sort_by(|a, b| a.load.total_cmp(&b.load));
        let place = |step: &LatencyPoint| (plot.x.at(step.load), plot.y.at(percentile_us(step)));
        let way: Vec<_> = steps.iter().map(|step| place(step)).collect();
        plot.draw(polyline(&way, &format!("series {class}")));
        for (step, place) in steps.iter().zip(&way) {
            let tip = format!(
                "{}, {} of the rate found: {}",
                series.strategy,
                percent(step.load),
                with_unit(percentile_us(step), "µs")
            );
            plot.draw(with_tip(marker(*place, *style, point.clock == Clock::Measured), &tip));
        }
        if let Some((_, y)) = way.last() {
            plot.name_end(*y, shorten(&series.strategy, NAME_CHARS), class);
        }
    }
    Some(plot.finish())
}

/// What each core of a point did: how busy it was, its share of the packets, and what it lost.
pub fn loads(series: &Series, point: &Point) -> Element {
    const HEIGHT: f64 = 180.0;
    /// Cores whose losses there is room to write down.
    const LOSSES_WRITTEN: usize = 8;
    let ticks = [0.0, 0.5, 1.0].map(|share| (share, format!("{:.0}%", share * 100.0))).to_vec();
    let y = Axis::with_ticks("share of the time, share of the packets", 0.0, 1.0, ticks);
    let many = point.loads.len();
    let step = many.div_ceil(16).next_power_of_two();
    let ticks = (0..many).step_by(step).map(|core| (core as f64 + 0.5, core.to_string())).collect();
    let x = Axis::with_ticks("core", 0.0, many as f64, ticks);
    let margins = Margins { left: 48.0, right: 14.0, top: 48.0, bottom: 40.0 };
    let summary =
        format!("What each core did under {} on {}", series.strategy, plural(point.cores as u64, "core"));
    let mut plot = Plot::new(&summary, HEIGHT, margins, &x, &y);
    let slot = (WIDTH - margins.left - margins.right) / many.max(1) as f64;
    let (busy_width, share_width) = ((slot * 0.42).min(34.0), (slot * 0.26).min(22.0));
    for (core, load) in point.loads.iter().enumerate() {
        let middle = plot.x.at(core as f64 + 0.5);
        let left = middle - (busy_width + share_width) / 2.0;
        let (seam, right, floor) = (left + busy_width, left + busy_width + share_width, plot.y.at(0.0));
        let busy = bar((left, plot.y.at(load.busy)), (seam, floor), "busy");
        let share = bar((seam, plot.y.at(load.share)), (right, floor), "share");
        plot.draw(with_tip(busy, &format!("core {core}: busy {}", percent(load.busy))));
        plot.draw(with_tip(share, &format!("core {core}: {} of the packets", percent(load.share))));
        if load.loss > 0.0 {
            let tip = plot.y.at(load.busy.max(load.share)) - 2.0;
            let triangle = [(middle - 4.0, tip - 7.0), (middle + 4.0, tip - 7.0), (middle, tip)];
            let mark = polyline(&triangle, "lost");
            plot.draw(with_tip(mark, &format!("core {core}: lost {}", percent(load.loss))));
            if many <= LOSSES_WRITTEN {
                plot.draw(label((middle, tip - 10.0), "middle", "loss", &percent(load.loss)));
            }
        }
    }
    plot.finish()
}

/// How skewed the trace is.
pub fn skew(trace: &TraceSummary) -> Element {
    const ROW: f64 = 44.0;
    let rows = [
        ("biggest flow", trace.top1_share),
        ("ten biggest flows", trace.top10_share),
        ("fullest entry of the indirection table", trace.top_entry_share),
    ];
    let (left, right) = (4.0, WIDTH - 62.0);
    let height = ROW * rows.len() as f64 + 44.0;
    let mut drawing =
        canvas(height, "Shares of the packets that the biggest flows and the fullest entry have");
    let floor = ROW * rows.len() as f64 + 4.0;
    let x = |share: f64| left + share.clamp(0.0, 1.0) * (right - left);
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let anchor = if tick == 0.0 { "start" } else { "middle" };
        drawing = drawing.child(line((x(tick), 20.0), (x(tick), floor), "grid"));
        drawing =
            drawing.child(label((x(tick), floor + 16.0), anchor, "tick", &format!("{:.0}%", tick * 100.0)));
    }
    for (row, (name, share)) in rows.into_iter().enumerate() {
        let top = ROW * row as f64 + 20.0;
        let drawn = if share.is_finite() { x(share) } else { left };
        drawing = drawing.child(label((left, top - 5.0), "start", "name", name));
        drawing = drawing.child(bar((left, top), (drawn, top + 18.0), "share"));
        drawing = drawing.child(label((drawn + 5.0, top + 13.5), "start", "name", &percent(share)));
    }
    drawing = drawing.child(line((left, 20.0), (left, floor), "axis"));
    drawing.child(label(((left + right) / 2.0, height - 5.0), "middle", "title", "share of the packets, %"))
}

/// A bar, for the legend.
pub fn bar_swatch(class: &str) -> Element {
    let sample = element("svg").attr("viewBox", "0 0 36 14").attr("aria-hidden", "true").class("swatch");
    sample.child(bar((10.0, 1.0), (26.0, 13.0), class))
}

/// The patterns of the bars, for all charts of a page.
pub fn patterns() -> Element {
    let stripes = line((0.0, 0.0), (0.0, 6.0), "stripe");
    let pattern = element("pattern")
        .attr("id", "stripes")
        .attr("width", 5)
        .attr("height", 5)
        .attr("patternUnits", "userSpaceOnUse")
        .attr("patternTransform", "rotate(45)")
        .child(stripes);
    let hidden =
        element("svg").attr("width", 0).attr("height", 0).attr("aria-hidden", "true").class("patterns");
    hidden.child(element("defs").child(pattern))
}
