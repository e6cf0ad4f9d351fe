//! Pages with charts: one file that needs no other, for screens of any width, paper, and eyes without colour.

pub mod bars;
pub mod markup;
pub mod numbers;
pub mod svg;

use serde::Serialize;

use self::markup::{Element, element, script_json};
use crate::output::plural;

/// A whole page, made by a version of Paceline.
pub fn page(title: &str, paceline: &str, body: Element) -> String {
    let head = element("head")
        .child(element("meta").attr("charset", "utf-8"))
        .child(
            element("meta").attr("name", "viewport").attr("content", "width=device-width, initial-scale=1"),
        )
        .child(element("meta").attr("name", "generator").attr("content", format!("paceline {paceline}")))
        .child(element("title").text(title))
        .child(element("style").raw(include_str!("page.css")));
    format!("<!DOCTYPE html>\n{}\n", element("html").attr("lang", "en").child(head).child(body))
}

/// What a page shows, as JSON within it.
pub fn data(id: &str, what: &impl Serialize) -> Element {
    let json = serde_json::to_string(what).unwrap_or_default();
    element("script").attr("type", "application/json").attr("id", id).raw(&script_json(&json))
}

pub fn section(title: &str) -> Element {
    element("section").attr("aria-label", title).child(element("h2").text(title))
}

pub fn paragraph(class: &str, text: &str) -> Element {
    element("p").class(class).text(text)
}

/// A chart under its name.
pub fn figure(title: &str, drawing: Element) -> Element {
    element("figure").child(element("h3").text(title)).child(drawing)
}

/// Charts beside each other, as many as there is room for.
pub fn charts(charts: impl IntoIterator<Item = Element>) -> Element {
    element("div").class("charts").children(charts)
}

/// Samples of lines or bars with their names.
pub fn legend(names: impl IntoIterator<Item = (Element, String)>) -> Element {
    let one = |(sample, name)| element("li").child(sample).child(element("span").text(name));
    element("ul").class("legend").children(names.into_iter().map(one))
}

/// A table of one kind of row; the first cell of a row is its heading. Columns of `words` may be broken.
pub fn table(header: &[&str], words: &[usize], rows: impl IntoIterator<Item = impl Into<Row>>) -> Element {
    let worded = |cell: Element, column| if words.contains(&column) { cell.class("words") } else { cell };
    let heading = |(column, text)| worded(element("th").attr("scope", "col"), column).text(text);
    let headings = header.iter().enumerate().map(heading);
    let body = rows.into_iter().map(|row| {
        let row: Row = row.into();
        let cells = row.cells.iter().enumerate().map(|(column, text)| {
            let cell = if column == 0 { element("th").attr("scope", "row") } else { element("td") };
            worded(cell, column).text(text)
        });
        let tr = if row.begins { element("tr").class("begins") } else { element("tr") };
        tr.children(cells)
    });
    let table = element("table")
        .attr("aria-label", header.join(", "))
        .child(element("thead").child(element("tr").children(headings)))
        .child(element("tbody").children(body));
    element("div").class("scroll").attr("tabindex", 0).child(table)
}

/// A row of a [`table()`].
pub struct Row {
    pub cells: Vec<String>,
    /// Whether something new begins, such as another strategy.
    pub begins: bool,
}

impl From<Vec<String>> for Row {
    /// A row like those before it.
    fn from(cells: Vec<String>) -> Row {
        Row { cells, begins: false }
    }
}

/// A long table that opens when it is asked for, and on paper.
pub fn folded(title: &str, header: &[&str], rows: Vec<Row>) -> Option<Element> {
    let summary = element("summary").text(format!("{title} ({})", plural(rows.len() as u64, "row")));
    (!rows.is_empty()).then(|| element("details").child(summary).child(table(header, &[], rows)))
}
