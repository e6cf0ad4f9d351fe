//! The rows for the terminal.

use super::charts::varies;
use super::rows::{Row, Sweep};
use super::settings::Axis;
use crate::output::{count, heading, percent, table, wrapped};

/// Rows that a terminal is given of each figure; files have all.
const MOST_ROWS: usize = 60;

pub fn render(sweep: &Sweep, headings: &[(Option<&'static str>, String)]) -> String {
    let mut text = String::new();
    for (figure, title) in headings {
        let rows: Vec<&Row> = sweep.rows.iter().filter(|row| row.figure == *figure).collect();
        if !title.is_empty() {
            text += &heading(title);
        }
        text += &of_rows(&rows);
    }
    if !sweep.complete {
        text += "\nINTERRUPTED, this is what was found so far\n";
    }
    let method = "cycles: latency from arrival to departure; of a search, at the highest load found";
    text + "\n" + &wrapped(method, "", "  ")
}

fn of_rows(rows: &[&Row]) -> String {
    let is_shown = |axis: &Axis| *axis != Axis::Load && varies(rows, *axis);
    let axes: Vec<Axis> = Axis::SET.into_iter().filter(is_shown).collect();
    let has_limits = rows.iter().any(|row| row.settings.load.to_string().contains("loss"));
    let mut header: Vec<&str> = axes.iter().map(|axis| axis.title()).collect();
    if has_limits {
        header.push("searched");
    }
    header.extend(["load", "packets/cycle", "lost", "mean cycles", "p99", "max", "sent back"]);
    let row = |row: &&Row| {
        let mut cells: Vec<String> = axes.iter().map(|axis| axis.value(&row.settings)).collect();
        if has_limits {
            cells.push(row.settings.load.to_string());
        }
        cells.push(format!("{}%", row.load_percent));
        let Some(report) = &row.report else {
            cells.extend(["-"; 6].map(str::to_owned));
            return cells;
        };
        let latency = &report.latency_cycles;
        cells.extend([
            format!("{:.4}", report.throughput),
            percent(report.loss()),
            format!("{:.1}", latency.mean),
            count(latency.p99),
            count(latency.max),
            count(report.resubmissions),
        ]);
        cells
    };
    let cells: Vec<Vec<String>> = rows.iter().take(MOST_ROWS).map(row).collect();
    let mut text = table(&header, &cells, axes.len() + usize::from(has_limits));
    if rows.len() > MOST_ROWS {
        text += &format!(" {} more: --csv, --json or --html\n", count((rows.len() - MOST_ROWS) as u64));
    }
    text
}
