//! The search for the highest offered rate at which a loss stays within a limit.

/// How a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Share of the packets that may be lost, 0 to 1.
    pub loss: f64,
    /// The interval at which the search ends, packets per second.
    pub width_pps: f64,
    /// The interval at which the search ends, as a share of its upper end. The narrower one counts.
    pub width_share: f64,
}

impl Default for Limits {
    /// SCR §4.1, and 1% for chains so slow that 0.4 Mpps would be coarse.
    fn default() -> Limits {
        Limits { loss: 0.04, width_pps: 0.4e6, width_share: 0.01 }
    }
}

/// How often the upper end is doubled while the loss there is within the limit.
const DOUBLINGS: u32 = 8;

/// The interval's lower end, as a share of where the search began, below which it gives up.
const GIVE_UP_SHARE: f64 = 1e-3;

/// The end of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<T> {
    /// The highest rate that was tried with a loss within the limit, packets per second.
    pub pps: f64,
    /// What the trial at that rate gave.
    pub trial: T,
    /// How many trials it took.
    pub trials: usize,
}

/// Searches by halves for the highest rate at which `trial`, which says what share was lost, stays within
/// the limit. Begins with `upper_pps`, and above it if even there little is lost. O(log(1 / width)) trials.
///
/// `None` if even a thousandth of `upper_pps` is too much.
///
/// # Errors
/// The first of `trial`.
///
/// # Panics
/// If `upper_pps` is not more than 0.
pub fn search<T, E>(
    upper_pps: f64,
    limits: Limits,
    mut trial: impl FnMut(f64) -> Result<(f64, T), E>,
) -> Result<Option<Found<T>>, E> {
    assert!(upper_pps > 0.0, "{upper_pps} packets a second");
    let (mut low_pps, mut high_pps) = (0.0, upper_pps);
    let (mut best, mut trials) = (None, 0);
    let mut holds = |pps: f64, best: &mut Option<(f64, T)>| {
        trials += 1;
        let (loss, trial) = trial(pps)?;
        let holds = loss <= limits.loss;
        if holds {
            *best = Some((pps, trial));
        }
        Ok(holds)
    };
    for _ in 0..DOUBLINGS {
        if !holds(high_pps, &mut best)? {
            break;
        }
        (low_pps, high_pps) = (high_pps, high_pps * 2.0);
    }
    while high_pps - low_pps > limits.width_pps.min(limits.width_share * high_pps)
        && high_pps > upper_pps * GIVE_UP_SHARE
    {
        let middle_pps = low_pps.midpoint(high_pps);
        match holds(middle_pps, &mut best)? {
            true => low_pps = middle_pps,
            false => high_pps = middle_pps,
        }
    }
    Ok(best.map(|(pps, trial)| Found { pps, trial, trials }))
}

/// The value in the middle of some, the lower one of two: a value that occurred.
///
/// # Panics
/// If there is none.
pub fn median_index(values: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// A core that serves so many packets a second, and drops what is more.
    fn core(service_pps: f64) -> impl FnMut(f64) -> Result<(f64, f64), Infallible> {
        move |pps| Ok((1.0 - (service_pps / pps).min(1.0), pps))
    }

    proptest! {
        #[test]
        fn a_known_rate_is_found(
            service_pps in 1e4..1e8f64,
            begin in 0.3..30.0f64,
            loss in prop_oneof![Just(0.0), Just(0.001), Just(0.04)],
        ) {
            let limits = Limits { loss, ..Limits::default() };
            let found = search(service_pps * begin, limits, core(service_pps)).unwrap().unwrap();
            let highest = service_pps / (1.0 - loss);
            let width = limits.width_pps.min(limits.width_share * highest) * 1.02;
            prop_assert!(found.pps <= highest * 1.000_001, "{} above {highest}", found.pps);
            prop_assert!(found.pps >= highest - width, "{} below {highest}", found.pps);
            prop_assert_eq!(found.pps, found.trial, "the trial is the one at that rate");
            prop_assert!(found.trials <= 25, "{}", found.trials);
        }
    }

    #[test]
    fn a_search_without_an_end_ends() {
        let limits = Limits::default();
        let always = |loss: f64| move |pps: f64| Ok::<_, Infallible>((loss, pps));
        assert_eq!(search(1e6, limits, always(1.0)), Ok(None));
        let found = search(1e6, limits, always(0.0)).unwrap().expect("every rate holds");
        assert!(found.pps >= 128e6, "{}", found.pps);
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut left = 3;
        let trial = |pps: f64| {
            left -= 1;
            if left > 0 { Ok((0.0, pps)) } else { Err("stopped") }
        };
        assert_eq!(search(1e6, Limits::default(), trial), Err("stopped"));
        assert_eq!(left, 0);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median_index(&[3.0, 1.0, 2.0]), 2);
        assert_eq!(median_index(&[4.0, 1.0, 3.0, 2.0]), 3);
        assert_eq!(median_index(&[7.0]), 0);
    }
}
