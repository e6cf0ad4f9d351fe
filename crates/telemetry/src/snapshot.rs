//! What the cores, interfaces and strategy of a run had counted at one time.

use std::sync::Arc;
use std::time::Duration;

use crate::counts::{CoreCounts, FunctionCounts};
use crate::layout::Layout;

/// What the cores had published at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What the counters are called.
    pub layout: Arc<Layout>,
    /// Since the run began; 0 before that.
    pub elapsed: Duration,
    /// Each core.
    pub cores: Vec<CoreSnapshot>,
    /// The network interfaces, where packets come from some.
    pub interfaces: Vec<InterfaceSnapshot>,
    /// What the strategy says of itself, where it says something.
    pub strategy: StrategySnapshot,
    /// The rules of functions that have some, where they were asked for.
    pub rules: Vec<RuleSnapshot>,
}

/// What a rule of a function had decided, on all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSnapshot {
    /// The function's name.
    pub function: String,
    /// The rule's name: its number, or `default`.
    pub rule: String,
    /// As the chain file has it.
    pub text: String,
    /// How often it was the first that fits, where rules were asked.
    pub decided: u64,
}

/// What an interface had counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSnapshot {
    /// Its name.
    pub name: String,
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that did not come in or did not leave, by reason.
    pub lost: Vec<(&'static str, u64)>,
    /// Those among them that found no room on their way in: the receiver had not taken others in time.
    pub overflowed: u64,
}

impl Snapshot {
    /// Packets that found no room where they were to wait for the cores: on interfaces, or in a queue of each core where there
    /// are none.
    pub fn overflowed(&self) -> u64 {
        if self.interfaces.is_empty() {
            return self.cores.iter().map(|core| core.counts.lost_queue_full).sum();
        }
        self.interfaces.iter().map(|interface| interface.overflowed).sum()
    }
}

/// What a strategy said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategySnapshot {
    /// What runs the chain now, which under `auto` is another strategy; empty where nobody says.
    pub runs: String,
    /// On how many cores.
    pub cores: usize,
    /// How many cores get packets, where some may be parked.
    pub active_cores: Option<usize>,
    /// Looks at the loads.
    pub looks: u64,
    /// Entries or shards that were given to other cores.
    pub moves: u64,
    /// Changes of the table that have come into force with their flows, where flows go from core to core.
    pub updates: Option<UpdateSnapshot>,
    /// Each shard, where there are some.
    pub shards: Vec<ShardSnapshot>,
    /// By core, whether it has shards, and whether it steps flows for another; empty where there are no shards.
    pub roles: Vec<(bool, bool)>,
    /// How often another part of a shard came to be offloaded.
    pub ratio_changes: u64,
    /// By core, packets with priority of the last period; empty where there are no classes.
    pub priority: Vec<u64>,
    /// The objective of the chain file, where the strategy heeds it.
    pub objective: Option<ObjectiveSnapshot>,
    /// What is promoted, where something can be.
    pub promotion: Option<PromotionSnapshot>,
    /// What was chosen, where something can be.
    pub choosing: Option<ChoosingSnapshot>,
}

/// How long changes of the table took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UpdateSnapshot {
    /// Entries.
    pub entries: u64,
    /// All of them together.
    pub seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
}

/// A shard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShardSnapshot {
    /// Its core.
    pub core: usize,
    /// The share of its buckets that another core steps, 0 to 1.
    pub offloaded: f64,
}

/// An objective, and how far the model is from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ObjectiveSnapshot {
    /// How long 99 in 100 packets may wait.
    pub p99_seconds: f64,
    /// How long they wait by the model, where that has an end.
    pub predicted_p99_seconds: Option<f64>,
    /// How long they waited in the last period, where that is measured.
    pub measured_p99_seconds: Option<f64>,
    /// Share of its time that the busiest core is used.
    pub utilisation: f64,
    /// The most that one may be.
    pub most: f64,
}

/// What is promoted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PromotionSnapshot {
    /// Values of the hash, now.
    pub values: usize,
    /// Promotions.
    pub promotions: u64,
    /// Demotions.
    pub demotions: u64,
    /// The share of the last period's packets that promoted values had, 0 to 1.
    pub share: f64,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChoosingSnapshot {
    /// Changes of strategy or cores.
    pub changes: u64,
    /// What it promised, million packets per second.
    pub predicted_mpps: Option<f64>,
    /// What its first epoch came to.
    pub measured_mpps: Option<f64>,
    /// Strategy, cores, and what they are predicted to do.
    pub candidates: Vec<(String, usize, f64)>,
}

/// What one core had published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreSnapshot {
    /// The core itself.
    pub counts: CoreCounts,
    /// Malformed packets, dropped or not, in the order of [`Layout::malformed`].
    pub malformed: Vec<u64>,
    /// What the strategy counts of its own, in the order of [`Layout::strategy_events`].
    pub strategy_events: Vec<u64>,
    /// Its functions, in the order of [`Layout::functions`].
    pub functions: Vec<FunctionSnapshot>,
}

/// What one function on one core had published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSnapshot {
    /// The function itself.
    pub counts: FunctionCounts,
    /// By drop reason, in the order of its layout.
    pub drops: Vec<u64>,
    /// By event, in the order of its layout.
    pub events: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where interfaces tell what they lost, what cores say of their queues does not count again.
    #[test]
    fn what_overflowed_counts_once() {
        let counts = CoreCounts { lost_queue_full: 7, ..CoreCounts::default() };
        let core = CoreSnapshot {
            counts,
            malformed: Vec::new(),
            strategy_events: Vec::new(),
            functions: Vec::new(),
        };
        let interface = |overflowed| InterfaceSnapshot { overflowed, ..InterfaceSnapshot::default() };
        let mut snapshot = Snapshot {
            layout: Arc::new(Layout::default()),
            elapsed: Duration::ZERO,
            cores: vec![core.clone(), core],
            interfaces: Vec::new(),
            strategy: StrategySnapshot::default(),
            rules: Vec::new(),
        };
        assert_eq!(snapshot.overflowed(), 14);
        snapshot.interfaces = vec![interface(11), interface(3)];
        assert_eq!(snapshot.overflowed(), 14);
        snapshot.interfaces = vec![interface(20), interface(0)];
        assert_eq!(snapshot.overflowed(), 20);
    }
}
