//! What a packet costs here, measured: SCR's d, c1 and c2 (App. A) for a chain over a trace.

use std::sync::atomic::AtomicBool;

use engine::strategies::{SCR, SINGLE, Strategy};
use engine::{Chain, Plan, PlanError, SequencedAs};
use io::Trace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bench::{Bench, Settings};
use crate::comparison::Clock;
use crate::offered::{BenchError, InPackets, Offered, packets, packets_with_history};
use crate::search::median_index;
use crate::trial::TrialError;
use control::Costs;

/// How costs are measured.
#[derive(Clone, Debug)]
pub struct CostQuestion {
    /// Numbers of cores under `scr` that the time of replay is taken from, each above 1.
    pub cores: Vec<usize>,
    /// Others on which a packet's time is measured as well, to see what the model is worth.
    pub unseen_cores: Vec<usize>,
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
    /// What a core spends more on a packet of its own once it steps those of others, ns; absent as *c2* is.
    pub carry_ns: Option<Spread>,
    /// What the sequencer spends on a packet, a core in front of the others, ns: the medians on each number of cores;
    /// absent as *c2* is.
    #[serde(default)]
    pub sequencer_ns: Option<Spread>,
    /// Time for a packet of a core's own, by number of cores, one first.
    pub packet_ns: Vec<CoreTime>,
}

/// Time that a core takes for a packet of its own, with those of other cores that it steps before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Cores that share the packets.
    pub cores: usize,
    /// Whether *c2* was taken from it, and not from others alone.
    pub is_fitted: bool,
    /// Its time, ns.
    pub ns: Spread,
    /// The sequencer's time for a packet of any core, ns; absent where there is none.
    #[serde(default)]
    pub sequencer_ns: Option<Spread>,
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
    /// The sequencer's time for a packet by round, ns; empty if there is none.
    sequencer_ns: Vec<f64>,
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
    let mut dispatch = Runner::new(&empty, trace, SINGLE, 1, stop)?;
    let mut single = Runner::new(chain, trace, SINGLE, 1, stop)?;
    let mut replicated = Vec::new();
    let fitted = question.cores.iter().map(|cores| (*cores, true));
    let unseen = question.unseen_cores.iter().map(|cores| (*cores, false));
    for (cores, is_fitted) in fitted.chain(unseen) {
        match Runner::new(chain, trace, SCR, cores, stop) {
            Ok(runner) => replicated.push((cores, is_fitted, runner)),
            Err(CostError::Plan(PlanError::Payload { .. } | PlanError::Memory { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    for _ in 0..question.rounds {
        let others = replicated.iter_mut().map(|(.., runner)| runner);
        for runner in [&mut dispatch, &mut single].into_iter().chain(others) {
            runner.round(question.packets, stop)?;
        }
    }
    let times = |(cores, is_fitted, Runner { packet_ns, sequencer_ns, .. }): (usize, bool, Runner)| {
        Replicated { cores, is_fitted, packet_ns, sequencer_ns }
    };
    let replicated: Vec<_> = replicated.into_iter().map(times).collect();
    Ok(costs_of(&dispatch.packet_ns, &single.packet_ns, &replicated))
}

impl Runner {
    fn new(
        chain: &Chain,
        trace: &Trace,
        strategy: &'static dyn Strategy,
        cores: usize,
        stop: &AtomicBool,
    ) -> Result<Runner, CostError> {
        let plan = Plan::new(chain, strategy, cores)?;
        Runner::over(chain, &plan, packets(chain, &plan, trace)?, stop)
    }

    fn over(chain: &Chain, plan: &Plan, offered: Offered, stop: &AtomicBool) -> Result<Runner, CostError> {
        let settings = Settings { clock: Clock::Virtual, descriptors: 256, is_shaped: false, dispatch_ns: 0 };
        let mut bench = Bench::new(chain, plan, offered, settings)?;
        bench.warm_up(stop)?;
        Ok(Runner { bench, packet_ns: Vec::new(), sequencer_ns: Vec::new() })
    }

    fn round(&mut self, packets: u32, stop: &AtomicBool) -> Result<(), TrialError> {
        let trial = self.bench.closed_loop(packets, stop)?;
        let busy_ns: u64 = trial.cores.iter().map(|core| core.busy_ns).sum();
        self.packet_ns.push(busy_ns as f64 / trial.received().max(1) as f64);
        self.sequencer_ns.extend(trial.sequencer_load().map(|load| load.packet_ns));
        Ok(())
    }
}

/// Where the history of packets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// In the log that the sequencer writes during the trial, and all cores read.
    Log,
    /// Before each packet, put there ahead of the trial, by a sequencer outside whose time is not counted.
    Packets,
    /// Before each packet, put there ahead of the trial, and recorded, so that losses can be recovered; there are
    /// none.
    PacketsRecovered,
    /// Before each packet in version 1 of the format, whose items hold headers and not what functions read of them.
    PacketsOfHeaders,
}

impl Placement {
    /// All, in this order.
    pub const ALL: [Placement; 4] =
        [Placement::Log, Placement::Packets, Placement::PacketsRecovered, Placement::PacketsOfHeaders];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Log => "log",
            Placement::Packets => "packets",
            Placement::PacketsRecovered => "packets, recovery on",
            Placement::PacketsOfHeaders => "packets, version 1",
        }
    }
}

/// What history costs where it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HistoryCost {
    /// Where.
    pub placement: Placement,
    /// Time for a packet of a core's own, by number of cores.
    pub packet_ns: Vec<CoreTime>,
    /// How that grows with each core, and so with each item of history, ns: least squares; 0 where there are fewer than
    /// two numbers of cores.
    pub item_ns: Spread,
}

/// Measures the same chain with its history in each place, on virtual cores and in rounds as [`measure_costs`] does.
///
/// # Errors
/// [`CostError`]; also where the chain cannot be replicated.
pub fn history_costs(
    chain: &Chain,
    trace: &Trace,
    question: &CostQuestion,
    stop: &AtomicBool,
) -> Result<Vec<HistoryCost>, CostError> {
    let mut runners = Vec::new();
    for cores in &question.cores {
        let plan = Plan::new(chain, SCR, *cores)?;
        for placement in Placement::ALL {
            let has_recovery = placement == Placement::PacketsRecovered;
            let version = match placement {
                Placement::PacketsOfHeaders => SequencedAs::Headers,
                _ => SequencedAs::Newest,
            };
            let how = InPackets { version, has_recovery, loss: None };
            let offered = match placement {
                Placement::Log => packets(chain, &plan, trace),
                _ => packets_with_history(chain, &plan, trace, how),
            };
            runners.push((placement, *cores, Runner::over(chain, &plan, offered?, stop)?));
        }
    }
    for _ in 0..question.rounds {
        for (.., runner) in &mut runners {
            runner.round(question.packets, stop)?;
        }
    }
    let cost = |placement: Placement| {
        let of = || runners.iter().filter(move |(other, ..)| *other == placement);
        let packet_ns = of()
            .map(|(_, cores, runner)| CoreTime::new(*cores, true, &runner.packet_ns, &runner.sequencer_ns));
        let item_ns: Vec<f64> = (0..question.rounds)
            .map(|round| {
                growth(&of().map(|(_, cores, runner)| (*cores, runner.packet_ns[round])).collect::<Vec<_>>())
            })
            .collect();
        HistoryCost { placement, packet_ns: packet_ns.collect(), item_ns: spread(&item_ns) }
    };
    Ok(Placement::ALL.map(cost).into())
}

/// Least squares: how a packet's time grows with each core.
fn growth(points: &[(usize, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_others = points.iter().map(|(cores, _)| *cores as f64 - 1.0).sum::<f64>() / count;
    slope(points, mean_others, points.iter().map(|(_, ns)| ns).sum::<f64>() / count)
}

/// Times under `scr`, ns, by round.
struct Replicated {
    cores: usize,
    is_fitted: bool,
    packet_ns: Vec<f64>,
    sequencer_ns: Vec<f64>,
}

impl CoreTime {
    fn new(cores: usize, is_fitted: bool, packet_ns: &[f64], sequencer_ns: &[f64]) -> CoreTime {
        let sequencer_ns = (!sequencer_ns.is_empty()).then(|| spread(sequencer_ns));
        CoreTime { cores, is_fitted, ns: spread(packet_ns), sequencer_ns }
    }

    /// Million packets per second of so many cores, each with its share of the packets and `dispatch_ns` more for each of
    /// them, and of the sequencer in front.
    pub fn mpps(&self, dispatch_ns: f64) -> f64 {
        let mpps = self.cores as f64 * 1e3 / (self.ns.median + dispatch_ns);
        self.sequencer_ns.map_or(mpps, |sequencer| mpps.min(1e3 / sequencer.median))
    }
}

/// From the times of each round: of an empty chain, of the chain on one core, and by number of cores under `scr`.
fn costs_of(dispatch: &[f64], single: &[f64], replicated: &[Replicated]) -> MeasuredCosts {
    // A chain may cost less than the noise.
    let compute: Vec<f64> = dispatch.iter().zip(single).map(|(d, t)| (t - d).max(0.0)).collect();
    let of_round = |(round, single): (usize, &f64)| {
        let fitted = replicated.iter().filter(|times| times.is_fitted);
        let points = fitted.map(|times| (times.cores, times.packet_ns[round]));
        fit(*single, &points.collect::<Vec<_>>())
    };
    let (replay, carry): (Vec<f64>, Vec<f64>) = single.iter().enumerate().map(of_round).unzip();
    let replay_ns = replicated.iter().any(|times| times.is_fitted).then(|| (spread(&replay), spread(&carry)));
    let (replay_ns, carry_ns) = replay_ns.unzip();
    let [dispatch_ns, compute_ns] = [spread(dispatch), spread(&compute)];
    let mut packet_ns = vec![CoreTime::new(1, true, single, &[])];
    packet_ns.extend(
        replicated
            .iter()
            .map(|times| CoreTime::new(times.cores, times.is_fitted, &times.packet_ns, &times.sequencer_ns)),
    );
    packet_ns.sort_by_key(|time| time.cores);
    let sequencer: Vec<f64> =
        packet_ns.iter().filter_map(|time| time.sequencer_ns).map(|ns| ns.median).collect();
    let sequencer_ns = (!sequencer.is_empty()).then(|| spread(&sequencer));
    let costs = Costs {
        dispatch_ns: dispatch_ns.median,
        compute_ns: compute_ns.median,
        replay_ns: replay_ns.map_or(0.0, |replay| replay.median),
        carry_ns: carry_ns.map_or(0.0, |carry| carry.median),
        sequencer_ns: sequencer_ns.map_or(0.0, |sequencer| sequencer.median),
    };
    MeasuredCosts { costs, dispatch_ns, compute_ns, replay_ns, carry_ns, sequencer_ns, packet_ns }
}

/// Least squares: how a packet's time grows with each core beside the first, and how far the line for several cores
/// lies above `single`, the time on one. Neither is less than nothing: where the line would begin below, it goes
/// through the time on one core.
fn fit(single: f64, points: &[(usize, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let others = |cores: usize| cores as f64 - 1.0;
    let mean_others = points.iter().map(|(cores, _)| others(*cores)).sum::<f64>() / count;
    let mean_ns = points.iter().map(|(_, ns)| ns).sum::<f64>() / count;
    let free = slope(points, mean_others, mean_ns).max(0.0);
    let carry = mean_ns - free * mean_others - single;
    match points.len() > 1 && carry > 0.0 {
        true => (free, carry),
        false => (slope(points, 0.0, single).max(0.0), 0.0),
    }
}

/// Slope of the line through a point, which has so many cores beside the first.
fn slope(points: &[(usize, f64)], through_others: f64, through_ns: f64) -> f64 {
    let (mut along, mut square) = (0.0, 0.0);
    for (cores, ns) in points {
        let others = *cores as f64 - 1.0 - through_others;
        along += others * (ns - through_ns);
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
    use io::capture::Record;
    use traffic::Model;
    use wire::LinkType;

    use super::*;

    #[test]
    fn replay_is_the_slope_and_carrying_the_step_to_it() {
        // 60, and then 9 for each other core; the same with 20 more on all but one core.
        assert_eq!(fit(60.0, &[(2, 69.0), (4, 87.0), (7, 114.0)]), (9.0, 0.0));
        assert_eq!(fit(60.0, &[(2, 89.0), (4, 107.0), (7, 134.0)]), (9.0, 20.0));
        // One point has no slope of its own; below one core's time the line begins there, and
        // (1 * 4 + 3 * 24 + 6 * 54) / (1 + 9 + 36) = 400 / 46.
        assert_eq!(fit(60.0, &[(4, 90.0)]), (10.0, 0.0));
        let (replay, carry) = fit(60.0, &[(2, 64.0), (4, 84.0), (7, 114.0)]);
        assert!((replay - 400.0 / 46.0).abs() < 1e-12 && carry == 0.0, "{replay}");
        // Around the means 10 / 3 and 111: (-7 / 3 * -22 + 1 / 3 + 8 / 3 * 23) / (114 / 9) = 339 / 38.
        let (replay, carry) = fit(60.0, &[(2, 89.0), (4, 110.0), (7, 134.0)]);
        assert!(
            (replay - 339.0 / 38.0).abs() < 1e-9 && (carry - 51.0 + 1130.0 / 38.0).abs() < 1e-9,
            "{replay}, {carry}"
        );
        assert_eq!(fit(60.0, &[]), (0.0, 0.0));
    }

    #[test]
    fn costs_are_medians_over_rounds() {
        // Round by round: d 10 20 12, t 50 80 54, and at 2 cores 58 90 66: c1 40 60 42, c2 8 10 12.
        let replicated = |cores, is_fitted, times: &[f64], sequencer_ns: &[f64]| Replicated {
            cores,
            is_fitted,
            packet_ns: times.into(),
            sequencer_ns: sequencer_ns.into(),
        };
        let two = replicated(2, true, &[58.0, 90.0, 66.0], &[20.0, 50.0, 40.0]);
        // What the fit has not seen changes nothing of it.
        let eight = replicated(8, false, &[500.0, 500.0, 500.0], &[30.0, 30.0, 30.0]);
        let measured = costs_of(&[10.0, 20.0, 12.0], &[50.0, 80.0, 54.0], &[eight, two]);
        let expected =
            Costs { dispatch_ns: 12.0, compute_ns: 42.0, replay_ns: 10.0, carry_ns: 0.0, sequencer_ns: 30.0 };
        assert_eq!(measured.costs, expected);
        assert_eq!(measured.compute_ns, Spread { median: 42.0, lowest: 40.0, highest: 60.0 });
        assert_eq!(measured.replay_ns, Some(Spread { median: 10.0, lowest: 8.0, highest: 12.0 }));
        let times: Vec<_> = measured.packet_ns.iter().map(|time| (time.cores, time.ns.median)).collect();
        assert_eq!(times, [(1, 54.0), (2, 66.0), (8, 500.0)]);
        // 2000 / 66 Mpps are more than the sequencer's 1000 / 40, and 8000 / 500 less than 1000 / 30.
        let rates =
            |dispatch_ns| measured.packet_ns.iter().map(|time| time.mpps(dispatch_ns)).collect::<Vec<_>>();
        assert_eq!(rates(0.0), [1e3 / 54.0, 25.0, 16.0]);
        assert_eq!(rates(34.0), [1e3 / 88.0, 20.0, 8e3 / 534.0]);
        // What noise makes of a chain that costs nothing is not less than nothing.
        let nothing = costs_of(&[10.0], &[9.0], &[replicated(2, true, &[8.0], &[])]);
        assert_eq!((nothing.costs.compute_ns, nothing.costs.replay_ns), (0.0, 0.0));
        assert_eq!(costs_of(&[10.0], &[20.0], &[]).replay_ns, None);
    }

    fn measured(functions: &str) -> Result<MeasuredCosts, CostError> {
        let mut trace = Trace::default();
        let model = Model::parse("zipf:packets=3000,flows=100,a=1.1").expect("a model");
        model.generate(|time_ns, data| {
            trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
        });
        let chain = Chain::parse("test.toml", functions, &stock::registry()).expect("a chain");
        let question = CostQuestion { cores: vec![2], unseen_cores: vec![4], packets: 3_000, rounds: 2 };
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
        // One core alone has no sequencer.
        let is_sequenced: Vec<_> =
            measured.packet_ns.iter().map(|time| time.sequencer_ns.is_some()).collect();
        assert_eq!(is_sequenced, [false, true, true]);
        assert!(measured.sequencer_ns.is_some_and(|ns| ns.lowest > 0.0));
    }

    /// It looks into payloads ahead of a function with states, which replicas cannot follow.
    #[test]
    fn a_chain_that_cannot_be_replicated_has_no_replay() {
        let functions = "[[function]]\nuse = \"pattern-scanner\"\npatterns = [\"evil\"]\n\
                         [[function]]\nuse = \"heavy-hitters\"\nflows = 512\n";
        let measured = measured(functions).expect("costs");
        assert_eq!((measured.replay_ns, measured.packet_ns.len()), (None, 1));
    }

    /// 20 and 6 for each other core, whatever the first takes.
    #[test]
    fn an_item_costs_what_a_core_adds() {
        assert!((growth(&[(1, 20.0), (2, 26.0), (4, 38.0)]) - 6.0).abs() < 1e-12);
        assert_eq!(growth(&[(4, 38.0)]), 0.0);
    }

    #[test]
    fn history_is_measured_in_each_place() {
        let mut trace = Trace::default();
        Model::parse("zipf:packets=2000,flows=100,a=1.1").expect("a model").generate(|time_ns, data| {
            trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
        });
        let functions = "[[function]]\nuse = \"policer\"\nflows = 512\n";
        let chain = Chain::parse("test.toml", functions, &stock::registry()).expect("a chain");
        let question =
            CostQuestion { cores: vec![1, 3], unseen_cores: Vec::new(), packets: 2_000, rounds: 1 };
        let costs = history_costs(&chain, &trace, &question, &AtomicBool::new(false)).expect("costs");
        let shape: Vec<_> = costs.iter().map(|cost| (cost.placement, cost.packet_ns.len())).collect();
        assert_eq!(shape, Placement::ALL.map(|placement| (placement, 2)));
        assert!(costs.iter().flat_map(|cost| &cost.packet_ns).all(|time| time.ns.lowest > 0.0));
        let sequenced = costs.iter().map(|cost| cost.packet_ns[1].sequencer_ns.is_some());
        assert!(sequenced.eq([true, false, false, false]), "only the log is written meanwhile");
    }
}
