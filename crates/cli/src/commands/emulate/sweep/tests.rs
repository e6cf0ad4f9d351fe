//! Tests of sweeps of the emulator.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use pipeline::programs::Synthetic;
use pipeline::spacing::Spacing;
use pipeline::{
    Arrival, BlockingOptions, Consistency, Line, Model, Options, Pacing, RapidOptions, Report, WhenFull,
    emulate,
};
use roxmltree::Document;

use super::args::SweepArgs;
use super::charts::{Look, draw};
use super::figures::{Figure, Study};
use super::finding::headline;
use super::grid::Grid;
use super::metric::Metric;
use super::page::{Sheet, render_html, render_svg};
use super::rows::{Row, Sweep, render_csv};
use super::runs::{Loaded, check, run_all};
use super::settings::{Axis, Load, Settings};
use super::traffic::Traffic;
use super::{Task, different, run};
use crate::args::buffers::Level;
use crate::commands::Cli;

/// All rows of a grid, without what depends on the machine.
fn rows(grid: &Grid, threads: usize) -> Vec<Row> {
    let study = Study { grid: grid.clone(), look: None, note: None, extra: None };
    let task = Task { figure: None, points: grid.points(), study };
    let mut rows = run(&[task], threads, &AtomicBool::new(false)).ok().expect("no model is stuck").remove(0);
    assert_eq!(rows.len(), grid.len());
    rows.iter_mut().for_each(|row| row.report = row.report.take().map(timeless));
    rows
}

fn timeless(report: Report) -> Report {
    Report { cycles_per_second: 0.0, ..report }
}

fn small() -> Grid {
    Grid {
        traffic: vec![Traffic::Spaced(2), Traffic::Turns(5)],
        packets: vec![Some(2_000)],
        packet_bytes: vec![Some(64)],
        update_percents: vec![10, 60],
        consistency: vec![Level(Consistency::Strict), Level(Consistency::BoundedStaleness(2))],
        phv_buffers: vec![4, 32],
        ..Grid::default()
    }
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let one = rows(&small(), 1);
    assert!(one.len() == 96 && one.iter().any(|row| row.report.as_ref().is_some_and(|r| r.lost() > 0)));
    assert_eq!(one, rows(&small(), 5));
}

/// What a single run of the library gives for these settings, put together by hand.
fn alone(settings: &Settings) -> Report {
    let Traffic::Spaced(2) = settings.traffic else { panic!("this test's traffic") };
    let spacing = Spacing::TRACE_2.with_bytes(64);
    let arrivals = spacing.arrivals(2_000, 0, 1).zip(0_u64..).map(|(arrival, number)| {
        let updates = nf::hash_bytes(&number.to_le_bytes(), 1) % 100 < u64::from(settings.update_percent);
        Arrival {
            phv: Synthetic::packet(arrival.phv[0], updates, number + 1),
            bytes: 64,
            time_ns: 0,
            port: 0,
        }
    });
    let model = match settings.model {
        "rapid" => Model::Rapid(RapidOptions { phv_buffer: settings.phv_buffer, ..RapidOptions::default() }),
        _ => Model::Blocking(BlockingOptions { queues: 4, depth: 32 }),
    };
    let line = Line { pacing: Pacing::Load { percent: 100 }, ..Line::default() };
    let options = Options { line, stage_cycles: Some(18), when_full: WhenFull::Drop, ..Options::default() };
    let program = Synthetic::new(settings.stages).flows(1 << 16).consistency(settings.consistency.0);
    timeless(emulate(program, &model, &options, arrivals, &mut ()).expect("a sound model").report)
}

#[test]
fn a_row_is_what_a_single_run_gives() {
    let grid = Grid { traffic: vec![Traffic::Spaced(2)], ..small() };
    for row in rows(&grid, 2) {
        assert_eq!(row.report, Some(alone(&row.settings)), "{:?}", row.settings);
    }
}

#[test]
fn a_search_finds_the_highest_load() {
    for loss in [0.0, 0.01] {
        let grid = Grid {
            stages: vec![2],
            packets: vec![Some(3_000)],
            packet_bytes: vec![Some(64)],
            ..Grid::default()
        };
        let all = Grid { loads: (1..=100).map(Load::At).collect(), ..grid.clone() };
        let all = rows(&all, 2);
        for found in rows(&Grid { loads: vec![Load::Highest { loss }], ..grid }, 2) {
            let of_model = all.iter().filter(|row| row.settings.model == found.settings.model);
            let first_bad = of_model.clone().find(|row| row.report.as_ref().is_some_and(|r| r.loss() > loss));
            let expected = first_bad.map_or(100, |row| row.load_percent - 1);
            assert_eq!(found.load_percent, expected, "{} {loss}", found.settings.model);
            let same =
                of_model.clone().find(|row| row.load_percent == expected).expect("all loads were tried");
            assert_eq!(found.report, same.report);
        }
    }
}

#[test]
fn what_is_interrupted_is_absent() {
    let points = small().points();
    let loaded = Loaded::for_points(&points).ok().expect("generated");
    let stop = AtomicBool::new(true);
    let found = run_all(&points, &loaded, 2, &stop, || {}).ok().expect("no model is stuck");
    assert!(found.iter().all(Option::is_none));
    stop.store(false, Ordering::Relaxed);
    let mut ended = 0;
    let tell = || {
        ended += 1;
        stop.store(ended >= 3, Ordering::Relaxed);
    };
    let found = run_all(&points, &loaded, 2, &stop, tell).ok().expect("no model is stuck");
    let done = found.iter().flatten().count();
    assert!((3..points.len()).contains(&done), "{done}");
}

#[test]
fn settings_that_make_no_difference_are_run_once() {
    let points = small().points();
    let (different, places) = different(&points.iter().collect::<Vec<_>>());
    // Blocking has neither consistency nor a PHV buffer.
    assert_eq!((points.len(), different.len()), (96, 48 + 12));
    for (point, place) in points.iter().zip(places) {
        assert_eq!(point.effective(), different[place]);
    }
}

#[test]
fn every_figure_can_be_run() {
    for figure in Figure::EACH {
        for study in figure.studies(&[], None) {
            let points = study.grid.points();
            assert_eq!(points.len(), study.grid.len());
            assert!(points.iter().all(|point| check(point).is_ok()), "{figure:?}");
        }
    }
    let count =
        |figure: Figure| figure.studies(&[], None).iter().map(|study| study.grid.len()).sum::<usize>();
    assert_eq!(Figure::EACH.map(count), [60, 54, 72, 360, 48, 108, 80]);
}

/// The paper's own example: with n = 60 and T = 60 both schemes are alike at 65%, where blocking takes (n - 1) T.
#[test]
fn the_formula_is_the_papers() {
    let study = Figure::Crossover.studies(&[], None).remove(0);
    let (name, formula) = study.extra.expect("a formula");
    let settings = Settings { update_percent: 65, ..study.grid.points().remove(0) };
    assert_eq!(settings.packets, Some(60));
    let row = Row { figure: None, settings, load_percent: 100, report: None };
    assert_eq!((name, formula(&row)), ("paper's formula", 59.0 * 60.0));
}

fn sample() -> Vec<Row> {
    let grid = Grid {
        models: vec!["rapid", "blocking", "pisa"],
        stage_cycles: vec![18],
        consistency: Grid::default().consistency,
        ..small()
    };
    rows(&Grid { traffic: vec![Traffic::Named("uniform".to_owned())], ..grid }, 2)
}

#[test]
fn charts_show_every_row() {
    let rows = sample();
    let rows: Vec<&Row> = rows.iter().collect();
    let metrics = vec![Metric::Throughput, Metric::Pb, Metric::OfStateless];
    let look = Look::of(&rows, Axis::Stages, metrics);
    assert_eq!(look.lines, [Axis::Model, Axis::UpdateRate]);
    let charts = draw(&rows, &look, None);
    let names: Vec<&str> = charts.charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(names, ["PB 4", "PB 32", "PB 4", "PB 32", "PB 4", "PB 32"]);
    assert_eq!(charts.lines[..2], ["rapid, 10% updates", "rapid, 60% updates"]);
    let markers = |chart: usize| charts.charts[chart].drawing.to_string().matches("marker").count();
    // Only rapid has a PB, and pisa is what the others are compared with.
    assert_eq!([0, 1, 2, 4].map(markers), [18, 18, 6, 12]);
}

/// A flow is never blocked by `blocking`: that it would be after 4 updates makes no second line.
#[test]
fn what_makes_no_difference_to_a_model_makes_no_line() {
    let study = Figure::Crossover.studies(&[], None).remove(0);
    let rows = rows(&study.grid, 2);
    let rows: Vec<&Row> = rows.iter().collect();
    let charts = draw(&rows, &study.look.expect("a figure has one"), study.extra);
    assert_eq!(
        charts.lines,
        ["blocking", "rapid, never blocked", "rapid, blocked after 4", "paper's formula"]
    );
    let markers = |chart: usize| charts.charts[chart].drawing.to_string().matches("marker").count();
    assert_eq!((charts.charts.len(), markers(0), markers(1)), (2, 40, 40));
}

/// PISA's stages are shorter, and its own.
#[test]
fn what_comes_with_a_model_is_no_axis() {
    let rows = rows(&Grid { models: vec!["rapid", "pisa"], packets: vec![Some(10)], ..Grid::default() }, 1);
    let rows: Vec<&Row> = rows.iter().collect();
    assert_eq!(Look::of(&rows, Axis::Stages, Vec::new()).lines, [Axis::Model]);
}

#[test]
fn drawings_and_pages_are_well_formed_and_need_nothing_else() {
    let rows = sample();
    let look = Look::of(&rows.iter().collect::<Vec<_>>(), Axis::UpdateRate, vec![Metric::Load, Metric::Mean]);
    let groups = vec![draw(&rows.iter().collect::<Vec<_>>(), &look, Some(("a <formula>", |_| 3.0)))];
    let (heading, finding) = ("<Charts> & more".to_owned(), Some("a < b".to_owned()));
    let sheets = [Sheet { heading, finding, groups, columns: 2, is_whole: true }];
    let drawing = render_svg(&sheets[0]);
    let parsed = Document::parse(&drawing).expect("an SVG");
    assert_eq!(parsed.root_element().attribute("xmlns"), None, "roxmltree takes it as the namespace");
    assert!(parsed.root_element().tag_name().namespace().is_some());
    let markers = drawing.matches("<polygon").count();
    assert!(markers > 50 && !drawing.contains("<title>"), "{markers}");
    assert!(!drawing.contains("var(") && !drawing.contains("url(") && !drawing.contains("href"));
    let sweep = Sweep {
        paceline: "0",
        command: "paceline emulate sweep".to_owned(),
        machine: String::new(),
        threads: 1,
        complete: false,
        rows,
    };
    let html = render_html(&sweep, &sheets);
    assert!(html.contains(&format!("<h1>{}", headline(&sweep.rows))), "{}", headline(&sweep.rows));
    assert!(html.contains("Interrupted") && !html.contains("http"));
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(&html, options).expect("a page");
    render_html(&Sweep { rows: Vec::new(), ..sweep }, &[]);
}

fn text(rows: Vec<Row>, verbose: bool) -> String {
    let (command, machine) = ("paceline emulate sweep".to_owned(), String::new());
    let sweep = Sweep { paceline: "0", command, machine, threads: 1, complete: true, rows };
    super::text::render(&sweep, &[(None, String::new())], verbose)
}

/// Settings that differ along many axes: the finding first, in 40 lines of 100 columns; `-v` has more.
#[test]
fn the_finding_comes_first_and_fits_a_terminal() {
    let few = text(rows(&small(), 2), false);
    let first = few.lines().next().unwrap_or_default();
    assert!(first.starts_with("rapid does ") && first.contains(" times what blocking does"), "{few}");
    assert!(few.lines().count() <= 40, "{few}");
    let wide: Vec<_> = few.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.is_empty(), "{wide:?}");
    let all = text(rows(&small(), 2), true);
    assert!(all.lines().count() > 60 && all.contains("sent back"), "{all}");
}

/// A sweep of several figures says in how many each model does most, and has a sentence for each.
#[test]
fn several_figures_are_counted() {
    let figure = |name, rows: Vec<Row>| rows.into_iter().map(move |row| Row { figure: Some(name), ..row });
    let alone = rows(&Grid { models: vec!["rapid"], ..small() }, 2);
    let rows: Vec<Row> = figure("13", rows(&small(), 2)).chain(figure("12", alone)).collect();
    let sweep = Sweep {
        paceline: "0",
        command: String::new(),
        machine: String::new(),
        threads: 1,
        complete: true,
        rows,
    };
    let said = "2 figures: rapid does most in 1, 1 compare no models, or find them alike";
    assert_eq!(headline(&sweep.rows), said);
    let text =
        super::text::render(&sweep, &[(Some("13"), "A".to_owned()), (Some("12"), "B".to_owned())], false);
    assert!(text.contains("  - A: rapid does ") && text.contains("  - B: rapid does "), "{text}");
}

/// What is said is what rows have: the row with the least and that with the most.
#[test]
fn a_finding_of_one_model_names_its_extremes() {
    let grid = Grid { models: vec!["rapid"], ..small() };
    let mut rows = rows(&grid, 2);
    let of = |row: &Row| row.report.as_ref().map_or(0.0, |report| report.throughput);
    let all = || rows.iter().map(of);
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let said = super::finding::finding(&rows.iter().collect::<Vec<_>>()).expect("something");
    assert!(said.starts_with(&format!("rapid does {least:.2} to {most:.2} packets a cycle over ")), "{said}");
    assert!(said.contains("; ") || said.contains(": least at "), "{said}");
    // Of nothing, nothing is said.
    rows.iter_mut().for_each(|row| row.report = None);
    assert_eq!(super::finding::finding(&rows.iter().collect::<Vec<_>>()), None);
    let one = self::rows(
        &Grid { models: vec!["rapid"], stages: vec![2], packets: vec![Some(10)], ..Grid::default() },
        1,
    );
    let said = super::finding::finding(&one.iter().collect::<Vec<_>>()).expect("something");
    assert!(!said.contains("settings") && said.contains(" packets a cycle"), "{said}");
}

#[test]
fn each_row_has_every_column() {
    let text = render_csv(&sample());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let begin = ["figure", "traffic", "packets", "packet_bytes", "seed", "model", "stages", "stage_cycles"];
    assert_eq!(header[..begin.len()], begin);
    for name in ["update_percent", "throughput", "latency_p99_cycles", "dropped_phv_buffer_full", "pb_max"] {
        assert!(header.iter().any(|column| column == name), "{name}");
    }
    let rows: Vec<_> = reader.records().map(|record| record.expect("as long as the header")).collect();
    assert_eq!(rows.len(), 36);
    assert!(rows.iter().all(|row| row.len() == header.len()));
}

#[test]
fn figures_set_their_own_axes() {
    let parse = |words: &[&str]| Cli::try_parse_from([&["paceline", "emulate", "sweep"], words].concat());
    assert!(parse(&["--figure", "13,c", "--packets", "1000"]).is_ok());
    let each = ["--models=pisa", "--gaps=1", "--stages=2", "--search", "--lossless", "--x=load", "--rb=2"];
    for option in each {
        assert!(parse(&["--figure", "13", option]).is_err(), "{option}");
        assert!(parse(&[option]).is_ok(), "{option}");
    }
}

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    sweep: SweepArgs,
}

#[test]
fn every_buffer_has_its_size() {
    let words =
        ["sweep", "--models=rapid", "--stages=2", "--dtable=32,64", "--block-queue=16,64", "--ring-buffer=4"];
    let line = Words::try_parse_from([&words[..], &["--ring-from-ring=2"]].concat()).expect("options");
    let points = line.sweep.grid().points();
    let sized = |dirty_table, block_queue| {
        Model::Rapid(RapidOptions {
            dirty_table,
            block_queue,
            suspend_queue: dirty_table,
            schedule_queue: dirty_table,
            ring_from_pipeline: 4,
            ring_from_ring: 2,
            ..RapidOptions::default()
        })
    };
    let models: Vec<Model> = points.iter().map(Settings::pipeline).collect();
    assert_eq!(models, [sized(32, 16), sized(32, 64), sized(64, 16), sized(64, 64)]);
    // A size that is given and one that is followed are one run.
    let followed = Settings { block_queue: None, ..points[3].clone() };
    assert_eq!((followed.pipeline(), followed.effective()), (sized(64, 64), points[3].effective()));
    assert_ne!(points[2].effective(), points[3].effective());
    let row = Row { figure: None, settings: followed, load_percent: 100, report: None };
    let sizes: Vec<String> =
        row.cells().into_iter().rev().take(5).map(|(name, size)| name + "=" + &size).collect();
    let expected = [
        "ring_from_ring=2",
        "ring_from_pipeline=4",
        "schedule_queue=64",
        "suspend_queue=64",
        "block_queue=64",
    ];
    assert_eq!(sizes, expected, "columns that came later are the last ones");
}
