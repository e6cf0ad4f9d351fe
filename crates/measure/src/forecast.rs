//! What each strategy will do on any number of cores, and which to use: the JSON of `paceline plan --json`.

use std::sync::atomic::AtomicBool;

use engine::strategies::{RSS, RSSPP, SCR};
use engine::{Chain, Plan};
use io::Trace;
use schemars::JsonSchema;
use sequencer::{HEADER_LEN, ItemLayout};
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, advise};
use crate::compare::{in_one_line, summary};
use crate::costs::CostError;
use crate::{BenchError, CostQuestion, Costs, Labels, MeasuredCosts, Skew, TraceSummary, measure_costs};

/// A chain over a trace: what it costs here, and what follows for more cores than were measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Version of Paceline.
    pub paceline: String,
    /// The command line, to be run again.
    pub command: String,
    /// Processor, logical cores, operating system, in one line.
    pub machine: String,
    /// Name of the chain.
    pub chain: String,
    /// The functions' names in the order of the chain.
    pub functions: Vec<String>,
    /// What was replayed.
    pub trace: TraceSummary,
    /// What was measured.
    pub measured: MeasuredCosts,
    /// Dispatch beside what was measured, ns: that of another backend.
    pub added_dispatch_ns: f64,
    /// What is predicted from: the medians, with the added dispatch.
    pub costs: Costs,
    /// Bytes of an item of history, its time stamp included.
    pub item_bytes: usize,
    /// Bytes of one core's tables as far as the trace's flows fill them, at most.
    pub state_bytes: u64,
    /// Bytes of the last-level cache; absent where the system does not say.
    pub cache_bytes: Option<u64>,
    /// Strategies that cannot run the chain on several cores.
    pub refused: Vec<RefusedStrategy>,
    /// Functions whose states all cores share where packets are sharded, since no hash keeps them on one core.
    pub shared: Vec<String>,
    /// By number of cores, from 1 on.
    pub points: Vec<ForecastPoint>,
    /// Prediction against measurement, under `scr` on virtual cores.
    pub checks: Vec<Check>,
    /// What to use.
    pub advice: Advice,
}

/// One number of cores. Rates are predictions, million packets per second, absent where a strategy cannot run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForecastPoint {
    /// How many.
    pub cores: usize,
    /// Under `scr`.
    pub scr_mpps: Option<f64>,
    /// Under `rss`.
    pub rss_mpps: Option<f64>,
    /// Under `rsspp`, once entries are where they should be: moving them costs nothing here.
    pub rsspp_mpps: Option<f64>,
    /// Bytes of history that a packet carries under `scr`, its header included; 0 on one core.
    pub history_bytes: usize,
    /// Bytes of all replicas of the state under `scr`, at most.
    pub replica_bytes: u64,
}

/// A strategy that cannot run the chain.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefusedStrategy {
    /// Its name.
    pub strategy: String,
    /// Why, in words.
    pub reason: String,
}

/// A number of cores under `scr`, predicted and measured, with the dispatch that was measured and no other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// How many.
    pub cores: usize,
    /// Whether the model was fitted to what was measured there.
    pub is_fitted: bool,
    /// The model's answer, million packets per second.
    pub predicted_mpps: f64,
    /// With all packets there from the beginning, on virtual cores, million packets per second.
    pub measured_mpps: f64,
}

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
    let (item_bytes, state_bytes) =
        (ItemLayout::new(chain.history_bytes()).item_len(), state_bytes(chain, trace.flows));
    let point = |cores: usize| {
        let shares = skew.as_ref().map(|skew| skew.busiest_shares(cores));
        ForecastPoint {
            cores,
            scr_mpps: (replicates && cores <= sequencer::MAX_CORES).then(|| costs.scr_mpps(cores)),
            rss_mpps: shares.map(|(fixed, _)| costs.sharded_mpps(fixed)),
            rsspp_mpps: shares.map(|(_, balanced)| costs.sharded_mpps(balanced)),
            history_bytes: if cores > 1 { HEADER_LEN + (cores - 1) * item_bytes } else { 0 },
            replica_bytes: state_bytes * cores as u64,
        }
    };
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
        advice: Advice::default(),
    };
    forecast.advice = advise(&forecast);
    Ok(forecast)
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
    let check = |time: &crate::CoreTime| Check {
        cores: time.cores,
        is_fitted: time.is_fitted,
        predicted_mpps: measured.costs.scr_mpps(time.cores),
        measured_mpps: time.cores as f64 * 1e3 / time.ns.median,
    };
    measured.packet_ns.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use engine::Registry;

    use super::*;

    fn chain(functions: &str) -> Chain {
        Chain::parse("test.toml", functions, &Registry::stock()).expect("a chain")
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
