//! Measures what a chain costs over a trace, and predicts from it what each strategy will do.

use std::sync::atomic::AtomicBool;

use control::{Choice, Chooser, Costs};
use engine::strategies::{Candidates, RSS, RSSPP, SCR, Strategy};
use engine::{Chain, Plan, Sequencing};
use io::Trace;
use strategy::INDIRECTION_ENTRIES;

use crate::advice::advise;
use crate::compare::{Labels, in_one_line, summary};
use crate::costs::{CoreTime, CostError, CostQuestion, MeasuredCosts, measure_costs};
use crate::forecast::{Advice, Check, Fastest, Forecast, ForecastPoint, RefusedStrategy};
use crate::model::Skew;
use crate::offered::BenchError;

/// What to forecast.
#[derive(Clone, Debug)]
pub struct ForecastQuestion {
    /// How costs are measured.
    pub costs: CostQuestion,
    /// Dispatch to be added to what is measured, ns.
    pub added_dispatch_ns: f64,
    /// The most cores, at least 1 and at most [`engine::MAX_CORES`].
    pub max_cores: usize,
    /// Entries of the indirection table.
    pub indirection_entries: usize,
    /// See [`Forecast::cache_bytes`].
    pub cache_bytes: Option<u64>,
    /// Strategies to choose among: those of them that have a rate model.
    pub strategies: Vec<&'static dyn Strategy>,
}

/// Measures what packets cost on this machine, and predicts from it.
///
/// # Errors
/// [`CostError`], of a chain that cannot run on one core, or a trace without packets.
pub fn forecast(
    chain: &Chain,
    trace: &Trace,
    question: &ForecastQuestion,
    labels: Labels,
    stop: &AtomicBool,
) -> Result<Forecast, CostError> {
    let measured = measure_costs(chain, trace, &question.costs, stop)?;
    let costs =
        Costs { dispatch_ns: measured.costs.dispatch_ns + question.added_dispatch_ns, ..measured.costs };
    let (skew, shared, sharding_refused) = match Sharding::new(chain, trace, question.indirection_entries)? {
        Sharding::Spread { skew, shared } => (Some(skew), shared, None),
        Sharding::Refused(reason) => (None, Vec::new(), Some(reason)),
    };
    let replicates = measured.replay_ns.is_some();
    let replication_refused = (!replicates).then(|| why_not_replicated(chain));
    let trace = summary(chain, trace, question.indirection_entries, labels.source)?;
    let before = |cores: usize| Sequencing::new(chain, cores, false).ok();
    let item_bytes = before(1).map_or(0, |sequencing| sequencing.item_bytes());
    let state_bytes = state_bytes(chain, trace.flows);
    let point = |cores: usize| {
        let shares = skew.as_ref().map(|skew| skew.busiest_shares(cores));
        ForecastPoint {
            cores,
            scr_mpps: (replicates && cores <= sequencer::MAX_CORES).then(|| costs.scr_mpps(cores)),
            rss_mpps: shares.map(|(fixed, _)| costs.sharded_mpps(fixed)),
            rsspp_mpps: shares.map(|(_, balanced)| costs.sharded_mpps(balanced)),
            history_bytes: before(cores)
                .filter(|_| cores > 1)
                .map_or(0, |sequencing| sequencing.prefix_bytes()),
            replica_bytes: state_bytes * cores as u64,
        }
    };
    let (auto, choices) = rest_of_auto(chain, question, &costs, skew.as_ref().map(|skew| skew.loads()));
    let refused = [(RSS, sharding_refused.clone()), (RSSPP, sharding_refused), (SCR, replication_refused)];
    let refused = refused.into_iter().filter_map(|(strategy, reason)| {
        Some(RefusedStrategy { strategy: strategy.name().to_owned(), reason: reason? })
    });
    let mut forecast = Forecast {
        paceline: labels.paceline,
        command: labels.command,
        machine: labels.machine,
        chain: chain.name.clone(),
        functions: chain.functions.iter().map(|spec| spec.name.clone()).collect(),
        trace,
        checks: checks(&measured),
        measured,
        added_dispatch_ns: question.added_dispatch_ns,
        costs,
        item_bytes,
        state_bytes,
        cache_bytes: question.cache_bytes,
        points: (1..=question.max_cores).map(point).collect(),
        refused: refused.collect(),
        shared,
        auto: Some(auto),
        choices,
        advice: Advice::default(),
    };
    forecast.advice = advise(&forecast);
    Ok(forecast)
}

/// Where `auto` comes to rest, once it has measured these costs; and what it expects of each choice.
fn rest_of_auto(
    chain: &Chain,
    question: &ForecastQuestion,
    costs: &Costs,
    loads: Option<&[u64]>,
) -> (Fastest, Vec<Fastest>) {
    let Candidates { all: choices, replay_sixteenths, .. } =
        Candidates::new(chain, question.max_cores, &question.strategies);
    let loads = loads.map_or_else(|| vec![0; INDIRECTION_ENTRIES], <[u64]>::to_vec);
    let chooser = Chooser::knowing(choices.clone(), choices[0], costs, loads).guessing(replay_sixteenths);
    let of = |choice: &Choice| Fastest {
        strategy: choice.model.name.to_owned(),
        cores: choice.cores,
        mpps: chooser.predict(*choice),
    };
    (of(&chooser.best()), choices.iter().map(of).collect())
}

/// What sharding does with a trace.
enum Sharding {
    /// It runs, and all cores share the states of these functions.
    Spread { skew: Box<Skew>, shared: Vec<String> },
    /// It cannot, and why.
    Refused(String),
}

impl Sharding {
    fn new(chain: &Chain, trace: &Trace, indirection_entries: usize) -> Result<Sharding, BenchError> {
        match Plan::new(chain, RSS, 1) {
            Ok(plan) => {
                let plan = Plan { indirection_entries, ..plan };
                let skew = Box::new(Skew::new(chain, &plan, trace)?);
                Ok(Sharding::Spread { skew, shared: plan.shared_names(chain) })
            }
            Err(error) => Ok(Sharding::Refused(in_one_line(error))),
        }
    }
}

fn why_not_replicated(chain: &Chain) -> String {
    let error = Plan::new(chain, SCR, 2).err().map(in_one_line);
    error.unwrap_or_else(|| "there is no memory for replicas".to_owned())
}

/// Bytes that a core's tables take for so many flows, or all of them where there are more.
fn state_bytes(chain: &Chain, flows: u64) -> u64 {
    let of_group = |group: std::ops::Range<usize>| {
        let functions = chain.functions[group].to_vec();
        let room = functions.iter().map(|spec| spec.flows as u64).max().unwrap_or(1).max(1);
        let bytes = Chain { functions, ..chain.clone() }.table_bytes(1, &[]);
        (u128::from(bytes) * u128::from(flows.min(room)) / u128::from(room)) as u64
    };
    chain.groups().into_iter().map(of_group).sum()
}

fn checks(measured: &MeasuredCosts) -> Vec<Check> {
    let check = |time: &CoreTime| Check {
        cores: time.cores,
        is_fitted: time.is_fitted,
        predicted_mpps: measured.costs.scr_mpps(time.cores),
        measured_mpps: time.mpps(0.0),
    };
    measured.packet_ns.iter().map(check).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn chain(functions: &str) -> Chain {
        Chain::parse("test.toml", functions, &stock::registry()).expect("a chain")
    }

    /// A table of 1000 that 100 flows fill to a tenth, and one of 50 that they fill.
    #[test]
    fn state_is_what_the_flows_fill() {
        let [large, small] = [("ddos", 1_000), ("heavy-hitters", 50)]
            .map(|(name, flows)| format!("[[function]]\nuse = \"{name}\"\nflows = {flows}\n"));
        let [large_bytes, small_bytes] = [&large, &small].map(|text| chain(text).table_bytes(1, &[]));
        let both = chain(&format!("{large}{small}"));
        assert_eq!(state_bytes(&both, 100), large_bytes / 10 + small_bytes);
        assert_eq!(state_bytes(&both, 1_000_000), both.table_bytes(1, &[]));
    }
}
