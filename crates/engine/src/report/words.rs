//! How reports show numbers and tables to people: those of runs, and those of the program's other commands.

use tabled::builder::Builder;
use tabled::settings::object::{Columns, Object, Rows};
use tabled::settings::{Alignment, Padding, Style};

/// A note for captures of which nothing can be parsed.
pub const ALL_MALFORMED: &str =
    "note: every packet is malformed; is the link type that the capture states the right one?\n";

/// A table: the first `left` columns are text, the rest are numbers and stand to the right.
pub fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let mut builder = Builder::default();
    builder.push_record(header.iter().copied());
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::psql());
    table.modify(Columns::new(left..), Alignment::right());
    table.modify(Rows::new(0..).intersect(Columns::first()), Padding::new(1, 1, 0, 0));
    indent(&table.to_string())
}

/// A heading above a table.
pub fn heading(text: &str) -> String {
    format!("\n{text}\n")
}

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `0.1234` as `12.3%`.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// `1 packet`, `2 packets`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!(" {}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let grouped = [0, 12, 999, 1_000, 99_223, 1_234_567].map(count);
        assert_eq!(grouped, ["0", "12", "999", "1,000", "99,223", "1,234,567"]);
        assert_eq!((plural(1, "packet"), plural(1_000, "flow")), ("1 packet".into(), "1,000 flows".into()));
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "1,000".into()]];
        let expected =
            concat!("  name | packets\n", " ------+---------\n", "  a    |       1\n", "  bcd  |   1,000\n",);
        assert_eq!(table(&["name", "packets"], &rows, 1), expected);
    }
}
