//! What was found, place by place: as JSON, and as rows for a spreadsheet.

use csv::{Terminator, WriterBuilder};
use pipeline::Report;
use schemars::JsonSchema;
use serde::Serialize;

use super::settings::{Axis, Load, Settings};

/// All that was found. Documented by `docs/emulate-sweep.schema.json`; fields are added, never renamed or removed.
#[derive(Serialize, JsonSchema)]
pub struct Sweep {
    /// Version of Paceline.
    pub paceline: &'static str,
    /// The command line, to be run again.
    pub command: String,
    /// Where it ran, for [`Report::cycles_per_second`].
    pub machine: String,
    /// Runs at a time.
    pub threads: usize,
    /// Whether all that was asked for was done; not so after an interruption.
    pub complete: bool,
    /// In the order of the grid, whatever ended first.
    pub rows: Vec<Row>,
}

/// One place of the grid, with what was found there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The figure that it is for, if for one.
    pub figure: Option<&'static str>,
    /// What was set.
    pub settings: Settings,
    /// Load of the run, percent of the line's rate. Of a search, the highest at which no more was lost than is
    /// allowed; 0 if there is none.
    pub load_percent: u32,
    /// What the model did at that load.
    pub report: Option<Report>,
}

/// Buffers as columns have them, and what their names end with in a report.
const BUFFERS: [(&str, &[&str]); 7] = [
    ("rb", &[".rb"]),
    ("pb", &[".pb"]),
    ("dtable", &[".dtable_read", ".dtable_write"]),
    ("block_queue", &[".block_queue"]),
    ("suspend_queue", &[".suspend_queue"]),
    ("schedule_queue", &[".schedule_queue"]),
    ("ring", &[".from_pipeline", ".from_ring"]),
];

impl Row {
    /// The most that a buffer, or any of its kind, held.
    pub fn most(&self, buffer: &str) -> Option<u64> {
        let (_, ends) = BUFFERS.iter().find(|(name, _)| *name == buffer)?;
        let held = &self.report.as_ref()?.occupancy_max;
        held.iter()
            .filter(|(name, _)| ends.iter().any(|end| name.ends_with(end)))
            .map(|(_, most)| *most)
            .max()
    }

    /// Column by column: its name and what it holds. The same columns for every row.
    pub fn cells(&self) -> Vec<(String, String)> {
        let mut cells = vec![("figure".to_owned(), self.figure.unwrap_or_default().to_owned())];
        let loss_limit = match self.settings.load {
            Load::At(_) => String::new(),
            Load::Highest { loss } => loss.to_string(),
        };
        let is_first = |axis: &Axis| *axis != Axis::Load && !Axis::FOLLOWING.contains(axis);
        for axis in Axis::SET.into_iter().filter(is_first) {
            let value = match axis {
                Axis::Traffic => self.settings.traffic.to_string(),
                _ => axis.value(&self.settings),
            };
            cells.push((column(axis), value));
        }
        let number = |number: Option<String>| number.unwrap_or_default();
        let report = self.report.as_ref();
        let of = |value: fn(&Report) -> String| number(report.map(value));
        let measures = [
            ("lossless", self.settings.lossless.to_string()),
            ("loss_limit", loss_limit),
            ("load_percent", self.load_percent.to_string()),
            ("packets_in", of(|report| report.packets_in.to_string())),
            ("packets_out", of(|report| report.packets_out.to_string())),
            ("cycles", of(|report| report.cycles.to_string())),
            ("throughput", of(|report| report.throughput.to_string())),
            ("offered", of(|report| report.offered.to_string())),
            ("latency_mean_cycles", of(|report| report.latency_cycles.mean.to_string())),
            ("latency_p50_cycles", of(|report| report.latency_cycles.p50.to_string())),
            ("latency_p99_cycles", of(|report| report.latency_cycles.p99.to_string())),
            ("latency_max_cycles", of(|report| report.latency_cycles.max.to_string())),
            ("stalls", of(|report| report.stalls.to_string())),
            ("resubmissions", of(|report| report.resubmissions.to_string())),
            ("writebacks", of(|report| report.writebacks.to_string())),
            ("cycles_per_second", of(|report| format!("{:.0}", report.cycles_per_second))),
            ("dropped", of(|report| report.lost().to_string())),
        ];
        cells.extend(measures.map(|(name, value)| (name.to_owned(), value)));
        for cause in pipeline::DropCause::ALL {
            let dropped = report.map(|report| report.drops.get(cause.name()).copied().unwrap_or(0));
            cells.push((format!("dropped_{}", cause.name()), number(dropped.map(|n| n.to_string()))));
        }
        for (buffer, _) in BUFFERS {
            cells.push((format!("{buffer}_max"), number(self.most(buffer).map(|most| most.to_string()))));
        }
        let sized = self.settings.sized();
        cells.extend(Axis::FOLLOWING.map(|axis| (column(axis), axis.value(&sized))));
        cells
    }
}

/// The column of an axis.
fn column(axis: Axis) -> String {
    let name = match axis {
        Axis::UpdateRate => "update_percent",
        Axis::Rb => "resubmitted_buffer",
        Axis::Pb => "phv_buffer",
        Axis::Dtable => "dirty_table",
        other => return other.name().replace('-', "_"),
    };
    name.to_owned()
}

/// A header and a row for each place, RFC 4180. Columns are added at the end, never renamed or removed.
pub fn render_csv(rows: &[Row]) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for (number, row) in rows.iter().enumerate() {
        let (names, cells): (Vec<_>, Vec<_>) = row.cells().into_iter().unzip();
        if number == 0 {
            writer.write_record(names).expect("memory can be written");
        }
        writer.write_record(cells).expect("memory can be written");
    }
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8(bytes).expect("cells are text")
}
