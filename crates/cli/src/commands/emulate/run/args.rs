//! What `paceline emulate` takes.

use std::ops::Range;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use pipeline::{BlockingOptions, Line, Model, Options, Pacing, RapidOptions, WhenFull};

use crate::args::buffers::{Level, RapidArgs, size};
use crate::args::{PortOf, number};

const NOTES: &str = "\
What runs:
  PROG.p4     a program in the subset of P4-16 that docs/p4.md lists, compiled for the pipeline
  synthetic   a function of --stages stages that reads a flow's state in the first and writes it in the last for
              --update-rate percent of the packets

Examples:
  paceline emulate examples/p4/port_knocking.p4 --pcap captures/edge.pcap --check
  paceline emulate examples/p4/nat_lb.p4 --stf examples/p4/nat_lb.stf --traffic university --model blocking
  paceline emulate examples/p4/stateful_firewall.p4 --pcap captures/edge.pcap --port-of 192.0.2.0/24=0 --port 1
  paceline emulate synthetic --stages 4 --update-rate 30 --traffic zipf --load 60
  paceline emulate examples/p4/syn_cookie.p4 --pcap captures/edge.pcap --trace-cycles 100..110";

const PROGRAM: &str = "Program and ports";
const PIPELINE: &str = "Pipeline and load";
const BUFFERS: &str = "Buffers of the models";

#[derive(Args)]
#[command(after_help = NOTES, group = clap::ArgGroup::new("arriving").required(true).args(["pcap", "traffic"]))]
pub struct RunArgs {
    /// The program, or `synthetic`
    #[arg(value_name = "PROG.p4", required = true)]
    pub program: Option<PathBuf>,
    /// Look for included files here, after the program's own folder
    #[arg(help_heading = PROGRAM, short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro, as `#define NAME VALUE` does
    #[arg(help_heading = PROGRAM, short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// The model of the hardware
    #[arg(long, value_name = "NAME", default_value = "rapid", value_parser = PossibleValuesParser::new(Model::NAMES))]
    pub model: String,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: Option<PathBuf>,
    /// Instead of a capture, packets by a model of traffic (see `paceline generate`)
    #[arg(long, value_name = "MODEL")]
    pub traffic: Option<String>,
    /// So many packets at most
    #[arg(long, value_name = "N", value_parser = number(1..))]
    pub packets: Option<usize>,
    /// The port that packets come in by, all but those of --port-of
    #[arg(help_heading = PROGRAM, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..511))]
    pub port: u16,
    /// The port of the packets from a source: an IPv4 or IPv6 prefix (the longest counts), an address, or a MAC
    /// address, which goes before those. May be given several times; packets from elsewhere come in by --port
    #[arg(help_heading = PROGRAM, long, value_name = "SOURCE=PORT")]
    pub port_of: Vec<PortOf>,
    /// A test file (see docs/p4.md): entries of tables, groups of ports, rates of meters. Run before the packets
    #[arg(long, value_name = "FILE")]
    pub stf: Option<PathBuf>,
    /// Stages of the pipeline [default: those of the program; synthetic: 2]
    #[arg(help_heading = PIPELINE, long, value_name = "M", value_parser = number(1..=16))]
    pub stages: Option<usize>,
    /// rapid: pipelines that share the ring [default: 1]; a packet goes into the one of its port, modulo their number
    #[arg(help_heading = PIPELINE, long, value_name = "N", value_parser = number(1..=32))]
    pub pipelines: Option<usize>,
    /// Cycles of a stage [default: those of the model's prototype]
    #[arg(help_heading = PIPELINE, long, value_name = "N", value_parser = number(1..=256))]
    pub stage_cycles: Option<usize>,
    /// Consistency of all tables, instead of what the program says: strict, weak, or bsK, after an update K stale
    /// packets at most
    #[arg(help_heading = PIPELINE, long, value_name = "LEVEL")]
    pub consistency: Option<Level>,
    /// synthetic: packets that update their flow's state, percent [default: 30]
    #[arg(help_heading = PIPELINE, long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub update_rate: Option<u64>,
    /// When packets arrive
    #[arg(help_heading = PIPELINE, long, value_name = "HOW", value_enum, default_value_t = Arriving::Load)]
    pub pacing: Arriving,
    /// Share of the line's rate that is used, in percent
    #[arg(help_heading = PIPELINE, long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub load: u32,
    /// What happens to a packet for which there is no room
    #[arg(help_heading = PIPELINE, long, value_name = "WHAT", value_enum, default_value_t = Full::Drop)]
    pub when_full: Full,
    #[command(flatten)]
    pub rapid: RapidArgs,
    /// rapid: flows in the Block queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub block_queue: Option<usize>,
    /// rapid: flows in the Suspend queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub suspend_queue: Option<usize>,
    /// rapid: flows in the Schedule queue [default: as many as in dTable]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub schedule_queue: Option<usize>,
    /// rapid: packets in a ring node that come from its stage [default: that of --ring-buffer]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub ring_from_pipeline: Option<usize>,
    /// rapid: packets in a ring node that come from the ring [default: that of --ring-buffer]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub ring_from_ring: Option<usize>,
    /// blocking, flowblaze: flow queues [default: 4]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = number(1..=4_096))]
    pub queues: Option<usize>,
    /// blocking, flowblaze: packets in a flow queue [default: 32, flowblaze 64]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub queue_depth: Option<usize>,
    /// Compare each packet that leaves and each final state with the reference; exit status 1 if one differs
    #[arg(long)]
    pub check: bool,
    /// Show what all registers and buffers hold at the beginning of these cycles, the last one not included
    #[arg(long, value_name = "A..B", value_parser = cycles)]
    pub trace_cycles: Option<Range<u64>>,
    /// Write what all registers, queues and tables of RAPID hold in each cycle, of a program that `p4 rtl` takes: what hardware
    /// is held to (docs/rtl.md)
    #[arg(long, value_name = "FILE", conflicts_with = "stf")]
    pub trace_registers: Option<PathBuf>,
    /// Write the packets that leave, whatever their port, in order of departure, to this pcap; `-` is standard output, and the
    /// text then goes to standard error. A run that is stopped leaves them in OUT.pcap.partial
    #[arg(long, value_name = "OUT.pcap")]
    pub out: Option<PathBuf>,
    /// Write the report as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a page that needs no other file; `-` as with --json
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// When packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arriving {
    /// Back to back, a cycle for 64 bytes, at --load percent of that
    Load,
    /// One in each cycle, whatever its length
    EveryCycle,
    /// At the times that they have, 1,000 cycles to the microsecond
    Timed,
}

/// What happens to a packet for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Full {
    /// It is lost
    Drop,
    /// It waits, and what is behind it stands still
    Stall,
}

impl RunArgs {
    /// The model with its buffers.
    pub fn model(&self) -> Model {
        match Model::named(&self.model) {
            Some(Model::Blocking(own)) => Model::Blocking(self.queues(own)),
            Some(Model::FlowBlaze(own)) => Model::FlowBlaze(self.queues(own)),
            Some(Model::Rapid(own)) => Model::Rapid(self.rapid(own)),
            Some(stateless) => stateless,
            None => Model::Rapid(self.rapid(RapidOptions::default())),
        }
    }

    fn queues(&self, own: BlockingOptions) -> BlockingOptions {
        BlockingOptions {
            queues: self.queues.unwrap_or(own.queues),
            depth: self.queue_depth.unwrap_or(own.depth),
        }
    }

    fn rapid(&self, own: RapidOptions) -> RapidOptions {
        let all = self.rapid.options(own);
        RapidOptions {
            block_queue: self.block_queue.unwrap_or(all.block_queue),
            suspend_queue: self.suspend_queue.unwrap_or(all.suspend_queue),
            schedule_queue: self.schedule_queue.unwrap_or(all.schedule_queue),
            ring_from_pipeline: self.ring_from_pipeline.unwrap_or(all.ring_from_pipeline),
            ring_from_ring: self.ring_from_ring.unwrap_or(all.ring_from_ring),
            consistency: self.consistency.map(|level| level.0),
            pipelines: self.pipelines.unwrap_or(own.pipelines),
            ..all
        }
    }

    /// What all models have in common.
    pub fn options(&self) -> Options {
        let pacing = match self.pacing {
            Arriving::Load => Pacing::Load { percent: self.load },
            Arriving::EveryCycle => Pacing::EveryCycle,
            Arriving::Timed => Pacing::Timed,
        };
        Options {
            stages: self.stages,
            stage_cycles: self.stage_cycles,
            line: Line { pacing, ..Line::default() },
            when_full: match self.when_full {
                Full::Drop => WhenFull::Drop,
                Full::Stall => WhenFull::Stall,
            },
            ..Options::default()
        }
    }
}

fn cycles(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "two numbers of cycles, the first below the second, such as 100..110".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from < to { Ok(from..to) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        run: RunArgs,
    }

    fn rapid(options: &[&str]) -> RapidOptions {
        let words = [&["paceline", "synthetic", "--traffic", "uniform"], options].concat();
        match Words::try_parse_from(words).expect("options").run.model() {
            Model::Rapid(rapid) => rapid,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_buffer_has_its_size() {
        let own = RapidOptions::default();
        assert_eq!(rapid(&[]), own);
        let queues =
            |size| RapidOptions { block_queue: size, suspend_queue: size, schedule_queue: size, ..own };
        assert_eq!(rapid(&["--dtable", "32"]), RapidOptions { dirty_table: 32, ..queues(32) });
        let one_given = RapidOptions { dirty_table: 32, suspend_queue: 5, ..queues(32) };
        assert_eq!(rapid(&["--dtable", "32", "--suspend-queue", "5"]), one_given);
        assert_eq!(rapid(&["--block-queue", "7"]), RapidOptions { block_queue: 7, ..own });
        assert_eq!(rapid(&["--schedule-queue", "9"]), RapidOptions { schedule_queue: 9, ..own });
        assert_eq!(rapid(&["--ring-from-ring", "3"]), RapidOptions { ring_from_ring: 3, ..own });
        let both = RapidOptions { ring_from_pipeline: 2, ring_from_ring: 4, ..own };
        assert_eq!(rapid(&["--ring-buffer", "4", "--ring-from-pipeline", "2"]), both);
    }
}
