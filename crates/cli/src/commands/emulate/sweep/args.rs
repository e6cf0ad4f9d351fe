//! What `paceline emulate sweep` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pipeline::Model;

use super::charts::varies;
use super::figures::Figure;
use super::grid::Grid;
use super::metric::Metric;
use super::rows::Row;
use super::settings::{Axis, Load};
use super::traffic::Traffic;
use crate::args::buffers::{Level, Threshold, size, threshold};
use crate::args::number;
use crate::failure::Failure;

const NOTES: &str = "\
Traffic:
  --traffic trace-1 ... trace-6   generated to the spacing that RAPID (NSDI'24) states for its traces in Tables 6 and 7
  --traffic MODEL                 such as university or zipf:flows=1000,a=1.1 (see `paceline generate`)
  --pcap IN                       a capture, its packets back to back, whatever their times

The function reads a flow's state in its first stage and writes it in its last; a share of the packets, drawn at
random, updates it. Every option with N,... takes several values; the sweep runs all combinations, on all cores.

Examples:
  paceline emulate sweep --update-rates 10,30,50,100 --stages 2,3,4 --search --html sweep.html
  paceline emulate sweep --pcap captures/edge.pcap --models rapid --consistency strict,bs1,weak --loads 60,90 --csv -
  paceline emulate sweep --figure 13,16 --html figures.html";

const BUFFERS: &str = "Buffers of the models";
const CHARTS: &str = "Charts";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct SweepArgs {
    /// Packets by a model of traffic. May be given several times, which makes an axis [default: trace-2]
    #[arg(long, value_name = "MODEL")]
    pub traffic: Vec<String>,
    /// A capture: pcap or pcapng, plain, .gz or .zst. May be given several times, also beside --traffic
    #[arg(long, value_name = "IN")]
    pub pcap: Vec<PathBuf>,
    /// Figures of RAPID (NSDI'24): the grids that show them. What --traffic and --pcap give stands for the real
    /// traces of figures 3 and 12
    #[arg(long = "figure", value_name = "N,...", value_delimiter = ',', value_parser = figure_parser(),
          conflicts_with_all = GRID)]
    figures: Vec<String>,
    /// Models [default: rapid,blocking]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Model::NAMES))]
    models: Vec<String>,
    /// Instead of --traffic, so many flows that take turns: packets of one come N packets of 64 bytes apart, and update
    /// evenly
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with_all = ["traffic", "pcap"],
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    gaps: Vec<u64>,
    /// Packets: of what is generated [default: 50000], or the first of a capture [default: all]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    packets: Vec<u64>,
    /// Bytes of every packet; 64 is a packet in each cycle. trace-1 to trace-6 keep their spacing in cycles [default:
    /// own]
    #[arg(long, value_name = "N|own,...", value_delimiter = ',', value_parser = packet_bytes)]
    packet_bytes: Vec<Bytes>,
    /// What the traces and the packets that update are drawn with [default: 1]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Packets that update their flow's state, percent [default: 30]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    update_rates: Vec<u32>,
    /// Stages of the function [default: 2,3,4]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = number(1..=16))]
    stages: Vec<usize>,
    /// Cycles of a stage [default: those of the model's prototype]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = number(1..=256))]
    stage_cycles: Vec<usize>,
    /// What rapid promises: strict, weak, or bsK, after an update K stale packets at most [default: strict]
    #[arg(long, value_name = "LEVEL,...", value_delimiter = ',')]
    consistency: Vec<Level>,
    /// Load in percent of the line's rate [default: 100]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    loads: Vec<u32>,
    /// Find the highest load at which no more than this share is lost: 0 if none is given; 0.001 is 0.1%
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = share, num_args = 0..,
          default_missing_value = "0", require_equals = true, conflicts_with = "loads")]
    search: Vec<f64>,
    /// rapid: packets in the buffer for those sent back [default: 16]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    rb: Vec<usize>,
    /// rapid: packets in the PHV buffer [default: 32]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    pb: Vec<usize>,
    /// rapid: flows in dTable [default: 64]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = number(1..=8_192))]
    dtable: Vec<usize>,
    /// rapid: flows in the Block queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    block_queue: Vec<usize>,
    /// rapid: flows in the Suspend queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    suspend_queue: Vec<usize>,
    /// rapid: flows in the Schedule queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    schedule_queue: Vec<usize>,
    /// rapid: packets in each of the two buffers of a ring node [default: 8]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    ring_buffer: Vec<usize>,
    /// rapid: packets in a ring node that come from its stage [default: that of --ring-buffer]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    ring_from_pipeline: Vec<usize>,
    /// rapid: packets in a ring node that come from the ring [default: that of --ring-buffer]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    ring_from_ring: Vec<usize>,
    /// rapid: updates after which a flow is blocked, or never [default: 4]
    #[arg(help_heading = BUFFERS, long, value_name = "N|never,...", value_delimiter = ',', value_parser = threshold)]
    blocking_threshold: Vec<Threshold>,
    /// blocking, flowblaze: flow queues [default: 4]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = number(1..=4_096))]
    queues: Vec<usize>,
    /// blocking, flowblaze: packets in a flow queue [default: 32, flowblaze 64]
    #[arg(help_heading = BUFFERS, long, value_name = "N,...", value_delimiter = ',', value_parser = size)]
    queue_depth: Vec<usize>,
    /// Packets for which there is no room wait, and what is behind them with them, instead of being lost
    #[arg(long)]
    lossless: bool,
    /// The axis of the grid that charts have as theirs [default: the first of update-rate, stages, stage-cycles,
    /// traffic and so on that varies]
    #[arg(help_heading = CHARTS, long, value_name = "AXIS", value_enum)]
    x: Option<Axis>,
    /// What charts show [default: load with --search, else throughput; and mean]
    #[arg(help_heading = CHARTS, long, value_name = "MEASURE,...", value_enum, value_delimiter = ',')]
    y: Vec<Metric>,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = number(1..=1_024))]
    threads: Option<usize>,
    /// Show more rows, all columns, and of several figures the rows
    #[arg(short, long)]
    pub verbose: bool,
    /// Write a row for each combination; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "OUT.csv")]
    pub csv: Option<PathBuf>,
    /// Write all figures as JSON; `-` as with --csv
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page of charts, which needs no other file; `-` as with --csv
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write the charts as SVG into this folder, which is made if it is not there: fig13.svg and so on, or sweep.svg.
    /// After an interruption those that are not whole are left as they were
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// What sets the grid, which figures set themselves. No group: an error would name all of them.
const GRID: [&str; 24] = [
    "models",
    "gaps",
    "packet_bytes",
    "seeds",
    "update_rates",
    "stages",
    "stage_cycles",
    "consistency",
    "loads",
    "search",
    "rb",
    "pb",
    "dtable",
    "block_queue",
    "suspend_queue",
    "schedule_queue",
    "ring_buffer",
    "ring_from_pipeline",
    "ring_from_ring",
    "blocking_threshold",
    "queues",
    "queue_depth",
    "lossless",
    "x",
];

/// Bytes of every packet, or their own.
#[derive(Clone, Debug)]
struct Bytes(Option<u32>);

/// All figures at once.
const ALL: &str = "all";

impl SweepArgs {
    /// The figures, in the paper's order.
    pub fn figures(&self) -> Vec<Figure> {
        let is_asked =
            |figure: &Figure| self.figures.iter().any(|name| name == figure.number() || name == ALL);
        Figure::EACH.into_iter().filter(is_asked).collect()
    }

    /// What stands for the real traces of figures.
    ///
    /// # Errors
    /// None of the figures has any.
    pub fn figure_traffic(&self, figures: &[Figure]) -> Result<Vec<Traffic>, Failure> {
        let traffic = self.traffic();
        if !traffic.is_empty() && !figures.iter().any(|figure| figure.takes_traffic()) {
            let message =
                "figures other than 3 and 12 have traffic of their own\nLeave out --traffic and --pcap.";
            return Err(Failure::usage(message));
        }
        Ok(traffic)
    }

    fn traffic(&self) -> Vec<Traffic> {
        let models = self.traffic.iter().map(|name| Traffic::named(name));
        models.chain(self.pcap.iter().cloned().map(Traffic::Capture)).collect()
    }

    /// Packets of each figure's traffic.
    ///
    /// # Errors
    /// There are several numbers: figures have axes of their own.
    pub fn figure_packets(&self) -> Result<Option<u64>, Failure> {
        match self.packets.as_slice() {
            [_, _, ..] => Err(Failure::usage("figures take one number of packets\nGive --packets one.")),
            few => Ok(few.first().copied()),
        }
    }

    pub fn grid(&self) -> Grid {
        let own = Grid::default();
        let named = |name: &String| Model::named(name).map(|model| model.name());
        let turns = self.gaps.iter().map(|gap| Traffic::Turns(*gap));
        let at = self.loads.iter().map(|percent| Load::At(*percent));
        let highest = self.search.iter().map(|loss| Load::Highest { loss: *loss });
        let sizes = |given: &[usize]| or(given.iter().copied().map(Some).collect(), vec![None]);
        Grid {
            models: or(self.models.iter().filter_map(named).collect(), own.models),
            traffic: or(self.traffic().into_iter().chain(turns).collect(), own.traffic),
            packets: or(self.packets.iter().copied().map(Some).collect(), own.packets),
            packet_bytes: or(self.packet_bytes.iter().map(|bytes| bytes.0).collect(), own.packet_bytes),
            seeds: or(self.seeds.clone(), own.seeds),
            update_percents: or(self.update_rates.clone(), own.update_percents),
            stages: or(self.stages.clone(), own.stages),
            stage_cycles: or(self.stage_cycles.clone(), own.stage_cycles),
            consistency: or(self.consistency.clone(), own.consistency),
            loads: or(at.chain(highest).collect(), own.loads),
            resubmitted_buffers: or(self.rb.clone(), own.resubmitted_buffers),
            phv_buffers: or(self.pb.clone(), own.phv_buffers),
            dirty_tables: or(self.dtable.clone(), own.dirty_tables),
            block_queues: sizes(&self.block_queue),
            suspend_queues: sizes(&self.suspend_queue),
            schedule_queues: sizes(&self.schedule_queue),
            ring_buffers: or(self.ring_buffer.clone(), own.ring_buffers),
            rings_from_pipeline: sizes(&self.ring_from_pipeline),
            rings_from_ring: sizes(&self.ring_from_ring),
            blocking_thresholds: or(
                self.blocking_threshold.iter().map(|most| most.0).collect(),
                own.blocking_thresholds,
            ),
            queues: or(self.queues.clone(), own.queues),
            queue_depths: or(self.queue_depth.clone(), own.queue_depths),
            lossless: self.lossless,
        }
    }

    /// The axis that charts have as theirs.
    pub fn x_of(&self, rows: &[&Row]) -> Axis {
        let liked = [Axis::UpdateRate, Axis::Stages, Axis::StageCycles, Axis::Traffic, Axis::Consistency];
        let all = liked.into_iter().chain(Axis::SET);
        self.x.or_else(|| all.into_iter().find(|axis| varies(rows, *axis))).unwrap_or(Axis::Stages)
    }

    /// What charts show.
    pub fn metrics(&self) -> Vec<Metric> {
        match (self.y.as_slice(), self.search.as_slice()) {
            ([], []) => vec![Metric::Throughput, Metric::Mean],
            ([], _) => vec![Metric::Load, Metric::Mean],
            (asked, _) => asked.to_vec(),
        }
    }

    /// Runs at a time.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

/// What was given, each once, or else the default.
fn or<T: PartialEq>(given: Vec<T>, default: Vec<T>) -> Vec<T> {
    let mut each: Vec<T> = Vec::new();
    for value in given {
        if !each.contains(&value) {
            each.push(value);
        }
    }
    if each.is_empty() { default } else { each }
}

fn figure_parser() -> impl TypedValueParser {
    PossibleValuesParser::new(Figure::EACH.map(Figure::number).into_iter().chain([ALL]))
}

fn packet_bytes(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(bytes @ 1..=65_535) => Ok(Bytes(Some(bytes))),
        _ if text == "own" => Ok(Bytes(None)),
        _ => Err("1 to 65535, or own".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..1.0).contains(&share) {
        true => Ok(share),
        false => Err("must be 0 or more, and below 1; 0.1% is 0.001".to_owned()),
    }
}
