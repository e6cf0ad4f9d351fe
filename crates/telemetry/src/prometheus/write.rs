//! Writes a snapshot in Prometheus' text format.

use std::fmt::{Display, Write as _};

use crate::snapshot::{CoreSnapshot, FunctionSnapshot, InterfaceSnapshot, StrategySnapshot};
use crate::{FunctionCounts, FunctionLayout, Snapshot, UNKNOWN};

/// Samples of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, with its unit.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: Kind,
    /// What it says, in one line.
    pub help: &'static str,
}

/// What a family is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never runs back.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Kind {
    /// As the text has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

macro_rules! families {
    ($($id:ident $kind:ident $name:literal $help:literal;)+) => {
        $(const $id: Family = Family { name: $name, kind: Kind::$kind, help: $help };)+

        /// All that is told, in the order of the text.
        pub const FAMILIES: &[Family] = &[$($id),+];
    };
}

families! {
    INFO Gauge "paceline_info" "Always 1; labels say what runs.";
    RUN_SECONDS Gauge "paceline_run_seconds" "Time since the run began.";
    PACKETS Counter "paceline_packets_total" "Packets received.";
    BYTES Counter "paceline_bytes_total" "Bytes received, as long as they were on the wire.";
    BATCHES Counter "paceline_batches_total" "Batches received, of 1 to 64 packets.";
    BUSY Counter "paceline_busy_seconds_total" "Time spent on packets, without waiting for them.";
    QUEUE Gauge "paceline_queue_depth" "Packets waiting in the receive queue when the core last looked.";
    VERDICTS Counter "paceline_verdicts_total" "Packets by what became of them.";
    DROPS Counter "paceline_drops_total" "Packets dropped, by who dropped them and why.";
    MALFORMED Counter "paceline_malformed_total" "Packets whose headers cannot be believed, dropped or not.";
    MOVED_IN Counter "paceline_entries_moved_in_total" "Entries of the indirection table that came to this core.";
    MOVED_OUT Counter "paceline_entries_moved_out_total" "Entries of the indirection table that left this core.";
    HELD Gauge "paceline_held_packets" "Packets waiting for an entry that is on its way to this core.";
    OWN Counter "paceline_strategy_events_total" "What the strategy counted of its own on this core.";
    RUNS Gauge "paceline_strategy_runs" "Always 1; labels say what spreads packets now, and over how many cores.";
    ACTIVE Gauge "paceline_active_cores" "Cores that get packets; the others are parked.";
    LOOKS Counter "paceline_strategy_looks_total" "How often the strategy looked at the loads.";
    MOVES Counter "paceline_moves_total" "Entries or shards that were given to other cores.";
    UPDATES Counter "paceline_table_updates_total" "Entries that have come to another core with their flows.";
    UPDATE_SECONDS Counter "paceline_table_update_seconds_total" "Time until they had, from the change of the table on.";
    UPDATE_LONGEST Gauge "paceline_table_update_longest_seconds" "The longest of these times.";
    SHARD_CORE Gauge "paceline_shard_core" "The core that has the shard.";
    SHARD_OFFLOADED Gauge "paceline_shard_offloaded_ratio" "Share of the shard that another core steps, 0 to 1.";
    ROLE Gauge "paceline_core_role" "1 if the core has the role, else 0.";
    RATIOS Counter "paceline_ratio_changes_total" "How often another share of a shard came to be offloaded.";
    PRIORITY Gauge "paceline_core_priority_packets" "Packets with priority that each core got in the last period that was looked at.";
    SLO Gauge "paceline_slo_p99_seconds" "How long 99 in 100 packets may wait, as the chain file says.";
    SLO_PREDICTED Gauge "paceline_slo_predicted_p99_seconds" "How long they wait on the busiest core, by the model that decides.";
    SLO_MEASURED Gauge "paceline_slo_measured_p99_seconds" "How long 99 in 100 packets of the last period waited for their core.";
    UTILISATION Gauge "paceline_slo_utilisation_ratio" "Share of its time that the busiest core is used, 0 to 1.";
    UTILISATION_MOST Gauge "paceline_slo_utilisation_limit_ratio" "The most that a core may be used, 0 to 1.";
    PROMOTED Gauge "paceline_promoted_values" "Values of the hash whose flows are promoted now.";
    PROMOTED_SHARE Gauge "paceline_promoted_packets_ratio" "Share of the last period's packets that are of promoted values, 0 to 1.";
    PROMOTIONS Counter "paceline_promotions_total" "Promotions of a value of the hash with its flows.";
    DEMOTIONS Counter "paceline_demotions_total" "Demotions of a value of the hash with its flows.";
    CHANGES Counter "paceline_strategy_changes_total" "Changes of strategy or number of cores.";
    DECIDED_MPPS Gauge "paceline_decision_predicted_mpps" "Rate that what runs promised, million packets per second.";
    OUTCOME_MPPS Gauge "paceline_decision_measured_mpps" "Rate that its first epoch came to, million packets per second.";
    CANDIDATES Gauge "paceline_candidate_predicted_mpps" "Rate that a choice promises now, million packets per second.";
    FUNCTION_PACKETS Counter "paceline_function_packets_total" "Packets that were a function's business and reached it.";
    FUNCTION_VERDICTS Counter "paceline_function_verdicts_total" "Packets by what a function made of them.";
    FLOWS Gauge "paceline_flows" "Flows that have a state.";
    CAPACITY Gauge "paceline_table_capacity_flows" "Flows that the table can hold.";
    LOAD Gauge "paceline_table_load_ratio" "Flows over what the table can hold, 0 to 1.";
    FLOW_CHANGES Counter "paceline_flow_changes_total" "Flows that came, went, or were refused.";
    EVENTS Counter "paceline_events_total" "What a function counted beside packets and flows.";
    IF_RECEIVED Counter "paceline_interface_received_packets_total" "Packets that an interface received.";
    IF_RECEIVED_BYTES Counter "paceline_interface_received_bytes_total" "Their bytes.";
    IF_SENT Counter "paceline_interface_sent_packets_total" "Packets that an interface sent.";
    IF_SENT_BYTES Counter "paceline_interface_sent_bytes_total" "Their bytes.";
    IF_LOST Counter "paceline_interface_lost_packets_total" "Packets that did not come in or did not leave, by why.";
}

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
        self.each_core(&BATCHES, |core| Some(core.counts.batches));
        self.each_core(&BUSY, |core| Some(core.counts.busy_ns as f64 / 1e9));
        self.each_core(&QUEUE, |core| Some(core.counts.queue_depth).filter(|depth| *depth != UNKNOWN));
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
        let Family { name, kind, help } = family;
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
