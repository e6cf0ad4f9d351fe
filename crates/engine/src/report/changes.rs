//! What the report says of changes from strategy to strategy.

use control::Decision;
use schemars::JsonSchema;
use serde::Serialize;

use crate::report::words::{count, percent, plural};
use crate::strategies::changing::{Change, Changes, Decided};

/// What ran the chain, under a strategy that has others run it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangesReport {
    /// One after the other.
    pub phases: Vec<PhaseReport>,
    /// Strategies that could not take part.
    pub left_out: Vec<LeftOut>,
}

/// Packets that one strategy ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseReport {
    /// Packets that came before it.
    pub after: u64,
    /// The strategy.
    pub strategy: String,
    /// On how many cores.
    pub cores: usize,
    /// Its packets.
    pub packets: u64,
    /// For how long no packet was received while cores worked off those that they had, and flows went to their cores.
    pub pause_seconds: f64,
    /// Why it began: `first`, `drawn` at random, or `better`.
    pub why: String,
    /// What it promised; null unless it was better.
    pub decision: Option<DecisionReport>,
    /// The rate of its first epoch if the busiest core had had no pause, million packets per second; null where it was not
    /// measured.
    pub measured_mpps: Option<f64>,
}

/// What a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DecisionReport {
    /// The rate predicted for it, million packets per second.
    pub predicted_mpps: f64,
    /// The rate predicted for what ran before, million packets per second.
    pub before_mpps: f64,
    /// What a packet costs its core, ns.
    pub packet_ns: f64,
    /// What a packet of another core costs a replica, ns.
    pub replay_ns: f64,
    /// Whether that was measured, and not guessed.
    pub replay_measured: bool,
    /// Share of the busiest core's packets if a hash spreads them over so many cores, 0 to 1.
    pub busiest_share: f64,
}

/// A strategy that could not take part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Its name.
    pub strategy: String,
    /// Why.
    pub why: String,
}

/// Phases that the text shows.
const SHOWN: usize = 20;

impl ChangesReport {
    /// The report of a run; `None` where one strategy ran it all.
    pub fn new(changes: &Changes) -> Option<ChangesReport> {
        let left_out = |(strategy, why): &(&'static str, String)| LeftOut {
            strategy: (*strategy).to_owned(),
            why: why.clone(),
        };
        (!changes.phases.is_empty()).then(|| ChangesReport {
            phases: changes.phases.iter().map(phase).collect(),
            left_out: changes.left_out.iter().map(left_out).collect(),
        })
    }

    /// How often strategies changed, and which ran, in lines.
    pub fn summary(&self) -> String {
        let mut strategies: Vec<&str> = self.phases.iter().map(|phase| &*phase.strategy).collect();
        strategies.sort_unstable();
        strategies.dedup();
        let changes = plural(self.phases.len() as u64 - 1, "change");
        let text = format!("{changes} of strategy or cores on the way; {} ran\n", strategies.join(", "));
        text + &self.left_out_text()
    }

    /// Phase by phase, in lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for phase in self.phases.iter().take(SHOWN) {
            text += &phase.text();
        }
        if let Some(more) = self.phases.len().checked_sub(SHOWN + 1) {
            text += &format!("and {}: --json has them all\n", plural(more as u64 + 1, "phase"));
        }
        text + &self.left_out_text()
    }

    /// A line for each reason.
    fn left_out_text(&self) -> String {
        let mut text = String::new();
        for (at, LeftOut { why, .. }) in self.left_out.iter().enumerate() {
            if self.left_out[..at].iter().any(|earlier| earlier.why == *why) {
                continue;
            }
            let alike = self.left_out.iter().filter(|left_out| left_out.why == *why);
            let strategies: Vec<&str> = alike.map(|left_out| left_out.strategy.as_str()).collect();
            text += &format!("left out: {}, because {why}\n", strategies.join(", "));
        }
        text
    }
}

fn phase(change: &Change) -> PhaseReport {
    let (why, decision) = match &change.why {
        Decided::First => ("first", None),
        Decided::Drawn => ("drawn", None),
        Decided::Better(decision) => ("better", Some(*decision)),
    };
    let decided = |decision: Decision| DecisionReport {
        predicted_mpps: decision.to_mpps,
        before_mpps: decision.from_mpps,
        packet_ns: decision.packet_ns,
        replay_ns: decision.replay_ns,
        replay_measured: decision.has_measured_replay,
        busiest_share: decision.busiest_share,
    };
    PhaseReport {
        after: change.after,
        strategy: change.strategy.to_owned(),
        cores: change.cores,
        packets: change.packets,
        pause_seconds: change.pause.as_secs_f64(),
        why: why.to_owned(),
        decision: decision.map(decided),
        measured_mpps: change.measured_mpps,
    }
}

impl PhaseReport {
    /// `from packet 1 on: rss on 2 cores, 600 packets; ...`
    fn text(&self) -> String {
        let mut text = format!(
            "from packet {}: {} on {}, {}",
            count(self.after + 1),
            self.strategy,
            plural(self.cores as u64, "core"),
            plural(self.packets, "packet"),
        );
        let measured = self.measured_mpps.map(|mpps| format!("{mpps:.2} Mpps measured"));
        if let Some(decision) = &self.decision {
            text += &format!(
                "; {:.2} Mpps predicted, {:.2} for what ran before",
                decision.predicted_mpps, decision.before_mpps
            );
            text += &measured.map(|measured| format!(", {measured}")).unwrap_or_default();
            text += &format!(
                "\n  a packet costs {:.0} ns, one of another core {:.0} ns{}; by hash the busiest core would have {}; packets waited {:.1} ms\n",
                decision.packet_ns,
                decision.replay_ns,
                if decision.replay_measured { "" } else { " (a guess)" },
                percent(decision.busiest_share),
                1e3 * self.pause_seconds,
            );
            return text;
        }
        if self.why == "drawn" {
            text += ", drawn at random";
            if self.after > 0 {
                text += &format!("; packets waited {:.1} ms", 1e3 * self.pause_seconds);
            }
        }
        text + &measured.map(|measured| format!("; {measured}")).unwrap_or_default() + "\n"
    }
}
