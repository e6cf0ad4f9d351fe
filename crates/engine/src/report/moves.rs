use schemars::JsonSchema;
use serde::Serialize;

use crate::path::receive::Moves;
use crate::report::words::plural;
use crate::strategies::account::SolverTold;
use crate::strategies::plan::Plan;

/// What went from core to core while a run lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MovesReport {
    /// What moved: `entry` of the indirection table, with its flows, to another core; or `hash`, a value of it whose flows were
    /// promoted to all cores.
    pub what: String,
    /// How often.
    pub moves: u64,
    /// Packets that waited for their flows.
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
    /// Under `dyssect`: the solver that decided in place of the greedy one, if one did.
    pub solver: Option<SolverTold>,
}

impl MovesReport {
    /// Of a run under this plan; nothing where no flow goes from core to core.
    pub fn new(plan: &Plan, moves: &Moves) -> Option<MovesReport> {
        let Moves { entries_out, waited_packets, offloaded_packets, parts_lent, blocked, .. } = *moves;
        let Moves { referred_packets, wrong_references, .. } = *moves;
        let what = if plan.is_partly_replicated() { "hash" } else { "entry" };
        let told = plan.account.told();
        plan.rebalancing.is_some().then(|| MovesReport {
            what: what.to_owned(),
            moves: entries_out,
            waited_packets,
            parts_lent,
            offloaded_packets,
            blocked,
            referred_packets,
            wrong_references,
            priority_packets: told.priority.map(|told| told.with_priority),
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
            _ => format!(
                "flows changed cores: {} of an entry with its flows; {waited} waited for theirs",
                plural(self.moves, "move")
            ),
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
        if let Some(solver) = &self.solver {
            text += &format!("\n{}", solver.text());
        }
        text
    }
}
