//! Parts of a report, each under a heading, and which of them fit a screen.

use crate::report::words::{WIDTH, heading, table_parts};

/// How much a reader wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What matters most, in [`SUMMARY_LINES`] at most.
    Summary,
    /// All of it.
    Full,
}

/// The most lines of a summary, unless functions and reasons for drops alone are more.
pub const SUMMARY_LINES: usize = 40;

/// Rows that a summary's tables have at most; and how many they keep if others are to have room, too.
const ROWS: std::ops::RangeInclusive<usize> = 2..=10;

/// How much a part matters; what matters least is left out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Stays, whatever else does not fit.
    Essential,
    /// What functions and strategies found.
    Finding,
    /// What few readers ask for.
    Detail,
}

/// A part of a report: a table under its heading, or sentences, or both.
#[derive(Clone, Debug)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Names of columns; empty where there is no table.
    pub header: Vec<String>,
    /// Rows, each as long as `header`.
    pub rows: Vec<Vec<String>>,
    /// Whole lines under the table.
    pub below: String,
    /// How much it matters.
    pub rank: Rank,
}

impl Section {
    pub(super) fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>, rank: Rank) -> Section {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        Section { title: title.to_owned(), header, rows, below: String::new(), rank }
    }

    pub(super) fn lines(title: &str, below: String, rank: Rank) -> Section {
        Section { below, ..Section::table(title, &[], Vec::new(), rank) }
    }

    pub(super) fn below(self, below: String) -> Section {
        Section { below, ..self }
    }

    /// All of it.
    pub(super) fn full(&self) -> String {
        self.text(&self.parts(self.rows.len()).join("\n"), 0)
    }

    /// With so many rows, and without the columns that no line has room for.
    fn cut(&self, most: usize) -> String {
        let shown = if self.rank == Rank::Essential { self.rows.len() } else { most.min(self.rows.len()) };
        let part = self.parts(shown).into_iter().next().unwrap_or_default();
        self.text(&part, self.rows.len() - shown)
    }

    fn text(&self, table: &str, more: usize) -> String {
        let more = if more > 0 { format!(" ... and {more} more\n") } else { String::new() };
        heading(&self.title) + table + &more + &self.below
    }

    /// Whether a column has words, and not numbers alone.
    pub fn has_words(&self, column: usize) -> bool {
        column == 0 || self.rows.iter().any(|row| row.get(column).is_some_and(|cell| is_word(cell)))
    }

    fn parts(&self, rows: usize) -> Vec<String> {
        if self.header.is_empty() {
            return Vec::new();
        }
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        table_parts(&header, &self.rows[..rows], &|column| self.has_words(column))
    }

    /// What it is called where it is left out.
    fn name(&self) -> String {
        // Behind a comma or the second colon are figures.
        let mut parts = self.title.split([':', ',']);
        match (parts.next(), parts.next()) {
            (Some(function), Some(what)) => format!("{function}:{what}"),
            _ => self.title.clone(),
        }
    }
}

/// Whether a cell is neither a number, with or without its unit, nor empty.
fn is_word(cell: &str) -> bool {
    let number = cell.split(' ').next().unwrap_or_default();
    let number = number.trim_end_matches('%').replace(',', "");
    !matches!(cell, "" | "-") && number.parse::<f64>().is_err()
}

/// Lines that a text takes where long ones go on below.
pub(super) fn height(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(WIDTH).max(1)).sum()
}

/// The sections in at most so many lines, and the names of those left out: first all lose rows, and then those that
/// matter least go, the last of them first.
pub(super) fn fit(mut sections: Vec<Section>, room: usize) -> (String, Vec<String>) {
    let mut left_out = Vec::new();
    loop {
        let is_last = sections.iter().all(|section| section.rank == Rank::Essential);
        for most in ROWS.rev() {
            let text: String = sections.iter().map(|section| section.cut(most)).collect();
            if height(&text) <= room || is_last {
                left_out.reverse();
                return (text, left_out);
            }
        }
        // The last of those that matter least: there is one, or the text would have been taken.
        let least = sections.iter().enumerate().max_by_key(|(_, section)| section.rank);
        if let Some((at, _)) = least {
            left_out.push(sections.remove(at).name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(title: &str, rows: usize, rank: Rank) -> Section {
        let row = |at: usize| vec![format!("row {at}"), "1,234".to_owned()];
        Section::table(title, &["what", "packets"], (0..rows).map(row).collect(), rank)
    }

    #[test]
    fn rows_go_first_and_then_what_matters_least() {
        let all = || {
            vec![
                section("Functions", 12, Rank::Essential),
                section("Events", 5, Rank::Detail),
                section("a: Flows", 30, Rank::Finding),
            ]
        };
        // 16 lines of functions, 9 of events, 35 of flows.
        let (text, left_out) = fit(all(), 100);
        assert!(left_out.is_empty() && text.contains("... and 20 more"), "{text}");
        let (text, left_out) = fit(all(), 34);
        assert!(left_out.is_empty() && text.contains("... and 26 more") && height(&text) <= 34, "{text}");
        let (text, left_out) = fit(all(), 29);
        assert_eq!(left_out, ["Events"]);
        assert!(text.contains("row 11") && text.contains("... and 22 more") && height(&text) <= 29, "{text}");
        let (text, left_out) = fit(all(), 5);
        assert_eq!(left_out, ["a: Flows", "Events"]);
        assert_eq!(height(&text), 16, "what is essential stays whole: {text}");
    }

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        assert!(["1,234", "-", "", "12.5%", "286 kB", "+3.0%"].iter().all(|cell| !is_word(cell)));
        assert!(["up", "10.0.0.1", "tcp 1.2.3.4:80"].iter().all(|cell| is_word(cell)));
    }
}
