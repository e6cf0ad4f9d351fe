//! Who finds a placement: the greedy controller, or an exact solver within a deadline.
//!
//! | item | what it is |
//! |---|---|
//! | [`Greedy`] | [`Placement::balance`] and [`Placement::fit`]: microseconds, and near the optimum |
//! | `Highs` | the same problems as mixed-integer programs, solved by HiGHS: the feature `highs` |
//! | [`Guarded`] | a solver on a thread of its own: if it has no answer in time, the old placement stays in force |

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Balancer, Buckets, Caps, Placement};

/// What is asked of a solver.
#[derive(Clone, Debug)]
pub struct Question {
    /// Who steps what now.
    pub now: Placement,
    /// What each shard's buckets cost.
    pub costs: Vec<Buckets>,
    /// What is wanted.
    pub goal: Goal,
    /// Which shards stay.
    pub balancer: Balancer,
}

/// What is wanted of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Even loads, and few changes: Table IV.
    Even,
    /// Loads within caps on as few cores as do, then few changes: Tables II and III.
    Fit {
        /// What cores may have to do.
        caps: Caps,
        /// Cores that are used in any case.
        least: usize,
    },
}

/// What a solver found.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Who should step what.
    pub placement: Placement,
    /// How many cores are used; `None` if all together are too few.
    pub used: Option<usize>,
}

/// Finds placements.
pub trait Solver: Send {
    /// A placement; `None` if none was found, so that the old one stays in force.
    fn solve(&mut self, question: &Question) -> Option<Answer>;
}

/// The controller's own: greedy and deterministic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Solver for Greedy {
    fn solve(&mut self, Question { now, costs, goal, balancer }: &Question) -> Option<Answer> {
        let mut placement = now.clone();
        let used = match goal {
            Goal::Even => {
                placement.balance(costs, balancer);
                Some(now.offloaders.len())
            }
            Goal::Fit { caps, least } => placement.fit(costs, *caps, *least, balancer),
        };
        Some(Answer { placement, used })
    }
}

/// A solver on a thread of its own, which has so long to answer. One that never does blocks nobody.
#[derive(Debug)]
pub struct Guarded {
    questions: SyncSender<Question>,
    answers: Receiver<Option<Answer>>,
    deadline: Duration,
    asked: Asked,
    /// Whether an answer is yet to come that nobody waits for.
    is_late: bool,
    missed: u64,
}

/// What was asked last, and is not answered.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Nothing,
    /// Something, while it was at an earlier question.
    InVain,
    /// Something, at this time.
    At(Instant),
}

impl Guarded {
    /// Has `solver` answer within `deadline`. Its thread ends with the answer during which this was dropped.
    pub fn new(mut solver: Box<dyn Solver>, deadline: Duration) -> Guarded {
        let (questions, to_solve) = sync_channel::<Question>(1);
        let (to_answer, answers) = sync_channel(1);
        thread::spawn(move || {
            while let Ok(question) = to_solve.recv() {
                if to_answer.send(solver.solve(&question)).is_err() {
                    return;
                }
            }
        });
        Guarded { questions, answers, deadline, asked: Asked::Nothing, is_late: false, missed: 0 }
    }

    /// How often there was no answer in time, or none at all.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Asks, and does not wait. What was asked before and not fetched is not answered any more.
    pub fn ask(&mut self, question: Question) {
        self.is_late |= matches!(self.asked, Asked::At(_));
        if self.is_late {
            // What was found for loads of then is of no use now.
            self.is_late = self.answers.try_recv().is_err();
        }
        let is_put = !self.is_late && self.questions.try_send(question).is_ok();
        self.asked = if is_put { Asked::At(Instant::now()) } else { Asked::InVain };
    }

    /// What was found for what was asked last. Waits for it until the deadline, which counts from the question.
    pub fn answer(&mut self) -> Option<Answer> {
        let answer = match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Nothing => return None,
            Asked::InVain => None,
            Asked::At(asked) => {
                let left = self.deadline.saturating_sub(asked.elapsed());
                let answer = self.answers.recv_timeout(left);
                self.is_late = matches!(answer, Err(RecvTimeoutError::Timeout));
                answer.ok().flatten()
            }
        };
        self.missed += u64::from(answer.is_none());
        answer
    }
}

impl Solver for Guarded {
    fn solve(&mut self, question: &Question) -> Option<Answer> {
        self.ask(question.clone());
        self.answer()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::BUCKETS;

    fn question() -> Question {
        let even = |cost: u64| [cost; BUCKETS as usize];
        let costs = vec![even(1), even(1), even(1), even(5)];
        Question { now: Placement::new(4, 2), costs, goal: Goal::Even, balancer: Balancer::default() }
    }

    /// Planted: answers when it is told to, which for the first question is never before the deadline.
    struct Stuck(Receiver<()>);

    impl Solver for Stuck {
        fn solve(&mut self, question: &Question) -> Option<Answer> {
            self.0.recv().ok()?;
            Greedy.solve(question)
        }
    }

    #[test]
    fn planted_a_solver_that_never_returns_leaves_the_old_plan_in_force() {
        let (go_on, told) = channel();
        let mut guarded = Guarded::new(Box::new(Stuck(told)), Duration::from_millis(5));
        for missed in 1..=3 {
            assert_eq!(guarded.solve(&question()), None);
            assert_eq!(guarded.missed(), missed);
        }
        // It returns at last: that answer is thrown away, and the next question gets its own.
        go_on.send(()).expect("it waits");
        go_on.send(()).expect("it waits");
        guarded.deadline = Duration::from_secs(60);
        let answer = loop {
            match guarded.solve(&question()) {
                Some(answer) => break answer,
                None => thread::yield_now(),
            }
        };
        assert_eq!(Some(answer), Greedy.solve(&question()));
    }

    /// Asked and fetched later, as a run does it.
    #[test]
    fn an_answer_is_to_the_last_question_alone() {
        let mut guarded = Guarded::new(Box::new(Greedy), Duration::from_secs(60));
        assert_eq!((guarded.answer(), guarded.missed()), (None, 0), "nothing was asked");
        let other =
            Question { goal: Goal::Fit { caps: Caps { priority: 9, regular: 9 }, least: 2 }, ..question() };
        guarded.ask(other);
        let answer = loop {
            guarded.ask(question());
            if let Some(answer) = guarded.answer() {
                break answer;
            }
        };
        assert_eq!(Some(answer), Greedy.solve(&question()));
        assert_eq!(guarded.answer(), None, "it was fetched");
    }

    #[test]
    fn a_solver_that_dies_leaves_the_old_plan_in_force() {
        let mut guarded = Guarded::new(Box::new(Stuck(channel().1)), Duration::from_secs(60));
        assert_eq!((guarded.solve(&question()), guarded.missed()), (None, 1));
    }
}
