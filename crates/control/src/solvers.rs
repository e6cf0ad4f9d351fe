//! The solvers that runs can have beside the greedy one, by name.

use std::time::Duration;

use crate::Solver;

/// A solver beside the greedy one, as a run names it.
#[derive(Clone, Copy, Debug)]
pub struct SolverKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// Makes one that is to answer within this time.
    pub make: fn(Duration) -> Box<dyn Solver>,
}

impl SolverKind {
    /// All that this build has.
    pub const ALL: &'static [SolverKind] = &[
        #[cfg(all(feature = "highs", not(feature = "loom")))]
        SolverKind {
            name: "highs",
            make: |limit| Box::new(crate::Highs { limit, ..crate::Highs::default() }),
        },
    ];
}
