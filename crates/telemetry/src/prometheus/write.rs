//! Writes a snapshot in Prometheus' text format.

use std::fmt::{Display, Write as _};

use super::families::*;
use crate::snapshot::{CoreSnapshot, FunctionSnapshot, InterfaceSnapshot, RuleSnapshot, StrategySnapshot};
use crate::{FunctionCounts, FunctionLayout, Snapshot, UNKNOWN};

/// A snapshot as Prometheus reads it. O(counters).
pub fn write(snapshot: &Snapshot) -> String {
    let mut text = Text { text: String::new(), snapshot };
    text.run();
    text.cores();
    text.verdicts_and_drops();
    text.moves();
    text.strategy();
    text.functions();
    text.interfaces();
    text.text
}

struct Text<'a> {
    text: String,
    snapshot: &'a Snapshot,
}

type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

impl Text<'_> {
    fn run(&mut self) {
        let layout = &self.snapshot.layout;
        self.family(&INFO);
        self.sample(
            &INFO,
            &[
                ("version", &env!("CARGO_PKG_VERSION")),
                ("chain", &layout.chain),
                ("strategy", &layout.strategy),
            ],
            1,
        );
        self.family(&RUN_SECONDS);
        self.sample(&RUN_SECONDS, &[], self.snapshot.elapsed.as_secs_f64());
    }

    fn cores(&mut self) {
        self.each_core(&PACKETS, |core| Some(core.counts.packets));
        self.each_core(&BYTES, |core| Some(core.counts.bytes));
        let known = |number: u64| Some(number).filter(|number| *number != UNKNOWN);
        self.each_core(&BATCHES, |core| known(core.counts.batches));
        self.each_core(&BUSY, |core| known(core.counts.busy_ns).map(|ns| ns as f64 / 1e9));
        self.each_core(&QUEUE, |core| known(core.counts.queue_depth));
    }

    fn verdicts_and_drops(&mut self) {
        let layout = &self.snapshot.layout;
        self.family(&VERDICTS);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            let counts = &core.counts;
            let verdicts = [counts.forward, counts.dropped(), counts.transmit_back, counts.host];
            for (verdict, packets) in ["forward", "drop", "transmit-back", "host"].iter().zip(verdicts) {
                self.sample(&VERDICTS, &[("core", &number), ("verdict", verdict)], packets);
            }
        }
        self.family(&DROPS);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            let mut drops = |function: &str, reason: &str, packets: u64| {
                let labels: Labels<'_> = &[("core", &number), ("function", &function), ("reason", &reason)];
                self.sample(&DROPS, labels, packets);
            };
            for (function, counted) in layout.functions.iter().zip(&core.functions) {
                for (reason, packets) in function.drop_reasons.iter().zip(&counted.drops) {
                    drops(&function.name, reason, *packets);
                }
            }
            for (reason, packets) in layout.malformed.iter().zip(&core.malformed) {
                // A spoofed packet is dropped whatever becomes of malformed ones.
                if layout.drops_malformed || reason == "spoofed" {
                    drops("malformed", reason, *packets);
                }
            }
            drops("engine", "no-room", core.counts.dropped_no_room);
            drops("engine", "queue-full", core.counts.lost_queue_full);
        }
        self.family(&MALFORMED);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            for (reason, packets) in layout.malformed.iter().zip(&core.malformed) {
                self.sample(&MALFORMED, &[("core", &number), ("reason", reason)], packets);
            }
        }
    }

    fn moves(&mut self) {
        self.each_core(&MOVED_IN, |core| Some(core.counts.moved_in));
        self.each_core(&MOVED_OUT, |core| Some(core.counts.moved_out));
        self.each_core(&HELD, |core| Some(core.counts.held));
        self.family(&OWN);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            let events = self.snapshot.layout.strategy_events.iter().map(String::as_str);
            self.named(&OWN, &[("core", &number)], "event", events.zip(core.strategy_events.iter().copied()));
        }
    }

    fn strategy(&mut self) {
        let StrategySnapshot { runs, cores, active_cores, updates, shards, roles, priority, .. } =
            &self.snapshot.strategy;
        let StrategySnapshot { objective, promotion, choosing, .. } = &self.snapshot.strategy;
        let StrategySnapshot { looks, moves, ratio_changes, .. } = self.snapshot.strategy;
        let says = !runs.is_empty();
        self.family(&RUNS);
        if says {
            self.sample(&RUNS, &[("strategy", runs), ("cores", cores)], 1);
        }
        self.single(&ACTIVE, *active_cores);
        self.single(&LOOKS, says.then_some(looks));
        self.single(&MOVES, says.then_some(moves));
        self.single(&UPDATES, updates.map(|updates| updates.entries));
        self.single(&UPDATE_SECONDS, updates.map(|updates| updates.seconds));
        self.single(&UPDATE_LONGEST, updates.map(|updates| updates.longest_seconds));
        self.family(&SHARD_CORE);
        for (shard, told) in shards.iter().enumerate() {
            self.sample(&SHARD_CORE, &[("shard", &shard)], told.core);
        }
        self.family(&SHARD_OFFLOADED);
        for (shard, told) in shards.iter().enumerate() {
            self.sample(&SHARD_OFFLOADED, &[("shard", &shard)], told.offloaded);
        }
        self.family(&ROLE);
        for (core, (is_worker, is_offloader)) in roles.iter().enumerate() {
            for (role, has) in [("worker", is_worker), ("offloader", is_offloader)] {
                self.sample(&ROLE, &[("core", &core), ("role", &role)], u8::from(*has));
            }
        }
        self.single(&RATIOS, (!shards.is_empty()).then_some(ratio_changes));
        self.family(&PRIORITY);
        for (core, packets) in priority.iter().enumerate() {
            self.sample(&PRIORITY, &[("core", &core)], packets);
        }
        self.single(&SLO, objective.map(|objective| objective.p99_seconds));
        self.single(&SLO_PREDICTED, objective.and_then(|objective| objective.predicted_p99_seconds));
        self.single(&SLO_MEASURED, objective.and_then(|objective| objective.measured_p99_seconds));
        self.single(&UTILISATION, objective.map(|objective| objective.utilisation));
        self.single(&UTILISATION_MOST, objective.map(|objective| objective.most));
        self.single(&PROMOTED, promotion.map(|promotion| promotion.values));
        self.single(&PROMOTED_SHARE, promotion.map(|promotion| promotion.share));
        self.single(&PROMOTIONS, promotion.map(|promotion| promotion.promotions));
        self.single(&DEMOTIONS, promotion.map(|promotion| promotion.demotions));
        let choosing = choosing.as_ref();
        self.single(&CHANGES, choosing.map(|choosing| choosing.changes));
        self.single(&DECIDED_MPPS, choosing.and_then(|choosing| choosing.predicted_mpps));
        self.single(&OUTCOME_MPPS, choosing.and_then(|choosing| choosing.measured_mpps));
        self.family(&CANDIDATES);
        for (strategy, cores, mpps) in choosing.iter().flat_map(|choosing| &choosing.candidates) {
            self.sample(&CANDIDATES, &[("strategy", strategy), ("cores", cores)], mpps);
        }
    }

    /// A family of one sample, or of none.
    fn single<V: Display>(&mut self, family: &Family, value: Option<V>) {
        self.family(family);
        if let Some(value) = value {
            self.sample(family, &[], value);
        }
    }

    fn functions(&mut self) {
        self.each_function(&FUNCTION_PACKETS, |text, labels, _, counted| {
            text.sample(&FUNCTION_PACKETS, labels, counted.counts.packets);
        });
        self.each_function(&FUNCTION_VERDICTS, |text, labels, _, counted| {
            let FunctionCounts { forward, transmit_back, host, .. } = counted.counts;
            let drop: u64 = counted.drops.iter().sum();
            let named =
                [("forward", forward), ("drop", drop), ("transmit-back", transmit_back), ("host", host)];
            text.named(&FUNCTION_VERDICTS, labels, "verdict", named);
        });
        self.each_function(&FLOWS, |text, labels, _, counted| {
            if counted.counts.capacity > 0 {
                text.sample(&FLOWS, labels, counted.counts.live);
            }
        });
        self.each_function(&CAPACITY, |text, labels, _, counted| {
            if counted.counts.capacity > 0 {
                text.sample(&CAPACITY, labels, counted.counts.capacity);
            }
        });
        self.each_function(&LOAD, |text, labels, _, counted| {
            if counted.counts.capacity > 0 {
                text.sample(&LOAD, labels, counted.counts.load());
            }
        });
        self.each_function(&FLOW_CHANGES, |text, labels, _, counted| {
            let FunctionCounts { created, removed, expired, evicted, rejected, .. } = counted.counts;
            let named = [
                ("created", created),
                ("removed", removed),
                ("expired", expired),
                ("evicted", evicted),
                ("rejected", rejected),
            ];
            text.named(&FLOW_CHANGES, labels, "change", named);
        });
        self.each_function(&EVENTS, |text, labels, layout, counted| {
            let events = layout.events.iter().map(String::as_str).zip(counted.events.iter().copied());
            text.named(&EVENTS, labels, "event", events);
        });
        self.family(&RULES);
        for RuleSnapshot { function, rule, decided, .. } in &self.snapshot.rules {
            self.sample(&RULES, &[("function", function), ("rule", rule)], decided);
        }
    }

    fn interfaces(&mut self) {
        let all = &self.snapshot.interfaces;
        let mut each = |family: &Family, value: fn(&InterfaceSnapshot) -> u64| {
            self.family(family);
            for interface in all {
                self.sample(family, &[("interface", &interface.name)], value(interface));
            }
        };
        each(&IF_RECEIVED, |interface| interface.received);
        each(&IF_RECEIVED_BYTES, |interface| interface.received_bytes);
        each(&IF_SENT, |interface| interface.sent);
        each(&IF_SENT_BYTES, |interface| interface.sent_bytes);
        self.family(&IF_LOST);
        for InterfaceSnapshot { name, lost, .. } in all {
            self.named(&IF_LOST, &[("interface", name)], "reason", lost.iter().copied());
        }
    }

    fn each_core<V: Display>(&mut self, family: &Family, value: impl Fn(&CoreSnapshot) -> Option<V>) {
        self.family(family);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            if let Some(value) = value(core) {
                self.sample(family, &[("core", &number)], value);
            }
        }
    }

    fn each_function(
        &mut self,
        family: &Family,
        samples: impl Fn(&mut Self, Labels<'_>, &FunctionLayout, &FunctionSnapshot),
    ) {
        self.family(family);
        for (number, core) in self.snapshot.cores.iter().enumerate() {
            for (layout, counted) in self.snapshot.layout.functions.iter().zip(&core.functions) {
                samples(self, &[("core", &number), ("function", &layout.name)], layout, counted);
            }
        }
    }

    /// Samples that differ in one more label.
    fn named<'a>(
        &mut self,
        family: &Family,
        labels: Labels<'_>,
        label: &str,
        named: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        for (name, value) in named {
            let mut labels = labels.to_vec();
            labels.push((label, &name));
            self.sample(family, &labels, value);
        }
    }

    fn family(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    fn sample(&mut self, family: &Family, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(family.name);
        for (i, (name, label)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            escape(&label.to_string(), &mut self.text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// A label's value as the text has it between quotes.
fn escape(label: &str, text: &mut String) {
    for character in label.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
