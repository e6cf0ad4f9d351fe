//! What `paceline top` reads of a run's metrics at one look.

use std::collections::BTreeMap;

use telemetry::prometheus::{self, Sample};

use super::strategy::StrategyReading;

/// What a run told at one look, counters from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub chain: String,
    pub strategy: String,
    /// Since the run began.
    pub seconds: f64,
    pub cores: BTreeMap<usize, CoreReading>,
    /// In the order of the chain.
    pub functions: Vec<(String, FunctionReading)>,
    /// By `function/reason`.
    pub drops: BTreeMap<String, f64>,
    pub interfaces: BTreeMap<String, InterfaceReading>,
    /// By `function/event`.
    pub events: BTreeMap<String, f64>,
    pub told: StrategyReading,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreReading {
    pub packets: f64,
    pub bytes: f64,
    pub busy_seconds: Option<f64>,
    pub queue: Option<f64>,
    pub drops: f64,
    pub moved_in: f64,
    pub moved_out: f64,
    pub held: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct InterfaceReading {
    pub received: f64,
    pub received_bytes: f64,
    pub sent: f64,
    pub sent_bytes: f64,
    pub lost: f64,
}

/// All cores together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionReading {
    pub packets: f64,
    pub drops: f64,
    /// `None` for a function without states.
    pub flows: Option<f64>,
    /// Load of the table on the fullest core.
    pub load: f64,
    pub evicted: f64,
    pub rejected: f64,
}

impl Reading {
    /// From the text of a run's metrics. Metrics that are not known are skipped.
    pub fn parse(text: &str) -> Result<Reading, String> {
        let mut samples = prometheus::parse(text).map_err(|error| error.to_string())?;
        // A server shall not write to the terminal.
        for (_, value) in samples.iter_mut().flat_map(|sample| &mut sample.labels) {
            value.retain(|character| !character.is_control());
        }
        let info = samples.iter().find(|sample| sample.name == "paceline_info");
        let info = info.ok_or("these are another program's metrics")?;
        let mut reading = Reading {
            chain: info.label("chain").to_owned(),
            strategy: info.label("strategy").to_owned(),
            ..Reading::default()
        };
        samples.iter().for_each(|sample| reading.add(sample));
        Ok(reading)
    }

    /// Packets of all cores.
    pub fn packets(&self) -> f64 {
        self.cores.values().map(|core| core.packets).sum()
    }

    fn add(&mut self, sample: &Sample) {
        let Sample { name, value, .. } = sample;
        if name == "paceline_run_seconds" {
            self.seconds = *value;
        }
        self.told.add(sample);
        if !sample.label("function").is_empty() {
            return self.add_of_function(sample);
        }
        if !sample.label("interface").is_empty() {
            return self.add_of_interface(sample);
        }
        let Ok(core) = sample.label("core").parse() else { return };
        let core = self.cores.entry(core).or_default();
        match name.as_str() {
            "paceline_packets_total" => core.packets = *value,
            "paceline_bytes_total" => core.bytes = *value,
            "paceline_busy_seconds_total" => core.busy_seconds = Some(*value),
            "paceline_queue_depth" => core.queue = Some(*value),
            "paceline_verdicts_total" if sample.label("verdict") == "drop" => core.drops += value,
            "paceline_entries_moved_in_total" => core.moved_in = *value,
            "paceline_entries_moved_out_total" => core.moved_out = *value,
            "paceline_held_packets" => core.held = *value,
            _ => (),
        }
    }

    fn add_of_interface(&mut self, sample: &Sample) {
        let Sample { name, value, .. } = sample;
        let interface = self.interfaces.entry(sample.label("interface").to_owned()).or_default();
        match name.as_str() {
            "paceline_interface_received_packets_total" => interface.received = *value,
            "paceline_interface_received_bytes_total" => interface.received_bytes = *value,
            "paceline_interface_sent_packets_total" => interface.sent = *value,
            "paceline_interface_sent_bytes_total" => interface.sent_bytes = *value,
            "paceline_interface_lost_packets_total" => interface.lost += value,
            _ => (),
        }
    }

    fn add_of_function(&mut self, sample: &Sample) {
        let Sample { name, value, .. } = sample;
        let of = |label: &str| format!("{}/{}", sample.label("function"), sample.label(label));
        match name.as_str() {
            "paceline_drops_total" => *self.drops.entry(of("reason")).or_default() += value,
            "paceline_events_total" => *self.events.entry(of("event")).or_default() += value,
            "paceline_function_packets_total" => self.function(sample).packets += value,
            "paceline_function_verdicts_total" if sample.label("verdict") == "drop" => {
                self.function(sample).drops += value;
            }
            "paceline_flows" => *self.function(sample).flows.get_or_insert_default() += value,
            "paceline_table_load_ratio" => {
                let function = self.function(sample);
                function.load = function.load.max(*value);
            }
            "paceline_flow_changes_total" => match sample.label("change") {
                "evicted" => self.function(sample).evicted += value,
                "rejected" => self.function(sample).rejected += value,
                _ => (),
            },
            _ => (),
        }
    }

    fn function(&mut self, sample: &Sample) -> &mut FunctionReading {
        let name = sample.label("function");
        let index = self.functions.iter().position(|(function, _)| function == name).unwrap_or_else(|| {
            self.functions.push((name.to_owned(), FunctionReading::default()));
            self.functions.len() - 1
        });
        &mut self.functions[index].1
    }
}
