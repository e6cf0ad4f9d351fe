//! Bars with names, one above the other: how much of each thing there is.

use super::markup::Element;
use super::numbers::shorten;
use super::svg::{Axis, Margins, Plot, WIDTH, bar, label, with_tip};

/// One thing.
pub struct Bar {
    pub name: String,
    /// How long the bar is, on the axis.
    pub value: f64,
    /// What is written beside it.
    pub text: String,
}

/// Height of a bar with its name above it.
const ROW: f64 = 36.0;

const MARGINS: Margins = Margins { left: 16.0, right: 16.0, top: 24.0, bottom: 40.0 };

/// Characters that fit above a bar.
const CHARS: usize = 58;

/// Bars of class `class` on the axis `x`; `what` says what each is of, `summary` what the chart shows.
pub fn bars(summary: &str, what: &str, x: &Axis, class: &str, bars: &[Bar]) -> Element {
    let height = MARGINS.top + MARGINS.bottom + ROW * bars.len() as f64;
    let y = Axis::with_ticks(what, 0.0, bars.len() as f64, Vec::new());
    let mut plot = Plot::new(summary, height, MARGINS, x, &y);
    let (left, right) = (MARGINS.left, WIDTH - MARGINS.right);
    for (place, one) in bars.iter().enumerate() {
        let top = MARGINS.top + ROW * place as f64;
        let name = shorten(&one.name, CHARS.saturating_sub(one.text.chars().count()));
        plot.draw(label((left, top + 14.0), "start", "bar-name", &name));
        plot.draw(label((right, top + 14.0), "end", "tick", &one.text));
        let (above, below) = (top + 19.0, top + 31.0);
        plot.draw(bar((left, above), (right, below), "track"));
        let filled = bar((left, above), (plot.x.at(one.value), below), class);
        plot.draw(with_tip(filled, &format!("{}: {}", one.name, one.text)));
    }
    plot.finish()
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let one = |name: &str, value| Bar { name: name.to_owned(), value, text: format!("{value} of 100") };
        let all = [one("<none>", 0.0), one("half", 50.0), one(&"long ".repeat(30), 250.0)];
        let drawing = bars("how full", "buffer", &Axis::linear("held, %", 100.0), "busy", &all).to_string();
        let parsed = Document::parse(&drawing).expect("an SVG");
        assert_eq!(parsed.root_element().attribute("aria-label"), Some("how full"));
        let number = |node: roxmltree::Node, name: &str| node.attribute(name).and_then(|at| at.parse().ok());
        let widths: Vec<f64> = parsed
            .descendants()
            .filter(|node| node.attribute("class") == Some("busy"))
            .map(|node| number(node, "width").expect("a width"))
            .collect();
        // 400 wide, 16 free at each side; what is more than the axis shows ends with it.
        assert_eq!(widths, [0.0, 184.0, 368.0]);
        let inside =
            |node: roxmltree::Node| number(node, "y").is_none_or(|y: f64| (0.0..=172.0).contains(&y));
        assert!(parsed.descendants().all(inside) && drawing.contains("viewBox=\"0 0 400 172\""), "{drawing}");
        assert!(drawing.contains("&lt;none&gt;") && drawing.contains('…'));
    }
}
