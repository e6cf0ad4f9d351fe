//! Text for the terminal.

pub use engine::text::{ALL_MALFORMED, WIDTH as COLUMNS, bytes, count, heading, percent, plural, table};
use unicode_width::UnicodeWidthStr;

/// One of a list's, with what hangs in.
pub fn item(text: &str) -> String {
    wrapped(text, "  - ", "    ")
}

/// What a terminal may be given of a name from a file.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { ' ' } else { c }).collect()
}

/// Lines of at most [`COLUMNS`]; words that are longer are broken.
pub fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in printable(text).split_whitespace() {
        let mut word = word;
        if !is_empty && line.width() + 1 + word.width() > COLUMNS {
            lines += &(std::mem::replace(&mut line, next.to_owned()) + "\n");
            is_empty = true;
        }
        while line.width() + word.width() > COLUMNS {
            // One character at least, so that there is an end.
            let first = word.chars().next().map_or(0, char::len_utf8);
            let end = fitting(word, COLUMNS.saturating_sub(line.width())).max(first);
            lines += &format!("{line}{}\n", &word[..end]);
            line = next.to_owned();
            word = &word[end..];
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

/// A report whose sentences are broken into lines; its tables stay as they are, and so do commands in backticks.
pub fn fitted(report: &str) -> String {
    // Stands for a space that no line may end with; nothing that is printed has it.
    const KEPT: &str = "\u{e000}";
    let line = |line: &str| {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if line.width() <= COLUMNS || line.contains('|') {
            return format!("{line}\n");
        }
        let quoted = |(part, text): (usize, &str)| {
            if part % 2 == 1 { text.replace(' ', KEPT) } else { text.to_owned() }
        };
        let text = text.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`");
        wrapped(&text, indent, &format!("{indent}  ")).replace(KEPT, " ")
    };
    report.lines().map(line).collect()
}

/// How many bytes of a text's first characters take at most so many columns of a terminal.
pub fn fitting(text: &str, columns: usize) -> usize {
    // Characters that a terminal draws as one are not as wide as their widths together.
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.take_while(|end| text[..*end].width() <= columns).last().unwrap_or(0)
}

/// What neither a page nor a terminal should be given: control characters, characters that turn the direction of
/// writing, and those that are none.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// A share as a bar of up to twenty characters.
pub fn bar(share: f64) -> String {
    const FULL: f64 = 20.0;
    "#".repeat((share.clamp(0.0, 1.0) * FULL).round() as usize)
}

/// `1 batch`, `2 batches`.
pub fn plural_of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some characters take no column of a terminal, and others two.
    #[test]
    fn lines_are_as_wide_as_a_terminal_shows_them() {
        for word in ["aa", "\u{1f300}", "e\u{301}", "\u{2764}\u{fe0f}"] {
            let lines = wrapped(&word.repeat(120), "", "");
            let widths: Vec<usize> = lines.lines().map(UnicodeWidthStr::width).collect();
            let all = word.repeat(120).width();
            assert_eq!(widths[0], 100, "{word}");
            assert_eq!(widths.iter().sum::<usize>(), all, "{word}");
        }
        let sentence = format!("{} `cut IN OUT 5` and see", "word ".repeat(18));
        let lines = fitted(&sentence);
        assert!(lines.contains("`cut IN OUT 5`") && lines.lines().count() == 2, "{lines}");
        let words = wrapped(&"\u{1f300}\u{1f300}\u{1f300} ".repeat(20), "  - ", "    ");
        assert!(words.lines().all(|line| line.width() <= 100) && words.lines().count() == 2, "{words}");
    }
}
