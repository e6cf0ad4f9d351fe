//! The page of a plan: the advice, the rates that it rests on, and what a packet costs.

use measure::{Forecast, ForecastPoint};

use super::tables::{cost_rows, over, rate_table};
use crate::page::markup::{Element, element};
use crate::page::svg::{Axis, Margins, Plot, STYLES, marker, polyline, style_class, swatch, with_tip};
use crate::page::{data, figure, legend, page, paragraph, section, table};

const HEIGHT: f64 = 260.0;
const MARGINS: Margins = Margins { left: 48.0, right: 88.0, top: 28.0, bottom: 40.0 };

/// A whole page, with the plan's JSON in it.
pub fn render(forecast: &Forecast) -> String {
    let title = format!("{}: which strategy, on how many cores", forecast.chain);
    let advice = &forecast.advice;
    let why = advice.reason.iter().map(|why| format!("Why: {why}"));
    let findings = advice.sentences.first().cloned().into_iter().chain(why);
    let header = element("header")
        .child(element("h1").text(&title))
        .child(element("ul").class("findings").children(findings.map(|line| element("li").text(line))))
        .child(paragraph("lead", &over(forecast)));
    let rest = advice.sentences.iter().skip(1).map(|sentence| element("li").text(sentence));
    let (costs_header, costs) = cost_rows(forecast);
    let (rates_header, rates) = rate_table(forecast, true);
    let main = element("main")
        .child(section("Predicted rates").child(chart(forecast)).child(table(&rates_header, &[], rates)))
        .child(section("What a packet costs a core, ns").child(table(&costs_header, &[], costs)))
        .child(section("What bounds each strategy, and how sure this is").child(element("ul").children(rest)))
        .child(section("Machine").child(paragraph("note", &forecast.machine)));
    page(&title, &forecast.paceline, element("body").child(header).child(main).child(data("plan", forecast)))
}

/// A line for each strategy, from one core to the most.
fn chart(forecast: &Forecast) -> Element {
    let rates = |strategy: &str| -> Vec<(f64, f64)> {
        let rate = |point: &ForecastPoint| match strategy {
            "rss" => point.rss_mpps,
            "rsspp" => point.rsspp_mpps,
            "scr" => point.scr_mpps,
            beyond => forecast.rate(beyond, point.cores),
        };
        forecast.points.iter().filter_map(|point| Some((point.cores as f64, rate(point)?))).collect()
    };
    let names = ["rss", "rsspp", "scr"].into_iter().chain(forecast.beyond());
    let lines: Vec<(&str, Vec<(f64, f64)>)> =
        names.map(|name| (name, rates(name))).filter(|(_, line)| !line.is_empty()).take(STYLES).collect();
    let most = lines.iter().flat_map(|(_, line)| line).map(|(_, mpps)| *mpps).fold(0.0, f64::max);
    let x = Axis::linear("cores", forecast.points.last().map_or(1, |point| point.cores) as f64);
    let y = Axis::linear("Mpps, predicted", most);
    let advice = &forecast.advice;
    let summary = format!(
        "Predicted rates of {} strategies by cores. Advised: {} on {}, {:.1} Mpps.",
        lines.len(),
        advice.strategy,
        advice.cores,
        advice.mpps
    );
    let mut plot = Plot::new(&summary, HEIGHT, MARGINS, &x, &y);
    for (style, (name, line)) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            line.iter().map(|(cores, mpps)| (plot.x.at(*cores), plot.y.at(*mpps))).collect();
        let way = polyline(&points, &format!("series {}", style_class(style)));
        plot.draw(with_tip(way, name));
        if *name == advice.strategy {
            let at = (plot.x.at(advice.cores as f64), plot.y.at(advice.mpps));
            plot.draw(marker(at, style, true));
        }
        if let Some((_, mpps)) = line.last() {
            plot.name_end(plot.y.at(*mpps), (*name).to_owned(), style_class(style));
        }
    }
    let names =
        legend(lines.iter().enumerate().map(|(style, (name, _))| (swatch(style, true), (*name).to_owned())));
    let caption = element("figcaption").text(summary);
    figure("Rate by cores", plot.finish()).child(names).child(caption)
}
