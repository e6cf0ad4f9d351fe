//! What a packet costs here, measured: SCR's d, c1 and c2 (App. A) for a chain over a trace.

use std::sync::atomic::AtomicBool;

use engine::{Chain, Plan, PlanError};
use io::Trace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strategy::Strategy;
use thiserror::Error;

use crate::search::median_index;
use crate::{Bench, BenchError, Clock, Costs, Settings, TrialError, packets};

/// How costs are measured.
#[derive(Clone, Debug)]
pub struct CostQuestion {
    /// Numbers of cores under `scr` that the time of replay is taken from, each above 1.
    pub cores: Vec<usize>,
    /// Packets of each trial, at least 1.
    pub packets: u32,
    /// How often each is measured, at least 1.
    pub rounds: usize,
}

/// The median of several measurements, with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub lowest: f64,
    /// The most.
    pub highest: f64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredCosts {
    /// The medians.
    pub costs: Costs,
    /// *d*, ns: an empty chain over the same packets.
    pub dispatch_ns: Spread,
    /// *c1*, ns: the chain on one core, less *d*.
    pub compute_ns: Spread,
    /// *c2*, ns: how a core's time for a packet of its own grows with the cores that share the packets. Absent where
    /// the chain cannot be replicated.
    pub replay_ns: Option<Spread>,
    /// What *c2* was taken from: time for a packet of a core's own, by number of cores, one first.
    pub packet_ns: Vec<CoreTime>,
}

/// Time that a core takes for a packet of its own, with those of other cores that it steps before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Cores that share the packets.
    pub cores: usize,
    /// Its time, ns.
    pub ns: Spread,
}

/// Why costs could not be measured.
#[derive(Debug, Error)]
pub enum CostError {
    /// The chain cannot run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The trace or the memory is too little.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A trial gave no figures.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// Cores whose packets are all there from the beginning, for trial after trial.
struct Runner {
    bench: Bench,
    /// By round, ns.
    packet_ns: Vec<f64>,
}

/// Measures on virtual cores, in rounds that each have all measurements, so that what else the machine does meets all
/// alike. Numbers of cores whose tables do not fit into memory are left out.
///
/// # Errors
/// [`CostError`]; a chain that cannot be replicated is none, nor is one that no other strategy than `single` can run.
pub fn measure_costs(
    chain: &Chain,
    trace: &Trace,
    question: &CostQuestion,
    stop: &AtomicBool,
) -> Result<MeasuredCosts, CostError> {
    let empty = Chain { functions: Vec::new(), ..chain.clone() };
    let mut dispatch = Runner::new(&empty, trace, Strategy::Single, 1, stop)?;
    let mut single = Runner::new(chain, trace, Strategy::Single, 1, stop)?;
    let mut replicated = Vec::new();
    for cores in question.cores.iter().copied() {
        match Runner::new(chain, trace, Strategy::Scr, cores, stop) {
            Ok(runner) => replicated.push((cores, runner)),
            Err(CostError::Plan(PlanError::Payload { .. } | PlanError::Memory { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    for _ in 0..question.rounds {
        let others = replicated.iter_mut().map(|(_, runner)| runner);
        for runner in [&mut dispatch, &mut single].into_iter().chain(others) {
            runner.round(question.packets, stop)?;
        }
    }
    let replicated: Vec<_> =
        replicated.into_iter().map(|(cores, runner)| (cores, runner.packet_ns)).collect();
    Ok(costs_of(&dispatch.packet_ns, &single.packet_ns, &replicated))
}

impl Runner {
    fn new(
        chain: &Chain,
        trace: &Trace,
        strategy: Strategy,
        cores: usize,
        stop: &AtomicBool,
    ) -> Result<Runner, CostError> {
        let plan = Plan::new(chain, strategy, cores)?;
        let settings = Settings { clock: Clock::Virtual, descriptors: 256, is_shaped: false, dispatch_ns: 0 };
        let mut bench = Bench::new(chain, &plan, packets(chain, &plan, trace)?, settings)?;
        bench.warm_up(stop)?;
        Ok(Runner { bench, packet_ns: Vec::new() })
    }

    fn round(&mut self, packets: u32, stop: &AtomicBool) -> Result<(), TrialError> {
        let trial = self.bench.closed_loop(packets, stop)?;
        let busy_ns: u64 = trial.cores.iter().map(|core| core.busy_ns).sum();
        self.packet_ns.push(busy_ns as f64 / trial.received().max(1) as f64);
        Ok(())
    }
}

/// From the times of each round: of an empty chain, of the chain on one core, and by number of cores under `scr`.
fn costs_of(dispatch: &[f64], single: &[f64], replicated: &[(usize, Vec<f64>)]) -> MeasuredCosts {
    // A chain may cost less than the noise.
    let compute: Vec<f64> = dispatch.iter().zip(single).map(|(d, t)| (t - d).max(0.0)).collect();
    let of_round = |(round, single): (usize, &f64)| {
        let points = replicated.iter().map(|(cores, times)| (*cores, times[round]));
        slope(*single, points).max(0.0)
    };
    let replay: Vec<f64> = single.iter().enumerate().map(of_round).collect();
    let replay_ns = (!replicated.is_empty()).then(|| spread(&replay));
    let [dispatch_ns, compute_ns] = [spread(dispatch), spread(&compute)];
    let one = CoreTime { cores: 1, ns: spread(single) };
    let others = replicated.iter().map(|(cores, times)| CoreTime { cores: *cores, ns: spread(times) });
    let costs = Costs {
        dispatch_ns: dispatch_ns.median,
        compute_ns: compute_ns.median,
        replay_ns: replay_ns.map_or(0.0, |replay| replay.median),
    };
    let packet_ns = [one].into_iter().chain(others).collect();
    MeasuredCosts { costs, dispatch_ns, compute_ns, replay_ns, packet_ns }
}

/// Least squares: how a packet's time grows with each core beside the first, which takes `single`.
fn slope(single: f64, points: impl Iterator<Item = (usize, f64)>) -> f64 {
    let (mut along, mut square) = (0.0, 0.0);
    for (cores, ns) in points {
        let others = cores as f64 - 1.0;
        along += others * (ns - single);
        square += others * others;
    }
    if square > 0.0 { along / square } else { 0.0 }
}

fn spread(values: &[f64]) -> Spread {
    Spread {
        median: values[median_index(values)],
        lowest: values.iter().copied().fold(f64::INFINITY, f64::min),
        highest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use engine::Registry;
    use io::capture::Record;
    use traffic::Model;
    use wire::LinkType;

    use super::*;

    /// By hand, around a slope of 9: (1 * 9 + 3 * 30 + 6 * 54) / (1 + 9 + 36) = 423 / 46.
    #[test]
    fn replay_is_the_slope_through_the_time_on_one_core() {
        let exact = [(2, 69.0), (4, 87.0), (7, 114.0)];
        assert_eq!(slope(60.0, exact.into_iter()), 9.0);
        let near = [(2, 69.0), (4, 90.0), (7, 114.0)];
        assert!((slope(60.0, near.into_iter()) - 423.0 / 46.0).abs() < 1e-12);
        assert_eq!(slope(60.0, [].into_iter()), 0.0);
    }

    #[test]
    fn costs_are_medians_over_rounds() {
        // Round by round: d 10 20 12, t 50 80 54, and at 2 cores 58 90 66: c1 40 60 42, c2 8 10 12.
        let measured = costs_of(&[10.0, 20.0, 12.0], &[50.0, 80.0, 54.0], &[(2, vec![58.0, 90.0, 66.0])]);
        let Costs { dispatch_ns, compute_ns, replay_ns } = measured.costs;
        assert_eq!((dispatch_ns, compute_ns, replay_ns), (12.0, 42.0, 10.0));
        assert_eq!(measured.compute_ns, Spread { median: 42.0, lowest: 40.0, highest: 60.0 });
        assert_eq!(measured.replay_ns, Some(Spread { median: 10.0, lowest: 8.0, highest: 12.0 }));
        let times: Vec<_> = measured.packet_ns.iter().map(|time| (time.cores, time.ns.median)).collect();
        assert_eq!(times, [(1, 54.0), (2, 66.0)]);
        // What noise makes of a chain that costs nothing is not less than nothing.
        let nothing = costs_of(&[10.0], &[9.0], &[(2, vec![8.0])]);
        assert_eq!((nothing.costs.compute_ns, nothing.costs.replay_ns), (0.0, 0.0));
        assert_eq!(costs_of(&[10.0], &[20.0], &[]).replay_ns, None);
    }

    fn measured(functions: &str) -> Result<MeasuredCosts, CostError> {
        let mut trace = Trace::default();
        let model = Model::parse("zipf:packets=3000,flows=100,a=1.1").expect("a model");
        model.generate(|time_ns, data| {
            trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
        });
        let chain = Chain::parse("test.toml", functions, &Registry::stock()).expect("a chain");
        let question = CostQuestion { cores: vec![2, 4], packets: 3_000, rounds: 2 };
        measure_costs(&chain, &trace, &question, &AtomicBool::new(false))
    }

    /// Nothing is promised of the figures.
    #[test]
    fn a_chain_is_measured_on_each_number_of_cores() {
        let measured = measured("[[function]]\nuse = \"conntrack\"\nflows = 512\n").expect("costs");
        let cores: Vec<_> = measured.packet_ns.iter().map(|time| time.cores).collect();
        assert_eq!(cores, [1, 2, 4]);
        assert!(measured.packet_ns.iter().all(|time| time.ns.lowest > 0.0));
        assert!(measured.dispatch_ns.lowest > 0.0);
    }

    /// It looks into payloads ahead of a function with states, which replicas cannot follow.
    #[test]
    fn a_chain_that_cannot_be_replicated_has_no_replay() {
        let functions = "[[function]]\nuse = \"pattern-scanner\"\npatterns = [\"evil\"]\n\
                         [[function]]\nuse = \"heavy-hitters\"\nflows = 512\n";
        let measured = measured(functions).expect("costs");
        assert_eq!((measured.replay_ns, measured.packet_ns.len()), (None, 1));
    }
}
