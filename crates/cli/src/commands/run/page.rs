//! The page of a run: what it found, then time lines of what its cores and its strategy did.

use engine::report::{Detail, RunReport, Section, TimePeriod, TimelineReport};

use crate::output::count;
use crate::page::markup::{Element, element};
use crate::page::svg::{Axis, Margins, Plot, polyline, style_class, swatch, with_tip};
use crate::page::{Row, charts, data, figure, folded, legend, page, paragraph, section, table};

const HEIGHT: f64 = 220.0;
const MARGINS: Margins = Margins { left: 48.0, right: 78.0, top: 28.0, bottom: 40.0 };

/// Lines of one chart, with a legend; others would not be told apart.
const LINES: usize = 6;

/// A whole page, with the run's JSON in it.
pub fn render(report: &RunReport) -> String {
    let title = format!("{}: a run under {}", report.chain, report.strategy);
    let lead = report.lead(None, Detail::Summary);
    let findings = lead.lines().map(|line| element("li").text(line));
    let header = element("header")
        .child(element("h1").text(&title))
        .child(element("ul").class("findings").children(findings));
    let main = element("main").children(report.sections(Detail::Full).iter().map(part));
    let timeline = report.timeline.as_ref().filter(|timeline| !timeline.periods.is_empty());
    let main = match timeline {
        Some(timeline) => main.children(sections(timeline)),
        None => {
            main.child(paragraph("note", "The run was over before anybody looked: there are no time lines."))
        }
    };
    let about = report.about();
    let main =
        main.child(section("About the run").children(about.lines().map(|line| paragraph("note", line))));
    page(&title, &report.paceline, element("body").child(header).child(main).child(data("run", report)))
}

/// A part of the report: its table, and what stands below.
fn part(part: &Section) -> Element {
    let header: Vec<&str> = part.header.iter().map(String::as_str).collect();
    let words: Vec<usize> = (1..header.len()).filter(|column| part.has_words(*column)).collect();
    let table = (!header.is_empty()).then(|| table(&header, &words, part.rows.iter().cloned()));
    let shown = section(&part.title).children(table);
    shown.children(part.below.lines().map(|line| paragraph("note", line.trim_start())))
}

fn sections(timeline: &TimelineReport) -> Vec<Element> {
    let periods = &timeline.periods;
    let drawn = [in_use(periods), busy(periods), rates(periods)]
        .into_iter()
        .chain(waits(periods))
        .chain(changes(periods));
    let note = format!(
        "A period is {:.2} s. Busy is by the clock on the wall: where the system ran something else meanwhile, that is in it.",
        timeline.period_seconds
    );
    let mut sections = vec![section("Over time").child(charts(drawn)).child(paragraph("note", &note))];
    sections.extend(strategies(periods));
    let row = |period: &TimePeriod| Row {
        cells: vec![
            format!("{:.2}", period.until_seconds),
            period.strategy.clone(),
            period.cores_in_use.to_string(),
            count(period.cores.iter().map(|core| core.packets).sum()),
            period.moves.to_string(),
            period.promotions.to_string(),
        ],
        begins: false,
    };
    let header = ["until, s", "strategy", "cores in use", "packets", "moves", "promotions"];
    let all = folded("All periods", &header, periods.iter().map(row).collect());
    sections.extend(all.map(|all| section("Figures").child(all)));
    sections
}

/// A line: its name, and a height for each period; none where there is nothing.
type Line = (String, Vec<Option<f64>>);

/// Lines over time.
fn chart(title: &str, y_title: &str, summary: &str, periods: &[TimePeriod], lines: &[Line]) -> Element {
    let x = Axis::linear("seconds", periods.last().map_or(1.0, |last| last.until_seconds));
    let most = lines.iter().flat_map(|(_, line)| line).flatten().copied().fold(0.0, f64::max);
    let y = Axis::linear(y_title, most);
    let mut plot = Plot::new(summary, HEIGHT, MARGINS, &x, &y);
    for (style, (name, line)) in lines.iter().enumerate() {
        // Level over each period, and no line where there is nothing.
        for run in level(periods, line) {
            let points: Vec<_> =
                run.iter().map(|(seconds, height)| (plot.x.at(*seconds), plot.y.at(*height))).collect();
            let way = polyline(&points, &format!("series {}", style_class(style)));
            plot.draw(with_tip(way, name));
        }
        let last = line.iter().rev().flatten().next().filter(|_| lines.len() <= LINES);
        if let Some(last) = last {
            plot.name_end(plot.y.at(*last), name.clone(), style_class(style));
        }
    }
    let shown = lines.iter().take(LINES).enumerate();
    let names = legend(shown.map(|(style, (name, _))| (swatch(style, true), name.clone())));
    let caption = element("figcaption").text(summary);
    figure(title, plot.finish()).child(names).child(caption)
}

/// The corners of a line that is level over each period, in pieces without a gap.
fn level(periods: &[TimePeriod], line: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let mut pieces = vec![Vec::new()];
    for (period, height) in periods.iter().zip(line) {
        match height {
            Some(height) => {
                let begin = period.until_seconds - period.seconds;
                let last = pieces.len() - 1;
                pieces[last].extend([(begin, *height), (period.until_seconds, *height)]);
            }
            None => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn in_use(periods: &[TimePeriod]) -> Element {
    let line = periods.iter().map(|period| Some(period.cores_in_use as f64)).collect();
    let most = periods.iter().map(|period| period.cores_in_use).max().unwrap_or(0);
    let least = periods.iter().map(|period| period.cores_in_use).min().unwrap_or(0);
    let summary = format!("Cores that got packets: {least} to {most}");
    chart("Cores in use", "cores", &summary, periods, &[("in use".to_owned(), line)])
}

/// One line for each core.
fn by_core(periods: &[TimePeriod], of: impl Fn(&TimePeriod, usize) -> f64) -> Vec<Line> {
    let cores = periods.first().map_or(0, |period| period.cores.len());
    let line = |core: usize| periods.iter().map(|period| Some(of(period, core))).collect();
    (0..cores).map(|core| (format!("core {core}"), line(core))).collect()
}

fn busy(periods: &[TimePeriod]) -> Element {
    let share = |period: &TimePeriod, core: usize| {
        (100.0 * period.cores[core].busy_seconds / period.seconds).min(100.0)
    };
    let summary = "The share of its time that each core spent on packets";
    chart("Load of each core", "busy, %", summary, periods, &by_core(periods, share))
}

fn rates(periods: &[TimePeriod]) -> Element {
    let rate = |period: &TimePeriod, core: usize| period.cores[core].packets as f64 / period.seconds;
    chart(
        "Packets of each core",
        "packets per second",
        "What each core received",
        periods,
        &by_core(periods, rate),
    )
}

/// How long packets wait by the model, and as measured, against the objective, where there is one.
fn waits(periods: &[TimePeriod]) -> Option<Element> {
    periods.iter().any(|period| period.slo_p99_us.is_some()).then(|| {
        let of = |name: &str, wait: fn(&TimePeriod) -> Option<f64>| (name.to_owned(), periods.iter().map(wait).collect());
        let mut lines: Vec<Line> =
            vec![of("by the model", |period| period.predicted_p99_us), of("objective", |period| period.slo_p99_us)];
        // Over a capture nothing is.
        if periods.iter().any(|period| period.measured_p99_us.is_some()) {
            lines.push(of("measured", |period| period.measured_p99_us));
        }
        let summary = "How long 99 in 100 packets wait on the busiest core by the model that decides, how long they may, and on interfaces how long all waited, as measured";
        chart("Wait against the objective", "microseconds", summary, periods, &lines)
    })
}

/// What went from core to core, where something did.
fn changes(periods: &[TimePeriod]) -> Option<Element> {
    let line = |name: &str, of: fn(&TimePeriod) -> u64| -> Option<Line> {
        let all: Vec<u64> = periods.iter().map(of).collect();
        let some = all.iter().any(|number| *number > 0);
        some.then(|| (name.to_owned(), all.into_iter().map(|number| Some(number as f64)).collect()))
    };
    let lines = [
        line("moves", |period| period.moves),
        line("promotions", |period| period.promotions),
        line("changes", |period| period.changes),
    ];
    let lines: Vec<Line> = lines.into_iter().flatten().collect();
    let summary = "What changed in each period: moves of entries or shards, promotions with demotions, changes of strategy or cores";
    (!lines.is_empty()).then(|| chart("Changes", "in a period", summary, periods, &lines))
}

/// From when on which strategy ran, where there was more than one.
fn strategies(periods: &[TimePeriod]) -> Option<Element> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, period) in periods.iter().enumerate() {
        if number == 0 || periods[number - 1].strategy != period.strategy {
            let begin = period.until_seconds - period.seconds;
            rows.push(Row { cells: vec![format!("{begin:.2}"), period.strategy.clone()], begins: false });
        }
    }
    (rows.len() > 1).then(|| {
        section("Strategies").child(table(&["from, s", "strategy"], &[], rows)).child(paragraph(
            "note",
            "What ran at the end of each period; the JSON has all changes, with their reasons.",
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(until_seconds: f64, seconds: f64) -> TimePeriod {
        TimePeriod { until_seconds, seconds, ..TimePeriod::default() }
    }

    #[test]
    fn a_line_is_level_over_each_period_and_has_gaps() {
        let periods = [period(1.0, 1.0), period(2.0, 1.0), period(3.0, 1.0), period(3.5, 0.5)];
        let line = [Some(2.0), Some(4.0), None, Some(1.0)];
        let expected = [vec![(0.0, 2.0), (1.0, 2.0), (1.0, 4.0), (2.0, 4.0)], vec![(3.0, 1.0), (3.5, 1.0)]];
        assert_eq!(level(&periods, &line), expected);
        assert!(level(&periods, &[None; 4]).is_empty());
    }
}
