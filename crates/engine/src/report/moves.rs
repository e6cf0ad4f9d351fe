//! What went from core to core in a run, for reports.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::path::moves::{Counter, Moves};
use crate::report::words::plural;
use crate::strategies::account::{ObjectiveTold, SolverTold};
use crate::strategies::plan::Plan;

/// What went from core to core while a run lasted. Properties beside these are what the strategy counts of its own, by name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MovesReport {
    /// What moved with its flows: an `entry` of the indirection table or a `shard` to another core, a `hash` (a value of it) to all cores and
    /// back; under `auto` an `entry, shard or hash`.
    pub what: String,
    /// How often.
    pub moves: u64,
    /// Packets that waited for their flows, each counted once.
    pub waited_packets: u64,
    /// What the strategy counts of its own, each by its name.
    #[serde(flatten)]
    pub counters: BTreeMap<&'static str, u64>,
    /// Its own counters in sentences, without those of which there were none.
    #[serde(skip)]
    said: Vec<String>,
    /// Whether flows go from core to core at all.
    #[serde(skip)]
    has_moves: bool,
    /// Packets with priority, which the core of their shard stepped; null where the chain has no classes.
    pub priority_packets: Option<u64>,
    /// The objective of the chain file, and how it was kept; null where there is none, or no period was over.
    pub objective: Option<ObjectiveTold>,
    /// Under `dyssect`: the solver that decided in place of the greedy one, if one did.
    pub solver: Option<SolverTold>,
}

impl MovesReport {
    /// What moved in a run under this plan; nothing where no flow goes from core to core and the
    /// strategy counts nothing of its own.
    pub fn new(plan: &Plan, moves: &Moves) -> Option<MovesReport> {
        let (info, counters) = (plan.strategy.info(), plan.counters());
        let counted = || counters.iter().map(|counter| (counter, moves.own.of(counter.name)));
        let sentence = |(counter, count): (&&Counter, u64)| {
            (count > 0).then(|| format!("{} {}", plural(count, counter.unit), counter.help))
        };
        let told = plan.account.told();
        let has_moves = plan.rebalancing.is_some();
        (has_moves || !counters.is_empty()).then(|| MovesReport {
            has_moves,
            what: info.unit.to_owned(),
            moves: moves.entries_out,
            waited_packets: moves.waited_packets,
            counters: counted().map(|(counter, count)| (counter.name, count)).collect(),
            said: counted().filter_map(sentence).collect(),
            priority_packets: told.priority.map(|told| told.with_priority),
            objective: told.objective,
            solver: told.solver,
        })
    }

    /// The report in sentences, without the end of the last line.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if self.has_moves {
            let (moves, waited) = (plural(self.moves, "move"), plural(self.waited_packets, "packet"));
            let (what, an) = (&self.what, if self.what.starts_with('e') { "an" } else { "a" });
            lines.push(format!(
                "flows changed cores: {moves} of {an} {what} with its flows; {waited} waited for theirs"
            ));
        }
        lines.extend_from_slice(&self.said);
        if let Some(packets) = self.priority_packets {
            lines.push(format!(
                "{} had priority: no core stepped them for another",
                plural(packets, "packet")
            ));
        }
        if let Some(objective) = &self.objective {
            lines.push(objective.over_the_run(self.priority_packets.is_some()));
        }
        lines.extend(self.solver.iter().map(SolverTold::text));
        lines.join("\n")
    }
}
