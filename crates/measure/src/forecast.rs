//! What each strategy will do on any number of cores, and which to use, as data: the JSON of `paceline plan --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparison::TraceSummary;
use crate::costs::MeasuredCosts;
use control::Costs;

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
    /// Where `auto` comes to rest once it has measured these costs, if traffic stays like this: or at what is less than 5%
    /// below.
    #[serde(default)]
    pub auto: Option<Fastest>,
    /// What `auto` expects of each strategy on each number of cores, by the same costs.
    #[serde(default)]
    pub choices: Vec<Fastest>,
    /// What to use.
    pub advice: Advice,
}

impl Forecast {
    /// Strategies of which nothing but [`Forecast::choices`] says what they are expected to do, in that order.
    pub fn beyond(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for Fastest { strategy, .. } in &self.choices {
            if !["single", "rss", "rsspp", "scr"].contains(&strategy.as_str())
                && !names.contains(&strategy.as_str())
            {
                names.push(strategy);
            }
        }
        names
    }

    /// What `auto` expects of a strategy on so many cores, million packets per second; `None` where it cannot run so.
    pub fn rate(&self, strategy: &str, cores: usize) -> Option<f64> {
        let of_it = self.choices.iter().find(|choice| choice.strategy == strategy && choice.cores == cores);
        of_it.map(|choice| choice.mpps)
    }
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

/// What to use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The strategy, as command lines have it.
    pub strategy: String,
    /// On how many cores.
    pub cores: usize,
    /// The rate predicted for it, million packets per second.
    pub mpps: f64,
    /// The highest rate predicted of any strategy on all cores asked about, whatever it costs; absent where that is one core, or no
    /// strategy can run on several.
    #[serde(default)]
    pub fastest: Option<Fastest>,
    /// Why this strategy and no other; null where the first sentence says it.
    #[serde(default)]
    pub reason: Option<String>,
    /// How far to rely on the predictions, in whole sentences, which are the last of `sentences`; empty where they held and
    /// rounds were alike.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// What to use, why, and where it ends, in whole sentences.
    pub sentences: Vec<String>,
}

/// A strategy and its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fastest {
    /// The strategy, as command lines have it.
    pub strategy: String,
    /// On how many cores.
    pub cores: usize,
    /// The rate predicted for it, million packets per second.
    pub mpps: f64,
}
