//! Chains under an offered load, and what comes of it.
//!
//! | module | what it is |
//! |---|---|
//! | [`Bench`] | a chain on its cores behind a simulated card, for trial after trial |
//! | [`packets_with_history`], [`history_costs`] | history that packets bring along, and what it costs there and in a log |
//! | [`once()`] | one trial on cores that begin without flows, and may hand packets to each other |
//! | [`Schedule`] | what comes to which queue in a trial, told ahead |
//! | [`search()`](search::search) | the search for the highest rate with little loss |
//! | [`Conditions`], [`ThreadClock`] | what else the system ran meanwhile, and when a rate is not to be relied on |
//! | [`findings()`], [`Finding`] | what the figures of a comparison say, and figures that would contradict it |
//! | [`mlffr()`] | that search several times over, and latency below what it found |
//! | [`compare()`], [`Comparison`] | strategies side by side, and what is said of them |
//! | [`measure_costs`], [`Costs`], [`Skew`] | what a packet costs, and what follows for any number of cores |
//! | [`forecast()`], [`Forecast`] | that for all strategies, and which of them to use |
#![forbid(unsafe_code)]

mod advice;
mod bench;
mod compare;
mod comparison;
mod costs;
mod disturbance;
mod executor;
mod findings;
mod forecast;
mod lead;
mod mlffr;
mod model;
mod offered;
mod once;
mod predict;
mod schedule;
pub mod search;
mod sequencer_core;
mod station;
mod steered;
mod stopwatch;
mod top_key;
mod trial;

pub use bench::{Bench, Settings};
pub use compare::{Contest, Labels, compare};
pub use comparison::{
    Clock, Comparison, Conditions, CoreLoad, LatencyPoint, Point, Refused, SequencerLoad, Series, TopKey,
    TraceSummary,
};
pub use control::Costs;
pub use costs::{
    CoreTime, CostError, CostQuestion, HistoryCost, MeasuredCosts, Placement, Spread, history_costs,
    measure_costs,
};
pub use disturbance::{StealClock, ThreadClock, ThreadTime, crowded, decimal, spread_note};
pub use findings::{Finding, Place, Rate, draw_conclusions, findings};
pub use forecast::{Advice, Check, Fastest, Forecast, ForecastPoint, RefusedStrategy};
pub use lead::check_virtual;
pub use mlffr::{Mlffr, Question, Totals, mlffr};
pub use model::Skew;
pub use offered::{BenchError, InPackets, Offered, packets, packets_with_history};
pub use once::{Load, Once, OnceCore, OnceError, once};
pub use predict::{ForecastQuestion, forecast};
pub use schedule::{QueueSchedule, Schedule};
pub use trial::{CoreTrial, Trial, TrialError, Unaccounted};
