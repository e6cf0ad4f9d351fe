use schemars::JsonSchema;
use serde::Serialize;

use crate::path::receive::Moves;
use crate::report::words::plural;
use crate::strategies::account::{ObjectiveTold, SolverTold};
use crate::strategies::plan::{Plan, States};

/// What went from core to core while a run lasted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MovesReport {
    /// What moved with its flows: an `entry` of the indirection table to another core; or a `shard`; or under `auto` an `entry or shard`; or a
    /// `hash`, a value of it, to all cores.
    pub what: String,
    /// How often.
    pub moves: u64,
    /// Values of the hash whose flows were promoted to all cores: under `hybrid` the same as `moves`, under `auto` in phases under it.
    pub promotions: u64,
    /// Packets that waited for their flows, each counted once.
    pub waited_packets: u64,
    /// How often flows were lent to a core that steps them for another.
    pub parts_lent: u64,
    /// Packets that such a core stepped.
    pub offloaded_packets: u64,
    /// How often there was no room to hand packets on to such a core: they waited.
    pub blocked: u64,
    /// Packets that found their flow where the card had said, without a look-up.
    pub referred_packets: u64,
    /// Packets of which the card said something else than it should from then on: their flow was elsewhere, or ended.
    pub wrong_references: u64,
    /// Packets with priority, which the core of their shard stepped; null where the chain has no classes.
    pub priority_packets: Option<u64>,
    /// The objective of the chain file, and how it was kept; null where there is none, or no period was over.
    pub objective: Option<ObjectiveTold>,
    /// Under `dyssect`: the solver that decided in place of the greedy one, if one did.
    pub solver: Option<SolverTold>,
}

impl MovesReport {
    /// Of a run under this plan; nothing where no flow goes from core to core.
    pub fn new(plan: &Plan, moves: &Moves) -> Option<MovesReport> {
        let Moves { entries_out, waited_packets, offloaded_packets, parts_lent, blocked, .. } = *moves;
        let Moves { referred_packets, wrong_references, promotions, .. } = *moves;
        let what = match plan.states {
            States::PartlyReplicated => "hash",
            States::Changing => "entry or shard",
            _ if plan.shards.is_some() => "shard",
            _ => "entry",
        };
        let told = plan.account.told();
        plan.rebalancing.is_some().then(|| MovesReport {
            what: what.to_owned(),
            moves: if plan.is_partly_replicated() { promotions } else { entries_out },
            promotions,
            waited_packets,
            parts_lent,
            offloaded_packets,
            blocked,
            referred_packets,
            wrong_references,
            priority_packets: told.priority.map(|told| told.with_priority),
            objective: told.objective,
            solver: told.solver,
        })
    }

    /// The same in sentences, without the end of the last line.
    pub fn text(&self) -> String {
        let waited = plural(self.waited_packets, "packet");
        let mut text = match self.what.as_str() {
            "hash" => format!(
                "flows went to all cores and back: {} of a hash with its flows; {waited} waited for copies",
                plural(self.moves, "promotion")
            ),
            what => {
                let an = if what.starts_with('e') { "an" } else { "a" };
                let moves = plural(self.moves, "move");
                let promotions = match self.promotions {
                    0 => String::new(),
                    promotions => format!(", {} of a hash to all cores", plural(promotions, "promotion")),
                };
                format!(
                    "flows changed cores: {moves} of {an} {what} with its flows{promotions}; {waited} waited for theirs"
                )
            }
        };
        if self.parts_lent > 0 {
            text += &format!(
                "\n{} stepped for other cores, which lent their flows {}; {}",
                plural(self.offloaded_packets, "packet"),
                plural(self.parts_lent, "time"),
                match self.blocked {
                    0 => "there was always room to hand them on".to_owned(),
                    blocked => format!("the way was full {}", plural(blocked, "time")),
                }
            );
        }
        if self.referred_packets + self.wrong_references > 0 {
            text += &format!(
                "\nthe card knew the flows of {}; of {} it was wrong, and their flows were looked up",
                plural(self.referred_packets, "packet"),
                self.wrong_references
            );
        }
        if let Some(packets) = self.priority_packets {
            text +=
                &format!("\n{} had priority: no core stepped them for another", plural(packets, "packet"));
        }
        if let Some(objective) = &self.objective {
            text += &format!("\n{}", objective.over_the_run(self.priority_packets.is_some()));
        }
        if let Some(solver) = &self.solver {
            text += &format!("\n{}", solver.text());
        }
        text
    }
}
