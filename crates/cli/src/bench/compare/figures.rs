//! What all three forms say about a point.

use measure::{Comparison, Point, Series};

use crate::page::numbers::decimal;

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

/// The loss limit, as short as it was given: `0.1%`.
pub fn limit(comparison: &Comparison) -> String {
    let percent = format!("{:.6}", (comparison.loss_limit * 100.0).clamp(0.0, 100.0));
    format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_nothing_to_compare_with_is_a_dash() {
        assert_eq!((ratio(None), ratio(Some(2.0))), ("-".into(), "2.00x".into()));
    }
}
