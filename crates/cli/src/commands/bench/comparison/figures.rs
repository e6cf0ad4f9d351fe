//! What all three forms say about a point.

use measure::{Clock, Comparison, Point};

use crate::output::plural;
use crate::page::numbers::decimal;

/// What every form says of a comparison that ended early.
pub const SO_FAR: &str = "this is what was measured so far; what is missing was not measured";

/// The point of `single` by which scaling is measured: on the clock of the points with the most cores, since rates of
/// different clocks are not compared.
pub fn single(comparison: &Comparison) -> Option<&Point> {
    let (_, last) = comparison.points().max_by_key(|(_, point)| point.cores)?;
    let single = comparison.points().filter(|(name, _)| *name == "single");
    single.map(|(_, point)| point).filter(|point| point.clock == last.clock).min_by_key(|point| point.cores)
}

/// The finding in a line: what has the highest rate. Rates of different clocks are not compared: those that were measured come first.
pub fn headline(comparison: &Comparison) -> String {
    let clock = [Clock::Measured, Clock::Virtual]
        .into_iter()
        .find(|clock| comparison.points().any(|(_, point)| point.clock == *clock && point.mpps > 0.0));
    let points = comparison.points().filter(|(_, point)| Some(point.clock) == clock);
    let Some((strategy, point)) = points.max_by(|(_, a), (_, b)| a.mpps.total_cmp(&b.mpps)) else {
        return format!("{}: nothing was measured", comparison.chain);
    };
    format!(
        "{}: {strategy} on {} takes the most packets, {} Mpps ({})",
        comparison.chain,
        plural(point.cores as u64, "core"),
        rate(point),
        point.clock.name()
    )
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
    match ratio {
        None => "-".to_owned(),
        Some(ratio) if ratio < 0.005 => "<0.01x".to_owned(),
        Some(ratio) => format!("{}x", decimal(ratio)),
    }
}

/// A rate, marked where it is not to be relied on.
pub fn rate(point: &Point) -> String {
    let mark = if point.notes.is_empty() { "" } else { "*" };
    decimal(point.mpps) + mark
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
        assert_eq!(ratio(Some(5.3e-4)), "<0.01x");
    }
}
