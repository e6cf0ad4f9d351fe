//! Charts in SVG: scales, ticks, axes, lines with markers, labels that keep clear of one another. Colours,
//! dashes and patterns are the style sheet's, by class.

use super::markup::{Element, element};
use super::numbers::decimal;

/// Width of every chart in its own units. It suits a phone; wider screens scale it up.
pub const WIDTH: f64 = 400.0;

/// Looks of lines; a comparison with more series begins again.
pub const STYLES: usize = 6;

/// What can be drawn: beyond it coordinates would lose their places.
const DRAWABLE_MAX: f64 = 1e12;

/// Values so many times as large as others need a logarithmic axis.
const WIDE: f64 = 20.0;

/// The least that a logarithmic axis shows.
const LOG_MIN: f64 = 1e-3;

/// Width of a character of a tick or a title: of a digit, which is as wide as most letters or wider.
const CHAR_WIDTH: f64 = 6.8;

/// From a tick's text to its axis.
const TICK_GAP: f64 = 6.0;

/// Room that a label at the end of a line needs, from line to line.
const LABEL_HEIGHT: f64 = 14.0;

/// Where a value is on paper. Values outside the axis are drawn at its end.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    pub fn at(&self, value: f64) -> f64 {
        let value = drawable(value).clamp(self.low, self.high);
        let part = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }
}

fn drawable(value: f64) -> f64 {
    if value.is_finite() { value.clamp(-DRAWABLE_MAX, DRAWABLE_MAX) } else { 0.0 }
}

/// What an axis shows, and where its ticks are.
#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    low: f64,
    high: f64,
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to the round number at or above `high`.
    pub fn linear(title: &str, high: f64) -> Axis {
        let high = if drawable(high) > 1e-9 { drawable(high) } else { 1.0 };
        let step = round_step(high / 5.0);
        let steps = (high / step - 1e-9).ceil().max(1.0) as usize;
        let places = (-step.log10()).ceil().clamp(0.0, 12.0) as usize;
        let tick = |i: usize| (i as f64 * step, grouped(&format!("{:.places$}", i as f64 * step)));
        let ticks = (0..=steps).map(tick).collect();
        Axis { title: title.to_owned(), low: 0.0, high: steps as f64 * step, is_log: false, ticks }
    }

    /// From the round number at or below `low` to that at or above `high`, by ratio.
    pub fn log(title: &str, low: f64, high: f64) -> Axis {
        let low = drawable(low).clamp(LOG_MIN, DRAWABLE_MAX / 10.0);
        let high = drawable(high).max(low * 2.0);
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let of_decade = |decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade));
        let all: Vec<f64> = (first..=last).flat_map(of_decade).collect();
        let begin = all.iter().rposition(|tick| *tick <= low * 1.000_001).unwrap_or(0);
        let end = all.iter().position(|tick| *tick >= high * 0.999_999).unwrap_or(all.len() - 1);
        let shown = &all[begin..=end];
        let is_whole = |tick: f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
        let ticks = shown.iter().filter(|tick| shown.len() <= 8 || is_whole(**tick));
        let ticks = ticks.map(|tick| (*tick, grouped(&tick_text(*tick)))).collect();
        Axis { title: title.to_owned(), low: shown[0], high: shown[shown.len() - 1], is_log: true, ticks }
    }

    /// By ratio if `high` is so many times `low` that one would be lost beside the other, else from 0.
    pub fn fitting(title: &str, low: f64, high: f64) -> Axis {
        match low > 0.0 && high > low * WIDE {
            true => Axis::log(title, low, high),
            false => Axis::linear(title, high),
        }
    }

    /// With ticks at given places, in ascending order.
    pub fn with_ticks(title: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Axis {
        let (low, high) = (drawable(low), drawable(high));
        Axis { title: title.to_owned(), low, high: high.max(low + 1.0), is_log: false, ticks }
    }

    /// The highest value that it shows.
    pub fn high(&self) -> f64 {
        self.high
    }

    fn scale(&self, from: f64, to: f64) -> Scale {
        Scale { low: self.low, high: self.high, from, to, is_log: self.is_log }
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * 0.999_999).unwrap_or(10.0);
    digit * power
}

fn tick_text(tick: f64) -> String {
    let places = (-tick.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{tick:.places$}")
}

/// Whole numbers with commas.
fn grouped(text: &str) -> String {
    text.parse().map_or(text.to_owned(), crate::output::count)
}

/// Margins of a plot within its chart.
#[derive(Clone, Copy, Debug)]
pub struct Margins {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// A chart with two axes, to be drawn into.
pub struct Plot {
    pub x: Scale,
    pub y: Scale,
    drawing: Element,
    labels: Vec<Label>,
    /// Where names stand within the chart.
    named: Vec<(f64, f64)>,
    top: f64,
    bottom: f64,
}

/// A name at the right end of a line.
struct Label {
    y: f64,
    text: String,
    class: String,
}

impl Plot {
    /// `summary` says in words what the chart shows, for readers who do not see it. At the left there is more room than
    /// `margins` have where the ticks of the axis need it.
    pub fn new(summary: &str, height: f64, margins: Margins, x: &Axis, y: &Axis) -> Plot {
        let widest = y.ticks.iter().map(|(_, text)| text_width(text)).fold(0.0, f64::max);
        let (left, right) = (margins.left.max(widest + TICK_GAP), WIDTH - margins.right);
        let (top, bottom) = (margins.top, height - margins.bottom);
        let x_scale = x.scale(left, right);
        let y_scale = y.scale(bottom, top);
        let mut drawing = canvas(height, summary);
        for (value, text) in &y.ticks {
            let at = y_scale.at(*value);
            drawing = drawing.child(line((left, at), (right, at), "grid"));
            drawing = drawing.child(label((left - TICK_GAP, at + 4.0), "end", "tick", text));
        }
        let mut last = f64::NEG_INFINITY;
        for (value, text) in &x.ticks {
            let at = x_scale.at(*value);
            drawing = drawing.child(line((at, bottom), (at, bottom + 4.0), "axis"));
            let half = text_width(text) / 2.0;
            let middle = at.min(WIDTH - half).max(half);
            if middle - half > last + 4.0 {
                drawing = drawing.child(label((middle, bottom + 17.0), "middle", "tick", text));
                last = middle + half;
            }
        }
        drawing = drawing.child(line((left, bottom), (right, bottom), "axis"));
        let begin = (left - TICK_GAP).min(WIDTH - text_width(&y.title)).max(0.0);
        drawing = drawing.child(label((begin, 12.0), "start", "title", &y.title));
        drawing = drawing.child(label(((left + right) / 2.0, height - 5.0), "middle", "title", &x.title));
        Plot { x: x_scale, y: y_scale, drawing, labels: Vec::new(), named: Vec::new(), top, bottom }
    }

    pub fn draw(&mut self, what: Element) {
        let drawing = std::mem::replace(&mut self.drawing, element("g"));
        self.drawing = drawing.child(what);
    }

    /// Names the line that ends at this height.
    pub fn name_end(&mut self, y: f64, text: String, class: String) {
        self.labels.push(Label { y, text, class });
    }

    /// Names a line that ends within the chart: below its end, or above, or, if others are in the way, only in
    /// the legend.
    pub fn name_within(&mut self, (x, y): (f64, f64), text: &str, class: &str) {
        const WIDTH_OF_NAME: f64 = 60.0;
        let is_free = |y: &f64| {
            let is_near = |(other_x, other_y): &(f64, f64)| {
                (x - other_x).abs() < WIDTH_OF_NAME && (y - other_y).abs() < LABEL_HEIGHT
            };
            (self.top..self.bottom - 3.0).contains(y) && !self.named.iter().any(is_near)
        };
        if let Some(y) = [y + 18.0, y - 10.0].into_iter().find(is_free) {
            self.named.push((x, y));
            self.draw(label((x, y), "middle", &format!("name {class}"), text));
        }
    }

    pub fn finish(mut self) -> Element {
        let right = self.x.to + 12.0;
        let heights = apart(self.labels.iter().map(|label| label.y).collect(), self.top, self.bottom);
        for (name, y) in std::mem::take(&mut self.labels).into_iter().zip(heights) {
            self.draw(line((self.x.to + 2.0, name.y), (right - 2.0, y), "leader"));
            self.draw(label((right, y + 4.0), "start", &format!("name {}", name.class), &name.text));
        }
        self.drawing
    }
}

/// How wide a tick or a title is at most.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHAR_WIDTH
}

/// Heights near the given ones, far enough from one another to be read, as far as there is room.
fn apart(heights: Vec<f64>, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    let gap = LABEL_HEIGHT.min((bottom - top) / heights.len().max(2) as f64);
    let mut placed = heights;
    let mut least = top;
    for i in &order {
        placed[*i] = placed[*i].max(least);
        least = placed[*i] + gap;
    }
    let mut most = bottom;
    for i in order.iter().rev() {
        placed[*i] = placed[*i].min(most);
        most = placed[*i] - gap;
    }
    placed
}

/// An empty drawing of the usual width.
pub fn canvas(height: f64, summary: &str) -> Element {
    element("svg")
        .attr("viewBox", format!("0 0 {WIDTH} {height}"))
        .attr("role", "img")
        .attr("aria-label", summary)
}

pub fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Element {
    let line = element("line").attr("x1", at(from.0)).attr("y1", at(from.1));
    line.attr("x2", at(to.0)).attr("y2", at(to.1)).class(class)
}

/// `anchor` is `start`, `middle` or `end`: which part of the text is at the place.
pub fn label(place: (f64, f64), anchor: &str, class: &str, text: &str) -> Element {
    let label = element("text").attr("x", at(place.0)).attr("y", at(place.1));
    label.attr("text-anchor", anchor).class(class).text(text)
}

pub fn polyline(points: &[(f64, f64)], class: &str) -> Element {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", at(*x), at(*y))).collect();
    element("polyline").attr("points", points.join(" ")).class(class)
}

/// A bar from one corner to the opposite one.
pub fn bar(a: (f64, f64), b: (f64, f64), class: &str) -> Element {
    let bar = element("rect").attr("x", at(a.0.min(b.0))).attr("y", at(a.1.min(b.1)));
    bar.attr("width", at((a.0 - b.0).abs())).attr("height", at((a.1 - b.1).abs())).class(class)
}

/// The marker of a style: each has a shape of its own, filled or hollow.
pub fn marker((x, y): (f64, f64), style: usize, is_filled: bool) -> Element {
    let corners: &[(f64, f64)] = match style % STYLES {
        0 => &[
            (1.0, 0.4),
            (0.4, 1.0),
            (-0.4, 1.0),
            (-1.0, 0.4),
            (-1.0, -0.4),
            (-0.4, -1.0),
            (0.4, -1.0),
            (1.0, -0.4),
        ],
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
        3 => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        4 => &[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
        _ => &[(-1.2, 0.0), (-0.5, -1.1), (0.5, -1.1), (1.2, 0.0), (0.5, 1.1), (-0.5, 1.1)],
    };
    const RADIUS: f64 = 4.2;
    let points: Vec<String> =
        corners.iter().map(|(dx, dy)| format!("{},{}", at(x + dx * RADIUS), at(y + dy * RADIUS))).collect();
    let fill = if is_filled { "filled" } else { "hollow" };
    element("polygon").attr("points", points.join(" ")).class(format!("marker {} {fill}", style_class(style)))
}

/// The class that gives a series its colour and dashes.
pub fn style_class(style: usize) -> String {
    format!("s{}", style % STYLES)
}

/// What a pointer that rests on an element is told.
pub fn with_tip(shape: Element, tip: &str) -> Element {
    shape.child(element("title").text(tip))
}

/// A coordinate, to a tenth.
fn at(coordinate: f64) -> String {
    let text = format!("{:.1}", drawable(coordinate));
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// `1.5 Mpps` and the like, for tips.
pub fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", decimal(value))
}

/// A piece of the line of a series, for the legend.
pub fn swatch(style: usize, is_filled: bool) -> Element {
    let sample = element("svg").attr("viewBox", "0 0 36 14").attr("aria-hidden", "true").class("swatch");
    sample
        .child(polyline(&[(1.0, 7.0), (35.0, 7.0)], &format!("series {}", style_class(style))))
        .child(marker((18.0, 7.0), style, is_filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::linear("", 37.0)), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(&Axis::linear("", 0.9)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Axis::linear("", 9_000.0)), ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]);
        assert_eq!(labels(&Axis::linear("", 0.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Axis::log("", 3.0, 45.0)), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(&Axis::log("", 0.3, 4_500.0)), ["1", "10", "100", "1,000"]);
        assert_eq!(labels(&Axis::log("", 1.0, 1.0)), ["1", "2"]);
    }

    #[test]
    fn axes_fit_their_values() {
        assert_eq!(labels(&Axis::fitting("", 36.0, 100.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::fitting("", 36.0, 806.0)), ["20", "50", "100", "200", "500", "1,000"]);
        assert_eq!(labels(&Axis::fitting("", 0.0, 100.0)), ["0", "20", "40", "60", "80", "100"]);
    }

    #[test]
    fn scales_map_and_hold() {
        let scale = Axis::linear("", 10.0).scale(100.0, 0.0);
        let places = [0.0, 5.0, 10.0, 99.0, f64::NAN, -1.0].map(|value| scale.at(value));
        assert_eq!(places, [100.0, 50.0, 0.0, 0.0, 100.0, 100.0]);
        let log = Axis::log("", 1.0, 100.0).scale(0.0, 2.0);
        assert!((log.at(10.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn any_value_gives_an_axis() {
        for value in [0.0, -3.0, 5e-324, 1e-12, 1e12, 1e308, f64::INFINITY, f64::NAN] {
            for other in [0.0, 5e-324, 1e308, 7.0] {
                for axis in
                    [Axis::linear("", value), Axis::log("", value, other), Axis::log("", other, value)]
                {
                    assert!(axis.high > axis.low && (2..20).contains(&axis.ticks.len()), "{value} {axis:?}");
                    assert!(axis.scale(0.0, 1.0).at(value).is_finite());
                }
            }
        }
    }

    #[test]
    fn labels_keep_apart_and_inside() {
        let placed = apart(vec![50.0, 51.0, 299.0, 52.0, 298.0], 20.0, 300.0);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_HEIGHT - 1e-9), "{placed:?}");
        assert!(sorted[0] >= 20.0 && sorted[4] <= 300.0);
        assert!(
            placed[0] < placed[1] && placed[1] < placed[3] && placed[4] < placed[2],
            "their order is kept"
        );
        assert_eq!(apart(vec![10.0; 40], 0.0, 100.0).len(), 40);
    }
}
