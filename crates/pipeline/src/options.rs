//! What can be set, and what is refused.

use thiserror::Error;
use traffic::Share;

use crate::port::{Line, LineError};
use crate::program::{Consistency, LayoutError, MAX_STAGES, MAX_TABLES, Program, TableSpec, check_layout};

/// What all models have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Stages of the pipeline; without it as many as the program takes.
    pub stages: Option<usize>,
    /// Cycles that a packet spends in a stage; without it what the model's prototype took (RAPID §6.1).
    pub stage_cycles: Option<usize>,
    /// How packets arrive.
    pub line: Line,
    /// What happens where there is no room for a packet.
    pub when_full: WhenFull,
    /// Share of the cycles in which what follows the pipeline takes no packet, so that the pipeline stands still.
    pub egress_busy: Share,
    /// Decides which cycles these are.
    pub seed: u64,
    /// A model that holds packets and lets none go for as many cycles is stuck.
    pub patience_cycles: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            stages: None,
            stage_cycles: None,
            line: Line::default(),
            when_full: WhenFull::Drop,
            egress_busy: Share::NONE,
            seed: 1,
            patience_cycles: 1_000_000,
        }
    }
}

/// What happens to a packet for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost, and counted by cause.
    #[default]
    Drop,
    /// It waits, and what is behind it stands still; nothing is ever lost.
    Stall,
}

/// Which pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// Stateless: tables are read and never written.
    Pisa,
    /// Tables of one stage are atoms: read and written within a cycle. No others.
    Banzai,
    /// Packets wait before a function until none of their queue is in it.
    Blocking(BlockingOptions),
    /// Packets wait as under `Blocking`, with one stage for each function, of any complexity.
    FlowBlaze(BlockingOptions),
    /// Speculation, and a side ring that writes states and sends packets back.
    Rapid(RapidOptions),
}

impl Model {
    /// The names of all models.
    pub const NAMES: [&'static str; 5] = ["pisa", "banzai", "blocking", "flowblaze", "rapid"];

    /// The model of that name with its defaults, if there is one.
    pub fn named(name: &str) -> Option<Model> {
        match name {
            "pisa" => Some(Model::Pisa),
            "banzai" => Some(Model::Banzai),
            "blocking" => Some(Model::Blocking(BlockingOptions::BLOCKING)),
            "flowblaze" => Some(Model::FlowBlaze(BlockingOptions::FLOWBLAZE)),
            "rapid" => Some(Model::Rapid(RapidOptions::default())),
            _ => None,
        }
    }

    /// Pipelines that it has: of RAPID several may share a ring.
    pub fn pipelines(&self) -> usize {
        match self {
            Model::Rapid(rapid) => rapid.pipelines,
            _ => 1,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Model::Pisa => "pisa",
            Model::Banzai => "banzai",
            Model::Blocking(_) => "blocking",
            Model::FlowBlaze(_) => "flowblaze",
            Model::Rapid(_) => "rapid",
        }
    }

    /// Cycles that a stage of its prototype takes (RAPID §6.1).
    pub fn stage_cycles(&self) -> usize {
        match self {
            Model::Pisa | Model::Banzai => 16,
            Model::FlowBlaze(_) => 21,
            // RAPID §7.4 runs the blocking scheme on stages of RAPID's length.
            Model::Blocking(_) | Model::Rapid(_) => 18,
        }
    }

    /// Whether it puts schedulers around a table.
    pub(crate) fn is_function(&self, table: &TableSpec) -> bool {
        match self {
            Model::Pisa | Model::Banzai => false,
            Model::Blocking(_) | Model::Rapid(_) => !table.is_atom(),
            Model::FlowBlaze(_) => true,
        }
    }
}

/// Flow queues before a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockingOptions {
    /// Queues of each function.
    pub queues: usize,
    /// Packets that each holds.
    pub depth: usize,
}

impl BlockingOptions {
    /// Four queues of 32 (RAPID §2.3, §7.4).
    pub const BLOCKING: BlockingOptions = BlockingOptions { queues: 4, depth: 32 };
    /// Four queues of 64 (RAPID §6.1).
    pub const FLOWBLAZE: BlockingOptions = BlockingOptions { queues: 4, depth: 64 };
}

/// Sizes of RAPID's schedulers; the defaults are those of its Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RapidOptions {
    /// Packets in RB, the buffer of those sent back.
    pub resubmitted_buffer: usize,
    /// Flows in each dTable.
    pub dirty_table: usize,
    /// Packets in PB, the PHV buffer.
    pub phv_buffer: usize,
    /// Flows in the Block queue.
    pub block_queue: usize,
    /// Flows in the Suspend queue.
    pub suspend_queue: usize,
    /// Flows in the Schedule queue.
    pub schedule_queue: usize,
    /// Packets in a ring node that came from its stage.
    pub ring_from_pipeline: usize,
    /// Packets in a ring node that came from the ring.
    pub ring_from_ring: usize,
    /// A flow that was updated more often than this before its backlog was cleared is blocked instead (§4.6), if
    /// fewer than two packets went for each update; without it no flow ever is.
    pub blocking_threshold: Option<u32>,
    /// For all tables, instead of what the program says.
    pub consistency: Option<Consistency>,
    /// Pipelines that share the ring (§8). Each runs the program, with tables and schedulers of its own.
    pub pipelines: usize,
}

impl Default for RapidOptions {
    fn default() -> RapidOptions {
        RapidOptions {
            resubmitted_buffer: 16,
            dirty_table: 64,
            phv_buffer: 32,
            block_queue: 64,
            suspend_queue: 64,
            schedule_queue: 64,
            ring_from_pipeline: 8,
            ring_from_ring: 8,
            blocking_threshold: Some(4),
            consistency: None,
            pipelines: 1,
        }
    }
}

impl RapidOptions {
    /// Flows that can be dirty at a time: each has a place in dTable, and may be in any of the three queues.
    pub fn dirty_flows(&self) -> usize {
        self.dirty_table.min(self.block_queue).min(self.suspend_queue).min(self.schedule_queue)
    }

    /// So large that nothing is ever full: to find out how much is needed.
    pub fn unbounded() -> RapidOptions {
        RapidOptions {
            resubmitted_buffer: 4_096,
            dirty_table: 4_096,
            phv_buffer: 1 << 16,
            block_queue: 4_096,
            suspend_queue: 4_096,
            schedule_queue: 4_096,
            ring_from_pipeline: 4_096,
            ring_from_ring: 4_096,
            ..RapidOptions::default()
        }
    }
}

/// Why a model cannot be built.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SetupError {
    /// The program's tables.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The line.
    #[error(transparent)]
    Line(#[from] LineError),
    /// A program that is longer than the pipeline.
    #[error("the program takes {program} stages, the pipeline has {pipeline}")]
    TooLong {
        /// Stages of the program.
        program: usize,
        /// Stages of the pipeline.
        pipeline: usize,
    },
    /// A table that the model has no hardware for.
    #[error(
        "table {table:?} is read in stage {read_stage} and written in stage {write_stage}; {model} can write a table only in the stage that reads it"
    )]
    NoWriteback {
        /// The model.
        model: &'static str,
        /// The table.
        table: String,
        /// Where it is read.
        read_stage: usize,
        /// Where it is written.
        write_stage: usize,
    },
    /// Two tables in one stage, each of which needs a scheduler.
    #[error(
        "tables {first:?} and {second:?} are both in stage {stage}; {model} has one scheduler in each stage"
    )]
    OneScheduler {
        /// The model.
        model: &'static str,
        /// One table.
        first: String,
        /// The other.
        second: String,
        /// Where they are.
        stage: usize,
    },
    /// A table that packets read under two keys, where they wait by one.
    #[error("packets read table {table:?} under two keys; in {model} a packet waits for one")]
    SecondKey {
        /// The model.
        model: &'static str,
        /// The table.
        table: String,
    },
    /// A size of 0, or a larger one than the model allows.
    #[error("{what} is {value}; it must be 1 to {most}")]
    Size {
        /// What it is.
        what: &'static str,
        /// What was asked for.
        value: usize,
        /// The largest.
        most: usize,
    },
    /// Stages so short that a packet would overtake `cancel_dirty`.
    #[error(
        "with {stage_cycles} cycles a stage a packet passes the {span} stages of table {table:?} before a cancel_dirty signal has gone around the ring ({signal_cycles} cycles); use longer stages or fewer of them"
    )]
    SignalTooSlow {
        /// The table.
        table: String,
        /// Its stages.
        span: usize,
        /// Cycles of a stage.
        stage_cycles: usize,
        /// What the signal takes.
        signal_cycles: usize,
    },
}

/// Most nodes of a ring: two pipelines of the most stages.
const MAX_RING_NODES: usize = 2 * MAX_STAGES;

/// Most packets of any buffer.
const MAX_BUFFER: usize = 1 << 20;

/// A model and a program that go together.
pub(crate) struct Setup {
    pub pipelines: usize,
    /// Stages of each pipeline.
    pub stages: usize,
    pub stage_cycles: usize,
}

impl Setup {
    pub fn check<P: Program>(program: &P, model: &Model, options: &Options) -> Result<Setup, SetupError> {
        let stages = options.stages.unwrap_or(program.stages());
        check_layout(program.stages(), program.tables())?;
        if stages < program.stages() {
            return Err(SetupError::TooLong { program: program.stages(), pipeline: stages });
        }
        size("the number of stages", stages, MAX_STAGES)?;
        options.line.check()?;
        let stage_cycles = options.stage_cycles.unwrap_or(model.stage_cycles());
        size("the number of cycles of a stage", stage_cycles, 256)?;
        let pipelines = model.pipelines();
        size("the number of pipelines", pipelines, MAX_RING_NODES)?;
        size("the number of stages of all pipelines on a ring", pipelines * stages, MAX_RING_NODES)?;
        size(
            "the number of tables of all pipelines on a ring",
            pipelines * program.tables().len().max(1),
            MAX_TABLES,
        )?;
        let setup = Setup { pipelines, stages, stage_cycles };
        match model {
            Model::Pisa => {}
            Model::Banzai => atoms_only(program.tables(), model)?,
            Model::Blocking(blocking) => check_blocking(blocking)?,
            Model::FlowBlaze(blocking) => {
                check_blocking(blocking)?;
                atoms_only(program.tables(), model)?;
                one_key(program.tables(), model)?;
                one_scheduler(program.tables(), model)?;
            }
            Model::Rapid(rapid) => check_rapid(rapid, program.tables(), &setup)?,
        }
        Ok(setup)
    }
}

fn size(what: &'static str, value: usize, most: usize) -> Result<(), SetupError> {
    match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(SetupError::Size { what, value, most }),
    }
}

fn atoms_only(tables: &[TableSpec], model: &Model) -> Result<(), SetupError> {
    let Some(table) = tables.iter().find(|table| !table.is_atom()) else { return Ok(()) };
    let TableSpec { read_stage, write_stage, .. } = *table;
    Err(SetupError::NoWriteback { model: model.name(), table: table.name.clone(), read_stage, write_stage })
}

fn one_scheduler(tables: &[TableSpec], model: &Model) -> Result<(), SetupError> {
    for (i, table) in tables.iter().enumerate() {
        if let Some(other) = tables[..i].iter().find(|other| other.read_stage == table.read_stage) {
            return Err(SetupError::OneScheduler {
                model: model.name(),
                first: other.name.clone(),
                second: table.name.clone(),
                stage: table.read_stage,
            });
        }
    }
    Ok(())
}

fn one_key(tables: &[TableSpec], model: &Model) -> Result<(), SetupError> {
    let ports = tables.iter().find_map(|table| table.port_of);
    let Some(table) = ports.and_then(|memory| tables.get(memory)) else { return Ok(()) };
    Err(SetupError::SecondKey { model: model.name(), table: table.name.clone() })
}

fn check_blocking(options: &BlockingOptions) -> Result<(), SetupError> {
    size("the number of queues", options.queues, 4_096)?;
    size("the depth of a queue", options.depth, MAX_BUFFER)
}

fn check_rapid(options: &RapidOptions, tables: &[TableSpec], setup: &Setup) -> Result<(), SetupError> {
    size("the size of the resubmitted packet buffer", options.resubmitted_buffer, MAX_BUFFER)?;
    size("the size of dTable", options.dirty_table, crate::cam::MAX_CAM_KEYS)?;
    size("the size of the PHV buffer", options.phv_buffer, MAX_BUFFER)?;
    size("the size of the Block queue", options.block_queue, MAX_BUFFER)?;
    size("the size of the Suspend queue", options.suspend_queue, MAX_BUFFER)?;
    size("the size of the Schedule queue", options.schedule_queue, MAX_BUFFER)?;
    size("the size of a ring node's buffer from the pipeline", options.ring_from_pipeline, MAX_BUFFER)?;
    size("the size of a ring node's buffer from the ring", options.ring_from_ring, MAX_BUFFER)?;
    for table in tables.iter().filter(|table| !table.is_atom()) {
        let (span, stage_cycles) = (table.span(), setup.stage_cycles);
        let signal_cycles = setup.pipelines * setup.stages - span + 4;
        if signal_cycles > span * stage_cycles {
            let table = table.name.clone();
            return Err(SetupError::SignalTooSlow { table, span, stage_cycles, signal_cycles });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Synthetic;

    #[test]
    fn what_does_not_go_together_is_refused_by_name() {
        let program = Synthetic::new(2);
        let options = Options::default();
        let error = Setup::check(&program, &Model::Banzai, &options).err().unwrap();
        assert!(error.to_string().contains("banzai can write a table only in the stage that reads it"));
        let rapid = RapidOptions { phv_buffer: 0, ..RapidOptions::default() };
        let error = Setup::check(&program, &Model::Rapid(rapid), &options).err().unwrap();
        assert_eq!(error.to_string(), "the size of the PHV buffer is 0; it must be 1 to 1048576");
        let short = Options { stages: Some(16), stage_cycles: Some(8), ..Options::default() };
        let rapid = Model::Rapid(RapidOptions::default());
        assert!(matches!(
            Setup::check(&program, &rapid, &short),
            Err(SetupError::SignalTooSlow { signal_cycles: 18, .. })
        ));
        let narrow = Options { stages: Some(1), ..Options::default() };
        assert!(matches!(Setup::check(&program, &Model::Pisa, &narrow), Err(SetupError::TooLong { .. })));
    }

    #[test]
    fn every_name_leads_to_its_model() {
        for name in Model::NAMES {
            assert_eq!(Model::named(name).map(|model| model.name()), Some(name));
        }
        assert_eq!(Model::named("drmt"), None);
    }
}
