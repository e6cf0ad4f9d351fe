//! Tests of comparisons: their text, page, chart and JSON.

use measure::{
    Clock, Comparison, Conditions, CoreLoad, LatencyPoint, Point, Refused, SequencerLoad, Series, TopKey,
    TraceSummary,
};
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};
use unicode_width::UnicodeWidthStr;

use super::{render_csv, render_gallery, render_html, render_text};
use crate::page::numbers::{decimal, percent};

/// Made up to show every form: strategies that end early, measured and virtual points, a refusal.
const SAMPLE: &str = include_str!("../../../../tests/comparison.json");

fn sample() -> Comparison {
    serde_json::from_str(SAMPLE).expect("the sample is a comparison")
}

/// What the sample says of its figures is what is said of such figures.
#[test]
fn the_sample_has_the_findings_of_its_figures() {
    let mut drawn = sample();
    measure::draw_conclusions(&mut drawn);
    assert_eq!(sample().findings, drawn.findings);
    let notes = |comparison: &Comparison| {
        comparison.points().map(|(_, point)| point.notes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(notes(&sample()), notes(&drawn));
}

/// A rate that the system disturbed carries its note into each form, and no rate is put over one of another clock.
#[test]
fn notes_go_with_their_rate() {
    let sample = sample();
    let (html, text, csv) = (render_html(&sample), render_text(&sample), render_csv(&sample));
    let note = "searches for the same rate found 0.0695 to 13.16 Mpps";
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for form in [&html, &text, &csv, &serde_json::to_string(&sample).expect("JSON")] {
        assert!(form.contains(note), "{form}");
    }
    assert!(text.contains("13.05* |"), "{text}");
    let rows = rows(&parse(&html));
    let row = rows.iter().find(|row| row[..3] == ["shared", "2", "measured"]).expect("a row");
    assert!(row[3] == "13.05*" && row[10].starts_with(note), "{row:?}");
}

#[test]
fn rates_of_two_clocks_have_no_ratio() {
    let mut sample = sample();
    sample.series[0].points.truncate(1);
    let virtual_rows = |comparison: &Comparison| {
        let all = rows(&parse(&render_html(comparison)));
        all.into_iter().filter(|row| row.len() == 11 && row[2] == "virtual").collect::<Vec<_>>()
    };
    assert!(virtual_rows(&sample).iter().all(|row| row[4] == "-"), "single was measured alone");
    assert!(!render_html(&sample).contains("dotted: single times"), "nor does it scale to virtual cores");
    let text = render_text(&sample);
    assert!(
        text.lines().filter(|line| line.contains("| virtual")).all(|line| line.contains("|           - |")),
        "{text}"
    );
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}\n{page}"))
}

fn named<'a, 'd>(page: &'a Document<'d>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    page.descendants().filter(move |node| node.has_tag_name(name))
}

/// All text in an element.
fn text_of(node: Node) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

/// The cells of every row of every table.
fn rows(page: &Document) -> Vec<Vec<String>> {
    let cells = |row: Node| row.children().map(text_of).collect();
    named(page, "tr").map(cells).collect()
}

#[test]
fn the_summary_is_as_it_was() {
    let expected = include_str!("../../../../tests/comparison.txt");
    assert_eq!(render_text(&sample()), expected);
    assert!(expected.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_page_is_well_formed_and_carries_its_data() {
    let html = render_html(&sample());
    let page = parse(&html);
    let json = named(&page, "script").next().and_then(|node| node.text()).expect("the data");
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
    assert_eq!(value(json), value(SAMPLE));
    assert_eq!(named(&page, "svg").filter(|svg| svg.attribute("role") == Some("img")).count(), 8, "charts");
    for sentence in sample().findings {
        assert!(named(&page, "li").any(|item| text_of(item) == sentence), "{sentence}");
    }
}

/// The heading names the highest rate of one clock: a virtual one is not beside one that was measured.
#[test]
fn the_heading_of_the_page_is_the_finding() {
    let heading = |comparison: &Comparison| {
        let html = render_html(comparison);
        let page = parse(&html);
        named(&page, "h1").map(text_of).collect::<String>()
    };
    let mut comparison = sample();
    let fastest = |comparison: &Comparison, clock: Clock| {
        let of = comparison.points().filter(|(_, point)| point.clock == clock);
        of.map(|(_, point)| point.mpps).fold(0.0, f64::max)
    };
    let measured = fastest(&comparison, Clock::Measured);
    assert!(measured > 0.0, "the sample has measured points");
    let found = heading(&comparison);
    assert!(found.contains(" takes the most packets, ") && found.ends_with("Mpps (measured)"), "{found}");
    assert!(found.contains(&decimal(measured)), "{found}");
    comparison.series.iter_mut().for_each(|series| series.points.clear());
    assert!(heading(&comparison).ends_with(": nothing was measured"));
}

#[test]
fn a_gallery_has_a_chart_for_each() {
    let sample = sample();
    let html = render_gallery(
        "<Figures>",
        &[("first & last".to_owned(), &sample), ("second".to_owned(), &sample)],
        true,
    );
    let page = parse(&html);
    let headings: Vec<_> = named(&page, "h2").map(text_of).collect();
    assert!(
        headings.contains(&"first & last".to_owned()) && headings.contains(&"second".to_owned()),
        "{headings:?}"
    );
    assert_eq!(named(&page, "svg").filter(|svg| svg.attribute("role") == Some("img")).count(), 2);
    assert_eq!(named(&page, "h1").map(text_of).collect::<Vec<_>>(), ["<Figures>"]);
    assert!(fetches(&html).is_empty());
    parse(&render_gallery("none", &[], true));
}

/// What would make a browser fetch something.
fn fetches(html: &str) -> Vec<String> {
    let page = parse(html);
    let mut found: Vec<String> = ["link", "img", "iframe", "object", "embed", "image", "use"]
        .into_iter()
        .flat_map(|name| named(&page, name).map(|node| node.tag_name().name().to_owned()).collect::<Vec<_>>())
        .collect();
    let attributes = page.descendants().flat_map(|node| node.attributes());
    let refer = attributes.filter(|attribute| ["src", "href", "style", "data"].contains(&attribute.name()));
    found.extend(refer.map(|attribute| attribute.value().to_owned()));
    let css = named(&page, "style").map(text_of).collect::<String>();
    found.extend(css.split("url(").skip(1).filter(|url| !url.starts_with('#')).map(str::to_owned));
    found.extend(css.contains("@import").then(|| "@import".to_owned()));
    found
}

#[test]
fn the_page_needs_no_other_file() {
    let html = render_html(&sample());
    assert!(fetches(&html).is_empty());
    assert!(!html.contains("http://") && !html.contains("https://"));
    // The check finds what it should.
    assert!(!fetches(&html.replace("</main>", "<img src=\"a.png\"/></main>")).is_empty());
    assert!(!fetches(&html.replace("url(#stripes)", "url(a.svg#stripes)")).is_empty());
}

/// Figures of a comparison that no row of the page's tables has, with what they are of.
fn missing(comparison: &Comparison, rows: &[Vec<String>]) -> Vec<String> {
    let mut missing = Vec::new();
    let mut want = |begin: [&str; 2], cells: &[String]| {
        let is_it = |row: &&Vec<String>| {
            let has_all =
                cells.iter().all(|cell| row.iter().any(|other| other.split(' ').any(|part| part == cell)));
            row.len() > 2 && row[..2] == begin && has_all
        };
        if !rows.iter().any(|row| is_it(&row)) {
            missing.push(format!("{begin:?}: {cells:?}"));
        }
    };
    for series in &comparison.series {
        for point in &series.points {
            let cores = point.cores.to_string();
            let begin = [series.strategy.as_str(), cores.as_str()];
            let mut cells = vec![decimal(point.mpps), percent(point.loss), point.moves.to_string()];
            cells.extend(point.found_mpps.iter().map(|found| decimal(*found)));
            want(begin, &cells);
            for load in &point.loads {
                want(begin, &[load.share, load.busy, load.loss].map(percent));
            }
            if let Some(sequencer) = &point.sequencer {
                let SequencerLoad { busy, loss, packet_ns } = *sequencer;
                want(begin, &[percent(busy), percent(loss), decimal(packet_ns)]);
            }
            for at in &point.latency {
                let us = [at.offered_mpps, at.p50_us, at.p90_us, at.p99_us, at.p999_us, at.max_us];
                want(begin, &[vec![percent(at.load)], us.map(decimal).to_vec()].concat());
            }
        }
    }
    for refused in &comparison.refused {
        want([&refused.strategy, &refused.cores.to_string()], &[]);
    }
    missing
}

#[test]
fn every_figure_is_in_a_table() {
    let comparison = sample();
    let html = render_html(&comparison);
    let rows = rows(&parse(&html));
    assert_eq!(missing(&comparison, &rows), Vec::<String>::new());
    // A figure that the page does not have is missed, of whichever kind.
    let change: [fn(&mut Point); 5] = [
        |point| point.mpps += 0.01,
        |point| point.found_mpps[1] += 0.01,
        |point| point.loads[1].busy /= 2.0,
        |point| point.latency[3].p90_us += 0.01,
        |point| point.sequencer = Some(SequencerLoad { busy: 0.123, loss: 0.01, packet_ns: 31.7 }),
    ];
    for change in change {
        let mut other = sample();
        change(&mut other.series[2].points[2]);
        assert_eq!(missing(&other, &rows).len(), 1);
    }
}

#[test]
fn ratios_are_to_single_on_its_core_and_to_rss_on_as_many() {
    let html = render_html(&sample());
    let rows = rows(&parse(&html));
    let row = rows.iter().find(|row| row[..2] == ["rsspp", "8"]).expect("a row");
    // 68.9 / 12.9, the virtual core's, and 68.9 / 39.4
    assert_eq!(row[2..7], ["virtual", "68.90", "5.34x", "1.75x", "66.91 to 69.52"]);
}

#[test]
fn hostile_names_stay_text() {
    let name = "</script><script>alert('\"1\"')</script>&amp;<!--\u{1b}[31m\u{202e}\r\n";
    let mut comparison = sample();
    comparison.chain = name.to_owned();
    comparison.functions = vec![name.to_owned(), "x".repeat(3_000)];
    comparison.command = name.to_owned();
    comparison.findings = vec![name.repeat(40)];
    comparison.refused[0].reason = name.to_owned();
    comparison.series[1].strategy = name.to_owned();
    comparison.trace.source = "https://example.org/".to_owned();
    let html = render_html(&comparison);
    let page = parse(&html);
    assert_eq!(named(&page, "script").count(), 1, "the data alone");
    let data = named(&page, "script").next().and_then(|node| node.text()).expect("the data");
    let back: Comparison = serde_json::from_str(data).expect("a comparison");
    assert_eq!((back.chain.as_str(), back.series[1].strategy.as_str()), (name, name));
    assert!(!html.contains(['\u{1b}', '\u{202e}']));
    assert!(fetches(&html).is_empty());

    let text = render_text(&comparison);
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let csv = render_csv(&comparison);
    let records = records(&csv);
    assert!(records.iter().all(|record| record.len() == records[0].len()));
    assert!(records.iter().any(|record| record[3] == name));
}

fn records(csv: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
    let record = |record: csv::StringRecord| record.iter().map(str::to_owned).collect();
    reader.records().map(|read| record(read.expect("a record"))).collect()
}

#[test]
fn rows_for_a_spreadsheet_have_whole_figures() {
    let csv = render_csv(&sample());
    assert!(csv.ends_with("\r\n") && csv.lines().count() == 14, "a header and a row per point");
    let records = records(&csv);
    let cell = |row: usize, column: &str| {
        let at = records[0].iter().position(|name| name == column).expect("a column");
        records[row][at].clone()
    };
    let last = ["strategy", "cores", "clock", "rate_mpps", "searches", "entries_moved"]
        .map(|column| cell(13, column));
    assert_eq!(last, ["rsspp", "8", "virtual", "68.9", "3", "296"]);
    let ratio: f64 = cell(13, "over_rss_ratio").parse().expect("a number");
    assert!((ratio - 68.9 / 39.4).abs() < 1e-12);
}

#[test]
fn the_header_is_that_of_the_rows() {
    let mut empty = sample();
    empty.series.clear();
    let csv = render_csv(&sample());
    assert_eq!(render_csv(&empty), format!("{}\r\n", csv.lines().next().expect("a header")));
}

#[test]
fn what_is_not_there_is_said_or_left_out() {
    let mut comparison = sample();
    comparison
        .series
        .iter_mut()
        .flat_map(|series| &mut series.points)
        .for_each(|point| point.latency.clear());
    comparison.refused.clear();
    let html = render_html(&comparison);
    assert!(!html.contains("Latency against load") && !html.contains("What could not run"));
    comparison.series.clear();
    assert!(render_html(&comparison).contains("Nothing was measured."));
    assert!(render_text(&comparison).contains("Nothing was measured."));
}

#[test]
fn one_flow_on_one_core_is_drawn() {
    let mut comparison = sample();
    let shares = [&mut comparison.trace.top1_share, &mut comparison.trace.top10_share];
    shares.into_iter().for_each(|share| *share = 1.0);
    comparison.trace.flows = 1;
    comparison.series.truncate(1);
    let html = render_html(&comparison);
    assert!(html.contains("1 flow,") && named(&parse(&html), "polygon").count() > 0);
}

#[test]
fn what_ended_early_says_so_in_each_form() {
    let forms = |comparison: &Comparison| {
        let gallery = render_gallery("figures", &[], comparison.complete);
        let text = render_text(comparison).split_whitespace().collect::<Vec<_>>().join(" ");
        [render_html(comparison), gallery, text]
    };
    let said = "Interrupted: this is what was measured so far";
    let is_said =
        |form: &String| form.contains(said) || form.contains("INTERRUPTED, this is what was measured");
    let mut comparison = sample();
    assert!(!forms(&comparison).iter().any(is_said));
    comparison.complete = false;
    for form in forms(&comparison) {
        assert!(is_said(&form), "{form}");
    }
    assert!(render_html(&comparison).contains("\"complete\":false"), "nor is it lost in the page's data");
    let records = records(&render_csv(&comparison));
    assert!(records[0][24] == "complete" && records[1..].iter().all(|record| record[24] == "false"));
    // A file of an older version.
    let older = SAMPLE.replace(",\n \"complete\": true", "");
    assert!(!older.contains("complete") && serde_json::from_str::<Comparison>(&older).expect("one").complete);
}

/// The points of each line of a style in the chart of rates, the page's first.
fn lines_of(html: &str, style: usize) -> Vec<usize> {
    let page = parse(html);
    let chart = named(&page, "svg").find(|svg| svg.attribute("role") == Some("img")).expect("a chart");
    let class = format!("series s{style}");
    let lines = chart.descendants().filter(|node| node.attribute("class") == Some(&class));
    lines.map(|line| line.attribute("points").expect("points").split(' ').count()).collect()
}

#[test]
fn no_line_joins_points_of_two_clocks() {
    let mut comparison = sample();
    let series = comparison.series.iter().position(|series| series.strategy == "rsspp").expect("a series");
    let clocks = |clocks: [Clock; 4]| {
        let mut comparison = comparison.clone();
        let mut points = comparison.series[series].points.iter().cycle().cloned();
        let point = |(i, clock)| Point { cores: 1_usize << i, clock, ..points.next().expect("a point") };
        comparison.series[series].points = clocks.into_iter().enumerate().map(point).collect();
        lines_of(&render_html(&comparison), series)
    };
    use Clock::{Measured, Virtual};
    assert_eq!(clocks([Measured; 4]), [4]);
    assert_eq!(clocks([Measured, Measured, Virtual, Virtual]), [2, 2]);
    assert_eq!(clocks([Measured, Virtual, Measured, Virtual]), [1, 1, 1, 1]);
    comparison.series.truncate(series + 1);
    assert!(lines_of(&render_html(&comparison), series).iter().sum::<usize>() > 2);
}

/// Where a text of a chart begins and ends, by the width of its digits.
fn ends(text: Node) -> (f64, f64) {
    let at: f64 = text.attribute("x").and_then(|x| x.parse().ok()).expect("a place");
    let width = text_of(text).chars().count() as f64 * 6.4;
    match text.attribute("text-anchor") {
        Some("end") => (at - width, at),
        Some("middle") => (at - width / 2.0, at + width / 2.0),
        _ => (at, at + width),
    }
}

/// Also where figures are long.
#[test]
fn ticks_and_titles_are_within_their_chart() {
    for mpps in [1e-7, 0.5, 1_234.0, 123_456_789.0] {
        let mut comparison = sample();
        for point in comparison.series.iter_mut().flat_map(|series| &mut series.points) {
            (point.mpps, point.found_mpps) = (mpps, vec![mpps]);
            point.latency.iter_mut().for_each(|at| at.p99_us *= mpps);
        }
        let html = render_html(&comparison);
        let page = parse(&html);
        let is_scale = |text: &Node| matches!(text.attribute("class"), Some("tick" | "title"));
        let texts: Vec<Node> = named(&page, "text").filter(is_scale).collect();
        assert!(texts.len() > 30);
        for text in texts {
            let (begin, end) = ends(text);
            assert!(begin >= 0.0 && end <= 400.0, "{mpps}: {} from {begin} to {end}", text_of(text));
        }
    }
}

fn any_f64() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..100.0_f64,
        2 => 0.0..=1.0_f64,
        1 => Just(0.0),
        1 => any::<f64>(),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![Just("single".to_owned()), Just("rss".to_owned()), any::<String>()]
}

prop_compose! {
    fn any_latency()(load in any_f64(), us in prop::array::uniform6(any_f64())) -> LatencyPoint {
        let [offered_mpps, p50_us, p90_us, p99_us, p999_us, max_us] = us;
        LatencyPoint { load, offered_mpps, p50_us, p90_us, p99_us, p999_us, max_us }
    }
}

prop_compose! {
    fn any_load()(share in any_f64(), busy in any_f64(), loss in any_f64()) -> CoreLoad {
        CoreLoad { share, busy, loss }
    }
}

prop_compose! {
    fn any_point()(
        cores in 0_usize..300,
        is_virtual in any::<bool>(),
        mpps in any_f64(),
        found_mpps in prop::collection::vec(any_f64(), 0..4),
        loss in any_f64(),
        moves in any::<u64>(),
        loads in prop::collection::vec(any_load(), 0..12),
        latency in prop::collection::vec(any_latency(), 0..5),
        off_processor_share in prop::option::of(any_f64()),
        notes in prop::collection::vec(any::<String>(), 0..2),
        sequencer in prop::option::of(any_load()),
    ) -> Point {
        let conditions = Some(Conditions { off_processor_share, ..Conditions::default() });
        let clock = if is_virtual { Clock::Virtual } else { Clock::Measured };
        let sequencer = sequencer
            .map(|CoreLoad { share, busy, loss }| SequencerLoad { busy, loss, packet_ns: share });
        Point { cores, clock, mpps, found_mpps, loss, moves, loads, sequencer, latency, conditions, notes }
    }
}

prop_compose! {
    fn any_series()(strategy in any_name(), points in prop::collection::vec(any_point(), 0..4)) -> Series {
        Series { strategy, points }
    }
}

prop_compose! {
    fn any_comparison()(
        words in prop::array::uniform6(any::<String>()),
        shares in prop::array::uniform4(any_f64()),
        packets in any::<u64>(),
        flows in any::<u64>(),
        mean_bytes in any_f64(),
        searches in any::<usize>(),
        series in prop::collection::vec(any_series(), 0..9),
        refused in prop::collection::vec((any_name(), any::<usize>(), any::<String>()), 0..3),
        functions in prop::collection::vec(any::<String>(), 0..3),
    ) -> Comparison {
        let [paceline, command, machine, chain, source, digest] = words;
        let [top1_share, top10_share, top_entry_share, loss_limit] = shares;
        let top_key = Some(TopKey { what: source.clone(), share: top1_share });
        let trace = TraceSummary {
            source, packets, flows, mean_bytes, top1_share, top10_share, top_entry_share, top_key, digest,
        };
        let refused = refused.into_iter().map(|(strategy, cores, reason)| Refused { strategy, cores, reason });
        Comparison {
            paceline, command, machine, chain, trace, loss_limit, searches, series,
            findings: functions.clone(),
            functions,
            descriptors: searches,
            refused: refused.collect(),
            complete: searches % 2 == 0,
        }
    }
}

/// Replaces figures of a drawn comparison by figures that could be.
fn believable(mut comparison: Comparison) -> Comparison {
    let figure = |figure: f64| if figure.is_finite() { figure.abs().min(1e9) } else { 0.0 };
    for point in comparison.series.iter_mut().flat_map(|series| &mut series.points) {
        point.cores = point.cores.clamp(1, 4096);
        point.mpps = figure(point.mpps);
        point.found_mpps.iter_mut().for_each(|found| *found = figure(*found));
        point.loss = figure(point.loss).min(1.0);
    }
    comparison
}

/// The widest that each column can be.
#[test]
fn the_widest_figures_fit_on_a_line() {
    let mut comparison = sample();
    for series in &mut comparison.series {
        series.strategy = "a-strategy-of-a-long-name".to_owned();
        for point in &mut series.points {
            (point.cores, point.mpps, point.loss) = (4096, 123_456.0, 1e-6);
            point.found_mpps = vec![123_456.0; 3];
            point.notes = vec!["slow".to_owned()];
        }
    }
    comparison.series[0].strategy = "single".to_owned();
    comparison.series[0].points.iter_mut().for_each(|point| point.mpps = 0.999);
    let text = render_text(&comparison);
    let rules = text.lines().filter(|line| line.contains("--+--"));
    assert_eq!(rules.map(UnicodeWidthStr::width).max(), Some(100), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_comparison_is_rendered(comparison in any_comparison()) {
        let html = render_html(&comparison);
        let page = parse(&html);
        // Nothing is drawn where it cannot be.
        let coordinates = ["x", "y", "x1", "y1", "x2", "y2", "width", "height", "points"];
        let attributes = page.descendants().flat_map(|node| node.attributes());
        for attribute in attributes.filter(|attribute| coordinates.contains(&attribute.name())) {
            let mut numbers = attribute.value().split([' ', ',']).map(|number| number.parse::<f64>());
            prop_assert!(numbers.all(|number| number.is_ok_and(|number| number.abs() < 1000.0)), "{attribute:?}");
        }
        let points: usize = comparison.series.iter().map(|series| series.points.len()).sum();
        prop_assert_eq!(records(&render_csv(&comparison)).len(), points + 1);
        let text = render_text(&believable(comparison));
        // In columns of a terminal: some characters take none, and others two.
        prop_assert!(text.lines().all(|line| line.width() <= 100), "{text}");
    }
}
