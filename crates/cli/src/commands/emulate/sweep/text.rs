//! The rows for the terminal, behind what they show.

use super::charts::varies;
use super::finding::{finding, headline};
use super::rows::{Row, Sweep};
use super::settings::Axis;
use crate::output::{count, heading, item, percent, table, wrapped};

/// Rows that are shown of a grid where not all is asked for: with what is beside them 40 lines.
const FEW_ROWS: usize = 24;

/// Rows of each figure where all is asked for; files have the rest.
const MOST_ROWS: usize = 60;

/// What stands at the end where not all is asked for.
const MORE: &str = "-v shows more rows, and all columns; --csv, --json and --html have all of it";

/// The finding, and rows: of several figures a sentence each, or with `verbose` their rows.
pub fn render(sweep: &Sweep, headings: &[(Option<&'static str>, String)], verbose: bool) -> String {
    let rows_of = |figure: &Option<&'static str>| -> Vec<&Row> {
        sweep.rows.iter().filter(|row| row.figure == *figure).collect()
    };
    let mut text = wrapped(&headline(&sweep.rows), "", "  ");
    if !sweep.complete {
        text += "INTERRUPTED, this is what was found so far\n";
    }
    if headings.len() > 1 {
        text += "\n";
    }
    for (figure, title) in headings {
        let rows = rows_of(figure);
        if headings.len() > 1 && !verbose {
            text += &item(&format!(
                "{title}: {}",
                finding(&rows).unwrap_or_else(|| "nothing was found".to_owned())
            ));
            continue;
        }
        text += &if title.is_empty() { "\n".to_owned() } else { heading(title) };
        text += &of_rows(&rows, verbose);
    }
    let method = "cycles: latency from arrival to departure; of a search, at the highest load found";
    text += "\n";
    text += &wrapped(method, "", "  ");
    if verbose { text } else { text + MORE + "\n" }
}

fn of_rows(rows: &[&Row], verbose: bool) -> String {
    let is_shown = |axis: &Axis| *axis != Axis::Load && varies(rows, *axis);
    let axes: Vec<Axis> = Axis::SET.into_iter().filter(is_shown).collect();
    let has_limits = rows.iter().any(|row| row.settings.load.to_string().contains("loss"));
    let names: Vec<String> = axes.iter().map(|axis| axis.name()).collect();
    let mut header: Vec<&str> = names.iter().map(String::as_str).collect();
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
    let most = if verbose { MOST_ROWS } else { FEW_ROWS };
    let cells: Vec<Vec<String>> = rows.iter().take(most).map(row).collect();
    let mut text = fitting(&header, &cells, axes.len() + usize::from(has_limits), verbose);
    if rows.len() > most {
        text += &format!(" {} more: --csv, --json or --html\n", count((rows.len() - most) as u64));
    }
    text
}

/// A table; columns at its end are left out where a terminal is too narrow for them, unless all is asked for.
fn fitting(header: &[&str], cells: &[Vec<String>], left: usize, verbose: bool) -> String {
    let mut columns = header.len();
    loop {
        let cut: Vec<Vec<String>> = cells.iter().map(|row| row[..columns].to_vec()).collect();
        let text = table(&header[..columns], &cut, left.min(columns));
        // A table that is too wide goes on in another one below it.
        let is_one = text.lines().count() <= cells.len() + 2;
        if verbose || is_one || columns == 1 {
            return text;
        }
        columns -= 1;
    }
}
