//! How pages and charts write numbers and names.

use crate::output::count;

/// A rate or a time, with two places or as many as a small one needs.
pub fn decimal(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_owned(),
        // Nothing that is measured is so little.
        size if size < 1e-9 => "0".to_owned(),
        size if size >= 999_999.5 => format!("{value:.2e}"),
        size if size >= 1e4 && value > 0.0 => count(value.round() as u64),
        size if size >= 0.095 => format!("{value:.2}"),
        size if size >= 0.000_95 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

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

/// The first `most` characters, with an ellipsis for what is left out.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_places_they_need() {
        let figures =
            [0.0, 12.345, 9_999.5, 123_456.7, 0.0123, 0.000_001, 4e12, 1e-12, f64::NAN].map(decimal);
        assert_eq!(figures, ["0", "12.35", "9999.50", "123,457", "0.0123", "1.00e-6", "4.00e12", "0", "-"]);
        let shares = [0.0, 1.0, 0.0123, 0.001, 0.000_04, 1e-9].map(percent);
        assert_eq!(shares, ["0%", "100.0%", "1.2%", "0.100%", "0.004%", "<0.001%"]);
        assert_eq!((shorten("rsspp", 5), shorten("dyssect", 5)), ("rsspp".into(), "dyss…".into()));
    }
}
