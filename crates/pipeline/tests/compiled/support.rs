//! Programs, packets and runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use io::Trace;
use io::capture::CaptureReader;
use p4::interpret::Machine;
use p4::ir::Program;
use p4::{passes, stf};
use paceline_pipeline::compiled::{Check, CompileError, Differences, Image, Input, RunError, emulate_p4};
use paceline_pipeline::{Consistency, Line, Model, Options, Pacing, RapidOptions, Report, WhenFull};

/// The examples.
pub const EXAMPLES: [&str; 7] = [
    "port_knocking",
    "syn_cookie",
    "nat_lb",
    "elephant",
    "stateful_firewall",
    "token_bucket",
    "mac_learning",
];

/// A packet of one's own.
#[derive(Clone, Debug)]
pub struct Frame {
    pub port: u16,
    pub bytes: Vec<u8>,
    pub time_ns: u64,
}

impl Frame {
    pub fn input(&self) -> Input<'_> {
        let wire_len = self.bytes.len() as u32;
        Input { port: self.port, bytes: &self.bytes, wire_len, time_ns: self.time_ns }
    }
}

pub fn inputs(frames: &[Frame]) -> Vec<Input<'_>> {
    frames.iter().map(Frame::input).collect()
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path(name: &str) -> PathBuf {
    root().join("examples/p4").join(name).with_extension("p4")
}

pub fn lowered(name: &str) -> Program {
    let path = path(name);
    let text = fs::read_to_string(&path).expect("an example");
    lowered_text(&path.display().to_string(), &text)
}

pub fn lowered_text(name: &str, text: &str) -> Program {
    match p4::lower(name, text, &p4::Options::default()) {
        Ok((program, _)) => program,
        Err(errors) => panic!("{errors:?}"),
    }
}

/// A program, as it is and compiled, with the entries of a test file.
#[derive(Clone, Debug)]
pub struct Subject {
    pub reference: Machine,
    pub image: Image,
}

impl Subject {
    pub fn new(program: Program, entries: &str) -> Result<Subject, CompileError> {
        Subject::compiled_by(program, entries, passes::compile)
    }

    /// A subject that is compiled by passes of one's own.
    pub fn compiled_by(
        program: Program,
        entries: &str,
        compile: impl Fn(&mut Program),
    ) -> Result<Subject, CompileError> {
        let mut compiled = program.clone();
        compile(&mut compiled);
        let machine = |program| {
            let mut machine = Machine::new(program);
            stf::run(&mut machine, entries).expect("entries");
            machine
        };
        Ok(Subject { reference: machine(program), image: Image::new(machine(compiled))? })
    }

    /// An example with the entries of its test file.
    pub fn example(name: &str) -> Subject {
        Subject::new(lowered(name), &entries(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

pub fn entries(name: &str) -> String {
    let text = fs::read_to_string(path(name).with_extension("stf")).expect("a test file");
    let is_entry =
        |line: &&str| ["add ", "setdefault ", "multicast "].iter().any(|word| line.starts_with(word));
    text.lines().filter(is_entry).collect::<Vec<_>>().join("\n")
}

/// The packets of an example's test file.
pub fn stf_frames(name: &str) -> Vec<Frame> {
    let text = fs::read_to_string(path(name).with_extension("stf")).expect("a test file");
    let mut time_ns = 0;
    let mut frames = Vec::new();
    for line in text.lines() {
        if let Some(time) = line.strip_prefix("time ") {
            time_ns = time.trim().parse::<u64>().expect("microseconds") * 1000;
        }
        let Some(packet) = line.strip_prefix("packet ") else { continue };
        let mut words = packet.split_whitespace();
        let port = words.next().and_then(|port| port.parse().ok()).expect("a port");
        let bytes = stf::from_hex(&words.collect::<String>()).expect("bytes");
        frames.push(Frame { port, bytes, time_ns });
    }
    frames
}

/// Packets of a test file over and over, so that they follow each other in all orders.
pub fn repeated(frames: &[Frame], times: usize) -> Vec<Frame> {
    let mut out = Vec::new();
    let last_ns = frames.last().map_or(0, |frame| frame.time_ns) + 1000;
    for round in 0..times {
        out.extend(frames.iter().map(|frame| {
            let time_ns = frame.time_ns + round as u64 * last_ns;
            Frame { time_ns, ..frame.clone() }
        }));
    }
    out
}

/// All captures: the project's own, and more where there are any; it is said where not.
pub fn captures() -> Vec<(String, Trace)> {
    let mut paths = vec![root().join("captures/edge.pcap")];
    let more = root().join("../shared/captures");
    match fs::read_dir(&more) {
        Ok(files) => paths.extend(files.map(|file| file.expect("a file").path())),
        Err(_) => eprintln!("there are no captures in {}", more.display()),
    }
    paths.retain(|path| path.to_string_lossy().contains(".pcap"));
    let read = |path: PathBuf| {
        let reader = CaptureReader::open(&path).expect("a capture");
        (path.display().to_string(), Trace::read(reader).expect("a whole capture"))
    };
    paths.into_iter().map(read).collect()
}

/// The first packets of a trace. Ports alternate where a source is seen first, so that each has one side.
pub fn frames_of(trace: &Trace, most: usize) -> Vec<Frame> {
    let mut last_ns = 0;
    let frame = |at: usize| {
        let record = trace.packet(at);
        last_ns = record.time_ns.max(last_ns);
        // The lower address is inside.
        let is_outside = record.data.len() >= 34 && record.data[26..30] > record.data[30..34];
        Frame { port: is_outside.into(), bytes: record.data.to_vec(), time_ns: last_ns }
    };
    (0..trace.len().min(most)).map(frame).collect()
}

pub fn every_cycle() -> Options {
    Options {
        line: Line { pacing: Pacing::EveryCycle, ..Line::default() },
        when_full: WhenFull::Stall,
        patience_cycles: 20_000,
        ..Options::default()
    }
}

pub fn run(subject: &Subject, model: &Model, options: &Options, frames: &[Frame]) -> (Report, Differences) {
    let name = subject.image.name();
    try_run(subject, model, options, frames).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn try_run(
    subject: &Subject,
    model: &Model,
    options: &Options,
    frames: &[Frame],
) -> Result<(Report, Differences), RunError> {
    let packets = inputs(frames);
    let mut check = Check::new(&subject.image);
    let outcome = emulate_p4(&subject.image, model, options, &packets, &mut check, &AtomicBool::new(false))?;
    let differences = check.finish(&subject.image, subject.reference.clone(), &packets, &outcome);
    Ok((outcome.report, differences))
}

/// RAPID with one consistency for all tables.
pub fn rapid(consistency: Consistency) -> Model {
    Model::Rapid(RapidOptions { consistency: Some(consistency), ..RapidOptions::default() })
}
