//! Columns of a function's own reports as people read them. A name ends with its unit (`full_in_ms`), which goes to the
//! cells: `full in`, `3 m 20 s`.

use crate::report::words::{bytes, count, duration};

/// The unit of a column's cells.
#[derive(Clone, Copy)]
enum Unit {
    None,
    Percent,
    Bytes,
    BytesPerSecond,
    BitsPerSecond,
    /// A time, and its cells in seconds.
    Time(f64),
}

/// What names end with; longer ends before those that end them.
const UNITS: [(&str, Unit); 8] = [
    ("_bytes_per_s", Unit::BytesPerSecond),
    ("_bits_per_s", Unit::BitsPerSecond),
    ("_percent", Unit::Percent),
    ("_bytes", Unit::Bytes),
    ("_ns", Unit::Time(1e-9)),
    ("_us", Unit::Time(1e-6)),
    ("_ms", Unit::Time(1e-3)),
    ("_s", Unit::Time(1.0)),
];

/// The columns' heads, and their rows with units.
pub(super) fn humane(columns: &[String], rows: &[Vec<String>]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut named: Vec<(String, Unit)> = columns.iter().map(|column| name(column)).collect();
    // A share beside what it is a share of: `flows` and `flows_percent`.
    for (name, unit) in &mut named {
        if matches!(unit, Unit::Percent) && columns.contains(name) {
            *name = format!("of {name}");
        }
    }
    let cell = |(cell, (_, unit)): (&String, &(String, Unit))| unit.show(cell);
    let rows = rows.iter().map(|row| row.iter().zip(&named).map(cell).collect()).collect();
    (named.into_iter().map(|(name, _)| name).collect(), rows)
}

fn name(column: &str) -> (String, Unit) {
    let ended = UNITS.iter().find_map(|(end, unit)| Some((column.strip_suffix(end)?, *unit)));
    let (name, unit) = match ended {
        Some(found) => found,
        None if column == "bytes" => (column, Unit::Bytes),
        None => (column, Unit::None),
    };
    (name.replace('_', " "), unit)
}

impl Unit {
    /// A cell that is no number stays as it is.
    fn show(self, cell: &str) -> String {
        let Ok(number) = cell.parse::<f64>() else { return cell.to_owned() };
        match self {
            Unit::None => cell.parse().map_or_else(|_| cell.to_owned(), count),
            Unit::Percent => format!("{cell}%"),
            Unit::Bytes => bytes(number),
            Unit::BytesPerSecond => bytes(number) + "/s",
            Unit::BitsPerSecond => bytes(number).replace('B', "bit") + "/s",
            Unit::Time(seconds) => duration(number * seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_from_the_heads_to_the_cells() {
        let columns =
            ["flow", "bytes", "share_percent", "full_in_ms", "rate_bytes_per_s", "of_each", "max_bits_per_s"];
        let row = ["a:1 -> b:2", "286076", "16.0", "200000", "1800873", "64512", "10000000"];
        let (heads, rows) = humane(&columns.map(str::to_owned), &[row.map(str::to_owned).to_vec()]);
        assert_eq!(heads, ["flow", "bytes", "share", "full in", "rate", "of each", "max"]);
        assert_eq!(rows[0], ["a:1 -> b:2", "286 kB", "16.0%", "3 m 20 s", "1.8 MB/s", "64,512", "10 Mbit/s"]);
        let (heads, _) = humane(&["flows", "flows_percent"].map(str::to_owned), &[]);
        assert_eq!(heads, ["flows", "of flows"]);
        let (_, rows) = humane(&["left_ms".to_owned()], &[vec!["-".to_owned()]]);
        assert_eq!(rows[0], ["-"]);
    }
}
