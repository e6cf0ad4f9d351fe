//! A curve over a logarithmic axis, drawn with block characters.

use crate::output::count;

/// Columns from the least to the greatest value of the axis.
const COLUMNS: usize = 61;
/// Lines from 0 to 100%; four, so that quarters fall on a line's top.
const LINES: usize = 8;
/// Eighths of a line.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws `share`, 0 to 1, of the numbers from 1 to at least `max`; the axis ends at a power of ten.
pub fn draw(max: u64, share: impl Fn(u64) -> f64, axis_title: &str) -> String {
    let decades =
        (1..20).find(|decades| 10_u64.checked_pow(*decades).is_none_or(|end| end >= max)).unwrap_or(19);
    let eighths: Vec<usize> = (0..COLUMNS)
        .map(|column| (share(number_at(column, decades)) * (LINES * 8) as f64).round() as usize)
        .collect();
    let mut chart = String::new();
    for line in 0..LINES {
        let label = if line % 2 == 0 { format!("{}% ", 100 - line * 100 / LINES) } else { String::new() };
        let below = (LINES - 1 - line) * 8;
        let blocks: String =
            eighths.iter().map(|eighths| BLOCKS[eighths.saturating_sub(below).min(8)]).collect();
        chart += &format!("{label:>6}|{}\n", blocks.trim_end());
    }
    chart + &axis(decades, axis_title)
}

/// The greatest number at or left of a column; powers of ten are met exactly.
fn number_at(column: usize, decades: u32) -> u64 {
    let exponent = column as f64 * f64::from(decades) / (COLUMNS - 1) as f64;
    (10_f64.powf(exponent) * (1.0 + 1e-9)) as u64
}

fn axis(decades: u32, title: &str) -> String {
    let mut ticks = vec!['-'; COLUMNS];
    let mut labels = String::new();
    for decade in 0..=decades {
        let column = (f64::from(decade) * (COLUMNS - 1) as f64 / f64::from(decades)).round() as usize;
        ticks[column] = '+';
        let label = count(10_u64.pow(decade));
        let start = (column + 1).saturating_sub(label.len().div_ceil(2));
        if decade == 0 || start > labels.len() {
            labels += &" ".repeat(start.saturating_sub(labels.len()));
            labels += &label;
        }
    }
    let ticks: String = ticks.into_iter().collect();
    format!("{:>6}|{ticks}\n{:>7}{labels}  {title}\n", "0% ", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_fall_on_their_ticks() {
        assert_eq!([0, 20, 40, 60].map(|column| number_at(column, 3)), [1, 10, 100, 1_000]);
        assert_eq!([0, 59, 60].map(|column| number_at(column, 1)), [1, 9, 10]);
    }

    #[test]
    fn a_step_is_drawn_where_it_is() {
        let drawn = draw(100, |number| if number < 10 { 0.5 } else { 1.0 }, "packets");
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], format!(" 100% |{}{}", " ".repeat(30), "█".repeat(31)));
        assert_eq!(lines[4], format!("  50% |{}", "█".repeat(61)));
        assert_eq!(lines[8], format!("   0% |+{0}+{0}+", "-".repeat(29)));
        assert_eq!(lines[9], format!("       1{}10{}100  packets", " ".repeat(29), " ".repeat(27)));
    }

    #[test]
    fn any_size_can_be_drawn() {
        for max in [0, 1, 10, 11, u64::MAX] {
            assert_eq!(draw(max, |_| 1.0, "").lines().count(), 10);
        }
    }
}
