//! What changed in a run, as far as it can be seen from outside: the last few entries.

use std::collections::{BTreeMap, VecDeque};

use telemetry::Snapshot;

use crate::view::{LogEntry, tenths};
use crate::warnings::Warning;

/// Entries that are kept.
const ENTRIES: usize = 30;

/// A warning that has not been seen for so long is over: what comes and goes each second is one warning.
const OVER_SECONDS: f64 = 10.0;

/// The last changes, and the warnings that are on.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    number: u64,
    /// By what it is about, when it was last seen.
    on: BTreeMap<String, f64>,
}

impl Log {
    /// The newest last.
    pub fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }

    /// Writes down what is other than before.
    pub fn compare(&mut self, before: Option<&Snapshot>, now: &Snapshot, warnings: &[Warning]) {
        let seconds = tenths(now.elapsed.as_secs_f64());
        for text in before.map_or_else(Vec::new, |before| changes(before, now)) {
            self.add(seconds, text);
        }
        for Warning { what, .. } in warnings {
            if self.on.insert(what.clone(), seconds).is_none() {
                self.add(seconds, format!("begins: {what}"));
            }
        }
        let over: Vec<String> = self
            .on
            .iter()
            .filter(|(_, seen)| seconds - **seen > OVER_SECONDS)
            .map(|(what, _)| what.clone())
            .collect();
        for what in over {
            self.on.remove(&what);
            self.add(seconds, format!("over: {what}"));
        }
    }

    fn add(&mut self, seconds: f64, text: String) {
        self.number += 1;
        if self.entries.len() == ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(LogEntry { number: self.number, seconds, text });
    }
}

/// What the strategy did between two snapshots.
fn changes(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let (old, new) = (&before.strategy, &now.strategy);
    let mut found = Vec::new();
    if (&old.runs, old.cores) != (&new.runs, new.cores) && !new.runs.is_empty() {
        found.push(format!("{} runs on {}", new.runs, cores(new.cores)));
    }
    if let (Some(before), Some(now)) = (old.active_cores, new.active_cores)
        && before != now
    {
        found.push(format!("{} get packets, before it were {before}", cores(now)));
    }
    let mut counted = |count: u64, one: &str, many: &str| match count {
        0 => (),
        1 => found.push(format!("1 {one}")),
        count => found.push(format!("{count} {many}")),
    };
    let moves = new.moves.saturating_sub(old.moves);
    match new.shards.is_empty() {
        true => counted(moves, "entry moved to another core", "entries moved to other cores"),
        false => counted(moves, "shard moved to another core", "shards moved to other cores"),
    }
    let ratios = new.ratio_changes.saturating_sub(old.ratio_changes);
    counted(ratios, "shard has another part offloaded", "times another part of a shard was offloaded");
    let promotion = |of: fn(telemetry::PromotionSnapshot) -> u64| {
        let count = |snapshot: &Snapshot| snapshot.strategy.promotion.map_or(0, of);
        count(now).saturating_sub(count(before))
    };
    counted(promotion(|p| p.promotions), "value of the hash promoted", "values of the hash promoted");
    counted(promotion(|p| p.demotions), "value of the hash demoted", "values of the hash demoted");
    found
}

fn cores(cores: usize) -> String {
    if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }
}
