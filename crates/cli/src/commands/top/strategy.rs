//! What the strategy says of itself: read, and shown in lines of 80 columns.

use std::collections::BTreeMap;

use telemetry::prometheus::Sample;

use crate::output::{count, percent, plural};

/// What the strategy told at one look; counters from the beginning of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategyReading {
    /// What runs now, and on how many cores.
    runs: Option<(String, u64)>,
    active_cores: Option<f64>,
    looks: f64,
    moves: f64,
    updates: f64,
    update_seconds: f64,
    update_longest: f64,
    /// By shard, its core and the share that another core steps.
    shards: BTreeMap<u64, (u64, f64)>,
    /// By core, whether it is a worker, and an offloader.
    roles: BTreeMap<u64, (bool, bool)>,
    ratio_changes: f64,
    /// By core, packets with priority of the last period.
    priority: BTreeMap<u64, f64>,
    slo: Option<f64>,
    slo_predicted: Option<f64>,
    slo_measured: Option<f64>,
    utilisation: f64,
    utilisation_most: f64,
    promoted: Option<f64>,
    promoted_share: f64,
    promotions: f64,
    demotions: f64,
    changes: Option<f64>,
    predicted: Option<f64>,
    measured: Option<f64>,
    candidates: Vec<(String, f64)>,
    /// What it counts of its own, by name, on all cores.
    events: BTreeMap<String, f64>,
}

impl StrategyReading {
    /// Takes a sample, if it is about the strategy.
    pub fn add(&mut self, sample: &Sample) {
        let Sample { name, value, .. } = sample;
        let number = |label: &str| sample.label(label).parse().unwrap_or(0);
        match name.strip_prefix("paceline_").unwrap_or("") {
            "strategy_runs" => self.runs = Some((sample.label("strategy").to_owned(), number("cores"))),
            "active_cores" => self.active_cores = Some(*value),
            "strategy_looks_total" => self.looks = *value,
            "moves_total" => self.moves = *value,
            "table_updates_total" => self.updates = *value,
            "table_update_seconds_total" => self.update_seconds = *value,
            "table_update_longest_seconds" => self.update_longest = *value,
            "shard_core" => self.shards.entry(number("shard")).or_default().0 = *value as u64,
            "shard_offloaded_ratio" => self.shards.entry(number("shard")).or_default().1 = *value,
            "core_role" => {
                let role = self.roles.entry(number("core")).or_default();
                *(if sample.label("role") == "worker" { &mut role.0 } else { &mut role.1 }) = *value > 0.0;
            }
            "ratio_changes_total" => self.ratio_changes = *value,
            "core_priority_packets" => {
                self.priority.insert(number("core"), *value);
            }
            "slo_p99_seconds" => self.slo = Some(*value),
            "slo_predicted_p99_seconds" => self.slo_predicted = Some(*value),
            "slo_measured_p99_seconds" => self.slo_measured = Some(*value),
            "slo_utilisation_ratio" => self.utilisation = *value,
            "slo_utilisation_limit_ratio" => self.utilisation_most = *value,
            "promoted_values" => self.promoted = Some(*value),
            "promoted_packets_ratio" => self.promoted_share = *value,
            "promotions_total" => self.promotions = *value,
            "demotions_total" => self.demotions = *value,
            "strategy_events_total" => {
                *self.events.entry(sample.label("event").to_owned()).or_default() += value
            }
            "strategy_changes_total" => self.changes = Some(*value),
            "decision_predicted_mpps" => self.predicted = Some(*value),
            "decision_measured_mpps" => self.measured = Some(*value),
            "candidate_predicted_mpps" => {
                self.candidates
                    .push((format!("{} on {}", sample.label("strategy"), sample.label("cores")), *value));
            }
            _ => (),
        }
    }

    /// What there is to say, in lines; none where the strategy says nothing.
    pub fn lines(&self) -> Vec<String> {
        let whole = |number: f64| number as u64;
        let events = self.events.iter().filter(|(_, count)| **count > 0.0);
        let mut events: Vec<String> =
            events.map(|(name, counted)| format!("{name} {}", count(whole(*counted)))).collect();
        events.iter_mut().rev().skip(1).for_each(|event| event.push(','));
        let events =
            if events.is_empty() { Vec::new() } else { wrapped("counted so far:", events.into_iter()) };
        let Some((runs, cores)) = &self.runs else { return events };
        let mut lines = Vec::new();
        if let Some(changes) = self.changes {
            let rate = |what: &str, mpps: Option<f64>| {
                mpps.map(|mpps| format!(", {mpps:.2} Mpps {what}")).unwrap_or_default()
            };
            lines.push(format!(
                "{runs} on {} now{}{}; {} so far",
                plural(*cores, "core"),
                rate("predicted", self.predicted),
                rate("measured", self.measured),
                plural(whole(changes), "change"),
            ));
            let each = self.candidates.iter().map(|(choice, mpps)| format!("{choice} {mpps:.2}"));
            lines.extend(wrapped("Mpps promised:", each));
        }
        for (core, (is_worker, is_offloader)) in &self.roles {
            let role = match (is_worker, is_offloader) {
                (true, true) => "worker and offloader",
                (true, false) => "worker",
                (false, true) => "offloader",
                (false, false) => "idle",
            };
            let theirs = self.shards.iter().filter(|(_, (owner, _))| owner == core);
            let shard = |(shard, (_, offloaded)): (&u64, &(u64, f64))| match offloaded {
                0.0 => shard.to_string(),
                offloaded => format!("{shard} ({} elsewhere)", percent(*offloaded)),
            };
            lines.extend(wrapped(&format!("core {core}, {role}; shards:"), theirs.map(shard)));
        }
        if !self.priority.is_empty() {
            let each =
                self.priority.iter().map(|(core, packets)| format!("{core}: {}", count(whole(*packets))));
            lines.extend(wrapped("packets with priority by core, last period;", each));
        }
        if let Some(slo) = self.slo {
            let us = |seconds: f64| format!("{:.0} us", seconds * 1e6);
            lines.push(format!(
                "objective: 99% wait {} at most; by the model {}{}, busiest core {} of {}",
                us(slo),
                self.slo_predicted.map_or("far more".to_owned(), us),
                self.slo_measured.map_or(String::new(), |seconds| format!(", measured {}", us(seconds))),
                percent(self.utilisation),
                percent(self.utilisation_most),
            ));
        }
        if let Some(promoted) = self.promoted {
            lines.push(format!(
                "{} of the hash promoted, with {} of packets; {}, {}",
                plural(whole(promoted), "value"),
                percent(self.promoted_share),
                plural(whole(self.promotions), "promotion"),
                plural(whole(self.demotions), "demotion"),
            ));
        } else {
            let mut line = format!("{} at loads", plural(whole(self.looks), "look"));
            if !self.shards.is_empty() {
                let (moves, ratios) = (plural(whole(self.moves), "move"), whole(self.ratio_changes));
                line += &format!(", {moves} of shards, {} of ratios", plural(ratios, "change"));
            } else if self.moves > 0.0 || self.active_cores.is_some() {
                line += &format!(", {} of entries", plural(whole(self.moves), "move"));
            }
            if self.updates > 0.0 {
                let us = |seconds: f64| count((seconds * 1e6).round() as u64);
                let mean = us(self.update_seconds / self.updates);
                line += &format!("; acted after {mean} us, at most {}", us(self.update_longest));
            }
            lines.push(line);
        }
        lines.extend(events);
        lines
    }
}

/// Words behind a beginning, in lines of at most 80 characters.
fn wrapped(begin: &str, words: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = vec![begin.to_owned()];
    for word in words {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        match line.chars().count() + 1 + word.chars().count() <= 80 {
            true => *line += &format!(" {word}"),
            false => lines.push(format!("  {word}")),
        }
    }
    lines
}
