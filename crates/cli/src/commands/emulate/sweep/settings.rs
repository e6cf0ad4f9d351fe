//! What is set for a run, and the axes of a grid along which it varies.

use std::fmt;

use clap::ValueEnum;
use pipeline::{BlockingOptions, Consistency, Model, RapidOptions, WhenFull};
use schemars::JsonSchema;
use serde::Serialize;

use super::traffic::Traffic;
use crate::args::buffers::Level;

/// One place of the grid. What a model does not have, such as queues in RAPID, does nothing there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// `pisa`, `banzai`, `blocking`, `flowblaze`, `rapid`.
    pub model: &'static str,
    /// What arrives.
    #[schemars(with = "String")]
    pub traffic: Traffic,
    /// Packets, at most.
    pub packets: Option<u64>,
    /// Bytes of every packet; without it their own.
    pub packet_bytes: Option<u32>,
    /// What traffic and updates are drawn with.
    pub seed: u64,
    /// Packets that update their flow's state, in percent.
    pub update_percent: u32,
    /// Stages from where the state is read to where it is written.
    pub stages: usize,
    /// Cycles that a packet spends in a stage.
    pub stage_cycles: usize,
    /// `strict`, `bs1`, `bs2` and so on for bounded staleness, `weak`.
    #[schemars(with = "String")]
    pub consistency: Level,
    /// `60%` of the line's rate, or the highest load with a loss: `loss <= 0.1%`.
    #[schemars(with = "String")]
    pub load: Load,
    /// Packets in RAPID's buffer for those sent back.
    pub resubmitted_buffer: usize,
    /// Packets in RAPID's PHV buffer.
    pub phv_buffer: usize,
    /// Flows in RAPID's dTable.
    pub dirty_table: usize,
    /// Flows in its Block queue; without it as many as in dTable.
    pub block_queue: Option<usize>,
    /// Flows in its Suspend queue; without it as many as in dTable.
    pub suspend_queue: Option<usize>,
    /// Flows in its Schedule queue; without it as many as in dTable.
    pub schedule_queue: Option<usize>,
    /// Packets in each of the two buffers of a ring node.
    pub ring_buffer: usize,
    /// Packets in the buffer for those that come from the node's stage, if it is of another size.
    pub ring_from_pipeline: Option<usize>,
    /// Packets in the buffer for those that come from the ring, if it is of another size.
    pub ring_from_ring: Option<usize>,
    /// After so many updates RAPID blocks a flow; none: it never does.
    pub blocking_threshold: Option<u32>,
    /// Flow queues before a function of `blocking` and `flowblaze`.
    pub queues: usize,
    /// Packets in each of them.
    pub queue_depth: usize,
    /// Whether packets for which there is no room wait instead of being lost.
    pub lossless: bool,
}

/// How much is offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum Load {
    /// So many percent of the line's rate.
    At(u32),
    /// The most at which no larger share of the packets is lost.
    Highest { loss: f64 },
}

impl Settings {
    /// The model with its buffers.
    pub fn pipeline(&self) -> Model {
        let blocking = BlockingOptions { queues: self.queues, depth: self.queue_depth };
        match Model::named(self.model) {
            Some(Model::Blocking(_)) => Model::Blocking(blocking),
            Some(Model::FlowBlaze(_)) => Model::FlowBlaze(blocking),
            Some(Model::Rapid(_)) | None => Model::Rapid(RapidOptions {
                resubmitted_buffer: self.resubmitted_buffer,
                dirty_table: self.dirty_table,
                phv_buffer: self.phv_buffer,
                block_queue: self.block_queue.unwrap_or(self.dirty_table),
                suspend_queue: self.suspend_queue.unwrap_or(self.dirty_table),
                schedule_queue: self.schedule_queue.unwrap_or(self.dirty_table),
                ring_from_pipeline: self.ring_from_pipeline.unwrap_or(self.ring_buffer),
                ring_from_ring: self.ring_from_ring.unwrap_or(self.ring_buffer),
                blocking_threshold: self.blocking_threshold,
                consistency: None,
                pipelines: 1,
            }),
            Some(stateless) => stateless,
        }
    }

    pub fn when_full(&self) -> WhenFull {
        if self.lossless { WhenFull::Stall } else { WhenFull::Drop }
    }

    /// These settings, with a size for each buffer that takes its size from another one.
    pub fn sized(&self) -> Settings {
        let Settings { dirty_table, ring_buffer, .. } = *self;
        Settings {
            block_queue: self.block_queue.or(Some(dirty_table)),
            suspend_queue: self.suspend_queue.or(Some(dirty_table)),
            schedule_queue: self.schedule_queue.or(Some(dirty_table)),
            ring_from_pipeline: self.ring_from_pipeline.or(Some(ring_buffer)),
            ring_from_ring: self.ring_from_ring.or(Some(ring_buffer)),
            ..self.clone()
        }
    }

    /// These settings, with what the model does not have set to one value: equal for settings that make no
    /// difference, so that such a run is made once.
    pub fn effective(&self) -> Settings {
        let rapid = RapidOptions::default();
        // With both buffers of a ring node sized, what would size both makes no difference.
        let mut settings = Settings { ring_buffer: rapid.ring_from_ring, ..self.sized() };
        if !Axis::Pb.is_of(self.model) {
            settings.consistency = Level(Consistency::Strict);
            settings.resubmitted_buffer = rapid.resubmitted_buffer;
            settings.phv_buffer = rapid.phv_buffer;
            settings.dirty_table = rapid.dirty_table;
            (settings.block_queue, settings.suspend_queue, settings.schedule_queue) = (None, None, None);
            (settings.ring_from_pipeline, settings.ring_from_ring) = (None, None);
            settings.blocking_threshold = rapid.blocking_threshold;
        }
        if !Axis::Queues.is_of(self.model) {
            let blocking = BlockingOptions::BLOCKING;
            (settings.queues, settings.queue_depth) = (blocking.queues, blocking.depth);
        }
        settings
    }
}

/// What can vary from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// The model
    Model,
    /// What arrives; where flows take turns, the gap between two packets of one
    Traffic,
    /// Packets
    Packets,
    /// Bytes of a packet
    PacketBytes,
    /// What is drawn with
    Seed,
    /// Share of the packets that update
    UpdateRate,
    /// Stages of the function
    Stages,
    /// Cycles of a stage
    StageCycles,
    /// Cycles of all stages of the function: how long an update takes
    Latency,
    /// Consistency
    Consistency,
    /// Load, or the loss at which the highest load is searched for
    Load,
    /// Size of the buffer for packets sent back
    Rb,
    /// Size of the PHV buffer
    Pb,
    /// Size of dTable
    Dtable,
    /// Size of the buffers of a ring node
    RingBuffer,
    /// Updates after which a flow is blocked
    BlockingThreshold,
    /// Flow queues
    Queues,
    /// Depth of a flow queue
    QueueDepth,
    /// Size of the Block queue
    BlockQueue,
    /// Size of the Suspend queue
    SuspendQueue,
    /// Size of the Schedule queue
    ScheduleQueue,
    /// Size of a ring node's buffer for what comes from its stage
    RingFromPipeline,
    /// Size of a ring node's buffer for what comes from the ring
    RingFromRing,
}

impl Axis {
    /// Those that are set one by one, in the order in which grids are gone through.
    pub const SET: [Axis; 22] = [
        Axis::Traffic,
        Axis::Packets,
        Axis::PacketBytes,
        Axis::Seed,
        Axis::Model,
        Axis::Stages,
        Axis::StageCycles,
        Axis::UpdateRate,
        Axis::Consistency,
        Axis::Load,
        Axis::Rb,
        Axis::Pb,
        Axis::Dtable,
        Axis::RingBuffer,
        Axis::BlockingThreshold,
        Axis::Queues,
        Axis::QueueDepth,
        Axis::BlockQueue,
        Axis::SuspendQueue,
        Axis::ScheduleQueue,
        Axis::RingFromPipeline,
        Axis::RingFromRing,
    ];

    /// Those whose sizes are another one's unless they are given.
    pub const FOLLOWING: [Axis; 5] = [
        Axis::BlockQueue,
        Axis::SuspendQueue,
        Axis::ScheduleQueue,
        Axis::RingFromPipeline,
        Axis::RingFromRing,
    ];

    /// Whether what varies along `other` varies along this one.
    pub fn covers(self, other: Axis) -> bool {
        self == other || self == Axis::Latency && matches!(other, Axis::Stages | Axis::StageCycles)
    }

    /// Whether it makes a difference to a model.
    pub fn is_of(self, model: &str) -> bool {
        match self {
            Axis::Consistency
            | Axis::Rb
            | Axis::Pb
            | Axis::Dtable
            | Axis::BlockQueue
            | Axis::SuspendQueue
            | Axis::ScheduleQueue
            | Axis::RingBuffer
            | Axis::RingFromPipeline
            | Axis::RingFromRing
            | Axis::BlockingThreshold => model == "rapid",
            Axis::Queues | Axis::QueueDepth => matches!(model, "blocking" | "flowblaze"),
            _ => true,
        }
    }

    /// As options and files call it, in few letters.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Below a chart.
    pub fn title(self) -> &'static str {
        self.words()[0]
    }

    /// The axis in words, and a value along it with what it is of.
    fn words(self) -> [&'static str; 2] {
        match self {
            Axis::Model => ["model", "{}"],
            Axis::Traffic => ["traffic", "{}"],
            Axis::Packets => ["packets", "{} packets"],
            Axis::PacketBytes => ["bytes of a packet", "{} bytes"],
            Axis::Seed => ["seed", "seed {}"],
            Axis::UpdateRate => ["packets that update the state, %", "{}% updates"],
            Axis::Stages => ["stages of the function", "{} stages"],
            Axis::StageCycles => ["cycles of a stage", "{} cycles"],
            Axis::Latency => ["state update latency, cycles", "{} cycles"],
            Axis::Consistency => ["consistency", "{}"],
            Axis::Load => ["load", "{}"],
            Axis::Rb => ["packets in RB", "RB {}"],
            Axis::Pb => ["packets in PB", "PB {}"],
            Axis::Dtable => ["flows in dTable", "dTable {}"],
            Axis::RingBuffer => ["packets in a ring buffer", "ring {}"],
            Axis::BlockingThreshold => ["updates until a flow is blocked", "blocked after {}"],
            Axis::Queues => ["flow queues", "{} queues"],
            Axis::QueueDepth => ["packets in a flow queue", "depth {}"],
            Axis::BlockQueue => ["flows in the Block queue", "Block {}"],
            Axis::SuspendQueue => ["flows in the Suspend queue", "Suspend {}"],
            Axis::ScheduleQueue => ["flows in the Schedule queue", "Schedule {}"],
            Axis::RingFromPipeline => ["packets from the stage in a ring node", "from stage {}"],
            Axis::RingFromRing => ["packets from the ring in a ring node", "from ring {}"],
        }
    }

    /// The value along this axis, as an axis of a chart or a cell has it.
    pub fn value(self, settings: &Settings) -> String {
        let or = |number: Option<String>, other: &str| number.unwrap_or_else(|| other.to_owned());
        let as_many_as =
            |size: Option<usize>, other: &str| or(size.map(|size| size.to_string()), &format!("as {other}"));
        match self {
            Axis::Model => settings.model.to_owned(),
            Axis::Traffic => match settings.traffic {
                Traffic::Turns(gap) => gap.to_string(),
                _ => settings.traffic.to_string(),
            },
            Axis::Packets => or(settings.packets.map(|packets| packets.to_string()), "all"),
            Axis::PacketBytes => or(settings.packet_bytes.map(|bytes| bytes.to_string()), "own"),
            Axis::Seed => settings.seed.to_string(),
            Axis::UpdateRate => settings.update_percent.to_string(),
            Axis::Stages => settings.stages.to_string(),
            Axis::StageCycles => settings.stage_cycles.to_string(),
            Axis::Latency => (settings.stages * settings.stage_cycles).to_string(),
            Axis::Consistency => settings.consistency.to_string(),
            Axis::Load => match settings.load {
                Load::At(percent) => percent.to_string(),
                Load::Highest { .. } => settings.load.to_string(),
            },
            Axis::Rb => settings.resubmitted_buffer.to_string(),
            Axis::Pb => settings.phv_buffer.to_string(),
            Axis::Dtable => settings.dirty_table.to_string(),
            Axis::RingBuffer => settings.ring_buffer.to_string(),
            Axis::BlockingThreshold => or(settings.blocking_threshold.map(|most| most.to_string()), "never"),
            Axis::Queues => settings.queues.to_string(),
            Axis::QueueDepth => settings.queue_depth.to_string(),
            Axis::BlockQueue => as_many_as(settings.block_queue, "dTable"),
            Axis::SuspendQueue => as_many_as(settings.suspend_queue, "dTable"),
            Axis::ScheduleQueue => as_many_as(settings.schedule_queue, "dTable"),
            Axis::RingFromPipeline => as_many_as(settings.ring_from_pipeline, "ring buffers"),
            Axis::RingFromRing => as_many_as(settings.ring_from_ring, "ring buffers"),
        }
    }

    /// The value with what it is of, for names of series and charts.
    pub fn named_value(self, settings: &Settings) -> String {
        match (self, &settings.traffic) {
            (Axis::Traffic, Traffic::Turns(gap)) => format!("gap of {gap}"),
            (Axis::PacketBytes, _) if settings.packet_bytes.is_none() => "own length".to_owned(),
            (Axis::BlockingThreshold, _) if settings.blocking_threshold.is_none() => {
                "never blocked".to_owned()
            }
            (Axis::Load, _) => settings.load.to_string(),
            _ => self.words()[1].replace("{}", &self.value(settings)),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::At(percent) => write!(f, "{percent}%"),
            Load::Highest { loss: 0.0 } => f.write_str("no loss"),
            Load::Highest { loss } => write!(f, "loss <= {}%", loss * 100.0),
        }
    }
}

impl From<Load> for String {
    fn from(load: Load) -> String {
        load.to_string()
    }
}
