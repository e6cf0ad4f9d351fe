//! How a run went on, period by period: what its page draws.

use schemars::JsonSchema;
use serde::Serialize;

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimelineReport {
    /// How long a period is. It grows with the run, so that there are never more than 512.
    pub period_seconds: f64,
    /// One after the other; the last one may be shorter.
    pub periods: Vec<TimePeriod>,
}

/// A period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimePeriod {
    /// When it ended, since the run began.
    pub until_seconds: f64,
    /// How long it was.
    pub seconds: f64,
    /// Each core.
    pub cores: Vec<CorePeriod>,
    /// Cores that got packets in it.
    pub cores_in_use: usize,
    /// What spread packets at its end.
    pub strategy: String,
    /// Entries or shards that were given to other cores.
    pub moves: u64,
    /// Promotions and demotions.
    pub promotions: u64,
    /// Changes of strategy or number of cores.
    pub changes: u64,
    /// The objective of the chain file: how long 99 in 100 packets may wait, µs.
    pub slo_p99_us: Option<f64>,
    /// How long they wait by the model that decides, µs; null where it does not say, or the core has too much to do.
    pub predicted_p99_us: Option<f64>,
    /// How long they waited until their core began with them, as it was measured last, µs; null where packets bring their times along.
    pub measured_p99_us: Option<f64>,
}

/// What a core did in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CorePeriod {
    /// Packets that it received.
    pub packets: u64,
    /// Time that it spent on them.
    pub busy_seconds: f64,
}

impl TimePeriod {
    /// This one and the next as one.
    pub fn and(self, next: TimePeriod) -> TimePeriod {
        let core = |(now, next): (&CorePeriod, &CorePeriod)| CorePeriod {
            packets: now.packets + next.packets,
            busy_seconds: now.busy_seconds + next.busy_seconds,
        };
        let cores: Vec<CorePeriod> = self.cores.iter().zip(&next.cores).map(core).collect();
        TimePeriod {
            seconds: self.seconds + next.seconds,
            cores_in_use: cores.iter().filter(|core| core.packets > 0).count(),
            cores,
            moves: self.moves + next.moves,
            promotions: self.promotions + next.promotions,
            changes: self.changes + next.changes,
            ..next
        }
    }
}
