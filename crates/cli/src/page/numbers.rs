//! How pages and charts write numbers and names.

// Sentences are written where figures are measured: both have the same digits.
pub use measure::decimal;
use unicode_width::UnicodeWidthStr;

use crate::output::fitting;

/// A share as a percentage; small ones with the places that they need, so that a loss never looks like none.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if !size.is_finite() => "-".to_owned(),
        0.0 => "0%".to_owned(),
        size if size >= 1e6 => format!("{percent:.2e}%"),
        size if size >= 0.95 => format!("{percent:.1}%"),
        size if size >= 0.000_95 => format!("{percent:.3}%"),
        _ => "<0.001%".to_owned(),
    }
}

/// The first characters, `most` columns of a terminal wide, with an ellipsis for what is left out.
pub fn shorten(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let kept = &text[..fitting(text, most.saturating_sub(1))];
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_places_they_need() {
        let shares = [0.0, 1.0, 0.0123, 0.001, 0.000_04, 1e-9].map(percent);
        assert_eq!(shares, ["0%", "100.0%", "1.2%", "0.100%", "0.004%", "<0.001%"]);
        assert_eq!((shorten("rsspp", 5), shorten("dyssect", 5)), ("rsspp".into(), "dyss…".into()));
    }
}
