//! `paceline p4`: programs in P4-16 with tables that the data plane writes.

pub mod matrix;
pub mod resources;
mod rtl;
mod sequencer;
mod xdp;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::p4::interpret::{Dump, Machine, Output};
use ::p4::ir::{Memory, MuPlace, Program};
use ::p4::passes;
use ::p4::stf::{self, StfReport};
use ::p4::uses::{Object, Uses};
use ::xdp::Strategy;
use clap::{Args, Subcommand, ValueEnum};
use engine::{Progress, Registry};
use io::capture::{CaptureError, CaptureWriter};
use schemars::JsonSchema;
use serde::Serialize;
use wire::LinkType;

use crate::args::{PortOf, Ports, ProgramArgs, run_test};
use crate::explain::Code;
use crate::failure::Failure;
use crate::input::{open_capture, tell_remarks};
use crate::output::{Reports, count, heading, keep, plural, table};
use crate::progress::{go_on, interruptible};

#[derive(Args)]
pub struct P4Args {
    #[command(subcommand)]
    pub command: P4Command,
}

#[derive(Subcommand)]
pub enum P4Command {
    /// Check a program: every mistake with its place
    Check(ProgramArgs),
    /// Show the intermediate representation
    Ir(OutputArgs),
    /// Compile a program: for a pipeline (stages, where state is read and written, what is renamed), or to XDP programs in C
    Compile(CompileArgs),
    /// Place a program on a chip: what it takes of its memories, keys and header vector, or what does not fit
    Resources(resources::ResourcesArgs),
    /// Write a program as hardware: what rtl/rapid needs of it, in SystemVerilog
    Rtl(rtl::RtlArgs),
    /// Write the sequencer of a program for a switch, as P4 for v1model: registers hold the history (SCR §3.3)
    Sequencer(sequencer::SequencerArgs),
    /// Run a program over a capture or a test file, as the reference does it
    Run(RunArgs),
    /// Run programs on all models of pipelines and as XDP programs, and hold them to the reference: a table of what is equal,
    /// what is refused and why, and ns a packet in the kernel
    Matrix(matrix::MatrixArgs),
}

#[derive(Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub source: ProgramArgs,
    /// Write it as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct CompileArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// What it is compiled for. `xdp` writes C into --out, builds it with clang, and has the kernel check it (see docs/xdp.md)
    #[arg(long, value_enum, default_value_t = Target::Pipeline)]
    pub target: Target,
    /// How XDP programs divide state among cores: `sharded`; `shared`, one state under a lock; or `scr`, where each core has
    /// all of it and replays what it did not get
    #[arg(long, value_name = "STRATEGY", default_value = "sharded", value_parser = str::parse::<Strategy>)]
    pub strategy: Strategy,
    /// The folder for the C and the object of --target xdp; made if it is not there
    #[arg(long, value_name = "DIR", required_if_eq("target", "xdp"))]
    pub out: Option<PathBuf>,
}

/// What a program is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The pipeline models
    Pipeline,
    /// XDP programs in the kernel
    Xdp,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("input").required(true).multiple(true).args(["pcap", "packet", "stf"]))]
#[command(group = clap::ArgGroup::new("frames").multiple(true).args(["pcap", "packet"]))]
pub struct RunArgs {
    #[command(flatten)]
    pub source: ProgramArgs,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: Option<PathBuf>,
    /// A packet in hexadecimal, from its Ethernet header on; what leaves is shown. May be given several times. Before
    /// the capture, if there is one
    #[arg(long, value_name = "HEX", value_parser = hex)]
    pub packet: Vec<Bytes>,
    /// The port that packets come in by, all but those of --port-of
    #[arg(long, value_name = "N", default_value_t = 0, requires = "frames", value_parser = clap::value_parser!(u16).range(0..511))]
    pub port: u16,
    /// The port of the packets from a source: an IPv4 or IPv6 prefix (the longest counts), an address, or a MAC
    /// address, which goes before those. May be given several times; packets from elsewhere come in by --port
    #[arg(long, value_name = "SOURCE=PORT", requires = "frames")]
    pub port_of: Vec<PortOf>,
    /// Write the packets that leave, whatever their port, in order, to this pcap; `-` is standard output, and the
    /// report then goes to standard error
    #[arg(long, value_name = "OUT.pcap", requires = "pcap")]
    pub out: Option<PathBuf>,
    /// A test file (see docs/p4.md): entries, packets and what is expected. Before the capture, if there is one
    #[arg(long, value_name = "FILE")]
    pub stf: Option<PathBuf>,
    /// Write the report as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A packet's bytes.
#[derive(Clone, Debug)]
pub struct Bytes(Vec<u8>);

fn hex(text: &str) -> Result<Bytes, String> {
    let digits: String = text.split_whitespace().collect();
    let bytes = stf::from_hex(digits.strip_prefix("0x").unwrap_or(&digits)).map(Bytes);
    bytes.ok_or_else(|| "a packet is pairs of hexadecimal digits".to_owned())
}

/// A packet of `--packet`, and what became of it.
#[derive(Serialize, JsonSchema)]
pub struct Sent {
    /// The port that it came in by.
    port: u16,
    /// Its bytes, in hexadecimal.
    bytes: String,
    /// What left; nothing if the program dropped it.
    out: Vec<Copied>,
}

/// A packet that leaves.
#[derive(Serialize, JsonSchema)]
pub struct Copied {
    /// By which port.
    port: u16,
    /// Its bytes, in hexadecimal.
    bytes: String,
}

/// The JSON of `paceline p4 run --json`. Documented by `docs/p4-run.schema.json`; fields are added, never renamed
/// or removed.
#[derive(Serialize, JsonSchema)]
pub struct P4Run {
    /// Version of Paceline.
    paceline: String,
    /// The program's file.
    program: String,
    /// Packets of the capture.
    packets: u64,
    /// Packets that left.
    packets_out: u64,
    /// Packets of which nothing left.
    dropped: u64,
    /// What the test file gave, if there was one.
    stf: Option<StfReport>,
    /// Packets given one by one.
    sent: Vec<Sent>,
    /// What the packets have left behind.
    state: Dump,
    /// Whether the whole capture was read.
    complete: bool,
    /// Why it was not, if so.
    error: Option<String>,
}

pub fn command(args: &P4Args, _: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        P4Command::Check(args) => check(args),
        P4Command::Ir(args) => show(args, |_| {}, |program| program.to_text()),
        P4Command::Compile(args) => compile(args),
        P4Command::Resources(args) => resources::command(args),
        P4Command::Rtl(args) => rtl::command(args),
        P4Command::Sequencer(args) => sequencer::command(args),
        P4Command::Run(args) => run(args),
        P4Command::Matrix(args) => matrix::command(args),
    }
}

fn check(args: &ProgramArgs) -> Result<ExitCode, Failure> {
    let program = args.read()?;
    let text = format!(
        "{}: {}, {}, {}, {}\n",
        args.program.display(),
        plural(program.parser.len() as u64, "parser state"),
        plural(program.tables.len() as u64, "table"),
        plural(program.mu_tables.len() as u64, "muTable"),
        plural(program.fields.len() as u64, "field"),
    );
    crate::output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn compile(args: &CompileArgs) -> Result<ExitCode, Failure> {
    match (args.target, &args.out) {
        (Target::Xdp, Some(folder)) => {
            let program = args.output.source.read()?;
            crate::output::print(&xdp::compile(&program, args.strategy, folder)?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => show(&args.output, passes::compile, render_layout),
    }
}

fn show(
    args: &OutputArgs,
    pass: impl Fn(&mut Program),
    text: impl Fn(&Program) -> String,
) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&[&args.source.program], None, args.json.as_deref())?;
    let mut program = args.source.read()?;
    pass(&mut program);
    reports.write(&program, &text(&program))?;
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let inputs: Vec<&Path> = [Some(&args.source.program), args.pcap.as_ref(), args.stf.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let reports = Reports::open(&inputs, args.out.as_deref(), args.json.as_deref())?;
    let (report, input_error) = interpret(args, &interruptible(None))?;
    reports.write(&report, &render_run(&report, args))?;
    let failures = report.stf.map_or(0, |stf| stf.failures.len() as u64);
    match (input_error, failures) {
        (Some(error), _) => Err(Failure::cut_short(error)),
        (None, 0) => Ok(ExitCode::SUCCESS),
        (None, failures) => {
            Err(Failure::difference(format!("{} not met", plural(failures, "expectation")))
                .coded(Code::NotMet))
        }
    }
}

/// The reference's run as a call, which writes nothing but what `--out` asks for. What a test file expects and does not get is
/// in the report.
pub fn call(args: &RunArgs, progress: &Progress) -> Result<P4Run, Failure> {
    interpret(args, progress).map(|(report, _)| report)
}

/// What became of the packets, and why the capture could not be read to its end, if so.
fn interpret(args: &RunArgs, progress: &Progress) -> Result<(P4Run, Option<CaptureError>), Failure> {
    let ports = Ports::new(args.port, &args.port_of)?;
    let program = args.source.read()?;
    let mut machine = Machine::new(program);
    let stf = args.stf.as_deref().map(|path| run_test(&mut machine, path)).transpose()?;
    let sent = args.packet.iter().map(|Bytes(bytes)| send(&mut machine, &ports, bytes)).collect();
    let mut counts = Counts::default();
    let input_error = match &args.pcap {
        Some(pcap) => capture(&mut machine, pcap, (args, &ports), &mut counts, progress)?,
        None => None,
    };
    let report = P4Run {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        program: args.source.program.display().to_string(),
        packets: counts.packets,
        packets_out: counts.packets_out,
        dropped: counts.dropped,
        stf,
        sent,
        state: machine.state().dump(machine.program()),
        complete: input_error.is_none(),
        error: input_error.as_ref().map(CaptureError::to_string),
    };
    Ok((report, input_error))
}

fn send(machine: &mut Machine, ports: &Ports, bytes: &[u8]) -> Sent {
    let port = ports.of(bytes, bytes.len() as u32);
    let outputs = machine.packet(port, bytes, 0);
    let copied = |output: &Output| Copied { port: output.port, bytes: stf::to_hex(&output.bytes) };
    Sent { port, bytes: stf::to_hex(bytes), out: outputs.iter().map(copied).collect() }
}

#[derive(Default)]
struct Counts {
    packets: u64,
    packets_out: u64,
    dropped: u64,
}

/// All packets of a capture; gives why there are no more, if not because it ends.
fn capture(
    machine: &mut Machine,
    pcap: &Path,
    (args, ports): (&RunArgs, &Ports),
    counts: &mut Counts,
    progress: &Progress,
) -> Result<Option<CaptureError>, Failure> {
    let mut reader = open_capture(pcap)?;
    let mut writer = args
        .out
        .as_deref()
        .map(|out| CaptureWriter::create(out, LinkType::Ethernet))
        .transpose()
        .map_err(Failure::usage)?;
    let error = loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break None,
            Err(error) if counts.packets == 0 => return Err(Failure::usage(error)),
            Err(error) => break Some(error),
        };
        if record.link != LinkType::Ethernet {
            let message = format!(
                "{} has packets that are not Ethernet\nPrograms are run on Ethernet frames.",
                pcap.display()
            );
            return Err(Failure::usage(message));
        }
        if let Err(interrupted) = go_on(&progress.stop) {
            let kept = writer
                .zip(args.out.as_deref())
                .and_then(|(writer, out)| keep(writer, counts.packets_out, out));
            kept.iter().for_each(|kept| eprintln!("note: {kept}"));
            return Err(interrupted);
        }
        let time_ns = record.time_ns;
        let outputs = machine.packet(ports.of(record.data, record.wire_len), record.data, time_ns);
        counts.packets += 1;
        counts.packets_out += outputs.len() as u64;
        counts.dropped += u64::from(outputs.is_empty());
        for output in outputs {
            if let Some(writer) = &mut writer {
                writer.write(time_ns, output.bytes.len() as u32, &output.bytes).map_err(Failure::usage)?;
            }
        }
    };
    tell_remarks(&reader);
    if let Some(writer) = writer.filter(|_| error.is_none()) {
        writer.finish().map_err(Failure::usage)?;
    }
    Ok(error)
}

fn render_run(report: &P4Run, args: &RunArgs) -> String {
    let mut text = String::new();
    if let Some(stf) = &report.stf {
        let met = stf.expectations - (stf.failures.len() as u64).min(stf.expectations);
        text += &format!(
            "test: {}, {met} of {} met\n",
            plural(stf.packets, "packet"),
            plural(stf.expectations, "expectation")
        );
        let path = args.stf.as_deref().unwrap_or(Path::new(""));
        for failure in &stf.failures {
            text += &format!("  {}:{}: {}\n", path.display(), failure.line, failure.message);
        }
    }
    for sent in &report.sent {
        match sent.out.is_empty() {
            true => text += "packet: dropped\n",
            false => text += "packet:\n",
        }
        sent.out.iter().for_each(|copied| text += &format!("  port {}: {}\n", copied.port, copied.bytes));
    }
    if args.pcap.is_some() {
        let (packets, out) = (plural(report.packets, "packet"), count(report.packets_out));
        text += &format!("capture: {packets}, {out} out, {} dropped\n", count(report.dropped));
    }
    for table in &report.state.mu_tables {
        text += &format!("muTable {}: {} entries", table.name, count(table.entries.len() as u64));
        let refused = if table.refused_writes > 0 {
            format!(", {} writes refused: full", table.refused_writes)
        } else {
            String::new()
        };
        text += &format!("{refused}\n");
    }
    let registers = report.state.registers.iter().map(|register| ("register", register));
    for (what, array) in registers.chain(report.state.counters.iter().map(|counter| ("counter", counter))) {
        text += &format!("{what} {}: {} in use\n", array.name, plural(array.values.len() as u64, "place"));
    }
    text
}

fn render_layout(program: &Program) -> String {
    let Some(layout) = &program.layout else { return String::new() };
    let mut text = format!("{}: {}", program.name, plural(layout.stages.into(), "stage"));
    match layout.span {
        0 => text += ", no state that packets write\n",
        span => text += &format!(", the stateful function spans {span}\n"),
    }
    let stage = |stage: u16| if stage == 0 { "-".to_owned() } else { stage.to_string() };
    let row = |kind: &str, name: &str, place: &MuPlace, what: String| {
        vec![kind.to_owned(), name.to_owned(), what, stage(place.reads), stage(place.writes)]
    };
    let uses = Uses::of(program);
    let memory = |object: Object, place: &MuPlace| {
        let has_two = uses.objects.iter().any(|used| used.object == object && used.is_second_key());
        match place.memory {
            Memory::Register if has_two => "register with two read ports",
            Memory::Register => "register",
            Memory::FlowState => "flow state",
        }
    };
    let tables = program.tables.iter().zip(&layout.tables);
    let tables =
        tables.map(|(table, at)| vec!["table".into(), table.name.clone(), "".into(), stage(*at), "-".into()]);
    let mu_tables = (0..).zip(program.mu_tables.iter().zip(&layout.mu_tables));
    let mu_tables = mu_tables.map(|(at, (table, place))| {
        let memory = memory(Object::MuTable(at), place);
        row("muTable", &table.name, place, format!("{memory}, {}", table.consistency))
    });
    let registers = (0..).zip(program.registers.iter().zip(&layout.registers));
    let registers = registers.map(|(at, (register, place))| {
        row("register", &register.name, place, memory(Object::Register(at), place).to_owned())
    });
    let rows: Vec<_> = tables.chain(mu_tables).chain(registers).collect();
    if !rows.is_empty() {
        text += &heading("where things are");
        text += &table(&["kind", "name", "memory", "stage", "written from"], &rows, 3);
    }
    for renamed in &layout.renamed {
        let name = |field: u32| &program.fields[field as usize].name;
        text += &format!(
            "renamed: {} to {}, so that a re-submitted packet finds it unchanged\n",
            name(renamed.field),
            name(renamed.to)
        );
    }
    for note in &layout.notes {
        text += &format!("note: {note}\n");
    }
    for warning in &layout.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}
