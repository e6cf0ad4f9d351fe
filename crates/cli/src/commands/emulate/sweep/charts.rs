//! Charts of a sweep: one axis of the grid is x, some tell lines apart, and the others charts.

use super::metric::Metric;
use super::rows::Row;
use super::settings::Axis;
use crate::page::markup::Element;
use crate::page::numbers::decimal;
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
    /// What holds of all of them.
    pub note: Option<&'static str>,
}

/// A point that stands in no grid, such as one of a formula, with its line.
pub type Extra<'a> = (&'a str, fn(&Row) -> f64);

const HEIGHT: f64 = 220.0;

const MARGINS: Margins = Margins { left: 48.0, right: 16.0, top: 28.0, bottom: 40.0 };

/// Room for names at the right, where all are so short.
const NAME_ROOM: f64 = 94.0;
const NAME_CHARS: usize = 10;

impl Look {
    /// Every axis that varies in `rows` and is not x tells lines apart, as long as there are no more lines than
    /// styles; models first.
    pub fn of(rows: &[&Row], x: Axis, metrics: Vec<Metric>) -> Look {
        let mut lines = Vec::new();
        let mut count = 1;
        let models_first = Axis::SET.into_iter().filter(|axis| *axis == Axis::Model);
        for axis in models_first.chain(Axis::SET.into_iter().filter(|axis| *axis != Axis::Model)) {
            let many = values(rows, axis).len();
            if varies(rows, axis) && !x.covers(axis) && count * many <= svg::STYLES {
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

/// Whether an axis takes several values beside those that come with a model, such as its length of stages.
pub fn varies(rows: &[&Row], axis: Axis) -> bool {
    if axis == Axis::Model {
        return values(rows, axis).len() > 1;
    }
    let of_model = |model: String| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.settings.model == model).collect();
        values(&rows, axis).len() > 1
    };
    values(rows, Axis::Model).into_iter().any(of_model)
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

/// Charts of all metrics; for each a chart for what neither x nor lines tell apart. What a metric has nothing to say
/// of is left out.
pub fn draw(rows: &[&Row], look: &Look, extra: Option<Extra>) -> Charts {
    let mut lines = distinct(rows.iter().map(|row| line_of(look, row)));
    let from_grid = lines.len();
    lines.extend(extra.map(|(name, _)| name.to_owned()));
    let mut charts = Vec::new();
    for metric in &look.metrics {
        let points = rows.iter().filter_map(|row| Some((*row, metric.of(row, rows)?)));
        let points: Vec<Point> = points.collect();
        let with_points: Vec<&Row> = points.iter().map(|(row, _)| *row).collect();
        let is_left =
            |axis: &Axis| !look.x.covers(*axis) && !look.lines.contains(axis) && varies(&with_points, *axis);
        let apart: Vec<Axis> = Axis::SET.into_iter().filter(is_left).collect();
        for name in distinct(with_points.iter().map(|row| named(&apart, row))) {
            let shown: Vec<Point> =
                points.iter().copied().filter(|(row, _)| named(&apart, row) == name).collect();
            let of_line = |line: &String| way(look, line, &shown);
            let mut ways: Vec<Vec<Point>> = lines[..from_grid].iter().map(of_line).collect();
            if let Some((_, value)) = extra {
                ways.push(ways[0].iter().map(|(row, _)| (*row, value(row))).collect());
            }
            let drawing = draw_one(look.x, *metric, &name, &lines, &ways);
            charts.push(Chart { name, drawing, height: HEIGHT });
        }
    }
    Charts { charts, lines, note: None }
}

/// A row with what is drawn of it.
type Point<'a> = (&'a Row, f64);

/// The points of a line. Settings that make no difference to its model would give it several at one place.
fn way<'a>(look: &Look, line: &str, shown: &[Point<'a>]) -> Vec<Point<'a>> {
    let mut way: Vec<Point> = Vec::new();
    for point in shown.iter().filter(|(row, _)| line_of(look, row) == line) {
        let x = look.x.value(&point.0.settings);
        if !way.iter().any(|(row, _)| look.x.value(&row.settings) == x) {
            way.push(*point);
        }
    }
    way
}

/// What its line is called: the values of the axes that make a difference to its model.
fn line_of(look: &Look, row: &Row) -> String {
    let axes = look.lines.iter().copied().filter(|axis| axis.is_of(row.settings.model));
    named(&axes.collect::<Vec<_>>(), row)
}

/// Values along some axes, in words.
fn named(axes: &[Axis], row: &Row) -> String {
    axes.iter().map(|axis| axis.named_value(&row.settings)).collect::<Vec<_>>().join(", ")
}

fn draw_one(x: Axis, metric: Metric, name: &str, lines: &[String], ways: &[Vec<Point>]) -> Element {
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
        _ if metric.is_wide() => svg::Axis::fitting(metric.title(), least, most),
        _ => svg::Axis::linear(metric.title(), most),
    };
    let summary = match name {
        "" => format!("{} by {}", metric.title(), x.title()),
        _ => format!("{name}: {} by {}", metric.title(), x.title()),
    };
    let are_short = lines.iter().all(|line| line.chars().count() <= NAME_CHARS);
    let margins = Margins { right: if are_short { NAME_ROOM } else { MARGINS.right }, ..MARGINS };
    let mut plot = Plot::new(&summary, HEIGHT, margins, &x_axis, &y_axis);
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
        if let Some((_, y)) = at.last().filter(|_| are_short) {
            plot.name_end(*y, line.clone(), class);
        }
    }
    plot.finish()
}

/// The least and the most; 0 and 0 of nothing.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let all = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if all.0 <= all.1 { all } else { (0.0, 0.0) }
}
