//! The charts as a page, and each figure as a drawing of its own.

use super::charts::{Chart, Charts, varies};
use super::finding::headline;
use super::rows::{Row, Sweep};
use super::settings::Axis;
use crate::page::markup::{Element, element};
use crate::page::svg::{WIDTH, label, swatch};
use crate::page::{charts as beside, data, figure, folded, legend, page, paragraph, section};

/// Charts under a heading.
pub struct Sheet {
    pub heading: String,
    /// What the rows of a figure show; the page's heading says it of a grid.
    pub finding: Option<String>,
    pub groups: Vec<Charts>,
    /// Charts in a row of the drawing.
    pub columns: usize,
    /// Whether all that it is to show was found; not so after an interruption.
    pub is_whole: bool,
}

/// The whole page, with the rows in it.
pub fn render_html(sweep: &Sweep, sheets: &[Sheet]) -> String {
    let headline = headline(&sweep.rows);
    let header = element("header")
        .child(element("h1").text(&headline))
        .child(paragraph("lead", "Pipelines, cycle by cycle"))
        .child(paragraph("lead", &sweep.command));
    let mut main = element("main").children(sheets.iter().map(sheet));
    if !sweep.complete {
        main = main.child(paragraph("note", "Interrupted: this is what was found so far."));
    }
    let rows = sweep.rows.iter().enumerate().map(|(number, row)| table_row(&sweep.rows, number, row));
    let names: Vec<String> = sweep.rows.first().map_or(Vec::new(), |row| shown_cells(&sweep.rows, row).0);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    main = main.children(folded("All rows", &names, rows.collect()));
    let body = element("body").child(header).child(main).child(data("sweep", sweep));
    page(&headline, sweep.paceline, body)
}

fn sheet(sheet: &Sheet) -> Element {
    let of = |charts: &Charts| {
        let figure = |chart: &Chart| figure(&chart.name, chart.drawing.clone());
        let names = charts.lines.iter().enumerate().map(|(style, name)| (swatch(style, true), name.clone()));
        let note = charts.note.map(|note| paragraph("note", note));
        element("div").children(note).child(legend(names)).child(beside(charts.charts.iter().map(figure)))
    };
    let finding = sheet.finding.as_ref().map(|finding| paragraph("lead", finding));
    section(&sheet.heading).children(finding).children(sheet.groups.iter().map(of))
}

fn table_row(rows: &[Row], number: usize, row: &Row) -> crate::page::Row {
    let begins = number == 0 || rows[number - 1].settings.traffic != row.settings.traffic;
    crate::page::Row { cells: shown_cells(rows, row).1, begins }
}

/// Names and cells of the axes that vary, and of all that was found.
fn shown_cells(rows: &[Row], row: &Row) -> (Vec<String>, Vec<String>) {
    let all: Vec<&Row> = rows.iter().collect();
    let is_shown = |(column, _): &(usize, (String, String))| match column.checked_sub(1) {
        None => row.figure.is_some(),
        Some(place) => {
            let set = Axis::SET.into_iter().filter(|axis| *axis != Axis::Load).nth(place);
            set.is_none_or(|axis| varies(&all, axis))
        }
    };
    row.cells().into_iter().enumerate().filter(is_shown).map(|(_, cell)| cell).unzip()
}

/// A line of text in a drawing.
const LINE: f64 = 20.0;

/// Between charts, and around the drawing.
const GAP: f64 = 16.0;

/// A sheet as a drawing that needs no style sheet and no colour, on white whatever is behind it.
pub fn render_svg(sheet: &Sheet) -> String {
    let columns = sheet.columns.max(1);
    let width = columns as f64 * (WIDTH + GAP) + GAP;
    let mut top = GAP + LINE;
    let mut parts = vec![label((GAP, GAP + 10.0), "start", "heading", &sheet.heading)];
    for group in &sheet.groups {
        let mut left = GAP;
        if let Some(note) = group.note {
            parts.push(label((left, top + 13.5), "start", "line", note));
            left += note.chars().count() as f64 * 7.0;
        }
        for (style, name) in group.lines.iter().enumerate() {
            let room = 56.0 + name.chars().count() as f64 * 7.0;
            if left + room > width {
                (left, top) = (GAP, top + LINE);
            }
            let sample = swatch(style, true).attr("x", left).attr("y", top + 2.0);
            parts.push(sample.attr("width", 36).attr("height", 14));
            parts.push(label((left + 42.0, top + 13.5), "start", "line", name));
            left += room;
        }
        top += LINE + 6.0;
        for row in group.charts.chunks(columns) {
            for (column, chart) in row.iter().enumerate() {
                let left = GAP + column as f64 * (WIDTH + GAP);
                parts.push(label((left, top + 12.0), "start", "name", &chart.name));
                let drawing = chart.drawing.clone().attr("x", left).attr("y", top + LINE);
                parts.push(drawing.attr("width", WIDTH).attr("height", chart.height));
            }
            top += LINE + row.iter().map(|chart| chart.height).fold(0.0, f64::max) + GAP;
        }
    }
    let paper = element("rect").attr("width", "100%").attr("height", "100%").attr("fill", "#fff");
    let drawing = element("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {width} {top}"))
        .attr("role", "img")
        .attr("aria-label", &sheet.heading)
        .child(element("style").raw(include_str!("../../../page/drawing.css")))
        .child(paper)
        .children(parts);
    without_tips(&format!("{drawing}\n"))
}

/// A drawing within a text shows no tips: they would be half of the file.
fn without_tips(drawing: &str) -> String {
    let mut parts = drawing.split("<title>");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once("</title>").map_or(part, |(_, rest)| rest))
}
