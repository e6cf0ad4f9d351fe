//! Charts of a sweep: one axis of the grid is x, some tell lines apart, and the others charts.

use super::metric::Metric;
use super::rows::Row;
use super::settings::Axis;
use crate::page::markup::Element;
use crate::page::numbers::{decimal, shorten};
use crate::page::svg::{self, Margins, Plot, marker, polyline, style_class, with_tip};

/// What is drawn of a grid.
#[derive(Clone, Debug)]
pub struct Look {
    pub x: Axis,
    /// What tells lines apart.
    pub lines: Vec<Axis>,
    pub metrics: Vec<Metric>,
}

/// A chart with its name.
pub struct Chart {
    pub name: String,
    pub drawing: Element,
    pub height: f64,
}

/// Charts with the same lines.
pub struct Charts {
    pub charts: Vec<Chart>,
    /// Names of the lines, in the order of their styles.
    pub lines: Vec<String>,
}

/// A point that stands in no grid, such as one of a formula, with its line.
pub type Extra<'a> = (&'a str, fn(&Row) -> f64);

const HEIGHT: f64 = 220.0;

/// Names stand at the right.
const MARGINS: Margins = Margins { left: 48.0, right: 88.0, top: 28.0, bottom: 40.0 };

const NAME_CHARS: usize = 12;

/// Values so many times as large as others need a logarithmic axis.
const WIDE: f64 = 20.0;

impl Look {
    /// Every axis that varies in `rows` and is not x tells lines apart, as long as there are no more lines than
    /// styles; models first.
    pub fn of(rows: &[&Row], x: Axis, metrics: Vec<Metric>) -> Look {
        let mut lines = Vec::new();
        let mut count = 1;
        let models_first = Axis::SET.into_iter().filter(|axis| *axis == Axis::Model);
        for axis in models_first.chain(Axis::SET.into_iter().filter(|axis| *axis != Axis::Model)) {
            let many = values(rows, axis).len();
            if many > 1 && !x.covers(axis) && count * many <= svg::STYLES {
                lines.push(axis);
                count *= many;
            }
        }
        Look { x, lines, metrics }
    }
}

/// What an axis takes in `rows`, in their order.
pub fn values(rows: &[&Row], axis: Axis) -> Vec<String> {
    distinct(rows.iter().map(|row| axis.value(&row.settings)))
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// Charts of all metrics; for each a chart for what neither x nor lines tell apart.
pub fn draw(rows: &[&Row], look: &Look, extra: Option<Extra>) -> Charts {
    let varies = |axis: &Axis| values(rows, *axis).len() > 1;
    let is_left = |axis: &Axis| !look.x.covers(*axis) && !look.lines.contains(axis) && varies(axis);
    let apart: Vec<Axis> = Axis::SET.into_iter().filter(is_left).collect();
    let chart_of = |row: &Row| named(&apart, row);
    let mut lines = distinct(rows.iter().map(|row| named(&look.lines, row)));
    let from_grid = lines.len();
    lines.extend(extra.map(|(name, _)| name.to_owned()));
    let mut charts = Vec::new();
    for metric in &look.metrics {
        for name in distinct(rows.iter().map(|row| chart_of(row))) {
            let shown: Vec<&Row> = rows.iter().copied().filter(|row| chart_of(row) == name).collect();
            let mut ways: Vec<Vec<(&Row, f64)>> = Vec::new();
            for line in &lines[..from_grid] {
                let of_line = shown.iter().filter(|row| named(&look.lines, row) == *line);
                ways.push(of_line.filter_map(|row| Some((*row, metric.of(row, rows)?))).collect());
            }
            if let Some((_, value)) = extra {
                let first = shown.iter().filter(|row| named(&look.lines, row) == lines[0]);
                ways.push(first.map(|row| (*row, value(row))).collect());
            }
            let drawing = draw_one(look.x, *metric, &name, &lines, &ways);
            charts.push(Chart { name, drawing, height: HEIGHT });
        }
    }
    Charts { charts, lines }
}

/// Values along some axes, in words.
fn named(axes: &[Axis], row: &Row) -> String {
    axes.iter().map(|axis| axis.named_value(&row.settings)).collect::<Vec<_>>().join(", ")
}

fn draw_one(x: Axis, metric: Metric, name: &str, lines: &[String], ways: &[Vec<(&Row, f64)>]) -> Element {
    let all: Vec<&Row> = ways.iter().flatten().map(|(row, _)| *row).collect();
    let ticks = values(&all, x);
    let numbers: Option<Vec<f64>> = ticks.iter().map(|tick| tick.parse().ok()).collect();
    // Names stand at equal distances.
    let places = numbers.unwrap_or_else(|| (0..ticks.len()).map(|place| place as f64).collect());
    let place = |row: &Row| {
        let value = x.value(&row.settings);
        ticks.iter().position(|tick| *tick == value).map_or(0.0, |at| places[at])
    };
    let (low, high) = range(places.iter().copied());
    let aside = if high > low { (high - low) * 0.04 } else { 1.0 };
    let mut marks: Vec<(f64, String)> = places.iter().copied().zip(ticks.iter().cloned()).collect();
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let x_axis = svg::Axis::with_ticks(x.title(), low - aside, high + aside, marks);
    let (least, most) = range(ways.iter().flatten().map(|(_, value)| *value));
    let y_axis = match metric {
        Metric::Load | Metric::OfStateless => svg::Axis::linear(metric.title(), most.max(100.0)),
        _ if metric.is_wide() && least > 0.0 && most > least * WIDE => {
            svg::Axis::log(metric.title(), least, most)
        }
        _ => svg::Axis::linear(metric.title(), most),
    };
    let summary = match name {
        "" => format!("{} by {}", metric.title(), x.title()),
        _ => format!("{name}: {} by {}", metric.title(), x.title()),
    };
    let mut plot = Plot::new(&summary, HEIGHT, MARGINS, &x_axis, &y_axis);
    for (style, (line, way)) in lines.iter().zip(ways).enumerate() {
        let class = style_class(style);
        let mut way = way.clone();
        way.sort_by(|(a, _), (b, _)| place(a).total_cmp(&place(b)));
        let at: Vec<_> = way.iter().map(|(row, value)| (plot.x.at(place(row)), plot.y.at(*value))).collect();
        plot.draw(polyline(&at, &format!("series {class}")));
        for ((row, value), at) in way.iter().zip(&at) {
            let tip = format!("{line}, {}: {}", x.named_value(&row.settings), decimal(*value));
            plot.draw(with_tip(marker(*at, style, true), &tip));
        }
        if let Some((_, y)) = at.last() {
            plot.name_end(*y, shorten(line, NAME_CHARS), class);
        }
    }
    plot.finish()
}

/// The least and the most; 0 and 0 of nothing.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let all = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if all.0 <= all.1 { all } else { (0.0, 0.0) }
}
