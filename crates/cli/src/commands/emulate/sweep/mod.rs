//! `paceline emulate sweep`: a grid of settings, each a run of its own, on all cores.

mod args;
mod charts;
mod figures;
mod finding;
mod grid;
mod metric;
mod packets;
mod page;
pub mod rows;
mod runs;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod traffic;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::args::SweepArgs;

use self::charts::{Charts, Look, draw};
use self::figures::{Figure, Study};
use self::finding::finding;
use self::page::{Sheet, render_html, render_svg};
use self::rows::{Row, Sweep, render_csv};
use self::runs::{Found, Loaded, check, run_all};
use self::settings::Settings;
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::{Machine, command_line};
use crate::output::{Files, Reports, check_outputs, json};
use crate::progress::{Bar, interruptible};

/// Places of a grid, all figures together.
const MAX_PLACES: usize = 100_000;

/// What is to be run, and for which figure.
struct Task {
    figure: Option<Figure>,
    study: Study,
    points: Vec<Settings>,
}

pub fn command(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let tasks = tasks(args)?;
    let progress = interruptible(None);
    let (reports, drawings) = open(args, &tasks)?;
    let threads = args.threads();
    let rows = run(&tasks, threads, &progress.stop)?;
    let sheets = sheets(&tasks, &rows, args);
    let sweep = Sweep {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        machine: Machine::here().describe(),
        threads,
        complete: !progress.stop.load(Ordering::Relaxed),
        rows: rows.into_iter().flatten().collect(),
    };
    let drawn = drawings.write(sheets.iter().map(|sheet| sheet.is_whole.then(|| render_svg(sheet))));
    let json = json(&sweep)?;
    let contents: [&dyn Fn() -> String; 3] =
        [&|| render_html(&sweep, &sheets), &|| json.clone(), &|| render_csv(&sweep.rows)];
    reports.write_documents(&contents, &text::render(&sweep, &headings(&tasks), args.verbose))?;
    drawn?;
    Ok(if sweep.complete { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
}

/// The files to be written; those of drawings are in the order of their sheets.
fn open(args: &SweepArgs, tasks: &[Task]) -> Result<(Reports, Files), Failure> {
    let inputs: Vec<&Path> = args.pcap.iter().map(PathBuf::as_path).collect();
    let documents =
        [("--html", args.html.as_deref()), ("--json", args.json.as_deref()), ("--csv", args.csv.as_deref())];
    let Some(folder) = &args.svg else {
        return Ok((Reports::open_documents(&inputs, &documents)?, Files::open(&[])?));
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::usage(format!("cannot make {}: {error}", folder.display())).coded(Code::CannotWrite)
    })?;
    let mut names: Vec<String> = tasks.iter().map(|task| sheet_name(task.figure)).collect();
    names.dedup();
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.svg"))).collect();
    let drawings = paths.iter().map(|path| ("--svg", Some(path.as_path())));
    check_outputs(&inputs, &documents.into_iter().chain(drawings).collect::<Vec<_>>())?;
    Ok((Reports::open_documents(&inputs, &documents)?, Files::open(&paths)?))
}

/// What the drawing of a figure, or that of a grid, is called.
fn sheet_name(figure: Option<Figure>) -> String {
    figure.map_or("sweep".to_owned(), |figure| format!("fig{}", figure.number()))
}

/// What was asked for, all of it checked.
fn tasks(args: &SweepArgs) -> Result<Vec<Task>, Failure> {
    let studies = match args.figures().as_slice() {
        [] => {
            vec![(None, Study { grid: args.grid(), look: None, note: None, extra: None })]
        }
        figures => {
            let traffic = args.figure_traffic(figures)?;
            let packets = args.figure_packets()?;
            let of = |figure: &Figure| {
                let studies = figure.studies(&traffic, packets);
                studies.into_iter().map(|study| (Some(*figure), study)).collect::<Vec<_>>()
            };
            figures.iter().flat_map(of).collect()
        }
    };
    let places = studies.iter().map(|(_, study)| study.grid.len()).fold(0, usize::saturating_add);
    if places > MAX_PLACES {
        let most = crate::output::count(MAX_PLACES as u64);
        return Err(Failure::usage(format!("a grid of more than {most} places\nGive fewer values.")));
    }
    let task = |(figure, study): (Option<Figure>, Study)| Task { points: study.grid.points(), figure, study };
    let tasks: Vec<Task> = studies.into_iter().map(task).collect();
    tasks.iter().flat_map(|task| &task.points).try_for_each(check)?;
    Ok(tasks)
}

/// The rows of each task, as far as they were found before `stop`.
fn run(tasks: &[Task], threads: usize, stop: &AtomicBool) -> Result<Vec<Vec<Row>>, Failure> {
    let points: Vec<&Settings> = tasks.iter().flat_map(|task| &task.points).collect();
    let (different, places) = different(&points);
    let loaded = Loaded::for_points(&different)?;
    let bar = Bar::counting("sweeping", different.len() as u64);
    let found = run_all(&different, &loaded, threads, stop, || bar.next())?;
    let mut places = places.into_iter();
    Ok(tasks.iter().map(|task| rows_of(task, &found, &mut places)).collect())
}

/// Settings that differ in what the model has, and by place which they are.
fn different(points: &[&Settings]) -> (Vec<Settings>, Vec<usize>) {
    let mut different: Vec<Settings> = Vec::new();
    let mut known = HashMap::new();
    let of = |point: &&Settings| {
        let effective = point.effective();
        *known.entry(format!("{effective:?}")).or_insert_with(|| {
            different.push(effective);
            different.len() - 1
        })
    };
    let places = points.iter().map(of).collect();
    (different, places)
}

/// A row for each place whose run has ended.
fn rows_of(task: &Task, found: &[Option<Found>], places: &mut impl Iterator<Item = usize>) -> Vec<Row> {
    let row = |settings: &Settings| {
        let Found { load_percent, report } = found[places.next()?].clone()?;
        let figure = task.figure.map(Figure::number);
        Some(Row { figure, settings: settings.clone(), load_percent, report })
    };
    task.points.iter().map(row).collect::<Vec<_>>().into_iter().flatten().collect()
}

/// A sheet for each figure, or one for the grid.
fn sheets(tasks: &[Task], rows: &[Vec<Row>], args: &SweepArgs) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut last = None;
    for (task, rows) in tasks.iter().zip(rows) {
        let rows: Vec<&Row> = rows.iter().collect();
        let finding = task.figure.and_then(|_| finding(&rows));
        let own = || Look::of(&rows, args.x_of(&rows), args.metrics());
        let look = task.study.look.clone().unwrap_or_else(own);
        let is_whole = rows.len() == task.points.len();
        let charts = Charts { note: task.study.note, ..draw(&rows, &look, task.study.extra) };
        if last == Some(task.figure)
            && let Some(sheet) = sheets.last_mut()
        {
            sheet.groups.push(charts);
            sheet.is_whole &= is_whole;
            continue;
        }
        last = Some(task.figure);
        let (heading, columns) =
            task.figure.map_or(("Charts", 2), |figure| (figure.title(), figure.columns()));
        let heading = heading.to_owned();
        sheets.push(Sheet { heading, finding, groups: vec![charts], columns, is_whole });
    }
    sheets
}

fn headings(tasks: &[Task]) -> Vec<(Option<&'static str>, String)> {
    let of = |task: &Task| {
        let title = task.figure.map_or(String::new(), |figure| figure.title().to_owned());
        (task.figure.map(Figure::number), title)
    };
    let mut headings: Vec<_> = tasks.iter().map(of).collect();
    headings.dedup();
    headings
}
