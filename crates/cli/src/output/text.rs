//! Text for the terminal.

pub use engine::text::{ALL_MALFORMED, count, heading, percent, plural, table};

/// Columns of a line, the most.
const COLUMNS: usize = 100;

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
    let width = |text: &str| text.chars().count();
    for word in printable(text).split_whitespace() {
        let mut word = word;
        if !is_empty && width(&line) + 1 + width(word) > COLUMNS {
            lines += &(std::mem::replace(&mut line, next.to_owned()) + "\n");
            is_empty = true;
        }
        while width(&line) + width(word) > COLUMNS {
            let room = COLUMNS - width(&line);
            let end = word.char_indices().nth(room).map_or(word.len(), |(end, _)| end);
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
