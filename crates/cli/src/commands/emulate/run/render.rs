//! What is said of a run: for the terminal, and as a page.

use super::charts;
use super::report::Emulation;
use crate::output::{heading, item, table, wrapped};
use crate::page::markup::element;
use crate::page::{Row, charts as beside, data, folded, page, paragraph, section, table as html_table};

const PLACES: [&str; 5] = ["state", "consistency", "read in", "written in", "entries"];
const LOSSES: [&str; 2] = ["lost", "packets"];
const OCCUPANCY: [&str; 3] = ["buffer", "most", "size"];

/// The report for the terminal.
pub fn render_text(emulation: &Emulation) -> String {
    let mut text = wrapped(&emulation.headline(), "", "  ");
    text += &wrapped(&format!("{}; {}", emulation.title(), emulation.source), "", "  ");
    emulation.findings().iter().for_each(|finding| text += &item(finding));
    let groups = [
        (&PLACES[..], emulation.places(), 2),
        (&LOSSES[..], emulation.losses(), 1),
        (&OCCUPANCY[..], emulation.occupancy(), 1),
    ];
    // What did not occur is in the page and the JSON.
    let figures: Vec<Vec<String>> = emulation
        .figures()
        .into_iter()
        .filter(|(_, value)| value != "0" && value != "0.0%")
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    text += &heading("what came of it");
    text += &table(&["", "value"], &figures, 1);
    for (names, rows, left) in groups {
        if !rows.is_empty() {
            text += "\n";
            text += &table(names, &rows, left);
        }
    }
    if let Some(check) = &emulation.check {
        text += &format!("\ncheck: {}\n", check.says());
    }
    text
}

/// The report as a page.
pub fn render_html(emulation: &Emulation) -> String {
    let figures = emulation.figures().into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    let mut main = element("main");
    main = main.child(section("What came of it").child(html_table(&["", "value"], &[], figures)));
    let charts = charts::figures(emulation);
    if !charts.is_empty() {
        main = main.child(section("Charts").child(beside(charts)));
    }
    let groups = [
        ("Where state is", &PLACES[..], emulation.places()),
        ("What was lost", &LOSSES[..], emulation.losses()),
    ];
    for (title, names, cells) in groups.into_iter().filter(|(_, _, cells)| !cells.is_empty()) {
        main = main.child(section(title).child(html_table(names, &[], cells)));
    }
    if let Some(check) = &emulation.check {
        main = main.child(section("Compared with the reference").child(paragraph("lead", &check.says())));
    }
    let occupancy = emulation.occupancy().into_iter().map(Row::from).collect();
    main = main.children(folded("The most that each buffer held", &OCCUPANCY, occupancy));
    let headline = emulation.headline();
    let findings = emulation.findings().into_iter().map(|finding| element("li").text(finding));
    let header = element("header")
        .child(element("h1").text(&headline))
        .child(element("ul").class("findings").children(findings))
        .child(paragraph("lead", &format!("{}; {}", emulation.title(), emulation.source)))
        .child(paragraph("lead", &emulation.command));
    let body = element("body").child(header).child(main).child(data("emulation", emulation));
    page(&headline, emulation.paceline, body)
}
