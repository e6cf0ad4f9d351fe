//! The solvers that runs can have beside the greedy one, by name.

use std::time::Duration;

use crate::placement::ALPHA;
use crate::{Answer, Goal, Greedy, Question, Solver};

/// A solver beside the greedy one, as a run names it.
#[derive(Clone, Copy, Debug)]
pub struct SolverKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// Makes one that takes no longer than this to solve.
    pub make: fn(Duration) -> Box<dyn Solver>,
}

impl SolverKind {
    /// All that this build has.
    pub const ALL: &'static [SolverKind] = &[
        #[cfg(all(feature = "highs", not(feature = "loom")))]
        SolverKind {
            name: "highs",
            make: |limit| Box::new(NoWorse(crate::Highs { limit, ..crate::Highs::default() })),
        },
    ];
}

/// A solver that may be interrupted before it has found anything good: what the greedy one finds counts where that is better.
pub struct NoWorse<S>(pub S);

impl<S: Solver> Solver for NoWorse<S> {
    fn solve(&mut self, question: &Question) -> Option<Answer> {
        let greedy = Greedy.solve(question)?;
        Some(
            self.0
                .solve(question)
                .filter(|found| cost(found, question) <= cost(&greedy, question))
                .unwrap_or(greedy),
        )
    }
}

/// What an answer costs: cores, then how uneven loads are where they are to be even, then how much changes.
fn cost(Answer { placement, used }: &Answer, Question { now, costs, goal, .. }: &Question) -> (usize, f64) {
    let changes = placement.changes_from(now) as f64;
    match goal {
        Goal::Even => (0, placement.imbalance(costs) + ALPHA * changes),
        Goal::Fit { .. } => (used.unwrap_or(usize::MAX), changes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BUCKETS, Balancer, Buckets, Placement};

    /// Answers with what it has.
    struct Fixed(Option<Answer>);

    impl Solver for Fixed {
        fn solve(&mut self, _: &Question) -> Option<Answer> {
            self.0.clone()
        }
    }

    #[test]
    fn what_is_worse_than_the_greedy_answer_does_not_count() {
        let even = |cost: u64| -> Buckets { [cost; BUCKETS as usize] };
        let (now, costs) = (Placement::new(4, 2), vec![even(9), even(1), even(9), even(1)]);
        let question = Question { now: now.clone(), costs, goal: Goal::Even, balancer: Balancer::default() };
        let greedy = Greedy.solve(&question);
        let solve = |answer: Option<Placement>| {
            NoWorse(Fixed(answer.map(|placement| Answer { placement, used: Some(2) }))).solve(&question)
        };
        assert_eq!(solve(None), greedy);
        assert_eq!(solve(Some(now.clone())), greedy);
        let best = Placement { owners: vec![0, 1, 1, 0], ..now };
        assert_eq!(solve(Some(best.clone())).map(|answer| answer.placement), Some(best));
    }
}
