//! The figures of RAPID (NSDI'24) as grids: its axes, its traffic, and what it shows.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use pipeline::{Consistency, RapidOptions};

use super::charts::{Extra, Look};
use super::grid::Grid;
use super::metric::Metric;
use super::rows::Row;
use super::settings::{Axis, Load};
use super::traffic::Traffic;
use crate::args::buffers::Level;

/// A figure of the paper, with those of its appendix that show the same for other traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Blocking,
    Buffers,
    Stages,
    UpdateRate,
    Gap,
    Consistency,
    Crossover,
}

/// A grid and what is drawn of it.
pub struct Study {
    pub grid: Grid,
    /// Without one it depends on what varies.
    pub look: Option<Look>,
    /// What holds of all charts, where it must be said.
    pub note: Option<&'static str>,
    /// A line by a formula.
    pub extra: Option<Extra<'static>>,
}

/// The blocking scheme and RAPID, as the paper has them side by side.
const BOTH: [&str; 2] = ["blocking", "rapid"];

/// Their own length, and a packet in each cycle.
const LENGTHS: [Option<u32>; 2] = [None, Some(64)];

const NO_LOSS: Load = Load::Highest { loss: 0.0 };

/// App. C: cycles of a stage for T = 2 * 28 + 4 = 60.
const CROSSOVER_STAGE_CYCLES: usize = 28;

impl Figure {
    pub const EACH: [Figure; 7] = [
        Figure::Blocking,
        Figure::Buffers,
        Figure::Stages,
        Figure::UpdateRate,
        Figure::Gap,
        Figure::Consistency,
        Figure::Crossover,
    ];

    /// Its number in the paper.
    pub fn number(self) -> &'static str {
        self.words().0
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Figure::Blocking => ("3", "Fig. 3: the blocking scheme by update latency"),
            Figure::Buffers => ("12", "Fig. 12, 17, 18: the most that RAPID's buffers hold, 90% load"),
            Figure::Stages => ("13", "Fig. 13, 19, 20: by stages, 30% updates"),
            Figure::UpdateRate => ("14", "Fig. 14, 21, 22: by update rate"),
            Figure::Gap => {
                ("15", "Fig. 15: by intra-flow gap, which grows from trace 2 to trace 6; 30% updates")
            }
            Figure::Consistency => {
                ("16", "Fig. 16, 23, 24: by consistency, 30% updates, a packet in each cycle")
            }
            Figure::Crossover => ("c", "App. C: n packets of one flow back to back, by update rate"),
        }
    }

    /// Whether it runs over real traces in the paper, so that captures can be given instead of models.
    pub fn takes_traffic(self) -> bool {
        matches!(self, Figure::Blocking | Figure::Buffers)
    }

    /// Charts in a row.
    pub fn columns(self) -> usize {
        match self {
            Figure::Blocking | Figure::Gap | Figure::Crossover => 2,
            _ => 3,
        }
    }

    /// Its grids, over `traffic` where it takes any, else over its own.
    pub fn studies(self, traffic: &[Traffic], packets: Option<u64>) -> Vec<Study> {
        let models = ["university", "backbone", "datacenter"].map(Traffic::named).to_vec();
        let traffic = if traffic.is_empty() { models } else { traffic.to_vec() };
        let spaced = |traces: &[usize]| traces.iter().map(|trace| Traffic::Spaced(*trace)).collect();
        let base = Grid { models: BOTH.to_vec(), packets: vec![packets], ..Grid::default() };
        let study = |grid, x, lines: &[Axis], metrics: &[Metric]| Study {
            grid,
            look: Some(Look { x, lines: lines.to_vec(), metrics: metrics.to_vec() }),
            note: None,
            extra: None,
        };
        let highest = &[Metric::Load, Metric::Mean];
        match self {
            Figure::Blocking => {
                let grid = Grid {
                    models: vec!["blocking", "pisa"],
                    traffic,
                    stages: vec![2],
                    stage_cycles: vec![1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
                    ..base
                };
                let metrics = [Metric::OfStateless, Metric::OverStateless];
                vec![study(grid, Axis::Latency, &[Axis::Traffic], &metrics)]
            }
            Figure::Buffers => {
                let large = RapidOptions::unbounded();
                let grid = Grid {
                    models: vec!["rapid"],
                    traffic,
                    update_percents: vec![5, 10, 20, 30, 40, 50],
                    loads: vec![Load::At(90)],
                    resubmitted_buffers: vec![large.resubmitted_buffer],
                    phv_buffers: vec![large.phv_buffer],
                    dirty_tables: vec![large.dirty_table],
                    ring_buffers: vec![large.ring_from_ring],
                    ..base
                };
                let metrics = [Metric::Rb, Metric::Pb, Metric::Dtable];
                vec![study(grid, Axis::UpdateRate, &[Axis::Stages], &metrics)]
            }
            Figure::Stages => {
                let loads = vec![NO_LOSS, Load::Highest { loss: 0.001 }];
                let grid =
                    Grid { traffic: spaced(&[1, 2, 3]), packet_bytes: LENGTHS.to_vec(), loads, ..base };
                vec![study(grid, Axis::Stages, &[Axis::Model, Axis::Load], highest)]
            }
            Figure::UpdateRate => {
                let grid = Grid {
                    traffic: spaced(&[1, 2, 3]),
                    packet_bytes: LENGTHS.to_vec(),
                    update_percents: (10..=100).step_by(10).collect(),
                    loads: vec![NO_LOSS],
                    ..base
                };
                vec![study(grid, Axis::UpdateRate, &[Axis::Model, Axis::Stages], highest)]
            }
            Figure::Gap => {
                let grid = Grid {
                    traffic: spaced(&[2, 4, 5, 6]),
                    packet_bytes: LENGTHS.to_vec(),
                    loads: vec![NO_LOSS],
                    ..base
                };
                vec![study(grid, Axis::Traffic, &[Axis::Model, Axis::Stages], highest)]
            }
            Figure::Consistency => {
                let bounded = (1..=4).map(Consistency::BoundedStaleness);
                let levels = [Consistency::Strict].into_iter().chain(bounded).chain([Consistency::Weak]);
                let grid = Grid {
                    models: vec!["rapid"],
                    traffic: spaced(&[1, 2, 3]),
                    packet_bytes: vec![Some(64)],
                    consistency: levels.map(Level).collect(),
                    loads: vec![NO_LOSS],
                    ..base
                };
                let at_60 = Grid { loads: vec![Load::At(60)], ..grid.clone() };
                let (lines, below) = (&[Axis::Traffic], &[Metric::Mean, Metric::SentBack]);
                let below = study(at_60, Axis::Consistency, lines, below);
                vec![
                    study(grid, Axis::Consistency, lines, &[Metric::Load]),
                    Study { note: Some("At 60% load:"), ..below },
                ]
            }
            Figure::Crossover => vec![crossover(base)],
        }
    }
}

/// Blocking, speculation, and speculation that falls back to blocking; and the paper's formula for speculation.
fn crossover(base: Grid) -> Study {
    let large = RapidOptions::unbounded();
    let grid = Grid {
        traffic: vec![Traffic::Turns(1)],
        packets: vec![Some(60), Some(240)],
        stages: vec![2],
        stage_cycles: vec![CROSSOVER_STAGE_CYCLES],
        update_percents: (10..=100).step_by(10).collect(),
        resubmitted_buffers: vec![large.resubmitted_buffer],
        phv_buffers: vec![large.phv_buffer],
        dirty_tables: vec![large.dirty_table],
        ring_buffers: vec![large.ring_from_ring],
        blocking_thresholds: vec![None, Some(4)],
        queue_depths: vec![1_024],
        ..base
    };
    let lines = vec![Axis::Model, Axis::BlockingThreshold];
    let look = Look { x: Axis::UpdateRate, lines, metrics: vec![Metric::Cycles] };
    Study { grid, look: Some(look), note: None, extra: Some(("paper's formula", speculation_by_formula)) }
}

/// App. C, equation 3.
fn speculation_by_formula(row: &Row) -> f64 {
    let settings = &row.settings;
    let packets = settings.packets.unwrap_or_default() as f64;
    let turnaround = (settings.stages * (settings.stage_cycles + 1) + 2) as f64;
    let updates = packets * f64::from(settings.update_percent) / 100.0;
    updates * turnaround + (updates + 1.0) / 2.0 * packets
}

impl ValueEnum for Figure {
    fn value_variants<'a>() -> &'a [Self] {
        &Figure::EACH
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.number()).help(self.title()))
    }
}
