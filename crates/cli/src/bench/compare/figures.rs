//! What all three forms say about a point, and how they write numbers.

use measure::{Comparison, Point, Series};

use crate::output::count;

/// The series of a strategy, if it was compared.
pub fn series<'a>(comparison: &'a Comparison, strategy: &str) -> Option<&'a Series> {
    comparison.series.iter().find(|series| series.strategy == strategy)
}

/// The point of `single` on the fewest cores: what scaling is measured by.
pub fn single(comparison: &Comparison) -> Option<&Point> {
    series(comparison, "single")?.points.iter().min_by_key(|point| point.cores)
}

/// Rate over that of `single`, which has one core however many the others have.
pub fn over_single(comparison: &Comparison, point: &Point) -> Option<f64> {
    over(point, single(comparison)?)
}

/// Rate over that of `rss` on as many cores.
pub fn over_rss(comparison: &Comparison, point: &Point) -> Option<f64> {
    let points = &series(comparison, "rss")?.points;
    over(point, points.iter().find(|other| other.cores == point.cores)?)
}

fn over(point: &Point, other: &Point) -> Option<f64> {
    let ratio = point.mpps / other.mpps;
    (other.mpps > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// The least and the most that a search found.
pub fn spread_mpps(point: &Point) -> (f64, f64) {
    let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
    let found =
        point.found_mpps.iter().fold((low, high), |(low, high), found| (low.min(*found), high.max(*found)));
    if point.found_mpps.is_empty() { (point.mpps, point.mpps) } else { found }
}

/// The spread in words.
pub fn spread(point: &Point) -> String {
    let (low, high) = spread_mpps(point);
    format!("{} to {}", decimal(low), decimal(high))
}

/// How busy the busiest core was, 0 to 1.
pub fn busiest(point: &Point) -> Option<f64> {
    point.loads.iter().map(|load| load.busy).max_by(f64::total_cmp)
}

/// The biggest share of the packets that came to one core, 0 to 1.
pub fn biggest_share(point: &Point) -> Option<f64> {
    point.loads.iter().map(|load| load.share).max_by(f64::total_cmp)
}

/// `1.5` as `1.50x`; a dash where there is nothing to compare with.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{}x", decimal(ratio)))
}

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

/// The loss limit, as short as it was given: `0.1%`.
pub fn limit(comparison: &Comparison) -> String {
    let percent = format!("{:.6}", (comparison.loss_limit * 100.0).clamp(0.0, 100.0));
    format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
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
        assert_eq!((ratio(None), ratio(Some(2.0))), ("-".into(), "2.00x".into()));
        assert_eq!((shorten("rsspp", 5), shorten("dyssect", 5)), ("rsspp".into(), "dyss…".into()));
    }
}
