//! How reports show numbers and tables to people: those of runs, and those of the program's other commands.

use tabled::builder::Builder;
use tabled::settings::object::{Columns, Object, Rows};
use tabled::settings::peaker::Priority;
use tabled::settings::{Alignment, Padding, Style, Width};

/// The most columns of a line in a report.
pub const WIDTH: usize = 100;

/// A note for captures of which nothing can be parsed.
pub const ALL_MALFORMED: &str =
    "note: every packet is malformed; is the link type that the capture states the right one?\n";

/// A table: the first `left` columns are text, the rest are numbers and stand to the right. One that is wider than
/// [`WIDTH`] is printed in parts, one below the other, each with the first column.
pub fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    table_parts(header, rows, &|column| column < left).join("\n")
}

/// The least that a text is wrapped to, so that all columns stand side by side.
const TEXT: usize = 40;

/// The parts of a table, each at most [`WIDTH`] wide; `is_left` says which columns are text. A long text is wrapped where
/// that is enough, else the last columns are a part of their own.
pub(super) fn table_parts(
    header: &[&str],
    rows: &[Vec<String>],
    is_left: &dyn Fn(usize) -> bool,
) -> Vec<String> {
    // With a space on both sides, and a line or the indent before it.
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).chain([header[column].chars().count()]).max().unwrap_or(0)
                + 3
        })
        .collect();
    let over = widths.iter().sum::<usize>().saturating_sub(WIDTH);
    let is_wrapped = |column: usize| over > 0 && is_left(column) && widths[column] >= over + TEXT;
    if over == 0 || (0..header.len()).any(is_wrapped) {
        return vec![table_of(&(0..header.len()).collect::<Vec<_>>(), header, rows, is_left)];
    }
    let mut parts: Vec<Vec<usize>> = vec![(0..header.len().min(1)).collect()];
    for column in 1..header.len() {
        let taken = |part: &[usize]| part.iter().map(|column| widths[*column]).sum::<usize>();
        match parts.last_mut() {
            Some(part) if part.len() < 2 || taken(part) + widths[column] <= WIDTH => part.push(column),
            _ => parts.push(vec![0, column]),
        }
    }
    parts.iter().map(|columns| table_of(columns, header, rows, is_left)).collect()
}

/// These columns of a table.
fn table_of(
    columns: &[usize],
    header: &[&str],
    rows: &[Vec<String>],
    is_left: &dyn Fn(usize) -> bool,
) -> String {
    let mut builder = Builder::default();
    builder.push_record(columns.iter().map(|column| header[*column]));
    for row in rows {
        builder.push_record(columns.iter().map(|column| row.get(*column).map_or("", String::as_str)));
    }
    let mut table = builder.build();
    table.with(Style::psql());
    for (at, column) in columns.iter().enumerate() {
        if !is_left(*column) {
            table.modify(Columns::one(at), Alignment::right());
        }
    }
    table.modify(Rows::new(0..).intersect(Columns::first()), Padding::new(1, 1, 0, 0));
    if table.total_width() >= WIDTH {
        table.with(Width::wrap(WIDTH - 1).priority(Priority::max(true)).keep_words(true));
    }
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

/// `2055088.0` as `2.1 MB`: at least two digits, in units of a thousand.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 999.5 {
        return format!("{bytes:.0} B");
    }
    let mut scaled = bytes / 1e3;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1e3;
        unit += 1;
    }
    format!("{} {}", two_digits(scaled), UNITS[unit])
}

/// `200.0` seconds as `3 m 20 s`, `0.0123` as `12 ms`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        _ if seconds <= 0.0 => "0 s".to_owned(),
        _ if seconds < 999.5e-9 => format!("{} ns", two_digits(1e9 * seconds)),
        _ if seconds < 999.5e-6 => format!("{} us", two_digits(1e6 * seconds)),
        _ if seconds < 999.5e-3 => format!("{} ms", two_digits(1e3 * seconds)),
        _ if seconds < 59.5 => format!("{} s", two_digits(seconds)),
        _ if whole < 3_600 => format!("{} m {} s", whole / 60, whole % 60),
        _ if whole < 86_400 => format!("{} h {} m", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// A number of 1 to 999 with two digits at least.
fn two_digits(number: f64) -> String {
    if number < 9.95 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// `1 packet`, `2 packets`.
pub fn plural(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if ["ch", "sh", "s", "x"].iter().any(|sibilant| noun.ends_with(sibilant)) => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(number))
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
        assert_eq!((plural(1, "batch"), plural(2, "batch")), ("1 batch".into(), "2 batches".into()));
    }

    #[test]
    fn units_are_those_that_people_write() {
        let cases = [0.0, 317.0, 999.6, 2_055_088.0, 12_400.0, 999_900.0, 3.2e12].map(bytes);
        assert_eq!(cases, ["0 B", "317 B", "1.0 kB", "2.1 MB", "12 kB", "1.0 MB", "3.2 TB"]);
        let cases = [0.0, 40e-9, 12.3e-6, 0.0534, 0.9999, 7.96, 59.4, 59.6, 200.0, 7_500.0, 266_400.0];
        let expected = [
            "0 s", "40 ns", "12 us", "53 ms", "1.0 s", "8.0 s", "59 s", "1 m 0 s", "3 m 20 s", "2 h 5 m",
            "3 d 2 h",
        ];
        assert_eq!(cases.map(duration), expected);
    }

    /// Too many columns go below, with the first one; one text that is too wide is wrapped.
    #[test]
    fn no_line_is_wider_than_a_page() {
        let header: Vec<String> = (0..12).map(|column| format!("column {column:02}")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let rows = vec![vec!["1,234".to_owned(); 12]; 2];
        let text = table(&header, &rows, 1);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("column 00").count(), 2, "{text}");
        assert_eq!(text.matches("column 11").count(), 1, "{text}");
        let long = "a rule of many words ".repeat(10);
        let text = table(&["rule", "text", "n"], &[vec!["1".into(), long, "7".into()]], 2);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!((text.matches("many").count(), text.matches("rule").count()), (10, 1 + 10), "{text}");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "1,000".into()]];
        let expected =
            concat!("  name | packets\n", " ------+---------\n", "  a    |       1\n", "  bcd  |   1,000\n",);
        assert_eq!(table(&["name", "packets"], &rows, 1), expected);
    }
}
