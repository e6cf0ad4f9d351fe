//! Dyssect's placement as a mixed-integer program, solved by HiGHS (Tables II to IV).
//!
//! Products of variables are taken out. A shard's offloaded part has the cost `y[s, c]` if its worker is core `c`, else 0; what a worker
//! offloads, the sum of these, goes whole to the offloader that it has: `m[c, k]`. So a core's load is linear:
//!
//! ```text
//!   u[c] = Σs (L[s] A[s, c] - y[s, c]) + Σw m[w, c]
//!   Σc y[s, c] = what the offloaded steps of shard s cost      y[s, c] ≤ L[s] A[s, c]
//!   Σk m[c, k] = Σs y[s, c]      m[c, k] ≤ L O[c, k]      Σk O[c, k] ≤ 1
//! ```
//!
//! The squares of Table IV are held up by tangents, of which more are added where a solution lies above them. Cores are
//! numbered, and used from 0 on, which takes out most of the symmetry.

use std::time::{Duration, Instant};

use good_lp::solvers::highs::highs;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, variable};

use crate::placement::ALPHA;
use crate::{Answer, BUCKETS, Buckets, Caps, Goal, Placement, Question, Solver};

/// How far the tangents may lie below the squares, in shares of T².
const GAP: f64 = 1e-6;

/// The exact solver.
#[derive(Clone, Copy, Debug)]
pub struct Highs {
    /// How long it may take; then the best placement so far counts, if there is one.
    pub limit: Duration,
    /// How many ratios there are beside 0: a divisor of [`BUCKETS`]. With more it takes longer.
    pub ratios: u8,
}

impl Default for Highs {
    fn default() -> Highs {
        Highs { limit: Duration::from_millis(50), ratios: 16 }
    }
}

impl Solver for Highs {
    fn solve(&mut self, question: &Question) -> Option<Answer> {
        assert!(self.ratios > 0 && BUCKETS.is_multiple_of(self.ratios), "{} ratios", self.ratios);
        let until = Instant::now() + self.limit;
        match question.goal {
            Goal::Even => self.even(question, until),
            Goal::Fit { caps, least } => self.fit(question, caps, least, until),
        }
    }
}

impl Highs {
    /// Table IV.
    fn even(&self, question: &Question, until: Instant) -> Option<Answer> {
        let cores = question.now.offloaders.len();
        let mut points: Vec<f64> = (0..=2 * cores).map(|half| half as f64 / 2.0).chain([0.9, 1.1]).collect();
        let mut best: Option<(f64, Placement)> = None;
        loop {
            let mut model = Model::new(question, self.ratios);
            let squares: Vec<Variable> =
                (0..cores).map(|_| model.variables.add(variable().min(0.0))).collect();
            for (square, load) in squares.iter().zip(&model.loads) {
                for point in &points {
                    let tangent =
                        2.0 * (point - 1.0) * (load.clone() - *point) + (point - 1.0) * (point - 1.0);
                    model.constraints.push(constraint!(*square >= tangent));
                }
            }
            let sum: Expression = squares.iter().sum();
            let goal = sum + ALPHA * model.changes(&question.now);
            let (placement, bound) = model.solve(goal, until)?;
            let value =
                placement.imbalance(&question.costs) + ALPHA * placement.changes_from(&question.now) as f64;
            if best.as_ref().is_none_or(|(best, _)| value < *best) {
                best = Some((value, placement.clone()));
            }
            let is_done = best.as_ref().is_some_and(|(best, _)| *best <= bound + GAP);
            if is_done || Instant::now() >= until {
                let (_, placement) = best?;
                return Some(Answer { placement, used: Some(cores) });
            }
            points.extend(shares(&placement, &question.costs));
        }
    }

    /// Tables II and III. Where all cores are too few, slack makes up for it, as little as can be.
    fn fit(&self, question: &Question, caps: Caps, least: usize, until: Instant) -> Option<Answer> {
        let Question { now, costs, .. } = question;
        let mut model = Model::new(question, self.ratios);
        let binary = |model: &mut Model| model.variables.add(variable().binary());
        let cap = |cap: u64| cap as f64 / model_target(costs, now.offloaders.len());
        let (priority, regular) = (cap(caps.priority), cap(caps.regular));
        let mut goal = model.changes(now);
        let mut before: Option<Variable> = None;
        for core in 0..now.offloaders.len() {
            let (is_used, is_bound) = (binary(&mut model), binary(&mut model));
            let slack = model.variables.add(variable().min(0.0));
            if core < least.max(1) {
                model.constraints.push(constraint!(is_used == 1.0));
            }
            if let Some(before) = before.replace(is_used) {
                model.constraints.push(constraint!(is_used <= before));
            }
            for owners in &model.owners {
                model.constraints.push(constraint!(owners[core] <= is_used));
                if now.has_priority() {
                    model.constraints.push(constraint!(owners[core] <= is_bound));
                }
            }
            if !now.has_priority() {
                model.constraints.push(constraint!(is_bound == is_used));
            }
            let load = model.loads[core].clone();
            let most = regular * is_used - (regular - priority) * is_bound + slack;
            model.constraints.push(constraint!(load <= most));
            // One core less is worth any number of changes, and slack no number of cores.
            let changes = (costs.len() + now.offloaders.len()) as f64;
            goal += (changes + 1.0) * is_used + 1e4 * slack;
        }
        let (placement, _) = model.solve(goal, until)?;
        let fits = placement.is_within(costs, caps);
        let workers = placement.owners.iter().map(|owner| usize::from(*owner) + 1);
        let offloaders = placement.offloaders.iter().flatten().map(|core| usize::from(*core) + 1);
        let used = workers.chain(offloaders).fold(least.max(1), usize::max);
        Some(Answer { placement, used: fits.then_some(used) })
    }
}

/// The mean load, which is 1 in the model.
fn model_target(costs: &[Buckets], cores: usize) -> f64 {
    (costs.iter().flatten().sum::<u64>() as f64 / cores as f64).max(1.0)
}

fn shares(placement: &Placement, costs: &[Buckets]) -> Vec<f64> {
    let target = model_target(costs, placement.offloaders.len());
    placement.loads(costs).iter().map(|load| *load as f64 / target).collect()
}

/// Variables and constraints that all problems have.
struct Model {
    variables: ProblemVariables,
    constraints: Vec<good_lp::Constraint>,
    /// By shard and core: A.
    owners: Vec<Vec<Variable>>,
    /// By worker and offloader, none for itself: O.
    offloaders: Vec<Vec<Option<Variable>>>,
    /// By shard, step by step of the ratio, whether it is offloaded: r.
    steps: Vec<Vec<Variable>>,
    /// By core, in shares of the mean: u.
    loads: Vec<Expression>,
    /// A placement to take numbers from.
    now: Placement,
    buckets_of_step: u8,
}

impl Model {
    fn new(question: &Question, ratios: u8) -> Model {
        let Question { now, costs, balancer, .. } = question;
        let (cores, target) = (now.offloaders.len(), model_target(costs, now.offloaders.len()));
        let buckets_of_step = BUCKETS / ratios;
        let (mut variables, mut constraints) = (ProblemVariables::new(), Vec::new());
        let mut binary = || variables.add(variable().binary());
        let owners: Vec<Vec<Variable>> =
            costs.iter().map(|_| (0..cores).map(|_| binary()).collect()).collect();
        let mut offloaders = vec![vec![None; cores]; cores];
        for (core, of) in offloaders.iter_mut().enumerate() {
            for (_, to) in of.iter_mut().enumerate().filter(|(other, _)| *other != core) {
                *to = Some(binary());
            }
        }
        let steps: Vec<Vec<Variable>> = costs
            .iter()
            .map(|_| (0..now.offloadable / buckets_of_step).map(|_| binary()).collect())
            .collect();
        let mut loads = vec![Expression::from(0.0); cores];
        let mut sent = vec![Expression::from(0.0); cores];
        for (shard, costs) in costs.iter().enumerate() {
            let load = costs.iter().sum::<u64>() as f64 / target;
            let one: Expression = owners[shard].iter().sum();
            constraints.push(constraint!(one == 1.0));
            if balancer.is_pinned(shard) {
                constraints.push(constraint!(owners[shard][usize::from(now.owners[shard])] == 1.0));
            }
            let mut offloaded = Expression::from(0.0);
            for (step, variable) in steps[shard].iter().enumerate() {
                let first = step as u8 * buckets_of_step;
                let places = first..first + buckets_of_step;
                let cost: u64 = places.map(|place| costs[usize::from(now.split(shard).place(place))]).sum();
                offloaded += (cost as f64 / target) * *variable;
                if step > 0 {
                    // Ratios nest.
                    constraints.push(constraint!(*variable <= steps[shard][step - 1]));
                }
            }
            let mut of_workers = Expression::from(0.0);
            for core in 0..cores {
                let part = variables.add(variable().min(0.0));
                constraints.push(constraint!(part <= load * owners[shard][core]));
                loads[core] += load * owners[shard][core] - part;
                sent[core] += part;
                of_workers += part;
            }
            constraints.push(constraint!(of_workers == offloaded));
        }
        for (core, sent) in sent.into_iter().enumerate() {
            let (mut all, mut one) = (Expression::from(0.0), Expression::from(0.0));
            for (other, is_offloader) in offloaders[core].iter().enumerate() {
                let Some(is_offloader) = *is_offloader else { continue };
                let part = variables.add(variable().min(0.0));
                // All loads together are so many means.
                constraints.push(constraint!(part <= cores as f64 * is_offloader));
                loads[other] += part;
                all += part;
                one += is_offloader;
            }
            constraints.push(constraint!(all == sent));
            constraints.push(constraint!(one <= 1.0));
        }
        Model { variables, constraints, owners, offloaders, steps, loads, now: now.clone(), buckets_of_step }
    }

    /// F of equation 16.
    fn changes(&self, now: &Placement) -> Expression {
        let mut changes = Expression::from(0.0);
        for (owners, owner) in self.owners.iter().zip(&now.owners) {
            changes += 1.0 - owners[usize::from(*owner)];
        }
        for (of, now) in self.offloaders.iter().zip(&now.offloaders) {
            let other = of.iter().enumerate().filter(|(other, _)| now.map(usize::from) != Some(*other));
            changes += other.filter_map(|(_, variable)| *variable).sum::<Expression>();
        }
        changes
    }

    /// The best placement that was found in time, and the value of the goal there.
    fn solve(self, goal: Expression, until: Instant) -> Option<(Placement, f64)> {
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
        if left <= 0.0 {
            return None;
        }
        let problem = self.variables.minimise(goal.clone()).using(highs).set_time_limit(left).set_threads(1);
        let problem = problem.set_option("mip_abs_gap", 1e-7).set_option("mip_rel_gap", 1e-6);
        let solution = problem.with_all(self.constraints).solve().ok()?;
        let is_set = |variable: &Variable| solution.value(*variable) > 0.5;
        let owner = |owners: &Vec<Variable>| owners.iter().position(is_set).map(|core| core as u16);
        let owners = self.owners.iter().map(owner).collect::<Option<Vec<u16>>>()?;
        let ratio = |steps: &Vec<Variable>| steps.iter().filter(|step| is_set(step)).count() as u8;
        let offloader = |of: &Vec<Option<Variable>>| {
            of.iter().position(|variable| variable.as_ref().is_some_and(is_set)).map(|core| core as u16)
        };
        let placement = Placement {
            owners,
            ratios: self.steps.iter().map(|steps| ratio(steps) * self.buckets_of_step).collect(),
            offloaders: self.offloaders.iter().map(offloader).collect(),
            ..self.now
        };
        Some((placement, solution.eval(&goal)))
    }
}

#[cfg(test)]
mod tests;
