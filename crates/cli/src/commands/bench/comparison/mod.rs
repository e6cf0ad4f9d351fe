//! A comparison of strategies for people: a page, a summary for the terminal, rows for a spreadsheet.

use std::process::ExitCode;

use measure::Comparison;

use crate::failure::INTERRUPTED;

mod charts;
mod csv;
mod figures;
mod html;
#[cfg(test)]
mod tests;
mod text;

pub use self::{
    csv::render_csv,
    html::{render_gallery, render_html},
    text::render_text,
};

/// The exit status with which a comparison is shown: that of an interruption where it ended by one.
pub fn exit_code(comparison: &Comparison) -> ExitCode {
    if comparison.complete { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) }
}
