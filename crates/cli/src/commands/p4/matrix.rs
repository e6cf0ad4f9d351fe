//! `paceline p4 matrix`: on what each of some programs runs, whether it does there what the interpreter does, and what it costs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use ::p4::interpret::Machine;
use ::p4::ir::Program;
use ::p4::passes;
use ::xdp::clang::{self, BuildError};
use ::xdp::cost::{Cost, ITEMS, in_turns};
use ::xdp::load::LoadError;
use ::xdp::traffic::{flows, random_packets};
use ::xdp::trial::{self, Course, Packet};
use ::xdp::{Compiled, Strategy, compile};
use clap::Args;
use pipeline::compiled::{Check, Image, Input, emulate_p4};
use pipeline::{Consistency, Model, Options, RapidOptions, WhenFull};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{read_program, run_test};
use crate::failure::Failure;
use crate::object::{not_built, not_loaded};
use crate::output::Reports;
use crate::progress::{go_on, interruptible};

/// Packets of different flows that are in the tables where the cost is measured.
const FLOWS: u16 = 13;

/// Means of which the least counts.
const ROUNDS: u32 = 5;

/// Cores of each strategy; the replicas that recover lose one packet in ten.
const SHARDS: u16 = 4;
const SHARERS: u16 = 3;
const REPLICAS: u16 = 7;
const RECOVERING: u16 = 5;

#[derive(Args)]
pub struct MatrixArgs {
    /// The programs. The test file of a program, if it has one, is NAME.stf beside it
    #[arg(value_name = "PROG.p4", required = true)]
    pub programs: Vec<PathBuf>,
    /// Look for included files here, after a program's own folder
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro, as `#define NAME VALUE` does
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// How many generated packets are compared
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub packets: u32,
    /// Which packets these are
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs of a packet in the kernel of which the mean is taken; 0 measures nothing
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub runs: u32,
    /// Write it as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The JSON of `paceline p4 matrix --json`. Documented by `docs/p4-matrix.schema.json`; fields are added, never renamed or
/// removed.
#[derive(Serialize, JsonSchema)]
pub struct Matrix {
    /// Version of Paceline.
    paceline: String,
    /// Generated packets that each program got.
    packets: u32,
    /// What became of each program.
    programs: Vec<Row>,
}

/// A program.
#[derive(Serialize, JsonSchema)]
pub struct Row {
    /// Its file.
    program: String,
    /// Expectations of its test file, if it has one.
    expectations: Option<u64>,
    /// Those of them that the interpreter did not meet.
    not_met: u64,
    /// Each model of a pipeline, and each strategy of XDP programs.
    ways: Vec<Way>,
    /// ns that an item adds to a packet with `scr`.
    item_ns: Option<f64>,
}

/// One way to run a program.
#[derive(Serialize, JsonSchema)]
pub struct Way {
    /// A pipeline's model, or a strategy of XDP programs.
    name: String,
    /// What came of it.
    outcome: Outcome,
    /// Why it is not equal.
    why: Option<String>,
    /// ns a packet, where it is measured.
    packet_ns: Option<f64>,
}

/// What comes of a way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Each packet and all state are the interpreter's.
    Equal,
    /// Something is not.
    Differs,
    /// The program is not compiled for it.
    Refused,
    /// This machine, or this process, cannot run it.
    NotTried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Equal => "equal",
            Outcome::Differs => "DIFFERS",
            Outcome::Refused => "refused",
            Outcome::NotTried => "not tried",
        })
    }
}

impl Way {
    fn new(name: &str, outcome: Outcome, why: Option<String>) -> Way {
        let first = |why: String| why.lines().next().unwrap_or_default().to_owned();
        Way { name: name.to_owned(), outcome, why: why.map(first), packet_ns: None }
    }

    fn compared(name: &str, difference: Option<String>) -> Way {
        let outcome = if difference.is_some() { Outcome::Differs } else { Outcome::Equal };
        Way::new(name, outcome, difference)
    }
}

pub fn command(args: &MatrixArgs) -> Result<ExitCode, Failure> {
    let inputs: Vec<&Path> = args.programs.iter().map(PathBuf::as_path).collect();
    let reports = Reports::open(&inputs, None, args.json.as_deref())?;
    let progress = interruptible(None);
    let packets = random_packets(args.seed, args.packets as usize);
    let mut programs = Vec::new();
    for path in &args.programs {
        let program = read_program(path, &args.include, &args.define)?;
        programs.push(row(args, path, &program, &packets, &progress.stop)?);
    }
    let matrix = Matrix { paceline: env!("CARGO_PKG_VERSION").to_owned(), packets: args.packets, programs };
    reports.write(&matrix, &render(&matrix))?;
    let has_differed =
        |row: &Row| row.not_met > 0 || row.ways.iter().any(|way| way.outcome == Outcome::Differs);
    let different: Vec<&str> =
        matrix.programs.iter().filter(|row| has_differed(row)).map(|row| row.program.as_str()).collect();
    match different.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::difference(format!(
            "not what the interpreter or the test says: {}",
            different.join(", ")
        ))),
    }
}

fn row(
    args: &MatrixArgs,
    path: &Path,
    program: &Program,
    packets: &[Packet],
    stop: &AtomicBool,
) -> Result<Row, Failure> {
    let test = path.with_extension("stf");
    let report = test.exists().then(|| run_test(&mut Machine::new(program.clone()), &test)).transpose()?;
    let mut ways = Vec::new();
    for name in Model::NAMES {
        go_on(stop)?;
        ways.push(on_pipeline(name, program, packets, stop));
    }
    go_on(stop)?;
    let item_ns = in_kernel(args, program, packets, &mut ways)?;
    Ok(Row {
        program: path.display().to_string(),
        expectations: report.as_ref().map(|report| report.expectations),
        not_met: report.map_or(0, |report| report.failures.len() as u64),
        ways,
        item_ns,
    })
}

/// A run on a model that keeps all packets, with strict consistency: nothing else promises to be equal.
fn on_pipeline(name: &str, program: &Program, packets: &[Packet], stop: &AtomicBool) -> Way {
    let mut compiled = program.clone();
    passes::compile(&mut compiled);
    let image = match Image::new(Machine::new(compiled)) {
        Ok(image) => image,
        Err(error) => return Way::new(name, Outcome::Refused, Some(error.to_string())),
    };
    let model = match Model::named(name) {
        Some(Model::Rapid(options)) => {
            Model::Rapid(RapidOptions { consistency: Some(Consistency::Strict), ..options })
        }
        Some(model) => model,
        None => return Way::new(name, Outcome::NotTried, Some("no such model".to_owned())),
    };
    let inputs: Vec<Input<'_>> = packets
        .iter()
        .map(|packet| Input {
            port: packet.port,
            bytes: &packet.bytes,
            wire_len: packet.bytes.len() as u32,
            time_ns: packet.time_ns,
        })
        .collect();
    let options = Options { when_full: WhenFull::Stall, ..Options::default() };
    let mut check = Check::new(&image);
    match emulate_p4(&image, &model, &options, &inputs, &mut check, stop) {
        Ok(outcome) => {
            let found = check.finish(&image, Machine::new(program.clone()), &inputs, &outcome);
            Way::compared(name, found.first.or(found.state))
        }
        Err(error) => Way::new(name, Outcome::Refused, Some(error.to_string())),
    }
}

/// A program of one strategy, and its object.
struct Built {
    at: usize,
    compiled: Compiled,
    object: Vec<u8>,
}

/// Adds what comes of each strategy in the kernel. Gives the cost of an item.
fn in_kernel(
    args: &MatrixArgs,
    program: &Program,
    packets: &[Packet],
    ways: &mut Vec<Way>,
) -> Result<Option<f64>, Failure> {
    let mut built = Vec::new();
    for strategy in [Strategy::Sharded, Strategy::Shared, Strategy::Scr] {
        let name = strategy.to_string();
        let at = ways.len();
        ways.push(match build(program, strategy)? {
            Ok((compiled, object)) => match trials(program, &compiled, &object, packets) {
                Ok(difference) => {
                    built.push(Built { at, compiled, object });
                    Way::compared(&name, difference)
                }
                Err(LoadError::NoRights(why)) => Way::new(
                    &name,
                    Outcome::NotTried,
                    Some(format!("this process may not load BPF programs: {why}")),
                ),
                Err(error) => return Err(not_loaded(error)),
            },
            Err(way) => way,
        });
    }
    measure(args, program, &built, ways).map_err(not_loaded)
}

/// A program of a strategy and its object, or what came of it instead.
fn build(program: &Program, strategy: Strategy) -> Result<Result<(Compiled, Vec<u8>), Way>, Failure> {
    let name = strategy.to_string();
    let compiled = match compile(program, strategy) {
        Ok(compiled) => compiled,
        Err(refusals) => {
            return Ok(Err(Way::new(&name, Outcome::Refused, refusals.first().map(ToString::to_string))));
        }
    };
    match clang::object(&compiled) {
        Ok(object) => Ok(Ok((compiled, object))),
        Err(error @ BuildError::NoClang { .. }) => {
            Ok(Err(Way::new(&name, Outcome::NotTried, Some(error.to_string()))))
        }
        Err(error) => Err(not_built(error)),
    }
}

/// The first difference between the kernel and the interpreter.
fn trials(
    program: &Program,
    compiled: &Compiled,
    object: &[u8],
    packets: &[Packet],
) -> Result<Option<String>, LoadError> {
    let trial = |cores, recovers: bool, is_lost: &dyn Fn(u64) -> bool| {
        let loaded = trial::load(compiled, object, cores, recovers)?;
        trial::difference(program, compiled, &loaded, &Course { is_lost, ..Course::new(cores, packets) })
    };
    match compiled.strategy {
        Strategy::Sharded => trial(SHARDS, false, &|_| false),
        Strategy::Shared => trial(SHARERS, false, &|_| false),
        Strategy::Scr => match trial(REPLICAS, false, &|_| false)? {
            None => trial(RECOVERING, true, &|number| {
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 1023 < 102
            }),
            found => Ok(found),
        },
    }
}

fn measure(
    args: &MatrixArgs,
    program: &Program,
    built: &[Built],
    ways: &mut [Way],
) -> Result<Option<f64>, LoadError> {
    if args.runs == 0 {
        return Ok(None);
    }
    let flows = flows(FLOWS);
    let mut costs = Vec::new();
    for built in built {
        costs.push(Cost::new(program, &built.compiled, &built.object, &flows, 0)?);
    }
    let replicated = built.iter().position(|built| built.compiled.strategy == Strategy::Scr);
    if let Some(at) = replicated {
        costs.push(Cost::new(program, &built[at].compiled, &built[at].object, &flows, ITEMS)?);
    }
    let ns = in_turns(&costs, ROUNDS, args.runs)?;
    built.iter().zip(&ns).for_each(|(built, ns)| ways[built.at].packet_ns = Some(*ns));
    let with_items = replicated.and_then(|at| Some((ns.get(at)?, ns.get(built.len())?)));
    Ok(with_items.map(|(none, all)| (all - none).max(0.0) / f64::from(ITEMS)))
}

/// A table in Markdown, and why what is not equal is not.
fn render(matrix: &Matrix) -> String {
    let Some(first) = matrix.programs.first() else { return String::new() };
    let names: Vec<&str> = first.ways.iter().map(|way| way.name.as_str()).collect();
    let strategies = &names[Model::NAMES.len()..];
    let mut text = format!("| program | test | {} |", names.join(" | "));
    strategies.iter().for_each(|name| text += &format!(" {name}, ns |"));
    text += " an item, ns |\n|---|---|";
    text += &"---|".repeat(names.len());
    text += &"---:|".repeat(strategies.len() + 1);
    text.push('\n');
    let mut reasons: Vec<String> = Vec::new();
    for row in &matrix.programs {
        let test = row
            .expectations
            .map_or("none".to_owned(), |all| format!("{} of {all}", all - row.not_met.min(all)));
        text += &format!("| `{}` | {test} |", row.program);
        for way in &row.ways {
            let Some(why) = &way.why else {
                text += &format!(" {} |", way.outcome);
                continue;
            };
            let why = general(why, &row.program);
            let number = reasons.iter().position(|known| *known == why).unwrap_or_else(|| {
                reasons.push(why);
                reasons.len() - 1
            });
            text += &format!(" {} ({}) |", way.outcome, number + 1);
        }
        let measured = row.ways[Model::NAMES.len()..].iter().map(|way| (way.packet_ns, 0));
        for (ns, digits) in measured.chain([(row.item_ns, 1)]) {
            text += &ns.map_or(" - |".to_owned(), |ns| format!(" {ns:.digits$} |"));
        }
        text.push('\n');
    }
    for (number, why) in (1..).zip(reasons) {
        text += &format!("\n{number}. {why}");
    }
    text + "\n"
}

/// A reason without places in a program and the names before them, so that programs have reasons in common.
fn general(why: &str, program: &str) -> String {
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let is_place = |word: &str| word.trim_start_matches('(').starts_with(&format!("{file}:"));
    let mut words: Vec<&str> = Vec::new();
    for word in why.split_whitespace() {
        if !is_place(word) {
            words.push(word);
        } else if word.starts_with('(') {
            words.pop();
        } else if words.ends_with(&["used", "at"]) {
            words.truncate(words.len() - 2);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn reasons_have_no_places() {
        let known = "x.p4:4:2: register a.b (x.p4:4:2), used at x.p4:7:13, x.p4:8:1, and muTable a.c (x.p4:2:1) are apart";
        assert_eq!(general(known, "examples/x.p4"), "register and muTable are apart");
        assert_eq!(general("pisa: register a.b is new", "x.p4"), "pisa: register a.b is new");
    }
}
