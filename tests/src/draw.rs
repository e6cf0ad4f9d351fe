//! Numbers drawn from a seed, and seeds from the environment.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use sweep::Draw;

/// Runs `run` with the seeds from 0 on, `PACELINE_RUNS` of them or `runs`; with `PACELINE_SEED` that one alone. Says
/// how to run a seed that fails again: `test` is the test's name.
pub fn each_seed(test: &str, runs: u64, mut run: impl FnMut(u64)) {
    let seeds = match number("PACELINE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PACELINE_RUNS").unwrap_or(runs),
    };
    for seed in seeds {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            println!("again: PACELINE_SEED={seed} cargo test -p paceline-conformance {test} -- --nocapture");
            resume_unwind(failure)
        }
    }
}

/// Whether one seed alone is run, to be looked at.
pub fn is_one_seed() -> bool {
    number("PACELINE_SEED").is_some()
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}
