//! How long packets took, all of them.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// Steps of a distribution at most, beside the first and the last.
const STEPS: u32 = 200;

/// A step of the cumulative distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// Cycles from arrival to departure.
    pub cycles: u64,
    /// Share of the packets that came out that took at most as many.
    pub share: f64,
}

/// The distribution in ascending order, with the shortest and the longest latency, so many steps that between two
/// there is no more than a two-hundredth of the packets. Empty if nothing came out.
pub fn steps(latency: &Histogram<u64>) -> Vec<Step> {
    if latency.is_empty() {
        return Vec::new();
    }
    let quantile = |step| latency.value_at_quantile(f64::from(step) / f64::from(STEPS));
    let mut cycles: Vec<u64> = (0..=STEPS).map(quantile).collect();
    cycles.dedup();
    let share = |cycles| latency.count_between(0, cycles) as f64 / latency.len() as f64;
    cycles.into_iter().map(|cycles| Step { cycles, share: share(cycles) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(cycles: impl IntoIterator<Item = u64>) -> Vec<(u64, f64)> {
        let mut latency = Histogram::new(3).expect("digits");
        cycles.into_iter().for_each(|cycles| latency.saturating_record(cycles));
        super::steps(&latency).iter().map(|step| (step.cycles, step.share)).collect()
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(steps([]), []);
        assert_eq!(steps([36, 36, 36]), [(36, 1.0)]);
        assert_eq!(steps([40, 10, 20, 10]), [(10, 0.5), (20, 0.75), (40, 1.0)]);
    }

    #[test]
    fn steps_are_few_and_small() {
        let steps = steps(1..=1_000);
        assert!((150..=201).contains(&steps.len()), "{}", steps.len());
        assert_eq!((steps[0], steps[steps.len() - 1]), ((1, 0.001), (1_000, 1.0)));
        assert!(steps.windows(2).all(|pair| pair[1].1 - pair[0].1 <= 0.005 + 1e-9), "{steps:?}");
        assert!(steps.iter().all(|(cycles, share)| (share * 1_000.0 - *cycles as f64).abs() < 1.0));
    }
}
