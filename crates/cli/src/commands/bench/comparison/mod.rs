//! A comparison of strategies for people: a page, a summary for the terminal, rows for a spreadsheet.

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
