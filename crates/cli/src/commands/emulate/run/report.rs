//! What is said of a run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pipeline::compiled::Differences;
use pipeline::{Consistency, Model, Report, TableSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::buffers;
use super::latencies::Step;
use crate::args::buffers::Level;
use crate::output::{count, percent, plural};

/// The JSON of `paceline emulate --json`. Documented by `docs/emulate.schema.json`; fields are added, never renamed
/// or removed.
#[derive(Serialize, JsonSchema)]
pub struct Emulation {
    /// Version of Paceline.
    pub paceline: &'static str,
    /// What was asked for.
    pub command: String,
    /// What arrived: the capture or the model of traffic.
    pub source: String,
    /// Stages of the pipeline.
    pub stages: usize,
    /// Cycles that a packet spends in each.
    pub stage_cycles: usize,
    /// Where the program keeps state.
    pub tables: Vec<Place>,
    /// What the model did.
    #[serde(flatten)]
    pub report: Report,
    /// What became of the packets that came out.
    #[serde(flatten)]
    pub departures: Departures,
    /// How the latencies of the packets that came out are distributed: some 200 steps at most, in ascending order.
    pub latency_distribution: Vec<Step>,
    /// The sizes of the buffers in `occupancy_max`, by the same names: packets of `rb`, `pb`, `flow_queue`,
    /// `from_pipeline` and `from_ring`, flows of the others.
    pub buffer_sizes: BTreeMap<String, u64>,
    /// How that compares with the reference, if it was asked for.
    pub check: Option<Compared>,
}

/// What a run gave.
pub struct Run {
    pub report: Report,
    pub latency: Histogram<u64>,
    pub tables: Vec<TableSpec>,
    pub program_stages: usize,
    pub departures: Departures,
    pub check: Option<Compared>,
    /// What the pipeline may do in another order than that in which packets arrive.
    pub warnings: Vec<String>,
    /// What registers and buffers held in the cycles that were asked for.
    pub trace: String,
}

/// What the program does with packets that come out of the pipeline: `packets_out` is `packets_sent` and
/// `packets_dropped_by_program` together, `packets_in` is `packets_out` and all of `drops`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Departures {
    /// Packets that it sends to a port or to several.
    pub packets_sent: u64,
    /// Packets that it sends to no port.
    pub packets_dropped_by_program: u64,
    /// What ports get: one copy of a packet for each of its ports.
    pub copies_sent: u64,
}

impl Departures {
    /// Another packet, which is sent to so many ports.
    pub fn count(&mut self, ports: usize) {
        match ports {
            0 => self.packets_dropped_by_program += 1,
            _ => self.packets_sent += 1,
        }
        self.copies_sent += ports as u64;
    }
}

/// How large each buffer is that a report speaks of.
pub fn buffer_sizes(model: &Model, report: &Report) -> BTreeMap<String, u64> {
    let size = |name: &String| Some((name.clone(), buffers::size(model, name)? as u64));
    report.occupancy_max.keys().filter_map(size).collect()
}

/// A table that packets read and write.
#[derive(Serialize, JsonSchema)]
pub struct Place {
    /// Its name in the program.
    pub name: String,
    /// The stage that reads it, from 1.
    pub reads: usize,
    /// The last stage that writes it.
    pub writes: usize,
    /// `strict`, `bs1` and so on for bounded staleness, `weak`.
    pub consistency: String,
    /// Entries at most.
    pub size: usize,
}

impl Place {
    pub fn of(spec: &TableSpec, consistency: Option<Consistency>) -> Place {
        Place {
            name: spec.name.clone(),
            reads: spec.read_stage + 1,
            writes: spec.write_stage + 1,
            consistency: match spec.is_atom() {
                true => "at once".to_owned(),
                false => Level(consistency.unwrap_or(spec.consistency)).to_string(),
            },
            size: spec.size,
        }
    }
}

/// What differs from the reference, which takes one packet after the other. Of a packet that was lost it takes what that
/// had changed by then.
#[derive(Serialize, JsonSchema)]
pub struct Compared {
    /// Packets that were compared.
    pub packets: u64,
    /// Those of which the reference sends something else.
    pub differ: u64,
    /// The first difference, in words.
    pub first: Option<String>,
    /// The first state that differs, in words.
    pub state: Option<String>,
}

impl From<Differences> for Compared {
    fn from(found: Differences) -> Compared {
        Compared { packets: found.compared, differ: found.packets, first: found.first, state: found.state }
    }
}

impl Compared {
    pub fn is_equal(&self) -> bool {
        self.differ == 0 && self.first.is_none() && self.state.is_none()
    }

    /// In words.
    pub fn says(&self) -> String {
        if self.is_equal() {
            return format!("{} and all states are the reference's", plural(self.packets, "packet"));
        }
        let (differ, packets) = (count(self.differ), plural(self.packets, "packet"));
        let mut text = format!("{differ} of {packets} differ from the reference");
        for what in self.first.iter().chain(&self.state) {
            text += &format!("\n  {what}");
        }
        text
    }
}

impl Emulation {
    /// Names and values, in groups.
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let report = &self.report;
        let latency = &report.latency_cycles;
        vec![
            ("cycles", count(report.cycles)),
            ("packets in", count(report.packets_in)),
            ("packets out", count(report.packets_out)),
            ("of these sent", count(self.departures.packets_sent)),
            ("of these dropped by the program", count(self.departures.packets_dropped_by_program)),
            ("copies that ports got", count(self.departures.copies_sent)),
            ("lost in the pipeline", format!("{} ({})", count(report.lost()), percent(report.loss()))),
            ("latency, mean cycles", format!("{:.1}", latency.mean)),
            ("latency, median", count(latency.p50)),
            ("latency, 99% within", count(latency.p99)),
            ("latency, most", count(latency.max)),
            ("cycles stalled", count(report.stalls)),
            ("packets sent back", count(report.resubmissions)),
            ("states written back", count(report.writebacks)),
            ("ring in use", percent(report.ring_utilisation)),
            ("cycles a second", count(report.cycles_per_second as u64)),
        ]
    }

    pub fn places(&self) -> Vec<Vec<String>> {
        let row = |place: &Place| {
            let (reads, writes) = (place.reads.to_string(), place.writes.to_string());
            vec![place.name.clone(), place.consistency.clone(), reads, writes, count(place.size as u64)]
        };
        self.tables.iter().map(row).collect()
    }

    pub fn losses(&self) -> Vec<Vec<String>> {
        let drops = self.report.drops.iter().map(|(cause, lost)| vec![cause.replace('_', " "), count(*lost)]);
        let refused = self.report.states_refused.iter();
        let refused =
            refused.map(|(table, keys)| vec![format!("new keys that {table} refused"), count(*keys)]);
        let behind = self.report.lost_after_write.iter();
        let behind =
            behind.map(|(table, lost)| vec![format!("of these, had already changed {table}"), count(*lost)]);
        drops.chain(behind).chain(refused).collect()
    }

    pub fn occupancy(&self) -> Vec<Vec<String>> {
        let used = self.report.occupancy_max.iter().filter(|(_, most)| **most > 0);
        let size = |buffer| self.buffer_sizes.get(buffer).map_or("-".to_owned(), |size| count(*size));
        used.map(|(buffer, most)| vec![buffer.clone(), count(*most), size(buffer)]).collect()
    }

    /// What came of it, in a line.
    pub fn headline(&self) -> String {
        let Report { program, model, throughput, packets_in, .. } = &self.report;
        let lost = match self.report.lost() {
            0 => "no packet is lost".to_owned(),
            lost => format!("{} of {} are lost", count(lost), plural(*packets_in, "packet")),
        };
        let differs = match &self.check {
            Some(check) if !check.is_equal() => "; it DIFFERS from the reference",
            Some(_) => "; all is as the reference has it",
            None => "",
        };
        format!("{program} on {model}: {throughput:.2} packets a cycle, {lost}{differs}")
    }

    /// What a reader has to know first, in sentences.
    pub fn findings(&self) -> Vec<String> {
        let report = &self.report;
        let mut findings = Vec::new();
        if let Some((cause, most)) = report.drops.iter().max_by_key(|(_, lost)| **lost) {
            let cause = cause.replace('_', " ");
            findings.push(format!(
                "Most packets that are lost are lost for {cause}: {} of {}.",
                count(*most),
                count(report.lost())
            ));
        }
        findings.push(format!(
            "{:.4} packets a cycle were offered, and {:.4} came out.",
            report.offered, report.throughput
        ));
        if report.packets_out > 0 {
            let latency = &report.latency_cycles;
            findings.push(format!(
                "Half of the packets take {} at most, 99 in 100 {} at most.",
                plural(latency.p50, "cycle"),
                count(latency.p99)
            ));
        }
        if report.stalls > 0 && report.cycles > 0 {
            let share = percent(report.stalls as f64 / report.cycles as f64);
            findings.push(format!(
                "The first stage could not advance in {} ({share}).",
                plural(report.stalls, "cycle")
            ));
        }
        let fullest = report.occupancy_max.iter().filter_map(|(buffer, most)| {
            let size = self.buffer_sizes.get(buffer).filter(|size| **size > 0 && most >= size)?;
            Some(format!("{buffer} was full, with {}.", count(*size)))
        });
        findings.extend(fullest.take(3));
        findings
    }

    pub fn title(&self) -> String {
        let Report { program, model, .. } = &self.report;
        let stages = plural(self.stages as u64, "stage");
        format!("{program} on {model}, {stages} of {} cycles", self.stage_cycles)
    }
}
