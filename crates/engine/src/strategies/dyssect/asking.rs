//! A solver that takes longer than packets can wait: it is asked at the end of a period, and answers at the end of the next.

use control::{Balancer, Buckets, Goal, Guarded, Placement, Question};

use crate::strategies::account::SolverTold;
use crate::strategies::plan::Solving;

/// The way to a solver on a thread of its own.
pub(super) struct Asking {
    guarded: Guarded,
    /// Under what the last question holds: who stepped what, and which shards had to stay.
    asked: Option<(Placement, Balancer)>,
    told: SolverTold,
}

impl Asking {
    pub(super) fn new(Solving { kind, deadline }: Solving) -> Asking {
        let told = SolverTold { name: kind.name.to_owned(), ..SolverTold::default() };
        // A fifth is left for the way there and back.
        let solver = (kind.make)(deadline * 4 / 5);
        Asking { guarded: Guarded::new(solver, deadline), asked: None, told }
    }

    /// Puts what was found for the last period's loads in `placement`, and asks about these. Says how many cores are
    /// used, if something was found: `Some(None)` if all are too few.
    ///
    /// Waits for the answer if the deadline is not over. Between two packets of a network a period passes, which is longer. Packets of a
    /// capture come sooner.
    pub(super) fn decide(
        &mut self,
        placement: &mut Placement,
        costs: &[Buckets],
        goal: Goal,
        balancer: &Balancer,
    ) -> Option<Option<usize>> {
        let answer = self.guarded.answer();
        self.told.missed = self.guarded.missed();
        let mut used = None;
        if let (Some(answer), Some((now, then))) = (answer, self.asked.take()) {
            let still_holds = now == *placement && then.pinned == balancer.pinned;
            let stays = |shard: usize| answer.placement.owners[shard] == placement.owners[shard];
            let is_possible = answer.placement.can_follow(placement)
                && (0..costs.len()).all(|shard| !balancer.is_pinned(shard) || stays(shard));
            match (still_holds, is_possible) {
                (false, _) => self.told.overtaken += 1,
                (true, false) => self.told.refused += 1,
                (true, true) => {
                    self.told.answers += 1;
                    (*placement, used) = (answer.placement, Some(answer.used));
                }
            }
        }
        self.asked = Some((placement.clone(), balancer.clone()));
        let (now, costs, balancer) = (placement.clone(), costs.to_vec(), balancer.clone());
        self.guarded.ask(Question { now, costs, goal, balancer });
        used
    }

    /// How it went so far.
    pub(super) fn told(&self) -> &SolverTold {
        &self.told
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use control::{Answer, BUCKETS, Greedy, Solver, SolverKind};

    use super::*;

    const GREEDY: SolverKind = SolverKind { name: "greedy, beside", make: |_| Box::new(Greedy) };
    /// Planted: takes longer than anybody waits.
    const SLOW: SolverKind = SolverKind { name: "slow", make: |_| Box::new(Slow) };
    /// Planted: says what cannot be carried out.
    const WRONG: SolverKind = SolverKind { name: "wrong", make: |_| Box::new(Wrong(0)) };

    struct Slow;

    impl Solver for Slow {
        fn solve(&mut self, question: &Question) -> Option<Answer> {
            thread::sleep(Duration::from_millis(200));
            Greedy.solve(question)
        }
    }

    /// Counts its answers.
    struct Wrong(usize);

    impl Solver for Wrong {
        fn solve(&mut self, question: &Question) -> Option<Answer> {
            let Answer { mut placement, used } = Greedy.solve(question)?;
            match self.0 {
                0 => placement.owners[0] = 7,
                1 => placement.offloaders[1] = Some(1),
                2 => placement.ratios[0] = BUCKETS + 1,
                3 => placement.masks[0] = BUCKETS,
                4 => placement.owners.truncate(1),
                // A shard that is to stay goes.
                _ => placement.owners[0] = 1 - question.now.owners[0],
            }
            self.0 += 1;
            Some(Answer { placement, used })
        }
    }

    fn asking(kind: SolverKind, deadline_ms: u64) -> Asking {
        Asking::new(Solving { kind, deadline: Duration::from_millis(deadline_ms) })
    }

    /// Costs of two cores, one of which has nearly all.
    fn costs() -> Vec<Buckets> {
        [30, 1, 30, 1].map(|cost| [cost; BUCKETS as usize]).into()
    }

    fn decide(asking: &mut Asking, placement: &mut Placement, balancer: &Balancer) -> Option<Option<usize>> {
        asking.decide(placement, &costs(), Goal::Even, balancer)
    }

    #[test]
    fn what_is_found_comes_into_force_a_period_later() {
        let (mut asking, balancer) = (asking(GREEDY, 60_000), Balancer::default());
        let first = Placement::new(4, 2);
        let mut placement = first.clone();
        assert_eq!(decide(&mut asking, &mut placement, &balancer), None);
        assert_eq!(placement, first);
        assert_eq!(decide(&mut asking, &mut placement, &balancer), Some(Some(2)));
        let mut found = first;
        found.balance(&costs(), &balancer);
        assert_eq!(placement, found);
        let told = SolverTold { name: GREEDY.name.to_owned(), answers: 1, ..SolverTold::default() };
        assert_eq!(asking.told(), &told);
    }

    #[test]
    fn planted_a_solver_that_is_too_slow_changes_nothing() {
        let mut asking = asking(SLOW, 1);
        let mut placement = Placement::new(4, 2);
        for missed in 0..5 {
            assert_eq!(decide(&mut asking, &mut placement, &Balancer::default()), None);
            assert_eq!((placement.clone(), asking.told().missed), (Placement::new(4, 2), missed));
        }
    }

    #[test]
    fn planted_answers_that_cannot_be_carried_out_are_refused() {
        let mut asking = asking(WRONG, 60_000);
        let balancer = Balancer { pinned: vec![true, false, false, false], ..Balancer::default() };
        let mut placement = Placement::new(4, 2);
        for refused in 0..=6 {
            assert_eq!(decide(&mut asking, &mut placement, &balancer), None);
            assert_eq!((placement.clone(), asking.told().refused), (Placement::new(4, 2), refused));
        }
    }

    /// A shard was moved by hand, or pinned.
    #[test]
    fn an_answer_to_what_is_not_so_any_more_is_not_used() {
        let mut asking = asking(GREEDY, 60_000);
        let mut placement = Placement::new(4, 2);
        decide(&mut asking, &mut placement, &Balancer::default());
        placement.owners[1] = 0;
        let moved = placement.clone();
        assert_eq!(decide(&mut asking, &mut placement, &Balancer::default()), None);
        let pinned = Balancer { pinned: vec![true; 4], ..Balancer::default() };
        assert_eq!(decide(&mut asking, &mut placement, &pinned), None);
        assert_eq!((placement, asking.told().overtaken), (moved, 2));
    }
}
