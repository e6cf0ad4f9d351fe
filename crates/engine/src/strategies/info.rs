//! What a strategy says of itself, as data.

use control::RateModel;
use strategy::Tunable;

use crate::path::moves::Counter;
use crate::strategies::limits::MAX_CORES;

/// What a strategy says of itself to command lines, plans, reports and metrics, before there is a chain.
#[derive(Clone, Copy, Debug)]
pub struct StrategyInfo {
    /// What command lines and reports call it. No two have the same.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// The most cores that it runs on.
    pub max_cores: usize,
    /// What goes from core to core with its flows, as reports call it: an `entry` of the indirection table, a `shard`, a `hash`.
    pub unit: &'static str,
    /// Whether cores take packets from one queue that all of them have, where there are several: no one picks a core.
    pub has_one_queue: bool,
    /// Whether the number of cores that get packets may change while it runs, where a plan is
    /// [so](crate::Plan::with_cores_to_park); or why not, as the end of a sentence.
    pub parking: Result<(), &'static str>,
    /// Whether a unit can be put on a core by hand; or why not, as the end of a sentence.
    pub pinning: Result<(), &'static str>,
    /// Whether it leaves the chain to other strategies: then [`Strategy::changing`](crate::strategies::Strategy::changing) says which one runs it when.
    pub has_others_run: bool,
    /// What its cores count beside packets and units that move: reports and metrics show these by name.
    pub counters: &'static [&'static Counter],
    /// What it is expected to do with some traffic, by which `plan` and `auto` choose it; `None` where they never do. The model has
    /// the strategy's name. What else `auto` asks for is at [`Candidates`](crate::strategies::Candidates).
    pub rates: Option<&'static RateModel>,
    /// Numbers that its user may set: [`Plan::tunables`](crate::Plan::tunables) has their values.
    pub tunables: &'static [&'static Tunable],
}

impl StrategyInfo {
    /// A strategy on up to [`MAX_CORES`] cores, each of which keeps its flows; with no counters of its own.
    pub const fn new(name: &'static str, summary: &'static str) -> StrategyInfo {
        StrategyInfo {
            name,
            summary,
            max_cores: MAX_CORES,
            unit: "entry",
            has_one_queue: false,
            parking: Err("its cores do not hand their flows to others"),
            pinning: Err("flows stay on their core"),
            has_others_run: false,
            counters: &[],
            rates: None,
            tunables: &[],
        }
    }
}
